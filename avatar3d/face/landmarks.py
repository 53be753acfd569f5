"""The 478 landmarks of one face (MediaPipe's canonical numbering) and what follows from them: size, yaw, cropping."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.face.crop import Square, cut
from avatar3d.face.detector import FaceBox
from avatar3d.face.networks import Network
from avatar3d.head.mediapipe import LEFT_EYE_CORNERS, MESH_POINTS, MIRRORED_PAIRS, POINTS, RIGHT_EYE_CORNERS

INPUT_SIZE = 256  # the network's input, pixels
CROP_MARGIN = 1.5  # crop side over the face's extent, as the network was trained


@dataclass(frozen=True)
class FaceLandmarks:
    """points_px: (478, 3) float64, x and y in continuous pixels, z in pixels of the same scale.

    z grows away from the camera and is zero near the head's middle; it is a guess of the network, much weaker
    than x and y. 0-467 are the face mesh, 468-472 the subject's right iris (centre first), 473-477 the left.
    presence: in [0, 1], how sure the network is that the crop holds a face.
    """

    points_px: np.ndarray
    presence: float

    @property
    def iod_px(self) -> float:
        """Distance between the eye centres (midpoints of the eye corners) in the picture, pixels."""
        return float(np.linalg.norm(np.subtract(*self._eye_centres())))

    @property
    def roll_rad(self) -> float:
        """Turn of the eye line in the picture, clockwise as seen."""
        right, left = self._eye_centres()
        return math.atan2(left[1] - right[1], left[0] - right[0])

    @property
    def yaw_rad(self) -> float:
        """Turn of the head about its vertical axis, positive toward the subject's left.

        Measured on renders of a turned scan: within 2 degrees up to 40, short by 4 to 6 degrees at 50 to 70.
        """
        right, left = (np.array([pair[side] for pair in MIRRORED_PAIRS]) for side in (0, 1))
        axis = (self.points_px[left] - self.points_px[right]).sum(axis=0)
        return math.atan2(axis[2], math.hypot(axis[0], axis[1]))

    @property
    def box_px(self) -> np.ndarray:
        """(4,) x0, y0, x1, y1 about the 468 mesh points."""
        points = self.points_px[:MESH_POINTS, :2]
        return np.concatenate([points.min(axis=0), points.max(axis=0)])

    def outside_share(self, width: int, height: int) -> float:
        """Share of the 468 mesh points that lie outside a picture of this size."""
        x, y = self.points_px[:MESH_POINTS, 0], self.points_px[:MESH_POINTS, 1]
        return float(((x < 0) | (y < 0) | (x > width) | (y > height)).mean())

    def _eye_centres(self) -> tuple[np.ndarray, np.ndarray]:
        points = self.points_px[:, :2]
        return points[list(RIGHT_EYE_CORNERS)].mean(axis=0), points[list(LEFT_EYE_CORNERS)].mean(axis=0)


def square_from_box(box: FaceBox) -> Square:
    """The network's crop for a detection: upright to the eyes."""
    right, left = box.keypoints_px[0], box.keypoints_px[1]
    angle = math.atan2(left[1] - right[1], left[0] - right[0])
    x0, y0, x1, y1 = box.box_px
    return Square((x0 + x1) / 2, (y0 + y1) / 2, max(x1 - x0, y1 - y0) * CROP_MARGIN, angle)


def square_from_landmarks(landmarks: FaceLandmarks) -> Square:
    """The network's crop about landmarks found before: upright to the eyes, centred on the mesh's extent."""
    angle = landmarks.roll_rad
    turned = Square(0.0, 0.0, 1.0, angle)
    local = turned.from_image(landmarks.points_px[:MESH_POINTS, :2])
    low, high = local.min(axis=0), local.max(axis=0)
    x, y = turned.to_image((low + high) / 2)
    return Square(float(x), float(y), float((high - low).max()) * CROP_MARGIN, angle)


def landmarks_in(network: Network, rgb: np.ndarray, square: Square) -> FaceLandmarks:
    """Landmarks of the face in `square` of a (H, W, 3) uint8 sRGB picture."""
    picture = cut(rgb, square, INPUT_SIZE, cv2.BORDER_REPLICATE)
    outputs = network.run(picture[None].astype(np.float32) / 255.0)
    local = outputs[0].reshape(POINTS, 3).astype(np.float64) / INPUT_SIZE
    points = np.column_stack([square.to_image(local[:, :2]), local[:, 2] * square.side])
    logit = float(outputs[1].ravel()[0])
    return FaceLandmarks(points, 1.0 / (1.0 + math.exp(-max(-80.0, min(80.0, logit)))))
