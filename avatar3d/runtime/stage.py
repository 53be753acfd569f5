"""What stands in the room: heads with their renderers and places, and a panel of text; drawn at a level of the ladder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.choices import DEFAULT_DISTANCE_M, RUNGS
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.culling.screen_region import ScreenRegion
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.lod.fold import available_form
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.fade import Fade
from avatar3d.rendering.opengl.foveation import Foveation, FoveationSettings
from avatar3d.rendering.opengl.motion_vectors import MotionVectors
from avatar3d.rendering.opengl.offscreen import SrgbTarget
from avatar3d.rendering.opengl.panel import Panel, panel_place
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.opengl.stereo import Stereo
from avatar3d.rendering.scene import Scene
from avatar3d.runtime.governor import GovernorConfig, Level
from avatar3d.runtime.placement import Placement, nearest_m, presence, side_by_side
from avatar3d.runtime.views import EyeView, camera_of, cropped, equal_sized

EYES = ("left", "right")
OUTLINE_STEP = 5  # every so many vertices bound the head; the crop's margin covers what lies between
TRIALS = 4  # drawings of a level when it is measured: the first warms and is not counted, of the others the quickest counts
MIN_SIDE_PX = 16  # of a picture, however coarse
TRIAL_ANGLES = ((-0.78, 0.78, 0.78, -0.78), (0.0316, 0.0, 0.0))  # of a usual headset: half angles in rad, half an IPD in m


def outline_points(scene: Scene) -> np.ndarray:
    """(N, 3) points of the head's world that bound the posed head and its hair."""
    points = scene.vertices[::OUTLINE_STEP]
    if scene.hair is None:
        return points
    shells = scene.hair.shells
    outer = shells.base[::OUTLINE_STEP] + shells.levels[-1] * shells.extent[::OUTLINE_STEP]
    return np.concatenate([points, outer @ scene.hair.rotation.T + scene.hair.translation])


def drawn_size(scale: float, width: int, height: int) -> tuple[int, int]:
    """Pixels that are drawn of a width × height image at a scale."""
    return max(MIN_SIDE_PX, round(width * scale)), max(MIN_SIDE_PX, round(height * scale))


