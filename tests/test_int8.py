"""A field in 8 bits: the nearest steps, exact where they can be, with a small measured loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.field import FieldConfig, new_field
from avatar3d.field.bake import losses_in_bytes
from avatar3d.field.definition import box_of
from avatar3d.field.int8 import ByteField, Bytes, in_bytes
from tests.make_avatar import synthetic_avatar


def test_the_nearest_step_of_each_first_index() -> None:
    values = np.random.default_rng(0).normal(0, [[0.01], [3.0], [0.0]], (3, 500)).astype(np.float32)
    held = Bytes.of(values)
    assert held.codes.dtype == np.int8 and held.codes.min() >= -127
    assert np.abs(held.codes[:2]).max(1).tolist() == [127, 127]
    assert (np.abs(held.values() - values) <= held.step[:, None] / 2 * 1.001).all()
    assert not held.values()[2].any()
    np.testing.assert_allclose(held.step[:2], np.abs(values[:2]).max(1) / 127, rtol=3e-4)


def test_what_8_bits_hold_stays_as_it_is() -> None:
    once = in_bytes(new_field(0, FieldConfig(table_scale=0.5, output_scale=0.3)))
    twice = in_bytes(once)
    np.testing.assert_array_equal(once.tables, twice.tables)
    for first, second in zip(once.weights, twice.weights, strict=True):
        np.testing.assert_array_equal(first, second)


def test_tables_and_weights_alone_are_held_in_8_bits() -> None:
    params = new_field(0, FieldConfig(table_scale=0.5, output_scale=0.3))
    held = ByteField.of(params)
    assert held.tables.codes.shape == params.tables.shape and held.tables.step.shape == (len(params.resolutions),)
    assert [weight.step.shape for weight in held.weights] == [bias.shape for bias in params.biases]
    back = held.to_params()
    assert back.biases is params.biases and back.motion_projection is params.motion_projection
    assert not np.array_equal(back.tables, params.tables)


def test_the_loss_is_small_and_measured() -> None:
    avatar = synthetic_avatar()
    config = FieldConfig(levels=2, coarsest=4, finest=8, table_scale=0.5, output_scale=0.1)
    trained = dataclasses.replace(avatar, neural_field=new_field(0, config, *box_of(avatar)))
    skin_db, hair_db = losses_in_bytes(trained)
    assert 45 < skin_db < 80 and 40 < hair_db < 80
    exact = dataclasses.replace(trained, neural_field=in_bytes(trained.neural_field))
    assert losses_in_bytes(exact) == (99.0, 99.0)
    with pytest.raises(InputError, match="no neural field"):
        losses_in_bytes(dataclasses.replace(avatar, neural_field=None))
