"""The trace of a live head: what each thread did, with latencies, in the form that browsers' trace viewers read."""

from __future__ import annotations

import json
import time

import pytest

from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.runtime.pipeline import Pipeline
from avatar3d.runtime.replay import Replay
from avatar3d.runtime.trace import MAX_EVENTS, Trace


def test_spans_are_written_by_thread_in_microseconds(tmp_path):
    trace = Trace()
    trace.add("render", "draw", 5_000, 9_000, latency_ms=3.0)
    trace.add("capture", "capture", 1_000, 2_000)
    path = tmp_path / "trace.json"
    trace.write(path)
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = [(names[e["tid"]], e["name"], e["ts"], e["dur"], e["args"]) for e in events if e["ph"] == "X"]
    assert spans == [("capture", "capture", 1.0, 1.0, {}), ("render", "draw", 5.0, 4.0, {"latency_ms": 3.0})]
    with pytest.raises(InputError):
        trace.write(tmp_path / "missing" / "trace.json")


def test_a_long_show_keeps_the_newest_spans_only():
    trace = Trace()
    for number in range(MAX_EVENTS + 10):
        trace.add("render", "draw", number, number)
    events = trace.to_json()["traceEvents"]
    assert len(events) == MAX_EVENTS + 1
    assert events[1]["ts"] == 0.01


def test_a_pipeline_stamps_each_code_on_its_way_through_both_threads():
    trace = Trace()
    pipeline = Pipeline(Replay([MotionCode(time_ns=n * 10_000_000) for n in range(20)]), trace=trace)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and sum(span[1] == "filter" for span in trace._spans) < 3:
        time.sleep(0.01)
    pipeline.close()
    events = [event for event in trace.to_json()["traceEvents"] if event["ph"] == "X"]
    captured = {event["args"]["sequence"]: event for event in events if event["name"] == "capture"}
    filtered = [event for event in events if event["name"] == "filter"]
    assert len(filtered) >= 3
    for event in filtered:
        handed_over = captured[event["args"]["sequence"]]
        assert event["ts"] + event["dur"] >= handed_over["ts"] + handed_over["dur"]
