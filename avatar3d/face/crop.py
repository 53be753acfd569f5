"""Cutting a turned square out of a picture at a network's input size, without aliasing, and mapping points back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

# Above this ratio bilinear sampling skips source pixels, so the picture is first shrunk by area averaging.
MAX_BILINEAR_RATIO = 1.5


@dataclass(frozen=True)
class Square:
    """A square in a picture, continuous pixel coordinates: centre, side length, and the turn of its x axis (radians).

    A positive angle turns from image x toward image y, clockwise as seen.
    """

    x: float
    y: float
    side: float
    angle_rad: float = 0.0

    def to_image(self, unit: np.ndarray) -> np.ndarray:
        """Map (..., 2) coordinates in the unit square, (0, 0) its first corner, to the picture's pixels."""
        local = (np.asarray(unit, dtype=np.float64) - 0.5) * self.side
        return local @ self._axes() + (self.x, self.y)

    def from_image(self, points: np.ndarray) -> np.ndarray:
        """Inverse of `to_image`."""
        return (np.asarray(points, dtype=np.float64) - (self.x, self.y)) @ self._axes().T / self.side + 0.5

    def _axes(self) -> np.ndarray:
        cosine, sine = math.cos(self.angle_rad), math.sin(self.angle_rad)
        return np.array([[cosine, sine], [-sine, cosine]])


def cut(rgb: np.ndarray, square: Square, size: int, border: int) -> np.ndarray:
    """Resample `square` of a (H, W, C) or (H, W) picture to (size, size, C).

    border: cv2.BORDER_CONSTANT (zeros) or cv2.BORDER_REPLICATE, for what lies outside the picture.
    """
    corners = square.to_image(np.array([[0, 0], [1, 0], [0, 1]], dtype=np.float64))
    ratio = square.side / size
    if ratio > MAX_BILINEAR_RATIO:
        rgb, corners = _shrink_around(rgb, corners, square, ratio)
    step_x, step_y = (corners[1] - corners[0]) / size, (corners[2] - corners[0]) / size
    # Continuous coordinates have the first pixel's centre at 0.5, OpenCV's at 0.
    offset = corners[0] + 0.5 * (step_x + step_y) - 0.5
    matrix = np.column_stack([step_x, step_y, offset])
    return cv2.warpAffine(rgb, matrix, (size, size), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=border)


def _shrink_around(rgb: np.ndarray, corners: np.ndarray, square: Square, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """The part of the picture about the square, shrunk by `ratio`, and the corners in its coordinates."""
    height, width = rgb.shape[:2]
    reach = square.side * (abs(math.cos(square.angle_rad)) + abs(math.sin(square.angle_rad))) / 2 + 2 * ratio
    left, right = (int(np.clip(square.x + sign * reach, 0, width)) for sign in (-1, 1))
    top, bottom = (int(np.clip(square.y + sign * reach, 0, height)) for sign in (-1, 1))
    # A square wholly outside still needs one pixel to replicate.
    left, top = min(left, width - 1), min(top, height - 1)
    part = rgb[top : max(bottom, top + 1), left : max(right, left + 1)]
    part_height, part_width = part.shape[:2]
    small_size = (max(1, round(part_width / ratio)), max(1, round(part_height / ratio)))
    small = cv2.resize(part, small_size, interpolation=cv2.INTER_AREA)
    scale = np.array([small_size[0] / part_width, small_size[1] / part_height])
    return small, (corners - (left, top)) * scale
