"""Writes a glTF 2.0 binary: collects buffer views, accessors and images. It knows glTF and nothing of avatars."""

from __future__ import annotations

import hashlib
import io
import json
import struct

import numpy as np
from PIL import Image

from avatar3d.glb.gltf import (
    ACCESSOR_WIDTHS,
    ARRAY_BUFFER,
    ARRAY_DTYPES,
    BIN_CHUNK,
    COMPONENT_TYPES,
    ELEMENT_ARRAY_BUFFER,
    JSON_CHUNK,
    MAGIC,
    Json,
)  # fmt: skip
from avatar3d.png import encode_png, smallest_png


class GltfWriter:
    """Collects a document; equal byte strings are stored once, so an extension may name data that the core also holds.

    smallest: take longer over pictures, for a smaller file of the same pixels.
    """

    def __init__(self, generator: str, smallest: bool = False) -> None:
        self._png = smallest_png if smallest else encode_png
        self.document: Json = {"asset": {"version": "2.0", "generator": generator}}
        self._blocks: list[bytes] = []
        self._length = 0
        self._views: dict[tuple[bytes, int | None], int] = {}

    def add(self, kind: str, item: Json) -> int:
        """Append to a top-level list such as "nodes"; returns the index."""
        items = self.document.setdefault(kind, [])
        items.append(item)
        return len(items) - 1

    def view(self, data: bytes, target: int | None = None, stride: int | None = None) -> int:
        """Index of the buffer view that holds `data` for `target`, aligned to 4 bytes."""
        key = (hashlib.sha256(data).digest(), target)
        if key not in self._views:
            item: Json = {"buffer": 0, "byteOffset": self._length, "byteLength": len(data)}
            if stride is not None:
                item["byteStride"] = stride
            if target is not None:
                item["target"] = target
            block = data + bytes(-len(data) % 4)
            self._blocks.append(block)
            self._length += len(block)
            self._views[key] = self.add("bufferViews", item)
        return self._views[key]

    def vertex_view(self, values: np.ndarray) -> int:
        """Index of the buffer view of a vertex attribute (n, width), which several accessors may share."""
        return self.view(values.tobytes(), ARRAY_BUFFER, values.strides[0])

    def accessor(
        self,
        view: int,
        values: np.ndarray,
        byte_offset: int = 0,
        bounds: bool = False,
        normalized: bool = False,
    ) -> int:
        """Accessor of `values` (n,) or (n, width), which lie at byte_offset of the view; bounds adds min and max."""
        item: Json = {"bufferView": view, **self._shape(values)}
        if byte_offset:
            item["byteOffset"] = byte_offset
        if normalized:
            item["normalized"] = True
        if bounds:
            item |= {"min": values.min(0).tolist(), "max": values.max(0).tolist()}
        return self.add("accessors", item)

    def sparse_accessor(
        self, values: np.ndarray, indices_view: int, indices_offset: int, rows: np.ndarray, values_view: int
    ) -> int:
        """Accessor of `values` (n, 3) f32 that are zero outside `rows`.

        rows: (k,) u2 or u4 rising, stored at indices_offset of indices_view; their values fill values_view.
        Without rows the accessor has no data, which glTF reads as zeros.
        """
        item: Json = {**self._shape(values), "min": values.min(0).tolist(), "max": values.max(0).tolist()}
        if len(rows):
            item["sparse"] = {
                "count": len(rows),
                "indices": {
                    "bufferView": indices_view,
                    "byteOffset": indices_offset,
                    "componentType": COMPONENT_TYPES[rows.dtype.newbyteorder("<")],
                },
                "values": {"bufferView": values_view},
            }
        return self.add("accessors", item)

    @staticmethod
    def _shape(values: np.ndarray) -> Json:
        width = values.shape[1] if values.ndim == 2 else 1
        name = next(name for name, count in ACCESSOR_WIDTHS.items() if count == width)
        component = COMPONENT_TYPES[values.dtype.newbyteorder("<")]
        return {"componentType": component, "count": len(values), "type": name}

    def array(self, values: np.ndarray, kind: str) -> Json:
        """Reference of an array for an extension: {bufferView, type, shape}; kind is a key such as "f32"."""
        data = np.ascontiguousarray(values, dtype=ARRAY_DTYPES[kind])
        content = data.tobytes()
        digest = hashlib.sha256(content).digest()
        core = (self._views.get((digest, target)) for target in (ARRAY_BUFFER, ELEMENT_ARRAY_BUFFER))
        view = next((index for index in core if index is not None), None)
        return {
            "bufferView": self.view(content) if view is None else view,
            "type": kind,
            "shape": list(data.shape),
        }

    def indices(self, values: np.ndarray) -> Json:
        """Reference of an array of numbers from 0, in 16 bits where they fit."""
        return self.array(values, "u16" if values.size == 0 or values.max() < 2**16 else "u32")

    def picture(self, pixels: np.ndarray) -> Json:
        """Reference of a PNG of (H, W) or (H, W, 3 or 4) u8: {bufferView, mimeType, width, height}."""
        return self.encoded(self._png(pixels), "image/png", pixels)

    def jpeg(self, pixels: np.ndarray, quality: int) -> Json:
        """Reference of a JPEG of (H, W, 3) u8 without chroma subsampling."""
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "JPEG", quality=quality, subsampling=0)
        return self.encoded(buffer.getvalue(), "image/jpeg", pixels)

    def encoded(self, data: bytes, mime: str, pixels: np.ndarray) -> Json:
        """Reference of a picture whose file, `data`, shows these pixels."""
        height, width = pixels.shape[:2]
        return {"bufferView": self.view(data), "mimeType": mime, "width": width, "height": height}

    def texture(self, picture: Json, name: str, sampler: int) -> int:
        """Index of a core texture that shows a picture reference."""
        image = {"name": name, "mimeType": picture["mimeType"], "bufferView": picture["bufferView"]}
        return self.add("textures", {"sampler": sampler, "source": self.add("images", image)})

    def to_bytes(self) -> bytes:
        """The GLB: header, JSON chunk, binary chunk."""
        document = {**self.document, "buffers": [{"byteLength": self._length}]}
        text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        body = b"".join(self._blocks)
        total = 12 + 8 + len(text) + 8 + len(body)
        return b"".join(
            [
                MAGIC + struct.pack("<II", 2, total),
                struct.pack("<II", len(text), JSON_CHUNK) + text,
                struct.pack("<II", len(body), BIN_CHUNK) + body,
            ]
        )
