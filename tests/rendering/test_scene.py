"""The scene: light, normals, order of drawing, hair following the head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.avatar import PART_LASH, Avatar, TextureDelta
from avatar3d.geometry import smooth_normals
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.scene import (
    MAX_DELTAS,
    active_deltas,
    build_scene,
    layout_of,
    light_direction,
    shade_of,
    view_directions,
)

unit_vectors = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: sum(x * x for x in v) > 0.01)


def test_shade_follows_the_stated_formula() -> None:
    rng = np.random.default_rng(1)
    light = rng.normal(0, 0.2, (9, 3))
    light[0] = 1
    x, y, z = normal = np.array([0.6, -0.48, 0.64])
    basis = np.array([1, x, y, z, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y])
    expected = np.clip(basis @ light, 0.12, 3) ** 0.6
    np.testing.assert_allclose(shade_of(normal[None], light, 0.6)[0], expected, rtol=1e-5)


def test_darkness_and_glare_are_limited() -> None:
    light = np.zeros((9, 3))
    np.testing.assert_allclose(shade_of(np.array([[0.0, 0, 1]]), light, 1.0), 0.12, rtol=1e-6)
    light[0] = 10
    np.testing.assert_allclose(shade_of(np.array([[0.0, 0, 1]]), light, 1.0), 3.0, rtol=1e-6)


def test_light_direction_turns_toward_the_brighter_side() -> None:
    light = np.zeros((9, 3))
    light[0], light[1] = 1.0, 2.0
    assert light_direction(light)[0] > 0.9
    light[1] = -2.0
    assert light_direction(light)[0] < -0.9
    assert np.linalg.norm(light_direction(np.zeros((9, 3)))) == pytest.approx(1.0)


@given(unit_vectors, unit_vectors)
def test_view_direction_is_the_eye_seen_from_the_surface(normal: tuple, eye: tuple) -> None:  # type: ignore[type-arg]
    n = np.array([normal], np.float32)
    n /= np.linalg.norm(n)
    toward = np.array(eye) / np.linalg.norm(eye)
    if np.linalg.norm(np.cross(n[0], [0, 1, 0.01])) < 1e-3:
        return
    d = view_directions(np.zeros((1, 3), np.float32), n, np.array(eye))[0]
    assert np.linalg.norm(d) == pytest.approx(1.0, abs=1e-3)
    assert d[2] == pytest.approx(float(n[0] @ toward), abs=1e-4)


def test_normals_of_a_sphere_point_outward_across_its_seam() -> None:
    rows, columns = 24, 32
    polar = np.linspace(0, np.pi, rows)[:, None]
    around = np.linspace(0, 2 * np.pi, columns + 1)[None]
    sphere = np.stack(np.broadcast_arrays(np.sin(polar) * np.cos(around), np.cos(polar), -np.sin(polar) * np.sin(around)), -1)
    index = np.arange(rows * (columns + 1)).reshape(rows, columns + 1)
    a, b, c, d = index[:-1, :-1].ravel(), index[:-1, 1:].ravel(), index[1:, 1:].ravel(), index[1:, :-1].ravel()
    faces = np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)])
    weld = index.copy()
    weld[:, -1] = weld[:, 0]
    weld[0], weld[-1] = weld[0, 0], weld[-1, 0]
    normals = smooth_normals(sphere.reshape(-1, 3), faces, weld.ravel())
    assert (normals * sphere.reshape(-1, 3)).sum(1).min() > 0.999
    assert np.array_equal(normals[index[:, 0]], normals[index[:, -1]])


def test_every_face_is_drawn_once_and_groups_are_pure(avatar: Avatar) -> None:
    layout = layout_of(avatar)
    assert np.array_equal(np.sort(layout.order), np.arange(len(avatar.faces)))
    assert np.array_equal(layout.faces, avatar.faces[layout.order])
    alpha = avatar.vertex_alpha[layout.faces].min(1)
    assert (alpha[: layout.opaque_count] == 1).all()
    assert (alpha[layout.opaque_count :] < 1).all()
    assert np.array_equal(np.flatnonzero(layout.two_sided), np.flatnonzero(avatar.part[layout.order] == PART_LASH))


def test_hair_moves_rigidly_with_the_skull(avatar: Avatar) -> None:
    turned = replace(MotionCode(), rotation=np.array([0.1, 0.3, -0.1, 0.9]), translation=np.array([0.02, 0.01, 0.03]))
    neutral, scene = build_scene(avatar, MotionCode()), build_scene(avatar, turned)
    assert neutral.hair is not None and scene.hair is not None
    np.testing.assert_allclose(neutral.hair.vertices(1), neutral.hair.canonical(1), atol=1e-7)
    skull = avatar.head_weight == 1
    before = np.linalg.norm(neutral.vertices[skull][:, None] - neutral.hair.vertices(2)[None, ::9], axis=2)
    eyes = layout_of(avatar).vertex_part[skull] == 1
    after = np.linalg.norm(scene.vertices[skull][:, None] - scene.hair.vertices(2)[None, ::9], axis=2)
    np.testing.assert_allclose(before[~eyes], after[~eyes], atol=1e-6)


def test_the_strongest_deltas_are_drawn(avatar: Avatar) -> None:
    picture = np.zeros((4, 4, 3), np.float32)
    biases = [0.1, 0.9, -0.2, 0.5, 0.3, 0.7]
    deltas = [TextureDelta(str(bias), np.zeros(52, np.float32), bias, picture) for bias in biases]
    many = replace(avatar, texture_deltas=deltas)
    drawn = active_deltas(many, np.zeros(52))
    assert len(drawn) == MAX_DELTAS
    assert [index for index, _ in drawn] == [1, 3, 4, 5]
    assert active_deltas(replace(avatar, texture_deltas=deltas[2:3]), np.zeros(52)) == []


def test_normals_of_vertices_without_a_face_or_area_point_ahead() -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [5, 5, 5], [2, 0, 0], [3, 0, 0]], np.float32)
    faces = np.array([[0, 2, 1], [1, 4, 5]])
    normals = smooth_normals(vertices, faces, np.arange(6))
    np.testing.assert_allclose(normals[[0, 1, 2]], [[0, 1, 0]] * 3, atol=1e-6)
    np.testing.assert_allclose(normals[[3, 4, 5]], [[0, 0, 1]] * 3, atol=1e-6)
