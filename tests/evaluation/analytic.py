"""A textured sphere drawn by ray casting: exact colour and depth, in the renderers' interface, for tests of the metrics."""

from __future__ import annotations

import numpy as np

from avatar3d.camera import Camera
from avatar3d.color import srgb_to_linear
from avatar3d.evaluation.correspondence import EyePicture, pixel_centres
from avatar3d.rendering.frame import Frame

RADIUS_M = 0.09
_RANDOM = np.random.default_rng(7)
# Waves of 12 to 40 mm in random directions: all that a 512-pixel view can show, and texture for every patch.
_WAVES = _RANDOM.normal(size=(24, 3))
_WAVES *= (2 * np.pi / _RANDOM.uniform(0.012, 0.04, 24) / np.linalg.norm(_WAVES, axis=1))[:, None]
_PHASES = _RANDOM.uniform(0, 2 * np.pi, 24)
_TINTS = _RANDOM.uniform(0.2, 1.0, (24, 3)) / 24


def texture(points: np.ndarray) -> np.ndarray:
    """(..., 3) sRGB colour of (..., 3) world points."""
    return 0.5 + 0.9 * np.sin(points @ _WAVES.T + _PHASES) @ _TINTS


def cast(camera: Camera) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(hit (H, W) bool, points (H, W, 3), depth (H, W) m) of the rays through the pixels' centres."""
    pixels = pixel_centres(camera.height, camera.width)
    ahead = camera.unproject(pixels, np.ones(pixels.shape[:2])) - camera.center  # depth 1 along the axis
    a = (ahead**2).sum(-1)
    b = ahead @ camera.center
    c = camera.center @ camera.center - RADIUS_M**2
    discriminant = b * b - a * c
    hit = discriminant > 0
    depth = (-b - np.sqrt(np.maximum(discriminant, 0))) / a
    return hit, camera.center + ahead * depth[..., None], np.where(hit, depth, np.inf)


def eye_picture(camera: Camera, factor: int = 3) -> EyePicture:
    hit, points, depth = cast(camera.resized(camera.width * factor, camera.height * factor))
    color = np.where(hit[..., None], texture(points), 0.0).astype(np.float32)
    return EyePicture(camera, color, hit.astype(np.float32), depth.astype(np.float32), factor)


class SphereRenderer:
    """Draws the sphere whatever the avatar; `gloss` adds a highlight that moves with the eye unless the form is "mesh"."""

    name = "analytic"
    info: dict[str, str]

    def __init__(self, gloss: float = 0.0) -> None:
        self.info = {"renderer": "analytic sphere"}
        self.gloss = gloss

    def render(self, avatar, motion, cameras, options=None):
        frames = []
        for camera in cameras:
            hit, points, depth = cast(camera)
            color = srgb_to_linear(texture(points))
            if options is not None and options.form != "mesh" and self.gloss:
                toward = camera.center - points
                facing = (points * toward).sum(-1) / np.linalg.norm(toward, axis=-1) / RADIUS_M
                color = color + self.gloss * np.clip(facing, 0, 1)[..., None] ** 40
            rgba = np.concatenate([color, np.ones((*hit.shape, 1))], axis=-1) * hit[..., None]
            surface = np.where(hit, 0, -1).astype(np.int8)
            frames.append(Frame(rgba.astype(np.float32), depth.astype(np.float32), surface))
        return frames

    def close(self) -> None:
        pass
