"""The loop that shows live heads in a window, with the headset's pipeline, quality ladder and panel."""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from avatar3d.camera import DEFAULT_IPD_M, Camera
from avatar3d.color import srgb_to_linear
from avatar3d.errors import InputError
from avatar3d.media import save_picture
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.autotune import BUDGET_S, Choice, choose
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.runtime.cast import Cast
from avatar3d.runtime.governor import RUNGS, GovernorConfig
from avatar3d.runtime.ladder import Ladder
from avatar3d.runtime.placement import DEFAULT_DISTANCE_M, Placement, check_distance, half_width_m
from avatar3d.runtime.sensors import resident_mb
from avatar3d.runtime.stage import EYES, Stage, drawn_size
from avatar3d.runtime.tally import Tally, measured_ms
from avatar3d.runtime.views import camera_of
from avatar3d.view import HELP
from avatar3d.view.keys import face_weights, shift_m, with_face
from avatar3d.view.orbit import HALF_HEIGHT, Orbit
from avatar3d.view.window import Window

BACKGROUND_SRGB = (32, 36, 42)  # dark and without a hue that would tint skin
EARLY_S = 1e-3  # before a frame is due; a display that holds us back does the rest
MINIMISED_S = 0.1  # between looks at a window that shows nothing
MIN_SIDE_PX, MAX_SIDE_PX = 64, 8192
HOME = Placement(np.eye(3), np.zeros(3))


@dataclass(frozen=True)
class ViewOptions:
    """What to show. frames: until the window is closed where None. screenshot: file for the last of the frames.

    width, height: of the window, pixels. stereo: both eyes side by side. yaw_deg, pitch_deg, distance_m: of the viewer at first;
    without a distance as far off as all heads need. tuning, quiet: see avatar3d.rendering.opengl.autotune.choose.
    """

    width: int = 960
    height: int = 720
    stereo: bool = False
    frames: int | None = None
    screenshot: Path | None = None
    rung: str | None = None
    overlay: bool = False
    ipd_m: float = DEFAULT_IPD_M
    yaw_deg: float = 0.0
    pitch_deg: float = 0.0
    distance_m: float | None = None
    tuning: str = "never"
    quiet: bool = True

    def __post_init__(self) -> None:
        if self.distance_m is not None:
            check_distance(self.distance_m)
        if not all(MIN_SIDE_PX <= side <= MAX_SIDE_PX for side in (self.width, self.height)):
            raise InputError(f"a window of {self.width}×{self.height} is outside {MIN_SIDE_PX} to {MAX_SIDE_PX} pixels a side")
        if self.frames is not None and self.frames < 1:
            raise InputError(f"--frames {self.frames} is less than one frame")
        if self.screenshot is not None and self.frames is None:
            raise InputError("--screenshot keeps the last frame of --frames N; give both")


class _Closed(Exception):
    """The user closed the window before there was a picture."""


