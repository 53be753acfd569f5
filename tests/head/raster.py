"""A small orthographic z-buffer in numpy for the head's tests: which triangle each pixel sees."""

from __future__ import annotations

import itertools

import numpy as np


def directions() -> list[np.ndarray]:
    """The 26 unit directions from a cube's centre to its corners, edges and faces."""
    every = [np.array(d, float) for d in itertools.product((-1, 0, 1), repeat=3) if any(d)]
    return [d / np.linalg.norm(d) for d in every]


def seen_triangles(vertices: np.ndarray, faces: np.ndarray, towards: np.ndarray, size: int) -> np.ndarray:
    """Front-most triangle of each pixel (size,size), -1 where none, seen from far away in direction `towards`."""
    up = np.array([0.0, 1.0, 0.0]) if abs(towards[1]) < 0.9 else np.array([0.0, 0.0, 1.0])
    x_axis = np.cross(up, towards)
    x_axis /= np.linalg.norm(x_axis)
    y_axis = np.cross(towards, x_axis)
    flat = np.stack([vertices @ x_axis, vertices @ y_axis], 1)
    low, high = flat.min(0), flat.max(0)
    # An odd offset keeps pixel centres off the mesh's plane of symmetry.
    pixel = (flat - low) / (high - low).max() * (size - 2) + 1.0137
    height = vertices @ towards
    a, b, c = (pixel[faces[:, k]] for k in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    first = np.floor(np.minimum(np.minimum(a, b), c) - 0.5).astype(int)
    extent = np.ceil(np.maximum(np.maximum(a, b), c) - 0.5).astype(int) - first + 1
    count = np.where(np.abs(area) > 1e-12, extent[:, 0] * extent[:, 1], 0)
    triangle = np.repeat(np.arange(len(faces)), count)
    within = np.arange(len(triangle)) - np.repeat(np.cumsum(count) - count, count)
    column = first[triangle, 0] + within % extent[triangle, 0]
    row = first[triangle, 1] + within // extent[triangle, 0]
    p = np.stack([column + 0.5, row + 0.5], 1)

    def cross(o: np.ndarray, q: np.ndarray) -> np.ndarray:
        return (q[:, 0] - o[:, 0]) * (p[:, 1] - o[:, 1]) - (q[:, 1] - o[:, 1]) * (p[:, 0] - o[:, 0])

    a, b, c = a[triangle], b[triangle], c[triangle]
    weight = np.stack([cross(b, c), cross(c, a), cross(a, b)], 1) / area[triangle, None]
    inside = (weight >= 0).all(1) & (row >= 0) & (row < size) & (column >= 0) & (column < size)
    depth = (weight * height[faces[triangle]]).sum(1)
    order = np.flatnonzero(inside)
    order = order[np.argsort(depth[order], kind="stable")]
    seen = np.full((size, size), -1)
    seen[row[order], column[order]] = triangle[order]
    return seen


def backside_pixels(vertices: np.ndarray, faces: np.ndarray, watched: np.ndarray, towards: np.ndarray, size: int = 360) -> int:
    """How many pixels see the inside of a watched triangle (F,) bool."""
    seen = seen_triangles(vertices, faces, towards, size)
    hit = np.unique(seen[seen >= 0], return_counts=True)
    corner = vertices[faces[hit[0]]]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    length = np.linalg.norm(normal, axis=1) + 1e-20
    # A triangle seen edge-on has no side.
    inside = (normal @ towards) / length < -0.02
    return int(hit[1][inside & watched[hit[0]]].sum())
