"""Compiled loops (numba) over many points: mixing over faces, bilinear samples, blending, texels of a UV atlas.

Each does in one pass, and in the same order of operations, what several passes of numpy or torch would.
"""

from __future__ import annotations

import numpy as np

from avatar3d.jit import njit


def mix(table: np.ndarray, faces: np.ndarray, face: np.ndarray, barycentric: np.ndarray) -> np.ndarray:
    """(N, k) f32 of a vertex attribute (V, k) at barycentric places (N, 3) f32 on `face` (N,) of faces (F, 3)."""
    out = np.empty((len(face), table.shape[1]), np.float32)
    _mix(np.ascontiguousarray(table, np.float32), np.ascontiguousarray(faces, np.int32), face, barycentric, out)
    return out


@njit()
def _mix(table, faces, face, barycentric, out):  # type: ignore[no-untyped-def]
    for i in range(len(face)):
        a, b, c = faces[face[i], 0], faces[face[i], 1], faces[face[i], 2]
        p, q, r = barycentric[i, 0], barycentric[i, 1], barycentric[i, 2]
        for k in range(out.shape[1]):
            out[i, k] = (table[a, k] * p + table[b, k] * q) + table[c, k] * r


def bilinear(texture: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """(N, C) f32 bilinear samples of a texture (H, W, C) f32 at uv (N, 2) f32, clamped; texel centres at (i + 0.5) / size.

    `geometry.sample_bilinear` compiled: the field asks it for each pixel of a frame.
    """
    out = np.empty((len(uv), texture.shape[2]), np.float32)
    _bilinear(texture, uv, out)
    return out


@njit()
def _bilinear(texture, uv, out):  # type: ignore[no-untyped-def]
    height, width, channels = texture.shape
    zero, half, one = np.float32(0), np.float32(0.5), np.float32(1)
    across, down = np.float32(width), np.float32(height)
    for i in range(len(uv)):
        x = min(max(uv[i, 0] * across - half, zero), across - one)
        y = min(max(uv[i, 1] * down - half, zero), down - one)
        left, top = min(int(x), max(width - 2, 0)), min(int(y), max(height - 2, 0))
        right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
        fx, fy = x - np.float32(left), y - np.float32(top)
        gx, gy = one - fx, one - fy
        for c in range(channels):
            upper = texture[top, left, c] * gx + texture[top, right, c] * fx
            lower = texture[bottom, left, c] * gx + texture[bottom, right, c] * fx
            out[i, c] = upper * gy + lower * fy


@njit()
def blend_over(rgba: np.ndarray, pixel: np.ndarray, chosen: np.ndarray, color: np.ndarray, alpha: np.ndarray) -> None:
    """Blend fragments `chosen` (M,) of pixel (N,), colour (N, 3), not premultiplied, and alpha (N,) over rgba (P, 4), one by one."""
    one = np.float32(1)
    for j in range(len(chosen)):
        i = chosen[j]
        p, opacity = pixel[i], alpha[i]
        through = one - opacity
        for c in range(3):
            rgba[p, c] = color[i, c] * opacity + through * rgba[p, c]
        rgba[p, 3] = opacity + through * rgba[p, 3]


@njit()
def hold_texels(corners: np.ndarray, owner: np.ndarray, barycentric: np.ndarray) -> None:
    """Write into owner (H, W) i64 the last face that holds a texel's centre, and the place in it into barycentric (H, W, 3) f32.

    corners: (F, 3, 2) f64 of faces in texels. Faces without area hold nothing.
    """
    height, width = owner.shape
    for f in range(len(corners)):
        ax, ay, bx, by, cx, cy = (
            corners[f, 0, 0], corners[f, 0, 1], corners[f, 1, 0], corners[f, 1, 1], corners[f, 2, 0], corners[f, 2, 1],
        )  # fmt: skip
        area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        if abs(area) < 1e-12:
            continue
        first_column, last_column = max(np.ceil(min(ax, bx, cx) - 0.5), 0.0), min(np.floor(max(ax, bx, cx) - 0.5), width - 1.0)
        first_row, last_row = max(np.ceil(min(ay, by, cy) - 0.5), 0.0), min(np.floor(max(ay, by, cy) - 0.5), height - 1.0)
        for row in range(int(first_row), int(last_row) + 1):
            y = row + 0.5
            for column in range(int(first_column), int(last_column) + 1):
                x = column + 0.5
                wa = ((bx - x) * (cy - y) - (cx - x) * (by - y)) / area
                wb = ((cx - x) * (ay - y) - (ax - x) * (cy - y)) / area
                wc = 1.0 - wa - wb
                if wa >= -1e-6 and wb >= -1e-6 and wc >= -1e-6:
                    owner[row, column] = f
                    barycentric[row, column, 0] = wa
                    barycentric[row, column, 1] = wb
                    barycentric[row, column, 2] = wc


@njit(fastmath=True)
def mean_over_views(
    static: np.ndarray, shifts: np.ndarray, weight: np.ndarray, bias: np.ndarray, scale: np.ndarray, out: np.ndarray
) -> None:
    """Fill `out` (N, 4) with the mean over views of the field's bounded answers.

    static: (N, H) hidden values that do not depend on the view. shifts: (D, H) what each view adds. weight (4, H), bias (4,): the
    last layer. scale: (4,) of its answers, softly bounded by x / (1 + |x|). Points lie side by side for the sake of vector units.
    """
    count, hidden = static.shape
    block = 256
    turned = np.zeros((hidden, block), np.float32)  # what a last block leaves unfilled is computed too, and must be numbers
    answer, total = np.empty((4, block), np.float32), np.empty((4, block), np.float32)
    for start in range(0, count, block):
        size = min(block, count - start)
        for i in range(size):
            for h in range(hidden):
                turned[h, i] = static[start + i, h]
        total[:] = 0
        for view in range(len(shifts)):
            for k in range(4):
                answer[k] = bias[k]
            for h in range(hidden):
                shift, w0, w1, w2, w3 = shifts[view, h], weight[0, h], weight[1, h], weight[2, h], weight[3, h]
                for i in range(block):
                    value = max(turned[h, i] + shift, np.float32(0))
                    answer[0, i] += w0 * value
                    answer[1, i] += w1 * value
                    answer[2, i] += w2 * value
                    answer[3, i] += w3 * value
            for k in range(4):
                for i in range(block):
                    total[k, i] += answer[k, i] / (np.float32(1) + abs(answer[k, i]))
        for i in range(size):
            for k in range(4):
                out[start + i, k] = total[k, i] * scale[k] / np.float32(len(shifts))


@njit()
def wrapped_trilinear(cube: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (N,) f32 with trilinear samples of a cube (S, S, S) f32 that repeats itself, at places (N, 3) f32 in its cells."""
    side = cube.shape[0]
    one = np.float32(1)
    for i in range(len(out)):
        fx, fy, fz = np.floor(places[i, 0]), np.floor(places[i, 1]), np.floor(places[i, 2])
        x, y, z = places[i, 0] - fx, places[i, 1] - fy, places[i, 2] - fz
        x0, y0, z0 = int(fx) % side, int(fy) % side, int(fz) % side
        x1, y1, z1 = (x0 + 1) % side, (y0 + 1) % side, (z0 + 1) % side
        near = (cube[x0, y0, z0] * (one - z) + cube[x0, y0, z1] * z) * (one - y)
        near += (cube[x0, y1, z0] * (one - z) + cube[x0, y1, z1] * z) * y
        far = (cube[x1, y0, z0] * (one - z) + cube[x1, y0, z1] * z) * (one - y)
        far += (cube[x1, y1, z0] * (one - z) + cube[x1, y1, z1] * z) * y
        out[i] = near * (one - x) + far * x
