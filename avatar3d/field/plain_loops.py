"""The compiled loops that a viewer needs, in numpy: the same to the bit, for an installation without numba, which a viewer may be."""

from __future__ import annotations

import numpy as np


def mix(table: np.ndarray, faces: np.ndarray, face: np.ndarray, barycentric: np.ndarray) -> np.ndarray:
    """As `avatar3d.field.loops.mix`."""
    table = np.ascontiguousarray(table, np.float32)
    a, b, c = (table[faces[face, corner]] for corner in range(3))
    p, q, r = (barycentric[:, corner, None] for corner in range(3))
    return (a * p + b * q) + c * r


def hold_texels(corners: np.ndarray, owner: np.ndarray, barycentric: np.ndarray) -> None:
    """As `avatar3d.field.loops.hold_texels`."""
    height, width = owner.shape
    (ax, ay), (bx, by), (cx, cy) = np.moveaxis(corners, 0, -1)
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    low, high = np.ceil(corners.min(1) - 0.5), np.floor(corners.max(1) - 0.5)
    first = np.maximum(low, 0.0).astype(np.int64)
    last = np.minimum(high, [width - 1.0, height - 1.0]).astype(np.int64)
    for f in np.flatnonzero((np.abs(area) >= 1e-12) & (last >= first).all(1)):
        x = np.arange(first[f, 0], last[f, 0] + 1) + 0.5
        y = np.arange(first[f, 1], last[f, 1] + 1)[:, None] + 0.5
        wa = ((bx[f] - x) * (cy[f] - y) - (cx[f] - x) * (by[f] - y)) / area[f]
        wb = ((cx[f] - x) * (ay[f] - y) - (ax[f] - x) * (cy[f] - y)) / area[f]
        wc = 1.0 - wa - wb
        held = (wa >= -1e-6) & (wb >= -1e-6) & (wc >= -1e-6)
        place = slice(first[f, 1], last[f, 1] + 1), slice(first[f, 0], last[f, 0] + 1)
        owner[place][held] = f
        barycentric[place][held] = np.stack([wa, wb, wc], axis=-1)[held]
