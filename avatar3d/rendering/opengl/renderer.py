"""The realtime renderer: OpenGL through moderngl, headless by EGL or in a context it is given; draws what `reference` defines.

`render` returns Frames. A loop that owns framebuffers (a window, a headset) calls `load` once and `draw` every frame.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.errors import InputError, WorkError
from avatar3d.extras import pip_install
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.culling.backface import edge_on_m3
from avatar3d.rendering.culling.screen_region import Box, Part, place_codes
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD, SURFACE_NONE, Form, Frame, RenderOptions, box_filter
from avatar3d.rendering.lod.fold import available_form
from avatar3d.rendering.lod.level import STEPS
from avatar3d.rendering.opengl.draw_strategy import Build
from avatar3d.rendering.opengl.gbuffer import Gathering
from avatar3d.rendering.opengl.gpu_avatar import (
    DELTA_UNITS,
    FADED,
    UNITS,
    Deferred,
    GpuAvatar,
    HairPasses,
    Pass,
    Passes,
    Variant,
    matrix_bytes,
    refill,
    vector_bytes,
    whole_range,
)
from avatar3d.rendering.opengl.hidden_area import HiddenArea
from avatar3d.rendering.opengl.raw_gl import GL_FRAMEBUFFER_SRGB
from avatar3d.rendering.opengl.shaders import first_bias
from avatar3d.rendering.opengl.stereo import CLIP_DISTANCE, EYES, Stereo
from avatar3d.rendering.outline import STRIP_TRIANGLES, strips
from avatar3d.rendering.scene import MAX_DELTAS, PosedHair, Scene, build_scene

VERTEX_STEP = 64  # every so many vertices tell how far a head reaches; they lie some 3 mm apart
HAIR_M = 0.2  # that hair reaches beyond the head's vertices at most
NO_CONTEXT = (
    "no OpenGL context could be made ({reason}); install a driver (Debian and Ubuntu: apt install libegl1 libgl1 "
    "libgl1-mesa-dri), or use the reference renderer"
)

__all__ = ["RealtimeRenderer", "available_form", "create_context"]


def create_context() -> Any:
    """A headless moderngl context (EGL on Linux); raises WorkError saying what to install."""
    try:
        import moderngl
    except ImportError as error:
        raise WorkError(
            f"the realtime renderer needs moderngl, which is not installed; run: {pip_install('moderngl')}"
        ) from error
    # The versioned names exist without development packages.
    settings: dict[str, Any] = (
        {"backend": "egl", "libgl": "libGL.so.1", "libegl": "libEGL.so.1"} if sys.platform == "linux" else {}
    )
    try:
        return moderngl.create_context(standalone=True, require=330, **settings)
    except Exception as error:
        raise WorkError(NO_CONTEXT.format(reason=str(error).strip() or type(error).__name__)) from error


@dataclass
class _Target:
    """An off-screen framebuffer for reading back."""

    framebuffer: Any
    color: Any
    depth: Any


class RealtimeRenderer:
    """Owns the GL state: context (made at the first use, or given), programs, buffers and textures of one loaded avatar.

    Use it from one thread. context: an existing moderngl context of a window or an OpenXR session, left open by `close`. An own
    context is current only within the calls: put `with renderer.context:` around other GL work, such as making framebuffers.
    keep: avatars that stay on the GPU, for a caller that draws several in turn. build: how pictures are computed; may be set
    anew between two frames, and what was not loaded with it is then compiled when it is first drawn.
    """

    name = "realtime"

    def __init__(self, context: Any = None, keep: int = 1, build: Build | None = None) -> None:
        self.build = build or Build()
        self._context = context
        self._owns_context = context is None
        self._loaded: GpuAvatar | None = None
        self._keep, self._kept = keep, list[GpuAvatar]()  # the loaded one is the last
        self._targets: dict[tuple[int, int], _Target] = {}
        self._hidden: HiddenArea | None = None
        self._gathering: Gathering | None = None
        self._step = 0  # as coarse as the head was drawn last (avatar3d.rendering.lod.level), and will be prepared next
        self._drawn: set[tuple[RenderOptions, int]] = set()  # what was drawn, and as coarse as it was, since its last re-bake
        self._info: dict[str, str] | None = None
        # Called with "head", "hair base" or "hair levels", gives what each stage of a view is drawn within: for measuring.
        self.stage: Callable[[str], AbstractContextManager[Any]] = nullcontext

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
        for step in range(STEPS + 1 if options.detail == "seen" else 1):
            self._passes(self._loaded.at(step), options, stereo)
        return self._loaded

    def _passes(self, drawn: GpuAvatar, options: RenderOptions, stereo: Stereo = "passes") -> Passes:
        """The programs of a whole or a coarser avatar, compiled at their first use."""
        variant = Variant.of(drawn.avatar, options, self.build, stereo)
        if variant not in drawn.passes:
            drawn.compile(variant)
            if drawn is self._loaded:  # the coarser share its programs
                self._warm(drawn, variant)
        return drawn.passes[variant]

    def _switch(self, avatar: Avatar) -> None:
        """Make `avatar` the loaded one, uploading it unless it was kept; the longest unused makes room."""
        self._loaded = None
        self._step = 0
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
            for variant in loaded.passes:
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
        passes = loaded.passes[variant]
        cameras = [Camera.orbit(0.0, width=16, height=16)] * (1 if variant.stereo == "passes" else EYES)
        neutral = build_scene(loaded.avatar, MotionCode(), loaded.layout)
        self._write_scene(loaded, neutral)
        for count in range(len(passes.skin)):
            scene = replace(neutral, deltas=[(index, 1.0) for index in range(count)])
            self._draw_views(loaded, scene, cameras, framebuffer, (0, 0, 16, 16), passes, RenderOptions())

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
                drawn = loaded.at(loaded.steps.drawn(options, motion, [camera]))
                if scene is None or scene.avatar is not drawn.avatar:
                    scene = build_scene(drawn.avatar, motion, drawn.layout)
                    self._write_scene(drawn, scene)
                    drawn.rebake(Variant.of(drawn.avatar, options, self.build), motion.weights, None)
                frames.append(self._frame(drawn, scene, camera, self._passes(drawn, options), options))
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
        steps = sorted(step for asked, step in self._drawn if asked == options)
        steps = steps or [self._step if options.detail == "seen" else 0]
        self._drawn -= {(options, step) for step in steps}

        def left(share: float) -> bool:
            return clock() < began + share * budget_ms / 1e3

        sent = 0
        with self._current():
            for count, step in enumerate(steps, start=1):
                own = loaded.at(step)
                variant = Variant.of(own.avatar, options, self.build)
                sent += own.rebake(variant, motion.weights, partial(left, count / len(steps)))
        return sent

    def pose(self, motion: MotionCode) -> Scene:
        """The loaded avatar's scene at a motion code; sends nothing."""
        loaded = self._require_loaded()
        return build_scene(loaded.avatar, motion, loaded.layout)

    def prepare(self, motion: MotionCode) -> Scene:
        """Pose the loaded avatar and send it to the GPU, so that `draw` of the scene waits only for the cameras.

        It is as coarse as the last pictures asked for; where the next ask for more or less, `draw` prepares it anew.
        """
        return self._prepare(self._require_loaded().at(self._step), motion)

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
        viewports: Sequence[tuple[int, int, int, int]] | None = None,
        stereo: Stereo = "passes",
        hidden: Sequence[np.ndarray | None] | None = None,
        parts: Sequence[Part | None] | None = None,
    ) -> None:
        """Draw the loaded avatar into moderngl framebuffers with a depth attachment, one per camera; reads nothing back.

        motion: a motion code, or what `prepare` made of one last; then what the options name must have been loaded.
        sRGB targets are encoded by the driver, others receive linear light. background: linear, premultiplied;
        each viewport is cleared to it first, or with None drawn over what is there, nearer surfaces in front.
        viewports: (x, y, width, height) in each framebuffer, GL's origin at the bottom left; the whole one by default.
        stereo: other than "passes", the two cameras share one framebuffer, one viewport and every draw call (see
        avatar3d.rendering.opengl.stereo): "layers" wants a layered framebuffer, "sides" puts each eye into half of the viewport.
        hidden: for each camera what its eye cannot see, (N, 2) f32 corners of triangles in normalised device coordinates, or
        None (see opengl.hidden_area): left as it was, or cleared, with the nearest depth. parts: what of each picture is wanted,
        all by default; drawn with "passes" only. options.supersample has no meaning here. Raises InputError before `load`, on
        lists of unequal length, or on a hidden area that holds no triangles.
        """
        avatar = self._require_loaded().avatar
        options = options or RenderOptions()
        areas = viewports or [(0, 0, *framebuffer.size) for framebuffer in framebuffers]
        groups = [[camera] for camera in cameras] if stereo == "passes" else [list(cameras)]
        if not len(groups) == len(framebuffers) == len(areas):
            counts = f"{len(cameras)} cameras, {len(framebuffers)} framebuffers and {len(areas)} viewports"
            raise InputError(
                f"{counts} were given; expected {'as many of each' if stereo == 'passes' else 'one for both eyes'}"
            )
        if stereo != "passes" and len(cameras) != EYES:
            raise InputError(f"{len(cameras)} cameras were given; drawing {stereo} takes those of two eyes")
        unseen = [None] * len(cameras) if hidden is None else list(hidden)
        wanted = [None] * len(cameras) if parts is None else list(parts)
        if len(unseen) != len(cameras):
            raise InputError(
                f"{len(unseen)} hidden areas were given for {len(cameras)} cameras; expected one a camera, or None"
            )
        if len(wanted) != len(cameras) or (stereo != "passes" and parts is not None):
            raise InputError(
                f"{len(wanted)} parts were given for {len(cameras)} cameras drawn in {stereo}; expected one a pass"
            )
        with self._current():
            loaded = self._ready(avatar, options, stereo)
        code = motion.motion if isinstance(motion, Scene) else motion
        self._step = loaded.steps.drawn(options, code, cameras, self._step)
        self._drawn.add((options, self._step))
        drawn = loaded.at(self._step)
        as_prepared = isinstance(motion, Scene) and loaded.shows(motion) is drawn
        scene = motion if isinstance(motion, Scene) and as_prepared else self._prepare(drawn, code)
        with self._current():
            passes = self._passes(drawn, options, stereo)
            self.context.enable_direct(GL_FRAMEBUFFER_SRGB)
            if stereo == "sides":
                self.context.enable_direct(CLIP_DISTANCE)
            try:
                at_once = background is not None and parts is None and fill(framebuffers, areas)
                if background is not None and at_once:
                    framebuffers[0].clear(*background, depth=1.0)
                for index, (together, framebuffer, area) in enumerate(zip(groups, framebuffers, areas, strict=True)):
                    part = wanted[index]
                    framebuffer.use()
                    framebuffer.viewport = area
                    framebuffer.depth_mask = True
                    cut = area if part is None or part.inside is None else _cut(area, part.inside)
                    if background is not None and not at_once:
                        framebuffer.clear(*background, depth=1.0, viewport=cut)
                    framebuffer.scissor = None if cut is area else cut
                    if any(each is not None for each in unseen):
                        self._hide(unseen if len(together) > 1 else unseen[index : index + 1], stereo)
                    self._draw_views(drawn, scene, together, framebuffer, area, passes, options, part)
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
        if self.build.morph == "gpu":
            loaded.morph.run(scene)
            return
        loaded.dynamic[:, 0:3] = scene.vertices
        loaded.dynamic[:, 3:6] = scene.normals
        loaded.dynamic[:, 6:9] = scene.shade
        loaded.dynamic_buffer.write(loaded.dynamic)
        if scene.hair is not None:
            loaded.hair_shade_buffer.write(np.ascontiguousarray(scene.hair.shade, np.float32))

    def _bind(self, loaded: GpuAvatar, scene: Scene, passes: Passes) -> None:
        for unit, texture in passes.textures.items():
            texture.use(unit)
        for slot, unit in enumerate(DELTA_UNITS[: len(loaded.deltas)]):
            loaded.deltas[scene.deltas[slot][0] if slot < len(scene.deltas) else 0].use(unit)

    def _set_uniforms(
        self, loaded: GpuAvatar, scene: Scene, cameras: Sequence[Camera], passes: Passes, viewport: tuple[int, int, int, int]
    ) -> None:
        activation = np.zeros(MAX_DELTAS)
        activation[: len(scene.deltas)] = [value for _, value in scene.deltas]
        values = {
            "view_projection": b"".join(matrix_bytes(camera.projection_matrix() @ camera.view_matrix()) for camera in cameras),
            "eye": vector_bytes([camera.center for camera in cameras]),
            "viewport": vector_bytes(_eye_size(viewport, passes.stereo)),
            "light_direction": vector_bytes(scene.light_direction),
            "delta_activation": vector_bytes(activation),
        }
        if passes.field is not None:
            values["field_bias"] = vector_bytes(first_bias(passes.field, scene.motion.weights))
        if scene.hair is not None:
            values["head_rotation"] = matrix_bytes(scene.hair.rotation)
            values["head_translation"] = vector_bytes(scene.hair.translation)
        for entry in passes.drawn_with(len(scene.deltas)):
            entry.set(values)

    def _draw_views(
        self,
        loaded: GpuAvatar,
        scene: Scene,
        cameras: Sequence[Camera],
        framebuffer: Any,
        viewport: tuple[int, int, int, int],
        passes: Passes,
        options: RenderOptions,
        part: Part | None = None,
    ) -> None:
        """Nearest surfaces first: what they hide is then rejected by depth before it is shaded.

        That is the outside of the hair's base, the head, the inside of the base; then the blended levels.
        """
        framebuffer.use()
        framebuffer.viewport = viewport
        self._bind(loaded, scene, passes)
        self._set_uniforms(loaded, scene, cameras, passes, viewport)
        farthest_m = max(_farthest_m(scene, camera, passes.posed_there) for camera in cameras)
        edge_on = [edge_on_m3(camera, farthest_m) for camera in cameras]
        if passes.posed_there:
            loaded.draw_all_faces()
            facing = []
        else:
            codes = None if part is None else place_codes(scene.vertices, cameras[0], part)
            facing = loaded.send_faces(scene, cameras, edge_on, codes)
        hair = passes.hair if options.hair else None
        if hair is not None and scene.hair is not None:
            eyes = [(camera.center - scene.hair.translation) @ scene.hair.rotation for camera in cameras]
            hair.send(eyes, edge_on, None if part is None else self._hair_codes(hair, scene.hair, cameras[0], part))
        if hair is not None:
            with self.stage("hair base"):
                self._draw_hair_base(framebuffer, hair, "back")
        with self.stage("head"):
            self._draw_head(loaded, scene, framebuffer, passes)
            if passes.fins:
                self._draw_fins(loaded, scene, facing, framebuffer, passes)
        if hair is not None:
            with self.stage("hair base"):
                self._draw_hair_base(framebuffer, hair, "front")
            with self.stage("hair levels"):
                self._draw_hair_levels(framebuffer, hair)

    def _hair_codes(self, hair: HairPasses, posed: PosedHair, camera: Camera, part: Part) -> list[np.ndarray]:
        """place_codes of each level."""
        inside = camera.moved(posed.rotation, posed.translation)  # levels are placed in the head's frame
        shells = hair.shells
        return [place_codes(shells.base + level * shells.extent, inside, part) for level in shells.levels]

    def _opaque_state(self, framebuffer: Any) -> None:
        context = self.context
        context.front_face = "ccw"
        context.cull_face = "back"
        # Where the head touches the hair's base, the head is seen, as in the order that the reference draws in.
        context.depth_func = "<="
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE)
        framebuffer.depth_mask = True

    def _draw_head(self, loaded: GpuAvatar, scene: Scene, framebuffer: Any, passes: Passes) -> None:
        context, active = self.context, len(scene.deltas)
        self._opaque_state(framebuffer)

        def draw(group: str, *entries: Pass) -> None:
            ranges = loaded.groups[group]
            if len(entries) == 1:
                ranges = [whole_range(ranges)]
            for entry, (first, count) in zip(entries, ranges, strict=True):
                if count:
                    entry.vertex_array.render(vertices=count, first=first)

        if passes.deferred is None:
            draw("skin", *passes.skin[0])
            draw("skin reached", *passes.skin[active])
        else:
            self._draw_deferred(draw, framebuffer, passes.deferred, active)
        draw("parts", passes.detail[0])
        draw("parts reached", passes.detail[active])
        context.disable(context.CULL_FACE)
        draw("lashes", passes.detail[active])
        # Only the front-most faded fragment is blended, its depth keeps out the others: from the nearest face to the farthest, or
        # where their order is not known here, depth first, then colour where depth is equal.
        context.enable(context.CULL_FACE | context.BLEND)
        if passes.posed_there:
            context.blend_func = context.ZERO, context.ONE
            for group in FADED:
                draw(group, passes.faded_depth)
            context.depth_func = "=="
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        draw("faded", passes.faded_plain)
        draw("faded skin", passes.faded[active])
        context.disable(context.BLEND)

    def _draw_deferred(self, draw: Callable[..., None], framebuffer: Any, deferred: Deferred, active: int) -> None:
        """The skin: what it is at each pixel, then its colour where there is skin, then that into the picture."""
        context = self.context
        gathering = self._gathering = self._gathering or Gathering(context)
        left, bottom, width, height = framebuffer.viewport
        gathering.begin(width, height)
        gathering.surfaces.use()
        for group in ("skin", "skin reached"):
            draw(group, deferred.gather)
        gathering.shaded.use()
        gathering.use(UNITS, surfaces=True)
        context.depth_func = ">"  # the triangle lies behind all: it is seen where a surface is nearer
        deferred.shade[active].vertex_array.render(vertices=3)
        framebuffer.use()
        gathering.use(UNITS, surfaces=False)
        context.depth_func = "<="
        deferred.compose.set({"gathered_origin": vector_bytes((left, bottom))})
        deferred.compose.vertex_array.render(vertices=3)

    def _draw_fins(self, loaded: GpuAvatar, scene: Scene, facing: list[np.ndarray], framebuffer: Any, passes: Passes) -> None:
        """Strips along the outline of the head as each eye sees it, blended over what lies behind."""
        context = self.context
        if passes.posed_there:
            of_first = len(loaded.outline.sides)
            count = of_first * (1 if passes.stereo == "passes" else EYES)
        else:
            planes = scene.planes.take(loaded.skin_faces, axis=1)
            outlines = [loaded.outline.fins(seen, planes, scene.vertices) for seen in facing]
            fins = np.concatenate(outlines) if len(outlines) > 1 else outlines[0]
            of_first, count = len(outlines[0]), len(fins)
            if not len(fins):
                return
            refill(loaded.fin_buffer, strips(fins, loaded.dynamic, loaded.static))
        context.enable_only(context.DEPTH_TEST | context.BLEND)
        context.depth_func = "<="
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        framebuffer.depth_mask = False
        entry = passes.fins[len(scene.deltas)]
        entry.set({"fins_of_first": np.int32(of_first).tobytes()})
        entry.vertex_array.render(vertices=len(STRIP_TRIANGLES) * count)
        framebuffer.depth_mask = True

    def _draw_hair_base(self, framebuffer: Any, hair: HairPasses, culled: str) -> None:
        """Draw the base's faces that are not culled: the outside with `culled` "back", the inside with "front"."""
        self._opaque_state(framebuffer)
        self.context.cull_face = culled
        if culled == "front":
            self.context.depth_func = "<"
        _draw_hair(hair, "front" if culled == "back" else "back")

    def _draw_hair_levels(self, framebuffer: Any, hair: HairPasses) -> None:
        """The blended levels, from inside out, hidden by opaque surfaces and hiding nothing."""
        context = self.context
        context.depth_func = "<"
        context.cull_face = "back"
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE | context.BLEND)
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        framebuffer.depth_mask = False
        _draw_hair(hair, "outer")
        framebuffer.depth_mask = True
        context.disable(context.BLEND)

    def _target(self, width: int, height: int) -> _Target:
        """An off-screen target of half floats, kept for the next picture of its size."""
        if (width, height) not in self._targets:
            color = self.context.texture((width, height), 4, dtype="f2")
            depth = self.context.depth_texture((width, height))
            self._targets[width, height] = _Target(self.context.framebuffer([color], depth), color, depth)
        return self._targets[width, height]

    def _frame(self, loaded: GpuAvatar, scene: Scene, camera: Camera, passes: Passes, options: RenderOptions) -> Frame:
        factor = options.supersample
        width, height = camera.width * factor, camera.height * factor
        target = self._target(width, height)
        framebuffer = target.framebuffer
        framebuffer.use()
        framebuffer.depth_mask = True
        framebuffer.clear(0.0, 0.0, 0.0, 0.0, depth=1.0)
        self._draw_views(loaded, scene, [camera], framebuffer, (0, 0, width, height), passes, options)
        depth = self._depth(target, camera)
        surface = np.where(np.isfinite(depth), SURFACE_HEAD, SURFACE_NONE).astype(np.int8)
        pixels = np.frombuffer(framebuffer.read(components=4, dtype="f2"), np.float16).reshape(height, width, 4)
        rgba = pixels[::-1].astype(np.float32)
        if options.hair and passes.hair is not None:
            framebuffer.clear(0.0, 0.0, 0.0, 0.0, depth=1.0)
            for culled in ("back", "front"):
                self._draw_hair_base(framebuffer, passes.hair, culled)
            surface[np.isfinite(depth) & (self._depth(target, camera) == depth)] = SURFACE_HAIR
        return box_filter(Frame(rgba, depth, surface), factor)

    def _depth(self, target: _Target, camera: Camera) -> np.ndarray:
        """(H, W) f32 metres along the axis, inf where nothing was drawn, row 0 at the top."""
        width, height = target.depth.size
        window = np.frombuffer(target.depth.read(), np.float32).reshape(height, width)[::-1]
        near, far = camera.near_m, camera.far_m
        drawn = window < 1.0
        metres = np.full((height, width), np.inf, np.float32)
        metres[drawn] = far * near / (far - window[drawn].astype(np.float64) * (far - near))
        return metres

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
            if self._gathering is not None:
                self._gathering.release()
                self._gathering = None
            for target in self._targets.values():
                for resource in (target.framebuffer, target.color, target.depth):
                    resource.release()
            self._targets.clear()
        if self._owns_context:
            self._context.release()
            self._context = None


