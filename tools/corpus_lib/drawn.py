"""The masks drawn by hand (tests/masks) as truth: how much an avatar's hair and skin, drawn at the photo's camera, agree."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from avatar3d import models
from avatar3d.enrolment.photo.crop import resample
from avatar3d.enrolment.photo.metrics import HEAD_FROM, face_height, outline_error
from tools.masks import Mask, known, rasterise, read_mask

from .manifest import Entry
from .views import Drawer, Seen

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "masks"
# What lies before skin and hair, or may be either: the avatar is not judged there.
UNJUDGED = ("beard", "glasses", "hat", "hand")
HEAD = ("hair", "beard", "skin", "neck", "glasses", "hat")  # what has one outline together
BESIDE_PX = 12  # an outline this near to a hand or clothes may be theirs


@lru_cache(maxsize=1)
def _all() -> list[Mask]:
    return [read_mask(path) for path in sorted(FOLDER.glob("*.json"))]


def mask_of(entry: Entry) -> Mask | None:
    """The mask drawn of an entry's face, or None: of the same file and frame, with skin where the entry's face is."""
    if entry.made is not None:
        return None
    for mask in _all():
        if mask.sha256 == models.entry(entry.file).sha256 and mask.frame == entry.frame and _same_face(mask, entry):
            return mask
    return None


def _same_face(mask: Mask, entry: Entry) -> bool:
    skin = [polygon.astype(np.float32) for polygon in mask.regions.get("skin", [])]
    if entry.box is not None:
        x, y, width, height = entry.box
        return any(cv2.pointPolygonTest(polygon, (x + width / 2, y + height / 2), False) >= 0 for polygon in skin)
    if entry.crop is not None:
        x, y, width, height = entry.crop
        middle = np.concatenate(skin).mean(axis=0) if skin else np.full(2, -1.0)
        return bool(x <= middle[0] < x + width and y <= middle[1] < y + height)
    return True


def iou(a: np.ndarray, b: np.ndarray, where: np.ndarray) -> float | None:
    """Intersection over union of two masks where a third holds; None where both are empty there."""
    union = ((a | b) & where).sum()
    return round(float((a & b & where).sum() / union), 4) if union else None


def agreement(mask: Mask, entry: Entry, seen: Seen, drawer: Drawer) -> dict[str, float | None]:
    """{hair_iou, skin_iou, outline_mm} of the avatar against the mask.

    Of the hair in the whole picture about the head, of the skin (face, ears, neck) above the chin; the mean distance between the
    outlines of the whole heads, both ways, above HEAD_FROM, where neither a hand nor clothes lie before or beside them.
    """
    matrix = seen.work.matrix.copy()
    if entry.crop is not None:
        matrix[:, 2] -= matrix[:, :2] @ np.array(entry.crop[:2], float)

    def brought(region: np.ndarray) -> np.ndarray:
        return resample(region.astype(np.float32), matrix, seen.work.camera.width, constant=True) > 0.5

    def region(*names: str) -> np.ndarray:
        return brought(np.any([rasterise(mask, name) for name in names], axis=0))

    assert drawer.avatar.photo_motion is not None
    cover, hair = drawer.shares(seen.work.camera, drawer.avatar.photo_motion)
    judged = brought(known(mask)) & ~region(*UNJUDGED)
    height = face_height(seen.work.landmarks_px, cover.shape)
    above = height > 0
    side = 2 * BESIDE_PX + 1
    near = cv2.dilate(region("hand", "clothes", "other").astype(np.uint8), np.ones((side, side), np.uint8)) > 0
    outline_px, _, _ = outline_error(cover > 0.5, region(*HEAD), brought(known(mask)) & (height > HEAD_FROM) & ~near)
    camera = seen.work.camera
    mm = 1000 * float(camera.to_camera(np.zeros(3))[2]) / float(camera.intrinsics[0, 0])
    return {
        "hair_iou": iou(hair > 0.5, region("hair"), judged),
        "skin_iou": iou((cover > 0.5) & (hair <= 0.5), region("skin", "neck"), judged & above),
        "outline_mm": round(outline_px * mm, 2) if np.isfinite(outline_px) else None,
    }
