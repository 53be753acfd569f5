"""Calibration: a few seconds of a neutral face become a person's offsets and gains, kept as JSON, applied to every code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import read_json, write_bytes
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, WEIGHT_COUNT, MotionCode, look_angles, quaternion_matrix
from avatar3d.motion.rotation import between, exponential, inverse, multiply

FORMAT = "avatar3d calibration 1"
MIN_CODES = 15  # half a second at 30 Hz; fewer say nothing of the noise
MAX_OFFSET = 0.6  # a weight that rests above this is an expression, not a habit
NOISE_MARGIN = 1.0  # spreads above the median that still count as rest
MAX_UNSTEADY = 6  # weights that may move while the face is meant to rest (a blink moves a few)
MOVING_WEIGHT = 0.15  # middle half of a weight's values is wider than this: it moves
MOVING_HEAD_RAD = 0.12  # likewise of the head's turn
MAX_FILE_BYTES = 100_000
MAX_SIDE_PX = 16_384


@dataclass(frozen=True)
class Teacher:
    """The frame that showed a person's head best: points_px (478, 3) landmarks in a picture of width × height pixels, and the
    blendshape network's (52,) answer. The head is fitted to it anew, so it stays a few kilobytes."""

    points_px: np.ndarray
    network: np.ndarray
    width: int
    height: int


@dataclass(frozen=True)
class Calibration:
    """What a person's neutral face reads as.

    offsets (52,): subtracted from the weights. gains (52,): then multiplied, so that a full weight stays full.
    rotation (4,), translation (3,): the head's rest, which becomes the identity. gaze (2, 2): what whole eye angles have too much
    of in a straight look; of yaw the same for both eyes, so that they converge as they did.
    teacher: whose head expressions are solved on from the first frame; None: found anew.
    """

    offsets: np.ndarray
    gains: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    gaze: np.ndarray
    teacher: Teacher | None = None

    def apply(self, code: MotionCode) -> MotionCode:
        """The code as this person means it: rest is zero, the rest pose the identity, a straight look straight."""
        weights = np.clip((code.weights - self.offsets) * self.gains, 0.0, 1.0)
        back = inverse(self.rotation)
        whole = code.gaze + look_angles(code.weights) - self.gaze
        return MotionCode(
            weights=weights,
            rotation=multiply(back, code.rotation),
            translation=quaternion_matrix(back) @ (code.translation - self.translation),
            gaze=whole - look_angles(weights),
            confidence=code.confidence,
            time_ns=code.time_ns,
            sequence=code.sequence,
        )


def calibrate(codes: Sequence[MotionCode]) -> Calibration:
    """The calibration of codes of a face at rest, looking straight ahead.

    Medians, so that a blink or two do no harm; the offset of a weight is its median and NOISE_MARGIN of its spread. Raises
    InputError for fewer than MIN_CODES codes or a face that moves.
    """
    if len(codes) < MIN_CODES:
        raise InputError(f"a calibration needs {MIN_CODES} frames of a face at rest and {len(codes)} were seen; record longer")
    weights = np.stack([code.weights for code in codes])
    low, middle, high = np.quantile(weights, [0.25, 0.5, 0.75], axis=0)
    rotation = _mean_rotation(codes)
    turns = np.linalg.norm([between(rotation, code.rotation) for code in codes], axis=1)
    moving = [ARKIT_NAMES[place] for place in np.flatnonzero(high - low > MOVING_WEIGHT)]
    if len(moving) > MAX_UNSTEADY or np.quantile(turns, 0.75) > MOVING_HEAD_RAD:
        what = "the head turned" if len(moving) <= MAX_UNSTEADY else f"{', '.join(moving[:4])} and others moved"
        raise InputError(f"the face was not at rest: {what}; look straight ahead with a relaxed face while calibrating")
    spread = 1.4826 * np.median(np.abs(weights - middle), axis=0)  # of a normal distribution, from its median deviation
    offsets = np.minimum(middle + NOISE_MARGIN * spread, MAX_OFFSET)
    gaze = np.median([code.gaze + look_angles(code.weights) for code in codes], axis=0)
    gaze[:, 0] = gaze[:, 0].mean()
    translation = np.median([code.translation for code in codes], axis=0)
    return Calibration(offsets, 1 / (1 - offsets), rotation, translation, gaze)


def _mean_rotation(codes: Sequence[MotionCode]) -> np.ndarray:
    """The rotation whose turns to all others cancel (Karcher mean, a few steps)."""
    mean = codes[len(codes) // 2].rotation
    for _ in range(5):
        step = np.median([between(mean, code.rotation) for code in codes], axis=0)
        mean = multiply(exponential(step), mean)
        mean = mean / np.linalg.norm(mean)
    return mean


def write_calibration(path: str | Path, calibration: Calibration) -> None:
    """Write the JSON file; raises InputError when it cannot be written."""
    value = {
        "format": FORMAT,
        "offsets": {name: round(float(calibration.offsets[place]), 5) for name, place in ARKIT_INDEX.items()},
        "gains": {name: round(float(calibration.gains[place]), 5) for name, place in ARKIT_INDEX.items()},
        "rotation": calibration.rotation.tolist(),
        "translation": calibration.translation.tolist(),
        "gaze": calibration.gaze.tolist(),
    }
    if calibration.teacher is not None:
        teacher = calibration.teacher
        value["face"] = {
            "points_px": np.round(teacher.points_px, 2).tolist(), "network": np.round(teacher.network, 5).tolist(),
            "width": teacher.width, "height": teacher.height,
        }  # fmt: skip
    write_bytes(path, (json.dumps(value, indent=1) + "\n").encode())


def read_calibration(path: str | Path) -> Calibration:
    """Read what `write_calibration` wrote; raises InputError for a file that is not such a calibration."""
    value = read_json(path, "calibration", MAX_FILE_BYTES)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise InputError(f"{path} is not a calibration; make one with avatar3d track --calibrate")
    try:
        offsets, gains = (np.array([float(value[key][name]) for name in ARKIT_NAMES]) for key in ("offsets", "gains"))
        rotation, translation, gaze = (
            np.array(value[key], dtype=np.float64).reshape(shape)
            for key, shape in (("rotation", 4), ("translation", 3), ("gaze", (2, 2)))
        )
        teacher = None if value.get("face") is None else _teacher(value["face"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the calibration {path} is damaged: {error}; make it anew") from error
    everything = np.concatenate([offsets, gains, rotation, translation, gaze.ravel()])
    length = float(np.linalg.norm(np.clip(rotation, -2, 2)))
    if not (np.abs(everything).max() < 100 and 0.9 < length < 1.1):
        raise InputError(f"the calibration {path} holds numbers that no face has; make it anew")
    return Calibration(offsets, gains, rotation / length, translation, gaze, teacher)


def _teacher(value: dict[str, object]) -> Teacher:
    """A calibration's frame; raises KeyError, TypeError or ValueError for what is none."""
    points = np.array(value["points_px"], dtype=np.float64).reshape(478, 3)
    network = np.array(value["network"], dtype=np.float64).reshape(WEIGHT_COUNT)
    width, height = (int(value[key]) for key in ("width", "height"))  # type: ignore[call-overload]
    if not (np.abs(points).max() < MAX_SIDE_PX and network.min() >= 0 and network.max() <= 1):
        raise ValueError("its face lies outside every picture")
    if not 1 <= min(width, height) <= max(width, height) <= MAX_SIDE_PX:
        raise ValueError(f"its picture is {width}×{height}")
    return Teacher(points, network, width, height)
