"""The person's matte: which share of each pixel is the person, from a selfie segmentation network and a guided filter."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from avatar3d import models
from avatar3d.face.crop import Square, cut
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.networks import MATTE_FILE, Network, load_network
from avatar3d.head.mediapipe import MESH_POINTS

INPUT_SIZE = 256  # the network's input, pixels
NEAR_VIEW = 2.6  # side of the head's view over the face's height (chin to hairline): head, hair and neck
FAR_VIEW = 5.2  # side of the view that fills in around it: shoulders, long hair
SEAM = 0.08  # width of the ramp between the two, share of the near view's side
LIFT = 0.1  # the views sit this share of the face's height above the face's centre, for the hair
FILTER_RADIUS = 0.03  # the guided filter's radius over the face's height: wider than the network's pixel
FILTER_EPSILON = 1e-4  # its regulariser, squared sRGB value: keeps edges fainter than 0.01 from counting
FILTER_FACE_PX = 300.0  # its coefficients are solved on a picture where the face is at most this high


def person_matte(rgb: np.ndarray, landmarks: FaceLandmarks, model_path: Path | None = None, threads: int = 2) -> np.ndarray:
    """(H, W) float32 in [0, 1]: the person's share of each pixel of a (H, W, 3) uint8 sRGB picture.

    Reliable about the head; beyond five face heights it is 0. model_path: another selfie_segmentation.tflite.
    Raises InputError when the model file is missing.
    """
    network = load_network(model_path or models.path(MATTE_FILE), None, threads)
    face_height = float(landmarks.box_px[3] - landmarks.box_px[1])
    centre = landmarks.points_px[:MESH_POINTS, :2].mean(axis=0) - (0.0, LIFT * face_height)
    near = Square(float(centre[0]), float(centre[1]), NEAR_VIEW * face_height)
    far = Square(near.x, near.y, FAR_VIEW * face_height)
    # Only the far view's part of the picture is worked on.
    height, width = rgb.shape[:2]
    left, right = (int(np.clip(far.x + sign * far.side / 2, 0, width)) for sign in (-1, 1))
    top, bottom = (int(np.clip(far.y + sign * far.side / 2, 0, height)) for sign in (-1, 1))
    matte = np.zeros((height, width), dtype=np.float32)
    part = rgb[top:bottom, left:right]
    if not part.size:
        return matte

    def spread(view: np.ndarray, square: Square) -> np.ndarray:
        return _spread(view, square, left, top, part.shape[1], part.shape[0])

    weight = spread(_inner_ramp(), near)
    coarse = weight * spread(_network_matte(network, rgb, near), near)
    coarse += (1.0 - weight) * spread(_network_matte(network, rgb, far), far)
    matte[top:bottom, left:right] = _guided(part, coarse, face_height)
    return matte


def _network_matte(network: Network, rgb: np.ndarray, square: Square) -> np.ndarray:
    """(256, 256) float32: mean of the network's answers for the view and its mirror image."""
    picture = cut(rgb, square, INPUT_SIZE, cv2.BORDER_REPLICATE).astype(np.float32) / 255.0
    straight = network.run(picture[None])[0][0, ..., -1]
    mirrored = network.run(picture[None, :, ::-1])[0][0, ..., -1]
    return (straight + mirrored[:, ::-1]) / 2


def _inner_ramp() -> np.ndarray:
    """(256, 256) float32: 1 inside, down to 0 at the view's border."""
    ticks = (np.arange(INPUT_SIZE, dtype=np.float32) + 0.5) / INPUT_SIZE
    ramp = np.clip(np.minimum(ticks, 1.0 - ticks) / SEAM, 0.0, 1.0)
    return np.minimum(ramp[:, None], ramp[None, :])


def _spread(small: np.ndarray, square: Square, left: int, top: int, width: int, height: int) -> np.ndarray:
    """A view's (256, 256) values laid onto a (height, width) window of the picture's pixels, 0 outside the view."""
    scale = INPUT_SIZE / square.side
    shift = [INPUT_SIZE / 2 + (0.5 - centre) * scale - 0.5 for centre in (square.x - left, square.y - top)]
    matrix = np.array([[scale, 0, shift[0]], [0, scale, shift[1]]])
    return cv2.warpAffine(small.astype(np.float32), matrix, (width, height), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)


def _guided(rgb: np.ndarray, matte: np.ndarray, face_height: float) -> np.ndarray:
    """Colour guided filter (He et al., Guided Image Filtering, section 3.4), coefficients solved at low resolution."""
    height, width = rgb.shape[:2]
    shrink = min(1.0, FILTER_FACE_PX / face_height)
    size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
    guide = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255.0
    values = cv2.resize(matte, size, interpolation=cv2.INTER_AREA)
    radius = max(3, round(FILTER_RADIUS * face_height * shrink))

    def mean(picture: np.ndarray) -> np.ndarray:
        return cv2.blur(picture, (2 * radius + 1, 2 * radius + 1))

    guide_mean, value_mean = mean(guide), mean(values)
    cross = mean(guide * values[..., None]) - guide_mean * value_mean[..., None]
    covariance = {}
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        term = mean(guide[..., i] * guide[..., j]) - guide_mean[..., i] * guide_mean[..., j]
        covariance[i, j] = covariance[j, i] = term + (FILTER_EPSILON if i == j else 0.0)
    slope = _solve_symmetric(covariance, cross)
    offset = value_mean - (slope * guide_mean).sum(axis=-1)
    slope = cv2.resize(mean(slope), (width, height), interpolation=cv2.INTER_LINEAR)
    result = cv2.resize(mean(offset), (width, height), interpolation=cv2.INTER_LINEAR)
    for channel in range(3):
        result += slope[..., channel] * (rgb[..., channel].astype(np.float32) / 255.0)
    return np.clip(result, 0.0, 1.0)


def _solve_symmetric(matrix: dict[tuple[int, int], np.ndarray], right: np.ndarray) -> np.ndarray:
    """(H, W, 3) solutions of one symmetric 3 × 3 system a pixel, by cofactors: 20 times faster than numpy's solver."""
    cofactor = {}
    for i in range(3):
        for j in range(i, 3):
            (a, b), (c, d) = [[k for k in range(3) if k != row] for row in (i, j)]
            sign = -1.0 if (i + j) % 2 else 1.0
            cofactor[i, j] = cofactor[j, i] = sign * (matrix[a, c] * matrix[b, d] - matrix[a, d] * matrix[b, c])
    determinant = sum(matrix[0, j] * cofactor[0, j] for j in range(3))
    rows = [sum(cofactor[i, j] * right[..., j] for j in range(3)) / determinant for i in range(3)]
    return np.stack(rows, axis=-1)
