"""The loop that shows a live head in a headset: one predicted display time for motion, gaze and eyes, the eyes located last."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.errors import WorkError
from avatar3d.rendering.opengl.foveation import read_foveation
from avatar3d.rendering.scene import Scene
from avatar3d.runtime.cast import Cast
from avatar3d.runtime.governor import GovernorConfig
from avatar3d.runtime.live import LiveHeads, StageSettings
from avatar3d.runtime.placement import Placement, avatar_ipd_m, carried, in_front_of
from avatar3d.runtime.stage import EYES, drawn_size
from avatar3d.runtime.statistics import thinned
from avatar3d.runtime.views import EyeView, eye_distance_m, gaze_point, tangents_of
from avatar3d.text import printable
from avatar3d.xr.frame import BegunFrame, FramePictures, keep_views, trace_frame
from avatar3d.xr.graphics import Graphics
from avatar3d.xr.openxr import RuntimeGone
from avatar3d.xr.options import ShowOptions
from avatar3d.xr.session import HeadsetSession
from avatar3d.xr.timing import FrameTiming
from avatar3d.xr.wearer import Wearer

IDLE_S = 0.01  # between two looks at the runtime's events while it shows nothing
RECONNECT_EVERY_S = 0.5
LATE_END_NS = 2_000_000  # a frame handed over this shortly before its display will not be shown then: compositors draw, too
AHEAD = (0.0, 0.0, 0.0, 1.0)  # gaze of eyes that look where the head does
NOT_READY_S = 30.0  # with a number of frames asked for, a headset that lies on the table ends in an error, not in a long wait


class Show:
    """Heads, their motion and their quality over one or more sessions. `run` returns what `--json` prints."""

    def __init__(self, cast: Cast, config: GovernorConfig, options: ShowOptions, wearer: Wearer | None = None) -> None:
        self.live = LiveHeads(cast, config, options.rung)
        self._options, self._wearer = options, wearer
        self._held: tuple[Placement, Placement] | None = None  # place of the scene and pose of the hand when it took hold
        self._viewer_m: np.ndarray | None = None  # between the viewer's eyes, in the room, as last located
        self._graphics: Graphics | None = None
        self._before: tuple[list[Scene], list[Camera]] | None = None  # what the last frame showed, for motion vectors
        self._period_ns = 0
        self._facts: dict[str, Any] = {}

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
        self.live.close()
        if self._graphics is not None:
            self._graphics.close()
            self._graphics = None

    def _show_session(self) -> bool:
        """One session to its end; False when the runtime went away under it and another try is due."""
        try:
            with self._open() as session:
                self._graphics = session.graphics
                self._set_stage(session)
                try:
                    self._frames(session)
                except KeyboardInterrupt:
                    session.request_exit()
                    raise
                if not session.ended:
                    session.request_exit()
                return True
        except RuntimeGone:
            self.live.statistics.reconnects += 1
            if self._options.reconnect_s <= 0:
                raise
            return False

    def _open(self) -> HeadsetSession:
        """A session; after an outage, tries go on for `reconnect_s`."""
        if self.live.statistics.reconnects == 0:
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
        options = self._options
        if not self.live.is_set:
            # Black is what a compositor shows where an eye's view holds no picture.
            background = (0.0, 0.0, 0.0, 0.0 if options.session.passthrough else 1.0)
            settings = StageSettings(
                width=session.width,
                height=session.height,
                eyes=len(EYES),
                background=background,
                distance_m=options.distance_m,
                tuning=options.tuning,
                quiet=options.quiet,
                stereo=options.stereo,
                layers=session.layers,
                foveation=None if options.foveation == "none" else read_foveation(),
                keeps_depth=session.gives_depth,
            )
            self.live.set_stage(session.graphics.context, settings)
        self._facts = {
            "runtime": session.runtime,
            "system": session.system,
            "binding": session.graphics.kind,
            "gl_renderer": self.live.stage.gl_renderer,
            "size": [session.width, session.height],
            "arrays": session.uses_arrays,
            "depth_layer": session.gives_depth,
            "visibility_mask": session.uses_masks,
            "foveation": options.foveation,
            "space_warp": session.space_warp is not None,
            "reads_face": session.reads_face,
            "wearer_extensions": session.wearer_extensions,
            "warnings": session.warnings,
        }
        if not options.quiet and self.live.statistics.reconnects == 0:
            for warning in session.warnings:
                print(printable(f"avatar3d: {warning}"), file=sys.stderr)
        self.live.ladder.state = None

    # --- frames

    def _frames(self, session: HeadsetSession) -> None:
        last: FrameTiming | None = None
        self._period_ns = round(1e9 / session.hz) if session.hz else 0
        waiting_since = time.monotonic()
        began_s: float | None = None
        counted, cpu_s = self.live.statistics.rendered, time.process_time()
        try:
            while self._options.frames is None or self.live.statistics.frames < self._options.frames:
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
                if session.take_recentered():
                    self._recenter()
                timing = session.wait_frame()
                if not session.hz and last is not None:  # no rate was told: the shortest period is the display's
                    self._period_ns = min(self._period_ns or timing.period_ns, timing.period_ns)
                draw_ms = self._frame(session, timing)
                ended_ns = time.monotonic_ns()
                now_s = ended_ns / 1e9
                if draw_ms is not None:
                    # A runtime may slow its pace down to ours: a frame is late too when the display had time for two.
                    late = last is not None and timing.display_ns - last.display_ns > 1.5 * self._period_ns
                    late |= timing.display_ns - ended_ns < LATE_END_NS
                    period_ms = (self._period_ns or timing.period_ns) / 1e6
                    self.live.observe(now_s, draw_ms, period_ms, late, session.too_hot)
                    began_s = now_s if began_s is None else began_s
                    last = timing
                else:
                    last = None
        finally:
            if began_s is not None:
                self.live.statistics.cpu_s += time.process_time() - cpu_s
                self.live.statistics.shown_s += time.monotonic() - began_s
                self.live.statistics.timed += self.live.statistics.rendered - counted - 1

    def _recenter(self) -> None:
        """The viewer is somewhere else: the heads stand before them anew with the next frame."""
        self.live.stage.placement = None
        self.live.statistics.recentered += 1
        if self._wearer is not None:
            self._wearer.recenter()

    def _frame(self, session: HeadsetSession, timing: FrameTiming) -> float | None:
        """One frame from begin to end; drawing time in ms, None where it was not drawn."""
        self.live.statistics.frames += 1
        begun = self._begin(session, timing)
        if begun is None:
            return None
        gaze = self._follow_wearer(session, begun)
        pictures = self._aim(session, begun, gaze)
        self._draw(session, begun, pictures)
        done_s = time.perf_counter()
        if self._options.keep_views is not None and self.live.statistics.frames == self._options.frames:
            keep_views(self._options.keep_views, begun, pictures, self.live)
        session.release()
        session.end_frame(timing, pictures.cameras)
        if self._options.trace is not None:
            trace_frame(self._options.trace, begun, done_s)
        # Textures follow the motion while the next frame is waited for: what they lag is not seen, and this one is not held up.
        self.live.stage.rebake(begun.posed.scenes, begun.level)
        draw_ms = (done_s - begun.acquired_s) * 1e3 + begun.posed.prepare_ms
        self.live.drawn(begun.posed, draw_ms, time.monotonic(), (timing.display_ns - begun.located_ns) / 1e6)
        return draw_ms

    def _begin(self, session: HeadsetSession, timing: FrameTiming) -> BegunFrame | None:
        """Pose the heads, begin the frame, and place them before the eyes, which are located as late as can be.

        None, and the frame was ended empty, where nobody would see it or the head is not tracked.
        """
        live, options = self.live, self._options
        if not timing.should_render:
            session.begin_frame()
            session.end_frame(timing, None)
            return None
        if live.ladder.state is None:
            live.begin((self._period_ns or timing.period_ns) / 1e6)
        level = live.level
        posed = live.pose(timing.display_ns, self._viewer_m, options.overlay)
        hand = session.holding(timing)
        session.begin_frame()  # after what is not drawing: runtimes time both parts, and pace the frames by the longer one
        framebuffers = session.acquire()
        acquired_s = time.perf_counter()
        views = session.locate(timing)
        located_ns = time.monotonic_ns()
        if views is None:
            live.statistics.untracked += 1
            session.release()
            session.end_frame(timing, None)
            return None
        self._place(views, hand)
        size = drawn_size(level.scale, session.width, session.height)
        return BegunFrame(timing, level, size, posed, framebuffers, views, acquired_s, located_ns)

    def _place(self, views: list[EyeView], hand: Placement | None) -> None:
        """The scene before the viewer at first, then where the hand that holds it carries it."""
        stage, options = self.live.stage, self._options
        if stage.placement is None:
            stage.placement = in_front_of(views, options.distance_m, options.height_m)
            self._facts["viewer_ipd_mm"] = round(eye_distance_m(views) * 1000, 2)
        stage.placement = self._carry(stage.placement, hand)
        self._viewer_m = np.mean([view.position for view in views], axis=0)

    def _follow_wearer(self, session: HeadsetSession, begun: BegunFrame) -> list[float] | None:
        """Where the wearer's eyes look, None where nobody asks or it is not known; tells it with the face to the wearer's source."""
        if self._options.foveation != "gaze" and self._wearer is None:
            return None
        gaze = session.gaze(begun.timing)
        if self._wearer is not None:
            self._wearer.tell(begun.views, session.face(begun.timing, gaze), gaze)
        return gaze

    def _aim(self, session: HeadsetSession, begun: BegunFrame, gaze: list[float] | None) -> FramePictures:
        """The part of each eye's view that is drawn, and where it is to be sharp; clears what earlier frames left around it."""
        stage, scenes = self.live.stage, begun.posed.scenes
        # Motion is told of whole views: a frustum that is cut anew each time would be taken for movement.
        cameras: list[Camera | None] = (
            stage.cameras(scenes, begun.views, *begun.size)
            if session.space_warp is None
            else list(stage.whole(begun.views, *begun.size))
        )
        session.clear_around(begun.framebuffers, cameras, stage.background)
        shown: list[Camera] = []
        targets: list[Any] = []
        hidden: list[np.ndarray | None] = []
        for camera, target, area in zip(cameras, begun.framebuffers, session.hidden(cameras), strict=True):
            if camera is not None:
                shown.append(camera)
                targets.append(target)
                hidden.append(area)
        toward = None if self._options.foveation == "none" else self._sharp_toward(begun.views, shown, gaze)
        return FramePictures(cameras, shown, targets, hidden, toward)

    def _sharp_toward(self, views: list[EyeView], cameras: list[Camera], gaze: list[float] | None) -> list[tuple[float, float]]:
        """Both eyes are sharp at one point of the room, straight ahead where nothing is known of the gaze, or it is not followed."""
        placement = self.live.stage.placement
        assert placement is not None and self._viewer_m is not None
        distance_m = float(np.linalg.norm(placement.translation - self._viewer_m))
        direction = gaze if gaze is not None and self._options.foveation == "gaze" else AHEAD
        point = placement.inside(gaze_point(views, direction, distance_m))
        return [tangents_of(camera, point) for camera in cameras]

    def _draw(self, session: HeadsetSession, begun: BegunFrame, pictures: FramePictures) -> None:
        """The pictures, and their motion where the headset takes it; waits until the GPU is done."""
        stage, scenes, warp = self.live.stage, begun.posed.scenes, session.space_warp
        layered = session.layered() if stage.layers else None
        stage.draw(scenes, pictures.shown, pictures.targets, begun.level, None, layered, pictures.hidden, pictures.toward)
        if warp is not None:
            seen_now = scenes, [camera.resized(warp.width, warp.height) for camera in pictures.shown]
            stage.draw_motion(self._before or seen_now, seen_now, warp.framebuffers())
            self._before = seen_now
        session.graphics.context.finish()

    def _carry(self, placement: Placement, hand: Placement | None) -> Placement:
        """The place of the scene, which goes with the hand that holds it."""
        if hand is None:
            self._held = None
            return placement
        if self._held is None:
            self._held = placement, hand
        return carried(*self._held, hand)

    def _report(self) -> dict[str, Any]:
        live, statistics = self.live, self.live.statistics
        return {
            **self._facts,
            "hz": round(1e9 / self._period_ns, 2) if self._period_ns else None,
            **live.report(),
            **statistics.head_figures(),
            "untracked": statistics.untracked,
            "reconnects": statistics.reconnects,
            "recentered": statistics.recentered,
            "motion": live.cast.motion_figures(),
            "avatar_ipd_mm": round(avatar_ipd_m(live.cast.avatars[0]) * 1000, 2),
            "distance_m": self._options.distance_m,
            "rss_mb_over_time": [round(value, 1) for value in thinned(live.ladder.rss_mb, 12)],
        }
