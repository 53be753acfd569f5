"""The project's shading definition: colour and opacity of fragments from textures and a field, in torch, differentiable in both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from avatar3d.choices import Form
from avatar3d.color import srgb_to_linear
from avatar3d.field.loops import bilinear
from avatar3d.field.network import NeuralField
from avatar3d.rendering.frame import SURFACE_HEAD
from avatar3d.rendering.lod.fold import VertexField, available_form, folded_hair, hair_field, skin_detail, skin_field
from avatar3d.rendering.reference.fragments import Fragments
from avatar3d.rendering.scene import BACK_FACE_SHADE, Scene, view_directions


@dataclass
class Textures:
    """The textures as torch tensors, free to require gradients.

    base_color: (H, W, 3) linear. deltas: [(log ratio (h, w, 3), activation)]. light_direction: (3,).
    hair_color: (H, W, 3) linear; hair_opacity: (K, h, w) in [0, 1]; hair_occlusion: (K,); or instead of the three
    hair_folded: (K, H, W, 4), see avatar3d.rendering.lod.fold; None without hair.
    """

    base_color: torch.Tensor
    deltas: list[tuple[torch.Tensor, float]]
    light_direction: torch.Tensor
    hair_color: torch.Tensor | None = None
    hair_opacity: torch.Tensor | None = None
    hair_occlusion: torch.Tensor | None = None
    hair_folded: torch.Tensor | None = None


def _tensor(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def textures_of(scene: Scene) -> Textures:
    """The textures of a scene's avatar, decoded to linear light before they are filtered."""
    textures = Textures(
        base_color=_tensor(srgb_to_linear(scene.avatar.base_color)),
        deltas=[(_tensor(log_ratio), activation) for log_ratio, activation in scene.active_deltas()],
        light_direction=_tensor(scene.light_direction),
    )
    hair = scene.avatar.hair
    if hair is not None:
        textures.hair_color = _tensor(srgb_to_linear(hair.color))
        textures.hair_opacity = _tensor(hair.opacity / np.float32(255))
        textures.hair_occlusion = _tensor(hair.occlusion)
    return textures


def folded_textures(scene: Scene, baked: bool) -> Textures:
    """The textures of a scene's avatar as the forms "mesh" and "baked" draw them."""
    avatar, layout = scene.avatar, scene.layout
    textures = textures_of(scene)
    amounts = avatar.baked.amounts(scene.motion.weights) if baked and avatar.baked is not None else np.zeros(0)
    if baked:
        textures.base_color = textures.base_color + _tensor(skin_detail(avatar, layout).at(amounts)[0])
    if avatar.hair is not None:
        hair = folded_hair(avatar, layout, baked)
        textures.hair_folded = _tensor(hair.at(amounts if hair.moves else amounts[:0]))
    return textures


def sample(texture: torch.Tensor, uv: torch.Tensor) -> torch.Tensor:
    """(N, C) bilinear samples of a texture (H, W, C) at uv (N, 2), clamped at the edges, level of detail 0."""
    if not torch.is_grad_enabled():
        return torch.from_numpy(bilinear(texture.numpy(), uv.numpy()))
    height, width = texture.shape[:2]
    x = (uv[:, 0] * width - 0.5).clamp(0, width - 1)
    y = (uv[:, 1] * height - 0.5).clamp(0, height - 1)
    left, top = x.floor().long().clamp(max=max(width - 2, 0)), y.floor().long().clamp(max=max(height - 2, 0))
    right, bottom = (left + 1).clamp(max=width - 1), (top + 1).clamp(max=height - 1)
    fx, fy = (x - left)[:, None], (y - top)[:, None]
    flat = texture.reshape(height * width, -1)
    upper = flat[top * width + left] * (1 - fx) + flat[top * width + right] * fx
    lower = flat[bottom * width + left] * (1 - fx) + flat[bottom * width + right] * fx
    return upper * (1 - fy) + lower * fy


# Colour residual (N, 3) and opacity change (N,) of fragments: the field in one of its forms.
Residual = Callable[[Fragments], tuple[torch.Tensor, torch.Tensor]]


