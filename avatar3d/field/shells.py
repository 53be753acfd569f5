"""Surfaces in texture space: which triangle, and where in it, lies under the centre of each texel of a UV atlas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

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

    def interpolate(self, faces: np.ndarray, attribute: np.ndarray) -> np.ndarray:
        """(N, ...) f32 value of a vertex attribute (V, ...) at each listed texel."""
        table = np.ascontiguousarray(attribute.reshape(len(attribute), -1))
        out = np.empty((len(self.texel), table.shape[1]), np.float32)
        _mix(np.ascontiguousarray(faces), self.triangle, self.barycentric, table, out)
        return out.reshape(len(self.texel), *attribute.shape[1:])

    def scatter(self, values: np.ndarray) -> np.ndarray:
        """(height, width, ...) texture of values (N, ...), zero where no surface lies."""
        texture = np.zeros((self.shape[0] * self.shape[1], *values.shape[1:]), values.dtype)
        texture[self.texel] = values
        return texture.reshape(*self.shape, *values.shape[1:])


@njit(cache=True)
def _mix(faces: np.ndarray, triangle: np.ndarray, barycentric: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    for row in range(len(triangle)):
        face = triangle[row]
        a, b, c = faces[face, 0], faces[face, 1], faces[face, 2]
        wa, wb, wc = barycentric[row, 0], barycentric[row, 1], barycentric[row, 2]
        for column in range(table.shape[1]):
            out[row, column] = table[a, column] * wa + table[b, column] * wb + table[c, column] * wc


@njit(cache=True)
def _raster(uv: np.ndarray, faces: np.ndarray, triangle: np.ndarray, barycentric: np.ndarray) -> None:
    height, width = triangle.shape
    for index in range(faces.shape[0]):
        a, b, c = faces[index, 0], faces[index, 1], faces[index, 2]
        ax, ay, bx, by, cx, cy = (
            uv[a, 0] * width, uv[a, 1] * height, uv[b, 0] * width, uv[b, 1] * height, uv[c, 0] * width, uv[c, 1] * height,
        )  # fmt: skip
        area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        if abs(area) < 1e-12:
            continue
        first_column = max(int(np.ceil(min(ax, bx, cx) - 0.5)), 0)
        last_column = min(int(np.floor(max(ax, bx, cx) - 0.5)), width - 1)
        first_row = max(int(np.ceil(min(ay, by, cy) - 0.5)), 0)
        last_row = min(int(np.floor(max(ay, by, cy) - 0.5)), height - 1)
        for row in range(first_row, last_row + 1):
            for column in range(first_column, last_column + 1):
                x, y = column + 0.5, row + 0.5
                wa = ((bx - x) * (cy - y) - (cx - x) * (by - y)) / area
                wb = ((cx - x) * (ay - y) - (ax - x) * (cy - y)) / area
                wc = 1.0 - wa - wb
                if wa >= -1e-6 and wb >= -1e-6 and wc >= -1e-6:
                    triangle[row, column] = index
                    barycentric[row, column, 0] = wa
                    barycentric[row, column, 1] = wb
                    barycentric[row, column, 2] = wc


def uv_raster(faces: np.ndarray, uv: np.ndarray, size: tuple[int, int], gutter: int = GUTTER_TEXELS) -> UvRaster:
    """Rasterise `faces` (F, 3) with `uv` (V, 2) (glTF: (0, 0) top-left) into an atlas of size (height, width) texels.

    A texel belongs to a triangle that holds its centre; texels within `gutter` texels of one repeat the nearest covered texel,
    so that bilinear sampling at an island's edge never reads an empty texel.
    """
    from scipy.ndimage import distance_transform_edt

    height, width = size
    triangle = np.full((height, width), -1, np.int64)
    barycentric = np.zeros((height, width, 3), np.float32)
    _raster(np.ascontiguousarray(uv, np.float64), np.ascontiguousarray(faces, np.int64), triangle, barycentric)
    covered = triangle >= 0
    if not covered.any():
        nothing = np.zeros(0, np.int64)
        return UvRaster((height, width), nothing, nothing, np.zeros((0, 3), np.float32), np.zeros(0, bool))
    distance, nearest = distance_transform_edt(~covered, return_indices=True)
    wanted = distance <= gutter
    rows, columns = nearest[0][wanted], nearest[1][wanted]
    texel = np.flatnonzero(wanted.reshape(-1))
    return UvRaster((height, width), texel, triangle[rows, columns], barycentric[rows, columns], covered.reshape(-1)[texel])


def sample_texture(texture: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """(N, C) f32 bilinear samples of a texture (H, W, C) at uv (N, 2), clamped; texel centres lie at (i + 0.5) / size."""
    height, width = texture.shape[:2]
    return sample_bilinear(texture, uv * np.array([width, height], uv.dtype)).astype(np.float32)
