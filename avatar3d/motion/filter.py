"""Smoothing: a One-Euro filter for each group of channels; a pure function of (state, code)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from avatar3d.motion.code import ARKIT_NAMES, WEIGHT_COUNT, MotionCode
from avatar3d.motion.rotation import between, blend

# Channel groups that move alike; each weight belongs to one.
GROUPS: tuple[str, ...] = ("brow", "lids", "look", "jaw", "mouth", "cheek", "tongue")
RESET_AFTER_S = 0.5  # after a gap this long the old state says nothing of the new value


def group_of(name: str) -> str:
    """The group an ARKit weight moves with."""
    if name.startswith("brow"):
        return "brow"
    if name.startswith("eyeLook"):
        return "look"
    if name.startswith("eye"):
        return "lids"
    if name.startswith("jaw") or name == "mouthClose":
        return "jaw"
    if name.startswith("mouth"):
        return "mouth"
    return "tongue" if name == "tongueOut" else "cheek"


WEIGHT_GROUP = np.array([GROUPS.index(group_of(name)) for name in ARKIT_NAMES])  # (52,)


@dataclass(frozen=True)
class OneEuro:
    """Casiez, Roussel, Vogel: 1€ Filter (CHI 2012), equations 1 to 5.

    min_cutoff_hz: cutoff at rest; lower is calmer. beta: how much the cutoff rises with speed (per unit a second); higher lags
    less. speed_cutoff_hz: of the speed's own low-pass.
    """

    min_cutoff_hz: float
    beta: float
    speed_cutoff_hz: float = 1.0


@dataclass(frozen=True)
class FilterOptions:
    """Settings of each group. A blink lasts 100 ms, so lids are let through almost as they are; a brow may take its time."""

    brow: OneEuro = OneEuro(2.0, 4.0)
    lids: OneEuro = OneEuro(6.0, 20.0, 4.0)
    look: OneEuro = OneEuro(3.0, 8.0)
    jaw: OneEuro = OneEuro(4.0, 12.0, 2.0)
    mouth: OneEuro = OneEuro(4.0, 10.0, 2.0)
    cheek: OneEuro = OneEuro(2.0, 4.0)
    tongue: OneEuro = OneEuro(4.0, 10.0, 2.0)
    rotation: OneEuro = OneEuro(1.5, 6.0)  # speed in rad/s
    translation: OneEuro = OneEuro(1.5, 50.0)  # speed in m/s
    gaze: OneEuro = OneEuro(3.0, 4.0, 4.0)  # speed in rad/s; saccades must not smear


@dataclass(frozen=True)
class FilterState:
    """What the filter remembers: the last raw code, the last answer, and the smoothed speeds of all channels."""

    raw: MotionCode
    smooth: MotionCode
    weight_speed: np.ndarray = field(default_factory=lambda: np.zeros(WEIGHT_COUNT))
    rotation_speed: np.ndarray = field(default_factory=lambda: np.zeros(3))
    translation_speed: np.ndarray = field(default_factory=lambda: np.zeros(3))
    gaze_speed: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))


def smooth(state: FilterState | None, code: MotionCode, options: FilterOptions = FilterOptions()) -> FilterState:
    """The next state, whose `smooth` is the filtered code with the time and sequence of `code`.

    A code that is not newer than the last changes nothing; after RESET_AFTER_S without one the filter starts anew.
    """
    if state is None:
        return FilterState(code, code)
    seconds = (code.time_ns - state.raw.time_ns) / 1e9
    if seconds <= 0:
        return state
    if seconds > RESET_AFTER_S:
        return FilterState(code, code)
    settings = [getattr(options, group) for group in GROUPS]
    floor, slope, speed_cutoff = (
        np.array([getattr(setting, name) for setting in settings])[WEIGHT_GROUP]
        for name in ("min_cutoff_hz", "beta", "speed_cutoff_hz")
    )
    last = state.smooth
    weight_speed = _low_pass(state.weight_speed, (code.weights - state.raw.weights) / seconds, speed_cutoff, seconds)
    weights = _low_pass(last.weights, code.weights, floor + slope * np.abs(weight_speed), seconds)

    turn = between(state.raw.rotation, code.rotation) / seconds
    rotation_speed = _low_pass(state.rotation_speed, turn, options.rotation.speed_cutoff_hz, seconds)
    rotation = blend(last.rotation, code.rotation, _share(options.rotation, rotation_speed, seconds))

    move = (code.translation - state.raw.translation) / seconds
    translation_speed = _low_pass(state.translation_speed, move, options.translation.speed_cutoff_hz, seconds)
    translation = last.translation + _share(options.translation, translation_speed, seconds) * (
        code.translation - last.translation
    )

    gaze_speed = _low_pass(state.gaze_speed, (code.gaze - state.raw.gaze) / seconds, options.gaze.speed_cutoff_hz, seconds)
    gaze = last.gaze + _share(options.gaze, gaze_speed, seconds) * (code.gaze - last.gaze)
    answer = MotionCode(weights, rotation, translation, gaze, code.confidence, code.time_ns, code.sequence)
    return FilterState(code, answer, weight_speed, rotation_speed, translation_speed, gaze_speed)


def _share(setting: OneEuro, speed: np.ndarray, seconds: float) -> float:
    """How far to go toward the new value, for a vector that is filtered as one."""
    cutoff = setting.min_cutoff_hz + setting.beta * math.sqrt(float((speed * speed).sum()))
    return 1.0 / (1.0 + 1.0 / (2 * math.pi * cutoff * seconds))


def _low_pass(last: np.ndarray, new: np.ndarray, cutoff_hz: np.ndarray | float, seconds: float) -> np.ndarray:
    share = 1.0 / (1.0 + 1.0 / (2 * math.pi * np.asarray(cutoff_hz) * seconds))
    return last + share * (new - last)


def smoothed(codes: list[MotionCode], options: FilterOptions | None = None) -> list[MotionCode]:
    """A whole recording through the filter."""
    state: FilterState | None = None
    answers = []
    for code in codes:
        state = smooth(state, code, options or FilterOptions())
        answers.append(state.smooth)
    return answers
