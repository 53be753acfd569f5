"""Fragments of a posed avatar at one camera: what each pixel of each surface needs for shading, in drawing order; arrays only.

Layers, in drawing order: head (front-most fragment), faded rim of the bust (front-most), hair level 0, hair levels 1 and up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.field.loops import mix
from avatar3d.geometry import unit
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD
from avatar3d.rendering.reference.raster import Raster, nearest, rasterise
from avatar3d.rendering.scene import MIN_ALPHA, Scene, view_directions


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
