"""What a photo says of the hair's outline: where hair ends about the head, whether backdrop follows, and where bare skin is."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from avatar3d.enrolment.photo.masks import coloured_like, grown, look_up, opened
from avatar3d.enrolment.photo.segment import Segmentation

OUTLINE_BINS = 360
SPUR_BINS, SPUR_PX = 5, 3.0  # outline bumps narrower than this many bins and higher than this many pixels are cut off
RIM_PX = 2  # the matte's outline so near beyond the hair mask's is the hair's
BARE_GAP_PX = 13  # skin this far from any hair is bare, work pixels
# Skin of the face's own colour is bare as near to hair as this, and below the ears' top too: free ears, of parts at least so wide.
SKIN_ALPHA, SKIN_PART_PX = 0.2, 5


@dataclass(frozen=True)
class Outline:
    """The mask's outer edge in polar coordinates about the projected centre."""

    centre_px: np.ndarray
    radius_px: np.ndarray  # (OUTLINE_BINS,) 0 where there is no hair
    free: np.ndarray  # (OUTLINE_BINS,) bool: backdrop lies beyond, so the edge is the hair's own
    person_px: np.ndarray  # (OUTLINE_BINS,) outer radius of the person: nothing stands out further

    def bins(self, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(bin, radius px) of (..., 2) pixels."""
        offset = pixels - self.centre_px
        angle = np.arctan2(offset[..., 1], offset[..., 0])
        return np.round(angle / (2 * np.pi) * OUTLINE_BINS).astype(int) % OUTLINE_BINS, np.linalg.norm(offset, axis=-1)


def measure(seg: Segmentation, bare: np.ndarray, centre_px: np.ndarray) -> Outline:
    """The outline about a pixel (2,) inside the head; bare: (H, W) of bare_skin."""
    angle = np.arange(OUTLINE_BINS) / OUTLINE_BINS * 2 * np.pi
    axis = np.stack([np.cos(angle), np.sin(angle)], 1)
    radius = np.arange(0, 0.7 * max(seg.matte.shape), 0.5)
    rays = centre_px + axis[:, None] * radius[None, :, None]
    hairy = np.maximum(seg.hair_alpha, 0.6 * seg.hair_mask)
    # Where only backdrop follows, hair ends where the person does: its own mask thins out before.
    rim = grown(hairy > 0.5, 2 * RIM_PX + 1) & ~seg.face_mask & (bare < 0.5)
    hair = look_up(np.maximum(hairy, seg.matte * rim), rays) > 0.5
    last = hair.shape[1] - 1 - hair[:, ::-1].argmax(1)
    edge = uncut = np.where(hair.any(1), radius[last], 0.0)
    # Strands and errors of the mask narrower than any tuft are the opacity's work.
    if (edge > 0).any():
        steady = _opened(edge, SPUR_BINS)
        edge = np.where(edge > steady + SPUR_PX, steady, edge)
    beyond = look_up(seg.matte, centre_px + axis * (uncut + 6.0)[:, None])
    person = look_up(seg.matte, rays) > 0.5
    reach = np.where(person.any(1), radius[person.shape[1] - 1 - person[:, ::-1].argmax(1)], 0.0)
    return Outline(centre_px, edge, (edge > 0) & (beyond < 0.6), reach)


def bare_skin(rgb: np.ndarray, seg: Segmentation, ear_top_px: float) -> np.ndarray:
    """(H, W) f32 in [0, 1]: skin with no hair about it; below the ears' top only in the face, as hair passes behind ears, or
    where its colour is the face's."""
    hair = np.maximum(seg.hair_alpha, seg.hair_mask).astype(np.float32)
    hairy = cv2.dilate(hair, np.ones((BARE_GAP_PX, BARE_GAP_PX), np.uint8))
    above = np.arange(hairy.shape[0])[:, None] < ear_top_px
    bare = (hairy < 0.3) & (seg.matte > 0.7) & (above | seg.face_mask)
    plain = coloured_like(rgb, seg.face_mask) & (hair < SKIN_ALPHA) & (seg.matte > 0.9) & ~seg.labels.hand
    bare |= opened(plain, SKIN_PART_PX)
    return cv2.GaussianBlur(bare.astype(np.float32), (0, 0), 1.5)


def _opened(values: np.ndarray, bins: int) -> np.ndarray:
    """Values by outline bin, those of 0 bridged, without peaks narrower than `bins`."""
    seen = np.flatnonzero(values)
    bridged = np.interp(np.arange(OUTLINE_BINS), seen, values[seen], period=OUTLINE_BINS)
    return maximum_filter1d(minimum_filter1d(bridged, bins, mode="wrap"), bins, mode="wrap")
