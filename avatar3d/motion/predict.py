"""Prediction of a motion code to the time a picture is shown, with a statement of how sure it is; pure functions.

Each group of channels is extrapolated only as far as extrapolating that group has paid off lately, so a channel that cannot be
foretold is held. What that is worth beside other predictors (tools/predictors.py): avatar3d/motion/README.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from avatar3d.motion.code import ARKIT_INDEX, CONFIDENCE_REGIONS, MotionCode
from avatar3d.motion.filter import GROUPS, RESET_AFTER_S, WEIGHT_GROUP
from avatar3d.motion.rotation import between, exponential, multiply

MAX_AHEAD_S = 0.15  # beyond it the last value is as good as any guess
HISTORY = 12  # codes kept: 0.4 s at 30 Hz, 0.2 s at 60 Hz
LONG_S = 0.08  # span of the calmer of the two speeds; the other is over the last two codes
GRADED_AHEAD_S = 0.05  # predictions this far ahead are graded as their truth arrives
MEMORY_S = 4.0  # grades fade with this time constant
CAUTION = 0.7  # share of what past grades call best: too little costs less than too much
# Signals that `adaptive` mixes for each group: the last speed, the calmer speed, the way back to the mean of HISTORY (noise and a
# mouth that opened go back there), and how far the filter lags behind the newest measurement. Shares before any grade, and how much
# the grades must weigh to overrule them.
SIGNALS = 4
PRIOR = {"rotation": (0.2, 0.2, 0.0, 0.0), "translation": (0.2, 0.2, 0.0, 0.0)}
PRIOR_WEIGHT = 0.3  # of the power of the signals
LIMIT = np.array([1.0, 1.0, 0.8, 1.0])
# Channels: 52 weights, 3 of rotation (a vector from the newest code), 3 of translation (decimetres, to be of the size of the
# others), 4 of gaze. Groups: those of the filter, then rotation, translation and gaze.
CHANNELS = 62
TRANSLATION_UNIT_M = 0.1
CHANNEL_GROUPS = (*GROUPS, "rotation", "translation", "gaze")
_GROUP = np.concatenate([WEIGHT_GROUP, np.full(3, 7), np.full(3, 8), np.full(4, 9)])
_PRIOR = np.array([PRIOR.get(group, (0.0,) * SIGNALS) for group in CHANNEL_GROUPS])
_MEMBERS = (np.arange(10)[:, None] == _GROUP).astype(np.float64)  # (10, 62)
# Lids and lips meet: past the meeting there is nothing. Their prediction stays inside what was seen in HISTORY.
_CLOSURES = np.array([ARKIT_INDEX[name] for name in ("eyeBlinkLeft", "eyeBlinkRight", "mouthClose", "jawOpen")])
_GROUP_REGION = {
    "brow": "brow", "lids": "eyes", "look": "eyes", "jaw": "mouth", "mouth": "mouth", "cheek": "mouth", "tongue": "tongue",
    "rotation": "head", "translation": "head", "gaze": "eyes",
}  # fmt: skip
_IN_REGION = np.array(
    [[_GROUP_REGION[group] == region for group in CHANNEL_GROUPS] for region in CONFIDENCE_REGIONS], dtype=np.float64
)  # (5, 10)
_STILL = 1e-5 * np.maximum(_IN_REGION @ _MEMBERS.sum(axis=1), 1)  # (5,) motion below a thousandth or so needs no telling


@dataclass(frozen=True)
class PredictState:
    """The last codes, oldest first, their signals (4, 62), and the running grades of each group.

    powers (10, 4, 4): Σ signal·signalᵀ. agreement (10, 4): Σ signal·truth. truth_power (10,): Σ truth².
    """

    codes: tuple[MotionCode, ...] = ()
    signals: tuple[np.ndarray, ...] = ()
    powers: np.ndarray = field(default_factory=lambda: np.zeros((10, SIGNALS, SIGNALS)))
    agreement: np.ndarray = field(default_factory=lambda: np.zeros((10, SIGNALS)))
    truth_power: np.ndarray = field(default_factory=lambda: np.zeros(10))

    @cached_property
    def gains(self) -> np.ndarray:
        """(10, 4) for CHANNEL_GROUPS × signals: the share of each signal that the group is moved by, in [0, LIMIT]."""
        # A ridge toward the prior, as strong as a few of the grades seen so far.
        ridge = np.maximum(PRIOR_WEIGHT * np.einsum("gii->gi", self.powers), 1e-6)
        left = self.powers + ridge[:, :, None] * np.eye(SIGNALS)
        right = CAUTION * self.agreement + ridge * _PRIOR
        return np.clip(np.linalg.solve(left, right[..., None])[..., 0], 0.0, LIMIT)


@dataclass(frozen=True)
class Prediction:
    """code: at the asked time. confidence: (5,) for CONFIDENCE_REGIONS, the share of the motion that is foretold, 0 to 1.

    A region that stands still has confidence 1; one whose last grades were no better than holding has 0.
    """

    code: MotionCode
    confidence: np.ndarray


def observe(state: PredictState | None, code: MotionCode, measured: MotionCode | None = None) -> PredictState:
    """The state after a code has come. One that is not newer changes nothing; after a gap everything but the grades is new.

    measured: what was captured, where `code` is a filter's answer to it: predictions are graded by what was measured, which is noisy
    but not late, so they learn to make up for the filter's lag.
    """
    if state is None or not state.codes:
        return replace(state or PredictState(), codes=(code,), signals=(np.zeros((SIGNALS, CHANNELS)),))
    seconds = (code.time_ns - state.codes[-1].time_ns) / 1e9
    if seconds <= 0:
        return state
    if seconds > RESET_AFTER_S:
        return replace(state, codes=(code,), signals=(np.zeros((SIGNALS, CHANNELS)),))
    codes = (*state.codes, code)[-HISTORY:]
    measured = measured or code
    signals = (*state.signals, np.vstack([_signals(codes), difference(code, measured)]))[-HISTORY:]
    fade = float(np.exp(-seconds / MEMORY_S))
    powers, agreement, truth_power = state.powers * fade, state.agreement * fade, state.truth_power * fade
    graded = _graded(codes, code.time_ns)
    if graded is not None:
        old = codes[graded]
        guess = _steps(signals[graded], (code.time_ns - old.time_ns) / 1e9)
        truth = difference(old, measured)
        powers = powers + (_MEMBERS @ (guess[:, None] * guess).reshape(-1, CHANNELS).T).reshape(-1, SIGNALS, SIGNALS)
        agreement = agreement + (guess * truth @ _MEMBERS.T).T
        truth_power = truth_power + _MEMBERS @ (truth * truth)
    return PredictState(codes, signals, powers, agreement, truth_power)


Method = Callable[["PredictState", float], np.ndarray]  # a state and seconds ahead to the channels (62,) that move till then


def predict(state: PredictState, time_ns: int, method: Method | None = None) -> Prediction:
    """The code at `time_ns`; times before the last code, or beyond MAX_AHEAD_S, are held at the bound.

    method: other than `adaptive`, for comparisons. Raises ValueError on a state without a code.
    """
    if not state.codes:
        raise ValueError("nothing has been observed; call observe first")
    last = state.codes[-1]
    ahead = min(max((time_ns - last.time_ns) / 1e9, 0.0), MAX_AHEAD_S)
    code = moved(last, (method or adaptive)(state, ahead), time_ns)
    seen = np.stack([code.weights[_CLOSURES] for code in state.codes])
    weights = code.weights.copy()
    weights[_CLOSURES] = np.clip(weights[_CLOSURES], seen.min(axis=0), seen.max(axis=0))
    code = code.with_weights(weights)
    return Prediction(code, _confidence(state, ahead))


def channel_groups() -> dict[str, np.ndarray]:
    """{group: its places among the CHANNELS channels} for CHANNEL_GROUPS."""
    return {name: np.flatnonzero(place == _GROUP) for place, name in enumerate(CHANNEL_GROUPS)}


def adaptive(state: PredictState, ahead: float) -> np.ndarray:
    """(62,) channels that move in `ahead` seconds: each group by the shares of its signals that past grades call best."""
    return np.einsum("ci,ic->c", state.gains[_GROUP], _steps(state.signals[-1], ahead))


def moved(code: MotionCode, step: np.ndarray, time_ns: int) -> MotionCode:
    """The code moved by channels (62,), weights clipped; inverse of `difference`."""
    return MotionCode(
        weights=np.clip(code.weights + step[:52], 0.0, 1.0),
        rotation=multiply(exponential(step[52:55]), code.rotation),
        translation=code.translation + step[55:58] * TRANSLATION_UNIT_M,
        gaze=code.gaze + step[58:].reshape(2, 2),
        confidence=code.confidence,
        time_ns=time_ns,
        sequence=code.sequence,
    )


def difference(a: MotionCode, b: MotionCode) -> np.ndarray:
    """(62,) channels from a to b: weights, rotation vector, translation in TRANSLATION_UNIT_M, gaze."""
    return differences(a, (b,))[0]


def differences(a: MotionCode, codes: Sequence[MotionCode]) -> np.ndarray:
    """(N, 62) `difference` from a to each of the codes."""
    steps = np.empty((len(codes), CHANNELS))
    for step, b in zip(steps, codes, strict=True):
        step[:52] = b.weights
        step[52:55] = between(a.rotation, b.rotation)
        step[55:58] = b.translation
        step[58:] = b.gaze.ravel()
    steps[:, :52] -= a.weights
    steps[:, 55:58] = (steps[:, 55:58] - a.translation) / TRANSLATION_UNIT_M
    steps[:, 58:] -= a.gaze.ravel()
    return steps


def _signals(codes: tuple[MotionCode, ...]) -> np.ndarray:
    """(3, 62): the last speed and the calmer one, channels a second, and the way to the mean of the codes, channels."""
    times = np.array([code.time_ns - codes[-1].time_ns for code in codes]) / 1e9
    values = differences(codes[-1], codes)
    recent = max(2, int((times >= -LONG_S - 1e-3).sum()))
    return np.stack([values[-2] / times[-2], _slope(times[-recent:], values[-recent:]), values.mean(axis=0)])


def _slope(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(C,) least-squares slope of (n, C) values over (n,) times."""
    offset = times - times.mean()
    return offset @ values / (offset @ offset)


