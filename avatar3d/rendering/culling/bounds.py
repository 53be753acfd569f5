"""Least and greatest value that a texture takes within each face of a mesh; arrays only."""

from __future__ import annotations

import numpy as np


def face_bounds(texture: np.ndarray, uv: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest value (F,) f32 of bilinear, clamped samples of a texture (h, w) in each face's rectangle of uv.

    uv: (V, 2), glTF convention. faces: (F, 3).
    """
    height, width = texture.shape
    texture = np.asarray(texture, np.float32)
    places = uv[faces] * np.array([width, height], np.float32) - np.float32(0.5)
    first = np.clip(np.floor(places.min(1)).astype(int), 0, [width - 1, height - 1])
    last = np.clip(np.floor(places.max(1)).astype(int) + 1, 0, [width - 1, height - 1])
    return _extreme(texture, first, last, np.minimum), _extreme(texture, first, last, np.maximum)


def _extreme(texture: np.ndarray, first: np.ndarray, last: np.ndarray, combine: np.ufunc) -> np.ndarray:
    """(F,) extreme over texture[first y..last y, first x..last x] from windows whose sides are powers of two (sparse table)."""
    out = np.empty(len(first), np.float32)
    steps = np.floor(np.log2(last - first + 1)).astype(int)
    for across in np.unique(steps[:, 0]):
        columns = _windows(texture, 1 << int(across), 1, combine)
        for down in np.unique(steps[steps[:, 0] == across, 1]):
            table = _windows(columns, 1 << int(down), 0, combine)
            here = np.flatnonzero((steps == (across, down)).all(1))
            x0, y0 = first[here].T
            x1, y1 = last[here, 0] - (1 << int(across)) + 1, last[here, 1] - (1 << int(down)) + 1
            out[here] = combine(combine(table[y0, x0], table[y0, x1]), combine(table[y1, x0], table[y1, x1]))
    return out


def _windows(texture: np.ndarray, size: int, axis: int, combine: np.ufunc) -> np.ndarray:
    """Extreme over windows of `size` (a power of two) along an axis, one for each place where a full window starts."""
    step = 1
    while step < size:
        length = texture.shape[axis]
        low = texture.take(range(length - step), axis)
        high = texture.take(range(step, length), axis)
        texture, step = combine(low, high), step * 2
    return texture
