"""What several parts lean on: bilinear and random samples, unit vectors, soft steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.geometry import random_points, sample_bilinear, smoothstep, unit


@settings(max_examples=50)
@given(x=st.floats(0.5, 6.5), y=st.floats(0.5, 4.5))
def test_bilinear_sampling_reproduces_a_plane(x, y):
    columns, rows = np.meshgrid(np.arange(7) + 0.5, np.arange(5) + 0.5)
    image = (2 * columns - 3 * rows).astype(np.float32)
    assert sample_bilinear(image, np.array([x, y])) == pytest.approx(2 * x - 3 * y, abs=1e-4)


def test_sampling_outside_takes_the_border():
    image = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert sample_bilinear(image, np.array([[-5.0, -5.0], [99.0, 99.0], [np.nan, np.nan]])).tolist() == [0, 5, 0]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_a_row_or_column_of_pixels_can_be_sampled(shape):
    image = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(*shape, 1)
    centres = np.argwhere(np.ones(shape))[:, ::-1] + 0.5
    assert sample_bilinear(image, centres)[:, 0].tolist() == image.ravel().tolist()


def test_unit_vectors_keep_their_direction_and_nothing_stays_nothing():
    vectors = np.array([[[3.0, 0.0, 4.0]], [[0.0, 0.0, 0.0]]], np.float32)
    assert unit(vectors) == pytest.approx(np.array([[[0.6, 0.0, 0.8]], [[0.0, 0.0, 0.0]]]))
    assert unit(vectors).dtype == np.float32


def test_a_soft_step_is_level_at_both_ends_and_falls_when_its_ends_are_swapped():
    values = np.array([-1.0, 0.2, 0.5, 0.8, 3.0])
    assert smoothstep(0.2, 0.8, values) == pytest.approx(np.array([0, 0, 0.5, 1, 1]))
    assert smoothstep(0.8, 0.2, values) == pytest.approx(np.array([1, 1, 0.5, 0, 0]))
    assert smoothstep(0.0, 1.0, np.array(1e-3)) < 1e-5


def test_random_points_lie_on_the_mesh_in_proportion_to_area_and_weight():
    square = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0]], np.float32)
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    face, barycentric = random_points(square, faces, np.array([3.0, 1.0]), 20_000, np.random.default_rng(5))
    assert barycentric.min() >= 0 and barycentric.sum(1) == pytest.approx(1, abs=1e-6)
    assert np.mean(face == 0) == pytest.approx(0.75, abs=0.02)
    middle = (square[faces[face]] * barycentric[..., None]).sum(1)[face == 0].mean(0)
    assert middle == pytest.approx(square[faces[0]].mean(0), abs=0.02)
