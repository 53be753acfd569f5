"""Correspondences against a ray-cast sphere, whose surface points are known exactly."""

from __future__ import annotations

import dataclasses

import numpy as np
from analytic import cast, eye_picture
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.camera import Camera, stereo_pair
from avatar3d.evaluation.correspondence import correspond


def _pair(size=96, ipd_m=0.063, yaw=0.0, pitch=0.0, inward=0.0):
    return stereo_pair(Camera.orbit(yaw, pitch, 0.6, size, size, 0.26), ipd_m, inward)


@settings(max_examples=15)
@given(yaw=st.floats(-3, 3), pitch=st.floats(-0.8, 0.8), ipd_m=st.floats(0.02, 0.08), inward=st.floats(-0.05, 0.05))
def test_points_seen_by_both_eyes_are_the_same_surface_point(yaw, pitch, ipd_m, inward):
    left, right = (eye_picture(camera) for camera in _pair(64, ipd_m, yaw, pitch, inward))
    links = correspond(left, right)
    _, points, _ = cast(left.camera)
    expected, _ = right.camera.project(points)
    assert links.covisible.any()
    assert np.abs(links.right_px - expected)[links.covisible].max() < 0.01


def test_what_an_eye_cannot_see_is_not_covisible():
    left, right = (eye_picture(camera) for camera in _pair())
    links = correspond(left, right)
    hit, points, _ = cast(left.camera)
    normal = points / np.linalg.norm(points, axis=-1, keepdims=True)
    toward = right.camera.center - points
    facing = (normal * toward).sum(-1) / np.linalg.norm(toward, axis=-1)
    assert not links.covisible[hit & (facing < 0)].any()
    assert links.covisible[hit & (facing > 0.4)].all()
    assert (links.covered == hit).all()


def test_a_thing_in_front_hides_what_is_behind():
    left, right = (eye_picture(camera) for camera in _pair())
    hidden = right.depth.copy()
    hidden[:, : hidden.shape[1] // 2] = 0.45
    links = correspond(left, dataclasses.replace(right, depth=hidden))
    seen_x = links.right_px[links.covisible][:, 0]
    assert seen_x.min() > right.camera.width / 2 - 1 and len(seen_x) > 100


def test_half_transparent_pixels_do_not_count():
    left, right = (eye_picture(camera) for camera in _pair())
    assert not correspond(dataclasses.replace(left, alpha=left.alpha * 0.9), right).covered.any()
    assert not correspond(left, dataclasses.replace(right, alpha=right.alpha * 0.9)).covisible.any()


def test_disparity_is_focal_length_times_baseline_over_depth():
    left, right = (eye_picture(camera) for camera in _pair())
    links = correspond(left, right)
    depth = left.at_centres(left.depth)[links.covisible]
    expected = left.camera.intrinsics[0, 0] * 0.063 / depth
    np.testing.assert_allclose(links.disparity_px[links.covisible], expected, atol=1e-3)
