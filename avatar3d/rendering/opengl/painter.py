"""Draws a prepared avatar into a bound viewport: the order of its surfaces, and the GL state and uniforms of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.rendering.culling.backface import edge_on_m3
from avatar3d.rendering.culling.screen_region import ScreenRegion, outcodes
from avatar3d.rendering.opengl.avatar.face_order import FADED, whole_range
from avatar3d.rendering.opengl.avatar.gpu_avatar import GpuAvatar
from avatar3d.rendering.opengl.avatar.hair_programs import HairPrograms
from avatar3d.rendering.opengl.avatar.program import DELTA_UNITS, UNITS, Program, matrix_bytes, vector_bytes
from avatar3d.rendering.opengl.avatar.programs import DeferredPrograms, VariantPrograms
from avatar3d.rendering.opengl.gbuffer import GBuffer
from avatar3d.rendering.opengl.shaders import first_bias
from avatar3d.rendering.opengl.stereo import EYES
from avatar3d.rendering.opengl.viewports import Viewport, eye_size
from avatar3d.rendering.outline import STRIP_TRIANGLES
from avatar3d.rendering.scene import MAX_DELTAS, PosedHair, Scene

VERTEX_STEP = 64  # every so many vertices tell how far a head reaches; they lie some 3 mm apart
HAIR_M = 0.2  # that hair reaches beyond the head's vertices at most

# Called with "head", "hair base" or "hair levels", gives what each stage of a view is drawn within.
StageTimer = Callable[[str], AbstractContextManager[Any]]


class AvatarPainter:
    """Owns the G-buffer of deferred shading. The context must be current in every call.

    stage: for measuring, see StageTimer.
    """

    def __init__(self, context: Any, stage: StageTimer = nullcontext) -> None:
        self._context = context
        self._gbuffer: GBuffer | None = None
        self.stage = stage

    def draw(
        self,
        avatar: GpuAvatar,
        scene: Scene,
        programs: VariantPrograms,
        cameras: Sequence[Camera],
        framebuffer: Any,
        viewport: Viewport,
        hair: bool = True,
        region: ScreenRegion | None = None,
    ) -> None:
        """Draw what was written of a scene for one camera, or in one pass for those of both eyes.

        Nearest surfaces first: what they hide is then rejected by depth before it is shaded. That is the outside of the hair's base,
        the head, the inside of the base; then the blended levels. region: what of the picture is wanted.
        """
        framebuffer.use()
        framebuffer.viewport = viewport
        _bind_textures(avatar, scene, programs)
        _write_uniforms(scene, cameras, programs, viewport)
        farthest_m = max(_farthest_m(scene, camera, programs.on_gpu) for camera in cameras)
        edge_on = [edge_on_m3(camera, farthest_m) for camera in cameras]
        facing: list[np.ndarray] = []
        if programs.on_gpu:
            avatar.buffers.draw_all_faces()
        else:
            codes = None if region is None else outcodes(scene.vertices, cameras[0], region)
            facing = avatar.buffers.send_faces(scene, cameras, edge_on, codes)
        shown = programs.hair if hair else None
        if shown is not None and scene.hair is not None:
            eyes = [(camera.center - scene.hair.translation) @ scene.hair.rotation for camera in cameras]
            shown.send(eyes, edge_on, None if region is None else _hair_codes(shown, scene.hair, cameras[0], region))
        if shown is not None:
            with self.stage("hair base"):
                self.draw_hair_base(framebuffer, shown, "back")
        with self.stage("head"):
            self._draw_head(avatar, scene, framebuffer, programs)
            if programs.fins:
                self._draw_fins(avatar, scene, facing, framebuffer, programs)
        if shown is not None:
            with self.stage("hair base"):
                self.draw_hair_base(framebuffer, shown, "front")
            with self.stage("hair levels"):
                self._draw_hair_levels(framebuffer, shown)

    # --- the head

    def _draw_head(self, avatar: GpuAvatar, scene: Scene, framebuffer: Any, programs: VariantPrograms) -> None:
        context, active = self._context, len(scene.deltas)
        self._opaque_state(framebuffer)
        if programs.deferred is None:
            _draw_group(avatar, "skin", *programs.skin[0])
            _draw_group(avatar, "skin reached", *programs.skin[active])
        else:
            self._draw_deferred(avatar, framebuffer, programs.deferred, active)
        _draw_group(avatar, "parts", programs.detail[0])
        _draw_group(avatar, "parts reached", programs.detail[active])
        context.disable(context.CULL_FACE)
        _draw_group(avatar, "lashes", programs.detail[active])
        # Only the front-most faded fragment is blended, its depth keeps out the others: from the nearest face to the farthest, or
        # where their order is not known here, depth first, then colour where depth is equal.
        context.enable(context.CULL_FACE | context.BLEND)
        if programs.on_gpu:
            context.blend_func = context.ZERO, context.ONE
            for group in FADED:
                _draw_group(avatar, group, programs.faded_depth)
            context.depth_func = "=="
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        _draw_group(avatar, "faded", programs.faded_plain)
        _draw_group(avatar, "faded skin", programs.faded[active])
        context.disable(context.BLEND)

    def _draw_deferred(self, avatar: GpuAvatar, framebuffer: Any, deferred: DeferredPrograms, active: int) -> None:
        """The skin: what it is at each pixel, then its colour where there is skin, then that into the picture."""
        context = self._context
        gbuffer = self._gbuffer = self._gbuffer or GBuffer(context)
        left, bottom, width, height = framebuffer.viewport
        gbuffer.begin(width, height)
        gbuffer.surfaces.use()
        for group in ("skin", "skin reached"):
            _draw_group(avatar, group, deferred.gbuffer)
        gbuffer.shaded.use()
        gbuffer.use(UNITS, surfaces=True)
        context.depth_func = ">"  # the triangle lies behind all: it is seen where a surface is nearer
        deferred.shade[active].vertex_array.render(vertices=3)
        framebuffer.use()
        gbuffer.use(UNITS, surfaces=False)
        context.depth_func = "<="
        deferred.compose.set({"gbuffer_origin": vector_bytes((left, bottom))})
        deferred.compose.vertex_array.render(vertices=3)

    def _draw_fins(
        self, avatar: GpuAvatar, scene: Scene, facing: Sequence[np.ndarray], framebuffer: Any, programs: VariantPrograms
    ) -> None:
        """Strips along the outline of the head as each eye sees it, blended over what lies behind."""
        context = self._context
        if programs.on_gpu:
            of_first = len(avatar.buffers.outline.sides)
            count = of_first * (1 if programs.stereo == "passes" else EYES)
        else:
            of_first, count = avatar.buffers.send_fins(scene, facing)
            if not count:
                return
        context.enable_only(context.DEPTH_TEST | context.BLEND)
        context.depth_func = "<="
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        framebuffer.depth_mask = False
        program = programs.fins[len(scene.deltas)]
        program.set({"fins_of_first": np.int32(of_first).tobytes()})
        program.vertex_array.render(vertices=len(STRIP_TRIANGLES) * count)
        framebuffer.depth_mask = True

    # --- the hair

    def draw_hair_base(self, framebuffer: Any, hair: HairPrograms, culled: str) -> None:
        """Draw the base's faces that are not culled: the outside with `culled` "back", the inside with "front"."""
        self._opaque_state(framebuffer)
        self._context.cull_face = culled
        if culled == "front":
            self._context.depth_func = "<"
        _draw_hair(hair, "front" if culled == "back" else "back")

    def _draw_hair_levels(self, framebuffer: Any, hair: HairPrograms) -> None:
        """The blended levels, from inside out, hidden by opaque surfaces and hiding nothing."""
        context = self._context
        context.depth_func = "<"
        context.cull_face = "back"
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE | context.BLEND)
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        framebuffer.depth_mask = False
        _draw_hair(hair, "outer")
        framebuffer.depth_mask = True
        context.disable(context.BLEND)

    def _opaque_state(self, framebuffer: Any) -> None:
        context = self._context
        context.front_face = "ccw"
        context.cull_face = "back"
        # Where the head touches the hair's base, the head is seen, as in the order that the reference draws in.
        context.depth_func = "<="
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE)
        framebuffer.depth_mask = True

    def release(self) -> None:
        """Free the GL objects."""
        if self._gbuffer is not None:
            self._gbuffer.release()
            self._gbuffer = None


