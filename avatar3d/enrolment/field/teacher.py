"""What a reflectance model teaches the field: how points of skin and hair should change with the view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import PART_SKIN
from avatar3d.camera import Camera
from avatar3d.color import srgb_to_linear
from avatar3d.enrolment.field.pixels import MIN_COVERAGE, encoding_slope, seen_hair
from avatar3d.enrolment.field.reflectance import (
    KeyLight,
    around_normals,
    hair_highlight,
    hair_strands,
    skin_highlight,
    view_sphere,
)
from avatar3d.field.shells import sample_texture
from avatar3d.geometry import random_points, unit
from avatar3d.rendering.scene import Scene, view_directions

SKIN_POINTS, HAIR_POINTS = 20_000, 40_000  # cells of the grid that none of them touches show as spots
DIRECTION_SETS, DIRECTIONS = 4, 6  # each teacher point is seen from one set of six directions at a time
BARE_POINT_SHARE = 0.3  # how often a point without hair is a teacher's point, against one in full hair


@dataclass
class Teacher:
    """Surface points with what the view should change there.

    canonical: (N, 3). d, target: (N, S, D, 3), S sets of D directions; target is linear light without its mean over them.
    slope: (N, 3). level: (N,) −1 on skin. facing: (N,) cosine between the normal and the direction to the photo's camera.
    seen: (N,) seen_hair of it. bare: (N,) bool, hair's texture is empty there.
    """

    canonical: np.ndarray
    d: np.ndarray
    target: np.ndarray
    slope: np.ndarray
    level: np.ndarray
    facing: np.ndarray
    seen: np.ndarray
    bare: np.ndarray


def _directions(normals: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """World directions and local d, each (N, S, D, 3)."""
    sets = [around_normals(normals, view_sphere(DIRECTIONS, rng)) for _ in range(DIRECTION_SETS)]
    toward = np.stack(sets, axis=1)
    flat = toward.reshape(-1, 3)
    repeated = np.broadcast_to(normals[:, None, None], toward.shape).reshape(-1, 3)
    # Seen from a point at `flat`, a surface at the origin shows itself along `flat`.
    return toward, view_directions(np.zeros_like(flat), repeated, flat).reshape(toward.shape)


def skin_teacher(scene: Scene, key: KeyLight, camera: Camera, rng: np.random.Generator) -> Teacher | None:
    avatar = scene.avatar
    weight = avatar.field_weight[avatar.faces].mean(1) * (avatar.part == PART_SKIN)
    if not (weight > 0).any():
        return None
    face, barycentric = random_points(avatar.vertices, avatar.faces, weight, SKIN_POINTS, rng)
    mix = _mixer(avatar.faces[face], barycentric)
    normals = unit(mix(scene.normals))
    toward, d = _directions(normals, rng)
    repeated = np.broadcast_to(normals[:, None, None], toward.shape)
    color = sample_texture(srgb_to_linear(avatar.base_color), mix(avatar.uv)) * mix(scene.shade)
    target = skin_highlight(key, repeated, toward)
    facing = _facing(mix(scene.vertices), normals, camera)
    return _centred(mix(avatar.vertices), d, target, color, -1, facing, np.ones(len(face)))


def hair_teachers(scene: Scene, key: KeyLight, camera: Camera, rng: np.random.Generator) -> list[Teacher]:
    hair = scene.hair
    if hair is None or not len(hair.shells.faces):
        return []
    shells = hair.shells
    strands = hair_strands(shells) @ hair.rotation.T
    centers = shells.uv[shells.faces].mean(1)
    opacity = [sample_texture(level[..., None] / np.float32(255), centers)[:, 0] for level in shells.opacity]
    shares = np.array([values.mean() for values in opacity]) + 1e-6
    counts = np.ceil(HAIR_POINTS * shares / shares.sum()).astype(int)
    teachers = []
    for level, count in enumerate(counts):
        face, barycentric = random_points(hair.canonical(level), shells.faces, opacity[level] + BARE_POINT_SHARE, count, rng)
        mix = _mixer(shells.faces[face], barycentric)
        normals, strand = unit(mix(hair.normals)), unit(mix(strands.astype(np.float32)))
        albedo = sample_texture(srgb_to_linear(shells.color), mix(shells.uv))
        toward, d = _directions(normals, rng)
        repeated, along, tint = (np.broadcast_to(a[:, None, None], toward.shape) for a in (normals, strand, albedo))
        # What lies deeper in the hair gets less of the lamp too.
        target = hair_highlight(key, repeated, along, tint, toward) * shells.occlusion[level]
        color = albedo * shells.occlusion[level] * mix(hair.shade)
        facing = _facing(mix(hair.vertices(level)), normals, camera)
        opacity_there = sample_texture(shells.opacity[level][..., None] / np.float32(255), mix(shells.uv))[:, 0]
        teachers.append(_centred(mix(hair.canonical(level)), d, target, color, level, facing, opacity_there))
    return teachers


def _mixer(corners: np.ndarray, barycentric: np.ndarray):  # type: ignore[no-untyped-def]
    """A function that interpolates vertex attributes (V, k) at points given as vertex triples and barycentrics."""
    return lambda attribute: (attribute[corners] * barycentric[..., None]).sum(1).astype(np.float32)


def _facing(positions: np.ndarray, normals: np.ndarray, camera: Camera) -> np.ndarray:
    return (normals * unit(camera.center.astype(np.float32) - positions)).sum(-1)


def _centred(
    canonical: np.ndarray,
    d: np.ndarray,
    target: np.ndarray,
    color: np.ndarray,
    level: int,
    facing: np.ndarray,
    opacity: np.ndarray,
) -> Teacher:
    """A teacher of `target` (N, S, D, 3) less its mean over all directions; `color` (N, 3) sets what is visible."""
    view_part = target - target.mean((1, 2), keepdims=True)
    levels = np.full(len(canonical), level, np.int8)
    facing = facing.astype(np.float32)
    slope = encoding_slope(color)
    return Teacher(canonical, d, view_part.astype(np.float32), slope, levels, facing, seen_hair(facing), opacity < MIN_COVERAGE)


def all_teachers(teachers: list[Teacher]) -> Teacher:
    names = Teacher.__dataclass_fields__
    return Teacher(**{name: np.concatenate([getattr(teacher, name) for teacher in teachers]) for name in names})
