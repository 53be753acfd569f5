import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.enrolment.hair.grid import Harmonic, blur, cell_centres, enlarge, ray_angles, ray_directions, sample
from avatar3d.enrolment.hair.strands import flow_step, grain, smear, uniform


@given(st.floats(-3.1, 3.1), st.floats(0.02, 3.1))
def test_angles_of_a_direction_are_the_ones_it_was_made_from(theta, colatitude):
    back = ray_angles(3.0 * ray_directions(np.array(theta), np.array(colatitude)))
    assert np.allclose(back, (theta, colatitude), atol=1e-6)


def test_the_map_faces_front_and_left_where_it_says():
    forward, left = ray_directions(np.array([0.0, np.pi / 2]), np.array([1.6, 1.6]))
    assert forward[2] > 0.8 and abs(forward[0]) < 1e-9
    assert left[0] > 0.9


def test_sampling_at_cell_centres_returns_the_cells():
    values = np.random.default_rng(0).normal(size=(12, 20)).astype(np.float32)
    assert np.allclose(sample(values, *cell_centres(12, 20)), values, atol=1e-4)
    assert np.allclose(enlarge(values, 12, 20), values, atol=1e-4)


def test_enlarging_and_blurring_wrap_around_the_head():
    values = np.zeros((16, 32), np.float32)
    values[:, 0] = 1
    assert np.allclose(enlarge(values, 32, 64)[:, 0], enlarge(values, 32, 64)[:, 1])
    wide = blur(values, 2.0)
    assert np.allclose(wide[:, 1], wide[:, -1], atol=1e-5)


@pytest.mark.parametrize("sigma", [4.0, 9.0, 20.0])
def test_a_wide_blur_keeps_mean_and_spreads_like_a_gaussian(sigma):
    noise = np.random.default_rng(1).normal(size=(256, 512)).astype(np.float32)
    wide = blur(noise, sigma)
    assert abs(wide.mean() - noise.mean()) < 0.02
    assert wide.std() == pytest.approx(1 / (2 * np.sqrt(np.pi) * sigma), rel=0.35)


def test_harmonic_filling_keeps_what_is_known_and_falls_back_to_the_prior():
    weights = np.zeros((36, 64))
    weights[10:14, 20:30] = 1e4
    filled = Harmonic(36, 64).fill(np.full((36, 64), 3.0), weights, 0.05, 1.0)
    assert np.allclose(filled[11, 22:28], 3.0, atol=1e-2)
    assert filled[20, 60] == pytest.approx(1.0, abs=0.05)
    assert (filled > 0.99).all() and (filled < 3.01).all()


def test_strands_run_along_the_flow():
    flow = flow_step(np.zeros((144, 256)))
    strands = smear(grain(144, 256, 0.003, 0), flow, 4)[40:100]
    along = (strands[:-4] * strands[4:]).mean()
    across = (strands[:, :-4] * strands[:, 4:]).mean()
    assert along > 0.5 > 3 * abs(across)


def test_uniform_fields_spread_evenly_and_keep_order():
    noise = grain(144, 256, 0.004, 3)
    even = uniform(noise)
    assert np.allclose(np.quantile(even, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.03)
    order = np.argsort(noise.ravel())
    assert (np.diff(even.ravel()[order]) >= 0).all()
