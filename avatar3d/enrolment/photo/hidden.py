"""What lies before the face in a photo: a mask or hand over the mouth, a hand over a brow or the forehead.

It is told by what is missing. Landmarks are drawn where a face has them, seen or not; lips as pale as what is around them are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import closed, grown, large_parts, parts_with, polygon, shrunk
from avatar3d.enrolment.photo.parse_frame import FaceFrame, face_frame
from avatar3d.enrolment.photo.parse_skin import SMOOTH_PX, skin_colour
from avatar3d.enrolment.photo.segment import Labels
from avatar3d.head.mediapipe import LEFT_BROW, LEFT_EYE, LIPS_OUTER, RIGHT_BROW, RIGHT_EYE

# Lips against what is around them: chroma over lightness (of 100), a of Lab, lightness. Lips of 30 photos reach 2.2 and more, a mask
# or fingers over them 1.2 at most but for black cloth, whose lightness tells.
LIP_CHROMA, LIP_RED, LIP_LIGHTNESS = 1.6, 1.6, (0.79, 1.06)
RING_PX, RING_GAP_PX = 25.0, 9.0  # diameters, about lips and brows
# The lower face against the upper: chroma over lightness apart, or so dark, is cloth; else what covers the mouth is skin.
CLOTH_CHROMA, CLOTH_DARK = 6.0, 0.3
CLOTH_LIGHTNESS = (0.7, 1.3)  # of the middle of a mask, which stands out, over what is around it
CLOTH_PIXEL_CHROMA, CLOTH_TOP, CLOTH_LOW = 4.5, 0.66, -0.25
HAND_PX = 45.0  # about the lips, what a hand over them covers
# A brow that is as light as the skin over it, and under it an eye as light as the cheek: something lies over both.
BROW_GONE, EYE_GONE, BROW_PX = 0.955, 0.92, 37.0
# An arm that ends at the forehead, this near and with so much of it.
FOREHEAD_FROM, TOUCH_PX, TOUCH_LEAST_PX = 0.8, 25.0, 300.0
FILL_PX = 5.0  # of the work picture, over which it is evened
MIN_UPPER_PX = 300.0
DARKEST_LIGHTNESS = 20.0


@dataclass(frozen=True)
class Hidden:
    """mouth: something lies over it; cloth: and that is a mask. brows: of the right and the left side. forehead: a hand is at it.
    area: (H, W) bool of the work picture, what is not this face's skin there."""

    mouth: bool
    cloth: bool
    brows: tuple[bool, bool]
    forehead: bool
    area: np.ndarray

    @property
    def cause(self) -> str:
        """What hides the face, "" for nothing."""
        if self.mouth:
            return "a mask covers mouth and chin" if self.cloth else "something, as a hand, covers the mouth"
        if any(self.brows):
            return "something, as a hand, covers a brow and an eye"
        return "a hand covers the forehead" if self.forehead else ""

    def filled(self, rgb: np.ndarray, work: WorkPicture) -> np.ndarray:
        """A (H, W, 3) u8 photo, of which `work` is the picture, with what lies before the face replaced by what is around it."""
        if not self.area.any():
            return rgb
        side, size = round(FILL_PX), (rgb.shape[1], rgb.shape[0])
        smooth = cv2.inpaint(work.rgb, self.area.astype(np.uint8), side, cv2.INPAINT_TELEA)
        soft = cv2.GaussianBlur(self.area.astype(np.float32), (0, 0), 1.5)
        matrix = work.matrix.copy()
        matrix[:, 2] += 0.5 * work.scale - 0.5  # OpenCV puts the first pixel's centre at 0
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        share = cv2.warpAffine(soft, matrix, size, flags=flags)[..., None]
        fill = cv2.warpAffine(cv2.GaussianBlur(smooth, (0, 0), FILL_PX), matrix, size, flags=flags)
        return np.rint(rgb + share * (fill.astype(np.float32) - rgb)).astype(np.uint8)

    def notes(self) -> list[str]:
        """Sentences for the report."""
        return [f"{self.cause}; what is under it was made up from the skin around it"] if self.cause else []


