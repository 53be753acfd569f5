"""Prediction: better than holding where motion can be foretold, no worse where it cannot, never past a closure."""

import numpy as np
import pytest

from avatar3d.motion.code import ARKIT_INDEX, CONFIDENCE_REGIONS, MotionCode
from avatar3d.motion.csv import head_angles, head_rotation
from avatar3d.motion.filter import smoothed
from avatar3d.motion.predict import CHANNEL_GROUPS, CHANNELS, MAX_AHEAD_S, observe, predict
from avatar3d.motion.rotation import between

AHEAD_NS = 50_000_000
JAW, BLINK, BROW = (ARKIT_INDEX[name] for name in ("jawOpen", "eyeBlinkLeft", "browInnerUp"))


def nodding(count: int = 400, fps: float = 60.0, noise: float = 0.0) -> list[MotionCode]:
    """A head that turns and nods, with noise on the brow only."""
    random = np.random.default_rng(2)
    result = []
    for index in range(count):
        t = index / fps
        weights = np.zeros(52)
        weights[BROW] = np.clip(0.5 + random.normal(0, noise), 0, 1)
        weights[JAW] = 0.4 + 0.3 * np.sin(2 * np.pi * 0.8 * t)
        rotation = head_rotation(0.4 * np.sin(2 * np.pi * 0.5 * t), 0.2 * np.sin(2 * np.pi * 0.7 * t), 0.0)
        result.append(MotionCode(weights, rotation, np.array([0.02 * np.sin(t), 0, 0]), time_ns=round(t * 1e9), sequence=index))
    return result


def states_of(codes):
    states, state = [], None
    for code in codes:
        state = observe(state, code)
        states.append(state)
    return states


def yaw_errors(codes, method=None):
    frames = round(0.05 * 60)
    states = states_of(codes)
    return np.array([
        abs(head_angles(predict(states[k], codes[k + frames].time_ns, method).code.rotation)[0]
            - head_angles(codes[k + frames].rotation)[0])
        for k in range(60, len(codes) - frames)
    ])  # fmt: skip


def test_a_smooth_turn_is_foretold():
    codes = nodding()
    held, told = yaw_errors(codes, lambda state, ahead: np.zeros(CHANNELS)), yaw_errors(codes)
    assert told.mean() < 0.45 * held.mean()
    assert (told < held).mean() > 0.85


def test_a_face_that_stands_still_is_not_moved():
    still = [MotionCode(np.full(52, 0.3), head_rotation(0.3, 0.1, 0), time_ns=k * 16_000_000) for k in range(40)]
    guess = predict(states_of(still)[-1], still[-1].time_ns + AHEAD_NS).code
    np.testing.assert_allclose(guess.weights, 0.3, atol=1e-9)
    np.testing.assert_allclose(guess.rotation, still[-1].rotation, atol=1e-9)


def test_every_guess_is_a_valid_code_at_the_asked_time():
    for state in states_of(nodding(40, noise=0.2))[::7]:
        when = state.codes[-1].time_ns + AHEAD_NS
        guess = predict(state, when)
        assert guess.code.time_ns == when and guess.code.weights.min() >= 0 and guess.code.weights.max() <= 1
        assert np.linalg.norm(guess.code.rotation) == pytest.approx(1)
        assert guess.confidence.min() >= 0 and guess.confidence.max() <= 1


@pytest.mark.parametrize("closing_frames", [3, 5, 9])
def test_a_closing_lid_never_overshoots(closing_frames):
    peak = 0.8  # a lid that stops here must not be foretold further
    down, up = np.linspace(0, peak, closing_frames), np.linspace(peak, 0, 9)
    blink = np.concatenate([np.zeros(40), down, np.full(4, peak), up, np.zeros(9)])
    codes = []
    for index, value in enumerate(np.tile(blink, 3)):
        weights = np.zeros(52)
        weights[BLINK] = value
        codes.append(MotionCode(weights, time_ns=round(index * 1e9 / 60)))
    for state in states_of(codes):
        guess = predict(state, state.codes[-1].time_ns + AHEAD_NS).code.weights[BLINK]
        seen = [code.weights[BLINK] for code in state.codes]
        assert min(seen) - 1e-12 <= guess <= max(seen) + 1e-12


