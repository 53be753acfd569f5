"""Live Link Face CSV: a recording reads as motion codes, what is written reads back, damage is named with its line."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.errors import InputError
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, MotionCode, look_angles, quaternion_matrix
from avatar3d.motion.csv import head_angles, head_rotation, read_motion_csv, write_motion_csv

ANGLES = "HeadYaw,HeadPitch,HeadRoll,LeftEyeYaw,LeftEyePitch,LeftEyeRoll,RightEyeYaw,RightEyePitch,RightEyeRoll"
HEADER = "Timecode,BlendShapeCount," + ",".join(n[0].upper() + n[1:] for n in ARKIT_NAMES) + "," + ANGLES

small = st.floats(-1.2, 1.2)
code_strategy = st.builds(
    MotionCode,
    weights=st.lists(st.floats(0, 1), min_size=52, max_size=52).map(np.array),
    rotation=st.tuples(small, small, small).map(lambda angles: head_rotation(*angles)),
    translation=st.lists(st.floats(-2, 2), min_size=3, max_size=3).map(np.array),
    gaze=st.lists(small, min_size=4, max_size=4).map(lambda values: np.array(values).reshape(2, 2)),
)


def _row(timecode: str = "10:00:00:00.000", weights: dict[str, float] | None = None, angles: str = "0,0,0,0,0,0,0,0,0") -> str:
    values = np.zeros(52)
    for name, value in (weights or {}).items():
        values[ARKIT_INDEX[name]] = value
    return f"{timecode},61," + ",".join(f"{value:g}" for value in values) + "," + angles


def _file(tmp_path, *rows: str, header: str = HEADER):
    path = tmp_path / "take.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_recording_of_the_app_reads_as_motion_codes(tmp_path):
    path = _file(
        tmp_path,
        _row("10:11:12:58.000", {"jawOpen": 0.5, "tongueOut": 0.25}, "0.1,-0.2,-0.3,0.4,-0.05,0,-0.4,0.05,0"),
        _row("10:11:13:01.500"),
    )
    first, second = read_motion_csv(path)
    assert first.weights[ARKIT_INDEX["jawOpen"]] == 0.5 and first.weights[ARKIT_INDEX["tongueOut"]] == 0.25
    assert first.weights.sum() == 0.75
    np.testing.assert_allclose(first.gaze, [[0.4, 0.05], [-0.4, -0.05]])
    np.testing.assert_allclose(head_angles(first.rotation), [0.1, 0.2, -0.3], atol=1e-12)
    assert (first.time_ns, second.sequence) == (0, 1)
    assert second.time_ns == round(3.5 / 60 * 1e9)


def test_eye_angles_are_whole_and_point_down_as_in_a_recording_of_the_app(tmp_path):
    # One row of a real recording: eyes lowered, EyePitch positive.
    seen = {"eyeLookDownLeft": 0.2943556, "eyeLookInLeft": 0.0995784, "eyeLookDownRight": 0.2949043}
    path = _file(tmp_path, _row(weights=seen, angles="0,0,0,-0.0040496,0.1801483,0,0.0598471,0.1801376,0"))
    code = read_motion_csv(path)[0]
    whole = code.gaze + look_angles(code.weights)
    np.testing.assert_allclose(whole, [[-0.0040496, -0.1801483], [0.0598471, -0.1801376]])


def test_zero_eye_angles_leave_the_eyes_to_the_weights(tmp_path):
    code = read_motion_csv(_file(tmp_path, _row(weights={"eyeLookDownLeft": 0.5})))[0]
    np.testing.assert_array_equal(code.gaze, np.zeros((2, 2)))


def test_positive_yaw_faces_plus_x_and_positive_pitch_faces_up():
    np.testing.assert_allclose(quaternion_matrix(head_rotation(math.pi / 2, 0, 0))[:, 2], [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(quaternion_matrix(head_rotation(0, math.pi / 2, 0))[:, 2], [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(quaternion_matrix(head_rotation(0, 0, math.pi / 2))[:, 0], [0, 1, 0], atol=1e-12)


@settings(max_examples=40)
@given(codes=st.lists(code_strategy, min_size=1, max_size=4), step_ms=st.integers(1, 5000))
def test_what_is_written_reads_back(tmp_path, codes, step_ms):
    timed = [
        MotionCode(code.weights, code.rotation, code.translation, code.gaze, time_ns=index * step_ms * 1_000_000)
        for index, code in enumerate(codes)
    ]
    write_motion_csv(tmp_path / "a.csv", timed)
    again = read_motion_csv(tmp_path / "a.csv")
    assert len(again) == len(timed)
    for before, after in zip(timed, again, strict=True):
        np.testing.assert_allclose(after.weights, before.weights, atol=6e-7)
        np.testing.assert_allclose(quaternion_matrix(after.rotation), quaternion_matrix(before.rotation), atol=1e-7)
        np.testing.assert_allclose(after.translation, before.translation, atol=6e-7)
        np.testing.assert_allclose(after.gaze, before.gaze, atol=1e-8)
        assert abs(after.time_ns - before.time_ns) <= 1e9 / 60 / 1000


@pytest.mark.parametrize("fps", [15.0, 24.0, 30_000 / 1001, 30.0, 60.0, 120.0])
def test_a_recording_tells_the_rate_its_timecodes_count_in(tmp_path, fps):
    codes = [MotionCode(time_ns=round(index * 1e9 / fps)) for index in range(250) if index % 37]
    write_motion_csv(tmp_path / "a.csv", codes, fps)
    times = [code.time_ns for code in read_motion_csv(tmp_path / "a.csv")]
    np.testing.assert_allclose(times, [code.time_ns - codes[0].time_ns for code in codes], atol=1e5)  # ns


def test_the_written_header_is_the_apps(tmp_path):
    write_motion_csv(tmp_path / "a.csv", [MotionCode()])
    header, row = (tmp_path / "a.csv").read_text().splitlines()
    assert header == HEADER and row.startswith("00:00:00:00.000,61,")


def test_case_blank_lines_marks_and_extra_columns_do_not_matter(tmp_path):
    path = _file(tmp_path, _row(weights={"jawOpen": 1.0}) + ",7", "", header="\ufeff" + HEADER.upper() + ",Comment")
    assert read_motion_csv(path)[0].weights[ARKIT_INDEX["jawOpen"]] == 1.0


def test_recordings_without_angles_hold_the_head_still(tmp_path):
    header = HEADER.split(",HeadYaw")[0]
    code = read_motion_csv(_file(tmp_path, _row().rsplit(",", 9)[0], header=header))[0]
    np.testing.assert_array_equal(code.rotation, [0, 0, 0, 1])


def test_time_goes_on_over_midnight(tmp_path):
    path = _file(tmp_path, _row("23:59:59:59.000"), _row("00:00:00:00.000"))
    assert abs(read_motion_csv(path)[1].time_ns - 1e9 / 60) < 1e3


@pytest.mark.parametrize(
    ("rows", "header", "sentence"),
    [
        ([_row(), _row(weights={"jawOpen": float("nan")})], HEADER, r"line 3 .*JawOpen is 'nan'"),
        ([_row(angles="0,x,0,0,0,0,0,0,0")], HEADER, r"line 2 .*HeadPitch is 'x'"),
        ([_row()[:-2]], HEADER, r"line 2 .*62 cells and the header 63"),
        ([_row("yesterday")], HEADER, r"line 2 .*'yesterday' is not HH:MM:SS:FF"),
        ([_row("nan:00:00:00")], HEADER, r"line 2 .*is not HH:MM:SS:FF"),
        ([_row("10:00:01:00"), _row("10:00:00:59")], HEADER, r"line 3 .*10:00:00:59, is before that of the row above"),
        ([_row(), _row("10:00:00:01"), _row()[:40]], HEADER, r"line 4 .*it was cut there"),
        (
            [_row(weights={"mouthPucker": 0.3}), _row(weights={"mouthPucker": 0.3, "jawOpen": 5})],
            HEADER,
            r"line 3 .*JawOpen is 5, outside -1 to 2",
        ),
        ([_row(angles="0,1e300,0,0,0,0,0,0,0")] + [_row()] * 20, HEADER, r"line 2 .*HeadPitch is 1e\+300 rad, outside"),
        ([_row() + ",1e300"], HEADER + ",HeadX", r"line 2 .*HeadX is 1e\+300 m, outside -10 to 10"),
        ([_row() + ",-11"], HEADER + ",HeadZ", r"line 2 .*HeadZ is -11 m"),
        ([], HEADER, "no frame"),
        ([_row()], HEADER.replace("JawOpen", "Jaw"), "lacks the column JawOpen;"),
        ([_row()], "a,b", r"lacks the column Timecode, .* and 49 more"),
    ],
)
def test_damage_is_one_sentence(tmp_path, rows, header, sentence):
    with pytest.raises(InputError, match=sentence):
        read_motion_csv(_file(tmp_path, *rows, header=header))


def test_per_cent_and_degrees_are_read_as_they_are_meant(tmp_path):
    shares = [
        _row(f"10:00:00:0{n}", {"jawOpen": 0.1 * n, "mouthFunnel": 0.3}, f"{0.1 * n},-0.2,0,0.1,0,0,0.1,0,0") for n in range(5)
    ]
    degrees = ",".join
    other = [
        _row(f"10:00:00:0{n}", {"jawOpen": 10 * n, "mouthFunnel": 30},
             degrees(f"{math.degrees(value):.9f}" for value in (0.1 * n, -0.2, 0, 0.1, 0, 0, 0.1, 0, 0)))
        for n in range(5)
    ]  # fmt: skip
    for one, another in zip(read_motion_csv(_file(tmp_path, *shares)), read_motion_csv(_file(tmp_path, *other)), strict=True):
        np.testing.assert_allclose(one.weights, another.weights, atol=1e-9)
        np.testing.assert_allclose(one.rotation, another.rotation, atol=1e-9)
        np.testing.assert_allclose(one.gaze, another.gaze, atol=1e-9)


def test_files_that_are_no_recording_are_refused(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe\x00\x01")
    for name, sentence in (("empty.csv", "is empty"), ("picture.csv", "not a text file"), ("none.csv", "No such file")):
        with pytest.raises(InputError, match=sentence):
            read_motion_csv(tmp_path / name)
    with pytest.raises(InputError, match="folder"):
        read_motion_csv(tmp_path)
