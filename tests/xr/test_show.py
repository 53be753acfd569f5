"""The loop of the headset against a runtime that is played: rungs by cause, lateness, latencies, recentering, an outage."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from avatar3d.errors import InputError, WorkError
from avatar3d.motion.code import MotionCode
from avatar3d.runtime import ladder as ladder_module
from avatar3d.runtime import statistics as statistics_module
from avatar3d.runtime.cast import Cast, Role
from avatar3d.runtime.governor import RUNGS, read_config
from avatar3d.runtime.pipeline import Pipeline
from avatar3d.runtime.placement import Placement
from avatar3d.runtime.stage import Stage
from avatar3d.runtime.trace import Trace
from avatar3d.runtime.views import EyeView
from avatar3d.xr import show as show_module
from avatar3d.xr.graphics import Graphics
from avatar3d.xr.openxr import RuntimeGone
from avatar3d.xr.options import ShowOptions
from avatar3d.xr.show import Show
from avatar3d.xr.timing import FrameTiming
from tests.make_avatar import synthetic_avatar

PERIOD_NS = 60_000_000_000  # a minute a frame: however slow this machine is, drawing fits
ANGLES = (-0.7, 0.7, 0.7, -0.7)
DRAW = Stage.draw
TURNED = (0.0, np.sin(0.05), 0.0, np.cos(0.05))  # a gaze to the left by 0.1 rad
STEPS = ("prepare", "wait", "draw")


class PlayedSession:
    """What HeadsetSession does, with a display whose clock jumps by `steps` periods a frame (1, then 1 for ever)."""

    width, height, eyes, hz = 48, 40, 2, 1 / 60
    runtime, system, uses_arrays, gives_depth, reads_face, hand = "played", "none", True, False, False, None
    wearer_extensions, ago_ns = (), 0
    layers = uses_masks = False
    warnings = ()
    eyes = space_warp = None

    def __init__(self, context, steps=(), gone_after=None, recenter_at=None, hot_from=None, position=(0.0, 0.0, 0.0)):
        self.graphics = Graphics("played", context, "none", lambda: None)
        self.graphics.close = lambda: None
        self.running, self.ended = True, False
        self.shown: list[list | None] = []
        self.calls: list[str] = []
        self._steps, self._gone_after, self._recenter_at, self._hot_from = list(steps), gone_after, recenter_at, hot_from
        self._position = position
        self._display_ns: int | None = None  # set by the first frame: until then shaders compile
        depth = context.depth_renderbuffer((48, 40))
        self._targets = [context.framebuffer([context.texture((48, 40), 4)], depth) for _ in range(2)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def poll(self):
        if self._gone_after is not None and len(self.shown) >= self._gone_after:
            raise RuntimeGone("the runtime ended")

    def take_recentered(self):
        return len(self.shown) == self._recenter_at

    def too_hot(self):
        return self._hot_from is not None and len(self.shown) >= self._hot_from

    def wait_frame(self):
        self._display_ns = self._display_ns or time.monotonic_ns() + PERIOD_NS
        self._display_ns += PERIOD_NS * (self._steps.pop(0) if self._steps else 1)
        return FrameTiming(self._display_ns, self._display_ns - self.ago_ns, PERIOD_NS, len(self.shown) > 0)

    def begin_frame(self):
        self.calls = ["begin"]

    def acquire(self):
        self.calls.append("acquire")
        return self._targets

    def clear_around(self, framebuffers, cameras, background):
        self.calls.append("clear")
        for framebuffer in framebuffers:
            framebuffer.clear(*background)

    def locate(self, timing):
        self.calls.append("locate")
        x, y, z = self._position
        return [EyeView((0, 0, 0, 1), (x + side * 0.0315, y, z), ANGLES) for side in (-1, 1)]

    def hidden(self, cameras):
        return [None] * len(cameras)

    def layered(self):
        return None

    def holding(self, timing):
        return self.hand

    def gaze(self, timing):
        return self.eyes

    def face(self, timing, gaze=None):
        return None

    def release(self):
        self.calls.append("release")

    def end_frame(self, timing, cameras):
        self.calls.append("end")
        self.shown.append(cameras)

    def request_exit(self):
        self.ended = True


@pytest.fixture
def play(monkeypatch, context):
    """play(sessions, frames, source) → (result, the Show)."""
    monkeypatch.setattr(ladder_module, "SENSOR_EVERY_S", 0.0)
    monkeypatch.setattr(show_module, "RECONNECT_EVERY_S", 0.01)

    def run(sessions, frames=12, source=None, heads=1, eye_contact=False, scale=None, **options):
        waiting = list(sessions)
        monkeypatch.setattr(show_module, "HeadsetSession", lambda *_: waiting.pop(0) if waiting else _no_runtime())
        pipelines = [Pipeline(source) for _ in range(heads)]
        if source is not None:
            source.pipeline = pipelines[0]
        cast = Cast([Role(synthetic_avatar(index), pipeline, eye_contact) for index, pipeline in enumerate(pipelines)])
        config = replace(read_config(), settle_frames=0)
        shown = Show(cast, config if scale is None else config.at_scale(scale), ShowOptions(frames=frames, **options))
        monkeypatch.setattr(statistics_module, "EVERY_S", 0.0)

        def watched(stage, *arguments):
            shown._overlaid, shown._toward = list(stage.lines), arguments[-1]
            return DRAW(stage, *arguments)

        monkeypatch.setattr(Stage, "draw", watched)
        deadline = time.monotonic() + 60  # the frames fly by: the source has spoken before
        while source is not None and pipelines[0]._state is None and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            return shown.run(), shown
        finally:
            cast.close()

    return run


def _no_runtime():
    raise WorkError("no runtime")


def test_the_eyes_are_located_last_and_every_frame_is_ended(play, context):
    session = PlayedSession(context)
    result, _ = play([session])
    assert session.calls == ["begin", "acquire", "locate", "clear", "release", "end"]
    # The first frame of a session is not to be rendered: it is ended with nothing in it.
    assert len(session.shown) == 12 and session.shown[0] is None
    assert (result["frames"], result["rendered"], result["late"], result["reconnects"]) == (12, 11, 0, 0)
    assert result["hz"] == 0.02 and result["runtime"] == "played" and result["cpu_ms_per_frame"] > 0
    assert sum(result["rungs"].values()) == 11
    left, right = session.shown[-1]
    assert np.linalg.norm(left.center - right.center) == pytest.approx(0.063)


def test_a_hot_sensor_leads_to_reduced_within_two_frames(play, context, monkeypatch):
    hot = SimpleNamespace(
        sensors_temperatures=lambda: {"skin": [SimpleNamespace(label="front", current=46.0)]},
        Process=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "psutil", hot)
    result, _ = play([PlayedSession(context)])
    assert result["rungs"]["live"] + result["rungs"]["baked"] <= 2
    assert result["rungs"]["reduced"] >= 9
    assert result["rung_changes"] == {"hot": 1}
    assert result["temperature_c"] == 46.0


def test_the_runtimes_own_notice_does_the_same(play, context):
    result, _ = play([PlayedSession(context, hot_from=5)])
    assert [(entry["target"], entry["cause"]) for entry in result["trace"]] == [("reduced", "hot")]
    assert result["rungs"]["reduced"] >= 5


def test_four_late_frames_lead_to_the_last_rung_however_quick_drawing_was(play, context):
    result, _ = play([PlayedSession(context, steps=[1, 1, 1, 2, 3, 1, 1])])
    assert result["late"] == 2 and result["rung_changes"] == {}
    result, _ = play([PlayedSession(context, steps=[1, 1, 1, 2, 3, 2, 2, 1, 1])])
    assert result["late"] == 4
    assert result["trace"][0]["cause"] == "late" and result["trace"][0]["target"] == "blendshape"
    assert result["rungs"]["blendshape"] == 5


def test_a_coarser_scale_sees_the_same_and_is_told_everywhere(play, context):
    trace, sessions = Trace(), [PlayedSession(context) for _ in range(2)]
    play(sessions[:1], frames=4, rung="baked")
    result, shown = play(sessions[1:], frames=4, rung="baked", scale=0.5, overlay=True, trace=trace)
    full, half = (session.shown[-1][0] for session in sessions)
    np.testing.assert_allclose(half.intrinsics[[0, 1], [0, 1]], full.intrinsics[[0, 1], [0, 1]] / 2)
    np.testing.assert_allclose(half.center, full.center)
    assert half.width < full.width and half.height < full.height
    assert result["scales"]["baked"] == {"0.5": 3} and list(result["measured_ms"]["baked"]) == ["0.5"]
    assert shown._overlaid[0].startswith("baked ×0.5 ")
    drawn = [event["args"] for event in trace.to_json()["traceEvents"] if event["ph"] == "X" and event["name"] == "draw"]
    assert [figures["scale"] for figures in drawn] == [0.5] * 3


def test_frames_that_are_handed_over_too_late_for_their_display_are_late(play, context):
    session = PlayedSession(context)
    session.ago_ns = 60 * PERIOD_NS  # the display was an hour ago
    result, _ = play([session], frames=5)
    assert result["late"] == result["rendered"] == 4


class _Stalled:
    """A source that spoke once, a second ago."""

    live, ended = True, False

    def __init__(self):
        self._given = False

    def read(self, timeout_s=1.0):
        if self._given:
            time.sleep(min(timeout_s, 0.02))
            return None
        self._given = True
        return MotionCode(time_ns=time.monotonic_ns() - 1_000_000_000)

    def close(self):
        pass


def test_a_stalled_source_changes_no_rung_and_both_latencies_are_told(play, context):
    result, shown = play([PlayedSession(context)], frames=40, source=_Stalled())
    assert shown.live.ladder.state.silent
    assert result["rung_changes"] == {}
    assert result["expression_latency_ms_p95"] - result["head_latency_ms_p95"] > 900
    assert 900 < result["source_age_ms_p50"] < result["expression_latency_ms_p50"]


def test_a_pinned_rung_stays_whatever_happens(play, context):
    result, _ = play([PlayedSession(context, steps=[1, 3, 3, 3], hot_from=0)], rung="baked")
    assert result["rungs"]["baked"] == result["rendered"] == 11


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"rung": "best"}, "rung is 'best'; expected one of live, baked"),
        ({"frames": 0}, "frames is 0; expected a whole number from 1"),
        ({"distance_m": 99.0}, "distance_m is 99.0; expected a number from 0.2 to 10 metres"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_a_session_is_opened(option, words):
    with pytest.raises(InputError, match=words):
        ShowOptions(**option)


def test_recentering_brings_the_head_before_the_viewer_again(play, context):
    session = PlayedSession(context, recenter_at=6)
    session._position = (0.0, 1.6, 0.0)
    original = session.end_frame

    def walk(timing, cameras):
        original(timing, cameras)
        if len(session.shown) == 4:
            session._position = (1.0, 1.6, 0.0)

    session.end_frame = walk
    result, _ = play([session])
    assert result["recentered"] == 1
    before, walked, after = (session.shown[index][0] for index in (3, 5, 8))
    # The avatar's frame: after recentering the viewer is where it was at first.
    assert walked is None or abs(walked.center[0] - before.center[0]) > 0.9
    np.testing.assert_allclose(after.center, before.center, atol=1e-6)


def test_a_session_that_is_lost_is_opened_again_and_goes_on(play, context):
    first, second = PlayedSession(context, gone_after=5), PlayedSession(context)
    result, _ = play([first, second], frames=12)
    assert result["reconnects"] == 1 and result["frames"] == 12
    assert len(first.shown) == 5 and len(second.shown) == 7


def test_a_session_that_is_lost_for_good_ends_in_a_sentence(play, context):
    with pytest.raises(WorkError, match=r"did not come back within 0.2 s"):
        play([PlayedSession(context, gone_after=5)], reconnect_s=0.2)


def test_a_head_in_the_viewers_face_is_not_seen(play, context):
    """The viewer walks into the head: what is drawn fades to the background."""
    session = PlayedSession(context)
    original = session.end_frame

    def walk(timing, cameras):
        original(timing, cameras)
        if len(session.shown) == 3:
            session._position = (0.0, 0.0, -0.75)

    session.end_frame = walk
    pictures = []

    def look():
        pictures.append(max(int(np.frombuffer(target.read(), np.uint8).max()) for target in session._targets))

    session.release = look
    play([session], frames=6, distance_m=0.8)
    assert pictures[0] > 50 and pictures[-1] == 0


def test_the_kept_views_are_the_last_pictures(play, context, tmp_path):
    play([PlayedSession(context)], keep_views=tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"left.png", "right.png", "views.json"}


def test_several_heads_meet_the_viewers_eyes(play, context):
    """Both heads look at the viewer, who stands before the left one: the right one's eyes turn to its own right."""
    session = PlayedSession(context, position=(-0.25, 1.6, 0.0))
    original = session.end_frame

    def walk(timing, cameras):
        original(timing, cameras)
        if len(session.shown) == 3:
            session._position = (-0.45, 1.6, 0.0)

    session.end_frame = walk
    result, shown = play([session], heads=2, eye_contact=True)
    assert result["heads"] == 2
    left, right = (role._gaze.angles.mean(axis=0) for role in shown.live.cast.roles)
    assert left[0] == pytest.approx(-0.24, abs=0.09) and right[0] == pytest.approx(-0.24, abs=0.09)