def find_hidden(work: WorkPicture, labels: Labels) -> Hidden:
    """What lies before the face of a work picture whose parts are labelled."""
    points = np.asarray(work.landmarks_px, np.float64)[:, :2]
    shape = work.rgb.shape[:2]
    frame = face_frame(points, shape)
    nothing = np.zeros(shape, bool)
    colour = skin_colour(work.rgb, frame, points)
    lab = cv2.cvtColor(cv2.GaussianBlur(work.rgb, (0, 0), SMOOTH_PX * frame.unit), cv2.COLOR_RGB2LAB).astype(np.float64)

    def hull_of(indices: Sequence[int]) -> np.ndarray:
        return polygon(cv2.convexHull(points[list(indices)].astype(np.float32))[:, 0], shape)

    touching = labels.skin & (frame.height > FOREHEAD_FROM) & grown(labels.hand, TOUCH_PX * frame.unit)
    forehead = bool(touching.sum() > TOUCH_LEAST_PX * frame.unit**2)
    lips, brows, eyes = hull_of(LIPS_OUTER), [hull_of(RIGHT_BROW), hull_of(LEFT_BROW)], [hull_of(RIGHT_EYE), hull_of(LEFT_EYE)]
    upper = frame.inner & (frame.height > 0.55) & (frame.height < 0.95) & ~labels.glasses
    for part in (*brows, *eyes):
        upper &= ~grown(part, RING_GAP_PX * frame.unit)
    if colour.grey or upper.sum() < MIN_UPPER_PX * frame.unit**2:
        return Hidden(False, False, (False, False), forehead, nothing)
    skin = np.median(lab[upper], axis=0)
    mouth, cloth, area = _over_mouth(lab, lips, skin, frame, labels)
    gone = [
        _gone(lab, brow, frame, frame.face & (frame.height > frame.brow - 0.12)) > BROW_GONE
        and _eye_gone(lab, eye, frame) > EYE_GONE and not cloth and not labels.glasses.any()
        for brow, eye in zip(brows, eyes, strict=True)
    ]  # fmt: skip
    for side in np.flatnonzero(gone):
        area = area | grown(brows[side] | eyes[side], BROW_PX * frame.unit)
    return Hidden(mouth, cloth, (gone[0], gone[1]), forehead, area)


def _ring(part: np.ndarray, frame: FaceFrame) -> np.ndarray:
    return grown(part, RING_PX * frame.unit) & ~grown(part, RING_GAP_PX * frame.unit)


def _chroma(lab: np.ndarray) -> np.ndarray:
    """(..., 2) chroma over lightness, of 100: what a change of brightness leaves as it is."""
    return 100 * (lab[..., 1:] - 128) / np.maximum(lab[..., :1], DARKEST_LIGHTNESS)


def _over_mouth(
    lab: np.ndarray, lips: np.ndarray, skin: np.ndarray, frame: FaceFrame, labels: Labels
) -> tuple[bool, bool, np.ndarray]:
    """(whether something lies over the lips, whether it is cloth, (H, W) bool where)."""
    nothing = np.zeros(lips.shape, bool)
    around = _ring(lips, frame) & frame.face
    low = frame.inner & (frame.height < 0.36) & ~grown(lips, RING_GAP_PX * frame.unit)
    if min(lips.sum(), around.sum(), low.sum()) < 9:
        return False, False, nothing
    mouth, beside, lower = (np.median(lab[part], axis=0) for part in (lips, around, low))
    plain = float(np.hypot(*(_chroma(mouth) - _chroma(beside)))) < LIP_CHROMA and abs(mouth[1] - beside[1]) < LIP_RED
    dark = lower[0] < CLOTH_DARK * skin[0]
    if not plain or ((labels.beard & around).sum() > 0.5 * around.sum() and not dark):
        return False, False, nothing
    cloth = dark or np.hypot(*(_chroma(lower) - _chroma(skin))) > CLOTH_CHROMA
    low_limit, high_limit = CLOTH_LIGHTNESS if cloth else LIP_LIGHTNESS
    if not low_limit < mouth[0] / max(beside[0], 1) < high_limit:
        return False, False, nothing
    if not cloth:
        return True, False, grown(lips, HAND_PX * frame.unit)
    other = np.hypot(*np.moveaxis(_chroma(lab) - _chroma(skin), -1, 0)) > CLOTH_PIXEL_CHROMA
    other |= lab[..., 0] < CLOTH_DARK * skin[0]
    zone = (frame.height < CLOTH_TOP) & (frame.height > CLOTH_LOW) & grown(frame.face, RING_PX * frame.unit)
    found = parts_with(closed(other & zone, RING_GAP_PX * frame.unit), lips) | lips
    return True, True, grown(large_parts(found, 9), RING_GAP_PX * frame.unit)


def _gone(lab: np.ndarray, part: np.ndarray, frame: FaceFrame, within: np.ndarray) -> float:
    """Lightness of the darker third of a part over that of what is around it."""
    around = _ring(part, frame) & within
    if not part.any() or not around.any():
        return 0.0
    return float(np.percentile(lab[part, 0], 35) / max(np.median(lab[around, 0]), 1))


def _eye_gone(lab: np.ndarray, eye: np.ndarray, frame: FaceFrame) -> float:
    """Lightness of an eye's rim over that of the cheeks."""
    rim = grown(eye, 13 * frame.unit) & ~grown(eye, 5 * frame.unit)
    cheeks = shrunk(frame.inner, 3) & (frame.height > 0.42) & (frame.height < 0.62)
    if not rim.any() or not cheeks.any():
        return 0.0
    return float(np.median(lab[rim, 0]) / max(np.median(lab[cheeks, 0]), 1))
