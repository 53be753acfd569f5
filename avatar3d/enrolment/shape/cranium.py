"""The cranium that no landmark sees: grown to a head's usual height over its face, or sunk, so that the photo's outline holds it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import look_up
from avatar3d.fitting.fit import FaceFit
from avatar3d.geometry import smoothstep
from avatar3d.head.mediapipe import CHIN, FOREHEAD_TOP
from avatar3d.head.model import SKIN, HeadModel

# Eyes lie half way down a head (the head model's mean: 0.99); a fit to the face alone leaves the cranium 12 % low.
TOP_OVER_CHIN = 0.99
CENTRE_OVER_EYES_M = 0.020  # the cranium grows about this height, half way between forehead and occiput
SIDE_FROM_RAD, WHOLE_FROM_RAD = np.radians(15.0), np.radians(65.0)  # elevations between which growth sets in, beside the face
MAX_GROWTH_M = 0.022
MATTE_LEVEL, MORE_OUTSIDE = 0.5, 0.02  # share of the cranium's vertices that growth may bring outside the person
STEPS = 12
# A skull lies inside its person: one that stands out of the matte, or leaves hair no room, is sunk.
MAX_SINK_M, HAIR_ROOM_M, MOST_OUTSIDE = 0.015, 0.002, 0.02


def grow_cranium(fit: FaceFit, head: HeadModel, work: WorkPicture, matte: np.ndarray) -> FaceFit:
    """The fit with the top of its head raised or sunk; face, ears and neck stay. matte: (H, W) of the work picture, the person."""
    points = head.landmark_points(fit.vertices)
    skin = head.vertex_part == SKIN
    top = float(fit.vertices[skin, 1].max())
    growth = float(np.clip(-TOP_OVER_CHIN * points[CHIN, 1] - top, 0.0, MAX_GROWTH_M))
    field = _field(fit.vertices, points[FOREHEAD_TOP], head)
    moved = np.linalg.norm(field, axis=1) > 0.6  # a matte errs beside the head more than over it

    def outside(offset: np.ndarray) -> float:
        return float((look_up(matte, work.camera.project((fit.vertices + offset)[moved])[0]) < MATTE_LEVEL).mean())

    sunk = [outside(field * (HAIR_ROOM_M - MAX_SINK_M * step / STEPS)) for step in range(STEPS + 1)]
    if sunk[0] > MOST_OUTSIDE:
        # As little as brings it inside; where nothing does, the matte is wrong or the head another, and what helps most is taken.
        step = next((step for step, share in enumerate(sunk) if share <= MOST_OUTSIDE), int(np.argmin(sunk)))
        offset = field * (-MAX_SINK_M * step / STEPS)
        return replace(fit, vertices=fit.vertices + offset, neutral_vertices=fit.neutral_vertices + offset)
    allowed = outside(np.zeros_like(field)) + MORE_OUTSIDE
    for step in range(STEPS, 0, -1):
        offset = field * (growth * step / STEPS)
        if outside(offset) <= allowed:
            return replace(fit, vertices=fit.vertices + offset, neutral_vertices=fit.neutral_vertices + offset)
    return fit


def _field(vertices: np.ndarray, forehead: np.ndarray, head: HeadModel) -> np.ndarray:
    """(V, 3) outward directions about the cranium's middle, of length 1 at the top and 0 at the face, the ears and below."""
    upper = vertices[(vertices[:, 1] > 0.0) & (head.vertex_part == SKIN)]
    centre = np.array([0.0, CENTRE_OVER_EYES_M, (upper[:, 2].min() + upper[:, 2].max()) / 2])
    offset = vertices - centre
    distance = np.maximum(np.linalg.norm(offset, axis=1), 1e-6)
    elevation = np.arcsin(np.clip(offset[:, 1] / distance, -1, 1))
    face_end = np.arcsin((forehead - centre)[1] / np.linalg.norm(forehead - centre))
    ahead = np.clip(offset[:, 2] / np.maximum(np.hypot(offset[:, 0], offset[:, 2]), 1e-6), 0, 1)
    start = SIDE_FROM_RAD + (face_end - SIDE_FROM_RAD) * ahead
    raised = smoothstep(start, WHOLE_FROM_RAD + 0.3 * ahead, elevation)
    share = raised * (head.vertex_part == SKIN) * (1 - np.clip(head.regions["ears"], 0, 1))
    return offset / distance[:, None] * share[:, None]
