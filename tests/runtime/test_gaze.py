"""Eye contact: both eyes meet the point, stay within their range, keep a life of their own, and never jump."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from avatar3d.head.rig import gaze_angles, head_transform
from avatar3d.motion.code import ARKIT_INDEX, LOOK_MAX_RAD, MotionCode
from avatar3d.motion.csv import head_rotation
from avatar3d.motion.rotation import eye_rotation
from avatar3d.runtime.gaze import EASY_RAD, FASTEST_RAD_S, OWN_RAD, contact_angles, follow, wanted_angles, with_gaze

JOINTS = {
    "leftEye": np.array([0.031, 0.0, 0.0]), "rightEye": np.array([-0.031, 0.0, 0.0]), "neck": np.array([0.0, -0.12, -0.095]),
}  # fmt: skip
small = st.floats(-0.25, 0.25)


@given(small, small, st.tuples(small, small), st.floats(0.4, 3.0))
def test_each_eye_meets_the_point_whatever_the_head_does(yaw, pitch, aside, away):
    target = np.array([aside[0] * away * 0.5, aside[1] * away * 0.5, away])
    motion = MotionCode(rotation=head_rotation(yaw, pitch, 0.1), translation=np.array([0.02, -0.01, 0.01]))
    # Farther to the side contact fades: see the test of what is out of reach.
    assume(np.hypot(*contact_angles(motion, JOINTS, target).T).max() <= EASY_RAD)
    looking = with_gaze(motion, wanted_angles(motion, JOINTS, target))
    angles = gaze_angles(looking)
    rotation, shift = head_transform(looking, JOINTS)
    for name, (eye_yaw, eye_pitch) in zip(("leftEye", "rightEye"), angles, strict=True):
        centre = rotation @ JOINTS[name] + shift
        ray = rotation @ eye_rotation(eye_yaw, eye_pitch) @ [0, 0, 1]  # the line of sight
        to_target = (target - centre) / np.linalg.norm(target - centre)
        assert ray @ to_target == pytest.approx(1.0, abs=1e-6)


def test_near_points_make_the_eyes_converge():
    angles = wanted_angles(MotionCode(), JOINTS, np.array([0.0, 0.0, 0.3]))
    assert angles[0, 0] < -0.09 and angles[1, 0] > 0.09


@pytest.mark.parametrize("target", [(2.0, 0.0, 0.2), (0.0, 1.0, -1.0), (0.0, -3.0, 0.5)])
def test_a_point_out_of_reach_is_not_stared_at(target):
    own = MotionCode(gaze=np.full((2, 2), 0.1))
    np.testing.assert_allclose(wanted_angles(own, JOINTS, np.array(target)), gaze_angles(own), atol=1e-12)


@given(st.floats(-1.4, 1.4), st.floats(-1.4, 1.4))
def test_eyes_stay_within_their_range_and_the_wish_is_continuous(yaw, pitch):
    direction = eye_rotation(yaw, pitch) @ [0, 0, 1]
    here = wanted_angles(MotionCode(), JOINTS, direction)
    near = wanted_angles(MotionCode(), JOINTS, eye_rotation(yaw + 1e-4, pitch) @ [0, 0, 1])
    assert np.abs(here).max() <= EASY_RAD + OWN_RAD
    assert np.abs(near - here).max() < 2e-3


@given(st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(0.0, 0.1)), min_size=2, max_size=20))
def test_eyes_move_no_faster_than_eyes(path):
    gaze, time_s = None, 0.0
    for angle, seconds in path:
        before, time_s = gaze, time_s + seconds
        gaze = follow(gaze, np.full((2, 2), angle), time_s)
        if before is not None:
            assert np.abs(gaze.angles - before.angles).max() <= FASTEST_RAD_S * seconds + 1e-12
    for _ in range(60):
        time_s += 1 / 60
        gaze = follow(gaze, np.zeros((2, 2)), time_s)
    assert np.abs(gaze.angles).max() < 1e-3


def test_the_lids_follow_the_eyes():
    looking = with_gaze(MotionCode.from_expression({"eyeLookUpLeft": 1.0}), np.full((2, 2), -0.25))
    weight = 0.25 / LOOK_MAX_RAD
    for name in ("eyeLookDownLeft", "eyeLookDownRight", "eyeLookInLeft", "eyeLookOutRight"):
        assert looking.weights[ARKIT_INDEX[name]] == pytest.approx(weight)
    assert looking.weights[ARKIT_INDEX["eyeLookUpLeft"]] == 0
    np.testing.assert_allclose(gaze_angles(looking), -0.25)
