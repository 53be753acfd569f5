"""Texture-space rasterising and the bake: coverage, gutters, exact cases and the measured loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.field import FieldConfig, evaluate, new_field
from avatar3d.field.bake import SKIN_SIZE, bake, losses, shells_of
from avatar3d.field.bake_motion import random_codes
from avatar3d.field.definition import box_of
from avatar3d.field.projection import FieldAt, FieldBetween, cosine_directions
from avatar3d.field.shells import sample_texture, uv_raster
from avatar3d.motion.code import MotionCode
from tests.make_avatar import synthetic_avatar

QUAD_UV = np.array([[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]], np.float32)
QUAD_FACES = np.array([[0, 1, 2], [0, 2, 3]])


def test_raster_covers_a_quad_exactly_and_a_gutter_around_it() -> None:
    raster = uv_raster(QUAD_FACES, QUAD_UV, (64, 64), gutter=3)
    covered = raster.scatter(raster.covered)
    assert covered[16:48, 16:48].all() and covered.sum() == 32 * 32
    listed = raster.scatter(np.ones(len(raster.texel), bool))
    assert listed[13, 32] and not listed[12, 32]
    uv = raster.interpolate(QUAD_FACES, QUAD_UV)
    rows, columns = np.divmod(raster.texel[raster.covered], 64)
    np.testing.assert_allclose(uv[raster.covered] * 64, np.stack([columns + 0.5, rows + 0.5], 1), atol=1e-4)


def test_bilinear_sampling_on_the_island_never_reads_an_empty_texel() -> None:
    raster = uv_raster(QUAD_FACES, QUAD_UV, (50, 70))
    texture = raster.scatter(np.ones((len(raster.texel), 1), np.float32))
    rng = np.random.default_rng(0)
    assert sample_texture(texture, rng.uniform(0.25, 0.75, (5000, 2))).min() > 0.9999


def test_an_empty_atlas_is_empty() -> None:
    raster = uv_raster(np.zeros((0, 3), int), QUAD_UV, (8, 8))
    assert not len(raster.texel) and not raster.scatter(np.zeros((0, 2), np.float32)).any()


def test_cosine_directions_are_unit_and_cosine_weighted() -> None:
    d = cosine_directions(4000)
    np.testing.assert_allclose(np.linalg.norm(d, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(d.mean(0), [0, 0, 2 / 3], atol=5e-3)  # ∫ cos²/π over the hemisphere
    assert d[:, 2].min() > 0


def test_the_field_at_places_is_the_field() -> None:
    params = new_field(0, FieldConfig(table_scale=0.5, output_scale=0.3))
    params.weights[0][:, -4:] = 0.3
    rng = np.random.default_rng(0)
    positions = rng.uniform(-0.1, 0.05, (300, 3)).astype(np.float32)
    weights = random_codes(1, rng)[0]
    directions = cosine_directions(5)
    seen = [evaluate(params, positions, np.tile(d, (300, 1)), weights) for d in directions]
    expected = np.mean([np.concatenate([residual, alpha[:, None]], 1) for residual, alpha in seen], axis=0)
    np.testing.assert_allclose(FieldAt(params, positions).mean(weights @ params.motion_projection, 5), expected, atol=2e-6)


def test_between_corners_is_what_they_leave_out() -> None:
    params = new_field(0, FieldConfig(table_scale=0.5, output_scale=0.3))
    corners = np.random.default_rng(0).uniform(-0.1, 0.05, (3, 3)).astype(np.float32)
    barycentric = np.array([[1, 0, 0], [0, 0, 1], [0.2, 0.3, 0.5]], np.float32)
    places, vertices = FieldAt(params, barycentric @ corners), FieldAt(params, corners)
    faces = np.tile([0, 1, 2], (3, 1))
    left = FieldBetween(places, vertices, faces, barycentric).mean(np.zeros(4), 8)
    np.testing.assert_allclose(left[:2, :3], 0, atol=1e-6)  # nothing at a corner
    whole, mixed = places.mean(np.zeros(4), 8)[2], barycentric[2] @ vertices.mean(np.zeros(4), 8)
    np.testing.assert_allclose(left[2], [*(whole - mixed)[:3], whole[3]], atol=1e-6)


@pytest.fixture(scope="module")
def smooth_avatar():
    """A synthetic avatar with a field whose grid varies slowly."""
    avatar = synthetic_avatar()
    low, high = box_of(avatar)
    config = FieldConfig(levels=2, coarsest=4, finest=8, table_scale=0.5, output_scale=0.03)
    return dataclasses.replace(avatar, neural_field=new_field(0, config, low, high), baked=None)


def test_bake_of_a_smooth_field_loses_little(smooth_avatar) -> None:
    baked = bake(smooth_avatar)
    assert baked.psnr_skin_db > 40 and baked.psnr_hair_db > 34
    assert np.abs(baked.skin_q0).max() > 0.01
    assert len(baked.hair_q0) == len(smooth_avatar.hair.levels)
    again = bake(smooth_avatar)
    assert (again.skin_q0 == baked.skin_q0).all() and again.psnr_hair_db == baked.psnr_hair_db


def test_the_textures_hold_what_the_vertices_leave_out(smooth_avatar) -> None:
    baked = bake(smooth_avatar)
    moved = dataclasses.replace(baked, skin_q0=baked.skin_q0 + 0.02, hair_q0=baked.hair_q0 + 0.02)
    skin_db, hair_db = losses(smooth_avatar, moved, [baked.weights], 4096, np.random.default_rng(1))
    assert skin_db < baked.psnr_skin_db - 5 and hair_db < baked.psnr_hair_db - 3


def test_a_field_that_hears_nothing_of_the_motion_code_has_no_directions(smooth_avatar) -> None:
    assert not smooth_avatar.neural_field.weights[0][:, -4:].any()
    baked = bake(smooth_avatar)
    assert baked.motion == [] and len(baked.amounts(np.ones(52))) == 0
    assert baked.psnr_moved_skin_db == pytest.approx(baked.psnr_skin_db, abs=1)


def _moved_by(avatar, strength: float):
    """The avatar with a field finer than its mesh that takes the jaw's group in `strength` times."""
    low, high = box_of(avatar)
    field = new_field(0, FieldConfig(levels=2, coarsest=24, finest=48, table_scale=0.5, output_scale=0.15), low, high)
    field.weights[0][:, -4] = strength * np.where(np.arange(len(field.biases[0])) % 2, 1, -0.5)
    return dataclasses.replace(avatar, neural_field=field)


