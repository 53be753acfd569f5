"""Recordings in time: at which rate their codes come, and which code is the newest at each frame of a film; mixes none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode

UNEVEN = 1.5  # of the usual step: a longer one is a stall, a loss, or a variable rate
ON_BEAT = 0.05  # of a frame: how far a time may lie from a whole one; containers round to milliseconds
MAX_FRAMES = 400_000  # of a film: close to two hours at 60 Hz


def own_fps(codes: Sequence[MotionCode]) -> float | None:
    """Codes a second: the mean of evenly spaced ones, by the usual step of others; None for fewer than two."""
    steps = np.diff([code.time_ns for code in codes]) / 1e9
    if not steps.size or steps.sum() <= 0:
        return None
    usual = float(np.median(steps))
    return 1 / (steps.mean() if usual <= 0 or steps.max() <= UNEVEN * usual else usual)


def keeps_beat(codes: Sequence[MotionCode], fps: float) -> bool:
    """Whether the codes' times are whole frames of that rate after the first's, frames without a code included."""
    frames = np.array([code.time_ns - codes[0].time_ns for code in codes]) / 1e9 * fps
    return bool((np.abs(frames - np.rint(frames)) < ON_BEAT).all())


def frames_at(codes: Sequence[MotionCode], fps: float) -> list[MotionCode]:
    """The newest code at each frame of a film of that rate, from the first code's time to the last's: a stall stays one.

    Raises InputError where that takes more than MAX_FRAMES.
    """
    times = np.array([code.time_ns - codes[0].time_ns for code in codes]) / 1e9 * fps
    if times[-1] >= MAX_FRAMES:
        raise InputError(
            f"the motion lasts {times[-1] / fps:.0f} s, which at {fps:g} frames a second is more than {MAX_FRAMES} frames;"
            " cut it into parts, or lower --fps"
        )
    newest = np.searchsorted(times, np.arange(round(times[-1]) + 1) + ON_BEAT, side="right") - 1
    return [codes[place] for place in newest]
