"""Calibration: this person's rest becomes zero, full stays full, and a face that moves is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.motion.calibrate import Teacher, calibrate, read_calibration, write_calibration
from avatar3d.motion.code import ARKIT_INDEX, MotionCode, look_angles
from avatar3d.motion.csv import head_angles, head_rotation

BROW, DOWN = ARKIT_INDEX["browInnerUp"], ARKIT_INDEX["eyeLookDownLeft"]


def resting(count: int = 60) -> list[MotionCode]:
    """A person whose brow rests at 0.2, whose eyes seem to look down, who sits turned and low; one blink."""
    random = np.random.default_rng(5)
    codes = []
    for index in range(count):
        weights = np.zeros(52)
        weights[BROW] = 0.2 + random.normal(0, 0.005)
        weights[DOWN] = 0.3
        weights[ARKIT_INDEX["eyeBlinkLeft"]] = 1.0 if 20 <= index < 26 else 0.0
        turn, place = head_rotation(0.2, -0.1, 0.05), np.array([0.01, -0.02, 0])
        codes.append(MotionCode(weights, turn, place, np.full((2, 2), 0.02), time_ns=index))
    return codes


def test_rest_becomes_zero():
    codes = resting()
    calibration = calibrate(codes)
    code = calibration.apply(codes[0])
    assert code.weights.max() < 0.01
    np.testing.assert_allclose(head_angles(code.rotation), 0, atol=1e-9)
    np.testing.assert_allclose(code.translation, 0, atol=1e-9)
    np.testing.assert_allclose(code.gaze + look_angles(code.weights), 0, atol=1e-9)


def test_a_straight_look_is_made_straight_and_the_eyes_stay_as_far_apart_as_they_stand():
    apart = np.array([[0.06, 0.0], [-0.06, 0.0]])
    aside = [MotionCode(gaze=apart + (0.1, -0.05), time_ns=index) for index in range(20)]
    code = calibrate(aside).apply(aside[0])
    np.testing.assert_allclose(code.gaze + look_angles(code.weights), apart, atol=1e-9)


def test_full_stays_full_and_a_turn_stays_a_turn():
    calibration = calibrate(resting())
    weights = np.zeros(52)
    weights[BROW] = 1.0
    turned = MotionCode(weights, head_rotation(0.2, -0.1, 0.05), np.array([0.01, -0.02, 0.1]))
    code = calibration.apply(turned)
    assert code.weights[BROW] == pytest.approx(1)
    assert np.linalg.norm(code.translation) == pytest.approx(0.1)
    level = MotionCode(rotation=head_rotation(0.7, 0, 0))
    straight = calibrate([MotionCode(rotation=head_rotation(0.2, 0, 0), time_ns=k) for k in range(20)])
    np.testing.assert_allclose(head_angles(straight.apply(level).rotation), [0.5, 0, 0], atol=1e-9)


def test_the_face_it_was_made_from_survives_and_a_damaged_one_is_refused(tmp_path):
    face = Teacher(np.random.default_rng(1).uniform(0, 500, (478, 3)), np.full(52, 0.25), 640, 480)
    write_calibration(tmp_path / "me.json", replace(calibrate(resting()), teacher=face))
    again = read_calibration(tmp_path / "me.json").teacher
    np.testing.assert_allclose(again.points_px, face.points_px, atol=0.01)
    assert (again.width, again.height, again.network.tolist()) == (640, 480, face.network.tolist())
    value = json.loads((tmp_path / "me.json").read_text())
    for part, bad in (("points_px", [[0, 0, 0]]), ("network", [2.0] * 52), ("width", 0), ("height", "high"), ("width", None)):
        (tmp_path / "bad.json").write_text(json.dumps({**value, "face": {**value["face"], part: bad}}))
        with pytest.raises(InputError, match="is damaged"):
            read_calibration(tmp_path / "bad.json")


def test_it_survives_its_file(tmp_path):
    calibration = calibrate(resting())
    write_calibration(tmp_path / "me.json", calibration)
    again = read_calibration(tmp_path / "me.json")
    code = resting()[3]
    np.testing.assert_allclose(again.apply(code).weights, calibration.apply(code).weights, atol=1e-4)
    np.testing.assert_allclose(again.apply(code).rotation, calibration.apply(code).rotation, atol=1e-9)


def test_a_moving_face_or_too_few_frames_are_refused():
    with pytest.raises(InputError, match="needs 15 frames of a face at rest and 3 were seen"):
        calibrate(resting(3))
    shaking = [MotionCode(rotation=head_rotation(0.4 * np.sin(k / 3), 0, 0), time_ns=k) for k in range(60)]
    with pytest.raises(InputError, match="the head turned"):
        calibrate(shaking)
    random = np.random.default_rng(1)
    talking = [MotionCode(random.uniform(0, 1, 52), time_ns=k) for k in range(60)]
    with pytest.raises(InputError, match="and others moved"):
        calibrate(talking)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "it is not JSON"),
        ("[]", "is not a calibration; make one"),
        ('{"format": "avatar3d calibration 1"}', "is damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, content, sentence):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InputError, match=sentence):
        read_calibration(tmp_path / "x.json")
    with pytest.raises(InputError, match="No such file"):
        read_calibration(tmp_path / "none.json")


@pytest.mark.parametrize("number", ["1e308", "1e400", "1" + "0" * 400])
def test_numbers_that_no_face_has_are_refused(tmp_path, number):
    write_calibration(tmp_path / "x.json", calibrate(resting()))
    value = json.loads((tmp_path / "x.json").read_text())
    value["rotation"] = ["@", 0, 0, 1]
    (tmp_path / "x.json").write_text(json.dumps(value).replace('"@"', number))
    with pytest.raises(InputError, match="no face has|not JSON"):
        read_calibration(tmp_path / "x.json")
