"""Face and eye tracking of OpenXR headsets: the structures of three extensions and of the eyes' action, as motion codes.

`read_fb2`, `read_htc` and `read_android` take the pyopenxr structures that a session fills; `openxr:FILE` feeds recorded
weights through the same tables (a JSON line a frame: {"extension": "XR_FB_face_tracking2", "weights": [70 numbers], "time": ns,
"gaze": [qx, qy, qz, qw]}). avatar3d/xr/face.py makes the live calls.

OpenXR axes are right-handed with −Z ahead of the user and +X to the user's right, so ours are theirs turned half about Y.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np

from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode, look_angles, quaternion_matrix
from avatar3d.motion.jsonl import read_lines, read_object
from avatar3d.motion.sources.base import Recording, Spec
from avatar3d.motion.validation import MotionValidator
from avatar3d.motion.vocabulary import vocabulary

# Extension: the vocabulary of its weights.
EXTENSIONS = {"XR_FB_face_tracking2": "fb2", "XR_HTC_facial_tracking": "htc", "XR_ANDROID_face_tracking": "android"}
HTC_EYES = 14


def weights_code(
    validator: MotionValidator, extension: str, weights: Sequence[float], confidence: Sequence[float] | None, time_ns: int,
    gaze: Sequence[float] | None = None,
) -> MotionCode | None:  # fmt: skip
    """The code of an extension's weights in its own order; None when their number is wrong or the validator refuses them.

    confidence: two values (lower, upper face) or three (lower, left upper, right upper), as the extensions have them.
    gaze: quaternion xyzw of XR_EXT_eye_gaze_interaction's pose in the head's (view) space. Raises KeyError on an unknown
    extension.
    """
    table = vocabulary(EXTENSIONS[extension])
    try:
        values = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    if values.shape != (len(table.names),):
        return None
    arkit = table.to_arkit(values)
    measured = None
    if gaze is not None:
        angles = gaze_angles(gaze)
        measured = None if angles is None else angles - look_angles(np.nan_to_num(np.clip(arkit, 0, 1)))
    return validator.admit(arkit, gaze=measured, confidence=_regions(confidence, table.missing), time_ns=time_ns)


def _regions(confidence: Sequence[float] | None, missing: dict[str, str]) -> np.ndarray:
    """(5,) for CONFIDENCE_REGIONS; a region that the vocabulary cannot give at all has 0, and so has the head's pose."""
    sure = np.ones(5)
    if confidence is not None and len(confidence) >= 2:
        lower, upper = float(confidence[0]), float(np.mean(confidence[1:]))
        sure[:4] = upper, upper, lower, lower
    sure[0] *= 0.0 if "browInnerUp" in missing else 1.0
    sure[4] = 0.0
    return sure


def gaze_angles(orientation: Sequence[float]) -> np.ndarray | None:
    """(2, 2) yaw toward our +X and pitch up of both eyes from a gaze pose's quaternion xyzw; None when it is none."""
    try:
        rotation = np.array(orientation, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    length = np.linalg.norm(rotation) if rotation.shape == (4,) and np.isfinite(rotation).all() else 0.0
    if not 1e-6 < length < 1e6:
        return None
    x, y, z = -quaternion_matrix(rotation / length)[:, 2]  # the gaze looks along −Z
    angles = np.array([math.atan2(-x, -z), math.asin(max(-1.0, min(1.0, float(y))))])
    return np.stack([angles, angles])


def head_pose(orientation: Sequence[float], position: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """(rotation xyzw, place (3,) m) in our axes of a view pose in OpenXR's."""
    x, y, z, w = orientation
    return np.array([-x, y, -z, w], dtype=np.float64), np.array([-position[0], position[1], -position[2]], dtype=np.float64)


def read_fb2(validator: MotionValidator, structure: object, gaze: Sequence[float] | None = None) -> MotionCode | None:
    """The code of an `xr.FaceExpressionWeights2FB`; None while it is not valid."""
    if not structure.is_valid:  # type: ignore[attr-defined]
        return None
    weights, confidence = list(structure.weights), list(structure.confidences)  # type: ignore[attr-defined]
    return weights_code(validator, "XR_FB_face_tracking2", weights, confidence, int(structure.time), gaze)  # type: ignore[attr-defined]


def read_htc(
    validator: MotionValidator, eyes: object | None, lips: object | None, gaze: Sequence[float] | None = None
) -> MotionCode | None:
    """The code of two `xr.FacialExpressionsHTC`, eyes and lips, each None where the headset has none; None while both sleep."""
    count = len(vocabulary("htc").names)
    weights, awake, when = np.zeros(count), False, 0
    for structure, places in ((eyes, slice(0, HTC_EYES)), (lips, slice(HTC_EYES, count))):
        if structure is None or not structure.is_active:  # type: ignore[attr-defined]
            continue
        values = list(structure.expression_weightings)  # type: ignore[attr-defined]
        if len(values) != places.stop - places.start:
            return None
        weights[places] = values
        awake, when = True, max(when, int(structure.sample_time))  # type: ignore[attr-defined]
    return weights_code(validator, "XR_HTC_facial_tracking", weights.tolist(), None, when, gaze) if awake else None


def read_android(validator: MotionValidator, structure: object, gaze: Sequence[float] | None = None) -> MotionCode | None:
    """The code of an `xr.FaceStateANDROID`; None while it is not valid."""
    if not structure.is_valid:  # type: ignore[attr-defined]
        return None
    weights = _floats(structure.parameters, structure.parameters_count_output)  # type: ignore[attr-defined]
    confidence = _floats(structure.region_confidences, structure.region_confidences_count_output)  # type: ignore[attr-defined]
    when = int(structure.sample_time)  # type: ignore[attr-defined]
    return weights_code(validator, "XR_ANDROID_face_tracking", weights, confidence or None, when, gaze)


def _floats(pointer: object, count: int) -> list[float]:
    """`count` floats behind a ctypes pointer; none for a null pointer or a count no extension has."""
    if not pointer or not 0 < count <= 256:
        return []
    return list(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))[:count])  # type: ignore[arg-type]


def parse_line(data: bytes, validator: MotionValidator) -> MotionCode | None:
    """The code of one recorded line, or None where it is not one."""
    value = read_object(data)
    if value is None or value.get("extension") not in tuple(EXTENSIONS):
        return None
    when, weights, confidence = value.get("time", 0), value.get("weights"), value.get("confidence")
    if not _are_numbers([when]) or weights is None or not all(_are_numbers(item) for item in (weights, confidence or [])):
        return None
    return weights_code(validator, value["extension"], weights, confidence, int(when), value.get("gaze"))


def _are_numbers(values: object) -> bool:
    """Whether this is a list of numbers that floats can hold."""
    try:
        return isinstance(values, list) and all(
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) for value in values
        )
    except OverflowError:
        return False


def open_openxr(spec: Spec) -> Recording:
    """Recorded weights of a headset; a live headset is opened by `avatar3d xr`, which owns the session."""
    spec.only()
    if not spec.target:
        raise InputError("openxr: needs a file of recorded weights, such as openxr:face.jsonl; avatar3d xr reads live ones")
    validator = MotionValidator()
    return Recording(read_lines(spec.target, lambda data: parse_line(data, validator), f"weights of {', '.join(EXTENSIONS)}"))
