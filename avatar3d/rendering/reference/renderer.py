"""The reference renderer: the definition of the picture, torch shading over a CPU rasteriser, differentiable in its textures.

Layers, in drawing order: head (front-most fragment), faded rim of the bust (front-most, blended over), hair level 0 (opaque
where its opacity is at least one half), hair levels 1.. (blended over from inside out, hidden by what lies nearer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import numba
import numpy as np
import torch

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.color import srgb_to_linear
from avatar3d.field.loops import bilinear, blend_over, mix
from avatar3d.field.network import NeuralField
from avatar3d.geometry import unit
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD, SURFACE_NONE, Form, Frame, RenderOptions, box_filter
from avatar3d.rendering.lod.fold import VertexField, available_form, folded_hair, hair_field, skin_detail, skin_field
from avatar3d.rendering.lod.hair_levels import merge_levels
from avatar3d.rendering.lod.level import LodChain
from avatar3d.rendering.reference.raster import Raster, draw_ranks, front_most, nearest, rasterise
from avatar3d.rendering.scene import BACK_FACE_SHADE, HAIR_CUT, MIN_ALPHA, Scene, build_scene, view_directions


@dataclass(frozen=True)
class Fragments:
    """Fragments of one surface with what shading needs, in drawing order; N of them.

    surface: SURFACE_HEAD or SURFACE_HAIR; level: hair level, -1 for the head. pixel: (N,) i64 row · width + column.
    face: (N,) index into avatar.faces or hair.faces. barycentric: (N, 3) f32. depth: (N,) f32 metres. front: (N,) bool.
    uv: (N, 2). canonical: (N, 3) metres, neutral head frame. position, normal: (N, 3) world, the normal of unit length.
    d: (N, 3) unit view direction in the local frame. toward_eye: (N, 3) unit, world. shade: (N, 3). alpha, field_weight: (N,).
    gloss: (N, 2) strength and exponent. All f32. eye: (3,) where they are seen from, world.
    """

    surface: int
    level: int
    pixel: np.ndarray
    face: np.ndarray
    barycentric: np.ndarray
    depth: np.ndarray
    front: np.ndarray
    uv: np.ndarray
    canonical: np.ndarray
    position: np.ndarray
    normal: np.ndarray
    d: np.ndarray
    toward_eye: np.ndarray
    shade: np.ndarray
    alpha: np.ndarray
    field_weight: np.ndarray
    gloss: np.ndarray
    eye: np.ndarray


def _interpolated(raster: Raster, faces: np.ndarray, columns: list[np.ndarray]) -> list[np.ndarray]:
    """Vertex attributes (V, k) at each fragment, (N, k) f32 each."""
    return [mix(column, faces, raster.face, raster.barycentric) for column in columns]


def _head_fragments(scene: Scene, camera: Camera, raster: Raster, directions: np.ndarray) -> Fragments:
    avatar, layout = scene.avatar, scene.layout
    uv, canonical, position, normal, d, shade, alpha, field_weight, gloss = _interpolated(
        raster,
        layout.faces,
        [
            avatar.uv, avatar.vertices, scene.vertices, scene.normals, directions, scene.shade,
            avatar.vertex_alpha[:, None], avatar.field_weight[:, None], layout.gloss,
        ],
    )  # fmt: skip
    return Fragments(
        SURFACE_HEAD, -1, raster.pixel, layout.order[raster.face], raster.barycentric, raster.depth, raster.front,
        uv, canonical, position, unit(normal), unit(d), unit(camera.center.astype(np.float32) - position), shade,
        alpha[:, 0], field_weight[:, 0], gloss, camera.center,
    )  # fmt: skip


def _hair_fragments(scene: Scene, camera: Camera, level: int, raster: Raster, vertices: np.ndarray) -> Fragments:
    hair = scene.hair
    assert hair is not None
    directions = view_directions(vertices, hair.normals, camera.center)
    uv, canonical, position, normal, d, shade = _interpolated(
        raster,
        hair.shells.faces,
        [hair.shells.uv, hair.canonical(level), vertices, hair.normals, directions, hair.shade],
    )
    ones = np.ones(len(raster.pixel), np.float32)
    return Fragments(
        SURFACE_HAIR, level, raster.pixel, raster.face, raster.barycentric, raster.depth, raster.front,
        uv, canonical, position, unit(normal), unit(d), unit(camera.center.astype(np.float32) - position), shade,
        ones, ones, np.zeros((len(ones), 2), np.float32), camera.center,
    )  # fmt: skip


class _Kept:
    """The fragments of a scene at one camera, and what they were made of."""

    def __init__(self, camera: Camera) -> None:
        self._view = _numbers(camera)
        self._made: tuple[list[Any], bytes] | None = None
        self._drawn: list[Fragments] = []

    def drawn(self, scene: Scene, camera: Camera) -> list[Fragments] | None:
        """The fragments of a scene that differs in textures at most from the last one; None at any other camera."""
        if _numbers(camera) != self._view:
            return None
        avatar, hair = scene.avatar, scene.avatar.hair
        shapes = [avatar.vertices, avatar.faces, avatar.part, avatar.uv, avatar.weld, avatar.expression, avatar.head_weight,
                  avatar.vertex_alpha, avatar.field_weight, avatar.joints, avatar.light]  # fmt: skip
        if hair is not None:
            shapes += [hair.base, hair.extent, hair.levels, hair.faces, hair.uv, hair.weld]
        numbers = np.float64(avatar.shading_power).tobytes() + _numbers(scene.motion)
        same = self._made is not None and len(shapes) == len(self._made[0]) and numbers == self._made[1]
        if not (same and all(mine is theirs for mine, theirs in zip(shapes, self._made[0], strict=True))):  # type: ignore[index]
            self._drawn, self._made = _fragments(scene, camera, True), (shapes, numbers)
        return list(self._drawn)


def _numbers(value: Camera | MotionCode) -> bytes:
    """What tells a camera or a motion from others for drawing."""
    if isinstance(value, Camera):
        parts = [value.width, value.height, value.intrinsics, value.rotation, value.translation, value.near_m, value.far_m]
    else:
        parts = [value.weights, value.rotation, value.translation, value.gaze]
    return b"".join(np.asarray(part, np.float64).tobytes() for part in parts)


_KEPT: ContextVar[_Kept | None] = ContextVar("fragments kept", default=None)


@contextmanager
def fragments_kept(camera: Camera) -> Iterator[None]:
    """Inside, `fragments` at this camera are made once for each shape: enrolment draws one head there many times, newly coloured."""
    token = _KEPT.set(_Kept(camera))
    try:
        yield
    finally:
        _KEPT.reset(token)


def fragments(scene: Scene, camera: Camera, hair: bool = True) -> list[Fragments]:
    """The fragments of every surface in drawing order: head, its faded rim, hair levels 0 to K − 1.

    Of the head and of its rim only the front-most fragment of each pixel is given, of a hair level all that are not behind
    the head: level 0 from both sides, the others from outside. What level 0 hides depends on its opacity; see `composite`.
    """
    kept = _KEPT.get()
    drawn = kept.drawn(scene, camera) if kept is not None and hair else None
    return _fragments(scene, camera, hair) if drawn is None else drawn


def _fragments(scene: Scene, camera: Camera, hair: bool) -> list[Fragments]:
    layout = scene.layout
    directions = view_directions(scene.vertices, scene.normals, camera.center)
    limit = np.full((camera.height, camera.width), np.inf, np.float32)
    split = layout.opaque_count
    drawn = []
    for first, last in ((0, split), (split, len(layout.faces))):
        raster = rasterise(scene.vertices, layout.faces[first:last], camera, layout.two_sided[first:last], limit)
        raster = Raster(raster.pixel, raster.face + first, raster.barycentric, raster.depth, raster.front)
        corners = layout.faces[raster.face]
        alpha = (scene.avatar.vertex_alpha[corners] * raster.barycentric).sum(1)
        raster = nearest(raster.take(alpha >= MIN_ALPHA))
        limit.reshape(-1)[raster.pixel] = raster.depth
        drawn.append(_head_fragments(scene, camera, raster, directions))
    if hair and scene.hair is not None:
        faces = scene.hair.shells.faces
        for level in range(len(scene.hair.shells.levels)):
            vertices = scene.hair.vertices(level)
            raster = rasterise(vertices, faces, camera, np.full(len(faces), level == 0), limit)
            drawn.append(_hair_fragments(scene, camera, level, raster, vertices))
    return drawn


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


@dataclass(frozen=True)
class Composite:
    """rgba: (H · W, 4) torch, linear, premultiplied. depth: (H · W,) f32, inf where empty. surface: (H · W,) i8."""

    rgba: torch.Tensor
    depth: np.ndarray
    surface: np.ndarray


def composite(drawn: Sequence[Fragments], shaded: Sequence[tuple[torch.Tensor, torch.Tensor]], pixel_count: int) -> Composite:
    """Blend fragments and their (colour, alpha) in drawing order; differentiable except in what is visible."""
    rgba = torch.zeros(pixel_count, 4)
    depth = np.full(pixel_count, np.inf, np.float32)
    surface = np.full(pixel_count, SURFACE_NONE, np.int8)

    quick = not torch.is_grad_enabled()

    def over(chosen: np.ndarray, layer: Fragments, color: torch.Tensor, alpha: torch.Tensor) -> None:
        nonlocal rgba
        if quick:
            blend_over(rgba.numpy(), layer.pixel, chosen, color.numpy(), alpha.numpy())
            return
        index = torch.from_numpy(chosen)
        pixel = torch.from_numpy(layer.pixel[chosen])
        opacity = alpha[index][:, None]
        source = torch.cat([color[index] * opacity, opacity], dim=1)
        rgba = rgba.index_copy(0, pixel, source + (1 - opacity) * rgba[pixel])

    for layer, (color, alpha) in zip(drawn, shaded, strict=True):
        visible = layer.depth < depth[layer.pixel]
        if layer.level >= 1:
            chosen = np.flatnonzero(visible)
            # One by one in drawing order, or, for gradients, all that are first at their pixel, then all second ones and so on.
            ranks = np.zeros(len(chosen), np.int64) if quick else draw_ranks(layer.pixel[chosen])
            for rank in range(int(ranks.max(initial=-1)) + 1):
                over(chosen[ranks == rank], layer, color, alpha)
            continue
        if layer.level == 0:
            visible &= alpha.detach().numpy() >= HAIR_CUT
            alpha = torch.ones_like(alpha)
        candidates = np.flatnonzero(visible)
        chosen = candidates[front_most(layer.pixel[candidates], layer.depth[candidates])]
        over(chosen, layer, color, alpha)
        depth[layer.pixel[chosen]] = layer.depth[chosen]
        surface[layer.pixel[chosen]] = layer.surface
    return Composite(rgba, depth, surface)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch and numba to one thread: on a busy machine their threads wait for each other and a frame takes tenfold."""
    torch_threads, numba_threads = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(torch_threads)
        numba.set_num_threads(numba_threads)