class Stage:
    """Owns the renderers of its heads in the given moderngl context.

    Heads stand `side_by_side` in the scene's frame; one head's own frame is the scene's. `placement` is where the scene stands
    in the room. lines: of text to show on the panel, none for no panel. background: linear, premultiplied. distance_m: of the
    viewer, for whom the heads stand in their places. strategy: how pictures are computed. foveation: how a view is drawn coarser
    away from where an eye looks, None for everywhere alike; keeps_depth: the framebuffers' depth is read by others. layers:
    both eyes are drawn at once where `draw` is given a layered framebuffer, which a foveated stage is not. between: called between
    two programs that are compiled, which takes seconds; may raise.
    """

    def __init__(
        self,
        avatars: Sequence[Avatar],
        context: Any,
        config: GovernorConfig,
        background: tuple[float, float, float, float],
        distance_m: float = DEFAULT_DISTANCE_M,
        strategy: DrawStrategy | None = None,
        foveation: FoveationSettings | None = None,
        keeps_depth: bool = False,
        layers: bool = False,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self.placement: Placement | None = None
        self.background = background
        self.lines: list[str] = []
        self.places = side_by_side(len(avatars), distance_m)
        self._config = config
        self._context = context
        self._distance_m = distance_m
        self._fade = Fade(context)
        self._motion: list[MotionVectors] = []
        self._panel = Panel(context)
        self.available = tuple(
            all(available_form(avatar, config.rungs[name].form) == config.rungs[name].form for avatar in avatars)
            for name in RUNGS
        )
        self._options = {level: config.rungs[RUNGS[level.rung]].options(level.scale) for level in config.levels}
        self._coarse: dict[Level, RenderOptions] = {}
        self._foveation: Foveation | None = None
        if foveation is not None:
            self._foveation = Foveation(context, foveation, keeps_depth)
            self._coarse = {level: _coarse_options(options, foveation, avatars) for level, options in self._options.items()}
        self.layers = layers and foveation is None
        ways: list[Stereo] = ["passes", "layers"] if self.layers else ["passes"]
        drawn = [options for level, options in (*self._options.items(), *self._coarse.items()) if self.available[level.rung]]
        self._renderers = []
        for avatar in avatars:
            renderer = RealtimeRenderer(context, strategy=strategy)
            for options in drawn:
                between()
                renderer.load(avatar, [options], ways)
            self._renderers.append(renderer)

    @property
    def gl_renderer(self) -> str:
        """What draws."""
        return self._renderers[0].info["renderer"]

    def viewer_in_head(self, index: int, viewer_m: np.ndarray) -> np.ndarray | None:
        """A point (3,) of the room in a head's frame, None before the scene has its place."""
        return None if self.placement is None else self.places[index].inside(self.placement.inside(viewer_m))

    def prepare(self, motions: Sequence[MotionCode]) -> list[Scene]:
        """Pose the heads and send them to the GPU; what is left to do needs the eyes."""
        return [renderer.prepare(motion) for renderer, motion in zip(self._renderers, motions, strict=True)]

    def rebake(self, scenes: Sequence[Scene], level: Level) -> int:
        """Let what a level draws baked follow prepared scenes, within the configured time, before a frame is drawn of them.

        Returns the bytes sent to the GPU.
        """
        drawn = {self._options[level], self._coarse.get(level, self._options[level])}
        budget_ms = self._config.rebake_ms / (len(drawn) * len(scenes))
        return sum(
            renderer.rebake(scene.motion, options, budget_ms)
            for renderer, scene in zip(self._renderers, scenes, strict=True)
            for options in drawn
        )

    def cameras(self, scenes: Sequence[Scene], views: Sequence[EyeView], width: int, height: int) -> list[Camera | None]:
        """The eyes in the scene's frame, of width × height pixels each, cut to what is to be seen; None: nothing is.

        A head covers a few per cent of a headset's view: clearing and storing the rest would cost more than drawing it. Where
        `layers` holds, what both eyes see is of one size.
        """
        whole = self.whole(views, width, height)
        parts = self.cut(scenes, whole)
        return equal_sized(parts, whole) if self.layers else parts

    def whole(self, views: Sequence[EyeView], width: int, height: int) -> list[Camera]:
        """The eyes in the scene's frame, uncut."""
        assert self.placement is not None
        return [self.placement.camera(camera_of(view, width, height, name)) for view, name in zip(views, EYES, strict=False)]

    def cut(self, scenes: Sequence[Scene], cameras: Sequence[Camera]) -> list[Camera | None]:
        """Cameras of the scene's frame cut to what is to be seen."""
        points = [place.outside(outline_points(scene)) for place, scene in zip(self.places, scenes, strict=True)]
        if self.lines:
            corner, right, up = panel_place(_middle(cameras), len(self.lines))
            points.append(np.stack([corner, corner + right, corner + up, corner + right + up]))
        bounds = np.concatenate(points)
        return [cropped(camera, bounds) for camera in cameras]

    def draw(
        self,
        scenes: Sequence[Scene],
        cameras: Sequence[Camera],
        framebuffers: Sequence[Any],
        level: Level,
        origins: Sequence[tuple[int, int]] | None = None,
        layered: Any = None,
        hidden: Sequence[np.ndarray | None] | None = None,
        toward: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        """Draw prepared scenes into framebuffers; a head that is too near fades, the others stay.

        level: of the configuration; the cameras have its scale already (see drawn_size).
        origins: lower left corner of each picture in its framebuffer, by default that of the framebuffer. layered: where `layers`
        holds, a framebuffer whose layers are those of `framebuffers`, for both eyes at once. hidden: of each camera, see
        RealtimeRenderer.draw. toward: where each eye looks, see Foveation.draw; its optical axis by default.
        """
        if not cameras:
            return
        corners = origins or [(0, 0)] * len(cameras)
        areas = [(*corner, camera.width, camera.height) for corner, camera in zip(corners, cameras, strict=True)]
        unseen = hidden or [None] * len(cameras)
        if self._foveation is None:
            at_once = layered if self.layers and len({area[2:] for area in areas}) == 1 and len(cameras) == len(EYES) else None
            self._draw_heads(scenes, cameras, framebuffers, areas, self._options[level], unseen, layered=at_once)
        else:

            def draw_views(
                seen: Sequence[Camera],
                targets: Sequence[Any],
                viewports: Sequence[tuple[int, int, int, int]],
                covered: Sequence[np.ndarray | None],
                regions: Sequence[ScreenRegion | None],
                coarse: bool,
            ) -> None:
                options = (self._coarse if coarse else self._options)[level]
                self._draw_heads(scenes, seen, targets, viewports, options, covered, regions)

            self._foveation.draw(draw_views, cameras, framebuffers, areas, unseen, toward)
        if self.lines:
            self._panel.write(self.lines)
            for framebuffer, area, camera in zip(framebuffers, areas, cameras, strict=True):
                self._panel.draw(framebuffer, area, camera, _middle(cameras))

    def _draw_heads(
        self,
        scenes: Sequence[Scene],
        cameras: Sequence[Camera],
        framebuffers: Sequence[Any],
        areas: Sequence[tuple[int, int, int, int]],
        options: RenderOptions,
        hidden: Sequence[np.ndarray | None],
        regions: Sequence[ScreenRegion | None] | None = None,
        layered: Any = None,
    ) -> None:
        """All heads over the background, into each framebuffer, or into the layers of one for both eyes at once."""
        viewer = _middle(cameras)
        # Far heads first: what is blended at a near one's edge is then in the picture already.
        order = sorted(range(len(scenes)), key=lambda index: -float(np.linalg.norm(viewer - self.places[index].translation)))
        for turn, index in enumerate(order):
            seen = [self.places[index].camera(camera) for camera in cameras]
            background = self.background if turn == 0 else None
            share = presence(nearest_m(scenes[index].vertices, seen))
            draw = self._renderers[index].draw
            if share < 1:
                self._draw_faded(index, scenes[index], seen, framebuffers, options, background, areas, share)
            elif layered is not None:
                draw(scenes[index], seen, [layered], options, background, areas[:1], "layers", hidden)
            else:
                draw(scenes[index], seen, framebuffers, options, background, areas, hidden=hidden, regions=regions)

    def _draw_faded(
        self,
        index: int,
        scene: Scene,
        cameras: Sequence[Camera],
        framebuffers: Sequence[Any],
        options: RenderOptions,
        background: tuple[float, float, float, float] | None,
        areas: Sequence[tuple[int, int, int, int]],
        share: float,
    ) -> None:
        """Draw one head by a share of its presence over what is there, or over the background where that is given."""
        for camera, framebuffer, area in zip(cameras, framebuffers, areas, strict=True):
            if background is not None:
                self._fade.clear(framebuffer, area, background)
            if share > 0:
                own = (0, 0, camera.width, camera.height)
                sheet = self._fade.sheet(camera.width, camera.height)
                self._renderers[index].draw(scene, [camera], [sheet], options, (0.0, 0.0, 0.0, 0.0), [own])
                self._fade.blend(framebuffer, area, share)

    def draw_motion(
        self,
        before: tuple[Sequence[Scene], Sequence[Camera]],
        now: tuple[Sequence[Scene], Sequence[Camera]],
        framebuffers: Sequence[Any],
    ) -> None:
        """Fill float framebuffers, one a camera, with how far each visible point moved since `before`, in normalised device
        coordinates (avatar3d.rendering.opengl.motion_vectors), and their depth. Cameras: of the scene's frame, as `whole` gives them.
        """
        (old_scenes, old_cameras), (scenes, cameras) = ((self._whole(told), seen) for told, seen in (before, now))
        if not self._motion:
            self._motion = [MotionVectors(self._context, scene, ndc=True) for scene in scenes]
        for old_camera, camera, framebuffer in zip(old_cameras, cameras, framebuffers, strict=True):
            for index, (place, vectors) in enumerate(zip(self.places, self._motion, strict=True)):
                old, new = (old_scenes[index], place.camera(old_camera)), (scenes[index], place.camera(camera))
                vectors.draw(old, new, framebuffer, clear=index == 0)

    def _whole(self, scenes: Sequence[Scene]) -> list[Scene]:
        """Scenes of the heads with all their faces, whatever they were prepared as: what is compared has the same vertices."""
        return [
            scene if scene.avatar is renderer.avatar else renderer.pose(scene.motion)
            for renderer, scene in zip(self._renderers, scenes, strict=True)
        ]

    def measure(
        self, width: int, height: int, eyes: int = 2, between: Callable[[], None] = lambda: None
    ) -> tuple[float | None, ...]:
        """Milliseconds that drawing a width × height image for one or two eyes takes at each level; None for what the avatars lack.

        between: called between two frames; may raise.

        Warms the driver for sRGB targets, which compiles anew for each kind.
        """
        target = SrgbTarget(self._context, width, height)
        for renderer in self._renderers:
            renderer.warm(target.framebuffer)
        angles, offset = TRIAL_ANGLES
        views = [
            EyeView((0.0, 0.0, 0.0, 1.0), (side * offset[0], 0.0, self._distance_m), angles) for side in (-1.0, 1.0)[:eyes]
        ]
        taken: dict[Level, list[float]] = {level: [] for level in self._config.levels if self.available[level.rung]}
        for _ in range(TRIALS):  # in turn, so that what else the machine does falls on all of them
            for level, times in taken.items():
                between()
                whole = [camera_of(view, *drawn_size(level.scale, width, height)) for view in views]
                started = time.perf_counter()
                scenes = self.prepare([MotionCode()] * len(self.places))
                cameras = [cut or camera for cut, camera in zip(self.cut(scenes, whole), whole, strict=True)]
                self.draw(scenes, cameras, [target.framebuffer] * eyes, level)
                self._context.finish()
                times.append((time.perf_counter() - started) * 1e3)
        target.release()
        return tuple(min(taken[level][1:]) if level in taken else None for level in self._config.levels)

    def close(self) -> None:
        """Free the GL objects."""
        self._fade.release()
        self._panel.release()
        for vectors in self._motion:
            vectors.release()
        if self._foveation is not None:
            self._foveation.release()
        for renderer in self._renderers:
            renderer.close()


def _coarse_options(options: RenderOptions, foveation: FoveationSettings, avatars: Sequence[Avatar]) -> RenderOptions:
    """How a rung's periphery is drawn; as the rest where an avatar lacks the coarser form."""
    coarse = foveation.coarse_options(options)
    return coarse if all(available_form(avatar, coarse.form) == coarse.form for avatar in avatars) else options


def _middle(cameras: Sequence[Camera]) -> np.ndarray:
    """(3,) the point between the cameras."""
    return np.mean([camera.center for camera in cameras], axis=0)
