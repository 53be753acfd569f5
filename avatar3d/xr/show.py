"""The loop that shows a live head in a headset: one predicted display time for motion, gaze and eyes, the eyes located last."""

from __future__ import annotations

import gc
import json
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.errors import InputError, WorkError
from avatar3d.media import save_picture
from avatar3d.motion.code import MotionCode
from avatar3d.runtime.governor import RUNGS, Change, GovernorConfig, GovernorState, Observation, start, step
from avatar3d.runtime.pipeline import Pipeline
from avatar3d.runtime.sensors import hottest_c, resident_mb
from avatar3d.xr.graphics import Graphics
from avatar3d.xr.openxr import RuntimeGone
from avatar3d.xr.placement import DEFAULT_DISTANCE_M, avatar_ipd_m, check_distance, in_front_of
from avatar3d.xr.session import FrameTiming, HeadsetSession, SessionOptions
from avatar3d.xr.stage import Stage
from avatar3d.xr.views import eye_distance_m

IDLE_S = 0.01  # between two looks at the runtime's events while it shows nothing
SENSOR_EVERY_S = 1.0  # temperatures move slowly, and reading them costs a millisecond
RECONNECT_EVERY_S = 0.5
NOT_READY_S = 30.0  # with a number of frames asked for, a headset that lies on the table ends in an error, not in a long wait
MAX_SAMPLES = 200_000  # of each latency; over half an hour at 90 Hz


@dataclass(frozen=True)
class ShowOptions:
    """What to show and for how long.

    frames: to show, None until the session ends. distance_m, height_m: of the head's eyes from the viewer's. rung: keep to
    this rung, None for the governor. reconnect_s: how long to wait for a runtime that ended. keep_views: folder for the last
    pictures of both eyes and their cameras.
    """

    session: SessionOptions = field(default_factory=SessionOptions)
    frames: int | None = None
    distance_m: float = DEFAULT_DISTANCE_M
    height_m: float = 0.0
    rung: str | None = None
    reconnect_s: float = 20.0
    keep_views: Path | None = None

    def __post_init__(self) -> None:
        check_distance(self.distance_m)
        if self.frames is not None and self.frames < 1:
            raise InputError(f"--frames {self.frames} is less than one frame")
        if self.rung is not None and self.rung not in RUNGS:
            raise InputError(f"unknown rung {self.rung!r}; expected one of {', '.join(RUNGS)}")


@dataclass
class Tally:
    """What is counted while frames are shown."""

    frames: int = 0
    rendered: int = 0
    late: int = 0
    untracked: int = 0
    reconnects: int = 0
    rungs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RUNGS, 0))
    changes: list[Change] = field(default_factory=list)
    head_latency_ms: list[float] = field(default_factory=list)
    expression_latency_ms: list[float] = field(default_factory=list)
    draw_ms: list[float] = field(default_factory=list)
    prepare_ms: list[float] = field(default_factory=list)
    shown_s: float = 0.0  # time in which frames were shown, gaps between sessions left out
    timed: int = 0  # frames in that time
    rss_mb: list[float] = field(default_factory=list)  # one a second