def _draw_hair(hair: HairPasses, which: str) -> None:
    for entry, values, first, count in hair.drawn(which):
        entry.set(values)
        entry.vertex_array.render(vertices=count, first=first)


def _farthest_m(scene: Scene, camera: Camera, hair_only: bool) -> float:
    """Metres from a camera to the farthest point of a scene, or of its hair alone, or a little more."""
    if not hair_only:
        points = scene.vertices[::VERTEX_STEP]
    elif scene.hair is not None:
        points = scene.hair.shells.base[::VERTEX_STEP] @ scene.hair.rotation.T + scene.hair.translation
    else:
        return 0.0
    offset = points - camera.center.astype(np.float32)
    return float(np.sqrt(np.einsum("va,va->v", offset, offset).max())) + HAIR_M


def fill(framebuffers: Sequence[Any], areas: Sequence[tuple[int, int, int, int]]) -> bool:
    """Whether areas (x, y, width, height) lie side by side in one framebuffer and fill it: a software driver clears it whole in
    no time, and each area by drawing a rectangle."""
    if not framebuffers or any(framebuffer is not framebuffers[0] for framebuffer in framebuffers):
        return False
    width, height = framebuffers[0].size
    columns = sorted((x, x + across) for x, y, across, down in areas if y == 0 and down == height)
    ends = [0, *(end for _, end in columns)]
    return (
        len(columns) == len(areas)
        and ends[-1] == width
        and all(x == end for (x, _), end in zip(columns, ends[:-1], strict=True))
    )


def _cut(viewport: tuple[int, int, int, int], box: Box) -> tuple[int, int, int, int]:
    """(x, y, width, height) of a box in a viewport."""
    left, bottom, right, top = box
    return viewport[0] + left, viewport[1] + bottom, right - left, top - bottom


def _eye_size(viewport: tuple[int, int, int, int], stereo: Stereo) -> tuple[int, int]:
    """(width, height) in pixels of one eye's picture."""
    _, _, width, height = viewport
    return (width // EYES, height) if stereo == "sides" else (width, height)
