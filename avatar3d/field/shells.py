"""Surfaces in texture space: which triangle, and where in it, lies under the centre of each texel of a UV atlas."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from avatar3d.geometry import sample_bilinear

GUTTER_TEXELS = 4  # a bilinear tap reaches one texel past an island's edge; the rest is margin for the coarser lods


@dataclass(frozen=True)
class UvRaster:
    """Texels of an atlas that belong to a surface, as flat lists.

    shape: (height, width). texel: (N,) i64 row · width + column. triangle: (N,) i64. barycentric: (N, 3) f32 (outside [0, 1]
    never: gutter texels repeat the nearest covered texel). covered: (N,) bool, False in the gutter.
    """

    shape: tuple[int, int]
    texel: np.ndarray
    triangle: np.ndarray
    barycentric: np.ndarray
    covered: np.ndarray

    def interpolate(self, faces: np.ndarray, attribute: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """(N, ...) f32 value of a vertex attribute (V, ...) at each listed texel, or at those of `rows` only."""
        table = np.asarray(attribute, np.float32).reshape(len(attribute), -1)
        mixed = _loops().mix(table, faces, self.triangle[rows], self.barycentric[rows])
        return mixed.reshape(len(mixed), *attribute.shape[1:])

    def take(self, chosen: np.ndarray) -> UvRaster:
        """Some of the texels, by a mask (N,) or indices."""
        return UvRaster(self.shape, self.texel[chosen], self.triangle[chosen], self.barycentric[chosen], self.covered[chosen])

    def scatter(self, values: np.ndarray) -> np.ndarray:
        """(height, width, ...) texture of values (N, ...), zero where no surface lies."""
        texture = np.zeros((self.shape[0] * self.shape[1], *values.shape[1:]), values.dtype)
        texture[self.texel] = values
        return texture.reshape(*self.shape, *values.shape[1:])


def _loops() -> ModuleType:
    """The compiled loops, or where numba is not installed, as a viewer need not have it, the same in numpy."""
    if find_spec("numba") is None:
        from avatar3d.field import plain_loops

        return plain_loops
    from avatar3d.field import loops

    return loops


def _raster(uv: np.ndarray, faces: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texels (N,) whose centre a face holds, that face (N,) (the last of several), and the place in it (N, 3) f32."""
    height, width = size
    owner = np.full((height, width), -1)
    barycentric = np.zeros((height, width, 3), np.float32)
    _loops().hold_texels(uv[faces] * np.array([width, height], np.float64), owner, barycentric)
    texel = np.flatnonzero(owner.reshape(-1) >= 0)
    return texel, owner.reshape(-1)[texel], barycentric.reshape(-1, 3)[texel]


def _gutter(covered: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Texels (N,) within so many texels of a covered (height, width) one, and the nearest covered texel of each (N,)."""
    height, width = covered.shape
    padded = np.pad(covered, reach)
    near = padded
    for axis in (0, 1):
        near = np.any([np.roll(near, shift, axis) for shift in range(-reach, reach + 1)], axis=0)
    steps = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    distance = np.hypot(*steps.T)
    order = np.argsort(distance, kind="stable")
    inner = np.zeros_like(padded)
    inner[reach : reach + height, reach : reach + width] = True
    missing = np.flatnonzero(near & ~padded & inner)
    flat = padded.reshape(-1)
    found = [(np.flatnonzero(padded), np.flatnonzero(padded))]
    for down, right in steps[order][distance[order] <= reach][1:]:
        source = missing + down * padded.shape[1] + right
        hit = flat[source]
        found.append((missing[hit], source[hit]))
        missing = missing[~hit]
    texel, nearest = (
        (place // padded.shape[1] - reach) * width + place % padded.shape[1] - reach
        for place in map(np.concatenate, zip(*found, strict=True))
    )
    order = np.argsort(texel)
    return texel[order], nearest[order]


def uv_raster(faces: np.ndarray, uv: np.ndarray, size: tuple[int, int], gutter: int = GUTTER_TEXELS) -> UvRaster:
    """Rasterise `faces` (F, 3) with `uv` (V, 2) (glTF: (0, 0) top-left) into an atlas of size (height, width) texels.

    A texel belongs to a triangle that holds its centre; texels within `gutter` texels of one repeat the nearest covered texel,
    so that bilinear sampling at an island's edge never reads an empty texel.
    """
    texel, triangle, barycentric = _raster(np.asarray(uv, np.float64), np.asarray(faces, np.int64).reshape(-1, 3), size)
    covered = np.zeros(size, bool)
    covered.reshape(-1)[texel] = True
    wanted, nearest = _gutter(covered, gutter)
    source = np.searchsorted(texel, nearest)
    return UvRaster(size, wanted, triangle[source], barycentric[source], covered.reshape(-1)[wanted])


def sample_texture(texture: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """(N, C) f32 bilinear samples of a texture (H, W, C) at uv (N, 2), clamped; texel centres lie at (i + 0.5) / size."""
    height, width = texture.shape[:2]
    return sample_bilinear(texture, uv * np.array([width, height], uv.dtype)).astype(np.float32)
