"""Takes a glTF 2.0 binary apart with every size checked. It knows glTF and nothing of avatars."""

from __future__ import annotations

import io
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from avatar3d.errors import InputError
from avatar3d.files import open_regular, read_bounded
from avatar3d.glb.gltf import ARRAY_DTYPES, BIN_CHUNK, COMPONENT_DTYPES, JSON_CHUNK, MAGIC, Json

MAX_FILE_BYTES = 256 * 2**20  # an avatar is about 6 MB; more than this is not one
MAX_JSON_BYTES = 4 * 2**20  # Python's objects take some twenty times the text; an avatar has 60 kB
MAX_DECODED_BYTES = 2**30  # arrays and pictures together, as they lie in memory
MAX_IMAGE_SIDE = 8192  # pixels
MAX_ITEMS = 100_000  # of any list in the JSON that is walked
# Required extensions that hide the mesh; gltf-transform's copy undoes them.
_COMPRESSIONS = ("KHR_draco_mesh_compression", "EXT_meshopt_compression", "KHR_meshopt_compression")
_MIME_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG"}


def read_file(path: str | Path) -> bytes:
    """The bytes of a GLB file; raises InputError where there is none or it is larger than MAX_FILE_BYTES."""
    path = Path(path)
    with open_regular(path, "avatar") as stream:
        size = os.fstat(stream.fileno()).st_size
    if size > MAX_FILE_BYTES:
        raise InputError(
            f"{path} is {size / 2**20:.0f} MiB; an avatar is at most {MAX_FILE_BYTES // 2**20} MiB, so this is another file"
        )
    return read_bounded(path, "avatar", MAX_FILE_BYTES)


