"""Finding faces in a picture of any size with the short-range face detector; small ones by looking at tiles."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.face.crop import Square, cut
from avatar3d.face.networks import Network

INPUT_SIZE = 128  # the network's input, pixels
MIN_SCORE = 0.5  # the network's own operating point
MERGE_IOU = 0.3  # anchors overlapping more than this see the same face (MediaPipe's setting)
# The detector was trained on selfies. A face narrower than this share of what it is shown may be missed
# beside a larger one, so tiles are looked at until the largest face found is at least this wide (8 % of a
# square's area).
MIN_FACE_SHARE = 0.28
MAX_TILE_LEVEL = 3  # tiles down to an eighth of the picture: 289 runs of 0.7 ms at most
MIN_TILE_PX = 96  # smaller tiles would only magnify; a face that is too small to use would be all they hold
# A face larger than the picture is found only with room around it.
WIDE_VIEW = 1.6


@dataclass(frozen=True)
class FaceBox:
    """A detected face.

    score: in [0, 1]. box_px: (4,) x0, y0, x1, y1. keypoints_px: (6, 2) the subject's right eye, left eye,
    nose tip, mouth centre, right ear, left ear. Continuous pixel coordinates of the picture.
    """

    score: float
    box_px: np.ndarray
    keypoints_px: np.ndarray

    @property
    def area_px(self) -> float:
        """Area of the box in square pixels."""
        return float(np.prod(self.box_px[2:] - self.box_px[:2]))


@dataclass(frozen=True)
class Detection:
    """What a search found: faces from largest to smallest, and the best score seen, accepted or not."""

    faces: list[FaceBox]
    best_score: float


def _anchor_centres() -> np.ndarray:
    """(896, 2) centres in the unit square: a 16 × 16 grid with 2 anchors a cell, then 8 × 8 with 6."""
    rows = []
    for grid, per_cell in ((16, 2), (8, 6)):
        ticks = (np.arange(grid) + 0.5) / grid
        x, y = np.meshgrid(ticks, ticks)
        rows.append(np.repeat(np.stack([x.ravel(), y.ravel()], axis=-1), per_cell, axis=0))
    return np.concatenate(rows)


_ANCHORS = _anchor_centres()


def detect(network: Network, rgb: np.ndarray, thorough: bool = True) -> Detection:
    """Faces in a (H, W, 3) uint8 sRGB picture, largest first.

    The whole picture is looked at first, then with room around it, then in tiles of a half, a quarter and an
    eighth, until the largest face found fills MIN_FACE_SHARE of the square that was looked at; or, unless
    `thorough`, until any is found, which a video can afford to miss for a frame.
    """
    height, width = rgb.shape[:2]
    long_side = max(height, width)
    middle = Square(width / 2, height / 2, long_side)
    candidates, best = _look(network, rgb, middle, whole=True)
    if not len(candidates):
        wide = Square(middle.x, middle.y, long_side * WIDE_VIEW)
        candidates, best_wide = _look(network, rgb, wide, whole=True)
        best = max(best, best_wide)
    shown = float(long_side)
    for level in range(1, MAX_TILE_LEVEL + 1):
        if _widest(candidates) >= (MIN_FACE_SHARE * shown if thorough else 1.0):
            break
        shown = long_side / 2**level
        if shown < MIN_TILE_PX:
            break
        for tile in _tiles(width, height, shown):
            more, score = _look(network, rgb, tile, whole=False)
            candidates, best = np.concatenate([candidates, more]), max(best, score)
    return Detection(_merge(candidates), best)


def _widest(candidates: np.ndarray) -> float:
    return float((candidates[:, 3] - candidates[:, 1]).max()) if len(candidates) else 0.0


def _tiles(width: int, height: int, side: float) -> list[Square]:
    """Squares that overlap by half, so that a face up to half as wide lies whole in one of them."""

    def centres(length: int) -> np.ndarray:
        if length <= side:
            return np.array([length / 2])
        return np.linspace(side / 2, length - side / 2, int(np.ceil((length - side) / (side / 2))) + 1)

    return [Square(float(x), float(y), side) for y in centres(height) for x in centres(width)]


def _look(network: Network, rgb: np.ndarray, square: Square, whole: bool) -> tuple[np.ndarray, float]:
    """Accepted candidates in one square as rows (score, x0, y0, x1, y1, 12 key point coordinates), and the best score.

    Unless the square shows the `whole` picture, boxes that run over its edge are dropped: the neighbouring
    tile sees that face whole.
    """
    picture = cut(rgb, square, INPUT_SIZE, cv2.BORDER_CONSTANT)
    regressors, logits = network.run(picture[None].astype(np.float32) / 127.5 - 1.0)
    scores = 1.0 / (1.0 + np.exp(-np.clip(logits[0, :, 0].astype(np.float64), -80, 80)))
    keep = scores >= MIN_SCORE
    offsets = regressors[0, keep].astype(np.float64) / INPUT_SIZE
    anchors = _ANCHORS[keep]
    centre, size = anchors + offsets[:, :2], offsets[:, 2:4]
    boxes = np.concatenate([centre - size / 2, centre + size / 2], axis=1)
    keypoints = anchors[:, None] + offsets[:, 4:].reshape(-1, 6, 2)
    rows = np.concatenate(
        [
            scores[keep, None],
            square.to_image(boxes.reshape(-1, 2)).reshape(-1, 4),
            square.to_image(keypoints).reshape(-1, 12),
        ],
        axis=1,
    )
    if not whole:
        rows = rows[((boxes > 0) & (boxes < 1)).all(axis=1)]
    return rows, float(scores.max())


def _merge(candidates: np.ndarray) -> list[FaceBox]:
    """Average overlapping candidates weighted by score (BlazeFace, section 3.4), largest face first."""
    faces = []
    rest = candidates[np.argsort(-candidates[:, 0], kind="stable")]
    while len(rest):
        same = _iou(rest[0, 1:5], rest[:, 1:5]) >= MERGE_IOU
        group, rest = rest[same], rest[~same]
        mean = (group[:, 1:] * group[:, :1]).sum(axis=0) / group[:, 0].sum()
        faces.append(FaceBox(float(group[0, 0]), mean[:4], mean[4:].reshape(6, 2)))
    return sorted(faces, key=lambda face: -face.area_px)


def _iou(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of one (4,) box with (N, 4) boxes; 1 with itself."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    union = (box[2:] - box[:2]).prod() + areas - shared
    return shared / np.maximum(union, 1e-9)
