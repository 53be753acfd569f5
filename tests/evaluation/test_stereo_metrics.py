"""The stereo metrics against scenes whose answers are known: a sphere, a card, a wrong eye distance, a shifted picture."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from analytic import eye_picture

from avatar3d.camera import Camera, stereo_pair
from avatar3d.evaluation import controls
from avatar3d.evaluation.correspondence import correspond, pixel_centres
from avatar3d.evaluation.metrics import StereoSample, color_difference, measure_displacements, summarise
from avatar3d.geometry import sample_bilinear

SIZE = 320
IPD_M = 0.063
CENTER = Camera.orbit(0.3, 0.1, 0.6, SIZE, SIZE, 0.25)


@pytest.fixture(scope="module")
def sphere():
    """(left, right, links) of a consistent pair."""
    left, right = (eye_picture(camera) for camera in stereo_pair(CENTER, IPD_M))
    return left, right, correspond(left, right)


def _rmse(left, right, links):
    return np.sqrt((color_difference(left, right, links, links.covisible) ** 2).mean())


def test_a_consistent_scene_measures_within_the_goals(sphere):
    left, right, links = sphere
    assert _rmse(left, right, links) < 0.3
    found = measure_displacements(left, right, links, links.covisible)
    assert len(found.shift) > 150 and len(found.shift) >= 0.95 * found.candidates
    assert (np.percentile(np.abs(found.shift), 95, axis=0) < [0.1, 0.05]).all()


def test_a_card_is_off_by_what_geometry_says(sphere):
    left, right, links = sphere
    center = eye_picture(CENTER)
    card_m = 0.54
    flat = [controls.billboard(center, eye.camera, card_m) for eye in (left, right)]
    found = measure_displacements(*flat, links, links.covisible)
    focal = left.camera.intrinsics[0, 0]
    depth = focal * IPD_M / found.disparity
    expected = focal * IPD_M * (1 / depth - 1 / card_m)
    error = np.abs(found.shift[:, 0] - expected)
    # A patch spans depths; its match is their average, so single patches differ from the centre's value.
    assert np.median(error) < 0.3 and np.percentile(error, 90) < 1.0
    assert np.percentile(np.abs(found.shift[:, 0]), 95) > 3
    assert _rmse(*flat, links) > 5


def test_a_card_without_relief_would_be_consistent():
    center = eye_picture(CENTER)
    eyes = [controls.billboard(center, camera, 0.55) for camera in stereo_pair(CENTER, IPD_M)]
    links = correspond(*eyes)
    assert links.covisible.sum() > 5000
    assert _rmse(*eyes, links) < 1.0


@pytest.mark.parametrize("shift", [(0.0, 0.0), (0.3, -0.2), (2.5, 1.5), (-9.0, 0.5), (40.0, -3.0)])
def test_a_shifted_right_picture_measures_its_shift(sphere, shift):
    left, right, links = sphere
    fine = pixel_centres(*right.alpha.shape) - np.array(shift) * right.factor
    moved = dataclasses.replace(right, color=sample_bilinear(right.color, fine))
    inside = links.covisible & (links.right_px[..., 0] + shift[0] < SIZE - 8) & (links.right_px[..., 0] + shift[0] > 8)
    found = measure_displacements(left, moved, links, inside)
    assert len(found.shift) > 80
    np.testing.assert_allclose(np.median(found.shift, axis=0), shift, atol=0.01)
    assert np.percentile(np.abs(found.shift - shift), 80) < 0.1


def test_a_wrong_eye_distance_measures_as_such(sphere):
    left, right, links = sphere
    moved = dataclasses.replace(right.camera, translation=right.camera.translation - np.array([0.3 * IPD_M, 0.0, 0.0]))
    found = measure_displacements(left, eye_picture(moved), links, links.covisible)
    np.testing.assert_allclose(np.median(found.shift[:, 0] / found.disparity), -0.3, atol=0.01)
    assert np.median(np.abs(found.shift[:, 1])) < 0.05


def test_a_generator_for_each_eye_shows_vertical_disparity(sphere):
    left, right, links = sphere
    found = measure_displacements(controls.redrawn(left, 1), controls.redrawn(right, 2), links, links.covisible)
    assert np.percentile(np.abs(found.shift[:, 1]), 95) > 0.5
    assert _rmse(controls.redrawn(left, 1), controls.redrawn(right, 2), links) > 3


def test_the_redrawn_picture_repeats_with_its_seed(sphere):
    left = sphere[0]
    np.testing.assert_array_equal(controls.redrawn(left, 5).color, controls.redrawn(left, 5).color)
    assert np.abs(controls.redrawn(left, 5).color - controls.redrawn(left, 6).color).max() > 0.01


def test_a_colour_cast_measures_its_size(sphere):
    left, right, links = sphere
    brighter = dataclasses.replace(right, color=right.color + np.float32(4 / 255))
    assert _rmse(left, brighter, links) == pytest.approx(4.0, abs=0.05)


def test_pairs_are_pooled_by_pixels_and_patches(sphere):
    left, right, links = sphere
    found = measure_displacements(left, right, links, links.covisible)
    one = StereoSample(300.0, 1200.0, 100, 90, 120, found, found)
    other = StereoSample(0.0, 0.0, 300, 310, 380, found, None)
    figures = summarise([one, other])
    assert figures["rmse_255"] == 0.5 and figures["rmse_255_view_term"] == 1.0
    assert figures["covisible_fraction"] == 0.8
    assert figures["patches"] == 2 * found.candidates


def test_nothing_seen_measures_nothing(sphere):
    left, right, links = sphere
    found = measure_displacements(left, right, links, np.zeros_like(links.covisible))
    figures = summarise([StereoSample(0.0, 0.0, 0, 0, 0, found, None)])
    assert all(figures[key] is None for key in ("rmse_255", "vertical_disparity_px_p95", "covisible_fraction"))
