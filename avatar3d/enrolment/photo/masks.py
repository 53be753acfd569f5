"""Operations on masks of a picture: discs, hulls, parts, and smoothing along the picture's own edges. Knows no landmarks."""

from __future__ import annotations

import cv2
import numpy as np
from scipy.ndimage import map_coordinates

COLOUR_SPREAD = 3.0  # robust deviations of the face's colour that still pass for skin
EAR_RED = 3.0  # by so much redder an ear may be than other skin may differ


def guided_filter(guide: np.ndarray, values: np.ndarray, radius: int, epsilon: float) -> np.ndarray:
    """(H, W) f32 in [0, 1]: `values` smoothed along the edges of `guide` (H, W, 3) in [0, 1].

    He et al., Guided Image Filtering, section 3.4; the 3×3 systems are solved by cofactors.
    """
    size = (2 * radius + 1, 2 * radius + 1)

    def mean(picture: np.ndarray) -> np.ndarray:
        return cv2.blur(picture, size)

    guide = guide.astype(np.float32)
    values = values.astype(np.float32)
    mu, value_mean = mean(guide), mean(values)
    cross = mean(guide * values[..., None]) - mu * value_mean[..., None]
    rr, rg, rb, gg, gb, bb = (
        mean(guide[..., i] * guide[..., j]) - mu[..., i] * mu[..., j] + (epsilon if i == j else 0.0)
        for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    )
    c00, c01, c02 = gg * bb - gb * gb, rb * gb - rg * bb, rg * gb - rb * gg
    c11, c12, c22 = rr * bb - rb * rb, rg * rb - rr * gb, rr * gg - rg * rg
    determinant = np.maximum(rr * c00 + rg * c01 + rb * c02, epsilon**3)
    x, y, z = cross[..., 0], cross[..., 1], cross[..., 2]
    slope = np.stack([c00 * x + c01 * y + c02 * z, c01 * x + c11 * y + c12 * z, c02 * x + c12 * y + c22 * z], -1)
    slope /= determinant[..., None]
    offset = value_mean - (slope * mu).sum(-1)
    return np.clip((mean(slope) * guide).sum(-1) + mean(offset), 0.0, 1.0)


def disc(diameter: float) -> np.ndarray:
    """A round structuring element of the odd size next to `diameter`, 3 or more."""
    size = max(3, 2 * round((diameter - 1) / 2) + 1)
    return cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))


def grown(mask: np.ndarray, diameter: float) -> np.ndarray:
    """(H, W) bool: the mask dilated by a disc."""
    return cv2.dilate(mask.astype(np.uint8), disc(diameter)) > 0


def shrunk(mask: np.ndarray, diameter: float) -> np.ndarray:
    """(H, W) bool: the mask eroded by a disc; what lies beyond the picture counts as mask."""
    return cv2.erode(mask.astype(np.uint8), disc(diameter)) > 0


def opened(mask: np.ndarray, diameter: float) -> np.ndarray:
    """(H, W) bool: without what is narrower than the disc."""
    return cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_OPEN, disc(diameter)) > 0


def closed(mask: np.ndarray, diameter: float) -> np.ndarray:
    """(H, W) bool: with gaps narrower than the disc filled."""
    return cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, disc(diameter)) > 0


def hull(mask: np.ndarray) -> np.ndarray:
    """(H, W) bool: the convex hull of a mask."""
    points = np.argwhere(mask)[:, ::-1].astype(np.int32)
    filled = np.zeros(mask.shape, np.uint8)
    if len(points):
        cv2.fillConvexPoly(filled, cv2.convexHull(points), 1)
    return filled > 0


def parts_with(mask: np.ndarray, seed: np.ndarray, least: float = 1) -> np.ndarray:
    """(H, W) bool: the connected parts of a mask that hold at least `least` pixels of the seed."""
    _, labels = cv2.connectedComponents(mask.astype(np.uint8))
    shared = np.bincount(labels[mask & seed], minlength=labels.max() + 1)
    return mask & (shared >= least)[labels]


def large_parts(mask: np.ndarray, least: float) -> np.ndarray:
    """(H, W) bool: the connected parts of a mask that have at least `least` pixels."""
    return parts_with(mask, mask, least)


def polygon(points: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(H, W) bool: inside a polygon of (N, 2) pixels."""
    filled = np.zeros(shape, np.uint8)
    cv2.fillPoly(filled, [np.round(points).astype(np.int32)], 1)
    return filled > 0


def distance_to(mask: np.ndarray) -> np.ndarray:
    """(H, W) f32: pixels to the nearest of the mask, 0 within it."""
    return cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 5)


def coloured_like(rgb: np.ndarray, face: np.ndarray, redder: bool = False) -> np.ndarray:
    """(H, W) bool: the chroma of a face's (H, W) mask, at any lightness that shade under a chin may have.

    redder: or as red as an ear.
    """
    lab = cv2.cvtColor(cv2.GaussianBlur(rgb, (0, 0), 1.5), cv2.COLOR_RGB2LAB).astype(np.float32)
    if not face.any():
        return np.zeros(face.shape, bool)
    middle = np.median(lab[face], axis=0)
    spread = np.maximum(1.48 * np.median(np.abs(lab[face] - middle), axis=0), (8.0, 3.0, 3.0)) * (2.0, 1.0, 1.0)
    off = (lab - middle) / spread
    if redder:
        off[..., 1] /= np.where(off[..., 1] > 0, EAR_RED, 1)
    return (off**2).sum(-1) < COLOUR_SPREAD**2


def look_up(picture: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Bilinear values of a (H, W) picture at (..., 2) continuous pixels, 0 outside, where other samplers repeat the edge."""
    return map_coordinates(picture.astype(np.float32), [pixels[..., 1] - 0.5, pixels[..., 0] - 0.5], order=1, mode="constant")
