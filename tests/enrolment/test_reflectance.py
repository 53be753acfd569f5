"""The reflectance teacher: reciprocity of where highlights lie, bounds, and the light's split."""

from __future__ import annotations

import numpy as np

from avatar3d.enrolment.field.reflectance import (
    MAX_HIGHLIGHT,
    around_normals,
    hair_highlight,
    hair_strands,
    key_light,
    skin_highlight,
    view_sphere,
)
from avatar3d.rendering.scene import light_basis
from tests.make_avatar import synthetic_avatar

LIGHT = np.zeros((9, 3), np.float32)
LIGHT[0] = 0.8
LIGHT[2], LIGHT[3] = 0.2, 0.3


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def test_key_light_and_ambient_add_up_to_the_light() -> None:
    key = key_light(LIGHT)
    assert key.irradiance.min() > 0.4
    normals = _unit(np.random.default_rng(0).normal(size=(100, 3)))
    lamp = (0.25 + normals @ key.direction / 2)[:, None] * key.irradiance
    np.testing.assert_allclose(light_basis(normals) @ key.ambient + lamp, light_basis(normals) @ LIGHT, atol=1e-5)


def test_flat_light_has_no_lamp() -> None:
    flat = np.zeros((9, 3))
    flat[0] = 1
    assert not key_light(flat).irradiance.any()


def test_skin_shines_most_toward_the_mirrored_lamp_and_never_beyond_the_bound() -> None:
    key = key_light(LIGHT)
    normal = np.array([0.0, 0.0, 1.0], np.float32)
    toward = _unit(np.random.default_rng(1).normal((0, 0, 1.5), 1, (4000, 3))).astype(np.float32)
    toward = toward[toward[:, 2] > 0.5]
    light = skin_highlight(key, np.broadcast_to(normal, toward.shape), toward)
    assert light.min() >= 0 and light.max() <= MAX_HIGHLIGHT
    mirrored = 2 * (normal @ key.direction) * normal - key.direction
    # Fresnel pulls the brightest view off the mirror, toward grazing, by some degrees.
    assert toward[light.sum(1).argmax()] @ mirrored > np.cos(np.radians(20))


def test_hair_shines_across_its_strands() -> None:
    key = key_light(LIGHT)
    normal = key.direction[None]
    across = _unit(np.cross(normal, [[1.0, 0.0, 0.0]]))
    albedo = np.full((1, 3), 0.3, np.float32)
    at_lamp = hair_highlight(key, normal, across, albedo, normal)
    along = hair_highlight(key, normal, across, albedo, _unit(0.3 * normal + across))
    assert at_lamp.mean() > 3 * along.mean()
    dark = hair_highlight(key, normal, across, np.zeros((1, 3)), normal)
    assert (dark < at_lamp).all()


def test_strands_run_down_the_hair_and_along_its_surface() -> None:
    hair = synthetic_avatar().hair
    strands = hair_strands(hair)
    used = np.unique(hair.faces)
    np.testing.assert_allclose(np.linalg.norm(strands[used], axis=1), 1, atol=1e-4)
    sides = used[(hair.uv[used, 1] > 0.4) & (hair.uv[used, 1] < 0.9)]
    assert (strands[sides, 1] < 0.2).mean() > 0.9  # away from the crown is down


def test_view_directions_are_unit_and_cosine_weighted() -> None:
    sphere = view_sphere(2000, np.random.default_rng(0))
    normal = _unit(np.array([[0.3, -0.5, 0.8]], np.float32))
    toward = around_normals(normal, sphere)[0]
    np.testing.assert_allclose(np.linalg.norm(toward, axis=1), 1, atol=1e-5)
    assert abs((toward @ normal[0]).mean() - 2 / 3) < 0.01
    assert (toward @ normal[0]).min() > 0