class View:
    """Heads in an open window. `run` returns what `--json` prints."""

    def __init__(self, window: Window, cast: Cast, config: GovernorConfig, options: ViewOptions) -> None:
        self._window, self._cast, self._config, self._options = window, cast, config, options
        aspect = self._options.width / self._options.height / (2 if options.stereo else 1)
        needed_m = half_width_m(len(cast.roles)) / (aspect * HALF_HEIGHT) if len(cast.roles) > 1 else 0.0
        self._distance_m = options.distance_m or max(DEFAULT_DISTANCE_M, needed_m)
        self._stereo, self._overlay, self._help = options.stereo, options.overlay, False
        self._choice = Choice(DrawStrategy(), "default")
        self._stage: Stage | None = None
        self._costs: tuple[float | None, ...] = (None,) * len(config.levels)
        self._ladder = Ladder(config, options.rung)
        self._tally = Tally()
        self._orbit = Orbit(np.radians(options.yaw_deg), np.radians(options.pitch_deg), self._distance_m)
        self._face = np.zeros(52)
        self._motion = MotionCode()
        self._cameras: list[Camera] = []

    def run(self) -> dict[str, Any]:
        """Show the heads until the frames are over, the window is closed, Esc or Ctrl-C, also while it is measured how to draw."""
        period_s = 1 / self._window.hz
        try:
            self._frames(self._set_stage(period_s), period_s)
        except _Closed:
            pass
        except KeyboardInterrupt:
            if self._options.frames is not None:
                raise
        finally:
            if self._stage is not None:
                self._stage.close()
        return self._report(period_s)

    def _look(self) -> None:
        """Follow the window between two trial frames. Raises _Closed where it was closed."""
        if self._window.leaving():
            raise _Closed

    def _set_stage(self, period_s: float) -> Stage:
        """Load the heads; at the first start on a driver and at a size, measure first how to draw, and say so."""
        window, options, eyes = self._window, self._options, 2 if self._stereo else 1

        def measuring() -> None:
            sentence = f"measuring which way to draw is fastest here: about {BUDGET_S:g} s, once"
            window.say([sentence], BACKGROUND_SRGB)
            if not options.quiet:
                print(f"avatar3d: {sentence} (--no-tune skips it)", file=sys.stderr)

        self._choice = choose(
            window.context, self._cast.avatars[0], *self._eye_size(), eyes, options.tuning, options.quiet, measuring, self._look
        )
        self._look()
        window.say(["loading the head" if len(self._cast.roles) == 1 else "loading the heads"], BACKGROUND_SRGB)
        background = tuple(float(value) for value in srgb_to_linear(np.array(BACKGROUND_SRGB, np.uint8)))
        stage = self._stage = Stage(
            self._cast.avatars,
            window.context,
            self._config,
            (*background, 1.0),  # type: ignore[arg-type]
            self._distance_m,
            self._choice.strategy,
            layers=self._stereo and self._choice.strategy.stereo == "layers",
            between=self._look,
        )
        stage.placement = HOME
        self._look()
        self._costs = stage.measure(*self._eye_size(), eyes=eyes, between=self._look)
        self._ladder.begin(stage.available, self._costs, period_s * 1e3)
        gc.collect()
        gc.freeze()  # a full collection would walk the avatars and cost a frame or more
        return stage

    def _frames(self, stage: Stage, period_s: float) -> None:
        options, window, tally = self._options, self._window, self._tally
        began_s = last_s = due_s = obeyed_s = time.monotonic()
        cpu_s = time.process_time()
        while options.frames is None or tally.frames < options.frames:
            # A display that does not hold us back (a virtual one) is waited for by the clock.
            window.poll(max(0.0, due_s - time.monotonic() - EARLY_S))
            if window.closed or "escape" in window.tapped:
                break
            if 0 in window.size:
                window.poll(MINIMISED_S)
                last_s = due_s = obeyed_s = time.monotonic()
                continue
            now_s = time.monotonic()
            due_s = max(due_s + period_s, now_s)
            self._obey(stage, now_s - obeyed_s)
            obeyed_s = now_s
            draw_ms = self._frame(stage, now_s, period_s)
            shown_s = time.monotonic()
            late = tally.frames > 1 and shown_s - last_s > 1.5 * period_s
            tally.late += late
            tally.shown_s, tally.cpu_s = shown_s - began_s, time.process_time() - cpu_s
            tally.timed = tally.frames
            last_s = shown_s
            self._ladder.observe(shown_s, draw_ms, period_s * 1e3, late, self._cast.source_age_s(time.monotonic_ns()))

    def _obey(self, stage: Stage, seconds: float) -> None:
        """Do what mouse and keyboard ask for."""
        window = self._window
        self._orbit = self._orbit.dragged(*window.dragged_px).zoomed(window.wheel)
        self._face = face_weights(self._face, window.pressed, seconds)
        moved = self._orbit.axes @ shift_m(window.pressed, seconds)
        assert stage.placement is not None
        stage.placement = replace(stage.placement, translation=stage.placement.translation + moved)
        for key in window.tapped:
            if key == "r":
                stage.placement = HOME
                self._orbit = Orbit(distance_m=self._distance_m)
            elif key == "s":
                self._stereo = not self._stereo
            elif key == "o":
                self._overlay = not self._overlay
            elif key in ("h", "f1"):
                self._help = not self._help
            elif key == "l":
                for role in self._cast.roles:
                    role.eye_contact = not role.eye_contact
            elif key == "m":
                for role in self._cast.roles:
                    role.mirror = not role.mirror

    def _eye_size(self) -> tuple[int, int]:
        width, height = self._window.size
        return (width // 2 if self._stereo else width), height

    def _frame(self, stage: Stage, now_s: float, period_s: float) -> float:
        """Draw and show one frame; returns the drawing time, ms."""
        tally, window = self._tally, self._window
        tally.frames += 1
        level = self._ladder.level
        width, height = drawn_size(level.scale, *self._eye_size())
        views = self._orbit.eyes(width / height, self._options.ipd_m if self._stereo else None)
        viewer = np.mean([view.position for view in views], axis=0)
        asked_ns = time.monotonic_ns()
        display_ns = asked_ns + round(period_s * 1e9)
        started = time.perf_counter()
        told = [role.motion(display_ns, stage.viewer_in_head(index, viewer)) for index, role in enumerate(self._cast.roles)]
        motions = [with_face(code, self._face) for code, _ in told]
        scenes = stage.prepare(motions)
        stage.rebake(scenes, level)
        lines = tally.lines(self._ladder, self._cast, self._overlay)
        stage.lines = stage.lines if lines is None else lines
        prepared = time.perf_counter()
        assert stage.placement is not None
        names = EYES if self._stereo else ("window",)
        cameras = [
            stage.placement.camera(camera_of(view, width, height, name)) for view, name in zip(views, names, strict=True)
        ]
        if stage.layers and self._stereo:
            layers = window.layered(width, height)
            stage.draw(scenes, cameras, layers.eyes, level, layered=layers.framebuffer)
            window.join()
        else:
            target = window.target(width * len(cameras), height)
            origins = [(index * width, 0) for index in range(len(cameras))]
            stage.draw(scenes, cameras, [target] * len(cameras), level, origins)
        window.context.finish()
        draw_ms = (time.perf_counter() - started) * 1e3
        keep = self._options.screenshot is not None and tally.frames == self._options.frames
        picture = window.show(width * len(cameras), height, keep, HELP if self._help else (), len(cameras))
        if picture is not None and self._options.screenshot is not None:
            save_picture(self._options.screenshot, picture)
        self._motion, self._cameras = motions[0], [stage.places[0].camera(camera) for camera in cameras]
        self._ladder.count()
        captured_ns = told[0][1]
        latency_ms = None if captured_ns is None else (display_ns - captured_ns) / 1e6
        age_ms = None if captured_ns is None else (asked_ns - captured_ns) / 1e6
        tally.drawn(now_s, draw_ms, (prepared - started) * 1e3, latency_ms, source_age_ms=age_ms)
        return draw_ms

    def _report(self, period_s: float) -> dict[str, Any]:
        return {
            "window": "glfw",
            "gl_renderer": str(self._window.context.info["GL_RENDERER"]),
            "size": [self._options.width, self._options.height],
            "hz": round(1 / period_s, 2),
            **self._tally.figures(),
            **self._ladder.report(),
            "rung": RUNGS[self._ladder.rung],
            "scale": self._ladder.level.scale,
            "layered": self._stage is not None and self._stage.layers,
            "drawing": self._choice.to_json(),
            "measured_ms": measured_ms(self._config, self._costs),
            "motion_codes": self._cast.motion_figures(),
            "heads": len(self._cast.roles),
            "motion": self._motion.to_json(),
            "cameras": [camera.to_json() for camera in self._cameras],
            "screenshot": None if self._options.screenshot is None else str(self._options.screenshot),
            "rss_mb": round(resident_mb(), 1),
        }
