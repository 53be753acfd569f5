"""Whether the photo bears out a drawn head's outline: by its own colours and the matting network, never by the hair's mask.

A head is built to meet the mask of its hair, so that it agrees with that mask however wrong it is. Where the mask ends in the
middle of the backdrop, or of the hair, the photo has one colour on both sides and the person goes on, or ended long before.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.enrolment.photo.masks import shrunk
from avatar3d.enrolment.photo.parse_frame import WORK_IOD_PX
from avatar3d.head.mediapipe import IRIS_CENTRES

# Sizes in pixels are for WORK_IOD_PX.
SMOOTH_PX, NORMAL_PX = 1.2, 4.0  # of the colours; of the distance to the outline, whose gradient is its normal
STRIP_PX, SAMPLES = (3.0, 10.0), 8  # how far within and without the outline colours are compared, and at how many places
# Their means differ by less than this many times the deviation within both strips: one colour. Light says less than hue.
WEAK_CONTRAST, LIGHTNESS_SHARE, NOISE = 1.0, 0.6, 4.0  # NOISE: added variance, 8-bit CIELAB
FAR_PX = 10.0  # the person's own outline is blurred by the matting network's 256 pixels a side
EDGE_PX = 41.0  # twice how near the photo's edge nothing is judged: the matting network is unsure there
LEAST_PLACES = 30


@dataclass(frozen=True)
class Rim:
    """flat: share of the drawn outline where the photo's colours do not change. unsupported: share where no person ends either;
    both None where too little of it is to be judged. beyond_person: share of the drawn head where the matting network sees nobody.
    """

    flat: float | None = None
    unsupported: float | None = None
    beyond_person: float | None = None


def rim_of(drawn: np.ndarray, photo: np.ndarray, person: np.ndarray, landmarks_px: np.ndarray, judged: np.ndarray) -> Rim:
    """The outline of the (H, W) bool head `drawn` at the photo's camera, looked for in the (H, W, 3) u8 photo.

    person: (H, W) matte of the matting network as it is, neighbours and all. landmarks_px: (478, 2 or 3). judged: (H, W) bool,
    what the photo shows of what the head should have.
    """
    unit = float(np.linalg.norm(landmarks_px[IRIS_CENTRES[0], :2] - landmarks_px[IRIS_CENTRES[1], :2])) / WORK_IOD_PX
    nobody = (person <= 0.5).astype(np.uint8)
    beyond = (drawn & (nobody > 0) & judged).sum() / max((drawn & judged).sum(), 1)
    outline = drawn & (cv2.erode(drawn.astype(np.uint8), np.ones((3, 3), np.uint8)) == 0)
    rows, columns = np.nonzero(outline & shrunk(judged, EDGE_PX * unit))
    if len(rows) < LEAST_PLACES:
        return Rim(beyond_person=float(beyond))
    away = cv2.distanceTransform(nobody, cv2.DIST_L2, 5) + cv2.distanceTransform(1 - nobody, cv2.DIST_L2, 5)
    far = away[rows, columns] > FAR_PX * unit
    flat = _contrast(drawn, photo, rows, columns, unit) < WEAK_CONTRAST
    return Rim(float(flat.mean()), float((far & flat).mean()), float(beyond))


def _contrast(drawn: np.ndarray, photo: np.ndarray, rows: np.ndarray, columns: np.ndarray, unit: float) -> np.ndarray:
    """(N,) difference of the photo's colours within and without the outline at N of its pixels, in their own deviations."""
    inside = drawn.astype(np.uint8)
    depth = cv2.distanceTransform(inside, cv2.DIST_L2, 5) - cv2.distanceTransform(1 - inside, cv2.DIST_L2, 5)
    down, right = np.gradient(cv2.GaussianBlur(depth, (0, 0), NORMAL_PX * unit))
    inward = np.stack([right, down], -1)[rows, columns]
    inward /= np.maximum(np.linalg.norm(inward, axis=-1, keepdims=True), 1e-6)
    lab = cv2.cvtColor(cv2.GaussianBlur(photo, (0, 0), SMOOTH_PX * unit), cv2.COLOR_RGB2LAB).astype(np.float32)
    lab *= np.array([LIGHTNESS_SHARE, 1, 1], np.float32)
    steps = np.linspace(*STRIP_PX, SAMPLES) * unit
    strips = []
    for sign in (1, -1):
        x = (columns[:, None] + sign * steps * inward[:, :1]).astype(np.float32)
        y = (rows[:, None] + sign * steps * inward[:, 1:]).astype(np.float32)
        strips.append(cv2.remap(lab, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))
    means = [strip.mean(1) for strip in strips]
    variance = sum(((strip - mean[:, None]) ** 2).sum(-1).mean(1) for strip, mean in zip(strips, means, strict=True))
    return np.linalg.norm(means[0] - means[1], axis=-1) / np.sqrt(variance + NOISE)
