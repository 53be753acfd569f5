"""What feeds a live head: the mailbox keeps the newest, a recording plays at its speed, the pipeline foretells; sensors."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.csv import write_motion_csv
from avatar3d.runtime.governor import read_config
from avatar3d.runtime.mailbox import Mailbox
from avatar3d.runtime.pipeline import Pipeline
from avatar3d.runtime.replay import Replay, open_live
from avatar3d.runtime.sensors import Reading, hottest

JAW = ARKIT_INDEX["jawOpen"]


def _code(time_ns: int, jaw: float = 0.0) -> MotionCode:
    weights = np.zeros(52)
    weights[JAW] = jaw
    return MotionCode(weights=weights, time_ns=time_ns)


def test_a_mailbox_gives_the_newest_once_and_counts_the_rest():
    box: Mailbox[int] = Mailbox()
    for value in (1, 2, 3):
        box.put(value)
    assert box.take(0) == 3
    assert box.take(0) is None
    assert (box.put_count, box.dropped) == (3, 2)


def test_a_mailbox_wakes_a_waiting_reader():
    box: Mailbox[str] = Mailbox()
    threading.Timer(0.05, lambda: box.put("here")).start()
    assert box.take(60.0) == "here"


class _Clock:
    """A clock that only `sleep` moves."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def test_a_recording_plays_at_its_own_speed_and_starts_again():
    clock = _Clock()
    started = clock.now_ns
    replay = Replay([_code(100, 0.1), _code(40_000_100, 0.2), _code(80_000_100, 0.3)], clock, clock.sleep)
    codes = [replay.read() for _ in range(5)]
    assert [code.time_ns - started for code in codes] == [0, 40_000_000, 80_000_000, 120_000_000, 160_000_000]
    assert [round(float(code.weights[JAW]), 3) for code in codes] == [0.1, 0.2, 0.3, 0.1, 0.2]
    assert clock.now_ns == codes[-1].time_ns
    assert [code.sequence for code in codes] == [0, 1, 2, 3, 4]


def test_a_code_that_is_not_due_yet_is_not_waited_for_longer_than_asked():
    clock = _Clock()
    replay = Replay([_code(0), _code(2_000_000_000)], clock, clock.sleep)
    replay.read()
    before = clock.now_ns
    assert replay.read(0.1) is None
    assert clock.now_ns - before == 100_000_000
    replay.close()
    assert replay.ended and replay.read() is None


def test_an_empty_recording_is_refused():
    with pytest.raises(InputError):
        Replay([])


def test_a_csv_is_opened_as_a_live_source(tmp_path):
    write_motion_csv(tmp_path / "talk.csv", [_code(0, 0.25), _code(33_000_000, 0.5)])
    source = open_live(f"csv:{tmp_path / 'talk.csv'}")
    code = source.read()
    assert code is not None and code.weights[JAW] == pytest.approx(0.25, abs=1e-3)
    with pytest.raises(InputError):
        open_live("carrier-pigeon:7")


class _Unplugged:
    """Fails after `fail_after` codes."""

    live, ended = True, False

    def __init__(self, fail_after: int) -> None:
        self.count, self._fail_after = 0, fail_after

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        if self.count >= self._fail_after:
            raise InputError("the camera was unplugged")
        time.sleep(0.005)
        self.count += 1
        return _code(time.monotonic_ns(), 0.5)

    def close(self) -> None:
        pass


def _until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.01)


def test_the_pipeline_foretells_and_says_how_old_its_newest_code_is():
    clock, source = _Clock(), _Spoken()
    pipeline = Pipeline(source, clock_ns=clock)
    for index in range(100):  # a jaw that opens and shuts, at 200 Hz
        clock.sleep(0.005)
        source.waiting.append(_code(clock.now_ns, 0.5 + 0.3 * np.sin(index / 40)))
        _until(lambda index=index: pipeline.received == 1 + index and pipeline.source_age_s(clock.now_ns) == 0)
        pipeline.at(clock.now_ns)
    assert pipeline.source_age_s(clock.now_ns + 70_000_000) == pytest.approx(0.07)
    asked = clock.now_ns + 20_000_000
    moment = pipeline.at(asked)
    assert moment.motion.time_ns <= asked
    assert moment.captured_ns == clock.now_ns
    assert moment.motion.weights[JAW] == pytest.approx(0.5 + 0.3 * np.sin(103 / 40), abs=0.1)
    pipeline.close()
    assert source.closed


def test_without_a_source_the_head_idles_and_nothing_is_waited_for():
    pipeline = Pipeline(None)
    moments = [pipeline.at(time_ns) for time_ns in (0, 700_000_000, 1_400_000_000)]
    assert all(moment.captured_ns is None for moment in moments)
    assert len({moment.motion.rotation.tobytes() for moment in moments}) == 3
    assert pipeline.source_age_s(time.monotonic_ns() + 10**10) == 0.0
    assert pipeline.notice(time.monotonic_ns() + 10**10) is None
    pipeline.close()


