"""Write docs/avatar-file.md, the page about the avatar's file, from the table that its reader and writer check by.

Run: python tools/avatar_file_page.py. A test compares the page with what this makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from avatar3d.glb import EXTENSION, budget  # noqa: E402
from avatar3d.glb.table import DIMENSIONS, MAX_FACES, MAX_WEIGHTS, NUMBERS, PICTURES, Number, range_text  # noqa: E402

PAGE = ROOT / "docs" / "avatar-file.md"

_HEAD = f"""# The avatar's file

An avatar is one glTF 2.0 binary. Its core holds what any viewer shows: the mesh by parts, a skin that bends the neck, the 52 ARKit
morph targets (sparse, with normals, named in `extras.targetNames`), nodes for neck, head and eyes, the base colour and a few hair
layers. The extension `{EXTENSION}`, an object at the document's root that is used and never required, adds the rest and names
buffer views of the core where the data is there already; `avatar3d/glb/__init__.py` has its outline. A file that another program
wrote without the extension is still an avatar: it is drawn by its core, the last rung of the quality ladder. Compressed files
(Draco, meshopt) are decompressed by `npx @gltf-transform/cli copy IN.glb OUT.glb` first.

This page is made by `tools/avatar_file_page.py` from `avatar3d/glb/table.py`, by which files are read and written: a number outside
its range is refused in one sentence that names it, on both ways.

## Numbers

`[]` is each entry of a list. A type in angle brackets is an array `{{bufferView, type, shape}}`; one without is a number, or a list of
the shape beside it, in the JSON text. Arrays of type `u8` have a member `step` and hold values (byte − 128) · step.

| place | type | range | unit | meaning |
|---|---|---|---|---|
"""

_PICTURES = """
## Pictures

`{bufferView, mimeType, width, height}`, PNG or JPEG, sides of 1 to 8192 pixels. Those with a `step` beside them hold values
(byte − 128) · step in each channel.

| place | channels | bytes a pixel | meaning |
|---|---|---|---|
"""


def _type(row: Number) -> str:
    shape = "" if not row.shape else " [" + ", ".join("…" if length is None else str(length) for length in row.shape) + "]"
    if row.kinds:
        return f"⟨{' '.join(row.kinds)}⟩{shape}"
    name = "whole number" if row.whole else "number"
    return f"{name}{' or null' if row.null else ''}{shape}"


def page() -> str:
    """The whole page."""
    lines = []
    for row in NUMBERS:
        place = f"`{row.path}`" + (" (may be missing)" if row.optional else "")
        unit = {"1": "", "": ""}.get(row.unit, row.unit)
        lines.append(f"| {place} | {_type(row)} | {range_text(row)} | {unit} | {row.meaning} |")
    pictures = []
    for picture in PICTURES:
        place = f"`{picture.path}`" + (" (may be missing)" if picture.optional else "")
        each = f"{picture.drawn_bytes}{' a hair level' if picture.each_level else ''}"
        pictures.append(f"| {place} | {' or '.join(picture.modes)} | {each} | {picture.meaning} |")
    lengths = [f"| {name} | {most} | {what} |" for name, (most, what) in DIMENSIONS.items()]
    limits = """
## Lengths and limits

| name | at most | what it counts |
|---|---|---|
"""
    rest = f"""
Before anything is decoded, what drawing would take is worked out from the JSON text: the pixels of all pictures, each times the bytes
that the table above states (decoded, as floats while it is made ready, and as textures), are {budget.MAX_DRAWN_BYTES // 2**20} MiB at
most, triangles, the hair's counted once for each level, {MAX_FACES}, and weights of the MLP {MAX_WEIGHTS}.
"""
    return _HEAD + "\n".join(lines) + "\n" + _PICTURES + "\n".join(pictures) + "\n" + limits + "\n".join(lengths) + "\n" + rest


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
