"""Colours as textures hold them, and how a shader turns a sample into linear light; arrays only.

Colours are decoded ahead: a software driver decodes sRGB for each of the four texels of a sample. Eight bits hold the square root,
which a shader undoes with one multiplication.
"""

from __future__ import annotations

import numpy as np

from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.rendering.frame import Precision

LINEAR_OF_BYTE = srgb_to_linear(np.arange(256, dtype=np.uint8)).astype(np.float16)
ROOT_OF_BYTE = np.rint(np.sqrt(srgb_to_linear(np.arange(256, dtype=np.uint8))) * 255).astype(np.uint8)
DTYPES = {"half": "f2", "byte": "f1", "srgb": "f1"}
COLOR_OF_SAMPLE = {"half": "(value)", "byte": "((value) * (value))", "srgb": "(value)"}


def color_texels(rgb: np.ndarray, colors: str, detail: np.ndarray | None = None) -> np.ndarray:
    """(H, W, 4) texels of (H, W, 3) u8 sRGB with a linear detail added; drivers hold three channels as four."""
    if detail is None:
        return with_fourth(rgb if colors == "srgb" else (ROOT_OF_BYTE if colors == "byte" else LINEAR_OF_BYTE)[rgb])
    linear = LINEAR_OF_BYTE.astype(np.float32)[rgb] + detail
    if colors == "half":
        return with_fourth(linear.astype(np.float16))
    return with_fourth(to_u8(np.sqrt(linear.clip(0, 1)) if colors == "byte" else linear_to_srgb(linear)))


def folded_texels(values: np.ndarray, precision: Precision, dtype: str | None = None) -> np.ndarray:
    """(..., 4) texels of linear colours and opacities; dtype: other than the precision's own."""
    if precision == "byte":
        values = np.concatenate([np.sqrt(values[..., :3].clip(0, 1)), values[..., 3:]], axis=-1)
    if (dtype or DTYPES[precision]) == "f1":
        return np.rint(values * 255).astype(np.uint8)
    return values.astype(np.float16)


def with_fourth(values: np.ndarray) -> np.ndarray:
    """(..., 4) of (..., 3): filled up with zeros."""
    return np.concatenate([values, np.zeros((*values.shape[:-1], 1), values.dtype)], axis=-1)


def texel_bytes(image: np.ndarray, dtype: str) -> bytes:
    """An image's content as a texture of moderngl's `dtype` takes it."""
    return np.ascontiguousarray(image, {"f1": np.uint8, "f2": np.float16, "f4": np.float32}[dtype]).tobytes()


def write_rows(texture: object, texels: np.ndarray, first: int, level: int | None = None) -> int:
    """Write rows of texels (h, w, 4) from row `first` of a texture, or of a level of a texture array; returns their bytes."""
    rows, width = texels.shape[:2]
    place = (0, first, width, rows) if level is None else (0, first, level, width, rows, 1)
    texture.write(np.ascontiguousarray(texels).tobytes(), viewport=place)  # type: ignore[attr-defined]
    return texels.nbytes
