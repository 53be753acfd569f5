"""Glasses in a work picture: thin rims about both eyes, where a bare face is plain, and a bridge between them; or dark lenses.

It tells that there are glasses and which pixels are frame; what frame it is, is not its business.
"""

from __future__ import annotations

import cv2
import numpy as np

from avatar3d.enroll.masks import disc, distance_to, grown, large_parts, polygon
from avatar3d.enroll.parse_frame import FaceFrame
from avatar3d.enroll.parse_skin import SkinColour
from avatar3d.enroll.seen import BROWS as BROW_POINTS
from avatar3d.enroll.seen import EYE_LEFT, EYE_RIGHT

# Sizes in pixels are for WORK_IOD_PX.
RIM_PX = 11.0  # rims are narrower than this
CONTRAST, LEAST_CONTRAST = 0.12, 9.0  # of a rim to the skin about it, over the cheeks' lightness; 8-bit scale
EYE_CORNERS = ((33, 133), (362, 263))  # each eye's corners, left to right in the picture
UNDER_EYE_PX = (10.0, 44.0)  # below the eye's corners: where lower rims run
CROSSED = 0.6  # of the columns under each eye that a rim must cross
BRIDGE_POINTS = (193, 168, 417, 6, 351, 122)  # about the nose's root, between the eyes
BRIDGE_CROSSED = 0.75
REACH_PX = 52.0  # about the eyes, where rims are taken from
DARK_LENS, LENS_SHARE = 0.45, 0.8  # of the cheeks' lightness; of the surroundings of both eyes, lids and brows' flesh alike
LENS_PX = 30.0  # diameter of those surroundings
MIN_RIM_PX = 120.0


def find_glasses(rgb: np.ndarray, colour: SkinColour, frame: FaceFrame, landmarks_px: np.ndarray) -> np.ndarray:
    """(H, W) bool: rims, bridge and dark lenses; empty where the evidence is not on both sides of the nose."""
    rims, scores = rim_evidence(rgb, colour, frame, landmarks_px)
    eyes = [polygon(landmarks_px[list(points)], rims.shape) for points in (EYE_RIGHT, EYE_LEFT)]
    around = [grown(eye, LENS_PX * frame.unit) for eye in eyes]
    dark = colour.lightness < DARK_LENS * colour.cheeks
    if min(dark[part].mean() if part.any() else 0.0 for part in around) > LENS_SHARE:
        near = (distance_to(eyes[0] | eyes[1]) < REACH_PX * frame.unit) & frame.face
        return large_parts(dark & near, MIN_RIM_PX * frame.unit**2)
    if min(scores[:2]) < CROSSED or scores[2] < BRIDGE_CROSSED:
        return np.zeros(rims.shape, bool)
    return large_parts(rims, MIN_RIM_PX * frame.unit**2)


def rim_evidence(
    rgb: np.ndarray, colour: SkinColour, frame: FaceFrame, landmarks_px: np.ndarray
) -> tuple[np.ndarray, tuple[float, float, float]]:
    """((H, W) bool of thin lines about the eyes, shares of the columns under either eye and over the nose that they cross)."""
    unit, shape = frame.unit, rgb.shape[:2]
    lightness = cv2.GaussianBlur(cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)[..., 0], (0, 0), 0.8 * unit)
    element = disc(RIM_PX * unit)
    lines = np.maximum(
        cv2.morphologyEx(lightness, cv2.MORPH_BLACKHAT, element), cv2.morphologyEx(lightness, cv2.MORPH_TOPHAT, element)
    )
    thin = lines > max(LEAST_CONTRAST, CONTRAST * colour.cheeks)
    eyes = np.zeros(shape, bool)
    for points in (EYE_RIGHT, EYE_LEFT):
        eyes |= grown(polygon(landmarks_px[list(points)], shape), 9 * unit)
    brows = np.zeros(shape, bool)
    for brow in (BROW_POINTS[:10], BROW_POINTS[10:]):
        brows |= grown(polygon(cv2.convexHull(landmarks_px[list(brow)].astype(np.float32))[:, 0], shape), 7 * unit)
    across = np.floor(frame.lateral).astype(int)
    scores = []
    down = (frame.chin - frame.top) / np.linalg.norm(frame.chin - frame.top)
    for left, right in EYE_CORNERS:
        ends = landmarks_px[[left, right]]
        strip = polygon(np.concatenate([ends + UNDER_EYE_PX[0] * unit * down, ends[::-1] + UNDER_EYE_PX[1] * unit * down]), shape)
        scores.append(_crossed(thin & ~eyes, strip, across))
    bridge = polygon(cv2.convexHull(landmarks_px[list(BRIDGE_POINTS)].astype(np.float32))[:, 0], shape)
    scores.append(_crossed(thin & ~eyes, bridge, across))
    rims = thin & ~eyes & ~brows & (distance_to(eyes) < REACH_PX * unit) & (frame.height > 0.35)
    return rims, (scores[0], scores[1], scores[2])


def _crossed(lines: np.ndarray, zone: np.ndarray, across: np.ndarray) -> float:
    """Share of the zone's columns of the face that hold a pixel of a line."""
    columns = np.unique(across[zone])
    return float(np.isin(columns, across[zone & lines]).mean()) if len(columns) else 0.0