class ReferenceRenderer:
    """Draws with torch on the CPU; holds no state but its description and the coarser forms of what it drew last."""

    name = "reference"

    def __init__(self) -> None:
        self._lods: LodChain | None = None
        self.info = {"vendor": "avatar3d", "renderer": "reference (torch, CPU)", "version": str(torch.__version__)}

    def render(
        self, avatar: Avatar, motion: MotionCode, cameras: Sequence[Camera], options: RenderOptions | None = None
    ) -> list[Frame]:
        """One Frame per camera."""
        options = options or RenderOptions()
        if self._lods is None or self._lods[0] is not avatar:
            self._lods = LodChain(avatar)
        lods = self._lods

        @cache
        def posed(lod: int) -> tuple[Scene, Textures, Residual | None]:
            scene = build_scene(merge_levels(lods[lod], options.hair_levels), motion)
            return scene, *shading_of(scene, options.form)

        return [self._frame(*posed(lods.wanted(options, motion, [camera])), camera, options) for camera in cameras]

    def _frame(
        self, scene: Scene, textures: Textures, residual: Residual | None, camera: Camera, options: RenderOptions
    ) -> Frame:
        factor = options.supersample
        sampled = camera.resized(camera.width * factor, camera.height * factor)
        with torch.no_grad(), _one_thread():
            drawn = fragments(scene, sampled, options.hair)
            shaded = [shade_fragments(layer, textures, residual) for layer in drawn]
            picture = composite(drawn, shaded, sampled.width * sampled.height)
        shape = (sampled.height, sampled.width)
        frame = Frame(picture.rgba.numpy().reshape(*shape, 4), picture.depth.reshape(shape), picture.surface.reshape(shape))
        return box_filter(frame, factor)

    def close(self) -> None:
        """Nothing to free."""
