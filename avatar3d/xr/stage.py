"""What stands in the room: one avatar, its renderer, its place; drawn at a rung of the quality ladder into framebuffers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.motion.code import MotionCode
from avatar3d.render.realtime import RealtimeRenderer, available_form
from avatar3d.render.scene import Scene
from avatar3d.runtime.governor import RUNGS, GovernorConfig
from avatar3d.xr.graphics import Graphics
from avatar3d.xr.placement import Placement, nearest_m, presence
from avatar3d.xr.veil import Veil
from avatar3d.xr.views import EyeView, camera_of, cropped

EYES = ("left", "right")
OUTLINE_STEP = 5  # every so many vertices bound the head; the crop's margin covers what lies between
TRIALS = 4  # drawings of a rung when it is measured; the first warms and is not counted
TRIAL_ANGLES = ((-0.78, 0.78, 0.78, -0.78), (0.0316, 0.0, 0.0))  # of a usual headset: half angles in rad, half an IPD in m


def _outline(scene: Scene) -> np.ndarray:
    """(N, 3) world points that bound the posed head and its hair."""
    points = scene.vertices[::OUTLINE_STEP]
    if scene.hair is None:
        return points
    shells = scene.hair.shells
    outer = shells.base[::OUTLINE_STEP] + shells.levels[-1] * shells.extent[::OUTLINE_STEP]
    return np.concatenate([points, outer @ scene.hair.rotation.T + scene.hair.translation])


class Stage:
    """Owns the avatar's renderer in the context of `graphics`. background: linear, premultiplied."""

    def __init__(
        self, avatar: Avatar, graphics: Graphics, config: GovernorConfig, background: tuple[float, float, float, float]
    ) -> None:
        self.avatar = avatar
        self.placement: Placement | None = None
        self._config = config
        self.background = background
        self._graphics = graphics
        self._renderer = RealtimeRenderer(graphics.context)
        self._veil = Veil(graphics.context)
        self.available = tuple(available_form(avatar, config.rungs[name].form) == config.rungs[name].form for name in RUNGS)
        self._options = [config.rungs[name].options for name in RUNGS]
        self._renderer.load(avatar, [options for options, there in zip(self._options, self.available, strict=True) if there])

    @property
    def gl_renderer(self) -> str:
        """What draws."""
        return self._renderer.info["renderer"]

    def drawn_size(self, rung: int, width: int, height: int) -> tuple[int, int]:
        """Pixels that a rung draws of a width × height image."""
        scale = self._config.rungs[RUNGS[rung]].scale
        return max(16, round(width * scale)), max(16, round(height * scale))

    def prepare(self, motion: MotionCode) -> Scene:
        """Pose the head and send it to the GPU; what is left to do needs the eyes."""
        return self._renderer.prepare(motion)

    def cameras(self, scene: Scene, views: Sequence[EyeView], width: int, height: int) -> list[Camera | None]:
        """The eyes in the avatar's frame, of width × height pixels each, cut to what the head covers; None: it is not seen.

        The head covers a few per cent of a headset's view: clearing and storing the rest would cost more than drawing it.
        """
        assert self.placement is not None
        points = _outline(scene)
        whole = [self.placement.camera(camera_of(view, width, height, name)) for view, name in zip(views, EYES, strict=True)]
        return [cropped(camera, points) for camera in whole]

    def draw(self, scene: Scene, cameras: Sequence[Camera], framebuffers: Sequence[Any], rung: int) -> float:
        """Draw a prepared scene into the lower left of framebuffers; returns the presence, 1 unless the head is too near."""
        if not cameras:
            return 1.0
        areas = [(0, 0, camera.width, camera.height) for camera in cameras]
        self._renderer.draw(scene, cameras, framebuffers, self._options[rung], self.background, areas)
        near = presence(nearest_m(scene.vertices, cameras))
        if near < 1:
            for framebuffer, area in zip(framebuffers, areas, strict=True):
                self._veil.draw(framebuffer, area, self.background, near)
        return near

    def measure(self, width: int, height: int, distance_m: float) -> tuple[float | None, ...]:
        """Milliseconds that drawing a stereo pair of width × height takes at each rung; None for rungs the avatar lacks."""
        context = self._graphics.context
        color, depth = context.texture((width, height), 4), context.depth_renderbuffer((width, height))
        framebuffer = context.framebuffer([color], depth)
        angles, offset = TRIAL_ANGLES
        views = [EyeView((0.0, 0.0, 0.0, 1.0), (side * offset[0], 0.0, distance_m), angles) for side in (-1.0, 1.0)]
        costs: list[float | None] = []
        for rung, there in enumerate(self.available):
            size = self.drawn_size(rung, width, height)
            whole = [camera_of(view, *size) for view in views]
            taken = []
            for _ in range(TRIALS if there else 0):
                started = time.perf_counter()
                scene = self.prepare(MotionCode())
                cameras = [cropped(camera, _outline(scene)) or camera for camera in whole]
                self.draw(scene, cameras, [framebuffer, framebuffer], rung)
                context.finish()
                taken.append((time.perf_counter() - started) * 1e3)
            costs.append(median(taken[1:]) if there else None)
        for resource in (framebuffer, color, depth):
            resource.release()
        return tuple(costs)

    def close(self) -> None:
        """Free the GL objects."""
        self._veil.close()
        self._renderer.close()
