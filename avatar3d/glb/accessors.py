"""Accessors, node transforms and images of any glTF 2.0 document, for files that other programs wrote; checked on the way."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

from avatar3d.errors import InputError
from avatar3d.glb.gltf import Json
from avatar3d.glb.gltf_reader import MAX_IMAGE_SIDE, GltfReader

_COMPONENTS = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
_IMAGE_FORMATS = ("PNG", "JPEG", "WEBP")
MAX_DEPTH = 64  # of nodes in each other


def accessor(reader: GltfReader, index: object, width: int, limit: int, name: str) -> np.ndarray:
    """(n, width) f64 of an accessor of at most `limit` elements; normalised whole numbers as shares (glTF 2.0, section 3.6.2).

    Raises InputError naming what is wrong with `name`.
    """
    item = reader.pick("accessors", index)
    if _WIDTHS.get(str(item.get("type"))) != width:
        raise reader.damaged(f"{name} has the type {str(item.get('type'))[:20]}")
    count = reader.integer(item, "count", 1, limit)
    dtype = _dtype(reader, item, name)
    reader.spend(16 * count * width)
    values = np.zeros((count, width))
    if "bufferView" in item:
        with np.errstate(invalid="ignore"):  # a signalling NaN is refused below
            values[:] = _elements(reader, item, item.get("bufferView"), dtype, count, width, name)
    if "sparse" in item:
        sparse = reader.member(item, "sparse")
        some = reader.integer(sparse, "count", 1, count)
        indices = reader.member(sparse, "indices")
        rows = _elements(reader, indices, indices.get("bufferView"), _dtype(reader, indices, name), some, 1, name)[:, 0]
        if rows.dtype.kind == "f" or rows.min() < 0 or rows.max() >= count:
            raise reader.damaged(f"{name} has sparse indices out of range")
        inner = reader.member(sparse, "values")
        with np.errstate(invalid="ignore"):
            values[rows] = _elements(reader, inner, inner.get("bufferView"), dtype, some, width, name)
    if item.get("normalized") is True and dtype.kind in "iu":
        values = np.maximum(values / np.iinfo(dtype).max, -1.0)
    if not np.isfinite(values).all():
        raise reader.damaged(f"{name} holds a value that is not finite")
    return values


def _dtype(reader: GltfReader, item: Json, name: str) -> np.dtype[Any]:
    found = item.get("componentType")
    if type(found) is not int or found not in _COMPONENTS:
        raise reader.damaged(f"{name} has the component type {str(found)[:20]}")
    return np.dtype(_COMPONENTS[found])


def _elements(
    reader: GltfReader, item: Json, view: object, dtype: np.dtype[Any], count: int, width: int, name: str
) -> np.ndarray:
    """(count, width) at item's byteOffset of a buffer view, whose stride is followed."""
    data, stride = reader.strided(view)
    start = reader.integer(item, "byteOffset", 0, len(data)) if "byteOffset" in item else 0
    size = width * dtype.itemsize
    step = size if stride is None else stride
    if step < size or start + (count - 1) * step + size > len(data):
        raise reader.damaged(f"{name} reaches beyond its buffer view")
    return np.ndarray((count, width), dtype, data, start, (step, dtype.itemsize)).copy()


def node_places(reader: GltfReader) -> tuple[dict[int, np.ndarray], dict[int, tuple[str, ...]]]:
    """({node: (4, 4) world transform}, {node: names from its root to itself}) of every node that a root reaches."""
    nodes = reader.entries(reader.document, "nodes")
    inner = (child for node in nodes if isinstance(node, dict) for child in reader.entries(node, "children"))
    children = {child for child in inner if type(child) is int}
    places: dict[int, np.ndarray] = {}
    names: dict[int, tuple[str, ...]] = {}
    roots = [index for index in range(len(nodes)) if index not in children]
    todo: list[tuple[int, np.ndarray, tuple[str, ...]]] = [(index, np.eye(4), ()) for index in roots]
    while todo:
        index, outer, above = todo.pop()
        node = reader.pick("nodes", index)
        if index in places or len(above) > MAX_DEPTH:
            raise reader.damaged("its nodes hold each other")
        places[index] = outer @ _local(reader, node)
        names[index] = (*above, str(node.get("name", ""))[:80])
        todo += [(child, places[index], names[index]) for child in reader.entries(node, "children")]
    return places, names


def _local(reader: GltfReader, node: Json) -> np.ndarray:
    """(4, 4) of a node's matrix, or of its translation, rotation and scale (section 3.5.3)."""
    if "matrix" in node:
        return reader.numbers(node, "matrix", (16,)).reshape(4, 4).T
    matrix = np.eye(4)
    if "rotation" in node:
        x, y, z, w = reader.numbers(node, "rotation", (4,))
        matrix[:3, :3] = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    if "scale" in node:
        matrix[:3, :3] *= reader.numbers(node, "scale", (3,))
    if "translation" in node:
        matrix[:3, 3] = reader.numbers(node, "translation", (3,))
    return matrix


def image(reader: GltfReader, texture: object, most_pixels: int) -> np.ndarray:
    """(H, W, 4) u8 of a texture's picture, as large as `most_pixels` at most; raises InputError."""
    item = reader.pick("textures", texture)
    webp = item.get("extensions", {}).get("EXT_texture_webp", {}) if isinstance(item.get("extensions", {}), dict) else {}
    source = webp.get("source", item.get("source")) if isinstance(webp, dict) else item.get("source")
    if source is None:
        raise reader.damaged(
            "a texture's picture is compressed for graphics chips (KTX2), not decoded here; export PNG or JPEG"
        )
    picture = reader.pick("images", source)
    if "bufferView" not in picture:
        raise reader.damaged("a texture's picture lies in a file of its own; export one GLB with its textures inside")
    data, _ = reader.strided(picture["bufferView"])
    try:
        with Image.open(io.BytesIO(data), formats=_IMAGE_FORMATS) as opened:
            if max(opened.size) > MAX_IMAGE_SIDE or opened.size[0] * opened.size[1] > most_pixels:
                raise reader.damaged(f"a texture of {opened.size[0]}×{opened.size[1]} pixels is more than is drawn")
            reader.spend(8 * opened.size[0] * opened.size[1])
            return np.array(opened.convert("RGBA"))
    except (InputError, MemoryError):
        raise
    except Exception as error:  # Pillow's decoders raise a dozen kinds on damaged data
        raise reader.damaged(f"a texture's picture cannot be decoded ({type(error).__name__})") from error
