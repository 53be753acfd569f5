"""Numbers of an avatar's file changed by the table that its reader checks by: each at, just beyond and far beyond its limits."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import numpy as np

from avatar3d.glb import EXTENSION
from avatar3d.glb.table import NUMBERS, Number

Json = dict[str, Any]
_DTYPES = {"f16": "<f2", "f32": "<f4", "u8": "u1", "u16": "<u2", "u32": "<u4"}


def unpack(data: bytes) -> tuple[Json, bytes]:
    """(document, binary chunk) of a GLB."""
    length = struct.unpack_from("<I", data, 12)[0]
    return json.loads(data[20 : 20 + length]), data[28 + length :]


def pack(document: Json, body: bytes) -> bytes:
    """The GLB of both."""
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    body += bytes(-len(body) % 4)
    head = struct.pack("<4sIIII", b"glTF", 2, 28 + len(text) + len(body), len(text), 0x4E4F534A)
    return head + text + struct.pack("<II", len(body), 0x004E4942) + body


def _parents(document: Json, path: str) -> list[tuple[Any, str]]:
    """(object, its key) of all places that a path of the table names."""
    found: list[Any] = [document["extensions"][EXTENSION]]
    *folders, last = path.split(".")
    for folder in folders:
        name = folder.removesuffix("[]")
        inner = [item[name] for item in found if name in item]
        found = [entry for item in inner for entry in item] if folder.endswith("[]") else inner
    return [(item, last.removesuffix("[]")) for item in found if last.removesuffix("[]") in item]


def present(document: Json, row: Number) -> bool:
    """Whether a file has a number of the row, in the form that the row describes."""
    if row.path == "mesh.targets":
        return True
    places = _parents(document, row.path)
    return bool(places) and not (row.kinds and places[0][0][places[0][1]]["type"] == "u8")


def with_number(document: Json, body: bytes, row: Number, value: float, random: Random) -> bytes:
    """The file with one number of a row, chosen by `random`, replaced by `value`; the document is changed."""
    return pack(document, _changed(document, body, row, value, random))


def _changed(document: Json, body: bytes, row: Number, value: float, random: Random) -> bytes:
    """The body with such a number, or the same body where the number is in the document."""
    if row.path == "mesh.targets":
        return _with_target(document, body, value, random)
    parent, key = random.choice(_parents(document, row.path))
    if row.kinds:
        reference = parent[key]
        view = document["bufferViews"][reference["bufferView"]]
        dtype = np.dtype(_DTYPES[reference["type"]])
        return _placed(body, view["byteOffset"], int(np.prod(reference["shape"])), dtype, value, random)
    if row.path.endswith("[]"):
        parent[key][random.randrange(len(parent[key]))] = value
    elif row.shape:
        inner = parent[key]
        while isinstance(inner[0], list):
            inner = random.choice(inner)
        inner[random.randrange(len(inner))] = value
    else:
        parent[key] = value
    return body


def _with_target(document: Json, body: bytes, value: float, random: Random) -> bytes:
    head = next(mesh for mesh in document["meshes"] if mesh["name"] == "head")["primitives"][0]
    accessors = [document["accessors"][target["POSITION"]] for target in head["targets"]]
    sparse = random.choice([item["sparse"] for item in accessors if "sparse" in item])
    view = document["bufferViews"][sparse["values"]["bufferView"]]
    return _placed(body, view["byteOffset"], 3 * sparse["count"], np.dtype("<f4"), value, random)


def _placed(body: bytes, start: int, count: int, dtype: np.dtype[Any], value: float, random: Random) -> bytes:
    start += random.randrange(count) * dtype.itemsize
    if dtype.kind == "f":
        number = np.clip(value, -np.finfo(dtype).max, np.finfo(dtype).max).astype(dtype).tobytes()
    else:
        number = int(min(max(value, 0), np.iinfo(dtype).max)).to_bytes(dtype.itemsize, "little")
    return body[:start] + number + body[start + dtype.itemsize :]


def beyond(row: Number) -> list[float]:
    """Numbers outside a row's range: just, and as far as its type goes."""
    high = 2.0**31 if isinstance(row.high, str) else row.high
    if row.whole:
        return [row.low - 1, high + 1, 10.0**18]
    span = high - row.low
    found = [row.low - 0.01 * span, high + 0.01 * span, 9e29, -9e29, 3e38, -3e38]
    return [value for value in found if not ("u16" in row.kinds and value < 0)]


def limits(row: Number) -> list[float]:
    """The ends of a row's range."""
    return [row.low, row.low if isinstance(row.high, str) else row.high]


class Numbers:
    """Files with one to three numbers of the table at or beyond their limits."""

    def __init__(self, files: list[bytes]) -> None:
        self._files = []
        for data in files:
            document, body = unpack(data)
            self._files.append((data, [row for row in NUMBERS if present(document, row)]))

    def mutated(self, random: Random) -> bytes:
        """One such file."""
        data, rows = random.choice(self._files)
        document, body = unpack(data)
        for _ in range(random.choice((1, 1, 2, 3))):
            row = random.choice(rows)
            value = random.choice(limits(row) * 4 + beyond(row))
            body = _changed(document, body, row, int(value) if row.whole else value, random)
        return pack(document, body)