def test_what_moves_by_less_than_half_a_step_of_eight_bits_is_left_out(smooth_avatar) -> None:
    assert bake(_moved_by(smooth_avatar, 3e-4)).motion == []


@pytest.fixture(scope="module")
def speaking_avatar(smooth_avatar):
    """One whose field depends on the jaw's group alone, and on the place by more than its vertices tell."""
    return _moved_by(smooth_avatar, 1.0)


def test_a_direction_follows_a_field_that_hears_one_group(speaking_avatar) -> None:
    baked = bake(speaking_avatar)
    group = speaking_avatar.neural_field.motion_projection[:, 0]
    assert np.corrcoef(baked.motion[0].row, group)[0, 1] ** 2 > 0.9
    still = dataclasses.replace(baked, motion=[])
    codes = [MotionCode.from_expression({"jawOpen": value}).weights for value in (0.7, 1.0)]
    followed, missed = (losses(speaking_avatar, each, codes, 4096, np.random.default_rng(2)) for each in (baked, still))
    assert followed[0] > missed[0] + 1 and followed[1] > missed[1] + 1
    # Most of the way to what a bake for that code alone has beside the field at the vertices.
    params, skin = speaking_avatar.neural_field, shells_of(speaking_avatar)[0]
    raster = uv_raster(skin.faces, skin.uv, SKIN_SIZE)
    places = FieldAt(params, raster.interpolate(skin.faces, skin.vertices))
    between = FieldBetween(places, FieldAt(params, skin.vertices), skin.faces[raster.triangle], raster.barycentric)
    own, rest = (raster.scatter(between.mean(code @ params.motion_projection, 12)[:, :3]) for code in (codes[1], baked.weights))
    amounts = zip(baked.amounts(codes[1]), baked.motion, strict=True)
    change = sum(amount * step.skin for amount, step in amounts if step.skin is not None)
    assert np.square(own - rest - change).mean() < 0.3 * np.square(own - rest).mean()


def test_amounts_stay_within_what_was_seen(speaking_avatar) -> None:
    baked = bake(speaking_avatar)
    assert baked.motion and not baked.amounts(baked.weights).any()
    for amount, direction in zip(baked.amounts(np.full(52, 50)), baked.motion, strict=True):
        assert amount in (np.float32(direction.low), np.float32(direction.high))


def test_bake_without_a_field_says_so(smooth_avatar) -> None:
    with pytest.raises(InputError, match="no neural field to bake"):
        bake(dataclasses.replace(smooth_avatar, neural_field=None))


def test_bake_without_hair_has_no_hair(smooth_avatar) -> None:
    assert bake(dataclasses.replace(smooth_avatar, hair=None)).hair_q0 is None
