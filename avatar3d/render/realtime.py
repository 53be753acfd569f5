"""The realtime renderer: OpenGL through moderngl, headless by EGL or in a context it is given; draws what `reference` defines.

`render` returns Frames. A loop that owns framebuffers (a window, a headset) calls `load` once and `draw` every frame.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar, BakedField, FieldParams, HairShells
from avatar3d.camera import Camera
from avatar3d.errors import InputError, WorkError
from avatar3d.motion.code import MotionCode
from avatar3d.render.buffer_texture import BufferTexture
from avatar3d.render.frame import FORMS, SURFACE_HAIR, SURFACE_HEAD, SURFACE_NONE, Form, Frame, RenderOptions, box_filter
from avatar3d.render.scene import (
    BACK_FACE_SHADE,
    HAIR_CUT,
    MAX_DELTAS,
    MIN_ALPHA,
    Layout,
    Scene,
    build_scene,
    drawn_levels,
    layout_of,
)
from avatar3d.render.shaders import FIELD_FORMS, assemble, field_defines, field_network, first_bias

GL_FRAMEBUFFER_SRGB = 0x8DB9  # encodes on writing to sRGB targets only; moderngl has no name for it
GL_SRGB8_ALPHA8 = 0x8C43
MAX_FEATURES = 4  # channels of a buffer texture
NO_CONTEXT = (
    "no OpenGL context could be made ({reason}); install a driver (Debian and Ubuntu: apt install libegl1 libgl1 "
    "libgl1-mesa-dri), or use the reference renderer"
)
# Texture units, one for each sampler of shaders/.
UNITS = {
    "base_color": 0, "delta_0": 1, "delta_1": 2, "delta_2": 3, "delta_3": 4, "field_q0": 5, "field_q1": 6, "hair_color": 7,
    "hair_opacity": 8,
}  # fmt: skip
HAIR_Q0_UNIT, HAIR_Q1_UNIT, FIELD_TABLE_UNIT = 9, 10, 11


def create_context() -> Any:
    """A headless moderngl context (EGL on Linux); raises WorkError saying what to install."""
    try:
        import moderngl
    except ImportError as error:
        raise WorkError("the realtime renderer needs moderngl; install it with pip install moderngl") from error
    # The versioned names exist without development packages.
    settings: dict[str, Any] = (
        {"backend": "egl", "libgl": "libGL.so.1", "libegl": "libEGL.so.1"} if sys.platform == "linux" else {}
    )
    try:
        return moderngl.create_context(standalone=True, require=330, **settings)
    except Exception as error:
        raise WorkError(NO_CONTEXT.format(reason=str(error).strip() or type(error).__name__)) from error


@dataclass
class _Pass:
    """A linked program with its vertex array and the uniforms it uses."""

    vertex_array: Any
    uniforms: dict[str, Any]

    def set(self, values: dict[str, bytes]) -> None:
        """Write those of the values that the program uses."""
        for name, member in self.uniforms.items():
            if name in values:
                member.write(values[name])


@dataclass
class _Passes:
    """The programs of one form."""

    skin: _Pass
    detail: _Pass
    hair_base: _Pass | None
    hair_levels: _Pass | None

    def __iter__(self):  # type: ignore[no-untyped-def]
        return (entry for entry in (self.skin, self.detail, self.hair_base, self.hair_levels) if entry is not None)


@dataclass
class _Loaded:
    """An avatar on the GPU."""

    avatar: Avatar
    layout: Layout
    scope: Any  # owns every GL object below
    dynamic: np.ndarray  # (V, 9) position, normal, shade
    dynamic_buffer: Any
    static_buffer: Any
    index_buffer: Any
    textures: dict[str, Any] = field(default_factory=dict)
    deltas: list[Any] = field(default_factory=list)
    hair_shade_buffer: Any = None
    hair_static_buffer: Any = None
    hair_index_buffer: Any = None
    passes: dict[Form, _Passes] = field(default_factory=dict)


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
    """

    name = "realtime"

    def __init__(self, context: Any = None) -> None:
        self._context = context
        self._owns_context = context is None
        self._loaded: _Loaded | None = None
        self._targets: dict[tuple[int, int], _Target] = {}
        self._info: dict[str, str] | None = None

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

    def _current(self) -> AbstractContextManager[Any]:
        """Makes an own context current, so that several renderers may live in one process."""
        return self.context if self._owns_context else nullcontext()

    # --- loading

    def load(self, avatar: Avatar, forms: Sequence[Form] = ("mesh",)) -> None:
        """Put an avatar on the GPU and compile and warm the programs of `forms`; forms that it lacks are left out.

        Arrays changed in place afterwards are not seen: load again. Raises InputError on a field too wide to draw.
        """
        with self._current():
            for form in forms:
                self._ready(avatar, form)

    def _ready(self, avatar: Avatar, form: Form) -> tuple[_Loaded, _Passes]:
        """The avatar on the GPU with the programs of the asked form, or of "mesh" where it lacks that one."""
        if self._loaded is None or self._loaded.avatar is not avatar:
            self._release_avatar()
            self._loaded = self._upload(avatar)
        loaded, form = self._loaded, available_form(avatar, form)
        if form not in loaded.passes:
            loaded.passes[form] = self._compile(loaded, form)
            self._warm(loaded, form)
        return loaded, loaded.passes[form]

    def update_base_color(self, rgb: np.ndarray, left: int = 0, top: int = 0) -> None:
        """Replace a region of the loaded avatar's base colour by (h, w, 3) u8 sRGB, its corner at texel (left, top)."""
        loaded = self._require_loaded()
        height, width = rgb.shape[:2]
        full_height, full_width = loaded.avatar.base_color.shape[:2]
        if left < 0 or top < 0 or left + width > full_width or top + height > full_height:
            raise InputError(
                f"a {width}×{height} texture region at ({left}, {top}) leaves the {full_width}×{full_height} base colour"
            )
        with self._current():
            loaded.textures["base_color"].write(_with_alpha(rgb).tobytes(), viewport=(left, top, width, height))

    def _require_loaded(self) -> _Loaded:
        if self._loaded is None:
            raise InputError("no avatar is loaded; call load(avatar, forms) before draw")
        return self._loaded

    def _texture(self, image: np.ndarray, dtype: str = "f1", **rest: object) -> Any:
        """A bilinear, clamped texture of (H, W, C)."""
        height, width, channels = image.shape
        texture = self.context.texture((width, height), channels, _bytes(image, dtype), alignment=1, dtype=dtype, **rest)
        return _bilinear(texture, self.context)

    def _array(self, images: np.ndarray, dtype: str) -> Any:
        """A bilinear, clamped texture array of (K, H, W, C)."""
        layers, height, width, channels = images.shape
        size = (width, height, layers)
        texture = self.context.texture_array(size, channels, _bytes(images, dtype), alignment=1, dtype=dtype)
        return _bilinear(texture, self.context)

    def _upload(self, avatar: Avatar) -> _Loaded:
        context, layout = self.context, layout_of(avatar)
        scope: list[Any] = []
        count = len(avatar.vertices)
        static = np.concatenate(
            [avatar.vertices, avatar.uv, avatar.vertex_alpha[:, None], avatar.field_weight[:, None], layout.gloss], axis=1
        ).astype(np.float32)
        loaded = _Loaded(
            avatar=avatar,
            layout=layout,
            scope=scope,
            dynamic=np.zeros((count, 9), np.float32),
            dynamic_buffer=context.buffer(reserve=count * 36, dynamic=True),
            static_buffer=context.buffer(static.tobytes()),
            index_buffer=context.buffer(layout.faces.tobytes()),
        )
        scope += [loaded.dynamic_buffer, loaded.static_buffer, loaded.index_buffer]
        textures = loaded.textures
        textures["base_color"] = self._texture(_with_alpha(avatar.base_color), internal_format=GL_SRGB8_ALPHA8)
        loaded.deltas = [self._texture(delta.log_ratio, "f2") for delta in avatar.texture_deltas]
        if avatar.hair is not None:
            self._upload_hair(loaded, avatar.hair)
        if avatar.baked is not None:
            self._upload_baked(loaded, avatar.baked)
        scope += [*textures.values(), *loaded.deltas]
        return loaded

    def _upload_hair(self, loaded: _Loaded, hair: HairShells) -> None:
        context = self.context
        static = np.concatenate([hair.base, hair.extent, loaded.layout.hair_normals, hair.uv], axis=1).astype(np.float32)
        loaded.hair_static_buffer = context.buffer(static.tobytes())
        loaded.hair_shade_buffer = context.buffer(reserve=len(hair.base) * 12, dynamic=True)
        loaded.hair_index_buffer = context.buffer(np.ascontiguousarray(hair.faces, np.int32).tobytes())
        loaded.scope += [loaded.hair_static_buffer, loaded.hair_shade_buffer, loaded.hair_index_buffer]
        loaded.textures["hair_color"] = self._texture(_with_alpha(hair.color), internal_format=GL_SRGB8_ALPHA8)
        # Half floats are filtered in full precision everywhere; 8-bit textures are not, which would move the cut edge.
        loaded.textures["hair_opacity"] = self._array(hair.opacity[..., None] / np.float32(255), "f2")

    def _upload_baked(self, loaded: _Loaded, baked: BakedField) -> None:
        opaque = np.zeros((*baked.skin_q0.shape[:2], 1), np.float32)
        loaded.textures["field_q0"] = self._array(np.concatenate([baked.skin_q0, opaque], axis=2)[None], "f2")
        loaded.textures["field_q1"] = self._array(baked.skin_q1[None], "f2")
        if loaded.avatar.hair is not None and baked.hair_q0 is not None and baked.hair_q1 is not None:
            loaded.textures["hair_q0"] = self._array(baked.hair_q0, "f2")
            loaded.textures["hair_q1"] = self._array(baked.hair_q1, "f2")

    def _upload_field(self, loaded: _Loaded, params: FieldParams) -> None:
        levels, table_size, features = params.tables.shape
        if features > MAX_FEATURES:
            raise InputError(
                f"the field has {features} features a grid vertex, the realtime renderer draws up to {MAX_FEATURES} live; "
                "use the baked form"
            )
        channels = 4 if features == 3 else features  # three are not readable from a buffer before OpenGL 4
        values = np.zeros((levels * table_size, channels), np.float32)
        values[:, :features] = params.tables.reshape(levels * table_size, features)
        loaded.textures["field_table"] = BufferTexture(self.context, values)
        loaded.scope.append(loaded.textures["field_table"])

    def _compile(self, loaded: _Loaded, form: Form) -> _Passes:
        avatar = loaded.avatar
        defines: dict[str, object] = {
            "FIELD": FIELD_FORMS[form],
            "DELTAS": min(len(loaded.deltas), MAX_DELTAS),
            "MIN_ALPHA": MIN_ALPHA,
            "HAIR_CUT": HAIR_CUT,
            "BACK_FACE_SHADE": BACK_FACE_SHADE,
        }
        generated = {"field_network": ""}
        if form == "live" and avatar.neural_field is not None:
            self._upload_field(loaded, avatar.neural_field)
            defines |= field_defines(avatar.neural_field)
            generated["field_network"] = field_network(avatar.neural_field)

        def head(detail: int) -> _Pass:
            program = self._program(loaded, "head", {**defines, "DETAIL": detail}, generated)
            return self._pass(
                loaded,
                program,
                [
                    (loaded.dynamic_buffer, "3f 3f 3f", ("position", "normal", "shade")),
                    (loaded.static_buffer, "3f 2f 1f 1f 2f", ("canonical", "uv", "alpha", "field_weight", "gloss")),
                ],
                loaded.index_buffer,
            )

        def hair(base_level: int) -> _Pass:
            hair_defines = dict(defines)
            if form == "baked" and "hair_q0" not in loaded.textures:
                hair_defines["FIELD"] = FIELD_FORMS["mesh"]
            program = self._program(loaded, "hair", {**hair_defines, "BASE_LEVEL": base_level}, generated)
            for name, unit in (("field_q0", HAIR_Q0_UNIT), ("field_q1", HAIR_Q1_UNIT)):
                if name in program:
                    program[name].value = unit
            return self._pass(
                loaded,
                program,
                [
                    (loaded.hair_static_buffer, "3f 3f 3f 2f", ("base", "extent", "normal", "uv")),
                    (loaded.hair_shade_buffer, "3f", ("shade",)),
                ],
                loaded.hair_index_buffer,
            )

        has_hair = avatar.hair is not None
        passes = _Passes(head(0), head(1), hair(1) if has_hair else None, hair(0) if has_hair else None)
        if avatar.neural_field is not None:
            low, high = avatar.neural_field.box_min, avatar.neural_field.box_max
            for entry in passes:
                entry.set({"field_box_min": _vector(low), "field_box_scale": _vector(1 / (high - low))})
        return passes

    def _program(self, loaded: _Loaded, kind: str, defines: dict[str, object], generated: dict[str, str]) -> Any:
        program = self.context.program(
            vertex_shader=assemble(f"{kind}_vertex.glsl", defines, generated),
            fragment_shader=assemble(f"{kind}_fragment.glsl", defines, generated),
        )
        for name, unit in UNITS.items():
            if name in program:
                program[name].value = unit
        if "field_table" in program:
            loaded.textures["field_table"].assign(program, "field_table", FIELD_TABLE_UNIT)
        return program

    def _pass(self, loaded: _Loaded, program: Any, buffers: list[tuple[Any, str, tuple[str, ...]]], indices: Any) -> _Pass:
        """A vertex array over interleaved buffers; attributes that the program does not use are skipped as padding."""
        import moderngl

        content = []
        for buffer, layout, names in buffers:
            used = [name for name in names if name in program]
            parts = [
                kind if name in program else f"{4 * int(kind[0])}x" for kind, name in zip(layout.split(), names, strict=True)
            ]
            if used:
                content.append((buffer, " ".join(parts), *used))
        vertex_array = self.context.vertex_array(program, content, indices, index_element_size=4)
        loaded.scope += [program, vertex_array]
        uniforms = {name: program[name] for name in program if isinstance(program[name], moderngl.Uniform)}
        return _Pass(vertex_array, uniforms)

    def _warm(self, loaded: _Loaded, form: Form) -> None:
        """Draw a small picture, so that the driver finishes compiling now and not in the first frame that is seen."""
        camera = Camera.orbit(0.0, width=16, height=16)
        target = self._target(16, 16)
        scene = build_scene(loaded.avatar, MotionCode(), loaded.layout)
        self._write_scene(loaded, scene)
        self._draw_view(loaded, scene, camera, target.framebuffer, (0, 0, 16, 16), loaded.passes[form], RenderOptions(form))
        target.framebuffer.read(components=1)

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
            loaded, passes = self._ready(avatar, options.form)
            scene = build_scene(avatar, motion, loaded.layout)
            self._write_scene(loaded, scene)
            return [self._frame(loaded, scene, camera, passes, options) for camera in cameras]

    def prepare(self, motion: MotionCode) -> Scene:
        """Pose the loaded avatar and send it to the GPU, so that `draw` of the scene waits only for the cameras."""
        loaded = self._require_loaded()
        with self._current():
            scene = build_scene(loaded.avatar, motion, loaded.layout)
            self._write_scene(loaded, scene)
        return scene

    def draw(
        self,
        motion: MotionCode | Scene,
        cameras: Sequence[Camera],
        framebuffers: Sequence[Any],
        options: RenderOptions | None = None,
        background: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
        viewports: Sequence[tuple[int, int, int, int]] | None = None,
    ) -> None:
        """Draw the loaded avatar into moderngl framebuffers with a depth attachment, one per camera; reads nothing back.

        motion: a motion code, or what `prepare` made of one last; then options.form must be among the loaded forms.
        sRGB targets are encoded by the driver, others receive linear light. background: linear, premultiplied.
        viewports: (x, y, width, height) in each framebuffer, GL's origin at the bottom left; the whole one by default. Each is
        cleared first. options.supersample has no meaning here. Raises InputError before `load` or on lists of unequal length.
        """
        avatar = self._require_loaded().avatar
        options = options or RenderOptions()
        areas = viewports or [(0, 0, *framebuffer.size) for framebuffer in framebuffers]
        if not len(cameras) == len(framebuffers) == len(areas):
            counts = f"{len(cameras)} cameras, {len(framebuffers)} framebuffers and {len(areas)} viewports"
            raise InputError(f"{counts} were given; expected as many of each")
        with self._current():
            loaded, passes = self._ready(avatar, options.form)
        scene = motion if isinstance(motion, Scene) else self.prepare(motion)
        with self._current():
            self.context.enable_direct(GL_FRAMEBUFFER_SRGB)
            for camera, framebuffer, area in zip(cameras, framebuffers, areas, strict=True):
                framebuffer.use()
                framebuffer.viewport = area
                framebuffer.depth_mask = True
                framebuffer.clear(*background, depth=1.0, viewport=area)
                self._draw_view(loaded, scene, camera, framebuffer, area, passes, options)
            self.context.disable_direct(GL_FRAMEBUFFER_SRGB)

    def _write_scene(self, loaded: _Loaded, scene: Scene) -> None:
        """Send what the motion code moved."""
        loaded.dynamic[:, 0:3] = scene.vertices
        loaded.dynamic[:, 3:6] = scene.normals
        loaded.dynamic[:, 6:9] = scene.shade
        loaded.dynamic_buffer.write(loaded.dynamic)
        if scene.hair is not None:
            loaded.hair_shade_buffer.write(np.ascontiguousarray(scene.hair.shade, np.float32))

    def _bind(self, loaded: _Loaded, scene: Scene) -> None:
        units = {**UNITS, "hair_q0": HAIR_Q0_UNIT, "hair_q1": HAIR_Q1_UNIT, "field_table": FIELD_TABLE_UNIT}
        for name, texture in loaded.textures.items():
            texture.use(units[name])
        for slot in range(min(len(loaded.deltas), MAX_DELTAS)):
            index = scene.deltas[slot][0] if slot < len(scene.deltas) else 0
            loaded.deltas[index].use(UNITS[f"delta_{slot}"])

    def _set_uniforms(self, loaded: _Loaded, scene: Scene, camera: Camera, passes: _Passes) -> None:
        activation = np.zeros(MAX_DELTAS)
        activation[: len(scene.deltas)] = [value for _, value in scene.deltas]
        values = {
            "view_projection": _matrix(camera.projection_matrix() @ camera.view_matrix()),
            "eye": _vector(camera.center),
            "light_direction": _vector(scene.light_direction),
            "delta_activation": _vector(activation),
        }
        if loaded.avatar.neural_field is not None:
            values["field_bias"] = _vector(first_bias(loaded.avatar.neural_field, scene.motion.weights))
        if scene.hair is not None:
            values["head_rotation"] = _matrix(scene.hair.rotation)
            values["head_translation"] = _vector(scene.hair.translation)
        for entry in passes:
            entry.set(values)

    def _draw_view(
        self,
        loaded: _Loaded,
        scene: Scene,
        camera: Camera,
        framebuffer: Any,
        viewport: tuple[int, int, int, int],
        passes: _Passes,
        options: RenderOptions,
    ) -> None:
        framebuffer.use()
        framebuffer.viewport = viewport
        self._bind(loaded, scene)
        self._set_uniforms(loaded, scene, camera, passes)
        self._draw_head(loaded, framebuffer, passes)
        if options.hair and scene.hair is not None:
            self._draw_hair(scene.hair.shells, framebuffer, passes, options.hair_levels)

    def _draw_head(self, loaded: _Loaded, framebuffer: Any, passes: _Passes) -> None:
        context, layout = self.context, loaded.layout
        context.front_face = "ccw"
        context.cull_face = "back"
        context.depth_func = "<"
        context.enable_only(context.DEPTH_TEST | context.CULL_FACE)
        framebuffer.depth_mask = True
        skin, part, lash = 3 * layout.skin_count, 3 * layout.part_count, 3 * layout.lash_count
        faded = 3 * len(layout.faces) - skin - part - lash
        passes.skin.vertex_array.render(vertices=skin)
        if part:
            passes.detail.vertex_array.render(vertices=part, first=skin)
        if lash:
            context.disable(context.CULL_FACE)
            passes.detail.vertex_array.render(vertices=lash, first=skin + part)
            context.enable(context.CULL_FACE)
        if faded:
            # Depth first, then colour where depth is equal: only the front-most faded fragment is blended.
            context.enable(context.BLEND)
            context.blend_func = context.ZERO, context.ONE
            passes.detail.vertex_array.render(vertices=faded, first=skin + part + lash)
            context.depth_func = "=="
            context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
            passes.detail.vertex_array.render(vertices=faded, first=skin + part + lash)
            context.disable(context.BLEND)
            context.depth_func = "<"

    def _draw_hair(self, shells: HairShells, framebuffer: Any, passes: _Passes, at_most: int | None) -> None:
        context = self.context
        assert passes.hair_base is not None and passes.hair_levels is not None
        base, *outer = drawn_levels(len(shells.levels), at_most)
        context.disable(context.CULL_FACE)
        self._draw_level(shells, base, passes.hair_base)
        context.enable(context.CULL_FACE | context.BLEND)
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        framebuffer.depth_mask = False
        for level in outer:
            self._draw_level(shells, level, passes.hair_levels)
        framebuffer.depth_mask = True
        context.disable(context.BLEND)

    def _draw_level(self, shells: HairShells, level: int, entry: _Pass) -> None:
        entry.set(
            {
                "level_offset": _vector(shells.levels[level]),
                "level_layer": _vector(level),
                "level_occlusion": _vector(shells.occlusion[level]),
            }
        )
        entry.vertex_array.render()

    def _target(self, width: int, height: int) -> _Target:
        """An off-screen target of half floats, kept for the next picture of its size."""
        if (width, height) not in self._targets:
            color = self.context.texture((width, height), 4, dtype="f2")
            depth = self.context.depth_texture((width, height))
            self._targets[width, height] = _Target(self.context.framebuffer([color], depth), color, depth)
        return self._targets[width, height]

    def _frame(self, loaded: _Loaded, scene: Scene, camera: Camera, passes: _Passes, options: RenderOptions) -> Frame:
        factor = options.supersample
        width, height = camera.width * factor, camera.height * factor
        target = self._target(width, height)
        framebuffer = target.framebuffer
        framebuffer.use()
        framebuffer.depth_mask = True
        framebuffer.clear(0.0, 0.0, 0.0, 0.0, depth=1.0)
        self._draw_view(loaded, scene, camera, framebuffer, (0, 0, width, height), passes, replace(options, hair=False))
        depth = self._depth(target, camera)
        surface = np.where(np.isfinite(depth), SURFACE_HEAD, SURFACE_NONE).astype(np.int8)
        if options.hair and scene.hair is not None:
            self._draw_hair(scene.hair.shells, framebuffer, passes, options.hair_levels)
            with_hair = self._depth(target, camera)
            surface[with_hair != depth] = SURFACE_HAIR
            depth = with_hair
        pixels = np.frombuffer(framebuffer.read(components=4, dtype="f2"), np.float16).reshape(height, width, 4)
        rgba = pixels[::-1].astype(np.float32)
        return box_filter(Frame(rgba, depth, surface), factor)

    def _depth(self, target: _Target, camera: Camera) -> np.ndarray:
        """(H, W) f32 metres along the axis, inf where nothing was drawn, row 0 at the top."""
        width, height = target.depth.size
        window = np.frombuffer(target.depth.read(), np.float32).reshape(height, width)[::-1].astype(np.float64)
        near, far = camera.near_m, camera.far_m
        metres = far * near / (far - window * (far - near))
        return np.where(window < 1.0, metres, np.inf).astype(np.float32)

    # --- releasing

    def _release_avatar(self) -> None:
        if self._loaded is not None:
            for resource in reversed(self._loaded.scope):
                resource.release()
            self._loaded = None

    def close(self) -> None:
        """Free every GL object, and the context where this renderer made it."""
        if self._context is None:
            return
        with self._current():
            self._release_avatar()
            for target in self._targets.values():
                for resource in (target.framebuffer, target.color, target.depth):
                    resource.release()
            self._targets.clear()
        if self._owns_context:
            self._context.release()
            self._context = None


def available_form(avatar: Avatar, form: Form) -> Form:
    """The asked form where the avatar has it, else "mesh"."""
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}; expected one of {', '.join(FORMS)}")
    missing = (form == "live" and avatar.neural_field is None) or (form == "baked" and avatar.baked is None)
    return "mesh" if missing else form


def _with_alpha(rgb: np.ndarray) -> np.ndarray:
    """(H, W, 4) u8: drivers hold sRGB textures in four channels."""
    return np.concatenate([rgb, np.full((*rgb.shape[:2], 1), 255, np.uint8)], axis=2)


def _vector(values: Any) -> bytes:
    """A uniform's value: numbers in their order."""
    return np.asarray(values, np.float32).tobytes()


def _matrix(values: np.ndarray) -> bytes:
    """A uniform's value: a matrix, column after column."""
    return np.asarray(values, np.float32).T.tobytes()


def _bytes(image: np.ndarray, dtype: str) -> bytes:
    return np.ascontiguousarray(image, {"f1": np.uint8, "f2": np.float16, "f4": np.float32}[dtype]).tobytes()


def _bilinear(texture: Any, context: Any) -> Any:
    texture.filter = (context.LINEAR, context.LINEAR)
    texture.repeat_x = texture.repeat_y = False
    return texture