def _steps(signals: np.ndarray, ahead: float) -> np.ndarray:
    """(4, 62): what each signal alone would move the channels by in `ahead` seconds."""
    return signals * np.array([ahead, ahead, min(ahead / GRADED_AHEAD_S, 1.0), 1.0])[:, None]


def _graded(codes: tuple[MotionCode, ...], now_ns: int) -> int | None:
    """Index of the code whose prediction GRADED_AHEAD_S ahead falls due now, or None while there is none that old."""
    ages = (now_ns - np.array([code.time_ns for code in codes])) / 1e9
    index = int(np.abs(ages - GRADED_AHEAD_S).argmin())
    return index if 0.5 * GRADED_AHEAD_S <= ages[index] <= 2 * GRADED_AHEAD_S and index > 0 else None


def _confidence(state: PredictState, ahead: float) -> np.ndarray:
    """(5,): 1 at no time ahead, falling over GRADED_AHEAD_S to the share of each region's motion that was foretold."""
    gain = state.gains
    error = state.truth_power - 2 * (gain * state.agreement).sum(1) + np.einsum("gi,gij,gj->g", gain, state.powers, gain)
    foretold = 1 - _IN_REGION @ error.clip(0) / (_IN_REGION @ state.truth_power + _STILL)
    share = min(ahead / GRADED_AHEAD_S, 1.0)
    return np.clip(1 - share * (1 - foretold.clip(0, 1)), 0.0, 1.0)
