"""How a head lives while nothing moves it (blinks, breath, small saccades, sway), and the ways into that and back; pure functions.

Idle motion is a function of time and seed alone, so two eyes, two machines or a repeated test see the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from avatar3d.motion.code import ARKIT_INDEX, WEIGHT_COUNT, MotionCode
from avatar3d.motion.mix import mix
from avatar3d.motion.rotation import exponential

SILENT_S = 0.3  # a source this long without a word is silent: longer than a lost packet, shorter than a stare
NOTICE_AFTER_S = 5.0  # after which the viewer is told
TO_IDLE_S = 1.0  # a head that is let go comes to rest as slowly as that
TO_LIVE_S = 0.4  # and takes up its motion faster, since words wait for nobody
# Blinks: 15 a minute (Bentivoglio and others 1997 count 17 at rest), closing in a third of the time of opening (Evinger 1991).
BLINK_EVERY_S = 4.0
BLINK_ONSET = (0.1, 0.8)  # where in its interval a blink may begin
BLINK_CLOSE_S, BLINK_HOLD_S, BLINK_OPEN_S = 0.08, 0.03, 0.2
BLINK_DEPTH = (0.92, 1.0)
# Saccades: one in 1.1 s within a few degrees, as eyes do that rest on a face; duration of 21 ms + 2.2 ms a degree (Carpenter 1988).
SACCADE_EVERY_S = 1.1
SACCADE_ONSET = (0.15, 0.75)
SACCADE_RANGE_RAD = (0.035, 0.02)  # yaw, pitch, to either side
SACCADE_BASE_S, SACCADE_S_PER_RAD = 0.021, 2.2e-3 * 180 / math.pi
# Breath: 15 a minute at rest; shoulders and head rise by some millimetres, and the head nods a little with them.
BREATH_HZ = 0.25
BREATH_M = (0.0, 0.0016, 0.0007)
BREATH_PITCH_RAD = 0.004
# Sway: slow sines of unrelated periods (they come together again after minutes), rad: pitch, yaw, roll.
SWAY_HZ = (0.071, 0.113, 0.187)
SWAY_RAD = ((0.006, 0.010, 0.004), (0.004, 0.006, 0.003), (0.002, 0.003, 0.0015))
_BLINKS = [ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["eyeBlinkRight"]]
_BLINK, _DEPTH, _SACCADE, _YAW, _PITCH, _PHASE = range(6)  # what a chance is drawn for


@lru_cache(maxsize=4096)
def _chance(seed: int, what: int, index: int) -> float:
    """A number in [0, 1) for each triple (SplitMix64 finaliser, Steele and others 2014)."""
    value = (seed * 0x9E3779B97F4A7C15 + what * 0xD1B54A32D192ED03 + index * 0x8CB92BA72F3D8DD7 + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
    return ((value ^ value >> 31) >> 11) / 2**53


def _between(bounds: tuple[float, float], chance: float) -> float:
    return bounds[0] + (bounds[1] - bounds[0]) * chance


def smooth_step(share: float) -> float:
    """0 to 1 as share goes from 0 to 1, without a kink at the ends; constant outside."""
    share = min(max(share, 0.0), 1.0)
    return share * share * (3 - 2 * share)


def _blink(time_s: float, seed: int) -> float:
    index = math.floor(time_s / BLINK_EVERY_S)
    since = time_s - (index + _between(BLINK_ONSET, _chance(seed, _BLINK, index))) * BLINK_EVERY_S
    closed = smooth_step(since / BLINK_CLOSE_S) - smooth_step((since - BLINK_CLOSE_S - BLINK_HOLD_S) / BLINK_OPEN_S)
    return closed * _between(BLINK_DEPTH, _chance(seed, _DEPTH, index))


def _fixation(seed: int, index: int) -> np.ndarray:
    """(2,) yaw and pitch, radians, that the eyes rest at after a saccade."""
    return np.array([
        (2 * _chance(seed, what, index) - 1) * limit for what, limit in zip((_YAW, _PITCH), SACCADE_RANGE_RAD, strict=True)
    ])  # fmt: skip


def _gaze(time_s: float, seed: int) -> np.ndarray:
    index = math.floor(time_s / SACCADE_EVERY_S)
    since = time_s - (index + _between(SACCADE_ONSET, _chance(seed, _SACCADE, index))) * SACCADE_EVERY_S
    old, new = _fixation(seed, index - 1), _fixation(seed, index)
    duration = SACCADE_BASE_S + SACCADE_S_PER_RAD * float(np.hypot(*(new - old)))
    return old + smooth_step(since / duration) * (new - old)


def idle(time_s: float, seed: int = 0) -> MotionCode:
    """The resting head at a time, seconds on any clock: a neutral face that blinks, breathes, looks about and sways.

    A function of its arguments alone; continuous in time. Heads that stand side by side want different seeds.
    """
    weights = np.zeros(WEIGHT_COUNT)
    weights[_BLINKS] = _blink(time_s, seed)
    turned = np.zeros(3)
    for index, (rate, amplitudes) in enumerate(zip(SWAY_HZ, SWAY_RAD, strict=True)):
        for axis, amplitude in enumerate(amplitudes):
            phase = _chance(seed, _PHASE, 3 * index + axis)
            turned[axis] += amplitude * math.sin(2 * math.pi * (rate * time_s * (1 + 0.17 * axis) + phase))
    breath = math.sin(2 * math.pi * (BREATH_HZ * time_s + _chance(seed, _PHASE, 9)))
    turned[0] -= BREATH_PITCH_RAD * breath
    gaze = _gaze(time_s, seed)
    return MotionCode(
        weights=weights,
        rotation=exponential(turned),
        translation=breath * np.array(BREATH_M),
        gaze=np.stack([gaze, gaze]),
        confidence=np.zeros(5),
        time_ns=round(time_s * 1e9),
    )


@dataclass(frozen=True)
class IdleTransition:
    """Where a head is between its source and idling.

    idling: what it goes to. origin: what was shown when that changed, None when it began there. since_s: when that was.
    shown: the last motion.
    """

    idling: bool
    origin: MotionCode | None
    since_s: float
    shown: MotionCode


def next_transition(transition: IdleTransition | None, live: MotionCode | None, time_s: float, seed: int = 0) -> IdleTransition:
    """The next transition, whose `shown` is to be drawn at `time_s`.

    live: what the source tells for this time, None while it is silent. Every change of direction starts from what was shown
    last, so however a source comes and goes, the head does not jump.
    """
    wanted = idle(time_s, seed) if live is None else live
    if transition is None:
        return IdleTransition(live is None, None, time_s, wanted)
    if transition.idling != (live is None):
        transition = IdleTransition(live is None, transition.shown, time_s, transition.shown)
    if transition.origin is None:
        return IdleTransition(transition.idling, None, transition.since_s, wanted)
    share = (time_s - transition.since_s) / (TO_IDLE_S if transition.idling else TO_LIVE_S)
    origin = transition.origin if share < 1 else None
    return IdleTransition(transition.idling, origin, transition.since_s, mix(transition.origin, wanted, smooth_step(share)))
