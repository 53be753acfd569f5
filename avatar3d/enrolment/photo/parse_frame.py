"""The face's own axes in a work picture: what all parts of the segmentation measure heights, sides and sizes by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.enrolment.photo.masks import polygon, shrunk
from avatar3d.head.mediapipe import BROW_TOPS, CHIN, FACE_OVAL, FOREHEAD_TOP, IRIS_CENTRES, NOSE_ROOT, NOSE_TIP, TEMPLES

WORK_IOD_PX = 88.0  # pixel sizes of the segmentation are for this distance between the eyes and scale with it

HEADROOM_MIDDLE, HEADROOM_TOP, HEADROOM_WIDTH = 0.75, 1.6, 0.6  # an ellipse: heights, and its half width over the face's


@dataclass(frozen=True)
class FaceFrame:
    """Measures of (H, W) pixels: height 0 at the chin and 1 at the top of the face oval, lateral pixels toward the picture's
    right of the face's midline; face (bool), inner the same without its rim. chin, top: (2,) pixels, the axis' ends. brow:
    height of the brows. turn: nose tip off the temples' middle over the face's width, positive to the picture's right. width:
    between the temples, pixels. unit: pixels per pixel of the reference scale.
    """

    height: np.ndarray
    lateral: np.ndarray
    face: np.ndarray
    inner: np.ndarray
    chin: np.ndarray
    top: np.ndarray
    brow: float
    turn: float
    width: float
    unit: float

    def at(self, height: float) -> np.ndarray:
        """(2,) pixel of the axis at a height."""
        return self.chin + height * (self.top - self.chin)

    def height_of(self, pixels: np.ndarray) -> np.ndarray:
        """(...,) heights of (..., 2) pixels."""
        axis = self.top - self.chin
        return (pixels - self.chin) @ axis / (axis @ axis)


def face_frame(landmarks_px: np.ndarray, shape: tuple[int, int]) -> FaceFrame:
    """The frame of (478, 2) landmarks in a picture of (H, W) pixels."""
    face = polygon(landmarks_px[list(FACE_OVAL)], shape)
    unit = float(np.linalg.norm(landmarks_px[IRIS_CENTRES[0]] - landmarks_px[IRIS_CENTRES[1]]) / WORK_IOD_PX)
    chin, top = landmarks_px[CHIN], landmarks_px[FOREHEAD_TOP]
    length = float(np.linalg.norm(top - chin))
    up = (top - chin) / length
    right = np.array([-up[1], up[0]])
    grid = np.stack(np.meshgrid(np.arange(shape[1]) + 0.5, np.arange(shape[0]) + 0.5), -1)
    height = ((grid - chin) @ up / length).astype(np.float32)
    brow = float(((landmarks_px[list(BROW_TOPS)] - chin) @ up).max() / length)
    temples = landmarks_px[list(TEMPLES)]
    width = float(np.linalg.norm(temples[0] - temples[1]))
    turn = float((landmarks_px[NOSE_TIP] - temples.mean(0)) @ right / width)
    lateral = ((grid - landmarks_px[NOSE_ROOT]) @ right).astype(np.float32)
    return FaceFrame(height, lateral, face, shrunk(face, 9 * unit), chin, top, brow, turn, width, unit)


def headroom(frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: where a head without hair may reach, hat and all."""
    across, up = HEADROOM_WIDTH * frame.width, HEADROOM_TOP - HEADROOM_MIDDLE
    return (frame.lateral / across) ** 2 + ((frame.height - HEADROOM_MIDDLE) / up) ** 2 < 1
