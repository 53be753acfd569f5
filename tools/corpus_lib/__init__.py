"""The parts of tools/corpus: what is measured on (manifest, made), how (figures, films, drawn) and how it is shown."""
