"""Placement: life-size, upright and face to face wherever the viewer looks, and gone before it is inside the viewer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.errors import InputError
from avatar3d.motion.csv import head_rotation
from avatar3d.runtime.placement import (
    FADE_END_M,
    FADE_START_M,
    MAX_HEADS,
    Placement,
    avatar_ipd_m,
    carried,
    in_front_of,
    nearest_m,
    presence,
    side_by_side,
    turned,
)
from avatar3d.runtime.views import EyeView, camera_of
from tests.make_avatar import EYE_X_M, synthetic_avatar

ANGLES = (-0.8, 0.8, 0.8, -0.8)


def _pair(orientation, middle):
    from avatar3d.motion.code import quaternion_matrix

    right = quaternion_matrix(orientation)[:, 0]
    return [EyeView(tuple(orientation), tuple(np.asarray(middle) + side * 0.0315 * right), ANGLES) for side in (-1, 1)]


@settings(max_examples=80)
@given(
    st.floats(-3.1, 3.1), st.floats(-1.2, 1.2), st.floats(-0.5, 0.5), st.tuples(*[st.floats(-2, 2)] * 3), st.floats(0.3, 3.0)
)
def test_the_head_stands_upright_before_the_viewer_and_looks_back(yaw, pitch, roll, middle, distance):
    placed = in_front_of(_pair(head_rotation(yaw, pitch, roll), middle), distance)
    offset = placed.translation - np.array(middle)
    assert np.linalg.norm(offset) == pytest.approx(distance)
    assert offset[1] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(placed.rotation @ [0, 1, 0], [0, 1, 0], atol=1e-9)
    # The face's own forward points at the viewer.
    np.testing.assert_allclose(placed.rotation @ [0, 0, 1], -offset / distance, atol=1e-6)
    np.testing.assert_allclose(placed.rotation @ placed.rotation.T, np.eye(3), atol=1e-9)


def test_looking_straight_down_the_heading_is_that_of_the_crown():
    placed = in_front_of(_pair(head_rotation(0.0, -np.pi / 2, 0.0), (0, 1.6, 0)), 1.0)
    np.testing.assert_allclose(placed.rotation @ [0, 0, 1], -(placed.translation - [0, 1.6, 0]), atol=1e-6)
    assert np.isfinite(placed.rotation).all()


def test_the_avatar_is_seen_life_size_at_the_viewers_eye_height():
    views = _pair(np.array([0, 0, 0, 1.0]), (0.3, 1.6, 0.5))
    placed = in_front_of(views, 0.8, height_m=0.1)
    np.testing.assert_allclose(placed.translation, [0.3, 1.7, -0.3])
    eyes = [placed.camera(camera_of(view, 800, 800)) for view in views]
    # An eyeball of the head frame, seen from the room: 0.8 m away, 10 cm up.
    for camera, side in zip(eyes, (-1, 1), strict=True):
        np.testing.assert_allclose(camera.center, [side * 0.0315, -0.1, 0.8], atol=1e-9)
    pixels, _depth = eyes[0].project(np.array([[EYE_X_M, 0, 0], [-EYE_X_M, 0, 0]]))
    focal = eyes[0].intrinsics[0, 0]
    assert abs(pixels[0, 0] - pixels[1, 0]) == pytest.approx(2 * EYE_X_M / 0.8 * focal)


@pytest.mark.parametrize("distance", [0.0, 0.1, 11.0, -1.0, float("nan")])
def test_a_distance_that_makes_no_sense_is_refused(distance):
    with pytest.raises(InputError, match="distance"):
        in_front_of(_pair(np.array([0, 0, 0, 1.0]), (0, 0, 0)), distance)


def test_the_head_fades_before_it_touches_the_viewer():
    assert presence(1.0) == 1 and presence(FADE_START_M) == 1
    assert presence(FADE_END_M) == 0 and presence(0.0) == 0
    steps = [presence(distance) for distance in np.linspace(0, 0.3, 50)]
    assert steps == sorted(steps)
    cameras = [camera_of(EyeView((0, 0, 0, 1), (0, 0, 0.5), ANGLES), 10, 10)]
    assert nearest_m(np.zeros((8, 3), np.float32) + np.float32([0, 0, 0.2]), cameras) == pytest.approx(0.3)


def test_the_avatars_own_ipd_is_told():
    assert avatar_ipd_m(synthetic_avatar()) == pytest.approx(2 * EYE_X_M, abs=1e-3)


@settings(max_examples=40)
@given(st.integers(1, MAX_HEADS), st.floats(0.3, 3.0))
def test_heads_side_by_side_all_face_the_viewer_and_none_stands_in_another(count, distance):
    places = side_by_side(count, distance)
    for place in places:
        np.testing.assert_allclose(place.inside(np.array([0.0, 0.0, distance])), [0, 0, distance], atol=1e-9)
    lefts = [place.translation[0] for place in places]
    assert lefts == sorted(lefts) and sum(lefts) == pytest.approx(0, abs=1e-9)
    gaps = [np.linalg.norm(a.translation - b.translation) for a, b in itertools.pairwise(places)]
    assert all(gap > min(0.4, 0.5 * distance) for gap in gaps)


def test_one_head_stands_in_the_origin_and_too_many_are_refused():
    (place,) = side_by_side(1, 0.8)
    np.testing.assert_array_equal(place.rotation, np.eye(3))
    np.testing.assert_array_equal(place.translation, np.zeros(3))
    with pytest.raises(InputError, match="at most"):
        side_by_side(MAX_HEADS + 1, 0.8)


@given(st.floats(-3, 3), st.floats(-1, 1), st.tuples(*[st.floats(-1, 1)] * 3))
def test_a_head_that_is_carried_follows_the_hand_and_stays_upright(yaw, tilt, way):
    from avatar3d.motion.code import quaternion_matrix

    start = Placement(turned(0.4), np.array([0.1, 1.5, -0.8]))
    hand = Placement(quaternion_matrix(head_rotation(0.3, 0.2, -0.4)), np.array([0.2, 1.2, -0.4]))
    same = carried(start, hand, hand)
    np.testing.assert_allclose(same.translation, start.translation, atol=1e-12)
    np.testing.assert_allclose(same.rotation, start.rotation, atol=1e-12)
    moved = Placement(turned(yaw) @ hand.rotation, hand.translation + way)
    placed = carried(start, hand, moved)
    # A turn about the vertical is followed exactly: the head keeps its place in the hand.
    np.testing.assert_allclose(moved.inside(placed.translation), hand.inside(start.translation), atol=1e-9)
    np.testing.assert_allclose(placed.rotation, turned(yaw) @ start.rotation, atol=1e-9)
    tilted = Placement(moved.rotation @ quaternion_matrix(head_rotation(0.0, tilt, 0.0)), moved.translation)
    np.testing.assert_allclose(carried(start, hand, tilted).rotation[1], [0, 1, 0], atol=1e-9)


@given(st.tuples(*[st.floats(-2, 2)] * 3))
def test_inside_and_outside_undo_each_other(point):
    place = Placement(turned(0.7), np.array([0.1, -0.2, 0.3]))
    np.testing.assert_allclose(place.outside(place.inside(np.array(point))), point, atol=1e-12)