class GltfReader:
    """The bytes of a GLB, taken apart. Methods raise InputError, naming the file, on what is missing, too large or inconsistent."""

    def __init__(self, data: bytes, path: str | Path) -> None:
        self.path = path
        self._budget = MAX_DECODED_BYTES
        if not data:
            raise InputError(f"{self.path} is empty; give an avatar written by `avatar3d enroll`")
        self.document, self._body = self._split(data)
        self._check_buffer()

    def damaged(self, what: str) -> InputError:
        """The error for a file that contradicts itself."""
        return InputError(f"{self.path} is damaged: {what}; copy it again or enrol the photo again")

    def _split(self, data: bytes) -> tuple[Json, memoryview]:
        if data[:4] != MAGIC:
            hint = "a glTF text file; convert it to binary GLB" if data.lstrip()[:1] == b"{" else "not a GLB"
            raise InputError(f"{self.path} is {hint}: expected the bytes 'glTF' first, as `avatar3d enroll` writes")
        if len(data) < 20:
            raise InputError(f"{self.path} is truncated: {len(data)} bytes; copy it again")
        version, total = struct.unpack_from("<II", data, 4)
        if version != 2:
            raise InputError(f"{self.path} is glTF version {version}; avatar3d reads version 2, so export it as that")
        if total > len(data):
            raise InputError(f"{self.path} is truncated: {len(data)} of {total} bytes; copy it again")
        if total < len(data):
            raise self.damaged(f"{len(data) - total} bytes follow its stated end")
        length, kind = struct.unpack_from("<II", data, 12)
        if kind != JSON_CHUNK or length > total - 20:
            raise self.damaged("its first chunk is not whole JSON")
        if length > MAX_JSON_BYTES:
            raise self.damaged(f"its JSON takes {length} bytes of the {MAX_JSON_BYTES} allowed")
        document = self._parse(data[20 : 20 + length])
        body = memoryview(b"")
        start = 20 + length
        if start + 8 <= total:
            length, kind = struct.unpack_from("<II", data, start)
            if kind != BIN_CHUNK or length > total - start - 8:
                raise self.damaged("its second chunk is not whole binary data")
            body = memoryview(data)[start + 8 : start + 8 + length]
        return document, body

    def _parse(self, text: bytes) -> Json:
        def refuse(constant: str) -> object:
            raise ValueError(f"{constant} is not JSON")

        try:
            document = json.loads(text.decode("utf-8"), parse_constant=refuse)
        except (ValueError, RecursionError) as error:
            raise self.damaged(f"its JSON cannot be read ({str(error)[:80]})") from error
        if not isinstance(document, dict):
            raise self.damaged("its JSON is not an object")
        return document

    def _check_buffer(self) -> None:
        needed = self.document.get("extensionsRequired", [])
        for name in _COMPRESSIONS:
            if isinstance(needed, list) and name in needed:
                raise InputError(
                    f"{self.path} is compressed ({name}), which avatar3d does not decode; decompress it with"
                    " `npx @gltf-transform/cli copy IN.glb OUT.glb`"
                )
        buffers = self.entries(self.document, "buffers", 1)
        if len(buffers) != 1 or not isinstance(buffers[0], dict) or "uri" in buffers[0]:
            raise self.damaged("it does not hold exactly one buffer of its own")
        if self.integer(buffers[0], "byteLength", 0, MAX_FILE_BYTES) > len(self._body):
            raise self.damaged("its buffer is longer than its binary chunk")

    def spend(self, count: int) -> None:
        """Count bytes about to be allocated against MAX_DECODED_BYTES."""
        self._budget -= count
        if self._budget < 0:
            raise self.damaged(f"it would take more than {MAX_DECODED_BYTES // 2**20} MiB of memory")

    def member(self, parent: Json, key: str) -> Json:
        """Parent's member `key`, which must be an object."""
        value = parent.get(key)
        if not isinstance(value, dict):
            raise self.damaged(f"{key} is not an object")
        return value

    def entries(self, parent: Json, key: str, limit: int = MAX_ITEMS) -> list[Any]:
        """Parent's member `key`, which must be a list of at most `limit`; a missing one is empty."""
        value = parent.get(key, [])
        if not isinstance(value, list) or len(value) > limit:
            raise self.damaged(f"{key} is not a list of at most {limit}")
        return value

    def integer(self, parent: Json, key: str, low: int, high: int) -> int:
        """Parent's whole number `key` in [low, high]."""
        value = parent.get(key)
        if type(value) is not int or not low <= value <= high:
            raise self.damaged(f"{key} is not a whole number from {low} to {high}")
        return value

    def number(self, parent: Json, key: str, missing_as_nan: bool = False) -> float:
        """Parent's finite number `key`; null reads as NaN where that is allowed."""
        value = parent.get(key)
        if value is None and missing_as_nan:
            return math.nan
        return self._finite(value, key)

    def numbers(self, parent: Json, key: str, shape: tuple[int, ...]) -> np.ndarray:
        """Parent's nested list `key` of finite numbers as float64 of exactly `shape`."""
        values: list[float] = []

        def collect(value: object, rest: tuple[int, ...]) -> None:
            if not rest:
                values.append(self._finite(value, key))
            elif not isinstance(value, list) or len(value) != rest[0]:
                raise self.damaged(f"{key} does not have the shape {shape}")
            else:
                for item in value:
                    collect(item, rest[1:])

        collect(parent.get(key), shape)
        return np.array(values).reshape(shape)

    def _finite(self, value: object, key: str) -> float:
        """Value as a float; 1e30 keeps squares and products in range, and nothing an avatar holds comes near."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e30:
            raise self.damaged(f"{key} holds something that is not a finite number")
        return float(value)

    def text(self, parent: Json, key: str) -> str:
        """Parent's string `key`."""
        value = parent.get(key)
        if not isinstance(value, str):
            raise self.damaged(f"{key} is not text")
        return value

    def pick(self, kind: str, index: object) -> Json:
        """Element `index` of a top-level list."""
        items = self.entries(self.document, kind)
        if type(index) is not int or not 0 <= index < len(items) or not isinstance(items[index], dict):
            raise self.damaged(f"it names {kind}[{str(index)[:20]}], which it does not hold")
        return items[index]

    def view(self, index: object, row_bytes: int | None = None) -> memoryview:
        """The bytes of a buffer view; a stride, if it states one, must be row_bytes."""
        data, stride = self.strided(index)
        if stride not in (None, row_bytes):
            raise self.damaged(f"bufferViews[{str(index)[:20]}] is not a tight range of the first buffer")
        return data

    def strided(self, index: object) -> tuple[memoryview, int | None]:
        """(the bytes of a buffer view, its stride if it states one)."""
        item = self.pick("bufferViews", index)
        if item.get("buffer") != 0:
            raise self.damaged(f"bufferViews[{str(index)[:20]}] is not a range of the first buffer")
        stride = self.integer(item, "byteStride", 1, 252) if "byteStride" in item else None
        start = self.integer(item, "byteOffset", 0, len(self._body)) if "byteOffset" in item else 0
        length = self.integer(item, "byteLength", 1, len(self._body))
        if start + length > len(self._body):
            raise self.damaged(f"bufferViews[{str(index)[:20]}] reaches beyond the binary data")
        return self._body[start : start + length], stride

    def array(self, parent: Json, key: str, kinds: str | tuple[str, ...], shape: tuple[int | None, ...]) -> np.ndarray:
        """Parent's array reference `key` as a new array; None in `shape` accepts any length. Floats must be finite."""
        reference = self.member(parent, key)
        kind = reference.get("type")
        if kind not in ((kinds,) if isinstance(kinds, str) else kinds):
            raise self.damaged(f"{key} has the type {str(kind)[:20]}")
        found = self.entries(reference, "shape", 8)
        fits = len(found) == len(shape) and all(
            type(have) is int and 0 <= have <= MAX_FILE_BYTES and want in (None, have)
            for have, want in zip(found, shape, strict=True)
        )
        if not fits:
            raise self.damaged(f"{key} has the shape {str(found)[:60]}, expected {shape}")
        dtype = ARRAY_DTYPES[str(kind)]
        data = self.view(reference.get("bufferView"), math.prod(found[1:]) * dtype.itemsize)
        if math.prod(found) * dtype.itemsize != len(data):
            raise self.damaged(f"{key} has {len(data)} bytes, its shape {found} needs others")
        return self._decoded(data, dtype, key).reshape(found)

    def _decoded(self, data: memoryview, dtype: np.dtype[Any], what: str) -> np.ndarray:
        """A new native array: f4 for floats, i4 for numbers of 16 and 32 bits, u1 for bytes."""
        self.spend(len(data) // dtype.itemsize * 4)
        raw = np.frombuffer(data, dtype)
        if dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # a signalling NaN is refused below
                values = raw.astype(np.float32)
            if not np.isfinite(values).all():
                raise self.damaged(f"{what} holds a value that is not finite")
            return values
        if dtype.itemsize == 1:
            return raw.copy()
        if raw.size and raw.max() >= 2**31:
            raise self.damaged(f"{what} holds a number over 2³¹")
        return raw.astype(np.int32)

    def _range(self, item: Json, width: int, count: int, what: str) -> np.ndarray:
        """(count * width,) numbers at item's bufferView, byteOffset and componentType."""
        dtype = COMPONENT_DTYPES.get(self.integer(item, "componentType", 5120, 5126))
        if dtype is None:
            raise self.damaged(f"{what} has a component type that avatar3d does not write")
        data = self.view(item.get("bufferView"), width * dtype.itemsize)
        start = self.integer(item, "byteOffset", 0, len(data)) if "byteOffset" in item else 0
        length = count * width * dtype.itemsize
        if start + length > len(data):
            raise self.damaged(f"{what} reaches beyond its buffer view")
        return self._decoded(data[start : start + length], dtype, what)

    def scalars(self, index: object, limit: int) -> np.ndarray:
        """(n,) i32 of an accessor of indices, each under `limit`."""
        item = self.pick("accessors", index)
        if item.get("type") != "SCALAR" or item.get("componentType") == 5126 or "sparse" in item:
            raise self.damaged(f"accessors[{str(index)[:20]}] does not hold plain indices")
        values = self._range(item, 1, self.integer(item, "count", 1, MAX_FILE_BYTES), f"accessors[{str(index)[:20]}]")
        if values.max() >= limit:
            raise self.damaged(f"accessors[{str(index)[:20]}] holds an index over {limit - 1}")
        return values.astype(np.int32)

    def read_vectors(self, index: object, into: np.ndarray) -> None:
        """Read an accessor of 3-vectors, sparse or not, over `into`, (n, 3) f32 zeros of the same length."""
        item = self.pick("accessors", index)
        what = f"accessors[{str(index)[:20]}]"
        if item.get("type") != "VEC3" or item.get("componentType") != 5126 or item.get("count") != len(into):
            raise self.damaged(f"{what} does not hold {len(into)} vectors")
        if "bufferView" in item:
            into[:] = self._range(item, 3, len(into), what).reshape(-1, 3)
        if "sparse" in item:
            sparse = self.member(item, "sparse")
            count = self.integer(sparse, "count", 1, len(into))
            rows = self._range(self.member(sparse, "indices"), 1, count, what)
            if rows.dtype == np.float32 or rows[-1] >= len(into) or (np.diff(rows.astype(np.int64)) <= 0).any():
                raise self.damaged(f"{what} has sparse indices that do not rise within its count")
            values = {**self.member(sparse, "values"), "componentType": 5126}
            into[rows] = self._range(values, 3, count, what).reshape(-1, 3)

    def picture(self, parent: Json, key: str, modes: tuple[str, ...], bytes_per_sample: int = 1) -> np.ndarray:
        """Parent's picture reference `key` as (H, W) or (H, W, C) u8; modes are Pillow's that are accepted.

        bytes_per_sample: what the caller will expand each sample to, counted before anything is decoded.
        """
        reference = self.member(parent, key)
        width = self.integer(reference, "width", 1, MAX_IMAGE_SIDE)
        height = self.integer(reference, "height", 1, MAX_IMAGE_SIDE)
        mime = reference.get("mimeType")
        if not isinstance(mime, str) or mime not in _MIME_FORMATS:
            raise self.damaged(f"the picture {key} is neither PNG nor JPEG")
        data = self.view(reference.get("bufferView"))
        try:
            with Image.open(io.BytesIO(data), formats=(_MIME_FORMATS[mime],)) as image:
                if image.size != (width, height) or image.mode not in modes:
                    raise self.damaged(f"the picture {key} is {image.size} {image.mode}, stated {(width, height)}")
                self.spend(width * height * len(image.getbands()) * max(bytes_per_sample, 1))
                return np.array(image)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # Pillow's decoders raise a dozen kinds on damaged data
            raise self.damaged(f"the picture {key} cannot be decoded ({type(error).__name__})") from error