def _bind_textures(avatar: GpuAvatar, scene: Scene, programs: VariantPrograms) -> None:
    for unit, texture in programs.textures.items():
        texture.use(unit)
    deltas = avatar.textures.deltas
    for slot, unit in enumerate(DELTA_UNITS[: len(deltas)]):
        deltas[scene.deltas[slot][0] if slot < len(scene.deltas) else 0].use(unit)


def _write_uniforms(scene: Scene, cameras: Sequence[Camera], programs: VariantPrograms, viewport: Viewport) -> None:
    activation = np.zeros(MAX_DELTAS)
    activation[: len(scene.deltas)] = [value for _, value in scene.deltas]
    values = {
        "view_projection": b"".join(matrix_bytes(camera.projection_matrix() @ camera.view_matrix()) for camera in cameras),
        "eye": vector_bytes([camera.center for camera in cameras]),
        "viewport": vector_bytes(eye_size(viewport, programs.stereo)),
        "light_direction": vector_bytes(scene.light_direction),
        "delta_activation": vector_bytes(activation),
    }
    if programs.field is not None:
        values["field_bias"] = vector_bytes(first_bias(programs.field, scene.motion.weights))
    if scene.hair is not None:
        values["head_rotation"] = matrix_bytes(scene.hair.rotation)
        values["head_translation"] = vector_bytes(scene.hair.translation)
    for program in programs.drawn_with(len(scene.deltas)):
        program.set(values)


def _draw_group(avatar: GpuAvatar, group: str, *programs: Program) -> None:
    """A group of the head's faces, by one program or by one for each source of the field."""
    ranges = avatar.buffers.groups[group]
    if len(programs) == 1:
        ranges = [whole_range(ranges)]
    for program, (first, count) in zip(programs, ranges, strict=True):
        if count:
            program.vertex_array.render(vertices=count, first=first)


def _draw_hair(hair: HairPrograms, which: str) -> None:
    for program, values, first, count in hair.drawn(which):
        program.set(values)
        program.vertex_array.render(vertices=count, first=first)


def _hair_codes(hair: HairPrograms, posed: PosedHair, camera: Camera, region: ScreenRegion) -> list[np.ndarray]:
    """outcodes of each level."""
    inside = camera.moved(posed.rotation, posed.translation)  # levels are placed in the head's frame
    shells = hair.shells
    return [outcodes(shells.base + level * shells.extent, inside, region) for level in shells.levels]


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
