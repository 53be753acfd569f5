"""The realtime renderer: OpenGL through moderngl, headless by EGL or in a context it is given; draws what `reference` defines.

`render` returns Frames. A loop that owns framebuffers (a window, a headset) calls `load` once and `draw` every frame.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.choices import Form
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.culling.screen_region import ScreenRegion
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD, SURFACE_NONE, Frame, RenderOptions, box_filter
from avatar3d.rendering.lod.level import COARSEST_LOD
from avatar3d.rendering.opengl.avatar.gpu_avatar import GpuAvatar
from avatar3d.rendering.opengl.avatar.programs import VariantPrograms
from avatar3d.rendering.opengl.avatar.variant import Variant
from avatar3d.rendering.opengl.context import create_context
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.hidden_area import HiddenArea
from avatar3d.rendering.opengl.offscreen import OffscreenTarget
from avatar3d.rendering.opengl.painter import AvatarPainter, StageTimer
from avatar3d.rendering.opengl.picture import pictures_of
from avatar3d.rendering.opengl.raw_gl import GL_FRAMEBUFFER_SRGB
from avatar3d.rendering.opengl.stereo import CLIP_DISTANCE, EYES, Stereo
from avatar3d.rendering.opengl.viewports import Viewport, fill
from avatar3d.rendering.scene import Scene, build_scene


class RealtimeRenderer:
    """Owns the GL state: context (made at the first use, or given), programs, buffers and textures of one loaded avatar.

    Use it from one thread. context: an existing moderngl context of a window or an OpenXR session, left open by `close`. An own
    context is current only within the calls: put `with renderer.context:` around other GL work, such as making framebuffers.
    keep: avatars that stay on the GPU, for a caller that draws several in turn. strategy: how pictures are computed; may be set
    anew between two frames, and what was not loaded with it is then compiled when it is first drawn.
    """

    name = "realtime"

    def __init__(self, context: Any = None, keep: int = 1, strategy: DrawStrategy | None = None) -> None:
        self.strategy = strategy or DrawStrategy()
        self._context = context
        self._owns_context = context is None
        self._loaded: GpuAvatar | None = None
        self._keep, self._kept = keep, list[GpuAvatar]()  # the loaded one is the last
        self._targets: dict[tuple[int, int], OffscreenTarget] = {}
        self._hidden: HiddenArea | None = None
        self._own_painter: AvatarPainter | None = None
        self._lod = 0  # as coarse as the head was drawn last (avatar3d.rendering.lod.level), and will be prepared next
        self._drawn: set[tuple[RenderOptions, int]] = set()  # what was drawn, and as coarse as it was, since its last re-bake
        self._info: dict[str, str] | None = None
        self.stage: StageTimer = nullcontext  # for measuring

    @property
    def context(self) -> Any:
        """The moderngl context; raises WorkError where none can be made."""
        if self._context is None:
            self._context = create_context()
        return self._context

    @property
    def info(self) -> dict[str, str]:
        """GL vendor, renderer and version."""
        if self._info is None:
            info = self.context.info
            self._info = {key: info[f"GL_{key.upper()}"] for key in ("vendor", "renderer", "version")}
        return self._info

    @property
    def avatar(self) -> Avatar:
        """The loaded avatar; raises InputError before `load`."""
        return self._require_loaded().avatar

    @property
    def gl_objects(self) -> int:
        """How many GL objects the loaded avatar holds, 0 before `load`: what drawing must not let grow."""
        return 0 if self._loaded is None else self._loaded.gl_objects

    @property
    def _painter(self) -> AvatarPainter:
        if self._own_painter is None:
            self._own_painter = AvatarPainter(self.context)
        self._own_painter.stage = self.stage
        return self._own_painter

    def _current(self) -> AbstractContextManager[Any]:
        """Makes an own context current, so that several renderers may live in one process."""
        return self.context if self._owns_context else nullcontext()

    # --- loading

    def load(
        self, avatar: Avatar, forms: Sequence[Form | RenderOptions] = ("mesh",), stereo: Sequence[Stereo] = ("passes",)
    ) -> None:
        """Put an avatar on the GPU and compile and warm what `forms` name: forms, or options where more than the form differs.

        stereo: each way in which `draw` will be asked for both eyes. Forms that the avatar lacks are drawn as "mesh". Arrays
        changed in place afterwards are not seen: load again. Raises InputError on a field too wide to draw.
        """
        with self._current():
            for form in forms:
                for way in stereo:
                    self._ready(avatar, form if isinstance(form, RenderOptions) else RenderOptions(form), way)

    def _ready(self, avatar: Avatar, options: RenderOptions, stereo: Stereo = "passes") -> GpuAvatar:
        """The avatar on the GPU, with what the options need in each of its coarser forms that they may ask for."""
        if self._loaded is None or self._loaded.avatar is not avatar:
            self._switch(avatar)
        assert self._loaded is not None
        for lod in range(COARSEST_LOD + 1 if options.detail == "seen" else 1):
            self._programs(self._loaded.at(lod), options, stereo)
        return self._loaded

    def _programs(self, drawn: GpuAvatar, options: RenderOptions, stereo: Stereo = "passes") -> VariantPrograms:
        """The programs of a whole or a coarser avatar, compiled at their first use."""
        variant = Variant.of(drawn.avatar, options, self.strategy, stereo)
        if variant not in drawn.programs:
            drawn.compile(variant)
            if drawn is self._loaded:  # the coarser share its programs
                self._warm(drawn, variant)
        return drawn.programs[variant]

    def _switch(self, avatar: Avatar) -> None:
        """Make `avatar` the loaded one, uploading it unless it was kept; the longest unused makes room."""
        self._loaded = None
        self._lod = 0
        self._drawn.clear()
        found = next((kept for kept in self._kept if kept.avatar is avatar), None)
        if found is None:
            while len(self._kept) >= self._keep:
                self._kept.pop(0).release()
            found = GpuAvatar(self.context, avatar)
        self._kept = [*(kept for kept in self._kept if kept is not found), found]
        self._loaded = found

    def _require_loaded(self) -> GpuAvatar:
        if self._loaded is None:
            raise InputError("no avatar is loaded; call load(avatar, forms) before draw")
        return self._loaded

    def warm(self, framebuffer: Any) -> None:
        """Draw all that was loaded into the lower left 16×16 pixels of a framebuffer of the kind that `draw` will be given.

        Drivers compile a program anew for each kind of target: without this the first frame of each rung, and the first that
        needs another texture delta, comes late.
        """
        loaded = self._require_loaded()
        with self._current():
            self.context.enable_direct(GL_FRAMEBUFFER_SRGB)
            for variant in loaded.programs:
                self._draw_small(loaded, variant, framebuffer)
            self.context.disable_direct(GL_FRAMEBUFFER_SRGB)
            self.context.finish()

    def _warm(self, loaded: GpuAvatar, variant: Variant) -> None:
        """Draw small pictures, so that the driver finishes compiling now and not in the first frame that is seen."""
        target = self._target(16, 16)
        self._draw_small(loaded, variant, target.framebuffer)
        target.framebuffer.read(components=1)

    def _draw_small(self, loaded: GpuAvatar, variant: Variant, framebuffer: Any) -> None:
        """A small picture with each number of texture deltas."""
        programs = loaded.programs[variant]
        cameras = [Camera.orbit(0.0, width=16, height=16)] * (1 if variant.stereo == "passes" else EYES)
        neutral = build_scene(loaded.avatar, MotionCode(), loaded.layout)
        self._write_scene(loaded, neutral)
        for count in range(len(programs.skin)):
            scene = replace(neutral, deltas=[(index, 1.0) for index in range(count)])
            self._painter.draw(loaded, scene, programs, cameras, framebuffer, (0, 0, 16, 16))

    # --- drawing

    def render(
        self, avatar: Avatar, motion: MotionCode, cameras: Sequence[Camera], options: RenderOptions | None = None
    ) -> list[Frame]:
        """One Frame per camera, read back. Raises InputError where a picture is larger than the driver's limit."""
        options = options or RenderOptions()
        factor = options.supersample
        with self._current():
            limit = self.context.info["GL_MAX_RENDERBUFFER_SIZE"]
            for camera in cameras:
                if max(camera.width, camera.height) * factor > limit:
                    raise InputError(
                        f"a {camera.width}×{camera.height} picture with supersample {factor} is over this driver's limit of "
                        f"{limit} pixels a side; make it smaller or lower the supersample"
                    )
            loaded = self._ready(avatar, options)
            frames = []
            scene: Scene | None = None
            for camera in cameras:
                drawn = loaded.at(loaded.lods.wanted(options, motion, [camera]))
                if scene is None or scene.avatar is not drawn.avatar:
                    scene = build_scene(drawn.avatar, motion, drawn.layout)
                    self._write_scene(drawn, scene)
                    drawn.rebake(Variant.of(drawn.avatar, options, self.strategy), motion.weights, None)
                frames.append(self._frame(drawn, scene, camera, self._programs(drawn, options), options))
            return frames

    def rebake(
        self,
        motion: MotionCode,
        options: RenderOptions,
        budget_ms: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> int:
        """Move the textures that pictures with the options were drawn from toward a motion code, rows at a time, for about `budget_ms`.

        Returns the bytes sent. Nothing is sent where the look would change by less than is seen. A re-bake under way is finished,
        at each call some rows, before the next begins; rows are sent in blocks, each begun within the budget. `draw` leaves the
        textures as they are, `render` has them whole for its motion code. clock: seconds. Raises InputError before `load`.
        """
        loaded, began = self._require_loaded(), clock()
        # Views of one frame may differ in how coarse they are (avatar3d.rendering.opengl.foveation): each has its share of the budget.
        lods = sorted(lod for asked, lod in self._drawn if asked == options)
        lods = lods or [self._lod if options.detail == "seen" else 0]
        self._drawn -= {(options, lod) for lod in lods}

        def left(share: float) -> bool:
            return clock() < began + share * budget_ms / 1e3

        sent = 0
        with self._current():
            for count, lod in enumerate(lods, start=1):
                own = loaded.at(lod)
                variant = Variant.of(own.avatar, options, self.strategy)
                sent += own.rebake(variant, motion.weights, partial(left, count / len(lods)))
        return sent

    def pose(self, motion: MotionCode) -> Scene:
        """The loaded avatar's scene at a motion code; sends nothing."""
        loaded = self._require_loaded()
        return build_scene(loaded.avatar, motion, loaded.layout)

    def prepare(self, motion: MotionCode) -> Scene:
        """Pose the loaded avatar and send it to the GPU, so that `draw` of the scene waits only for the cameras.

        It is as coarse as the last pictures asked for; where the next ask for more or less, `draw` prepares it anew.
        """
        return self._prepare(self._require_loaded().at(self._lod), motion)

    def _prepare(self, drawn: GpuAvatar, motion: MotionCode) -> Scene:
        scene = build_scene(drawn.avatar, motion, drawn.layout)
        with self._current():
            self._write_scene(drawn, scene)
        return scene

    def draw(
        self,
        motion: MotionCode | Scene,
        cameras: Sequence[Camera],
        framebuffers: Sequence[Any],
        options: RenderOptions | None = None,
        background: tuple[float, float, float, float] | None = (0.0, 0.0, 0.0, 0.0),
        viewports: Sequence[Viewport] | None = None,
        stereo: Stereo = "passes",
        hidden: Sequence[np.ndarray | None] | None = None,
        regions: Sequence[ScreenRegion | None] | None = None,
    ) -> None:
        """Draw the loaded avatar into moderngl framebuffers with a depth attachment, one per camera; reads nothing back.

        motion: a motion code, or what `prepare` made of one last; then what the options name must have been loaded.
        sRGB targets are encoded by the driver, others receive linear light. background: linear, premultiplied;
        each viewport is cleared to it first, or with None drawn over what is there, nearer surfaces in front.
        viewports: (x, y, width, height) in each framebuffer, GL's origin at the bottom left; the whole one by default.
        stereo: other than "passes", the two cameras share one framebuffer, one viewport and every draw call (see
        avatar3d.rendering.opengl.stereo): "layers" wants a layered framebuffer, "sides" puts each eye into half of the viewport.
        hidden: for each camera what its eye cannot see, (N, 2) f32 corners of triangles in normalised device coordinates, or
        None (see opengl.hidden_area): left as it was, or cleared, with the nearest depth. regions: what of each picture is wanted,
        all by default; drawn with "passes" only. options.supersample has no meaning here. Raises InputError before `load`, on
        lists of unequal length, or on a hidden area that holds no triangles.
        """
        avatar = self._require_loaded().avatar
        options = options or RenderOptions()
        pictures = pictures_of(cameras, framebuffers, viewports, stereo, hidden, regions)
        with self._current():
            loaded = self._ready(avatar, options, stereo)
        code = motion.motion if isinstance(motion, Scene) else motion
        self._lod = loaded.lods.wanted(options, code, cameras, self._lod)
        self._drawn.add((options, self._lod))
        drawn = loaded.at(self._lod)
        as_prepared = isinstance(motion, Scene) and loaded.shows(motion) is drawn
        scene = motion if isinstance(motion, Scene) and as_prepared else self._prepare(drawn, code)
        with self._current():
            programs = self._programs(drawn, options, stereo)
            self.context.enable_direct(GL_FRAMEBUFFER_SRGB)
            if stereo == "sides":
                self.context.enable_direct(CLIP_DISTANCE)
            try:
                areas = [picture.viewport for picture in pictures]
                at_once = background is not None and regions is None and fill(framebuffers, areas)
                if background is not None and at_once:
                    framebuffers[0].clear(*background, depth=1.0)
                hides = any(area is not None for picture in pictures for area in picture.hidden)
                for picture in pictures:
                    framebuffer = picture.framebuffer
                    framebuffer.use()
                    framebuffer.viewport = picture.viewport
                    framebuffer.depth_mask = True
                    wanted = picture.wanted
                    if background is not None and not at_once:
                        framebuffer.clear(*background, depth=1.0, viewport=wanted)
                    framebuffer.scissor = None if wanted == picture.viewport else wanted
                    if hides:
                        self._hide(picture.hidden, stereo)
                    self._painter.draw(
                        drawn, scene, programs, picture.cameras, framebuffer, picture.viewport, options.hair, picture.region
                    )
            finally:
                for framebuffer in framebuffers:
                    framebuffer.scissor = None
                if stereo == "sides":
                    self.context.disable_direct(CLIP_DISTANCE)
                self.context.disable_direct(GL_FRAMEBUFFER_SRGB)

    def _hide(self, areas: Sequence[np.ndarray | None], stereo: Stereo) -> None:
        if self._hidden is None:
            self._hidden = HiddenArea(self.context)
        self._hidden.draw(areas, stereo)

    def _write_scene(self, loaded: GpuAvatar, scene: Scene) -> None:
        """Send what the motion code moved, or have it moved there."""
        if self.strategy.morph == "gpu":
            loaded.buffers.morph.run(scene)
        else:
            loaded.buffers.write_posed(scene)

    def _target(self, width: int, height: int) -> OffscreenTarget:
        """An off-screen target, kept for the next picture of its size."""
        if (width, height) not in self._targets:
            self._targets[width, height] = OffscreenTarget(self.context, width, height)
        return self._targets[width, height]

    def _frame(
        self, drawn: GpuAvatar, scene: Scene, camera: Camera, programs: VariantPrograms, options: RenderOptions
    ) -> Frame:
        factor = options.supersample
        width, height = camera.width * factor, camera.height * factor
        target, painter = self._target(width, height), self._painter
        target.clear()
        painter.draw(drawn, scene, programs, [camera], target.framebuffer, (0, 0, width, height), options.hair)
        depth = target.depth_m(camera)
        surface = np.where(np.isfinite(depth), SURFACE_HEAD, SURFACE_NONE).astype(np.int8)
        rgba = target.rgba()
        if options.hair and programs.hair is not None:
            target.clear()
            for culled in ("back", "front"):
                painter.draw_hair_base(target.framebuffer, programs.hair, culled)
            surface[np.isfinite(depth) & (target.depth_m(camera) == depth)] = SURFACE_HAIR
        return box_filter(Frame(rgba, depth, surface), factor)

    # --- releasing

    def close(self) -> None:
        """Free every GL object, and the context where this renderer made it."""
        if self._context is None:
            return
        with self._current():
            for kept in self._kept:
                kept.release()
            self._kept.clear()
            self._loaded = None
            if self._hidden is not None:
                self._hidden.release()
                self._hidden = None
            if self._own_painter is not None:
                self._own_painter.release()
                self._own_painter = None
            for target in self._targets.values():
                target.release()
            self._targets.clear()
        if self._owns_context:
            self._context.release()
            self._context = None
