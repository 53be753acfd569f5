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
from avatar3d.resources import asset_path

HAIR_FILE = "hair_segmenter.tflite"  # in assets/
INPUT_SIZE = 512  # the network's input, pixels
CHIN, FOREHEAD_TOP = 152, 10  # landmarks: the ends of the face's axis
# The network's view: side over the face's axis, and how far up the axis its centre lies. Measured on masks drawn by hand of eight
# photos: median IoU .85 where it is 2.7 (the whole head with room about it), .90 here, .90 with one poor head at 1.7.
VIEW_OVER_AXIS, CENTRE = 1.93, 0.64
WIDER = 2.0  # side of the view that is looked at when hair leaves the first one, over the first one's
BORDER_PX, BORDER_HAIR_PX = 6, 20  # of the view: hair in its rim this wide, over more pixels than this, leaves it
SEAM_PX = 40.0  # of the view, over which the wider one takes over
SURE = 0.5  # probability from which on a pixel is hair


@dataclass(frozen=True)
class HairSeen:
    """probability: (H, W) f32 in [0, 1]. agreement: IoU in [0, 1] of the network's answers for the view and its mirror image."""

    probability: np.ndarray
    agreement: float


def hair_probability(rgb: np.ndarray, landmarks: FaceLandmarks, model_path: Path | None = None, threads: int = 2) -> HairSeen:
    """Hair about one face of a (H, W, 3) uint8 sRGB picture; 0 where it lies far outside that face's head.

    model_path: another hair_segmentation.tflite. Raises WorkError when the asset or ai-edge-litert is missing, InputError when
    the file is no network.
    """
    network = load_network(model_path or asset_path(HAIR_FILE), None, threads)
    chin, top = landmarks.points_px[CHIN, :2], landmarks.points_px[FOREHEAD_TOP, :2]
    axis = top - chin
    centre = chin + CENTRE * axis
    side = VIEW_OVER_AXIS * float(np.linalg.norm(axis))
    square = Square(float(centre[0]), float(centre[1]), side, math.atan2(axis[0], -axis[1]))
    straight, mirrored = _both_answers(network, rgb, square)
    near = (straight + mirrored) / 2
    union = ((straight > SURE) | (mirrored > SURE)).sum()
    agreement = float(((straight > SURE) & (mirrored > SURE)).sum() / union) if union else 1.0
    probability = _laid_onto(near, square, rgb.shape[:2])
    rim = np.ones(near.shape, bool)
    rim[BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX] = False
    if (rim & (near > SURE)).sum() > BORDER_HAIR_PX * BORDER_PX:
        wide = Square(square.x, square.y, WIDER * side, square.angle_rad)
        far = _laid_onto(np.add(*_both_answers(network, rgb, wide)) / 2, wide, rgb.shape[:2])
        inner = _laid_onto(_ramp(), square, rgb.shape[:2])
        probability = inner * probability + (1 - inner) * far
    return HairSeen(probability, agreement)


def _ramp() -> np.ndarray:
    """(512, 512) f32: 1 inside a view, down to 0 at its border."""
    ticks = np.minimum(np.arange(INPUT_SIZE), np.arange(INPUT_SIZE)[::-1]) / SEAM_PX
    return np.minimum(1.0, np.minimum(ticks[:, None], ticks[None, :])).astype(np.float32)


def _both_answers(network: Network, rgb: np.ndarray, square: Square) -> tuple[np.ndarray, np.ndarray]:
    """(512, 512) f32 each: hair's probability in a view, and in its mirror image, mirrored back."""
    batch = np.zeros((1, INPUT_SIZE, INPUT_SIZE, 4), np.float32)  # the fourth channel is a film's last mask: none
    batch[0, ..., :3] = cut(rgb, square, INPUT_SIZE, cv2.BORDER_REPLICATE).astype(np.float32) / 255.0
    straight = _softmax(network.run(batch)[0][0])
    return straight, _softmax(network.run(batch[:, :, ::-1])[0][0])[:, ::-1]


def _softmax(logits: np.ndarray) -> np.ndarray:
    """(H, W) probability of the second of two classes."""
    return 1.0 / (1.0 + np.exp(np.clip(logits[..., 0] - logits[..., 1], -60.0, 60.0)))


def _laid_onto(view: np.ndarray, square: Square, shape: tuple[int, int]) -> np.ndarray:
    """A view's values in the picture's pixels, 0 outside the view."""
    corners = square.from_image(np.array([[0.5, 0.5], [1.5, 0.5], [0.5, 1.5]])) * INPUT_SIZE - 0.5
    matrix = np.column_stack([corners[1] - corners[0], corners[2] - corners[0], corners[0]])
    return cv2.warpAffine(view.astype(np.float32), matrix, shape[::-1], flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
