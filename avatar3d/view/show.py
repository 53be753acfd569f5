"""The loop that shows live heads in a window, with the headset's pipeline, quality ladder and panel."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.choices import DEFAULT_DISTANCE_M, RUNGS
from avatar3d.color import srgb_to_linear
from avatar3d.media import save_picture
from avatar3d.motion.code import WEIGHT_COUNT, MotionCode
from avatar3d.rendering.opengl.autotune import BUDGET_S
from avatar3d.rendering.scene import Scene
from avatar3d.runtime.cast import Cast
from avatar3d.runtime.governor import GovernorConfig, Level
from avatar3d.runtime.live import LiveHeads, StageSettings
from avatar3d.runtime.placement import Placement, half_width_m
from avatar3d.runtime.stage import EYES, drawn_size
from avatar3d.runtime.views import EyeView, camera_of
from avatar3d.view import HELP
from avatar3d.view.keys import face_weights, shift_m, with_face
from avatar3d.view.options import ViewOptions
from avatar3d.view.orbit import HALF_HEIGHT, Orbit
from avatar3d.view.window import Window

BACKGROUND_SRGB = (32, 36, 42)  # dark and without a hue that would tint skin
EARLY_S = 1e-3  # before a frame is due; a display that holds us back does the rest
MINIMISED_S = 0.1  # between looks at a window that shows nothing
HOME = Placement(np.eye(3), np.zeros(3))


class _Closed(Exception):
    """The user closed the window before there was a picture."""


class View:
    """Heads in an open window. `run` returns what `--json` prints."""

    def __init__(self, window: Window, cast: Cast, config: GovernorConfig, options: ViewOptions) -> None:
        self._window, self._options = window, options
        self.live = LiveHeads(cast, config, options.rung)
        width, height = options.size
        aspect = width / height / (2 if options.stereo else 1)
        needed_m = half_width_m(len(cast.roles)) / (aspect * HALF_HEIGHT) if len(cast.roles) > 1 else 0.0
        self._distance_m = options.distance_m or max(DEFAULT_DISTANCE_M, needed_m)
        self._stereo, self._overlay, self._help = options.stereo, options.overlay, False
        self._orbit = Orbit(np.radians(options.yaw_deg), np.radians(options.pitch_deg), self._distance_m)
        self._face = np.zeros(WEIGHT_COUNT)
        self._motion = MotionCode()
        self._cameras: list[Camera] = []

    def run(self) -> dict[str, Any]:
        """Show the heads until the frames are over, the window is closed, Esc or Ctrl-C, also while it is measured how to draw."""
        period_s = 1 / self._window.hz
        try:
            self._set_stage(period_s)
            self._frames(period_s)
        except _Closed:
            pass
        except KeyboardInterrupt:
            if self._options.frames is not None:
                raise
        finally:
            self.live.close()
        return self._report(period_s)

    def _look(self) -> None:
        """Follow the window between two trial frames. Raises _Closed where it was closed."""
        if self._window.leaving():
            raise _Closed

    def _set_stage(self, period_s: float) -> None:
        """Load the heads; at the first start on a driver and at a size, measure first how to draw, and say so."""
        window, options, eyes = self._window, self._options, 2 if self._stereo else 1

        def measuring() -> None:
            sentence = f"measuring which way to draw is fastest here: about {BUDGET_S:g} s, once"
            window.say([sentence], BACKGROUND_SRGB)
            if not options.quiet:
                print(f"avatar3d: {sentence} (--no-tune skips it)", file=sys.stderr)

        def loading() -> None:
            window.say(["loading the head" if len(self.live.cast.roles) == 1 else "loading the heads"], BACKGROUND_SRGB)

        red, green, blue = (float(value) for value in srgb_to_linear(np.array(BACKGROUND_SRGB, np.uint8)))
        width, height = self._eye_size()
        settings = StageSettings(
            width=width,
            height=height,
            eyes=eyes,
            background=(red, green, blue, 1.0),
            distance_m=self._distance_m,
            tuning=options.tuning,
            quiet=options.quiet,
            layers=True,
        )
        stage = self.live.set_stage(window.context, settings, measuring, loading, self._look)
        stage.placement = HOME
        self.live.begin(period_s * 1e3)

    def _frames(self, period_s: float) -> None:
        options, window, statistics = self._options, self._window, self.live.statistics
        began_s = last_s = due_s = obeyed_s = time.monotonic()
        cpu_s = time.process_time()
        while options.frames is None or statistics.frames < options.frames:
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
            self._obey(now_s - obeyed_s)
            obeyed_s = now_s
            draw_ms = self._frame(now_s, period_s)
            shown_s = time.monotonic()
            late = statistics.frames > 1 and shown_s - last_s > 1.5 * period_s
            statistics.shown_s, statistics.cpu_s = shown_s - began_s, time.process_time() - cpu_s
            statistics.timed = statistics.frames
            last_s = shown_s
            self.live.observe(shown_s, draw_ms, period_s * 1e3, late)

    def _obey(self, seconds: float) -> None:
        """Do what mouse and keyboard ask for."""
        window, stage = self._window, self.live.stage
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
                for role in self.live.cast.roles:
                    role.eye_contact = not role.eye_contact
            elif key == "m":
                for role in self.live.cast.roles:
                    role.mirror = not role.mirror

    def _eye_size(self) -> tuple[int, int]:
        width, height = self._window.size
        return (width // 2 if self._stereo else width), height

    def _frame(self, now_s: float, period_s: float) -> float:
        """Draw and show one frame; returns the drawing time, ms."""
        live, window = self.live, self._window
        live.statistics.frames += 1
        level = live.level
        width, height = drawn_size(level.scale, *self._eye_size())
        views = self._orbit.eyes(width / height, self._options.ipd_m if self._stereo else None)
        viewer = np.mean([view.position for view in views], axis=0)
        display_ns = time.monotonic_ns() + round(period_s * 1e9)
        posed = live.pose(display_ns, viewer, self._overlay, lambda code: with_face(code, self._face), rebake=True)
        cameras = self._draw(posed.scenes, views, (width, height), level)
        draw_ms = (time.perf_counter() - posed.started_s) * 1e3
        keep = self._options.screenshot is not None and live.statistics.frames == self._options.frames
        picture = window.show(width * len(cameras), height, keep, HELP if self._help else (), len(cameras))
        if picture is not None and self._options.screenshot is not None:
            save_picture(self._options.screenshot, picture)
        self._motion, self._cameras = posed.motions[0], [live.stage.places[0].camera(camera) for camera in cameras]
        live.drawn(posed, draw_ms, now_s)
        return draw_ms

    def _draw(self, scenes: list[Scene], views: list[EyeView], size: tuple[int, int], level: Level) -> list[Camera]:
        """Draw posed heads into the window's target, both eyes beside each other; waits until the GPU is done. Returns the cameras."""
        stage, window, (width, height) = self.live.stage, self._window, size
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
        return cameras

    def _report(self, period_s: float) -> dict[str, Any]:
        return {
            "window": "glfw",
            "gl_renderer": str(self._window.context.info["GL_RENDERER"]),
            "size": list(self._options.size),
            "hz": round(1 / period_s, 2),
            **self.live.report(),
            "rung": RUNGS[self.live.level.rung],
            "scale": self.live.level.scale,
            "motion_codes": self.live.cast.motion_figures(),
            "motion": self._motion.to_json(),
            "cameras": [camera.to_json() for camera in self._cameras],
            "screenshot": None if self._options.screenshot is None else str(self._options.screenshot),
        }
