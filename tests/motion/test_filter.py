"""The One-Euro filter: rest is calm, motion is not held back, and it is a pure function."""

import numpy as np
import pytest

from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.csv import head_angles, head_rotation
from avatar3d.motion.filter import smooth, smoothed

JAW, BLINK = ARKIT_INDEX["jawOpen"], ARKIT_INDEX["eyeBlinkLeft"]


def codes(values: np.ndarray, place: int = JAW, fps: float = 60.0, yaw: np.ndarray | None = None) -> list[MotionCode]:
    """Codes whose one weight takes these values, and whose head turns by yaw."""
    result = []
    for index, value in enumerate(values):
        weights = np.zeros(52)
        weights[place] = value
        rotation = head_rotation(0.0 if yaw is None else float(yaw[index]), 0.0, 0.0)
        result.append(MotionCode(weights, rotation, time_ns=round(index * 1e9 / fps), sequence=index))
    return result


def test_noise_at_rest_is_cut():
    random = np.random.default_rng(1)
    noisy = codes(0.3 + random.normal(0, 0.02, 300), yaw=random.normal(0, 0.01, 300))
    calm = smoothed(noisy)[60:]
    assert np.std([code.weights[JAW] for code in calm]) < 0.6 * 0.02
    assert np.std([head_angles(code.rotation)[0] for code in calm]) < 0.6 * 0.01


def test_a_blink_is_let_through_in_time():
    blink = np.concatenate([np.zeros(30), np.linspace(0, 1, 5), np.ones(3), np.linspace(1, 0, 8), np.zeros(20)])
    out = np.array([code.weights[BLINK] for code in smoothed(codes(blink, BLINK))])
    assert out.max() > 0.95 and abs(int(out.argmax()) - 36) <= 2
    assert out[-10:].max() < 0.05


def test_a_turn_is_not_held_back_by_more_than_two_frames():
    yaw = np.linspace(0, 1.2, 60)  # 1.2 rad in a second
    out = np.array([head_angles(code.rotation)[0] for code in smoothed(codes(np.zeros(60), yaw=yaw))])
    assert (yaw[20:] - out[20:]).max() < 2 * 1.2 / 60


def test_a_still_face_stays_exactly_where_it_is():
    still = codes(np.full(20, 0.25), yaw=np.full(20, 0.4))
    for code in smoothed(still):
        np.testing.assert_allclose(code.weights, still[0].weights, atol=1e-15)
        np.testing.assert_allclose(code.rotation, still[0].rotation, atol=1e-12)


def test_the_same_state_and_code_give_the_same_answer():
    first, second = codes(np.array([0.1, 0.5]))
    state = smooth(None, first)
    once, twice = smooth(state, second), smooth(state, second)
    np.testing.assert_array_equal(once.smooth.weights, twice.smooth.weights)
    assert state.smooth is first


def test_old_codes_change_nothing_and_gaps_start_anew():
    first, second = codes(np.array([0.1, 0.5]))
    state = smooth(smooth(None, first), second)
    assert smooth(state, first) is state
    later = MotionCode(second.weights * 0, time_ns=second.time_ns + 2_000_000_000)
    assert smooth(state, later).smooth.weights[JAW] == 0
    assert smooth(state, later).smooth.time_ns == later.time_ns


@pytest.mark.parametrize("fps", [24, 30, 90, 120])
def test_any_frame_rate_reaches_the_end_of_a_step(fps):
    step = np.concatenate([np.zeros(fps // 2), np.ones(fps)])
    assert smoothed(codes(step, fps=fps))[-1].weights[JAW] > 0.98
