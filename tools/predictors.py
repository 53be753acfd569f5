"""Predictors that avatar3d.motion.predict is measured against: from holding the last code to a Kalman filter of constant velocity.

Each makes a `Method` for `predict` of every code of a recording, which may look at the codes up to that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from avatar3d.motion.code import MotionCode
from avatar3d.motion.filter import RESET_AFTER_S
from avatar3d.motion.predict import CHANNELS, HISTORY, Method, PredictState, adaptive, difference

DAMPING = 0.5  # share of the speed that `damped` believes
SMOOTHING = 0.7  # of `double_exponential`, per code (LaViola 2003)
KALMAN_NOISE = 1e-3  # of a measurement, squared units; channels are weights, radians and decimetres
KALMAN_DRIVE = 3.0  # spectral density of the acceleration, squared units per s³


def hold(state: PredictState, ahead: float) -> np.ndarray:
    """Nothing moves."""
    return np.zeros(CHANNELS)


def velocity(state: PredictState, ahead: float) -> np.ndarray:
    """The last speed goes on."""
    return np.asarray(state.signals[-1][0] * ahead)


def damped(state: PredictState, ahead: float) -> np.ndarray:
    """A share of the last speed goes on."""
    return np.asarray(DAMPING * state.signals[-1][0] * ahead)


def double_exponential(codes: Sequence[MotionCode]) -> list[Method]:
    """LaViola: Double exponential smoothing (2003), equation 6, begun anew after a gap."""
    methods: list[Method] = [hold]
    once, twice, first = np.zeros(CHANNELS), np.zeros(CHANNELS), 0  # averages relative to the newest code
    for k in range(1, len(codes)):
        if _gap_s(codes, k) > RESET_AFTER_S:
            once, twice, first = np.zeros(CHANNELS), np.zeros(CHANNELS), k
            methods.append(hold)
            continue
        back = difference(codes[k], codes[k - 1])
        once = (1 - SMOOTHING) * (once + back)
        twice = SMOOTHING * once + (1 - SMOOTHING) * (twice + back)
        oldest = max(first, k - HISTORY + 1)
        period = (codes[k].time_ns - codes[oldest].time_ns) / 1e9 / (k - oldest)
        methods.append(_smoothed(once, twice, period))
    return methods


def _smoothed(once: np.ndarray, twice: np.ndarray, period: float) -> Method:
    def guess(state: PredictState, ahead: float) -> np.ndarray:
        reach = SMOOTHING / (1 - SMOOTHING) * ahead / period
        return np.asarray((2 + reach) * once - (1 + reach) * twice)

    return guess


def kalman(codes: Sequence[MotionCode]) -> list[Method]:
    """Constant velocity driven by white acceleration (Bar-Shalom, Li, Kirubarajan 2001, 6.2.2), begun anew after a gap."""
    methods: list[Method] = [hold]
    value, speed, covariance = np.zeros(CHANNELS), np.zeros(CHANNELS), np.diag([KALMAN_NOISE, 1.0])  # the newest code is 0
    for k in range(1, len(codes)):
        seconds = _gap_s(codes, k)
        if seconds > RESET_AFTER_S:
            value, speed, covariance = np.zeros(CHANNELS), np.zeros(CHANNELS), np.diag([KALMAN_NOISE, 1.0])
            methods.append(hold)
            continue
        transition = np.array([[1.0, seconds], [0.0, 1.0]])
        drive = KALMAN_DRIVE * np.array([[seconds**3 / 3, seconds**2 / 2], [seconds**2 / 2, seconds]])
        covariance = transition @ covariance @ transition.T + drive
        value = value + difference(codes[k], codes[k - 1]) + seconds * speed
        gain = covariance[:, 0] / (covariance[0, 0] + KALMAN_NOISE)
        innovation = -value
        covariance = covariance - np.outer(gain, covariance[0])
        value, speed = value + gain[0] * innovation, speed + gain[1] * innovation
        methods.append(_moving(value, speed))
    return methods


def _moving(value: np.ndarray, speed: np.ndarray) -> Method:
    return lambda state, ahead: value + speed * ahead


def _gap_s(codes: Sequence[MotionCode], k: int) -> float:
    """Seconds from the code before."""
    return (codes[k].time_ns - codes[k - 1].time_ns) / 1e9


def _always(method: Method) -> Callable[[Sequence[MotionCode]], list[Method]]:
    return lambda codes: [method] * len(codes)


# Each makes one method a code, of codes whose times rise.
METHODS: dict[str, Callable[[Sequence[MotionCode]], list[Method]]] = {
    "hold": _always(hold), "velocity": _always(velocity), "damped": _always(damped), "double_exponential": double_exponential,
    "kalman": kalman, "adaptive": _always(adaptive),
}  # fmt: skip
