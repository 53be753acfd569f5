"""The texture's half of the view term: where the photo was seen, it gives up what the field adds at the photo's own view.

The photo's texture holds the highlights of one view. With them left in, the field would add its view term twice there; with
them taken out, texture + field shows the photo at the photo's camera and moving highlights elsewhere.
"""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import PART_SKIN, Avatar
from avatar3d.camera import Camera
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.errors import InputError
from avatar3d.field.shells import sample_texture, uv_raster
from avatar3d.generator.painting import texel_light
from avatar3d.geometry import unit
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.scene import build_scene, view_directions

GUTTER_TEXELS = 8  # as wide as the texture's own gutter


def settle_texture(avatar: Avatar, motion: MotionCode, camera: Camera) -> np.ndarray:
    """Base colour (H, W, 3) u8 sRGB of `avatar` less its field's residual at the photo's `motion` and `camera`.

    Weighted by the avatar's confidence that the photo shows the point, so unseen skin stays. Raises InputError when the
    avatar has no field.
    """
    import torch

    from avatar3d.field.network import NeuralField

    if avatar.neural_field is None:
        raise InputError("this avatar has no neural field, so its texture has nothing to give up; train the field first")
    scene = build_scene(avatar, motion)
    # All of the skin: a gutter around some of it would run over the texels of the rest.
    faces = avatar.faces[avatar.part == PART_SKIN]
    height, width = avatar.base_color.shape[:2]
    raster = uv_raster(faces, avatar.uv, (height, width), GUTTER_TEXELS)
    uv = raster.interpolate(faces, avatar.uv)
    share = sample_texture(avatar.confidence[..., None] / np.float32(255), uv)[:, 0]
    share *= raster.interpolate(faces, avatar.field_weight)
    d = unit(raster.interpolate(faces, view_directions(scene.vertices, scene.normals, camera.center)))
    shown = (share > 0) & (d[:, 2] > 0)
    canonical = raster.interpolate(faces, avatar.vertices)[shown]
    with torch.no_grad():
        weights = torch.tensor(motion.weights, dtype=torch.float32)
        field = NeuralField(avatar.neural_field)
        residual = field(torch.from_numpy(canonical), torch.from_numpy(d[shown]), weights)[0].numpy()
    lit = texel_light(scene, faces, raster.take(shown))
    color = avatar.base_color.reshape(-1, 3).copy()
    texels = raster.texel[shown]
    settled = srgb_to_linear(color[texels]) - share[shown, None] * residual / np.maximum(lit, 1e-3)
    color[texels] = to_u8(linear_to_srgb(settled))
    return color.reshape(avatar.base_color.shape)
