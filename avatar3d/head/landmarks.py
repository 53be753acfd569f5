"""Where the landmark network puts its 468 points on real faces, as places on the head model; made by tools/calibrate_landmarks.py.

The head asset's own embedding was found on renders of a bare head, which the network reads differently from people: up to
4 mm at the jaw. The calibrated points replace it wherever a photo is fitted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from avatar3d.errors import InputError
from avatar3d.head.model import SKIN, HeadModel
from avatar3d.resources import asset_path

ASSET = "landmarks.npz"
NEIGHBOURS = 12  # triangles by centroid among which the closest point is looked for


@lru_cache(maxsize=1)
def fitting_head() -> HeadModel:
    """The default head with calibrated landmarks."""
    with np.load(asset_path(ASSET), allow_pickle=False) as data:
        points, confidence = data["points"], data["confidence"]
    return with_landmarks(HeadModel.default(), points, confidence)


def with_landmarks(head: HeadModel, points: np.ndarray, confidence: np.ndarray) -> HeadModel:
    """The head with its landmarks at the skin places nearest to points (468, 3), metres on the template; confidence (468,).

    Raises InputError when a point is farther than 5 mm from the skin: the calibration belongs to another head.
    """
    triangle, barycentric, distance = nearest_on_skin(head, points)
    if distance.max() > 0.005:
        raise InputError(
            f"a landmark lies {distance.max() * 1000:.0f} mm off the head's skin; run tools/calibrate_landmarks.py"
        )
    return replace(
        head, landmark_tri=triangle.astype(np.int32), landmark_bary=barycentric.astype(np.float32),
        landmark_confidence=confidence.astype(np.float32),
    )  # fmt: skip


def nearest_on_skin(head: HeadModel, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertex triples (K, 3), barycentrics (K, 3) and distances (K,) m of the template's skin points nearest to (K, 3) points."""
    from scipy.spatial import cKDTree

    outer = (head.part == SKIN) & (head.regions["inner_mouth"][head.faces].mean(1) < 0.5)
    faces = head.faces[outer]
    corners = head.vertices[faces].astype(np.float64)
    candidates = cKDTree(corners.mean(1)).query(points, k=NEIGHBOURS)[1]
    best = np.full(len(points), np.inf)
    chosen = np.zeros(len(points), np.int64)
    barycentric = np.zeros((len(points), 3))
    for k in range(NEIGHBOURS):
        weights = closest_barycentric(points, corners[candidates[:, k]])
        distance = np.linalg.norm((corners[candidates[:, k]] * weights[..., None]).sum(1) - points, axis=1)
        better = distance < best
        best[better], chosen[better], barycentric[better] = distance[better], candidates[better, k], weights[better]
    return faces[chosen], barycentric, best


def closest_barycentric(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(K, 3) barycentrics of the places of triangles (K, 3, 3) closest to points (K, 3): inside, else on the nearest edge."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    ab, ac, ap = b - a, c - a, points - a
    d00, d01, d11 = (ab * ab).sum(1), (ab * ac).sum(1), (ac * ac).sum(1)
    d20, d21 = (ap * ab).sum(1), (ap * ac).sum(1)
    area = np.maximum(d00 * d11 - d01 * d01, 1e-20)
    v, w = (d11 * d20 - d01 * d21) / area, (d00 * d21 - d01 * d20) / area
    out = np.stack([1 - v - w, v, w], axis=1)
    best = np.full(len(points), np.inf)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        edge = corners[:, j] - corners[:, i]
        along = np.clip(((points - corners[:, i]) * edge).sum(1) / np.maximum((edge * edge).sum(1), 1e-20), 0, 1)
        distance = np.linalg.norm(corners[:, i] + along[:, None] * edge - points, axis=1)
        take = (np.minimum(np.minimum(1 - v - w, v), w) < 0) & (distance < best)
        best[take] = distance[take]
        out[take] = 0
        out[take, i], out[take, j] = 1 - along[take], along[take]
    return out
