"""The words of glTF 2.0's binary form that writing and reading share (Khronos, glTF 2.0 specification); nothing of avatars."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Json = dict[str, Any]

MAGIC = b"glTF"
JSON_CHUNK, BIN_CHUNK = 0x4E4F534A, 0x004E4942
ARRAY_BUFFER, ELEMENT_ARRAY_BUFFER = 34962, 34963
COMPONENT_DTYPES: dict[int, np.dtype[Any]] = {
    5121: np.dtype("u1"),
    5123: np.dtype("<u2"),
    5125: np.dtype("<u4"),
    5126: np.dtype("<f4"),
}
COMPONENT_TYPES = {dtype: number for number, dtype in COMPONENT_DTYPES.items()}
ACCESSOR_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
# Types of arrays that only an extension reads.
ARRAY_DTYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "f16": np.dtype("<f2"),
    "f32": np.dtype("<f4"),
}


def plain(value: object) -> object:
    """Value with numpy numbers and arrays as Python ones and numbers that are not finite as None, ready for JSON."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)
