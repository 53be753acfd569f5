"""Small facts about triangle meshes that several parts share; numpy only."""

from __future__ import annotations

import numpy as np


def smooth_normals(vertices: np.ndarray, faces: np.ndarray, weld: np.ndarray) -> np.ndarray:
    """(V, 3) f32 unit normals, weighted by area and equal over welded vertices; +Z where a vertex has no area.

    vertices (V, 3) metres; faces (F, 3) counter-clockwise; weld (V,) first vertex at the same place.
    """
    corner = vertices[faces].astype(np.float64)
    area = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    welded = weld[faces]
    total = np.empty((len(vertices), 3))
    for axis in range(3):
        weights = np.repeat(area[:, axis], 3)
        total[:, axis] = np.bincount(welded.ravel(), weights=weights, minlength=len(vertices))
    normal = total[weld]
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return np.where(length > 1e-20, normal / np.maximum(length, 1e-20), [0.0, 0.0, 1.0]).astype(np.float32)
