"""Stereo pairs that are wrong in a known way, made from the avatar's own pictures: a metric that cannot tell them is no metric.

billboard: a flat card with the picture of the eye between, drawn for each eye: right colours, no depth.
per_eye_generator: each eye's picture redrawn by itself with small deformations and flicker, as 2D networks do it frame by frame
    (an emulation with stated size, not a network; that per-eye refinement breaks consistency: arXiv 2512.16893).
wrong_ipd: a right eye 1.5 times as far away as the viewer's.
The fourth control, the plain mesh, is consistent and has to be found so; the protocol draws it.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from avatar3d.camera import Camera
from avatar3d.evaluation.correspondence import EyePicture, pixel_centres

WRONG_IPD_FACTOR = 1.5
GENERATOR_SHIFT_PX = 1.0  # rms of each axis; networks drawing frame by frame show one to three pixels of swim at 512²
GENERATOR_SCALE = 0.05  # correlation length of the swim and of the flicker, of the picture's height
GENERATOR_FLICKER = 0.02  # rms of the colour's gain


def billboard(center: EyePicture, eye: Camera, card_depth_m: float) -> EyePicture:
    """What `eye` sees of a card at `card_depth_m` along the axis of `center`, painted with the picture of `center`.

    The card faces `center`; `eye` must have parallel axes, as `stereo_pair` makes them.
    """
    # With parallel axes the card's pixels are the eye's, moved and stretched along each axis: two corners tell all.
    corners = np.array([[0.0, 0.0], [eye.width, eye.height]])
    on_card, _ = center.camera.project(eye.unproject(corners, np.full(2, card_depth_m)))
    stretch = (on_card[1] - on_card[0]) / corners[1]
    fine = (_fine_pixels(eye, center.factor) * stretch + on_card[0]) * center.factor
    return EyePicture(
        camera=eye,
        color=_resampled(center.color, fine),
        alpha=_resampled(center.alpha, fine),
        depth=np.full(fine.shape[:2], card_depth_m, np.float32),
        factor=center.factor,
    )


def redrawn(view: EyePicture, seed: int) -> EyePicture:
    """The view as an independent 2D generator might redraw it: the picture swims and flickers, the depth stays the view's."""
    random = np.random.default_rng(seed)
    height, width = view.alpha.shape
    swim = np.stack([_smooth_noise(random, height, width) for _ in range(2)], axis=-1) * GENERATOR_SHIFT_PX * view.factor
    gain = np.stack([_smooth_noise(random, height, width) for _ in range(3)], axis=-1) * GENERATOR_FLICKER
    fine = pixel_centres(height, width) + swim
    color = np.clip(_resampled(view.color, fine) * (1 + gain), 0, 1)
    return dataclasses.replace(view, color=color.astype(np.float32), alpha=_resampled(view.alpha, fine))


def _resampled(image: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """(H, W, ...) f32 values at (H, W, 2) pixels; places are rounded to 1/32 sample, far below what a control gets wrong."""
    import cv2

    places = (pixels - 0.5).astype(np.float32)
    return cv2.remap(image, places[..., 0], places[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def _fine_pixels(camera: Camera, factor: int) -> np.ndarray:
    """(f·H, f·W, 2) places of the samples in pixels of the judged grid."""
    return pixel_centres(camera.height * factor, camera.width * factor) / factor


def _smooth_noise(random: np.random.Generator, height: int, width: int) -> np.ndarray:
    """(H, W) f32 noise of unit rms, correlated over GENERATOR_SCALE of the height."""
    import cv2

    cell = GENERATOR_SCALE * height
    small = random.standard_normal((round(height / cell) + 4, round(width / cell) + 4)).astype(np.float32)
    large = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    return large / np.sqrt((large**2).mean())
