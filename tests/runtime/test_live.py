"""Live heads, whatever shows them: the stage is set once, heads are posed for a display time, and what was drawn is counted."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.offscreen import SrgbTarget
from avatar3d.runtime.cast import Cast, Role
from avatar3d.runtime.governor import RUNGS, read_config
from avatar3d.runtime.live import LiveHeads, StageSettings
from avatar3d.runtime.pipeline import Pipeline
from avatar3d.runtime.placement import Placement
from avatar3d.runtime.views import EyeView
from tests.make_avatar import synthetic_avatar

SIZE = 48
SETTINGS = StageSettings(width=SIZE, height=SIZE, eyes=2, background=(0.0, 0.0, 0.0, 1.0), distance_m=0.8)
VIEWS = [EyeView((0, 0, 0, 1), (side * 0.0315, 0.0, 0.8), (-0.6, 0.6, 0.6, -0.6)) for side in (-1, 1)]
LATER_NS = 60_000_000_000
PERIOD_MS = 1e5  # however slow this machine is, the best rung fits


class Talking:
    """A source that gave one code."""

    ended = False

    def __init__(self) -> None:
        self._code: MotionCode | None = MotionCode.from_expression({"jawOpen": 0.5})

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        code, self._code = self._code, None
        if code is None:
            time.sleep(timeout_s)
            return None
        return replace(code, time_ns=time.monotonic_ns())

    def close(self) -> None:
        self.ended = True


@pytest.fixture(scope="module")
def live(context):
    heads = LiveHeads(Cast([Role(synthetic_avatar(index), Pipeline(None, seed=index)) for index in range(2)]), read_config())
    heads.set_stage(context, SETTINGS)
    heads.stage.placement = Placement(np.eye(3), np.zeros(3))
    heads.begin(PERIOD_MS)
    yield heads
    heads.close()
    heads.cast.close()
    assert not heads.is_set


def test_what_is_not_set_yet_is_reported_as_such() -> None:
    heads = LiveHeads(Cast([Role(synthetic_avatar(), Pipeline(None))]), read_config())
    report = heads.report()
    assert not heads.is_set and report["drawing"]["source"] == "default" and report["layered"] is False
    assert (report["frames"], report["rendered"], report["heads"]) == (0, 0, 1)
    assert all(value is None for costs in report["measured_ms"].values() for value in costs.values())


def test_every_level_is_measured_and_the_best_that_fits_is_taken(live: LiveHeads) -> None:
    measured = live.report()["measured_ms"]
    assert all(value > 0 for costs in measured.values() for value in costs.values())
    assert RUNGS[live.level.rung] == "live" and live.level.scale == 1


def test_heads_are_posed_alike_for_both_eyes_and_drawn_frames_are_counted(live: LiveHeads, context) -> None:
    target = SrgbTarget(context, 2 * SIZE, SIZE)
    for frame in range(3):
        posed = live.pose(time.monotonic_ns(), None, overlay=True)
        cameras = live.stage.whole(VIEWS, SIZE, SIZE)
        live.stage.draw(posed.scenes, cameras, [target.framebuffer] * 2, live.level, [(0, 0), (SIZE, 0)])
        live.drawn(posed, draw_ms=2.0, time_s=float(frame))
    pixels = np.frombuffer(target.framebuffer.read(components=3), np.uint8).reshape(SIZE, 2 * SIZE, 3)
    target.release()
    assert all((eye.max(-1) > 0).mean() > 0.05 for eye in (pixels[:, :SIZE], pixels[:, SIZE:]))
    report = live.report()
    assert report["rendered"] == 3 == sum(report["rungs"].values()) and report["draw_ms_p50"] == 2.0
    assert live.stage.lines and live.stage.lines[0].startswith("live")


def test_a_change_reaches_every_head(live: LiveHeads) -> None:
    posed = live.pose(time.monotonic_ns(), None, overlay=False, change=lambda code: code.with_weights(np.full(52, 0.25)))
    assert [scene.motion.weights.tolist() for scene in posed.scenes] == [[0.25] * 52] * 2
    assert posed.motions[0] is posed.scenes[0].motion
    assert posed.expression_ms is None and posed.source_age_ms is None  # nobody was captured


def test_latencies_are_told_where_there_is_a_source(context) -> None:
    spoken = LiveHeads(Cast([Role(synthetic_avatar(), Pipeline(Talking(), silent_s=60.0))]), read_config())
    spoken.set_stage(context, SETTINGS)
    deadline = time.monotonic() + 30
    while spoken.pose(time.monotonic_ns(), None, overlay=False).captured_ns is None and time.monotonic() < deadline:
        time.sleep(0.01)
    posed = spoken.pose(time.monotonic_ns() + LATER_NS, None, overlay=False)
    assert posed.expression_ms is not None and posed.source_age_ms is not None
    assert LATER_NS / 2e6 < posed.expression_ms - posed.source_age_ms <= LATER_NS / 1e6 and posed.prepare_ms > 0
    spoken.close()
    spoken.cast.close()
