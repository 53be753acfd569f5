"""Where the irises are in a picture: the dark disc between the lids, found anew near where the landmark network has it.

The network follows an iris across the eye and hardly up and down: of a look 15 degrees down it tells 2 to 5. The disc itself is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np

from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.head.mediapipe import EYE_CORNERS, EYE_LOOPS, IRISES

RADIUS = 10.0  # pixels of the iris in the patch that is looked at
IRIS_PER_EYE = 0.2  # radius of an iris over the width of an eye opening, of adults (11.7 mm across, 29 mm wide)
RADII = (0.85, 1.0, 1.15)  # in units of it
LASHES = 1.5  # pixels of the patch that are left out along the lids: lashes and their shadow are dark too
MIN_OPENING = 0.13  # of the eye's width: of an eye that is less open the network's place is kept
MIN_WIDTH_PX = 8.0
MIN_CONTRAST = 8.0  # of 255, between the darkest and the brightest of an eye
MIN_AREA = 20.0  # pixels of the patch that must lie in the disc and beside it
# Of the variance between the lids that a disc explains: where it starts to be believed, and is
MIN_SHARE, SURE_SHARE = 0.3, 0.45
DRIFT = 0.06  # of that share, by which a radius away from the network's place must be better
_HALF = np.array([3.2 * RADIUS, 2.8 * RADIUS])  # of the patch
_SIZE = (int(2 * _HALF[0]) + 1, int(2 * _HALF[1]) + 1)
_ROWS, _COLUMNS = np.mgrid[: _SIZE[1], : _SIZE[0]].astype(np.float32)
_AWAY = np.hypot(_COLUMNS - _HALF[0], _ROWS - _HALF[1]) / RADIUS  # from the network's place, in radii


def with_irises(rgb: np.ndarray, landmarks: FaceLandmarks) -> FaceLandmarks:
    """The landmarks with the irises' points where the irises are in the (H, W, 3) uint8 sRGB picture, if they are seen.

    Both eyes turn as one, so both are moved by what agrees best with the two of them, in widths of each eye.
    """
    points = np.array(landmarks.points_px)
    seen = [look for eye in zip(EYE_LOOPS, EYE_CORNERS, IRISES, strict=True) if (look := _look(rgb, points, *eye)) is not None]
    if not seen:
        return landmarks
    share = np.mean([look.share for look in seen], axis=0)
    score = np.where(_AWAY <= 1, share - DRIFT * _AWAY, -np.inf)
    radius, *place = (int(k) for k in np.unravel_index(int(np.argmax(score)), score.shape))
    sure = float(np.clip((share[radius, place[0], place[1]] - MIN_SHARE) / (SURE_SHARE - MIN_SHARE), 0, 1))
    shift = sure * (_between(score[radius], (place[0], place[1])) - _HALF)
    for look in seen:
        points[look.iris, :2] += shift / look.scale @ look.frame
    return replace(landmarks, points_px=points)


@dataclass(frozen=True)
class _Look:
    """One eye's patch. share (radii, H, W): of the variance of darkness, what a disc there explains. frame: rows along the eye and

    down; scale: pixels of the patch a pixel of the picture; iris: the landmarks to move.
    """

    share: np.ndarray
    frame: np.ndarray
    scale: float
    iris: list[int]


def _look(
    rgb: np.ndarray, points: np.ndarray, lids: tuple[int, ...], corners: tuple[int, int], iris: tuple[int, ...]
) -> _Look | None:
    """One eye as far as it is open; None where it is shut, too small or without contrast."""
    edge = points[list(lids), :2]
    along = np.subtract(*points[list(corners)[::-1], :2])
    width = float(np.linalg.norm(along))
    if width < MIN_WIDTH_PX:
        return None
    along = along / width * np.sign(along[0] or 1.0)
    frame = np.stack([along, [-along[1], along[0]]])
    if np.ptp((edge @ frame.T)[:, 1]) < MIN_OPENING * width:
        return None
    scale = RADIUS / (IRIS_PER_EYE * width)
    # OpenCV counts from the middles of pixels.
    to_patch = np.column_stack([scale * frame, _HALF - scale * frame @ (points[iris[0], :2] - 0.5)])
    patch = (
        cv2.warpAffine(rgb, to_patch, _SIZE, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        .min(axis=2)
        .astype(np.float32)
    )
    mask = np.zeros(patch.shape, np.uint8)
    cv2.fillPoly(mask, [np.rint((edge - 0.5) @ to_patch[:, :2].T + to_patch[:, 2]).astype(np.int32)], 1)
    mask = cv2.erode(mask, np.ones((2 * round(LASHES) + 1, 1), np.uint8)).astype(np.float32)
    whole = float(mask.sum())
    if whole < RADIUS * RADIUS:
        return None
    low, high = np.percentile(patch[mask > 0], (5, 95))
    if high - low < MIN_CONTRAST:
        return None
    dark = np.clip((high - patch) / (high - low), 0, 1) * mask
    total = float(dark.sum())
    variance = max(float((dark * dark).sum()) / whole - (total / whole) ** 2, 1e-6)
    shares = []
    for disc in _DISCS:
        inside, area = cv2.filter2D(dark, -1, disc), cv2.filter2D(mask, -1, disc)
        rest = whole - area
        apart = inside / np.maximum(area, 1) - (total - inside) / np.maximum(rest, 1)
        enough = (apart > 0) & (area > MIN_AREA) & (rest > MIN_AREA)
        shares.append(np.where(enough, apart * apart * area * rest / (whole * whole * variance), 0))  # Otsu 1979
    return _Look(np.stack(shares), frame, scale, list(iris))


def _disc(radius: float) -> np.ndarray:
    """A disc with a soft edge, its weights at most 1."""
    reach = int(np.ceil(radius)) + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return np.clip(radius + 0.5 - np.hypot(x, y), 0, 1).astype(np.float32)


def _between(score: np.ndarray, place: tuple[int, int]) -> np.ndarray:
    """(x, y) of a maximum between pixels, by parabolas."""
    y, x = place
    found = np.array([x, y], np.float64)
    for axis, (before, after) in enumerate((((y, x - 1), (y, x + 1)), ((y - 1, x), (y + 1, x)))):
        inside = all(0 <= row < score.shape[0] and 0 <= column < score.shape[1] for row, column in (before, after))
        if not inside or not np.isfinite([score[before], score[after]]).all():
            continue
        bend = score[before] - 2 * score[y, x] + score[after]
        if bend < 0:
            found[axis] += float(np.clip(0.5 * (score[before] - score[after]) / bend, -0.5, 0.5))
    return found


_DISCS = [_disc(radius * RADIUS) for radius in RADII]
