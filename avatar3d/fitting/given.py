"""The head that is fitted: the default one, or one from outside with every landmark that the fit looks at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from avatar3d.fitting.offsets import offset_field
from avatar3d.head.given import adopted
from avatar3d.head.landmarks import fitting_head, nearest_on_skin
from avatar3d.head.mediapipe import MESH_POINTS
from avatar3d.head.model import HeadModel
from avatar3d.head.protocol import MorphableModel

MM = 1000.0
GUESSED_CONFIDENCE = 0.3  # of a landmark that the model does not place: the default head's are sure to 0.5 to 1
BEND_NOISE_MM = 0.25  # that a landmark which the model does place may be missed by when the default head's are bent to it


def given_head(model: MorphableModel | None = None) -> HeadModel:
    """The head that enrolment and tracking fit: the default one with calibrated landmarks, or what a model from outside makes.

    Raises InputError that names what the model lacks.
    """
    return fitting_head() if model is None else with_every_landmark(adopted(model))


def with_every_landmark(head: HeadModel) -> HeadModel:
    """The head with MediaPipe's whole mesh on its skin, in MediaPipe's order.

    What it does not place itself lies where the default head's landmarks come to, moved, turned and scaled to those that it does
    place (Umeyama 1991) and bent until they meet.
    """
    ids = head.landmark_ids
    if np.array_equal(ids, np.arange(MESH_POINTS)):
        return head
    default = fitting_head()
    usual = default.landmark_points(default.vertices).astype(np.float64)
    own = head.landmark_points(head.vertices).astype(np.float64)
    placed = _aligned(usual, ids, own)
    bend = offset_field(placed[ids] * MM, (own - placed[ids]) * MM, np.ones(len(ids)), placed * MM, BEND_NOISE_MM)
    triangles, barycentric, _ = nearest_on_skin(head, placed + bend / MM)
    confidence = np.full(MESH_POINTS, GUESSED_CONFIDENCE)
    triangles[ids], barycentric[ids], confidence[ids] = head.landmark_tri, head.landmark_bary, head.landmark_confidence
    return replace(
        head, landmark_ids=np.arange(MESH_POINTS), landmark_tri=triangles.astype(np.int32),
        landmark_bary=barycentric.astype(np.float32), landmark_confidence=confidence.astype(np.float32),
    )  # fmt: skip


def _aligned(usual: np.ndarray, ids: np.ndarray, own: np.ndarray) -> np.ndarray:
    """(K, 3) places `usual` by the similarity that brings usual[ids] (L, 3) nearest to `own` (L, 3)."""
    middle, target = usual[ids].mean(0), own.mean(0)
    a, b = usual[ids] - middle, own - target
    u, s, vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    scale = float((s * signs).sum() / (a * a).sum())
    return scale * (usual - middle) @ (u * signs @ vt).T + target
