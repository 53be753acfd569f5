"""Which pixels are hair, from MediaPipe's hair segmentation network; beards and brows count as hair, whose head it is does not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from avatar3d.face.crop import Square, cut
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.networks import Network, load_network
from avatar3d.head.mediapipe import CHIN, FOREHEAD_TOP, TEMPLES
from avatar3d.resources import asset_path

HAIR_FILE = "hair_segmenter.tflite"  # in assets/
INPUT_SIZE = 512  # the network's input, pixels
# Two views: side over the face's axis, and how far up the axis the centre lies. The close one draws finer outlines and takes
# neighbours' hair for this head's; the wide one, seen in the mirror, has room about the head. On masks drawn by hand of eight
# photos the median IoU is .85 of the wide view alone and its mirror image, .89 of the close one, .90 of both as they are joined.
CLOSE_VIEW, WIDE_VIEW = (1.93, 0.64), (2.69, 0.58)
SEAM_PX = 40.0  # of the close view, over which the wide one takes over
# About the face an ellipse whose middle lies here on the axis: its half axes over the face's width and axis, up and down. The
# close view is believed alone up to the first multiple of it, and no more than the other from the second on.
MIDDLE, ACROSS, UP, DOWN = 0.75, 0.55, 0.55, 0.8
BELIEVED = (1.37, 1.75)
SURE = 0.5  # probability from which on a pixel is hair


@dataclass(frozen=True)
class HairSeen:
    """probability: (H, W) f32 in [0, 1]. agreement: IoU in [0, 1] of what the network calls hair in its two views."""

    probability: np.ndarray
    agreement: float


def hair_probability(rgb: np.ndarray, landmarks: FaceLandmarks, model_path: Path | None = None, threads: int = 2) -> HairSeen:
    """Hair about one face of a (H, W, 3) uint8 sRGB picture; 0 where it lies far outside that face's head.

    model_path: another hair_segmentation.tflite. Raises WorkError when the asset or ai-edge-litert is missing, InputError when
    the file is no network.
    """
    network = load_network(model_path or asset_path(HAIR_FILE), None, threads)
    points = landmarks.points_px[:, :2]
    close, wide = (_view(points, *view) for view in (CLOSE_VIEW, WIDE_VIEW))
    shape = rgb.shape[:2]
    fine = _laid_onto(_answer(network, rgb, close, mirrored=False), close, shape)
    coarse = _laid_onto(_answer(network, rgb, wide, mirrored=True), wide, shape)
    within = _laid_onto(_ramp(), close, shape)
    both = [(part > SURE) & (within > 0.5) for part in (fine, coarse)]
    union = (both[0] | both[1]).sum()
    alone = _alone(points, shape)
    joined = within * (fine + (1 - alone) * (coarse - fine) / 2) + (1 - within) * coarse
    return HairSeen(joined.astype(np.float32), float((both[0] & both[1]).sum() / union) if union else 1.0)


def _view(points: np.ndarray, over_axis: float, centre: float) -> Square:
    axis = points[FOREHEAD_TOP] - points[CHIN]
    x, y = points[CHIN] + centre * axis
    return Square(float(x), float(y), over_axis * float(np.linalg.norm(axis)), math.atan2(axis[0], -axis[1]))


def _alone(points: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(H, W) f32: 1 about the face, where the close view is believed alone, down to 0 where neighbours may stand."""
    axis = points[FOREHEAD_TOP] - points[CHIN]
    length, width = (float(np.linalg.norm(ends)) for ends in (axis, points[TEMPLES[0]] - points[TEMPLES[1]]))
    offset = np.stack(np.meshgrid(np.arange(shape[1]) + 0.5, np.arange(shape[0]) + 0.5), -1) - points[CHIN] - MIDDLE * axis
    height = offset @ axis / length**2
    lateral = offset @ (-axis[1], axis[0]) / length
    off = np.hypot(lateral / (ACROSS * width), height / np.where(height > 0, UP, DOWN))
    return np.clip((BELIEVED[1] - off) / (BELIEVED[1] - BELIEVED[0]), 0.0, 1.0).astype(np.float32)


def _ramp() -> np.ndarray:
    """(512, 512) f32: 1 inside a view, down to 0 at its border."""
    ticks = np.minimum(np.arange(INPUT_SIZE), np.arange(INPUT_SIZE)[::-1]) / SEAM_PX
    return np.minimum(1.0, np.minimum(ticks[:, None], ticks[None, :])).astype(np.float32)


def _answer(network: Network, rgb: np.ndarray, square: Square, mirrored: bool) -> np.ndarray:
    """(512, 512) f32: hair's probability in a view, which the network sees as it is or in the mirror."""
    batch = np.zeros((1, INPUT_SIZE, INPUT_SIZE, 4), np.float32)  # the fourth channel is a film's last mask: none
    batch[0, ..., :3] = cut(rgb, square, INPUT_SIZE, cv2.BORDER_REPLICATE).astype(np.float32) / 255.0
    logits = network.run(batch[:, :, ::-1] if mirrored else batch)[0][0]
    hair = 1.0 / (1.0 + np.exp(np.clip(logits[..., 0] - logits[..., 1], -60.0, 60.0)))
    return hair[:, ::-1] if mirrored else hair


def _laid_onto(view: np.ndarray, square: Square, shape: tuple[int, int]) -> np.ndarray:
    """A view's values in the picture's pixels, 0 outside the view."""
    corners = square.from_image(np.array([[0.5, 0.5], [1.5, 0.5], [0.5, 1.5]])) * INPUT_SIZE - 0.5
    matrix = np.column_stack([corners[1] - corners[0], corners[2] - corners[0], corners[0]])
    return cv2.warpAffine(view.astype(np.float32), matrix, shape[::-1], flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