def test_the_panel_tells_of_a_silent_source_unasked_and_of_figures_when_asked(play, context):
    _, shown = play([PlayedSession(context)], frames=4, overlay=True)
    assert shown._overlaid[0].startswith(("live", "baked"))
    _, shown = play([PlayedSession(context)], frames=4)
    assert shown._overlaid == []
    old = _Stalled()
    old.read = lambda timeout_s=1.0: time.sleep(0.01) or MotionCode(time_ns=time.monotonic_ns() - 9_000_000_000)
    _, shown = play([PlayedSession(context)], frames=40, source=old)
    (line,) = shown._overlaid
    told = re.fullmatch(r"no motion for (\d+) s: the head idles", line)
    assert told is not None and int(told.group(1)) >= 9


class _Unplugged(_Stalled):
    """A camera that gave one frame."""

    def read(self, timeout_s=1.0):
        if self._given:
            raise WorkError("camera 0 gives no more frames; plug it in again, or close the program that uses it")
        return super().read(timeout_s)


def test_a_source_that_fails_ends_no_session_and_is_told(play, context):
    session, source = PlayedSession(context), _Unplugged()
    original = session.end_frame

    def wait(timing, cameras):
        original(timing, cameras)
        deadline = time.monotonic() + 60
        while source.pipeline.failures == 0 and time.monotonic() < deadline:
            time.sleep(0.01)

    session.end_frame = wait
    result, shown = play([session], frames=8, source=source)
    assert result["rendered"] == 7
    assert result["motion"]["failures"] == 1 and result["motion"]["problem"].startswith("camera 0 gives no more frames")
    # The panel says the whole sentence, over several lines.
    assert len(shown._overlaid) > 1 and " ".join(shown._overlaid) == result["motion"]["problem"]


