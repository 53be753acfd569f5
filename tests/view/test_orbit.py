"""The viewer before the window: mouse and wheel move it about the head, both eyes look through one screen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.choices import MAX_DISTANCE_M, MIN_DISTANCE_M
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.runtime.views import camera_of
from avatar3d.view.keys import FACE_S, FACES, MOVES, face_weights, shift_m, with_face
from avatar3d.view.orbit import HALF_HEIGHT, MAX_PITCH_RAD, TARGET_M, Orbit

orbits = st.builds(Orbit, st.floats(-3, 3), st.floats(-1.3, 1.3), st.floats(0.3, 3))


@given(orbits, st.floats(0.5, 3.0))
def test_the_target_lies_in_the_middle_and_on_the_screen_of_both_eyes(orbit, aspect):
    for views in (orbit.eyes(aspect), orbit.eyes(aspect, 0.063)):
        for view in views:
            camera = camera_of(view, 600, 400)
            pixel, depth = camera.project(np.array([TARGET_M]))
            np.testing.assert_allclose(pixel[0], [300, 200], atol=1e-6)
            assert depth[0] == pytest.approx(orbit.distance_m)
            # Upright: a point above the target is drawn above it.
            above, _ = camera.project(np.array([TARGET_M]) + orbit.axes[:, 1] * 0.05)
            assert above[0, 0] == pytest.approx(300) and above[0, 1] < 200


@given(orbits)
def test_the_eyes_stand_an_ipd_apart_the_left_one_on_the_left(orbit):
    left, right = orbit.eyes(1.0, 0.063)
    apart = np.subtract(right.position, left.position)
    np.testing.assert_allclose(apart, 0.063 * orbit.axes[:, 0], atol=1e-12)
    (mono,) = orbit.eyes(1.0)
    np.testing.assert_allclose(mono.position, np.mean([left.position, right.position], axis=0), atol=1e-12)
    assert np.tan(mono.angles[2]) == pytest.approx(HALF_HEIGHT)


def test_dragging_draws_the_head_along():
    orbit = Orbit().dragged(50, 0)
    # The viewer went to the left, so that the head turned to the right of the picture.
    assert orbit.eyes(1.0)[0].position[0] < 0
    assert Orbit().dragged(0, 50).eyes(1.0)[0].position[1] > TARGET_M[1]
    assert Orbit().dragged(0, 1e6).pitch_rad == MAX_PITCH_RAD


@given(st.floats(-200, 200))
def test_the_wheel_comes_nearer_within_bounds(notches):
    distance = Orbit().zoomed(notches).distance_m
    assert MIN_DISTANCE_M <= distance <= MAX_DISTANCE_M
    assert (distance < 0.8) == (notches > 1e-12) or abs(notches) < 1e-9


def test_a_held_key_brings_its_face_and_lets_it_go():
    weights = np.zeros(52)
    for _ in range(60):
        weights = face_weights(weights, {"2", "shift"}, 1 / 60)
    assert weights[ARKIT_INDEX["jawOpen"]] == pytest.approx(FACES["2"]["jawOpen"], abs=1e-3)
    first = face_weights(weights, (), FACE_S)
    assert first[ARKIT_INDEX["jawOpen"]] == pytest.approx(weights[ARKIT_INDEX["jawOpen"]] * np.exp(-1))


def test_the_stronger_of_face_and_motion_is_shown():
    motion = MotionCode.from_expression({"jawOpen": 0.5, "eyeBlinkLeft": 1.0})
    face = MotionCode.from_expression({"jawOpen": 0.9}).weights
    shown = with_face(motion, face)
    assert shown.weights[ARKIT_INDEX["jawOpen"]] == 0.9 and shown.weights[ARKIT_INDEX["eyeBlinkLeft"]] == 1.0
    assert with_face(motion, np.zeros(52)) is motion


def test_opposite_arrows_cancel():
    assert not shift_m({"left", "right", "1"}, 0.5).any()
    assert shift_m({"right"}, 0.5)[0] > 0 and len(MOVES) == 6
