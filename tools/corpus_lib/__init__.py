"""The parts of tools/corpus: what is measured on (manifest, made), how (likeness, figures, films) and how it is shown."""