def live_residual(field: NeuralField, weights: np.ndarray) -> Residual:
    """The field evaluated at each fragment whose field weight is not zero; gradients reach the field's parameters."""
    motion_weights = torch.from_numpy(np.array(weights, np.float32))

    def evaluate(fragments: Fragments) -> tuple[torch.Tensor, torch.Tensor]:
        acts = torch.from_numpy(np.flatnonzero(fragments.field_weight > 0))
        residual = torch.zeros(len(fragments.pixel), 3)
        change = torch.zeros(len(fragments.pixel))
        if len(acts) == 0:
            return residual, change
        colour, opacity = field(_tensor(fragments.canonical)[acts], _tensor(fragments.d)[acts], motion_weights)
        colour = colour * _tensor(fragments.field_weight)[acts, None]
        return residual.index_copy(0, acts, colour), change.index_copy(0, acts, opacity)

    return evaluate


def baked_residual(scene: Scene) -> Residual:
    """The field at the corners of each fragment's face, interpolated; the textures hold what that leaves out."""
    avatar = scene.avatar
    assert avatar.baked is not None
    hair_has_field = avatar.baked.hair_q0 is not None

    @cache
    def at(level: int) -> VertexField:
        return skin_field(avatar) if level < 0 else hair_field(avatar, level)

    def evaluate(fragments: Fragments) -> tuple[torch.Tensor, torch.Tensor]:
        level, none = fragments.level, torch.zeros(len(fragments.pixel))
        if fragments.surface == SURFACE_HEAD:
            faces, vertices, normals = avatar.faces, scene.vertices, scene.normals
        elif hair_has_field and scene.hair is not None:
            faces, vertices, normals = scene.hair.shells.faces, scene.hair.vertices(level), scene.hair.normals
        else:
            return none[:, None].expand(-1, 3), none
        residual = at(level).residual(view_directions(vertices, normals, fragments.eye), scene.motion.weights)
        if fragments.surface == SURFACE_HEAD:
            residual = residual * avatar.field_weight[:, None]
        return _tensor((residual[faces[fragments.face]] * fragments.barycentric[..., None]).sum(1)), none

    return evaluate


def shading_of(scene: Scene, form: Form) -> tuple[Textures, Residual | None]:
    """Textures and field of a scene's avatar in the asked form, or in the form "mesh" where the avatar lacks it."""
    avatar, form = scene.avatar, available_form(scene.avatar, form)
    if form == "live":
        assert avatar.neural_field is not None
        return textures_of(scene), live_residual(NeuralField(avatar.neural_field), scene.motion.weights)
    baked = form == "baked"
    return folded_textures(scene, baked), baked_residual(scene) if baked else None


def shade_fragments(
    fragments: Fragments, textures: Textures, residual: Residual | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Linear colour (N, 3), not premultiplied and not negative, and alpha (N,) of fragments; the project's shading definition.

    Differentiable in every tensor of `textures` and in what `residual` holds.
    """
    uv, shade = _tensor(fragments.uv), _tensor(fragments.shade)
    if fragments.surface == SURFACE_HEAD:
        color = sample(textures.base_color, uv)
        if textures.deltas:
            log_ratio = sum((activation * sample(ratio, uv) for ratio, activation in textures.deltas), torch.zeros(()))
            color = color * torch.exp(log_ratio)
        halfway = torch.nn.functional.normalize(textures.light_direction + _tensor(fragments.toward_eye), dim=1)
        lobe = (_tensor(fragments.normal) * halfway).sum(1).clamp(min=0)
        gloss = _tensor(fragments.gloss)
        color = color * shade + (gloss[:, 0] * lobe ** gloss[:, 1])[:, None]
        alpha = _tensor(fragments.alpha)
        if residual is not None:
            color = color + residual(fragments)[0]
        return color.clamp(min=0), alpha
    level = fragments.level
    side = torch.where(torch.from_numpy(fragments.front), 1.0, BACK_FACE_SHADE)[:, None]
    if textures.hair_folded is not None:
        color, alpha = sample(textures.hair_folded[level], uv).split([3, 1], dim=1)
        alpha = alpha[:, 0]
    else:
        assert textures.hair_color is not None and textures.hair_opacity is not None and textures.hair_occlusion is not None
        color = sample(textures.hair_color, uv) * textures.hair_occlusion[level]
        alpha = sample(textures.hair_opacity[level][..., None], uv)[:, 0]
    color = color * shade * side
    if residual is not None:
        change, alpha_change = residual(fragments)
        color, alpha = color + change, alpha + alpha_change
    return color.clamp(min=0), alpha.clamp(0, 1)
