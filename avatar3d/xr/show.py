"""The loop that shows a live head in a headset: one predicted display time for motion, gaze and eyes, the eyes located last."""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.errors import InputError, WorkError
from avatar3d.files import write_bytes
from avatar3d.media import save_picture
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.autotune import Choice, choose
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.foveation import read_foveation
from avatar3d.rendering.scene import Scene
from avatar3d.runtime.cast import Cast
from avatar3d.runtime.governor import RUNGS, GovernorConfig, Level
from avatar3d.runtime.ladder import Ladder
from avatar3d.runtime.placement import DEFAULT_DISTANCE_M, Placement, avatar_ipd_m, carried, check_distance, in_front_of
from avatar3d.runtime.sensors import resident_mb
from avatar3d.runtime.stage import Stage, drawn_size
from avatar3d.runtime.tally import Tally, measured_ms, thinned
from avatar3d.runtime.trace import Trace
from avatar3d.runtime.views import eye_distance_m, looked_at, tangents_of
from avatar3d.text import printable
from avatar3d.xr.graphics import Graphics
from avatar3d.xr.headset import SessionOptions
from avatar3d.xr.openxr import RuntimeGone
from avatar3d.xr.session import HeadsetSession
from avatar3d.xr.timing import FrameTiming
from avatar3d.xr.wearer import Wearer

IDLE_S = 0.01  # between two looks at the runtime's events while it shows nothing
RECONNECT_EVERY_S = 0.5
LATE_END_NS = 2_000_000  # a frame handed over this shortly before its display will not be shown then: compositors draw, too
AHEAD = (0.0, 0.0, 0.0, 1.0)  # gaze of eyes that look where the head does
NOT_READY_S = 30.0  # with a number of frames asked for, a headset that lies on the table ends in an error, not in a long wait


@dataclass(frozen=True)
class ShowOptions:
    """What to show and for how long.

    frames: to show, None until the session ends. distance_m, height_m: of the head's eyes from the viewer's. rung: keep to
    this rung, None for the governor. reconnect_s: how long to wait for a runtime that ended. keep_views: folder for the last
    pictures of both eyes and their cameras. overlay: show figures on a panel. trace: takes spans of each frame. foveation: of
    avatar3d.choices.FOVEATION_KINDS. stereo: of STEREO_CHOICES there. tuning, quiet: see avatar3d.rendering.opengl.autotune.choose.
    """

    session: SessionOptions = field(default_factory=SessionOptions)
    frames: int | None = None
    distance_m: float = DEFAULT_DISTANCE_M
    height_m: float = 0.0
    rung: str | None = None
    reconnect_s: float = 20.0
    keep_views: Path | None = None
    overlay: bool = False
    trace: Trace | None = None
    foveation: str = "none"
    stereo: str = "auto"
    tuning: str = "never"
    quiet: bool = True

    def __post_init__(self) -> None:
        check_distance(self.distance_m)
        if self.frames is not None and self.frames < 1:
            raise InputError(f"--frames {self.frames} is less than one frame")
        if self.rung is not None and self.rung not in RUNGS:
            raise InputError(f"unknown rung {self.rung!r}; expected one of {', '.join(RUNGS)}")


