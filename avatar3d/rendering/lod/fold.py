"""The baked form as it is drawn: one texture a surface, and the field at the vertices; arrays only, shared by both renderers.

residual(p, d) ≈ the field at the corners of p's face, interpolated + detail(p): the bake's mean over directions, less what the
interpolation gives of it. The detail lies in the texture of the colour, lit like it, so that a pixel costs one sample; the
vertices bring the view direction and the motion code in full.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import Avatar, FieldParams
from avatar3d.choices import FORMS, Form
from avatar3d.color import srgb_to_linear
from avatar3d.errors import InputError
from avatar3d.field.definition import first_layer, from_first_layer
from avatar3d.field.projection import MEAN_DIRECTIONS, cosine_directions
from avatar3d.field.rebake import Moving
from avatar3d.field.shells import UvRaster, uv_raster
from avatar3d.rendering.culling.backface import corner_planes
from avatar3d.rendering.scene import Layout, shade_of, vertex_normals

DIRECTIONS = cosine_directions(MEAN_DIRECTIONS)  # the mean is taken over
MIN_SHADE = 0.05  # details are not raised by more than a twentieth of full light would ask for


@dataclass(frozen=True)
class VertexField:
    """The field at a surface's vertices. hidden: (N, H) f32, the grid's share of the MLP's first layer at each."""

    params: FieldParams
    hidden: np.ndarray

    @classmethod
    def of(cls, params: FieldParams, places: np.ndarray) -> VertexField:
        """At places (N, 3) metres in the neutral head."""
        return cls(params, first_layer(params, places))

    def residual(self, directions: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(N, 3) f32 colour residual seen from unit directions (N, 3) in the local frame, for ARKit weights (52,)."""
        return from_first_layer(self.params, self.hidden, directions, weights)[0]

    def mean(self, weights: np.ndarray) -> np.ndarray:
        """(N, 3) f32 mean residual over DIRECTIONS."""
        shape = self.hidden.shape[0], 3
        return np.mean([self.residual(np.broadcast_to(d, shape), weights) for d in DIRECTIONS], axis=0)


def available_form(avatar: Avatar, form: Form) -> Form:
    """The asked form where the avatar has it, else "mesh"."""
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}; expected one of {', '.join(FORMS)}")
    missing = avatar.neural_field is None or (form == "baked" and avatar.baked is None)
    return "mesh" if missing else form


def skin_field(avatar: Avatar) -> VertexField:
    """At the vertices of the head."""
    assert avatar.neural_field is not None
    return VertexField.of(avatar.neural_field, avatar.vertices)


def hair_field(avatar: Avatar, level: int) -> VertexField:
    """At the vertices of a hair level."""
    assert avatar.neural_field is not None and avatar.hair is not None
    return VertexField.of(avatar.neural_field, avatar.hair.base + avatar.hair.levels[level] * avatar.hair.extent)


def skin_detail(avatar: Avatar, layout: Layout) -> Moving:
    """(1, H, W, 3) that the baked form adds to the linear base colour, of its size."""
    baked = avatar.baked
    assert baked is not None
    normals = vertex_normals(corner_planes(avatar.vertices, layout.adjacency.corners), layout.adjacency)
    shade = shade_of(normals, avatar.light, avatar.shading_power)
    faces = avatar.faces[(avatar.field_weight[avatar.faces] > 0).any(1)]
    raster = uv_raster(faces, avatar.uv, baked.skin_q0.shape[:2])
    at_vertices = skin_field(avatar).mean(baked.weights)
    weight = raster.interpolate(faces, avatar.field_weight)[:, None]
    size = avatar.base_color.shape[:2]
    detail = _detail(raster, faces, baked.skin_q0, weight, avatar.field_weight[:, None] * at_vertices, shade)
    nothing = np.zeros_like(at_vertices)
    moves = [
        None if step.skin is None else resized(_detail(raster, faces, step.skin, weight, nothing, shade), size)[None]
        for step in baked.motion
    ]
    return Moving(resized(detail, size)[None], moves)


def folded_hair(avatar: Avatar, layout: Layout, baked: bool) -> Moving:
    """(K, H, W, 4) linear colour with its occlusion, and opacity, of each hair level, of the hair colour's size.

    baked: with the baked field's detail and opacity change.
    """
    hair = avatar.hair
    assert hair is not None
    size = hair.color.shape[:2]
    color = srgb_to_linear(hair.color)
    field = avatar.baked if baked else None
    out = np.empty((len(hair.levels), *size, 4), np.float32)
    moves: list[np.ndarray | None] = []
    if field is not None and field.hair_q0 is not None:
        assert layout.hair_normals is not None
        moves = [None if step.hair is None else np.empty((len(hair.levels), *size, 3), np.float32) for step in field.motion]
        shade = shade_of(layout.hair_normals, avatar.light, avatar.shading_power)
        raster = uv_raster(hair.faces, hair.uv, field.hair_q0.shape[1:3])
    for level, occlusion in enumerate(hair.occlusion):
        out[level, ..., :3] = color * occlusion
        out[level, ..., 3] = resized(hair.opacity[level][..., None] / np.float32(255), size)[..., 0]
        if field is not None and field.hair_q0 is not None:
            at_vertices = hair_field(avatar, level).mean(field.weights)
            detail = _detail(raster, hair.faces, field.hair_q0[level, ..., :3], 1.0, at_vertices, shade)
            for move, step in zip(moves, field.motion, strict=True):
                if move is not None and step.hair is not None:
                    nothing = np.zeros_like(at_vertices)
                    move[level] = resized(_detail(raster, hair.faces, step.hair[level], 1.0, nothing, shade), size)
            out[level] += resized(np.concatenate([detail, field.hair_q0[level, ..., 3:]], axis=2), size)
    out[..., 3].clip(0, 1, out=out[..., 3])
    return Moving(out, moves)


def _detail(
    raster: UvRaster,
    faces: np.ndarray,
    mean: np.ndarray,
    weight: np.ndarray | float,
    at_vertices: np.ndarray,
    shade: np.ndarray,
) -> np.ndarray:
    """(h, w, 3) f32: mean · weight less what lies between the vertices (V, 3) already, freed of the shade (V, 3)."""
    texels = mean.reshape(-1, 3)[raster.texel] * weight - raster.interpolate(faces, at_vertices)
    lit = np.maximum(raster.interpolate(faces, shade), MIN_SHADE)
    return raster.scatter((texels / lit).astype(np.float32))


def resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(H, W, C) f32 bilinear samples of an image (h, w, C) at the texel centres of another size (H, W), clamped."""
    for axis, count in enumerate(size):
        length = image.shape[axis]
        if length == count:
            continue
        place = np.clip((np.arange(count) + 0.5) * (length / count) - 0.5, 0, length - 1)
        first = np.minimum(place.astype(int), max(length - 2, 0))
        shape = [1, 1, 1]
        shape[axis] = count
        share = (place - first).astype(np.float32).reshape(shape)
        following = np.minimum(first + 1, length - 1)
        image = image.take(first, axis) * (1 - share) + image.take(following, axis) * share
    return np.asarray(image, np.float32)
