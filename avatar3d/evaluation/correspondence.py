"""Exact correspondences between two views of one scene, from the renderer's own depth and cameras; estimates no flow.

A pixel of the left view is lifted by its depth and projected into the right view. It counts as seen by both where the right
view's depth at that place is the depth of the lifted point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.camera import Camera
from avatar3d.geometry import sample_bilinear

# Depth of the lifted point against depth seen there, relative: 0.3 mm at 0.6 m. Facets of a head are larger than a pixel
# and inverse depth is linear on them, so what is left is rounding; a lip in front of teeth is a millimetre and more.
DEPTH_TOLERANCE = 5e-4
# Depth range of the four samples around a place on one surface, relative to a sample's width (which is 1 / focal length in
# units of depth): 4 allows slopes up to 76°; steeper ones are outlines.
MAX_SLOPE = 4.0
OPAQUE = 0.999  # coverage from which a sample shows the surface and nothing behind it


@dataclass(frozen=True)
class EyePicture:
    """One eye's picture, sampled `factor` times finer than the grid it is judged on.

    camera: of the judged grid (H, W). color: (f·H, f·W, 3) f32 sRGB in [0, 1]; alpha, depth (f·H, f·W) f32, depth in metres
    along the axis, inf where empty. factor is odd, so that every judged pixel's centre is the centre of a sample.
    """

    camera: Camera
    color: np.ndarray
    alpha: np.ndarray
    depth: np.ndarray
    factor: int

    def at_centres(self, image: np.ndarray) -> np.ndarray:
        """The samples of `image` at the judged pixels' centres, (H, W, ...)."""
        half = self.factor // 2
        return image[half :: self.factor, half :: self.factor]


@dataclass(frozen=True)
class Correspondences:
    """Where each pixel of the left view lies in the right one.

    right_px: (H, W, 2) pixels of the judged grid, NaN where the left view is empty. covered: (H, W) bool, opaque in the left
    view. covisible: (H, W) bool, covered, and the same surface point is seen in the right view.
    """

    right_px: np.ndarray
    covered: np.ndarray
    covisible: np.ndarray

    @property
    def disparity_px(self) -> np.ndarray:
        """(H, W) x in the left view minus x in the right view, pixels."""
        columns = np.arange(self.right_px.shape[1]) + 0.5
        return columns - self.right_px[..., 0]


def pixel_centres(height: int, width: int) -> np.ndarray:
    """(H, W, 2) pixel coordinates of the pixels' centres."""
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    return np.stack([x, y], axis=-1)


def correspond(left: EyePicture, right: EyePicture) -> Correspondences:
    """Exact correspondences of every pixel of the left view."""
    camera = left.camera
    depth = left.at_centres(left.depth).astype(np.float64)
    covered = (left.at_centres(left.alpha) >= OPAQUE) & np.isfinite(depth)
    lifted = camera.unproject(pixel_centres(camera.height, camera.width), np.where(covered, depth, 1.0))
    right_px, right_depth = right.camera.project(lifted)
    right_px = np.where(covered[..., None], right_px, np.nan)
    covisible = covered & seen_at(right, right_px, right_depth)
    return Correspondences(right_px, covered, covisible)


def seen_at(view: EyePicture, pixels: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """(...) bool: the surface seen at (..., 2) pixels lies at (...) depth; one opaque surface in the four samples around."""
    height, width = view.depth.shape
    fine = pixels * view.factor
    inside = (fine > 0.5).all(-1) & (fine[..., 0] < width - 0.5) & (fine[..., 1] < height - 0.5)
    with np.errstate(divide="ignore"):
        inverse = np.where(view.alpha >= OPAQUE, 1.0 / view.depth, 0.0).astype(np.float32)
    column = np.clip(np.nan_to_num(fine[..., 0]) - 0.5, 0, width - 2).astype(np.int64)
    row = np.clip(np.nan_to_num(fine[..., 1]) - 0.5, 0, height - 2).astype(np.int64)
    corners = np.stack([inverse[row + dy, column + dx] for dy in (0, 1) for dx in (0, 1)])
    sample_width = 1.0 / (view.camera.intrinsics[0, 0] * view.factor)  # metres at one metre
    one_surface = (corners.min(0) > 0) & (corners.max(0) - corners.min(0) <= MAX_SLOPE * sample_width * corners.max(0))
    seen = sample_bilinear(inverse, fine)
    return inside & one_surface & (np.abs(seen * depth - 1.0) <= DEPTH_TOLERANCE)
