"""`openseeface:[HOST:]PORT`: the UDP packets of OpenSeeFace's facetracker, one record of 1,785 bytes a face.

Record, little-endian (facetracker.py): f64 time, i32 id, f32 width, height, f32 right and left eye open, u8 3D found, f32
error, f32[4] quaternion, f32[3] euler, f32[3] translation, f32[68] confidence, f32[68][2] x, y in pixels, f32[70][3] face model
points, f32[14] features. The two last 2D points are pupils; 3D points 66-69 are the pupils and the eyeballs' centres, right
first.

Its pose is in axes of its own (rows before columns, z away), so head and gaze are taken from the points instead: the model's
points say where the face's left, up and front are, and a scaled orthographic fit to the pixels says how it is turned.
"""

from __future__ import annotations

import math

import numpy as np

from avatar3d.camera import FILM_FOCAL
from avatar3d.motion.code import ARKIT_INDEX, NECK_M, WEIGHT_COUNT, MotionCode
from avatar3d.motion.rotation import matrix_quaternion
from avatar3d.motion.sources.base import ClockOffset, DatagramSource, Spec
from avatar3d.motion.validation import MotionValidator

DEFAULT_PORT = 11_573
MAX_FACE = 10**9  # an id; the sender counts up
FEATURES = (
    "eye_l", "eye_r", "eyebrow_steepness_l", "eyebrow_updown_l", "eyebrow_quirk_l", "eyebrow_steepness_r", "eyebrow_updown_r",
    "eyebrow_quirk_r", "mouth_corner_updown_l", "mouth_corner_inout_l", "mouth_corner_updown_r", "mouth_corner_inout_r",
    "mouth_open", "mouth_wide",
)  # fmt: skip
RECORD = np.dtype([
    ("time", "<f8"), ("id", "<i4"), ("size", "<f4", 2), ("eye_open", "<f4", 2), ("found", "u1"), ("error", "<f4"),
    ("quaternion", "<f4", 4), ("euler", "<f4", 3), ("translation", "<f4", 3), ("confidence", "<f4", 68),
    ("points", "<f4", (68, 2)), ("model", "<f4", (70, 3)), ("features", "<f4", 14),
])  # fmt: skip
MAX_TIME_S = 8e9  # nanoseconds of more do not fit 64 bits
MAX_FACES = 40  # the tracker sends no more
INTEROCULAR_M = 0.0925  # between the outer eye corners of an average adult
# Points of the 68 (iBUG) that do not move with the mouth: nose, eye corners, brow ends, jaw ends.
RIGID = np.array([0, 16, 17, 21, 22, 26, 27, 28, 29, 30, 31, 33, 35, 36, 39, 42, 45])
RIGHT_CORNER, LEFT_CORNER, NOSE_TIP, CHIN, BROWS = 36, 45, 30, 8, (19, 24)
EYE_CORNERS = (36, 39, 42, 45)


class OpenSeeFaceParser:
    """Records of one face: the id asked for, else the first seen. State: that id, a clock offset and the rest position."""

    partial = False

    def __init__(self, validator: MotionValidator, face: int | None = None) -> None:
        self._validator = validator
        self.face = face
        self._clock = ClockOffset()
        self._rest: np.ndarray | None = None

    def __call__(self, data: bytes, now_ns: int) -> MotionCode | None:
        """The code of the face in one packet; None when the bytes are no whole records or the face is not among them."""
        if not data or len(data) % RECORD.itemsize or len(data) > MAX_FACES * RECORD.itemsize:
            return None
        records = np.frombuffer(data, RECORD)
        if self.face is None:
            self.face = int(records["id"][0])
        chosen = np.flatnonzero(records["id"] == self.face)
        if not len(chosen):
            return None
        record = records[chosen[0]]
        with np.errstate(all="ignore"):
            return self._code(record, now_ns)

    def _code(self, record: np.void, now_ns: int) -> MotionCode | None:
        rotation = translation = gaze = None
        model, pixels = record["model"].astype(np.float64), record["points"].astype(np.float64)
        whole = np.isfinite(model).all() and np.isfinite(pixels).all() and max(np.abs(model).max(), np.abs(pixels).max()) < 1e5
        posed = _pose(model, pixels) if whole and record["found"] else None
        if posed is not None:
            turn, scale, middle, axes, metres = posed
            rotation = matrix_quaternion(turn)
            size = record["size"].astype(np.float64)
            if np.isfinite(size).all() and size.min() >= 16 and size.max() <= 16_384:
                depth = FILM_FOCAL * size.max() / scale
                across = (middle - size / 2) / scale
                neck = np.array([across[0], -across[1], -depth]) + turn @ NECK_M
                self._rest = neck if self._rest is None else self._rest
                translation = neck - self._rest
            gaze = _gaze(model, axes, metres)
        confidence = record["confidence"].astype(np.float64)
        sure = float(np.clip(np.nan_to_num(confidence).mean(), 0, 1))
        head_sure = sure if posed is not None else 0.0
        seconds = float(record["time"])
        timed = math.isfinite(seconds) and abs(seconds) < MAX_TIME_S
        time_ns = self._clock.local(round(seconds * 1e9), now_ns) if timed else now_ns
        return self._validator.admit(
            _weights(record["eye_open"], record["features"]), rotation, translation, gaze,
            np.array([sure, sure, sure, 0.0, head_sure]), time_ns,
        )  # fmt: skip


