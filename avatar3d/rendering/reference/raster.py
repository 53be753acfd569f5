"""A triangle rasteriser on the CPU (numba) with the fill rule of graphics hardware; gives faces and barycentrics, no colour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.camera import Camera
from avatar3d.jit import njit

# Window coordinates are snapped to this fraction of a pixel before the fill rule, as graphics hardware does
# (OpenGL 4.5 core, section 14.6.1; 8 sub-pixel bits on every driver met), so that masks agree to the pixel.
SUBPIXEL = 256
MAX_SNAPPED = 1 << 28  # keeps products of two edges within 63 bits; far outside of any picture


@dataclass(frozen=True)
class Raster:
    """Fragments of one mesh in drawing order (by face, then row, then column).

    pixel: (N,) i64 row · width + column. face: (N,) i64. barycentric: (N, 3) f32, perspective-correct.
    depth: (N,) f32 metres along the axis. front: (N,) bool, the face's counter-clockwise side is seen.
    """

    pixel: np.ndarray
    face: np.ndarray
    barycentric: np.ndarray
    depth: np.ndarray
    front: np.ndarray

    def take(self, chosen: np.ndarray) -> Raster:
        """The fragments of an index or mask."""
        return Raster(self.pixel[chosen], self.face[chosen], self.barycentric[chosen], self.depth[chosen], self.front[chosen])


@njit()
def _scan(snapped, exact, inverse_depth, faces, two_sided, limit, far, pixel, face, barycentric, depth, front):  # type: ignore[no-untyped-def]
    """Count the fragments nearer than `limit` (H, W); write them too where the output arrays have room for them.

    Snapped positions say which pixels are covered, exact ones what is seen at their centres.
    """
    height, width = limit.shape
    count, capacity = 0, len(pixel)
    half = SUBPIXEL // 2
    for index in range(len(faces)):
        a, b, c = faces[index, 0], faces[index, 1], faces[index, 2]
        wa, wb, wc = inverse_depth[a], inverse_depth[b], inverse_depth[c]
        if wa <= 0.0 or wb <= 0.0 or wc <= 0.0:
            continue
        ax, ay, bx, by, cx, cy = snapped[a, 0], snapped[a, 1], snapped[b, 0], snapped[b, 1], snapped[c, 0], snapped[c, 1]
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        # With rows counted downward a counter-clockwise face has a negative area; swap it so that the inside is positive.
        is_front = area < 0
        if area == 0 or not (is_front or two_sided[index]):
            continue
        if is_front:
            b, c = c, b
            bx, by, cx, cy, wb, wc = cx, cy, bx, by, wc, wb
        ua, va, ub, vb, uc, vc = exact[a, 0], exact[a, 1], exact[b, 0], exact[b, 1], exact[c, 0], exact[c, 1]
        exact_area = (ub - ua) * (vc - va) - (vb - va) * (uc - ua)
        if exact_area <= 0.0:  # snapping turned a sliver over; only the snapped one covers what its neighbours leave
            ua, va, ub, vb, uc, vc = ax / SUBPIXEL, ay / SUBPIXEL, bx / SUBPIXEL, by / SUBPIXEL, cx / SUBPIXEL, cy / SUBPIXEL
            exact_area = abs(area) / (SUBPIXEL * SUBPIXEL)
        first_column = max((min(ax, bx, cx) - half + SUBPIXEL - 1) // SUBPIXEL, 0)
        last_column = min((max(ax, bx, cx) - half) // SUBPIXEL, width - 1)
        first_row = max((min(ay, by, cy) - half + SUBPIXEL - 1) // SUBPIXEL, 0)
        last_row = min((max(ay, by, cy) - half) // SUBPIXEL, height - 1)
        # A pixel centre on an edge belongs to the triangle only at a top or a left edge.
        bias_a = 0 if (cy < by or (cy == by and cx > bx)) else 1
        bias_b = 0 if (ay < cy or (ay == cy and ax > cx)) else 1
        bias_c = 0 if (by < ay or (by == ay and bx > ax)) else 1
        for row in range(first_row, last_row + 1):
            y = row * SUBPIXEL + half
            for column in range(first_column, last_column + 1):
                x = column * SUBPIXEL + half
                ea = (cx - bx) * (y - by) - (cy - by) * (x - bx)
                eb = (ax - cx) * (y - cy) - (ay - cy) * (x - cx)
                ec = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
                if ea < bias_a or eb < bias_b or ec < bias_c:
                    continue
                u, v = column + 0.5, row + 0.5
                pb = ((ua - uc) * (v - vc) - (va - vc) * (u - uc)) / exact_area
                pc = ((ub - ua) * (v - va) - (vb - va) * (u - ua)) / exact_area
                pa, pb, pc = (1.0 - pb - pc) * wa, pb * wb, pc * wc
                total = pa + pb + pc
                if total <= 0.0:
                    continue
                z = 1.0 / total
                if z >= limit[row, column] or z > far:
                    continue
                if count < capacity:
                    pixel[count] = row * width + column
                    face[count] = index
                    depth[count] = z
                    front[count] = is_front
                    barycentric[count, 0] = pa / total
                    barycentric[count, 1] = (pc if is_front else pb) / total
                    barycentric[count, 2] = (pb if is_front else pc) / total
                count += 1
    return count


def rasterise(
    vertices: np.ndarray, faces: np.ndarray, camera: Camera, two_sided: np.ndarray, limit: np.ndarray | None = None
) -> Raster:
    """Every fragment of `faces` (F, 3) over world `vertices` (V, 3), nearer than `limit` (H, W) metres where given.

    two_sided: (F,) bool, whether a face is seen from behind too. Faces that reach in front of the near plane are left out
    (they are not clipped): keep the camera near_m away from the head.
    """
    pixels, depth = camera.project(np.asarray(vertices, np.float64))
    visible = depth >= camera.near_m
    inverse_depth = np.where(visible, 1 / np.where(visible, depth, 1), 0.0)
    bounded = np.clip(np.where(visible[:, None], pixels, 0) * SUBPIXEL, -MAX_SNAPPED, MAX_SNAPPED)
    snapped = np.rint(bounded).astype(np.int64)
    if limit is None:
        limit = np.full((camera.height, camera.width), np.inf, np.float32)

    def outputs(count: int) -> tuple[np.ndarray, ...]:
        return (
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.empty((count, 3), np.float32),
            np.empty(count, np.float32),
            np.empty(count, np.bool_),
        )

    faces = np.ascontiguousarray(faces, np.int64)
    arguments = (snapped, pixels, inverse_depth, faces, np.ascontiguousarray(two_sided), limit, float(camera.far_m))
    # One picture's worth of room is enough for most meshes; a second scan writes what did not fit.
    arrays = outputs(camera.width * camera.height)
    count = _scan(*arguments, *arrays)
    if count > len(arrays[0]):
        arrays = outputs(count)
        _scan(*arguments, *arrays)
    return Raster(*(array[:count].copy() for array in arrays))


def nearest(raster: Raster) -> Raster:
    """The nearest fragment of each pixel (the first drawn where two are equally near), in order of pixel."""
    return raster.take(front_most(raster.pixel, raster.depth))


def front_most(pixel: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """(M,) i64 the fragment nearest to the eye at each pixel (N,) that has one, in order of pixel; of equals the first."""
    if not len(pixel):
        return np.zeros(0, np.int64)
    holder = np.full(int(pixel.max()) + 1, -1, np.int64)
    _hold_nearest(np.ascontiguousarray(pixel), np.ascontiguousarray(depth), holder)
    return holder[holder >= 0]


@njit()
def _hold_nearest(pixel: np.ndarray, depth: np.ndarray, holder: np.ndarray) -> None:
    for index in range(len(pixel)):
        held = holder[pixel[index]]
        if held < 0 or depth[index] < depth[held]:
            holder[pixel[index]] = index


def draw_ranks(pixel: np.ndarray) -> np.ndarray:
    """(N,) how many earlier entries of `pixel` (N,) name the same pixel: blending goes rank by rank."""
    order = np.argsort(pixel, kind="stable")
    sorted_pixel = pixel[order]
    starts = np.flatnonzero(np.r_[True, sorted_pixel[1:] != sorted_pixel[:-1]]) if len(pixel) else np.zeros(0, np.int64)
    lengths = np.diff(np.r_[starts, len(pixel)])
    ranks = np.empty(len(pixel), np.int64)
    ranks[order] = np.arange(len(pixel)) - np.repeat(starts, lengths)
    return ranks