class Show:
    """Heads, their motion and their quality over one or more sessions. `run` returns what `--json` prints."""

    def __init__(self, cast: Cast, config: GovernorConfig, options: ShowOptions, wearer: Wearer | None = None) -> None:
        self._cast, self._config, self._options, self._wearer = cast, config, options, wearer
        self._held: tuple[Placement, Placement] | None = None  # place of the scene and pose of the hand when it took hold
        self._tally = Tally()
        self._ladder = Ladder(config, options.rung)
        self._viewer_m: np.ndarray | None = None  # between the viewer's eyes, in the room, as last located
        self._graphics: Graphics | None = None
        self._stage: Stage | None = None
        self._before: tuple[list[Scene], list[Camera]] | None = None  # what the last frame showed, for motion vectors
        self._choice = Choice(DrawStrategy(), "default")
        self._period_ns = 0
        self._facts: dict[str, Any] = {}
        self._costs: tuple[float | None, ...] = (None,) * len(config.levels)

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
        """Load the avatars at the first session, and say what was found at each."""
        if self._stage is None:
            # Black is what a compositor shows where an eye's view holds no picture.
            background = (0.0, 0.0, 0.0, 0.0 if self._options.session.passthrough else 1.0)
            context, size, options = session.graphics.context, (session.width, session.height), self._options
            self._choice = choose(context, self._cast.avatars[0], *size, 2, options.tuning, options.quiet)
            strategy = (
                self._choice.strategy if options.stereo == "auto" else replace(self._choice.strategy, stereo=options.stereo)
            )
            foveation = None if options.foveation == "none" else read_foveation()
            self._stage = Stage(
                self._cast.avatars, context, self._config, background, options.distance_m, strategy, foveation,
                session.gives_depth, session.layers and strategy.stereo == "layers",
            )  # fmt: skip
            self._costs = self._stage.measure(session.width, session.height)
        self._facts = {
            "runtime": session.runtime,
            "system": session.system,
            "binding": session.graphics.kind,
            "gl_renderer": self._stage.gl_renderer,
            "size": [session.width, session.height],
            "arrays": session.uses_arrays,
            "layered": self._stage.layers,
            "depth_layer": session.gives_depth,
            "visibility_mask": session.uses_masks,
            "foveation": self._options.foveation,
            "space_warp": session.space_warp is not None,
            "reads_face": session.reads_face,
            "wearer_extensions": session.wearer_extensions,
            "drawing": self._choice.to_json(),
            "warnings": session.warnings,
        }
        if not self._options.quiet and self._tally.reconnects == 0:
            for warning in session.warnings:
                print(printable(f"avatar3d: {warning}"), file=sys.stderr)
        self._ladder.state = None

    # --- frames

    def _frames(self, session: HeadsetSession) -> None:
        last: FrameTiming | None = None
        self._period_ns = round(1e9 / session.hz) if session.hz else 0
        waiting_since = time.monotonic()
        began_s: float | None = None
        counted, cpu_s = self._tally.rendered, time.process_time()
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
                    self._tally.recentered += 1
                    if self._wearer is not None:
                        self._wearer.recenter()
                timing = session.wait_frame()
                if not session.hz and last is not None:  # no rate was told: the shortest period is the display's
                    self._period_ns = min(self._period_ns or timing.period_ns, timing.period_ns)
                rendered, draw_ms = self._frame(session, timing)
                ended_ns = time.monotonic_ns()
                now_s = ended_ns / 1e9
                if rendered:
                    # A runtime may slow its pace down to ours: a frame is late too when the display had time for two.
                    late = last is not None and timing.display_ns - last.display_ns > 1.5 * self._period_ns
                    late |= timing.display_ns - ended_ns < LATE_END_NS
                    self._observe(session, timing, draw_ms, late, now_s)
                    began_s = now_s if began_s is None else began_s
                    last = timing
                else:
                    last = None
        finally:
            if began_s is not None:
                self._tally.cpu_s += time.process_time() - cpu_s
                self._tally.shown_s += time.monotonic() - began_s
                self._tally.timed += self._tally.rendered - counted - 1

    def _frame(self, session: HeadsetSession, timing: FrameTiming) -> tuple[bool, float]:
        """One frame from begin to end: (whether it was drawn, drawing time in ms)."""
        stage, tally = self._stage, self._tally
        assert stage is not None
        tally.frames += 1
        if not timing.should_render:
            session.begin_frame()
            session.end_frame(timing, None)
            return False, 0.0
        if self._ladder.state is None:
            self._ladder.begin(stage.available, self._costs, (self._period_ns or timing.period_ns) / 1e6)
        level = self._ladder.level
        size = drawn_size(level.scale, session.width, session.height)
        started, asked_ns = time.perf_counter(), time.monotonic_ns()
        told = [
            role.motion(timing.display_ns, None if self._viewer_m is None else stage.viewer_in_head(index, self._viewer_m))
            for index, role in enumerate(self._cast.roles)
        ]
        motion, captured_ns = told[0]
        scenes = stage.prepare([code for code, _ in told])
        lines = tally.lines(self._ladder, self._cast, self._options.overlay)
        stage.lines = stage.lines if lines is None else lines
        prepared = time.perf_counter()
        hand = session.holding(timing)
        session.begin_frame()  # after what is not drawing: runtimes time both parts, and pace the frames by the longer one
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
        stage.placement = self._carry(stage.placement, hand)
        follows = self._options.foveation == "gaze"
        gaze = session.gaze(timing) if follows or self._wearer is not None else None
        if self._wearer is not None:
            self._wearer.tell(views, session.face(timing, gaze), gaze)
        self._viewer_m = np.mean([view.position for view in views], axis=0)
        warp = session.space_warp
        # Motion is told of whole views: a frustum that is cut anew each time would be taken for movement.
        cameras = stage.cameras(scenes, views, *size) if warp is None else stage.whole(views, *size)
        session.clear_around(framebuffers, cameras, stage.background)
        unseen = session.hidden(cameras)
        seen = [
            (camera, target, hidden)
            for camera, target, hidden in zip(cameras, framebuffers, unseen, strict=True)
            if camera is not None
        ]
        shown, targets, masks = (list(column) for column in zip(*seen, strict=True)) if seen else ([], [], [])
        layered = session.layered() if stage.layers else None
        toward = None
        if self._options.foveation != "none":
            # Both eyes are sharp at one point of the room, straight ahead where nothing is known of the gaze.
            distance_m = float(np.linalg.norm(stage.placement.translation - self._viewer_m))
            point = stage.placement.inside(looked_at(views, gaze if follows and gaze is not None else AHEAD, distance_m))
            toward = [tangents_of(camera, point) for camera in shown]
        stage.draw(scenes, shown, targets, level, None, layered, masks, toward)
        if warp is not None:
            seen_now = scenes, [camera.resized(warp.width, warp.height) for camera in shown]
            stage.draw_motion(self._before or seen_now, seen_now, warp.framebuffers())
            self._before = seen_now
        session.graphics.context.finish()
        done = time.perf_counter()
        if self._options.keep_views is not None and tally.frames == self._options.frames:
            pictures = [(stage.places[0].camera(camera), target) for camera, target in zip(shown, targets, strict=True)]
            _keep_views(self._options.keep_views, pictures, motion, self._config, level)
        session.release()
        session.end_frame(timing, cameras)
        self._ladder.count()
        draw_ms = (done - acquired + prepared - started) * 1e3
        if self._options.trace is not None:
            ended_ns = time.monotonic_ns()
            offset_ns = ended_ns - round(time.perf_counter() * 1e9)
            steps = {"prepare": (started, prepared), "wait": (prepared, acquired), "draw": (acquired, done)}
            figures = {"display_ms": (timing.display_ns - ended_ns) / 1e6, "head_ms": (timing.display_ns - located_ns) / 1e6}
            figures |= {"rung": level.rung, "scale": level.scale}
            if captured_ns is not None:
                figures["expression_ms"] = (timing.display_ns - captured_ns) / 1e6
                figures["source_age_ms"] = (asked_ns - captured_ns) / 1e6
            for name, (start, end) in steps.items():
                start_ns, end_ns = (round(at * 1e9) + offset_ns for at in (start, end))
                self._options.trace.add("render", name, start_ns, end_ns, **figures)
        # Textures follow the motion while the next frame is waited for: what they lag is not seen, and this one is not held up.
        stage.rebake(scenes, level)
        tally.drawn(
            time.monotonic(),
            draw_ms,
            (prepared - started) * 1e3,
            None if captured_ns is None else (timing.display_ns - captured_ns) / 1e6,
            (timing.display_ns - located_ns) / 1e6,
            None if captured_ns is None else (asked_ns - captured_ns) / 1e6,
        )
        return True, draw_ms

    def _carry(self, placement: Placement, hand: Placement | None) -> Placement:
        """The place of the scene, which goes with the hand that holds it."""
        if hand is None:
            self._held = None
            return placement
        if self._held is None:
            self._held = placement, hand
        return carried(*self._held, hand)

    def _observe(self, session: HeadsetSession, timing: FrameTiming, draw_ms: float, late: bool, now_s: float) -> None:
        """Tell the ladder how the frame went."""
        self._tally.late += late
        self._ladder.observe(
            now_s,
            draw_ms,
            (self._period_ns or timing.period_ns) / 1e6,
            late,
            self._cast.source_age_s(time.monotonic_ns()),
            session.too_hot,
        )

    def _report(self) -> dict[str, Any]:
        return {
            **self._facts,
            "hz": round(1e9 / self._period_ns, 2) if self._period_ns else None,
            **self._tally.figures(),
            **self._tally.head_figures(),
            "untracked": self._tally.untracked,
            "reconnects": self._tally.reconnects,
            "recentered": self._tally.recentered,
            **self._ladder.report(),
            "measured_ms": measured_ms(self._config, self._costs),
            "motion": self._cast.motion_figures(),
            "heads": len(self._cast.roles),
            "avatar_ipd_mm": round(avatar_ipd_m(self._cast.avatars[0]) * 1000, 2),
            "distance_m": self._options.distance_m,
            "rss_mb": round(resident_mb(), 1),
            "rss_mb_over_time": [round(value, 1) for value in thinned(self._ladder.rss_mb, 12)],
        }


def _keep_views(folder: Path, seen: list[tuple[Camera, Any]], motion: MotionCode, config: GovernorConfig, level: Level) -> None:
    """Write what each eye was given as PNG, and views.json with the cameras (avatar frame), motion and level of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for camera, framebuffer in seen:
        area = (0, 0, camera.width, camera.height)
        pixels = np.frombuffer(framebuffer.read(viewport=area, components=3, alignment=1), np.uint8)
        save_picture(folder / f"{camera.name}.png", pixels.reshape(camera.height, camera.width, 3)[::-1])
    facts = {
        **asdict(config.rungs[RUNGS[level.rung]]),
        "rung": RUNGS[level.rung],
        "scale": level.scale,
        "motion": motion.to_json(),
        "cameras": [{**camera.to_json(), "near": camera.near_m, "far": camera.far_m} for camera, _ in seen],
    }
    write_bytes(folder / "views.json", json.dumps(facts).encode())
