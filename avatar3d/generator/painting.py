"""A generator's pictures in an avatar's texture: what it changes in each view is carried back onto the surface it drew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from avatar3d.avatar import PART_LASH, PART_LENS, Avatar
from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.field.shells import UvRaster, sample_texture, uv_raster
from avatar3d.generator.photo import PhotoView, photo_lookup
from avatar3d.generator.protocol import GeneratedView, Generator, GeneratorRequest, asked, make_request
from avatar3d.geometry import sample_bilinear
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HEAD
from avatar3d.rendering.scene import Scene, build_scene

VIEWS_DEG = (0.0, -40.0, 40.0, -80.0, 80.0)  # a point of the face or an ear is seen within 20° of its own direction, to a side
VIEW_PX = 512  # 0.7 mm on the head: finer detail stays the texture's own
GUTTER_TEXELS = 8  # as wide as the texture's own gutter
SAME_POINT_M = 0.001  # a pixel and a half of such a view
OPAQUE = 0.99  # of the drawn head; a fainter pixel mixes surfaces
MIN_LIGHT = 0.05  # of the mean on the face; in deeper shade a difference says nothing of the colour


def paint(
    avatar: Avatar, generator: Generator, motion: MotionCode | None = None, cameras: Sequence[Camera] | None = None
) -> Avatar:
    """The avatar with what a generator draws painted into its base colour.

    Each view is drawn, handed to the generator, and what the generator changed in it is added to the texels seen there, as far as
    its confidence goes and the surface faces the view. Where it draws what it was given, the texture stays. Hair keeps its colour.

    Parameters
    ----------
    avatar
        Stays as it is.
    generator
        Anything with `generate(request)`, see `avatar3d.generator.Generator`.
    motion
        Expression and pose in the views, at rest by default.
    cameras
        Views, by default five about the head, from one side to the other.

    Returns
    -------
    Avatar
        The same but for `base_color`.

    Raises
    ------
    avatar3d.errors.InputError
        What the generator answers is no picture of the asked size.
    """
    motion = motion or MotionCode()
    if cameras is None:
        cameras = [
            Camera.orbit(np.radians(yaw), 0.0, 0.6, VIEW_PX, VIEW_PX, HEAD_VIEW_HEIGHT_M, HEAD_MIDDLE_M) for yaw in VIEWS_DEG
        ]
    scene = build_scene(avatar, motion)
    faces = avatar.faces[~np.isin(avatar.part, (PART_LASH, PART_LENS))]
    height, width = avatar.base_color.shape[:2]
    raster = uv_raster(faces, avatar.uv, (height, width), GUTTER_TEXELS)
    resting, points, normals = (raster.interpolate(faces, of) for of in (avatar.vertices, scene.vertices, scene.normals))
    on_head = np.zeros(len(points), bool)  # none of these texels is hair's
    total, belief = np.zeros((len(points), 3), np.float32), np.zeros(len(points), np.float32)
    share = np.zeros(len(points), np.float32)
    for camera in cameras:
        request = make_request(avatar, motion, camera)
        change, sure = _change(request, asked(generator, request))
        view = PhotoView(camera, change, request.coarse.depth, sure, np.zeros_like(sure))
        seen, confidence, pixels = photo_lookup(view, points, normals, on_head)
        # At an outline a pixel mixes what lies behind: what it shows must be this point, and neither that nor hair (NaN).
        away = np.linalg.norm(sample_bilinear(request.places_at_rest(), pixels) - resting, axis=1)
        confidence = np.where(away < SAME_POINT_M, confidence, 0)
        total += seen * confidence[:, None]
        belief += confidence
        np.maximum(share, confidence, out=share)
    touched = np.flatnonzero(share > 0)
    light = texel_light(scene, faces, raster.take(touched))
    change = share[touched, None] * total[touched] / belief[touched, None] / np.maximum(light, MIN_LIGHT)
    color = avatar.base_color.reshape(-1, 3).copy()
    texels = raster.texel[touched]
    color[texels] = to_u8(linear_to_srgb(srgb_to_linear(color[texels]) + change))
    return replace(avatar, base_color=color.reshape(avatar.base_color.shape))


def texel_light(scene: Scene, faces: np.ndarray, raster: UvRaster) -> np.ndarray:
    """(N, 3) f32 by which each listed texel's linear base colour is multiplied in the scene: its shade and active deltas.

    raster: of `faces` (F, 3) in the scene's avatar's atlas.
    """
    uv = raster.interpolate(faces, scene.avatar.uv)
    light = raster.interpolate(faces, scene.shade)
    for log_ratio, activation in scene.active_deltas():
        light *= np.exp(activation * sample_texture(log_ratio, uv))
    return light


def _change(request: GeneratorRequest, made: GeneratedView) -> tuple[np.ndarray, np.ndarray]:
    """What the generator changed: (H, W, 3) f32 linear light, and (H, W) f32 confidence in it, 0 off the head."""
    drawn = request.coarse.rgba
    shown = (request.geometry.surface == SURFACE_HEAD) & (drawn[..., 3] > OPAQUE)
    change = srgb_to_linear(np.clip(made.rgba[..., :3], 0, 1)) - np.clip(drawn[..., :3], 0, 1)
    sure = np.where(shown, np.clip(made.confidence, 0, 1), 0)
    return np.where(shown[..., None], change, 0).astype(np.float32), sure.astype(np.float32)
