"""Validation, which every motion code passes: raw numbers in, a valid MotionCode or nothing out, what was mended counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from avatar3d.motion.code import WEIGHT_REGION, MotionCode

MAX_DISTANCE_M = 10.0  # a head farther than this from where it started is a broken number
MAX_GAZE_RAD = 1.2  # an eye turns by 0.9 at most
UNIT_TOLERANCE = 1e-2  # of a quaternion's length; float32 senders stay within 1e-6
MAX_BAD_WEIGHTS = 26  # a packet with more broken weights than whole ones is not a face
MAX_UNKNOWN = 24  # names that a source's validator keeps, and characters of each: strangers choose them
MAX_UNKNOWN_NAME = 40
OTHERS = "others"
NAMED = 6  # of them in a line for a person
_INT64_MAX = 2**63 - 1


@dataclass
class MotionValidator:
    """Admits codes of one source and remembers the last, from which broken values are mended.

    admitted, refused: codes. repaired: how often each kind of value was mended. unknown: how often each name came that the source
    does not understand, those beyond the first MAX_UNKNOWN together under OTHERS.
    """

    admitted: int = 0
    refused: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    last: MotionCode | None = None

    def not_understood(self, name: str) -> None:
        """Count something that came under a name which the source does not know."""
        name = name[:MAX_UNKNOWN_NAME]
        self.unknown[name if name in self.unknown or len(self.unknown) < MAX_UNKNOWN else OTHERS] += 1

    def admit(
        self,
        weights: np.ndarray,
        rotation: np.ndarray | None = None,
        translation: np.ndarray | None = None,
        gaze: np.ndarray | None = None,
        confidence: np.ndarray | None = None,
        time_ns: int = 0,
        sequence: int | None = None,
    ) -> MotionCode | None:
        """The code of these raw values (shapes and units as in MotionCode; None: not measured), or None when refused.

        Refused: a wrong shape, or more than MAX_BAD_WEIGHTS weights that are not finite. Mended and counted: values that are
        not finite take the last code's, with that region's confidence at 0; weights are clipped to [0, 1], the gaze to
        MAX_GAZE_RAD; a quaternion is made unit; a translation beyond MAX_DISTANCE_M takes the last code's; a time before the
        last code's becomes just after it. sequence: by default counted here.
        """
        code, mended = mend(weights, rotation, translation, gaze, confidence, time_ns, sequence, self.last)
        self.repaired.update(mended)
        if code is None:
            self.refused += 1
            return None
        self.admitted += 1
        self.last = code
        return code


def unknown_lines(unknown: Mapping[str, int]) -> list[str]:
    """A line for a person on the names that were not understood, those that came most first; none where there were none."""
    if not unknown:
        return []
    most = Counter(unknown).most_common()
    named = ", ".join(f"{name} ({count})" for name, count in most[:NAMED])
    return [f"not understood: {named}" + (f" and {len(most) - NAMED} more names" if len(most) > NAMED else "")]


def mend(
    weights: np.ndarray,
    rotation: np.ndarray | None,
    translation: np.ndarray | None,
    gaze: np.ndarray | None,
    confidence: np.ndarray | None,
    time_ns: int,
    sequence: int | None,
    last: MotionCode | None,
) -> tuple[MotionCode | None, list[str]]:
    """(code or None, the kinds of values that were mended) of raw values; a pure function, see `MotionValidator.admit`."""
    before = last or MotionCode()
    mended: list[str] = []
    sure = _floats(confidence, (5,), np.ones(5))
    raw = _floats(weights, (52,), None)
    if raw is None or sure is None:
        return None, ["shape"]
    sure = np.where(np.isfinite(sure), np.clip(sure, 0.0, 1.0), 0.0)
    broken = ~np.isfinite(raw)
    if broken.sum() > MAX_BAD_WEIGHTS:
        return None, ["weights not finite"]
    if broken.any():
        mended.append("weights not finite")
        raw = np.where(broken, before.weights, raw)
        sure[np.unique(WEIGHT_REGION[broken])] = 0.0
    if ((raw < 0) | (raw > 1)).any():
        mended.append("weights out of range")
        raw = np.clip(raw, 0.0, 1.0)

    turn = _floats(rotation, (4,), before.rotation)
    move = _floats(translation, (3,), before.translation)
    look = _floats(gaze, (2, 2), before.gaze)
    if turn is None or move is None or look is None:
        return None, ["shape"]
    with np.errstate(over="ignore", invalid="ignore"):
        length = float(np.linalg.norm(turn))
    if not np.isfinite(length) or length < 1e-6:
        mended.append("rotation unusable")
        turn, sure[4] = before.rotation, 0.0
    elif abs(length - 1) > UNIT_TOLERANCE:
        mended.append("rotation not unit")
    if not (np.isfinite(move).all() and np.abs(move).max() <= MAX_DISTANCE_M):
        mended.append("translation unusable")
        move, sure[4] = before.translation, 0.0
    if not np.isfinite(look).all():
        mended.append("gaze not finite")
        look, sure[1] = before.gaze, 0.0
    elif np.abs(look).max() > MAX_GAZE_RAD:
        mended.append("gaze out of range")
        look = np.clip(look, -MAX_GAZE_RAD, MAX_GAZE_RAD)
    if last is not None and time_ns <= last.time_ns:
        mended.append("time not later")
        time_ns = last.time_ns + 1
    counted = (last.sequence + 1 if last else 0) if sequence is None else sequence
    when, count = min(max(int(time_ns), 0), _INT64_MAX), min(max(int(counted), 0), _INT64_MAX)
    return MotionCode(raw, turn, move, look, sure, when, count), mended


def _floats(values: object, shape: tuple[int, ...], default: np.ndarray | None) -> np.ndarray | None:
    """A float64 copy of that shape, the default for None, and None for what has another shape or is no number."""
    if values is None:
        return None if default is None else np.array(default, dtype=np.float64)
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return array if array.shape == shape else None
