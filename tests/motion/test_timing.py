"""Recordings in time: rates, beats, and films of recordings that stall."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.motion.csv import read_motion_csv, write_motion_csv
from avatar3d.motion.timing import frames_at, keeps_beat, own_fps


def codes_at(*seconds: float) -> list[MotionCode]:
    return [MotionCode(time_ns=round(1e9 * second), sequence=number) for number, second in enumerate(seconds)]


EVEN = codes_at(*(np.arange(31) / 30))
STALLED = codes_at(*(np.array([*range(10), *range(31, 60)]) / 30))


def test_the_rate_is_the_usual_one():
    assert own_fps(EVEN) == pytest.approx(30) and own_fps(STALLED) == pytest.approx(30)
    assert own_fps(EVEN[:1]) is None and own_fps(codes_at(1.0, 1.0)) is None
    assert own_fps(codes_at(0, 0.033, 0.067, 0.1)) == pytest.approx(30)  # whole milliseconds


def test_a_beat_is_kept_over_a_loss_and_not_by_a_variable_rate():
    assert keeps_beat(EVEN, 30) and keeps_beat(STALLED, 30) and keeps_beat(codes_at(0, 0.033, 0.067), 30)
    assert not keeps_beat(STALLED, 19.5) and not keeps_beat(codes_at(0, 0.0137, 0.0554), 30)


def test_a_film_lasts_as_long_as_the_motion():
    assert [code.sequence for code in frames_at(EVEN, 30)] == list(range(31))
    shown = [code.sequence for code in frames_at(STALLED, 30)]
    assert len(shown) == 60 and shown[9:31] == [9] * 22 and shown[31] == 10
    assert [code.sequence for code in frames_at(EVEN, 10)] == list(range(0, 31, 3))
    assert len(frames_at(codes_at(5.0, 6.0), 60)) == 61


def test_a_film_without_end_is_refused():
    with pytest.raises(InputError, match="the motion lasts 80000 s"):
        frames_at(codes_at(0, 80_000), 60)


@pytest.mark.parametrize("fps", [24.0, 30_000 / 1001, 60.0])
def test_a_recording_that_stalls_is_read_back_as_it_was(tmp_path, fps):
    kept = [n for n in range(150) if not 40 <= n <= 57]
    codes = codes_at(*(np.array(kept) / fps))
    write_motion_csv(tmp_path / "a.csv", codes, fps)
    assert [code.time_ns for code in read_motion_csv(tmp_path / "a.csv")] == pytest.approx(
        [code.time_ns for code in codes], abs=1e5
    )


def test_a_late_first_code_stands_at_the_start_too(tmp_path):
    codes = codes_at(1.0, 1.1)
    write_motion_csv(tmp_path / "a.csv", codes, 30, started_ns=0)
    assert [code.time_ns for code in read_motion_csv(tmp_path / "a.csv", 30)] == pytest.approx([0, 1e9, 1.1e9])
    write_motion_csv(tmp_path / "a.csv", codes, 30)
    assert [code.time_ns for code in read_motion_csv(tmp_path / "a.csv", 30)] == pytest.approx([0, 1e8])
