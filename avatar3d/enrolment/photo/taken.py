"""How a photo's face was taken: how sharp, and how evenly lit. It knows nothing of the avatar."""

from __future__ import annotations

import cv2
import numpy as np

from avatar3d.color import srgb_to_linear
from avatar3d.enrolment.photo.masks import grown, polygon, shrunk
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.head.mediapipe import CHIN, EYE_LOOPS, FACE_OVAL, FOREHEAD_TOP

# Deviations of blurs over the distance between the eyes: about a pixel at WORK_IOD_PX, two, and what is broader than lids and iris.
FINE_IOD, MIDDLE_IOD, BROAD_IOD = 0.011, 0.022, 0.12
LEAST_FINE_PX = 0.4  # what a pixel itself blurs
AROUND_EYES_IOD, OVAL_RIM_IOD, MIDLINE_IOD = 0.16, 0.16, 0.2
DARKEST = 1e-3  # linear light


def sharpness(rgb: np.ndarray, landmarks: FaceLandmarks) -> float:
    """Contrast about the eyes at the scale of single lashes over that of lids and irises, of a (H, W, 3) u8 photo.

    Sharp photos have 0.17 to 0.42, whatever their size; one out of focus by 0.045 of the distance between the eyes 0.11.
    """
    iod, points = landmarks.iod_px, landmarks.points_px[:, :2]
    grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32)
    eyes = np.any([polygon(points[list(loop)], grey.shape) for loop in EYE_LOOPS], axis=0)
    eyes = grown(eyes, AROUND_EYES_IOD * iod)
    fine, middle, broad = (
        cv2.GaussianBlur(grey, (0, 0), max(share * iod, least))
        for share, least in ((FINE_IOD, LEAST_FINE_PX), (MIDDLE_IOD, LEAST_FINE_PX), (BROAD_IOD, 1.0))
    )
    return float((fine - middle)[eyes].std() / max(float((middle - broad)[eyes].std()), 1e-3)) if eyes.any() else 0.0


def light_ratio(rgb: np.ndarray, landmarks: FaceLandmarks) -> float:
    """Median linear light of the brighter half of the face over the darker's, at least 1, of a (H, W, 3) u8 photo."""
    iod, points = landmarks.iod_px, landmarks.points_px[:, :2]
    axis = points[FOREHEAD_TOP] - points[CHIN]
    across = np.array([-axis[1], axis[0]]) / max(float(np.linalg.norm(axis)), 1e-6)
    rows, columns = np.nonzero(shrunk(polygon(points[list(FACE_OVAL)], rgb.shape[:2]), OVAL_RIM_IOD * iod))
    aside = (np.stack([columns, rows], -1) + 0.5 - points[CHIN]) @ across
    light = srgb_to_linear(rgb[rows, columns]).mean(-1)
    halves = [light[side * aside > MIDLINE_IOD * iod] for side in (-1, 1)]
    if not min(len(half) for half in halves):
        return 1.0
    darker, brighter = sorted(max(float(np.median(half)), DARKEST) for half in halves)
    return brighter / darker
