"""What feeds a live head: the mailbox keeps the newest, a recording plays at its speed, the pipeline foretells; sensors."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from avatar3d.errors import InputError, WorkError
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.csv import write_motion_csv
from avatar3d.runtime import pipeline as pipeline_module
from avatar3d.runtime.governor import read_config
from avatar3d.runtime.mailbox import Mailbox
from avatar3d.runtime.pipeline import Pipeline, retry_after_s
from avatar3d.runtime.replay import Replay, open_live
from avatar3d.runtime.sensors import Reading, hottest
from avatar3d.runtime.trace import Trace

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


class _Broken:
    """Gives `codes` codes, then fails with `error`, or ends where that is None."""

    live = True

    def __init__(self, codes: int, error: Exception | None) -> None:
        self._codes, self._error = codes, error
        self.count, self.ended, self.closed = 0, False, False

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        if self.count < self._codes:
            self.count += 1
            return _code(time.monotonic_ns(), 0.5)
        if self._error is not None:
            raise self._error
        self.ended = True
        return None

    def close(self) -> None:
        self.closed = True


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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WorkError("the camera was unplugged"), "the camera was unplugged"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (OSError("no route\nto host"), "no route"),
        (None, "the motion source ended"),
    ],
)
def test_a_source_that_fails_is_told_and_opened_again_until_it_speaks(monkeypatch, error, words):
    monkeypatch.setattr(pipeline_module, "RETRY_S", 0.0)
    first, second = _Broken(3, error), _Spoken()
    absent, back = 5, threading.Event()  # tries in vain, then the test lets it come back
    tries, trace = [], Trace()

    def reopen():
        tries.append(len(tries))
        if len(tries) <= absent or not back.is_set():
            raise WorkError("no camera")
        return second

    pipeline = Pipeline(first, reopen=reopen, trace=trace)
    _until(lambda: len(tries) > absent)
    assert first.closed and pipeline.received == 3
    # It is said at once, without the wait that a silent source has; nothing is raised where the head is drawn.
    assert pipeline.notice(time.monotonic_ns()) in (f"{words}; trying again", "no camera; trying again")
    pipeline.at(time.monotonic_ns())
    back.set()
    _until(lambda: pipeline.reopened == 1)
    second.waiting.append(_code(time.monotonic_ns(), 0.7))
    _until(lambda: pipeline.problem is None and pipeline.received == 4)
    assert pipeline.failures == len(tries)
    pipeline.close()
    assert second.closed
    failed = [event["args"]["failures"] for event in trace.to_json()["traceEvents"] if event["name"] == "failed"]
    assert failed == list(range(1, len(tries) + 1))


def test_tries_grow_rare_and_never_rarer_than_that():
    waits = [retry_after_s(tries) for tries in range(1, 2000)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0] and set(waits[5:]) == {10.0}


def test_a_source_that_cannot_be_opened_again_leaves_the_head_idling(monkeypatch):
    source = _Broken(2, WorkError("the camera was unplugged"))
    pipeline = Pipeline(source)
    _until(lambda: pipeline.failures == 1 and source.closed)
    assert pipeline.notice(time.monotonic_ns()) == "the camera was unplugged"
    now = time.monotonic_ns()
    pipeline.at(now)
    pipeline.at(now + 10_000_000_000)
    pipeline.close()


def test_a_source_that_refuses_what_it_was_asked_for_at_the_start_is_an_error():
    pipeline = Pipeline(_Broken(0, InputError("no such face")), reopen=lambda: _Spoken())

    def refused():
        try:
            pipeline.at(time.monotonic_ns())
        except InputError as error:
            return "no such face" in str(error)
        return False

    _until(refused)
    pipeline.close()


def test_what_cannot_be_followed_is_counted_and_passed_over(monkeypatch):
    source, smooth = _Spoken(), pipeline_module.smooth

    def fails_at_a_wide_mouth(state, code):
        return smooth(state, code) if code.weights[JAW] < 0.9 else 1 / 0

    monkeypatch.setattr(pipeline_module, "smooth", fails_at_a_wide_mouth)
    pipeline = Pipeline(source)
    source.waiting.append(_code(time.monotonic_ns(), 1.0))
    _until(lambda: pipeline.failures == 1)
    assert "cannot be followed (division by zero)" in pipeline.notice(time.monotonic_ns())
    pipeline.at(time.monotonic_ns())
    source.waiting.append(_code(time.monotonic_ns(), 0.7))
    _until(lambda: pipeline.problem is None)
    pipeline.close()


def test_a_plug_in_that_gives_no_code_has_failed():
    source = _Spoken()
    source.waiting.append(SimpleNamespace(time_ns=time.monotonic_ns(), sequence=0))
    pipeline = Pipeline(source)
    _until(lambda: pipeline.failures == 1)
    assert pipeline.problem == "the motion source gave a SimpleNamespace; expected a MotionCode"
    pipeline.at(time.monotonic_ns())
    pipeline.close()


def test_a_pipeline_that_is_closed_in_mid_retry_closes_what_it_opens(monkeypatch):
    monkeypatch.setattr(pipeline_module, "RETRY_S", 0.0)
    asked, let_go, second = threading.Event(), threading.Event(), _Spoken()

    def reopen():
        asked.set()
        assert let_go.wait(60)
        return second

    pipeline = Pipeline(_Broken(0, None), reopen=reopen)
    assert asked.wait(60)
    threading.Timer(0.05, let_go.set).start()
    pipeline.close()
    _until(lambda: second.closed)


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
