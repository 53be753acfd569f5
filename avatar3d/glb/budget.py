"""What an avatar would take to draw, told from its JSON text alone: refused before anything is decoded."""

from __future__ import annotations

from avatar3d.glb.gltf import Json
from avatar3d.glb.gltf_reader import GltfReader
from avatar3d.glb.table import MAX_FACES, MAX_WEIGHTS, PICTURES

MAX_DRAWN_BYTES = 3 * 2**29  # enrolment's avatars take 0.33 of the 1.5 GiB


def check_budget(reader: GltfReader, content: Json) -> None:
    """Raise InputError where the pictures that the extension's object states, the triangles or the MLP are more than is drawn.

    What is malformed counts as nothing here; reading it says what is wrong with it.
    """
    total, levels = 0, max((_length(entry) for entry in _found(content, ["hair", "levels"])), default=0)
    for row in PICTURES:
        pixels = sum(_pixels(entry) for entry in _found(content, row.path.split(".")))
        total += row.drawn_bytes * pixels * (levels if row.each_level else 1)
        if total > MAX_DRAWN_BYTES:
            raise reader.damaged(
                f"its pictures would take {total / 2**20:.0f} MiB of memory up to {row.path}, more than"
                f" {MAX_DRAWN_BYTES // 2**20} MiB"
            )
    faces = _faces(reader, content)
    if faces > MAX_FACES:
        raise reader.damaged(f"it has {faces} triangles, its hair's counted once for each level, more than {MAX_FACES}")

    weights = sum(_length(entry) * _length(entry, 1) for entry in _found(content, ["field", "layers[]", "weight"]))
    if weights > MAX_WEIGHTS:
        raise reader.damaged(f"its field's MLP has {weights} weights, more than {MAX_WEIGHTS}")


def _found(value: object, path: list[str]) -> list[object]:
    """What lies at a path of the table, [] being every entry of a list."""
    if not path:
        return [value]
    key = path[0].removesuffix("[]")
    inner = value.get(key) if isinstance(value, dict) else None
    if inner is None:
        return []
    if not path[0].endswith("[]"):
        return _found(inner, path[1:])
    return [found for entry in inner for found in _found(entry, path[1:])] if isinstance(inner, list) else []


def _pixels(reference: object) -> int:
    sides = [reference.get(key) if isinstance(reference, dict) else None for key in ("width", "height")]
    width, height = (side if type(side) is int and side > 0 else 0 for side in sides)
    return width * height


def _length(value: object, place: int = 0) -> int:
    """A length of an array reference's shape."""
    shape = value.get("shape") if isinstance(value, dict) else None
    length = shape[place] if isinstance(shape, list) and len(shape) > place else 0
    return length if type(length) is int and length > 0 else 0


def _faces(reader: GltfReader, content: Json) -> int:
    """Triangles of the head's runs, and of the hair's grid for each level."""
    total = 0
    for run in (
        entry for found in _found(content, ["mesh", "faceRuns"]) for entry in (found if isinstance(found, list) else [])
    ):
        if isinstance(run, list) and len(run) == 2 and type(run[1]) is int:
            total += max(run[1], 0)
    hair = content.get("hair")
    if isinstance(hair, dict):
        total += _length(hair.get("faces")) * max(_length(hair.get("levels")), 1)
    return total
