"""A smaller file of the same avatar: every picture packed as tightly as it goes, and what is asked for beyond that, measured."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import check_writable
from avatar3d.glb import parse_glb, write_glb
from avatar3d.glb.extension import EXTENSION
from avatar3d.glb.gltf_reader import GltfReader, read_file


@dataclass(frozen=True)
class Optimised:
    """bytes_before, bytes_after: of the files. changed: {what is not the same bit for bit: how far off at most, in its own units}."""

    bytes_before: int
    bytes_after: int
    changed: dict[str, float]


def optimise(source: Path, target: Path, jpeg_quality: int | None = None, byte_field: bool = False) -> Optimised:
    """Write the avatar of `source` to `target` in fewer bytes, with the extension whole; both may be one file.

    Without more it is the same to the bit. jpeg_quality: 1 to 100, store the base colour as such a JPEG. byte_field: the field in
    8 bits. What a file holds as JPEG or in 8 bits already stays so. Raises InputError for a file without the extension, and as
    reading and writing do.
    """
    check_writable(target)
    data = read_file(source)
    reader = GltfReader(data, source)
    extensions = reader.document.get("extensions")
    content = extensions.get(EXTENSION) if isinstance(extensions, dict) else None
    if not isinstance(content, dict):
        raise InputError(
            f"{source} has no {EXTENSION}, whose parts this keeps; make a plain glTF smaller with `npx @gltf-transform/cli optimize`"
        )
    avatar = parse_glb(data, source)
    color = content["texture"]["baseColor"]
    kept = bytes(reader.view(color["bufferView"])) if color["mimeType"] == "image/jpeg" and jpeg_quality is None else None
    in_bytes = "field" in content and content["field"]["tables"]["type"] == "u8"
    write_glb(avatar, target, jpeg_quality or False, byte_field or in_bytes, smallest=True, encoded_color=kept)
    written = read_file(target)
    changed: dict[str, float] = {}
    _compare(avatar, parse_glb(written, target), "", changed)
    return Optimised(len(data), len(written), changed)


def _compare(before: object, after: object, name: str, changed: dict[str, float]) -> None:
    """Note the largest difference of every array and number of two avatars that differ."""
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        if not np.array_equal(before, after):
            off = np.inf if before.shape != after.shape else np.abs(before.astype(float) - after).max()
            changed[name] = max(changed.get(name, 0.0), float(off))
    elif is_dataclass(before) and type(before) is type(after):
        for part in fields(before):
            inner = f"{name}.{part.name}" if name else part.name
            _compare(getattr(before, part.name), getattr(after, part.name), inner, changed)
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for first, second in zip(before, after, strict=True):
            _compare(first, second, name, changed)
    elif isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        for key in before:
            _compare(before[key], after[key], f"{name}.{key}", changed)
    elif before != after and not (before != before and after != after):  # NaN: not measured, in both
        changed[name] = float("inf")