class _Spoken:
    """Gives what is put into `waiting`."""

    live, ended = True, False

    def __init__(self):
        self.waiting, self.closed = [], False

    def read(self, timeout_s=1.0):
        time.sleep(0.002)
        return self.waiting.pop(0) if self.waiting else None

    def close(self):
        self.closed = True


def test_a_source_that_falls_silent_is_left_for_idle_motion_and_taken_up_again():
    clock, source = _Clock(), _Spoken()
    pipeline = Pipeline(source, clock_ns=clock)
    source.waiting.append(_code(clock.now_ns, 0.8))
    _until(lambda: pipeline._state is not None)  # asked for before, the head would idle and this clock would keep it there
    assert pipeline.at(clock.now_ns).motion.weights[JAW] == pytest.approx(0.8, abs=0.01)
    clock.sleep(0.29)
    pipeline.at(clock.now_ns)
    assert not pipeline.idling
    jaws = []
    for _ in range(120):
        clock.sleep(1 / 60)
        jaws.append(float(pipeline.at(clock.now_ns).motion.weights[JAW]))
    assert pipeline.idling and jaws[-1] == 0
    assert max(-np.diff([0.8, *jaws])) < 0.03
    assert pipeline.notice(clock.now_ns) is None
    clock.sleep(3.0)
    assert pipeline.notice(clock.now_ns) == "no motion for 5 s: the head idles"
    pipeline.at(clock.now_ns)
    source.waiting.append(_code(clock.now_ns, 0.6))
    _until(lambda: pipeline.received == 2 and pipeline.source_age_s(clock.now_ns) == 0)
    back = []
    for index in range(30):
        clock.sleep(1 / 60)
        source.waiting.append(_code(clock.now_ns, 0.6))
        _until(lambda index=index: pipeline.received == 3 + index and pipeline.source_age_s(clock.now_ns) == 0)
        back.append(float(pipeline.at(clock.now_ns).motion.weights[JAW]))
    assert not pipeline.idling and pipeline.notice(clock.now_ns) is None
    assert max(np.diff([0.0, *back])) < 0.08 and back[-1] > 0.5
    pipeline.close()


def test_a_source_that_fails_is_heard_of_where_the_head_is_drawn():
    pipeline = Pipeline(_Unplugged(fail_after=3))

    def failed():
        try:
            pipeline.at(time.monotonic_ns())
        except InputError as error:
            return "unplugged" in str(error)
        return False

    _until(failed)
    pipeline.close()


def _sensors(monkeypatch, chips):
    module = SimpleNamespace(
        sensors_temperatures=lambda: {
            chip: [SimpleNamespace(label=label, current=value) for label, value in entries] for chip, entries in chips.items()
        }
    )
    monkeypatch.setitem(sys.modules, "psutil", module)


def test_the_sensor_nearest_to_its_limit_counts(monkeypatch):
    chips = {"coretemp": [("Core 0", 61.0), ("Core 1", 63.5)], "nvme": [("", 255.0)], "skin": [("front", 39.0)]}
    _sensors(monkeypatch, chips | {"amdgpu": [("edge", 82.0)]})
    assert hottest({"skin": 0}) == Reading("skin front", 39.0, 0)
    assert hottest({"": 0}).celsius == 82.0
    assert hottest({"skin": 0, "gpu": 40}) == Reading("amdgpu edge", 82.0, 40)
    assert hottest({"skin": 0, "gpu": 50}).name == "skin front"
    assert hottest({"CORE 0": 0}).celsius == 61.0
    assert hottest({"nouveau": 0}) is None and hottest({}) is None


def test_by_default_a_warm_cpu_is_no_hot_machine(monkeypatch):
    sensors = read_config().sensors
    _sensors(monkeypatch, {"coretemp": [("Package id 0", 78.0)], "k10temp": [("Tctl", 85.0)], "nvme": [("Composite", 60.0)]})
    assert hottest(sensors) is None
    _sensors(monkeypatch, {"coretemp": [("Package id 0", 78.0)], "BAT0": [("", 46.0)]})
    assert hottest(sensors).as_skin_c == 46.0
    _sensors(monkeypatch, {"amdgpu": [("edge", 70.0)]})
    assert hottest(sensors).as_skin_c < 45.0


def test_a_machine_without_sensors_tells_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace())
    assert hottest({"": 0}) is None


def test_resident_memory_grows_with_what_is_held():
    """In a fresh process: in a long one the allocator may serve the array from memory that it already holds."""
    script = (
        "from avatar3d.runtime.sensors import resident_mb; before = resident_mb(); held = bytearray(b'x') * 64_000_000; "
        "print(resident_mb() - before)"
    )
    grown_mb = float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    assert 0.8 * 64 < grown_mb < 2.5 * 64
