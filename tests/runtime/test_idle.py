"""Idle motion: natural, never still, the same for the same arguments; and no jump on the way in or out, whatever a source does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.rotation import between, exponential
from avatar3d.runtime import idle as idle_module
from avatar3d.runtime.idle import TO_IDLE_S, TO_LIVE_S, idle, mix, next_transition

BLINK = ARKIT_INDEX["eyeBlinkLeft"]
TIMES = st.floats(0, 1e6)
SEEDS = st.integers(0, 2**31)
FRAME_S = 1 / 90
# The fastest that each part of idle motion may go, a second: lids shut in 80 ms, eyes move by the main sequence.
SPEEDS = {"weights": 19.0, "gaze": 4.0, "rotation": 0.06, "translation": 0.004}


def _steps(a: MotionCode, b: MotionCode) -> dict[str, float]:
    return {
        "weights": float(np.abs(b.weights - a.weights).max()),
        "gaze": float(np.abs(b.gaze - a.gaze).max()),
        "rotation": float(np.linalg.norm(between(a.rotation, b.rotation))),
        "translation": float(np.linalg.norm(b.translation - a.translation)),
    }


@given(TIMES, SEEDS, st.floats(1e-4, 0.05))
def test_it_has_no_jump(time_s, seed, later_s):
    moved = _steps(idle(time_s, seed), idle(time_s + later_s, seed))
    for part, speed in SPEEDS.items():
        assert moved[part] <= speed * later_s + 1e-7, part


@given(TIMES, SEEDS)
def test_it_is_never_still_and_always_small(time_s, seed):
    codes = [idle(time_s + offset, seed) for offset in (0.0, 0.05, 0.1)]
    assert max(_steps(codes[0], codes[1])["rotation"], _steps(codes[1], codes[2])["rotation"]) > 1e-6
    for code in codes:
        assert np.linalg.norm(between(np.array([0.0, 0.0, 0.0, 1.0]), code.rotation)) < 0.04
        assert np.abs(code.translation).max() < 0.003 and np.abs(code.gaze).max() < 0.04
        assert np.flatnonzero(code.weights).tolist() in ([], [BLINK, ARKIT_INDEX["eyeBlinkRight"]])


@given(TIMES, SEEDS)
def test_it_depends_on_time_and_seed_alone(time_s, seed):
    first = idle(time_s, seed)
    idle_module._chance.cache_clear()
    again = idle(time_s, seed)
    assert first.to_json() == again.to_json()
    assert not np.array_equal(first.rotation, idle(time_s, seed + 1).rotation)


def test_it_blinks_as_often_and_as_unevenly_as_people_do():
    times = np.arange(0, 120, 0.01)
    closed = np.array([idle(time_s, 5).weights[BLINK] for time_s in times]) > 0.5
    onsets = times[1:][closed[1:] & ~closed[:-1]]
    assert 12 <= len(onsets) / 2 <= 20
    gaps = np.diff(onsets)
    assert gaps.min() > 0.6 and gaps.max() < 9 and gaps.std() > 0.5
    assert 0.1 < closed.sum() * 0.01 / len(onsets) < 0.3


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 80)), min_size=1, max_size=8), SEEDS)
def test_a_source_that_comes_and_goes_makes_no_jump(spells, seed):
    """The source holds an open jaw and a turned head; at each frame no part moves faster than its transition or idling may."""
    held = MotionCode(
        weights=np.eye(52)[ARKIT_INDEX["jawOpen"]],
        rotation=exponential(np.array([0.0, 0.5, 0.0])),
        translation=np.full(3, 0.05),
    )
    transition, time_s = None, 0.0
    fastest = 1.5 / min(TO_IDLE_S, TO_LIVE_S)
    far = _steps(MotionCode(), held)
    for speaks, frames in spells:
        for _ in range(frames):
            time_s += FRAME_S
            before = transition
            transition = next_transition(transition, held if speaks else None, time_s, seed)
            if before is None:
                continue
            for part, moved in _steps(before.shown, transition.shown).items():
                assert moved <= ((far[part] + 0.1) * fastest + SPEEDS[part]) * FRAME_S * 1.02 + 1e-7, part


def test_a_passage_arrives():
    live = MotionCode(weights=np.full(52, 0.5), translation=np.ones(3), time_ns=5)
    transition = next_transition(None, None, 0.0)
    transition = next_transition(transition, live, 1.0)
    assert transition.shown.weights[0] == idle(0.0).weights[0]
    transition = next_transition(transition, live, 1.0 + TO_LIVE_S)
    assert transition.shown is live
    transition = next_transition(transition, None, 2.0)
    transition = next_transition(transition, None, 2.0 + TO_IDLE_S)
    np.testing.assert_array_equal(transition.shown.rotation, idle(2.0 + TO_IDLE_S).rotation)


def test_a_mix_lies_between():
    a, b = MotionCode(), MotionCode(weights=np.ones(52), rotation=exponential(np.array([0.0, 1.0, 0.0])), gaze=np.ones((2, 2)))
    half = mix(a, b, 0.5)
    np.testing.assert_allclose(half.weights, 0.5)
    np.testing.assert_allclose(between(a.rotation, half.rotation), [0, 0.5, 0], atol=1e-9)
    assert mix(a, b, 1.0) is b
