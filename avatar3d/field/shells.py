"""Surfaces in texture space: which triangle, and where in it, lies under the centre of each texel of a UV atlas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from avatar3d.geometry import sample_bilinear

GUTTER_TEXELS = 4  # a bilinear tap reaches one texel past an island's edge; the rest is margin for the coarser lods

MAX_CANDIDATES = 1 << 20  # texels under the boxes of faces that are tested at a time


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
        corners, barycentric = faces[self.triangle[rows]], self.barycentric[rows]
        mixed = sum(table.take(corners[:, k], axis=0) * barycentric[:, k, None] for k in range(3))
        return np.asarray(mixed, np.float32).reshape(len(corners), *attribute.shape[1:])

    def scatter(self, values: np.ndarray) -> np.ndarray:
        """(height, width, ...) texture of values (N, ...), zero where no surface lies."""
        texture = np.zeros((self.shape[0] * self.shape[1], *values.shape[1:]), values.dtype)
        texture[self.texel] = values
        return texture.reshape(*self.shape, *values.shape[1:])


def _raster(uv: np.ndarray, faces: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texels (N,) whose centre a face holds, that face (N,) (the last of several), and the place in it (N, 3) f32."""
    height, width = size
    corners = uv[faces] * np.array([width, height], np.float64)
    (ax, ay), (bx, by), (cx, cy) = np.moveaxis(corners, (1, 2), (0, 1))
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    first = np.maximum(np.ceil(corners.min(1) - 0.5), 0).astype(np.int64)
    last = np.minimum(np.floor(corners.max(1) - 0.5), [width - 1, height - 1]).astype(np.int64)
    spans = np.maximum(last - first + 1, 0)
    counts = np.where(np.abs(area) < 1e-12, 0, spans.prod(1))
    owner = np.full(height * width, -1)
    barycentric = np.zeros((height * width, 3), np.float32)
    for part in _split(counts, MAX_CANDIDATES):
        face = np.repeat(np.arange(part.start, part.stop), counts[part])
        index = np.arange(len(face)) - np.repeat(np.cumsum(counts[part]) - counts[part], counts[part])
        column = first[face, 0] + index % np.maximum(spans[face, 0], 1)
        row = first[face, 1] + index // np.maximum(spans[face, 0], 1)
        x, y = column + 0.5, row + 0.5
        wa = ((bx[face] - x) * (cy[face] - y) - (cx[face] - x) * (by[face] - y)) / area[face]
        wb = ((cx[face] - x) * (ay[face] - y) - (ax[face] - x) * (cy[face] - y)) / area[face]
        place = np.stack([wa, wb, 1.0 - wa - wb], axis=1)
        inside = (place >= -1e-6).all(1)
        texel = (row * width + column)[inside]
        owner[texel], barycentric[texel] = face[inside], place[inside]
    texel = np.flatnonzero(owner >= 0)
    return texel, owner[texel], barycentric[texel]


def _split(counts: np.ndarray, at_most: int) -> Iterator[slice]:
    """Consecutive parts whose counts sum to about at most so much each."""
    batch = np.cumsum(counts) // at_most
    ends = np.concatenate([np.flatnonzero(np.diff(batch)) + 1, [len(counts)]])
    for first, last in pairwise([0, *ends.tolist()]):
        yield slice(first, last)


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
