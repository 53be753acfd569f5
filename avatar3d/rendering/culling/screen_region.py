"""A region of a picture that is to be drawn, and which faces cannot show in it; arrays only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.camera import Camera

Box = tuple[int, int, int, int]  # left, bottom, right, top, pixels counted from the lower left of a picture
# What is drawn may lie off its face by an outline's half pixel and its strip of one.
MARGIN_PX = 2.0
_LEFT, _RIGHT, _BOTTOM, _TOP, _WITHIN = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class ScreenRegion:
    """The pixels inside of a box, the rest untouched; and of those, not the ones inside of another, which are covered later."""

    inside: Box | None = None
    outside: Box | None = None


def outcodes(points: np.ndarray, camera: Camera, region: ScreenRegion) -> np.ndarray:
    """(V,) u8 of points (V, 3) in the camera's world: bits of the half planes that keep a face from showing in the region.

    A bit stands for a convex region, so that a face whose corners share one lies in it (after Cohen and Sutherland). Zero behind
    the near plane, where the screen says nothing.
    """
    matrix = camera.projection_matrix() @ camera.view_matrix()
    x, y, w = (points @ matrix[[0, 1, 3], :3].T.astype(np.float32) + matrix[[0, 1, 3], 3].astype(np.float32)).T
    ahead = w >= camera.near_m
    inverse = 1 / np.where(ahead, w, 1)
    x = (x * inverse + 1) * (camera.width / 2)
    y = (y * inverse + 1) * (camera.height / 2)
    codes = np.zeros(len(points), np.uint8)
    if region.inside is not None:
        left, bottom, right, top = region.inside
        codes |= np.where(x < left - MARGIN_PX, np.uint8(_LEFT), np.uint8(0))
        codes |= np.where(x > right + MARGIN_PX, np.uint8(_RIGHT), np.uint8(0))
        codes |= np.where(y < bottom - MARGIN_PX, np.uint8(_BOTTOM), np.uint8(0))
        codes |= np.where(y > top + MARGIN_PX, np.uint8(_TOP), np.uint8(0))
    if region.outside is not None:
        left, bottom, right, top = region.outside
        within = (x > left + MARGIN_PX) & (x < right - MARGIN_PX) & (y > bottom + MARGIN_PX) & (y < top - MARGIN_PX)
        codes |= np.where(within, np.uint8(_WITHIN), np.uint8(0))
    codes[~ahead] = 0
    return codes


def may_show(codes: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(F,) bool of faces with corners (3, F) into `codes`: whether any of it may show."""
    first, second, third = (codes.take(corner) for corner in corners)
    return (first & second & third) == 0
