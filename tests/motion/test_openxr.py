"""OpenXR's structures as pyopenxr has them, filled by hand: what a session would give becomes the right code."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest
from motion.packets import openxr_line, sample_code

from avatar3d.errors import InputError
from avatar3d.motion.code import ARKIT_INDEX, look_angles
from avatar3d.motion.csv import head_angles
from avatar3d.motion.sources import open_source
from avatar3d.motion.sources.openxr import gaze_angles, head_pose, read_android, read_fb2, read_htc
from avatar3d.motion.validation import MotionValidator
from avatar3d.motion.vocabulary import vocabulary

xr = pytest.importorskip("xr.typedefs")


def quaternion(axis: tuple[float, float, float], angle: float) -> list[float]:
    return [*(np.array(axis) * math.sin(angle / 2)), math.cos(angle / 2)]


def test_fb2_weights_confidences_and_gaze():
    weights = [0.0] * 70
    weights[vocabulary("fb2").index["JAW_DROP"]] = 0.5
    structure = xr.FaceExpressionWeights2FB(weights=weights, confidences=[0.25, 0.75], is_valid=1, time=123)
    code = read_fb2(MotionValidator(), structure, quaternion((0, 1, 0), 0.2))
    assert code.weights[ARKIT_INDEX["jawOpen"]] == 0.5 and code.weights.sum() == 0.5 and code.time_ns == 123
    np.testing.assert_allclose(code.confidence, [0.75, 0.75, 0.25, 0.25, 0])
    np.testing.assert_allclose(code.gaze + look_angles(code.weights), [[0.2, 0]] * 2, atol=1e-9)
    structure.is_valid = 0
    assert read_fb2(MotionValidator(), structure) is None


def test_htc_eyes_and_lips_come_from_two_structures():
    eyes, lips = [0.0] * 14, [0.0] * 37
    eyes[0], lips[3] = 0.75, 0.5  # left blink, jaw open
    eye = xr.FacialExpressionsHTC(is_active=1, sample_time=5, expression_weightings=eyes)
    lip = xr.FacialExpressionsHTC(is_active=1, sample_time=9, expression_weightings=lips)
    code = read_htc(MotionValidator(), eye, lip)
    assert code.weights[ARKIT_INDEX["eyeBlinkLeft"]] == 0.75 and code.weights[ARKIT_INDEX["jawOpen"]] == 0.5
    assert code.time_ns == 9 and code.confidence[0] == 0  # no brow
    assert read_htc(MotionValidator(), eye, None).weights.sum() == 0.75
    assert read_htc(MotionValidator(), None, None) is None


def test_android_parameters_are_read_through_the_pointer():
    values = np.zeros(68, np.float32)
    values[vocabulary("android").index["TONGUE_OUT"]] = 0.5
    sure = np.array([0.5, 1.0, 0.8], np.float32)
    pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for array in (values, sure)]
    structure = xr.FaceStateANDROID(
        parameters_capacity_input=68, parameters_count_output=68, parameters=pointers[0], sample_time=7, is_valid=1,
        region_confidences_capacity_input=3, region_confidences_count_output=3, region_confidences=pointers[1],
    )  # fmt: skip
    code = read_android(MotionValidator(), structure)
    assert code.weights[ARKIT_INDEX["tongueOut"]] == 0.5 and code.time_ns == 7
    np.testing.assert_allclose(code.confidence, [0.9, 0.9, 0.5, 0.5, 0], atol=1e-6)
    structure.parameters_count_output = 0
    assert read_android(MotionValidator(), structure) is None


def test_gaze_and_head_turn_into_our_axes():
    # OpenXR: a turn about +Y goes to the user's left, our +X; about +X it goes up.
    np.testing.assert_allclose(gaze_angles(quaternion((0, 1, 0), 0.3)), [[0.3, 0]] * 2, atol=1e-12)
    np.testing.assert_allclose(gaze_angles(quaternion((1, 0, 0), 0.3)), [[0, 0.3]] * 2, atol=1e-12)
    assert gaze_angles([0, 0, 0, 0]) is None and gaze_angles("north") is None and gaze_angles([math.nan] * 4) is None
    rotation, place = head_pose(quaternion((0, 1, 0), 0.3), [0.1, 0.2, -0.3])
    np.testing.assert_allclose(head_angles(rotation), [0.3, 0, 0], atol=1e-12)
    np.testing.assert_allclose(head_angles(head_pose(quaternion((1, 0, 0), 0.3), [0, 0, 0])[0]), [0, 0.3, 0], atol=1e-12)
    np.testing.assert_array_equal(place, [-0.1, 0.2, 0.3])


@pytest.mark.parametrize("extension", ["XR_FB_face_tracking2", "XR_HTC_facial_tracking", "XR_ANDROID_face_tracking"])
def test_recorded_weights_are_a_source(tmp_path, extension):
    (tmp_path / "face.jsonl").write_bytes(openxr_line(extension) + b"\n" + openxr_line(extension) + b"\n")
    missing = [ARKIT_INDEX[name] for name in vocabulary(extension.split("_")[1].lower().replace("fb", "fb2")).missing]
    with open_source(f"openxr:{tmp_path}/face.jsonl") as source:
        codes = list(source)
    assert len(codes) == 2
    kept = np.delete(np.arange(52), missing)
    np.testing.assert_allclose(codes[0].weights[kept], sample_code().weights[kept], atol=1e-4)
    assert codes[0].weights[missing].sum() == 0
    with pytest.raises(InputError, match=r"line 1 of .* is not weights of"):
        (tmp_path / "bad.jsonl").write_text('{"extension": "XR_NONE", "weights": []}')
        open_source(f"openxr:{tmp_path}/bad.jsonl")