class Show:
    """One avatar, its motion and its quality over one or more sessions. `run` returns what `--json` prints."""

    def __init__(self, avatar: Avatar, pipeline: Pipeline, config: GovernorConfig, options: ShowOptions) -> None:
        self._avatar, self._pipeline, self._config, self._options = avatar, pipeline, config, options
        self._tally = Tally()
        self._graphics: Graphics | None = None
        self._stage: Stage | None = None
        self._governor: GovernorState | None = None
        self._started_s = time.monotonic()
        self._sensor_s = -SENSOR_EVERY_S
        self._temperature_c: float | None = None
        self._too_hot = False
        self._period_ns = 0
        self._facts: dict[str, Any] = {}
        self._costs: tuple[float | None, ...] = (None,) * len(RUNGS)

    def run(self) -> dict[str, Any]:
        """Show the head until the frames are over, the session ends or Ctrl-C; raises WorkError where that cannot be."""
        try:
            while not self._show_session():
                pass
        except KeyboardInterrupt:
            if self._options.frames is not None:
                raise
        finally:
            self.close()
        return self._report()

    def close(self) -> None:
        """Free the GL objects."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None
        if self._graphics is not None:
            self._graphics.close()
            self._graphics = None

    def _show_session(self) -> bool:
        """One session to its end; False when the runtime went away under it and another try is due."""
        try:
            with self._open() as session:
                self._graphics = session.graphics
                self._set_stage(session)
                gc.collect()
                gc.freeze()  # a full collection would walk the avatar and cost a frame or more
                try:
                    self._frames(session)
                except KeyboardInterrupt:
                    session.request_exit()
                    raise
                if not session.ended:
                    session.request_exit()
                return True
        except RuntimeGone:
            self._tally.reconnects += 1
            if self._options.reconnect_s <= 0:
                raise
            return False

    def _open(self) -> HeadsetSession:
        """A session; after an outage, tries go on for `reconnect_s`."""
        if self._tally.reconnects == 0:
            return HeadsetSession(self._options.session)
        deadline = time.monotonic() + self._options.reconnect_s
        while True:
            try:
                return HeadsetSession(self._options.session, self._graphics)
            except WorkError as error:
                if time.monotonic() > deadline:
                    raise WorkError(
                        f"the OpenXR runtime ended and did not come back within {self._options.reconnect_s:g} s ({error})"
                    ) from error
            time.sleep(RECONNECT_EVERY_S)

    def _set_stage(self, session: HeadsetSession) -> None:
        """Load the avatar at the first session, and say what was found at each."""
        if self._stage is None:
            # Black is what a compositor shows where an eye's view holds no picture.
            background = (0.0, 0.0, 0.0, 0.0 if self._options.session.passthrough else 1.0)
            self._stage = Stage(self._avatar, session.graphics, self._config, background)
            self._costs = self._stage.measure(session.width, session.height, self._options.distance_m)
        self._facts = {
            "runtime": session.runtime,
            "system": session.system,
            "binding": session.graphics.kind,
            "gl_renderer": self._stage.gl_renderer,
            "size": [session.width, session.height],
            "arrays": session.uses_arrays,
            "depth_layer": session.gives_depth,
        }
        self._governor = None

    # --- frames

    def _frames(self, session: HeadsetSession) -> None:
        last: FrameTiming | None = None
        self._period_ns = round(1e9 / session.hz) if session.hz else 0
        waiting_since = time.monotonic()
        began_s: float | None = None
        counted = self._tally.rendered
        try:
            while self._options.frames is None or self._tally.frames < self._options.frames:
                session.poll()
                if session.ended:
                    return
                if not session.running:
                    last = None
                    if self._options.frames is not None and time.monotonic() - waiting_since > NOT_READY_S:
                        raise WorkError(f"{session.runtime} showed nothing for {NOT_READY_S:g} s; put the headset on")
                    time.sleep(IDLE_S)
                    continue
                waiting_since = time.monotonic()
                if session.take_recentered() and self._stage is not None:
                    self._stage.placement = None
                timing = session.wait_frame()
                if not session.hz and last is not None:  # no rate was told: the shortest period is the display's
                    self._period_ns = min(self._period_ns or timing.period_ns, timing.period_ns)
                rendered, draw_ms = self._frame(session, timing)
                now_s = time.monotonic()
                if rendered:
                    # A runtime may slow its pace down to ours: a frame is late when the display had time for two.
                    late = last is not None and timing.display_ns - last.display_ns > 1.5 * self._period_ns
                    self._observe(session, timing, draw_ms, late, now_s)
                    began_s = now_s if began_s is None else began_s
                    last = timing
                else:
                    last = None
        finally:
            if began_s is not None:
                self._tally.shown_s += time.monotonic() - began_s
                self._tally.timed += self._tally.rendered - counted - 1

    def _frame(self, session: HeadsetSession, timing: FrameTiming) -> tuple[bool, float]:
        """One frame from begin to end: (whether it was drawn, drawing time in ms)."""
        stage, tally = self._stage, self._tally
        assert stage is not None
        session.begin_frame()
        tally.frames += 1
        if not timing.should_render:
            session.end_frame(timing, None)
            return False, 0.0
        if self._governor is None:
            self._governor = self._start_governor(timing)
        rung = self._governor.rung
        size = stage.drawn_size(rung, session.width, session.height)
        started = time.perf_counter()
        moment = self._pipeline.at(timing.display_ns)
        scene = stage.prepare(moment.motion)
        prepared = time.perf_counter()
        framebuffers = session.acquire()
        acquired = time.perf_counter()
        views = session.locate(timing)
        located_ns = time.monotonic_ns()
        if views is None:
            tally.untracked += 1
            session.release()
            session.end_frame(timing, None)
            return False, 0.0
        if stage.placement is None:
            stage.placement = in_front_of(views, self._options.distance_m, self._options.height_m)
            self._facts["viewer_ipd_mm"] = round(eye_distance_m(views) * 1000, 2)
        cameras = stage.cameras(scene, views, *size)
        session.clear_around(framebuffers, cameras, stage.background)
        seen = [(camera, target) for camera, target in zip(cameras, framebuffers, strict=True) if camera is not None]
        stage.draw(scene, [camera for camera, _ in seen], [target for _, target in seen], rung)
        session.graphics.context.finish()
        done = time.perf_counter()
        if self._options.keep_views is not None and tally.frames == self._options.frames:
            _keep_views(self._options.keep_views, seen, moment.motion, self._config, RUNGS[rung])
        session.release()
        session.end_frame(timing, cameras)
        tally.rendered += 1
        tally.rungs[RUNGS[rung]] += 1
        draw_ms = (done - acquired + prepared - started) * 1e3
        if len(tally.draw_ms) < MAX_SAMPLES:
            tally.draw_ms.append(draw_ms)
            tally.prepare_ms.append((prepared - started) * 1e3)
            tally.head_latency_ms.append((timing.display_ns - located_ns) / 1e6)
            if moment.captured_ns is not None:
                tally.expression_latency_ms.append((timing.display_ns - moment.captured_ns) / 1e6)
        return True, draw_ms

    def _start_governor(self, timing: FrameTiming) -> GovernorState:
        assert self._stage is not None
        now_s = time.monotonic()
        state = start(self._stage.available, self._costs, (self._period_ns or timing.period_ns) / 1e6, now_s, self._config)
        if self._options.rung is not None:
            wanted = RUNGS.index(self._options.rung)
            if not self._stage.available[wanted]:
                raise InputError(f"this avatar lacks the rung {self._options.rung}; enrol it with its field")
            state = replace(state, rung=wanted)
        return state

    def _observe(self, session: HeadsetSession, timing: FrameTiming, draw_ms: float, late: bool, now_s: float) -> None:
        """Tell the governor how the frame went, and read the sensors now and then."""
        assert self._governor is not None
        self._tally.late += late
        if now_s - self._sensor_s >= SENSOR_EVERY_S:
            self._sensor_s = now_s
            self._temperature_c = hottest_c(self._config.sensors)
            self._too_hot = session.too_hot()
            self._tally.rss_mb.append(resident_mb())
        if self._options.rung is not None:
            return
        seen = Observation(
            time_s=now_s,
            draw_ms=draw_ms,
            period_ms=(self._period_ns or timing.period_ns) / 1e6,
            late=late,
            temperature_c=self._temperature_c,
            thermal_notice=self._too_hot,
            source_age_s=self._pipeline.source_age_s(time.monotonic_ns()),
        )
        self._governor = step(self._governor, seen, self._config)
        if self._governor.change is not None:
            self._tally.changes.append(self._governor.change)

    def _report(self) -> dict[str, Any]:
        tally = self._tally
        changes = [{**asdict(change), "time_s": round(change.time_s - self._started_s, 3)} for change in tally.changes]
        causes: dict[str, int] = {}
        for change in tally.changes:
            causes[change.cause] = causes.get(change.cause, 0) + 1
        measured = dict(zip(RUNGS, self._costs, strict=True))
        return {
            **self._facts,
            "hz": round(1e9 / self._period_ns, 2) if self._period_ns else None,
            "frames": tally.frames,
            "rendered": tally.rendered,
            "late": tally.late,
            "untracked": tally.untracked,
            "reconnects": tally.reconnects,
            "fps": round(tally.timed / tally.shown_s, 2) if tally.shown_s > 0 and tally.timed > 0 else 0.0,
            "rungs": tally.rungs,
            "rung_changes": causes,
            "trace": changes[-50:],
            "measured_ms": {name: None if cost is None else round(cost, 2) for name, cost in measured.items()},
            "draw_ms_p50": _percentile(tally.draw_ms, 50),
            "draw_ms_p95": _percentile(tally.draw_ms, 95),
            "prepare_ms_p50": _percentile(tally.prepare_ms, 50),
            "head_latency_ms_p50": _percentile(tally.head_latency_ms, 50),
            "head_latency_ms_p95": _percentile(tally.head_latency_ms, 95),
            "expression_latency_ms_p50": _percentile(tally.expression_latency_ms, 50),
            "expression_latency_ms_p95": _percentile(tally.expression_latency_ms, 95),
            "motion": {"received": self._pipeline.received, "dropped": self._pipeline.dropped},
            "avatar_ipd_mm": round(avatar_ipd_m(self._avatar) * 1000, 2),
            "distance_m": self._options.distance_m,
            "temperature_c": self._temperature_c,
            "rss_mb": round(resident_mb(), 1),
            "rss_mb_over_time": [round(value, 1) for value in _thinned(tally.rss_mb, 12)],
        }


def _percentile(values: list[float], share: float) -> float | None:
    return round(float(np.percentile(values, share)), 2) if values else None


def _thinned(values: list[float], count: int) -> list[float]:
    if len(values) <= count:
        return values
    return [values[int(index)] for index in np.linspace(0, len(values) - 1, count)]


def _keep_views(folder: Path, seen: list[tuple[Camera, Any]], motion: MotionCode, config: GovernorConfig, rung: str) -> None:
    """Write what each eye was given as PNG, and views.json with the cameras (avatar frame), motion and rung of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for camera, framebuffer in seen:
        area = (0, 0, camera.width, camera.height)
        pixels = np.frombuffer(framebuffer.read(viewport=area, components=3, alignment=1), np.uint8)
        save_picture(folder / f"{camera.name}.png", pixels.reshape(camera.height, camera.width, 3)[::-1])
    facts = {
        "rung": rung,
        **asdict(config.rungs[rung]),
        "motion": motion.to_json(),
        "cameras": [{**camera.to_json(), "near": camera.near_m, "far": camera.far_m} for camera, _ in seen],
    }
    (folder / "views.json").write_text(json.dumps(facts), encoding="utf-8")