def test_a_hand_carries_the_head_and_lets_it_stand(play, context):
    session = PlayedSession(context)
    original = session.end_frame
    hands = {4: (0.0, 0.0, 0.0), 5: (0.3, 0.1, 0.0), 6: (0.6, 0.2, 0.0)}

    def move(timing, cameras):
        original(timing, cameras)
        place = hands.get(len(session.shown))
        session.hand = None if place is None else Placement(np.eye(3), np.array(place))

    session.end_frame = move
    _, shown = play([session], frames=10)
    centres = [None if cameras is None else cameras[0].center for cameras in session.shown]
    # The head went to the right and up: the viewer stands to its left, and lower.
    np.testing.assert_allclose(centres[3] - centres[6], [0.6, 0.2, 0.0], atol=1e-6)
    np.testing.assert_allclose(centres[9], centres[6], atol=1e-9)


def test_a_trace_holds_the_steps_of_each_frame_with_their_latencies(play, context):
    trace = Trace()
    result, _ = play([PlayedSession(context)], frames=5, trace=trace)
    events = [event for event in trace.to_json()["traceEvents"] if event["ph"] == "X" and event["name"] in STEPS]
    assert [event["name"] for event in events] == list(STEPS) * result["rendered"]
    assert result["rendered"] >= 4
    for before, after in pairwise(events):
        assert after["ts"] >= before["ts"] + before["dur"] - 1
    assert all("head_ms" in event["args"] for event in events)
    assert {RUNGS[event["args"]["rung"]] for event in events} == {rung for rung, count in result["rungs"].items() if count}


@pytest.mark.parametrize(
    ("kind", "eyes", "across"),
    [("fixed", TURNED, 0.0), ("gaze", None, 0.0), ("gaze", TURNED, -np.tan(0.1))],
)
def test_the_sharp_part_follows_the_eyes_where_they_are_told(play, context, kind, eyes, across):
    session = PlayedSession(context)
    session.eyes = eyes
    result, shown = play([session], foveation=kind)
    assert result["foveation"] == kind and result["rendered"] == 11
    (left, above), (right, same) = shown._toward
    assert (left + right) / 2 == pytest.approx(across, abs=1e-3)
    assert (above, same) == pytest.approx((0, 0), abs=1e-3)
    # One point of the room for both eyes.
    assert left - right == pytest.approx(0.063 / (0.8 * np.cos(np.arctan(across))), abs=1e-3)
