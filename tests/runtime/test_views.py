"""Eye views as cameras: asymmetric frusta land where OpenXR says, and a cut view shows the same pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from avatar3d.errors import InputError
from avatar3d.motion.code import quaternion_matrix
from avatar3d.runtime.views import (
    CROP_MARGIN_PX,
    EyeView,
    angles_of,
    camera_of,
    cropped,
    equal_sized,
    eye_distance_m,
    gaze_point,
    tangents_of,
)

half = st.floats(0.2, 1.1)
views = st.builds(
    lambda q, p, left, right, up, down: EyeView(tuple(q), tuple(p), (-left, right, up, -down)),
    st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1).map(lambda q: np.array(q) / np.linalg.norm(q)),
    st.tuples(*[st.floats(-2, 2)] * 3),
    half, half, half, half,
)  # fmt: skip


@settings(max_examples=60)
@given(views)
def test_the_four_frustum_planes_are_the_picture_edges(view):
    camera = camera_of(view, 400, 300)
    rotation = quaternion_matrix(np.array(view.orientation))
    left, right, up, down = np.tan(view.angles)
    for (x, y), pixel in [((left, up), (0, 0)), ((right, up), (400, 0)), ((left, down), (0, 300)), ((right, down), (400, 300))]:
        point = np.array(view.position) + rotation @ (np.array([x, y, -1.0]) * 1.7)
        found, depth = camera.project(point)
        np.testing.assert_allclose(found, pixel, atol=1e-6)
        assert depth == pytest.approx(1.7)


def test_an_invented_asymmetric_pair_has_its_axes_off_the_middle():
    # Each eye sees 51° outward and 40° inward: the axis lies off the middle, toward the nose.
    outward, inward = np.radians(51), np.radians(40)
    left = camera_of(EyeView((0, 0, 0, 1), (-0.0315, 0, 0), (-outward, inward, 0.8, -0.9)), 1000, 900)
    right = camera_of(EyeView((0, 0, 0, 1), (0.0315, 0, 0), (-inward, outward, 0.8, -0.9)), 1000, 900)
    assert left.intrinsics[0, 2] > 500 > right.intrinsics[0, 2]
    assert left.intrinsics[0, 2] + right.intrinsics[0, 2] == pytest.approx(1000)
    # A far point straight ahead lies on both axes, a near one is crossed toward the nose: right in the left eye's picture.
    (near_left, _), (near_right, _) = (camera.project(np.array([0.0, 0.0, -0.5])) for camera in (left, right))
    assert near_left[0] - left.intrinsics[0, 2] == pytest.approx(right.intrinsics[0, 2] - near_right[0])
    assert near_left[0] > left.intrinsics[0, 2]
    assert near_left[1] == pytest.approx(near_right[1])


@settings(max_examples=60)
@given(views)
def test_angles_come_back(view):
    np.testing.assert_allclose(angles_of(camera_of(view, 640, 480)), view.angles, atol=1e-9)


@settings(max_examples=60)
@given(views, st.integers(0, 1000))
def test_a_cut_view_sees_all_points_on_the_same_pixel_grid(view, seed):
    camera = camera_of(view, 800, 700)
    rotation = quaternion_matrix(np.array(view.orientation))
    center = np.array(view.position) + rotation @ np.array([0.05, -0.02, -0.9])
    points = center + np.random.default_rng(seed).normal(0, 0.05, (50, 3))
    pixels, _ = camera.project(points)
    inside = ((pixels > 0) & (pixels < (800, 700))).all(axis=1)
    assume(inside.any())
    cut = cropped(camera, points)
    assert cut is not None and cut.width <= 800 and cut.height <= 700
    moved, _ = cut.project(points)
    shift = camera.intrinsics[:2, 2] - cut.intrinsics[:2, 2]
    np.testing.assert_allclose(moved + shift, pixels, atol=1e-6)
    assert (shift == np.round(shift)).all()
    assert (moved[inside] >= 0).all() and (moved[inside] <= (cut.width, cut.height)).all()
    full, part = np.array(angles_of(camera)), np.array(angles_of(cut))
    assert (part[[1, 2]] <= full[[1, 2]] + 1e-9).all() and (part[[0, 3]] >= full[[0, 3]] - 1e-9).all()


def test_a_cut_view_is_much_smaller_and_keeps_a_margin():
    camera = camera_of(EyeView((0, 0, 0, 1), (0, 0, 0), (-0.74, 0.74, 0.78, -0.78)), 896, 1007)
    points = np.array([[-0.1, -0.1, -0.8], [0.1, 0.15, -0.8]])
    cut = cropped(camera, points)
    assert cut.width * cut.height < 0.1 * camera.width * camera.height
    pixels, _ = cut.project(points)
    assert pixels.min() >= CROP_MARGIN_PX
    assert (pixels.max(axis=0) <= np.array([cut.width, cut.height]) - CROP_MARGIN_PX + 1).all()


def test_what_is_out_of_sight_is_not_drawn_and_what_is_too_near_is_not_cut():
    camera = camera_of(EyeView((0, 0, 0, 1), (0, 0, 0), (-0.7, 0.7, 0.7, -0.7)), 300, 300)
    assert cropped(camera, np.array([[5.0, 0.0, -1.0]])) is None
    assert cropped(camera, np.array([[0.0, 0.0, 1.0]])) is None
    assert cropped(camera, np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 0.1]])) is camera


def test_an_empty_frustum_is_refused():
    with pytest.raises(InputError):
        camera_of(EyeView((0, 0, 0, 1), (0, 0, 0), (0.5, 0.5, 0.5, -0.5)), 100, 100)


def test_the_distance_of_the_eyes_is_the_ipd():
    pair = [EyeView((0, 0, 0, 1), (side * 0.0315, 1.6, 0.2), (-1, 1, 1, -1)) for side in (-1.0, 1.0)]
    assert eye_distance_m(pair) == pytest.approx(0.063)


def test_parts_are_grown_to_one_size_and_stay_in_their_pictures():
    whole = [camera_of(EyeView((0, 0, 0, 1), (x, 0, 0), (-0.6, 0.8, 0.7, -0.7)), 400, 300) for x in (-0.03, 0.03)]
    # The left eye's part lies at the right edge of its picture, and must move to grow.
    parts = [
        cropped(camera, camera.unproject(np.array(pixels, float), np.array([1.0, 1.0])))
        for camera, pixels in zip(whole, ([(385, 100), (395, 120)], [(50, 100), (200, 260)]), strict=True)
    ]
    grown = equal_sized(parts, whole)
    assert parts[0].width < parts[1].width == grown[0].width == grown[1].width
    assert grown[0].height == grown[1].height == max(part.height for part in parts)
    for part, camera, picture in zip(parts, grown, whole, strict=True):
        shift = picture.intrinsics[:2, 2] - camera.intrinsics[:2, 2]
        before = picture.intrinsics[:2, 2] - part.intrinsics[:2, 2]
        assert (shift == np.rint(shift)).all() and (shift >= 0).all()
        assert (shift <= before).all() and (shift + (camera.width, camera.height) <= (picture.width, picture.height)).all()
        assert (shift + (camera.width, camera.height) >= before + (part.width, part.height)).all()
        np.testing.assert_array_equal(camera.center, picture.center)
    assert equal_sized([None, parts[1]], whole) == [None, parts[1]]


def test_both_eyes_meet_in_the_point_that_is_looked_at():
    turn = (0.0, np.sin(0.2), 0.0, np.cos(0.2))  # the head turned to its left, by 0.4 rad
    side = np.array([np.cos(0.4), 0.0, -np.sin(0.4)])
    pair = [EyeView(turn, tuple(sign * 0.0315 * side), (-0.7, 0.7, 0.7, -0.7)) for sign in (-1, 1)]
    up = (np.sin(0.05), 0.0, 0.0, np.cos(0.05))
    point = gaze_point([pair[0], EyeView(tuple(-np.array(turn)), pair[1].position, pair[1].angles)], up, 0.8)
    np.testing.assert_allclose(np.linalg.norm(point), 0.8, atol=1e-9)
    np.testing.assert_allclose(point / 0.8, [-np.sin(0.4) * np.cos(0.1), np.sin(0.1), -np.cos(0.4) * np.cos(0.1)], atol=1e-9)
    cameras = [camera_of(view, 100, 100) for view in pair]
    (left, above), (right, same) = (tangents_of(camera, point) for camera in cameras)
    assert above == pytest.approx(same) == pytest.approx(np.tan(0.1))
    # Each eye turns inward.
    assert left == pytest.approx(-right) and left == pytest.approx(0.0315 / (0.8 * np.cos(0.1)))
    assert tangents_of(cameras[0], np.array([0.0, 0.0, 5.0])) == (0.0, 0.0)