def _weights(eye_open: np.ndarray, features: np.ndarray) -> np.ndarray:
    """(52,) weights of the two eye scores (right, left) and the 14 features, each about 0 at rest and in [-1, 1]."""
    value = dict(zip(FEATURES, features.astype(np.float64), strict=True))
    weights = np.zeros(WEIGHT_COUNT)
    # The features are scaled to their own extremes, so a full one is a strong expression, not the strongest.
    for side, place, letter in (("Left", 1, "l"), ("Right", 0, "r")):
        up = value[f"eyebrow_updown_{letter}"]
        corner, out = value[f"mouth_corner_updown_{letter}"], value[f"mouth_corner_inout_{letter}"]
        weights[ARKIT_INDEX[f"eyeBlink{side}"]] = 1 - float(eye_open[place])
        weights[ARKIT_INDEX[f"browOuterUp{side}"]] = max(0.8 * up, 0.0)
        weights[ARKIT_INDEX[f"browDown{side}"]] = max(-0.8 * up, 0.0)
        # Up in the picture is negative: the corner's height grows downward.
        weights[ARKIT_INDEX[f"mouthSmile{side}"]] = max(-0.8 * corner, 0.0)
        weights[ARKIT_INDEX[f"mouthFrown{side}"]] = max(0.8 * corner, 0.0)
        weights[ARKIT_INDEX[f"mouthStretch{side}"]] = max(0.4 * out, 0.0)
    weights[ARKIT_INDEX["browInnerUp"]] = max(0.4 * (value["eyebrow_updown_l"] + value["eyebrow_updown_r"]), 0.0)
    weights[ARKIT_INDEX["jawOpen"]] = 0.8 * max(value["mouth_open"], 0.0)
    weights[ARKIT_INDEX["mouthPucker"]] = 0.7 * max(-value["mouth_wide"], 0.0)
    return np.where(np.isnan(features.astype(np.float64).sum()), np.nan, weights)


def _pose(model: np.ndarray, pixels: np.ndarray) -> tuple[np.ndarray, float, np.ndarray, np.ndarray, float] | None:
    """(rotation (3,3), pixels per metre, pixel of the eyes' middle, face axes (3,3) in the model, metres per model unit)."""
    left = model[LEFT_CORNER] - model[RIGHT_CORNER]
    span = np.linalg.norm(left)
    up = model[list(BROWS)].mean(axis=0) - model[CHIN]
    if not span > 1e-6:
        return None
    left = left / span
    up = up - (up @ left) * left
    if not np.linalg.norm(up) > 1e-6:
        return None
    up = up / np.linalg.norm(up)
    front = np.cross(left, up)
    middle = model[list(EYE_CORNERS)].mean(axis=0)
    # The points may be mirrored; the nose says which way the face looks.
    front = front if (model[NOSE_TIP] - middle) @ front > 0 else -front
    axes = np.stack([left, up, front])
    metres = float(INTEROCULAR_M / span)
    face = (model[:68] - middle) @ axes.T * metres
    picture = pixels * (1.0, -1.0)
    shape, seen = face[RIGID] - face[RIGID].mean(axis=0), picture[RIGID] - picture[RIGID].mean(axis=0)
    rows = np.linalg.lstsq(shape, seen, rcond=None)[0].T
    if not np.isfinite(rows).all():
        return None
    scale = float(np.linalg.norm(rows, axis=1).mean())
    if not scale > 1e-3:
        return None
    # The nearest rotation to the two scaled rows (orthogonal Procrustes).
    first, _, second = np.linalg.svd(rows, full_matrices=False)
    flat = first @ second
    turn = np.stack([flat[0], flat[1], np.cross(flat[0], flat[1])])
    eyes = pixels[list(EYE_CORNERS)].mean(axis=0)
    return turn, scale, eyes, axes, metres


def _gaze(model: np.ndarray, axes: np.ndarray, metres: float) -> np.ndarray | None:
    """(2, 2) gaze of [left, right] eye from each pupil and eyeball centre of the model."""
    toward = (model[[67, 66]] - model[[69, 68]]) @ axes.T * metres
    length = np.linalg.norm(toward, axis=1)
    if not (length > 1e-4).all() or (toward[:, 2] <= 0).any():
        return None
    return np.stack([np.arctan2(toward[:, 0], toward[:, 2]), np.arcsin(toward[:, 1] / length)], axis=1)


def open_openseeface(spec: Spec) -> DatagramSource:
    """Listen for facetracker; `?face=ID` picks one of several faces."""
    spec.only("face")
    face = spec.integer("face", 0, 0, MAX_FACE) if "face" in spec.options else None
    return DatagramSource(spec.address(DEFAULT_PORT), lambda validator: OpenSeeFaceParser(validator, face), spec.text)