def test_noise_teaches_the_predictor_to_hold_that_channel():
    state = states_of(nodding(noise=0.1))[-1]
    learned = dict(zip(CHANNEL_GROUPS, state.gains, strict=True))
    assert learned["brow"][:2].max() < 0.1
    assert learned["rotation"][:2].sum() > 0.5
    guess = predict(state, state.codes[-1].time_ns + AHEAD_NS)
    sure = dict(zip(CONFIDENCE_REGIONS, guess.confidence, strict=True))
    assert sure["head"] > 0.6 and sure["brow"] < sure["head"]


def test_predictions_learn_to_make_up_for_a_filters_lag():
    codes = nodding(noise=0.02)
    calm, frames = smoothed(codes), 3

    def errors(measured):
        state, found = None, []
        for k, (code, raw) in enumerate(zip(calm, measured, strict=True)):
            state = observe(state, code, raw)
            if 60 <= k < len(codes) - frames:
                guess = predict(state, codes[k + frames].time_ns).code
                found.append(np.linalg.norm(between(codes[k + frames].rotation, guess.rotation)))
        return np.array(found)

    aware, unaware = errors(codes), errors(calm)
    assert aware.mean() < 0.7 * unaware.mean()
    held = np.array([
        np.linalg.norm(between(codes[k + frames].rotation, codes[k].rotation)) for k in range(60, len(codes) - frames)
    ])  # fmt: skip
    assert (aware < held).mean() > 0.8  # better than the last code as it was measured


def test_a_lid_behind_the_filter_is_not_foretold_beyond_what_was_seen():
    lid = np.tile(np.concatenate([np.zeros(30), np.linspace(0, 0.8, 4), np.linspace(0.8, 0, 8)]), 3)
    codes = [MotionCode(np.eye(52)[BLINK] * value, time_ns=round(k * 1e9 / 60)) for k, value in enumerate(lid)]
    state = None
    for code, raw in zip(smoothed(codes), codes, strict=True):
        state = observe(state, code, raw)
        assert 0 <= predict(state, code.time_ns + AHEAD_NS).code.weights[BLINK] <= 0.8


def test_confidence_is_full_for_no_time_ahead_and_falls_with_it():
    state = states_of(nodding(noise=0.1))[-1]
    now = state.codes[-1].time_ns
    at_once, soon, later = (predict(state, now + ahead).confidence for ahead in (0, 20_000_000, 50_000_000))
    np.testing.assert_array_equal(at_once, 1.0)
    assert (soon <= at_once).all() and (later <= soon).all() and later.min() < 0.5


def test_the_past_and_the_far_future_are_bounded():
    state = states_of(nodding())[-1]
    now = state.codes[-1].time_ns
    np.testing.assert_allclose(predict(state, now - AHEAD_NS).code.rotation, state.codes[-1].rotation)
    bound = predict(state, now + round(MAX_AHEAD_S * 1e9)).code
    np.testing.assert_array_equal(predict(state, now + 10**12).code.rotation, bound.rotation)


def test_observing_is_pure_and_ignores_old_codes():
    codes = nodding(20)
    state = states_of(codes)[-1]
    once, twice = observe(state, nodding(21)[-1]), observe(state, nodding(21)[-1])
    np.testing.assert_array_equal(once.agreement, twice.agreement)
    assert observe(state, codes[3]) is state
    gap = observe(state, MotionCode(time_ns=codes[-1].time_ns + 10**10))
    assert len(gap.codes) == 1 and predict(gap, gap.codes[0].time_ns + AHEAD_NS).code.weights.max() == 0
