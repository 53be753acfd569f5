"""Texture-space rasterising and the bake: coverage, gutters, exact cases and the measured loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.field import FieldConfig, evaluate, new_field
from avatar3d.field.bake import bake, cosine_directions, project
from avatar3d.field.definition import box_of
from avatar3d.field.shells import sample_texture, uv_raster
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


def test_projection_is_exact_for_a_field_that_does_not_depend_on_the_view() -> None:
    params = new_field(0, FieldConfig(table_scale=0.5, output_scale=0.3))
    params.weights[0][:, 16:24] = 0
    positions = np.random.default_rng(0).uniform(-0.1, 0.05, (300, 3)).astype(np.float32)
    q0, q1 = project(params, positions, np.zeros(52), 16)
    residual, alpha = evaluate(params, positions, np.tile([[0.6, 0.0, 0.8]], (300, 1)), np.zeros(52))
    np.testing.assert_allclose(q0, np.concatenate([residual, alpha[:, None]], 1), atol=2e-5)
    np.testing.assert_allclose(q1, 0, atol=2e-5)


def test_projection_finds_a_linear_view_term() -> None:
    params = new_field(0)
    params.tables[:] = 0
    params.weights[0][:] = 0
    params.weights[0][0, 16] = 0.04  # harmonic x
    params.biases[0][0] = 1.0
    params.weights[1][:3, 0] = 1.0
    params.biases[1][:3] = -1.0  # output 0.04·x, small enough for the soft bound to be nearly linear
    q0, q1 = project(params, np.zeros((1, 3), np.float32), np.zeros(52), 64)
    assert q1[0] == pytest.approx([0.25 * 0.04, 0, 0], abs=5e-4)
    assert np.abs(q0).max() < 5e-4


@pytest.fixture(scope="module")
def smooth_avatar():
    """A synthetic avatar with a field whose grid varies slowly."""
    avatar = synthetic_avatar()
    low, high = box_of(avatar)
    config = FieldConfig(levels=2, coarsest=4, finest=8, table_scale=0.5, output_scale=0.03)
    return dataclasses.replace(avatar, neural_field=new_field(0, config, low, high), baked=None)


def test_bake_of_a_smooth_field_loses_little(smooth_avatar) -> None:
    baked = bake(smooth_avatar)
    assert baked.psnr_skin_db > 38 and baked.psnr_hair_db > 28
    assert np.abs(baked.skin_q0).max() > 0.01
    assert baked.hair_q0.shape[0] == len(smooth_avatar.hair.levels)
    again = bake(smooth_avatar)
    assert (again.skin_q0 == baked.skin_q0).all() and again.psnr_hair_db == baked.psnr_hair_db


def test_bake_follows_the_expression_it_is_asked_for(smooth_avatar) -> None:
    smooth_avatar.neural_field.weights[0][:, -4:] = 0.5
    weights = np.zeros(52)
    weights[17] = 1.0
    assert np.abs(bake(smooth_avatar, weights).skin_q0 - bake(smooth_avatar).skin_q0).max() > 1e-3


def test_bake_without_a_field_says_so(smooth_avatar) -> None:
    with pytest.raises(InputError, match="no neural field to bake"):
        bake(dataclasses.replace(smooth_avatar, neural_field=None))


def test_bake_without_hair_has_no_hair_textures(smooth_avatar) -> None:
    baked = bake(dataclasses.replace(smooth_avatar, hair=None))
    assert baked.hair_q0 is None and baked.hair_q1 is None
