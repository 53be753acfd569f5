"""The wearer as a source: the head turns and goes as theirs does, straight ahead is where they looked first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.motion.code import MotionCode, look_angles, quaternion_matrix
from avatar3d.motion.csv import head_rotation
from avatar3d.runtime.idle import idle
from avatar3d.runtime.views import EyeView
from avatar3d.xr.wearer import Wearer

ANGLES = (-0.7, 0.7, 0.7, -0.7)


def _views(yaw=0.0, pitch=0.0, roll=0.0, place=(0.0, 0.0, 0.0)):
    """Eyes of a head that turned by angles of OpenXR's axes: +yaw to the wearer's left, +pitch up."""
    turn = head_rotation(yaw, -pitch, -roll)
    orientation = np.array(turn)
    right = quaternion_matrix(orientation)[:, 0]
    return [EyeView(tuple(orientation), tuple(np.asarray(place) + side * 0.03 * right), ANGLES) for side in (-1, 1)]


@given(st.floats(-3, 3), st.tuples(*[st.floats(-2, 2)] * 3))
def test_where_they_look_first_is_straight_ahead(yaw, place):
    wearer = Wearer(clock_ns=lambda: 7)
    wearer.tell(_views(yaw, place=place), None)
    code = wearer.read(0)
    np.testing.assert_allclose(quaternion_matrix(code.rotation), np.eye(3), atol=1e-7)
    np.testing.assert_allclose(code.translation, 0, atol=1e-9)
    assert code.time_ns == 7 and code.confidence[4] == 1


@pytest.mark.parametrize("heading", [0.0, 1.2])
def test_a_turn_to_their_left_is_a_turn_to_the_heads_left(heading):
    wearer = Wearer()
    wearer.tell(_views(heading), None)
    wearer.tell(_views(heading + 0.3), None)
    forward = quaternion_matrix(wearer.read(0).rotation) @ [0, 0, 1]
    assert forward[0] == pytest.approx(np.sin(0.3)) and forward[1] == pytest.approx(0, abs=1e-9)


def test_looking_up_and_stepping_ahead_are_the_heads_own():
    wearer = Wearer()
    wearer.tell(_views(0.7), None)
    ahead = np.array([-np.sin(0.7), 0.0, -np.cos(0.7)])
    wearer.tell(_views(0.7, pitch=0.2, place=0.1 * ahead), None)
    code = wearer.read(0)
    assert (quaternion_matrix(code.rotation) @ [0, 0, 1])[1] == pytest.approx(np.sin(0.2))
    np.testing.assert_allclose(code.translation, [0, 0, 0.1], atol=1e-9)


def test_the_face_is_theirs_where_it_is_known_and_idles_where_not():
    wearer = Wearer(clock_ns=lambda: 3_000_000_000)
    face = MotionCode.from_expression({"jawOpen": 0.5})
    wearer.tell(_views(), face)
    np.testing.assert_array_equal(wearer.read(0).weights, face.weights)
    wearer.tell(_views(), None)
    assert wearer.read(0).gaze.any()
    wearer.close()
    assert wearer.ended


def test_recentering_takes_a_new_straight_ahead():
    wearer = Wearer()
    wearer.tell(_views(), None)
    wearer.recenter()
    wearer.tell(_views(0.9), None)
    np.testing.assert_allclose(quaternion_matrix(wearer.read(0).rotation), np.eye(3), atol=1e-7)


def test_a_gaze_without_a_face_moves_the_eyes_of_the_idling_face():
    wearer = Wearer(clock_ns=lambda: 3_000_000_000)
    left = [0.0, float(np.sin(0.1)), 0.0, float(np.cos(0.1))]  # 0.2 rad about +Y: to the wearer's left, our +X
    wearer.tell(_views(), None, left)
    code = wearer.read(0)
    np.testing.assert_allclose(code.gaze + look_angles(code.weights), [[0.2, 0]] * 2, atol=1e-9)
    wearer.tell(_views(), None, [0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(wearer.read(0).gaze, idle(3.0).gaze)  # a gaze that is none is left out
