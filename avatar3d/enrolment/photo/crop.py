"""The work picture: the part of a photo about the head at a chosen scale, with the camera that took it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from avatar3d.camera import Camera
from avatar3d.face.crop import MAX_BILINEAR_RATIO
from avatar3d.head.mediapipe import EYE_CORNERS

HEAD_CENTRE_IOD = 0.15  # the head with its hair is centred this many eye distances below the eye line


@dataclass(frozen=True)
class WorkPicture:
    """A similarity crop without rotation.

    rgb: (size, size, 3) u8 sRGB. camera: what projects head-frame points onto it. landmarks_px: (478, 3) in its pixels.
    matrix: (2, 3) photo pixels to work pixels, continuous coordinates. inside: (size, size) bool, covered by the photo.
    """

    rgb: np.ndarray
    camera: Camera
    landmarks_px: np.ndarray
    matrix: np.ndarray
    inside: np.ndarray

    @property
    def scale(self) -> float:
        """Work pixels per photo pixel."""
        return float(self.matrix[0, 0])

    def to_work(self, photo_px: np.ndarray) -> np.ndarray:
        """(..., 2) pixels of the photo as the work picture's."""
        return photo_px @ self.matrix[:, :2].T + self.matrix[:, 2]


def crop(rgb: np.ndarray, camera: Camera, landmarks_px: np.ndarray, iod_px: float, size: int) -> WorkPicture:
    """Cut (size, size) about the head of a (H, W, 3) u8 photo so that the eye centres lie iod_px pixels apart.

    camera: the photo's, head frame. landmarks_px: (478, 3) of the photo. What lies outside the photo repeats its edge and is
    False in `inside`.
    """
    eyes = [landmarks_px[list(corners), :2].mean(axis=0) for corners in EYE_CORNERS]
    photo_iod = float(np.linalg.norm(eyes[1] - eyes[0]))
    scale = iod_px / photo_iod
    centre = (eyes[0] + eyes[1]) / 2 + (0.0, HEAD_CENTRE_IOD * photo_iod)
    matrix = np.array([[scale, 0, size / 2 - scale * centre[0]], [0, scale, size / 2 - scale * centre[1]]])
    lift = np.vstack([matrix, [0, 0, 1]])
    points = np.array(landmarks_px, dtype=np.float64)
    points[:, :2] = points[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    points[:, 2] *= scale
    work_camera = replace(camera, width=size, height=size, intrinsics=lift @ camera.intrinsics)
    inside = resample(np.ones(rgb.shape[:2], np.float32), matrix, size, constant=True) > 0.5
    return WorkPicture(resample(rgb, matrix, size), work_camera, points, matrix, inside)


def resample(picture: np.ndarray, matrix: np.ndarray, size: int, constant: bool = False) -> np.ndarray:
    """A (H, W[, C]) picture seen through a (2, 3) similarity onto (size, size), without aliasing.

    constant: zeros outside the picture rather than its edge repeated.
    """
    scale = float(matrix[0, 0])
    source, lift = picture, np.array(matrix, dtype=np.float64)
    if scale * MAX_BILINEAR_RATIO < 1:
        height, width = picture.shape[:2]
        small = (max(1, round(width * scale)), max(1, round(height * scale)))
        source = cv2.resize(picture, small, interpolation=cv2.INTER_AREA)
        lift[:, 0] *= width / small[0]
        lift[:, 1] *= height / small[1]
    # OpenCV puts the first pixel's centre at 0, we at 0.5.
    lift[:, 2] += 0.5 * (lift[:, 0] + lift[:, 1]) - 0.5
    border = cv2.BORDER_CONSTANT if constant else cv2.BORDER_REPLICATE
    # Enlarging by bicubic keeps a small photo crisp; masks and shrunk photos have nothing to gain from it.
    flags = cv2.INTER_CUBIC if scale > 1 and source.dtype == np.uint8 else cv2.INTER_LINEAR
    return cv2.warpAffine(source, lift, (size, size), flags=flags, borderMode=border)


def between(picture: np.ndarray, source: WorkPicture, target: WorkPicture) -> np.ndarray:
    """A (H, W[, C]) picture in `source`'s pixels brought to `target`'s; zeros where the source does not reach."""
    scale = target.scale / source.scale
    matrix = np.column_stack([np.eye(2) * scale, target.matrix[:, 2] - scale * source.matrix[:, 2]])
    return resample(picture, matrix, target.camera.width, constant=True)
