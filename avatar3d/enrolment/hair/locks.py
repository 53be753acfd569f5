"""Locks of hair over the ray map: paths along the flow, and for each texel the lock that lies on top and the place in the photo's
own hair that it shows.

A lock is a ribbon that follows the flow at its own place and, straightened, one of the same length where the photo shows hair
(texture bombing along streamlines): what is made has the photo's strands, contrast and hues, at their width. Heights are those of
ribbons that rise from root to tip and are round across; they decide which is on top and which shells it fills.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.jit import njit


@dataclass(frozen=True)
class LockMap:
    """The two topmost locks of each texel, index 0 above 1, of a texture's grid (H, W).

    height: (2, H, W) f32, -1 where no lock lies. source: (2, H, W, 2) f32 texel (x, y) whose strands it shows. lock: (2, H, W)
    i32 index, -1 none. share: (H, W) f32 in [0, 1], how much of the upper one is seen: less toward its sides and ends.
    """

    height: np.ndarray
    source: np.ndarray
    lock: np.ndarray
    share: np.ndarray

    @classmethod
    def empty(cls, rows: int, columns: int) -> LockMap:
        """No locks: each texel shows itself."""
        own = np.stack(np.meshgrid(np.arange(columns, dtype=np.float32), np.arange(rows, dtype=np.float32)), -1)
        return cls(
            np.full((2, rows, columns), -1.0, np.float32),
            np.stack([own, own]),
            np.full((2, rows, columns), -1, np.int32),
            np.ones((rows, columns), np.float32),
        )


@njit()
def _at(grid, x, y, columns, rows):  # type: ignore[no-untyped-def]
    """Bilinear value of a coarse (r, c) grid at a texel place of a (rows, columns) texture, wrapping around."""
    r, c = grid.shape
    gx, gy = (x + 0.5) / columns * c - 0.5, (y + 0.5) / rows * r - 0.5
    gy = min(max(gy, 0.0), r - 1.001)
    left, top = int(np.floor(gx)), int(gy)
    fx, fy = gx - left, gy - top
    left %= c
    right = (left + 1) % c
    upper = grid[top, left] * (1 - fx) + grid[top, right] * fx
    lower = grid[top + 1, left] * (1 - fx) + grid[top + 1, right] * fx
    return upper * (1 - fy) + lower * fy


@njit()
def trace(cos2, sin2, column_m, row_m, rows, columns, starts, turn, bend, step_m, steps, forward):  # type: ignore[no-untyped-def]
    """(N, steps, 2) texel places along the flow from `starts` (N, 2), a step of step_m apart; x is not wrapped.

    turn, bend: (N,) radians off the flow at the start, and more by each metre. forward: +1 away from the crown, -1 toward it.
    A path that leaves the map stays at its last place.
    """
    count = len(starts)
    out = np.empty((count, steps, 2), np.float32)
    scale_x, scale_y = cos2.shape[1] / columns, cos2.shape[0] / rows
    for k in range(count):
        x, y = starts[k, 0], starts[k, 1]
        lx, ly = 0.0, float(forward)
        for i in range(steps):
            out[k, i, 0], out[k, i, 1] = x, y
            angle = 0.5 * np.arctan2(_at(sin2, x, y, columns, rows), _at(cos2, x, y, columns, rows))
            angle += turn[k] + bend[k] * i * step_m * forward
            dx, dy = np.sin(angle), np.cos(angle)
            if dx * lx + dy * ly < 0:
                dx, dy = -dx, -dy
            lx, ly = dx, dy
            mx = _at(column_m, x, y, columns, rows) * scale_x
            my = _at(row_m, x, y, columns, rows) * scale_y
            nx = x + min(max(dx * step_m / mx, -columns / 32), columns / 32)
            ny = y + dy * step_m / my
            if ny < 1 or ny > rows - 2:
                lx, ly = 0.0, 0.0
                for j in range(i + 1, steps):
                    out[k, j, 0], out[k, j, 1] = x, y
                break
            x, y = nx, ny
    return out


@njit()
def _hash(a, b):  # type: ignore[no-untyped-def]
    h = (a * 374761393 + b * 668265263) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 1274126177) & 0xFFFFFFFF
    return ((h ^ (h >> 16)) & 0xFFFF) / 65535.0


@njit()
def paint(paths, sources, mirror, width_m, height, rise, column_m, row_m, rows, columns, comb_m, soft_m, end_share,  # type: ignore[no-untyped-def]
          height_out, source_out, lock_out, share_out):  # fmt: skip
    """Draw locks into the (rows, columns) maps of a LockMap, each texel keeping the two highest.

    paths, sources: (N, M, 2) texel places. mirror: (N, M - 1) ±1, the source's sides exchanged. width_m: (N,) half widths.
    height, rise: (N,) at the root and gained to the tip. column_m, row_m: coarse maps, metres of a cell. comb_m: width of the
    single strands that end unevenly over end_share of the length. soft_m: over which the sides fade.
    """
    scale_x, scale_y = column_m.shape[1] / columns, column_m.shape[0] / rows
    count, points = paths.shape[:2]
    for k in range(count):
        for i in range(points - 1):
            x0, y0 = paths[k, i, 0], paths[k, i, 1]
            x1, y1 = paths[k, i + 1, 0], paths[k, i + 1, 1]
            u0, v0 = sources[k, i, 0], sources[k, i, 1]
            u1, v1 = sources[k, i + 1, 0], sources[k, i + 1, 1]
            mx, my = _at(column_m, x0, y0, columns, rows) * scale_x, _at(row_m, x0, y0, columns, rows) * scale_y
            sx, sy = (x1 - x0) * mx, (y1 - y0) * my
            length = np.sqrt(sx * sx + sy * sy)
            mu, mv = _at(column_m, u0, v0, columns, rows) * scale_x, _at(row_m, u0, v0, columns, rows) * scale_y
            tu, tv = (u1 - u0) * mu, (v1 - v0) * mv
            other = np.sqrt(tu * tu + tv * tv)
            if length < 1e-5 or other < 1e-5:
                continue
            sx, sy, tu, tv = sx / length, sy / length, tu / other, tv / other
            texel = np.sqrt(mx * my)
            reach_x = min(width_m[k] / mx + 1, columns / 12)
            reach_y = width_m[k] / my + 1
            left, right = int(np.floor(min(x0, x1) - reach_x)), int(np.ceil(max(x0, x1) + reach_x))
            top, low = int(max(np.floor(min(y0, y1) - reach_y), 0)), int(min(np.ceil(max(y0, y1) + reach_y), rows - 1))
            for y in range(top, low + 1):
                for x in range(left, right + 1):
                    qx, qy = (x - x0) * mx, (y - y0) * my
                    s = (qx * sx + qy * sy) / length
                    if s < -0.2 or s > 1.2:
                        continue
                    n = qx * sy - qy * sx
                    along = (i + s) / (points - 1)
                    hair = _hash(k, int(np.floor(n / comb_m)) + 4096)
                    # Single strands end unevenly; it grows thinner toward the tip.
                    start, end = along / (0.02 + 0.5 * end_share * hair), (1 - along) / (0.02 + end_share * hair)
                    wide = width_m[k] * (1 - 0.4 * along * along)
                    # A strand thinner than a texel covers a part of it.
                    inside = (wide + 0.5 * texel - abs(n)) / max(min(soft_m, wide), texel)
                    if inside <= 0 or start < 1 or end < 1:
                        continue
                    side = min(abs(n) / wide, 1.0)
                    h = height[k] + rise[k] * along - 0.10 * side * side + 0.04 * (hair - 0.5)
                    wx = x % columns
                    if h <= height_out[1, y, wx] or lock_out[0, y, wx] == k or lock_out[1, y, wx] == k:
                        continue  # its pieces overlap where it bends
                    m = n * mirror[k, i]
                    u, v = u0 + s * (u1 - u0) + m * tv / mu, v0 + s * (v1 - v0) - m * tu / mv
                    layer = 1
                    if h > height_out[0, y, wx]:
                        layer = 0
                        height_out[1, y, wx] = height_out[0, y, wx]
                        lock_out[1, y, wx] = lock_out[0, y, wx]
                        source_out[1, y, wx, 0], source_out[1, y, wx, 1] = source_out[0, y, wx, 0], source_out[0, y, wx, 1]
                        share = min(inside * min(1.0, 2 * wide / texel), min(start - 1, end - 1) * 2)
                        share_out[y, wx] = min(max(share, 0.0), 1.0)
                    height_out[layer, y, wx], lock_out[layer, y, wx] = h, k
                    source_out[layer, y, wx, 0], source_out[layer, y, wx, 1] = u, v
