"""An avatar on the GPU: its buffers, its textures, and the programs of each way to draw it; draws nothing.

A way to draw (`Variant`) is a form of the field, a number of hair levels and a texture precision. Each is compiled once and
kept, so that a quality ladder switches between them from one frame to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from avatar3d.avatar import Avatar, FieldParams, HairShells
from avatar3d.camera import Camera
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.errors import InputError
from avatar3d.field.bake import shells_of
from avatar3d.field.definition import first_layer
from avatar3d.field.int8 import in_bytes
from avatar3d.field.rebake import Moving, Rebaker, RowBlock
from avatar3d.geometry import smooth_normals
from avatar3d.rendering.culling.backface import face_planes, heights
from avatar3d.rendering.culling.bounds import face_bounds
from avatar3d.rendering.culling.screen_region import may_show
from avatar3d.rendering.frame import Form, Precision, RenderOptions
from avatar3d.rendering.lod.field_source import SOURCES, Asking, Lit, ask
from avatar3d.rendering.lod.fold import available_form, folded_hair, hair_field, skin_detail, skin_field
from avatar3d.rendering.lod.hair_levels import LevelFaces, merge_levels, visible_faces
from avatar3d.rendering.lod.level import Steps
from avatar3d.rendering.opengl.arrays import BufferTexture, UniformBlock, field_table
from avatar3d.rendering.opengl.draw_strategy import Build
from avatar3d.rendering.opengl.gpu_morph import GpuMorph
from avatar3d.rendering.opengl.raw_gl import GL_SRGB8_ALPHA8
from avatar3d.rendering.opengl.shaders import (
    FIELD_SOURCES,
    assemble,
    field_defines,
    field_network,
    hidden_rows,
    hidden_texels,
    split_network,
    vertex_network,
    vertex_share,
)  # fmt: skip
from avatar3d.rendering.opengl.stereo import EYES, Stereo
from avatar3d.rendering.outline import (
    MAX_FINS,
    STRIP_FLOATS,
    STRIP_LAYOUT,
    STRIP_NAMES,
    STRIP_TRIANGLES,
    STRIP_VERTICES,
    Outline,
)  # fmt: skip
from avatar3d.rendering.scene import BACK_FACE_SHADE, HAIR_CUT, MAX_DELTAS, MIN_ALPHA, Layout, Scene, layout_of, shade_of

# Texture units, one for each sampler of shaders/ that one form's programs share; the hair has its own of some.
UNITS = {
    "base_color": 0, "delta_0": 1, "delta_1": 2, "delta_2": 3, "delta_3": 4, "field_table": 5, "hair_color": 6,
    "hair_opacity": 7, "hair_folded": 8, "hair_cut": 9, "field_hidden": 10, "hair_hidden": 11, "moving": 12, "FieldNetwork": 13,
    "resting": 14, "edges": 16,
    # Of the live form, which has none of the others that lie there, or buffers, which a unit holds beside an image.
    "gathered_look": 8, "gathered_light": 9, "gathered_place": 10, "gathered_shaded": 11, "gathered_depth": 15,
}  # fmt: skip
# Of avatar3d.rendering.opengl.arrays, which set programs up themselves.
ARRAYS = {"field_table", "FieldNetwork", "field_hidden", "moving", "resting", "edges"}
DELTA_UNITS = tuple(UNITS[f"delta_{slot}"] for slot in range(MAX_DELTAS))
# Head faces in drawing order; "reached" are those on which a texture delta shows.
GROUPS = ("skin", "skin reached", "parts", "parts reached", "lashes", "faded", "faded skin")
FADED = ("faded", "faded skin")
MAX_SHARE_ROWS = 8  # vec4 of the MLP's first layer that vertices hand on: what every driver passes, beside the rest
CONTENT_SHARE = 0.75  # of the fading faces, that their common source of the field suffices for
CURVE_CELLS = 1024  # along an axis of the head
MIN_LOG_RATIO = 1e-3  # a texture delta that stays under a tenth of a percent over a face is not sampled there
# Colours are decoded ahead: a software driver decodes sRGB for each of the four texels of a sample. Eight bits hold the square
# root, which a shader undoes with one multiplication.
LINEAR_OF_BYTE = srgb_to_linear(np.arange(256, dtype=np.uint8)).astype(np.float16)
ROOT_OF_BYTE = np.rint(np.sqrt(srgb_to_linear(np.arange(256, dtype=np.uint8))) * 255).astype(np.uint8)
DTYPES = {"half": "f2", "byte": "f1", "srgb": "f1"}
COLOR_OF_SAMPLE = {"half": "(value)", "byte": "((value) * (value))", "srgb": "(value)"}


class Variant(NamedTuple):
    """A way to draw an avatar."""

    form: Form
    hair_levels: int | None
    precision: Precision
    antialias: bool
    build: Build
    stereo: Stereo = "passes"

    @classmethod
    def of(cls, avatar: Avatar, options: RenderOptions, build: Build, stereo: Stereo = "passes") -> Variant:
        """What the options ask for, as far as the avatar has it."""
        levels = options.hair_levels
        if avatar.hair is None or levels is None or levels >= len(avatar.hair.levels):
            levels = None
        form = available_form(avatar, options.form)
        own = replace(build.of_form(form), stereo="passes")  # what counts is how this drawing is asked for
        if stereo != "passes":
            own = replace(own, shading="forward")
        return cls(form, levels, options.precision, options.antialias, own, stereo)

    @property
    def colors(self) -> str:
        """How colour textures hold their numbers, a key of COLOR_OF_SAMPLE."""
        return "byte" if self.precision == "byte" else self.build.colors


@dataclass
class Pass:
    """A linked program with its vertex array and the uniforms it uses. written: what the program's uniforms hold."""

    vertex_array: Any
    uniforms: dict[str, Any]
    written: dict[str, bytes]

    def set(self, values: dict[str, bytes]) -> None:
        """Write those of the values that the program uses and does not hold."""
        for name, value in values.items():
            if name in self.uniforms and self.written.get(name) != value:
                self.uniforms[name].write(value)
                self.written[name] = value


@dataclass
class HairPasses:
    """The programs of the hair and their index buffer, which holds what the eyes drawn last may see.

    faces: (N, 3) i32 in parts [base's uncut, base's cut, levels 1 to K − 1], for the live form each by SOURCES, each ending before
    `ends`; planes: (4, N) of them. parts: the program of each part, levels: the level it belongs to; the first `base` are of the
    base. ranges: (first, count) of indices: of those parts seen from the front, then of the base's seen from the back.
    """

    shells: HairShells
    parts: list[Pass]
    base: int
    indices: Any
    faces: np.ndarray
    ends: np.ndarray
    planes: np.ndarray
    levels: list[int]
    ranges: list[tuple[int, int]] = field(default_factory=list)
    level_values: list[dict[str, bytes]] = field(init=False)

    def __post_init__(self) -> None:
        numbers = enumerate(zip(self.shells.levels, self.shells.occlusion, strict=True))
        self.level_values = [
            {
                "level_offset": vector_bytes(offset),
                "level_layer": vector_bytes(level),
                "level_occlusion": vector_bytes(occlusion),
            }
            for level, (offset, occlusion) in numbers
        ]

    def send(self, eyes: Sequence[np.ndarray], edge_on: Sequence[float], codes: Sequence[np.ndarray] | None = None) -> None:
        """Send the faces that any of the eyes (3,) in the resting head's frame may see, and note their ranges.

        edge_on: of each eye, the height under which a face counts as seen from both sides (facing.edge_on_m3). codes: place_codes of
        each level's vertices, to leave out what shows nowhere.
        """
        above = [heights(self.planes, eye) for eye in eyes]
        base = self.ends[self.base - 1]
        front = _any([each > -margin for each, margin in zip(above, edge_on, strict=True)])
        back = _any([each[:base] < margin for each, margin in zip(above, edge_on, strict=True)])
        if codes is not None:
            starts = [0, *self.ends[:-1]]
            places = zip(self.levels, starts, self.ends, strict=True)
            shown = np.concatenate([may_show(codes[level], self.faces[start:end].T) for level, start, end in places])
            front, back = front & shown, back & shown[:base]
        front, back = np.flatnonzero(front), np.flatnonzero(back)
        self.ranges = [*_ranges(front, self.ends), *_ranges(back, self.ends[: self.base], len(front))]
        refill(self.indices, self.faces.take(np.concatenate([front, back]), axis=0))

    def drawn(self, which: str) -> Iterator[tuple[Pass, dict[str, bytes], int, int]]:
        """(program, its level's values, first, count) of what holds any face, of "front" or "back" of the base, or the "outer"
        levels."""
        ends = {"front": (0, self.base, 0), "back": (0, self.base, len(self.parts)), "outer": (self.base, len(self.parts), 0)}
        begin, end, offset = ends[which]
        for index in range(begin, end):
            first, count = self.ranges[index + offset]
            if count:
                yield self.parts[index], self.level_values[self.levels[index]], first, count


@dataclass
class Deferred:
    """Programs of deferred shading: surfaces into a Gathering, their shade by the number of texture deltas, that into a picture."""

    gather: Pass
    shade: list[Pass]
    compose: Pass


@dataclass
class Passes:
    """The programs of one variant and the textures they read: {unit: texture}.

    skin, detail, faded: indexed by the number of texture deltas that are applied. detail adds gloss, faded opacity.
    faded_plain knows no field, faded_depth no colour. skin: for each of SOURCES, or one for all of it.
    """

    skin: list[list[Pass]]
    detail: list[Pass]
    faded: list[Pass]
    faded_plain: Pass
    faded_depth: Pass
    fins: list[Pass]  # empty where the outline is not softened
    deferred: Deferred | None
    hair: HairPasses | None
    textures: dict[int, Any]
    stereo: Stereo
    posed_there: bool  # the GPU morphs: all faces are drawn, and the outline is found there
    field: FieldParams | None

    def drawn_with(self, deltas: int) -> Iterator[Pass]:
        """Those that draw a frame with so many texture deltas."""
        yield from (*self.skin[0], self.detail[0], self.faded_plain, self.faded_depth)
        yield from (*self.skin[deltas], self.detail[deltas], self.faded[deltas], *self.fins[deltas : deltas + 1])
        if self.deferred is not None:
            yield from (self.deferred.gather, self.deferred.shade[deltas], self.deferred.compose)
        if self.hair is not None:
            yield from {id(entry): entry for entry in self.hair.parts}.values()

    def __iter__(self) -> Iterator[Pass]:
        for skin in self.skin:
            yield from skin
        yield from (*self.detail, *self.faded, self.faded_plain, self.faded_depth, *self.fins)
        if self.deferred is not None:
            yield from (self.deferred.gather, *self.deferred.shade, self.deferred.compose)
        if self.hair is not None:
            yield from {id(entry): entry for entry in self.hair.parts}.values()


@dataclass(frozen=True)
class Rebake:
    """A texture that follows the motion code: what hands out its rows, and how they are sent; returns bytes."""

    rebaker: Rebaker
    send: Callable[[RowBlock], int]


@dataclass
class GpuAvatar:
    """An avatar on the GPU. scope: every GL object. groups: (first, count) of the indices sent last in drawing order, see GROUPS,
    and within each by where the live form asks the field (SOURCES).

    steps: the avatar's coarser forms; theirs on the GPU share the programs.
    """

    context: Any
    avatar: Avatar
    _programs: dict[tuple[str, ...], Any] = field(default_factory=dict)
    _written: dict[int, dict[str, bytes]] = field(default_factory=dict)  # by program
    _same_hair: GpuAvatar | None = None  # whose hair's textures this one draws with
    layout: Layout = field(init=False)
    steps: Steps = field(init=False)
    groups: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    dynamic: np.ndarray = field(init=False)
    scope: list[Any] = field(default_factory=list)
    passes: dict[Variant, Passes] = field(default_factory=dict)
    deltas: list[Any] = field(default_factory=list)
    _textures: dict[tuple[str, object, str | None], Any] = field(default_factory=dict)
    _coarser: list[GpuAvatar] = field(default_factory=list)
    _own: dict[tuple[int | None, Precision], Avatar] = field(default_factory=dict)
    _details: dict[Precision, Moving] = field(default_factory=dict)
    _rebakes: dict[tuple[str, object, str | None], Rebake] = field(default_factory=dict)
    _hair_faces: dict[tuple[int | None, bool], LevelFaces] = field(default_factory=dict)
    _asking: Asking | None = None  # of the skin, where the live form is drawn
    _hair_asking: dict[int | None, Asking] = field(default_factory=dict)

    def __post_init__(self) -> None:
        avatar = self.avatar
        self.steps = Steps(avatar)
        self.layout = layout = layout_of(avatar)
        count = len(avatar.vertices)
        static = np.concatenate(
            [avatar.vertices, avatar.uv, avatar.vertex_alpha[:, None], avatar.field_weight[:, None], layout.gloss], axis=1
        ).astype(np.float32)
        self._sort_faces()
        self.skin_faces = layout.order[: layout.skin_count]
        self.dynamic = np.zeros((count, 9), np.float32)  # position, normal, shade
        self.dynamic_buffer = self._kept(self.context.buffer(reserve=self.dynamic.nbytes, dynamic=True))
        self.static_buffer = self._kept(self.context.buffer(static.tobytes()))
        self.index_buffer = self._kept(self.context.buffer(self._faces.tobytes(), dynamic=True))
        self.static = static
        self.outline = Outline.of(layout.faces[: layout.skin_count], avatar.weld)
        self.fin_buffer = self._kept(self.context.buffer(reserve=STRIP_VERTICES * STRIP_FLOATS * 4, dynamic=True))
        fin_indices = np.arange(EYES * MAX_FINS, dtype=np.int32)[:, None] * STRIP_VERTICES + np.array(STRIP_TRIANGLES, np.int32)
        self.fin_indices = self._kept(self.context.buffer(fin_indices.tobytes()))
        self.deltas = [self._texture(_four(delta.log_ratio), "f2") for delta in avatar.texture_deltas]
        hair = avatar.hair
        if hair is not None:
            shell_static = np.concatenate([hair.base, hair.extent, layout.hair_normals, hair.uv], axis=1).astype(np.float32)
            self.hair_static_buffer = self._kept(self.context.buffer(shell_static.tobytes()))
            self.hair_shade_buffer = self._kept(self.context.buffer(reserve=len(hair.base) * 12, dynamic=True))

    def at(self, step: int) -> GpuAvatar:
        """The avatar as coarse as a step of `steps`."""
        while len(self._coarser) < step:
            own = self.steps[len(self._coarser) + 1]
            same_hair = self if own.hair is self.avatar.hair else None
            made = GpuAvatar(self.context, own, self._programs, self._written, same_hair)
            self._coarser.append(made)
        return self if step == 0 else self._coarser[step - 1]

    def shows(self, scene: Scene) -> GpuAvatar:
        """That of the avatar and its coarser forms which a scene shows; raises InputError where it shows another."""
        found = next((each for each in (self, *self._coarser) if each.avatar is scene.avatar), None)
        if found is None:
            raise InputError("the scene shows another avatar than the one that is loaded; prepare it anew")
        return found

    @property
    def morph(self) -> GpuMorph:
        """What poses the head on the GPU, made at the first use."""

        def make() -> GpuMorph:
            hair_shade = None if self.avatar.hair is None else self.hair_shade_buffer
            return self._kept(GpuMorph(self.context, self.avatar, self.layout, self.dynamic_buffer, hair_shade))

        return self._once("morph", None, None, make)

    def _every_face(self) -> Any:
        """Indices of all faces in drawing order."""
        return self._once("faces", None, None, lambda: self._kept(self.context.buffer(self._faces.tobytes())))

    def _edges(self) -> Any:
        """The edges of shaders/edges.glsl."""
        outline = self.outline
        rows = np.zeros((len(outline.sides), 2, 4), np.float32)  # whole numbers under 2^24 are exact
        rows[..., :3] = np.where(outline.sides[..., None] < 0, -1, outline.corners)
        return self._kept(BufferTexture(self.context, rows.reshape(-1, 4)))

    def _edge_indices(self) -> Any:
        """Two triangles for each edge, for one eye and then for the other."""
        first = 4 * np.arange(EYES * len(self.outline.sides), dtype=np.int32)
        triangles = first[:, None] + np.array([0, 1, 2, 2, 1, 3], np.int32)
        return self._kept(self.context.buffer(triangles.tobytes()))

    def draw_all_faces(self) -> None:
        """Note the groups of `_every_face`, for programs that leave it to the driver which are seen."""
        self._note_groups(np.arange(len(self._faces)))

    def _note_groups(self, drawn: np.ndarray) -> None:
        """Of `drawn` faces, ascending in drawing order."""
        ranges, each = _ranges(drawn, self._ends), len(SOURCES)
        self.groups = {name: ranges[each * group : each * (group + 1)] for group, name in enumerate(GROUPS)}

    def _kept(self, resource: Any) -> Any:
        self.scope.append(resource)
        return resource

    def release(self) -> None:
        """Free every GL object."""
        for coarse in self._coarser:
            coarse.release()
        self._coarser.clear()
        for resource in reversed(self.scope):
            resource.release()
        self.scope.clear()

    def send_faces(
        self, scene: Scene, cameras: Sequence[Camera], edge_on: Sequence[float], codes: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Send the head's faces that any of the cameras may see from the front, and note their groups.

        edge_on: see HairPasses.send. codes: place_codes of the vertices, to leave out what shows nowhere. Returns which faces of
        the skin each eye does see from the front, for its outline.
        """
        above = [heights(scene.planes, camera.center) for camera in cameras]
        seen = _any([each > -margin for each, margin in zip(above, edge_on, strict=True)])
        kept = seen.take(self._order)
        lashes = len(SOURCES) * GROUPS.index("lashes")
        kept[self._ends[lashes - 1] : self._ends[lashes + len(SOURCES) - 1]] = True  # seen from both sides
        if codes is not None:
            kept &= may_show(codes, self._corners)
        drawn = np.flatnonzero(kept)
        self._note_groups(drawn)
        faces = self._faces.take(drawn, axis=0)
        for group in FADED:
            first, count = (number // 3 for number in whole_range(self.groups[group]))
            fading = faces[first : first + count]
            faces[first : first + count] = fading[_nearest_first(scene.vertices, fading, [camera.center for camera in cameras])]
        refill(self.index_buffer, faces)
        return [each.take(self.skin_faces) > 0 for each in above]

    def _sort_faces(self) -> None:
        self._order, self._ends = self._drawing_order()
        self._faces = np.ascontiguousarray(self.avatar.faces[self._order], np.int32)
        self._corners = np.ascontiguousarray(self._faces.T)
        if ("faces", None, None) in self._textures:
            self._every_face().write(self._faces.tobytes())

    def _drawing_order(self) -> tuple[np.ndarray, np.ndarray]:
        """(avatar.faces in drawing order, those that no texture delta reaches apart; where each of GROUPS, and of SOURCES within
        it, ends among them)."""
        avatar, layout = self.avatar, self.layout
        reached = np.zeros(len(layout.faces), bool)
        for delta in avatar.texture_deltas:
            _, greatest = face_bounds(np.abs(delta.log_ratio).max(2), avatar.uv, layout.faces)
            reached |= greatest >= MIN_LOG_RATIO
        counts = (layout.skin_count, layout.part_count, layout.lash_count)
        kind = np.repeat([0, 2, 4, 5], [*counts, len(reached) - sum(counts)])
        fields = (avatar.field_weight[layout.faces] > 0).any(1)
        self._faded_has_gloss = bool(layout.gloss[layout.faces[kind == 5], 0].any())
        self._parts_have_field = bool((fields & (kind > 0) & (kind < 5)).any())
        group = kind + np.where(kind < 4, reached, (kind == 5) & (fields | reached))
        source = np.zeros(len(group), int)
        if self._asking is not None:
            source[kind == 0] = self._asking.source[0][layout.order[kind == 0]]
        part = len(SOURCES) * group + source
        nearby = _along_curve(avatar.vertices[layout.faces].mean(1))
        order = layout.order[np.lexsort((nearby, part))]
        return order, np.cumsum(np.bincount(part, minlength=len(SOURCES) * len(GROUPS)))

    def _ask(self, avatar: Avatar, variant: Variant) -> Asking | None:
        """Choose where the live form asks the field on the skin, and on the hair levels of a variant, whose choice is returned."""
        assert avatar.neural_field is not None
        skin, *hair = shells_of(avatar)
        if self._asking is None:
            normals = smooth_normals(avatar.vertices, avatar.faces, avatar.weld)
            found = ask(avatar.neural_field, [skin], self._lit(normals, avatar.field_weight, avatar.vertex_alpha))
            source = np.zeros(len(avatar.faces), np.uint8)
            source[(avatar.field_weight[avatar.faces] > 0).any(1)] = found.source[0]
            self._asking = replace(found, source=[source])
            self._sort_faces()
        if hair and variant.hair_levels not in self._hair_asking:
            resting = self.layout.hair_normals
            assert resting is not None
            even = np.ones(len(resting), np.float32)
            self._hair_asking[variant.hair_levels] = ask(avatar.neural_field, hair, self._lit(resting, even, even))
        return self._hair_asking[variant.hair_levels] if hair else None

    def _faded_source(self) -> str:
        """Where the fading faces are asked, one program for all: they are drawn by their distance."""
        assert self._asking is not None
        fading = self._asking.source[0][self.layout.order[self.layout.opaque_count :]]
        return SOURCES[int(np.quantile(fading, CONTENT_SHARE, method="higher"))] if len(fading) else SOURCES[0]

    def _lit(self, normals: np.ndarray, weight: np.ndarray, alpha: np.ndarray) -> Lit:
        return Lit(normals, shade_of(normals, self.avatar.light, self.avatar.shading_power), weight, alpha)

    # --- textures

    def _texture(self, image: np.ndarray, dtype: str, **rest: object) -> Any:
        """A bilinear, clamped texture of (H, W, C)."""
        height, width, channels = image.shape
        texture = self.context.texture((width, height), channels, _bytes(image, dtype), alignment=1, dtype=dtype, **rest)
        return self._kept(_bilinear(texture, self.context))

    def _array(self, images: np.ndarray, dtype: str) -> Any:
        """A bilinear, clamped texture array of (K, H, W, C)."""
        layers, height, width, channels = images.shape
        size = (width, height, layers)
        texture = self.context.texture_array(size, channels, _bytes(images, dtype), alignment=1, dtype=dtype)
        return self._kept(_bilinear(texture, self.context))

    def _color(self, rgb: np.ndarray, colors: str, detail: np.ndarray | None = None) -> Any:
        """A texture of (H, W, 3) u8 sRGB, with a linear detail added, whose samples COLOR_OF_SAMPLE turns into linear light."""
        rest = {"internal_format": GL_SRGB8_ALPHA8} if colors == "srgb" else {}
        return self._texture(_texels(rgb, colors, detail), DTYPES[colors], **rest)

    def _once(self, name: str, key: object, precision: str | None, make: Callable[[], Any]) -> Any:
        entry = (name, key, precision)
        if entry not in self._textures:
            self._textures[entry] = make()
        return self._textures[entry]

    def rebake(self, variant: Variant, weights: np.ndarray, left: Callable[[], bool] | None) -> int:
        """Move the baked textures of a variant toward ARKit weights (52,); returns the bytes sent to the GPU.

        left: asked before each block of rows whether there is time for one more; None moves all at once, however little.
        """
        if variant.form != "baked":
            return 0
        sent = 0
        of_hair = (self._same_hair or self)._rebakes.get(("hair_folded", (variant.hair_levels, True), variant.precision))
        for rebake in (self._rebakes.get(("base_color", True, variant.colors)), of_hair):
            if rebake is not None:
                rebaker = rebake.rebaker
                busy = rebaker.aim(weights) if left is not None else rebaker.aim(weights, tolerance=0.0, anew=True)
                while busy and (left is None or left()):
                    block = rebaker.next()
                    assert block is not None
                    sent += rebake.send(block)
                    busy = rebaker.busy
        return sent

    def _moves(self, entry: tuple[str, object, str | None], textures: Moving, send: Callable[[RowBlock], int]) -> None:
        """Let a texture follow the motion code from now on, where it moves."""
        if self.avatar.baked is not None and textures.moves_at_all and entry not in self._rebakes:
            self._rebakes[entry] = Rebake(Rebaker(self.avatar.baked, textures), send)

    def _variant_textures(self, avatar: Avatar, variant: Variant) -> dict[str, Any]:
        """{sampler: texture}."""
        form, precision, build, colors = variant.form, variant.precision, variant.build, variant.colors
        baked = form == "baked"
        textures = {"base_color": self._once("base_color", baked, colors, lambda: self._skin_color(avatar, variant))}
        if baked:
            textures["field_hidden"] = self._once(
                "field_hidden", None, precision, lambda: self._hidden([skin_field(avatar).hidden])
            )
        if variant.antialias and build.morph == "gpu":
            for name, buffer in (("moving", self.dynamic_buffer), ("resting", self.static_buffer)):
                textures[name] = self._once(name, None, None, lambda: self._kept(BufferTexture(self.context, buffer, 1)))  # noqa: B023
            textures["edges"] = self._once("edges", None, None, self._edges)
        if form == "live" and avatar.neural_field is not None:
            params, table, numbers = avatar.neural_field, build.table, build.numbers
            textures["field_table"] = self._once(
                "field_table",
                (table, precision),
                numbers,
                lambda: self._kept(field_table(self.context, params, table, numbers)),
            )
            asking, hair_asking = self._asking, self._hair_asking.get(variant.hair_levels)
            assert asking is not None
            textures["field_hidden"] = self._once(
                "field_hidden", "live", precision, lambda: self._shared(params, asking, [avatar.vertices])
            )
            if avatar.hair is not None and hair_asking is not None:
                hair = avatar.hair
                places = [hair.base + level * hair.extent for level in hair.levels]
                textures["hair_hidden"] = self._once(
                    "hair_hidden", ("live", variant.hair_levels), precision, lambda: self._shared(params, hair_asking, places)
                )
        return textures | (self._hair_textures(avatar, variant) if avatar.hair is not None else {})

    def _hair_textures(self, avatar: Avatar, variant: Variant) -> dict[str, Any]:
        """{sampler: texture} of the hair's look."""
        if self._same_hair is not None:
            return self._same_hair._hair_textures(avatar, variant)
        shells, textures = avatar.hair, dict[str, Any]()
        levels, precision, colors, baked = variant.hair_levels, variant.precision, variant.colors, variant.form == "baked"
        assert shells is not None
        if variant.form == "live":
            textures["hair_color"] = self._once("hair_color", None, colors, lambda: self._color(shells.color, colors))
            # Half floats are filtered in full precision everywhere; 8-bit textures are not, which would move the cut edge.
            opacity = shells.opacity[..., None] / np.float32(255)
            textures["hair_opacity"] = self._once("hair_opacity", levels, None, lambda: self._array(opacity, "f2"))
            return textures
        key, folded = (levels, baked), cache(lambda: folded_hair(avatar, self.layout, baked))
        if key not in self._hair_faces:
            self._hair_faces[key] = visible_faces(shells, folded().base[..., 3])
        is_new = ("hair_folded", key, precision) not in self._textures
        textures["hair_folded"] = self._once("hair_folded", key, precision, lambda: self._folded(folded().base, precision))
        textures["hair_cut"] = textures["hair_folded"]
        if precision == "byte":
            textures["hair_cut"] = self._once("hair_cut", key, None, lambda: self._folded(folded().base[:1], precision, "f2"))
        if is_new:
            self._moves(("hair_folded", key, precision), folded(), lambda block: _send_hair(textures, precision, block))
        if baked and avatar.baked is not None and avatar.baked.hair_q0 is not None:
            fields = range(len(shells.levels))
            textures["hair_hidden"] = self._once(
                "hair_hidden", levels, precision, lambda: self._hidden([hair_field(avatar, level).hidden for level in fields])
            )
        return textures

    def _skin_color(self, avatar: Avatar, variant: Variant) -> Any:
        colors, precision = variant.colors, variant.precision
        if variant.form != "baked":
            return self._color(avatar.base_color, colors)
        if precision not in self._details:
            self._details[precision] = skin_detail(avatar, self.layout)
        texture = self._color(avatar.base_color, colors, self._details[precision].base[0])

        def send(block: RowBlock) -> int:
            rows = slice(block.first, block.first + len(block.values))
            return _write_rows(texture, _texels(avatar.base_color[rows], colors, block.values), block.first)

        self._moves(("base_color", True, colors), self._details[precision], send)
        return texture

    def _folded(self, values: np.ndarray, precision: Precision, dtype: str | None = None) -> Any:
        """The texture array of (K, H, W, 4) linear colours and opacities; dtype: other than the precision's own."""
        return self._array(_folded_texels(values, precision, dtype), dtype or DTYPES[precision])

    def _hidden(self, surfaces: Sequence[np.ndarray]) -> Any:
        """The buffer texture of the first layers (N, H) of some surfaces, one after another."""
        texels = hidden_texels(np.concatenate(surfaces))
        return self._kept(BufferTexture(self.context, texels.astype(np.float32)))

    def _shared(self, params: FieldParams, asking: Asking, surfaces: Sequence[np.ndarray]) -> Any:
        """`_hidden` of vertices (N, 3) of all surfaces, then again of the levels that split faces take from them."""
        return self._hidden([first_layer(params, places, levels) for levels in (None, asking.levels) for places in surfaces])

    # --- programs

    def _avatar_of(self, variant: Variant) -> Avatar:
        """The avatar as a variant draws it: its hair levels merged, its field as 8 bits hold it where they are asked for."""
        key = (variant.hair_levels, variant.precision)
        if key not in self._own:
            own = merge_levels(self.avatar, variant.hair_levels)
            if variant.precision == "byte" and own.neural_field is not None:
                own = replace(own, neural_field=in_bytes(own.neural_field))
            self._own[key] = own
        return self._own[key]

    def compile(self, variant: Variant) -> Passes:
        """Make what a variant needs and this avatar does not hold yet."""
        form, soft, build = variant.form, variant.antialias, variant.build
        avatar = self._avatar_of(variant)
        live = form == "live" and avatar.neural_field is not None
        hair_asking = self._ask(avatar, variant) if live else None
        defines: dict[str, object] = {
            "FIELD": FIELD_SOURCES["vertices" if form == "baked" else "none"],
            "FOLDED": int(not live),
            "MIN_ALPHA": MIN_ALPHA,
            "HAIR_CUT": HAIR_CUT,
            "BACK_FACE_SHADE": BACK_FACE_SHADE,
            "COLOR(value)": COLOR_OF_SAMPLE[variant.colors],
            "STEREO": f"STEREO_{variant.stereo.upper()}",
        }
        instances = 1 if variant.stereo == "passes" else EYES
        generated = {"field_network": "", "field_vertex_network": ""}
        textures = self._variant_textures(avatar, variant)
        if form != "mesh" and avatar.neural_field is not None:
            defines |= field_defines(avatar.neural_field, build)
            generated["field_vertex_network"] = vertex_network(avatar.neural_field)
        if live and build.network == "uniforms":
            assert avatar.neural_field is not None
            numbers = field_network(avatar.neural_field, build.network)[1]
            block = lambda: self._kept(UniformBlock(self.context, numbers))  # noqa: E731
            textures["FieldNetwork"] = self._once("FieldNetwork", None, variant.precision, block)

        def asked(source: str, asking: Asking | None, vertices: int) -> tuple[dict[str, object], dict[str, str]]:
            """Defines and generated text of a program that asks the live field there; vertices: of the surfaces asked alike."""
            params = avatar.neural_field
            assert params is not None and asking is not None
            texts = {
                "vertices": lambda: {"field_vertex_network": vertex_network(params)},
                "split": lambda: {
                    "field_vertex_network": vertex_share(params, vertices),
                    "field_network": split_network(params, asking.levels),
                },
                "pixels": lambda: {"field_network": field_network(params, build.network)[0]},
            }
            return {"FIELD": FIELD_SOURCES[source]}, {**generated, **texts[source]()}

        sources: Sequence[str] = ("",)
        if live:
            assert avatar.neural_field is not None
            shares = build.network == "literals" and hidden_rows(avatar.neural_field) <= MAX_SHARE_ROWS
            sources = SOURCES if shares else ("pixels",) * len(SOURCES)

        def head(
            detail: int,
            faded: int,
            fin: int,
            deltas: int,
            depth_only: int = 0,
            field: bool = True,
            fragment: str = "head",
            source: str = "pixels",
        ) -> Pass:
            own: dict[str, object] = {
                "DETAIL": detail,
                "FADED": faded,
                "DELTAS": deltas,
                "FIN": fin,
                "SOFT": int(soft and not detail),
            }
            own |= {"DEPTH_ONLY": depth_only, "GLOSS": int(not faded or self._faded_has_gloss)}
            own["EDGES"] = int(fin and build.morph == "gpu")
            texts = generated
            if not field:
                own["FIELD"] = FIELD_SOURCES["none"]
            elif live:
                shared, texts = asked(source, self._asking, len(avatar.vertices))
                own |= shared
            program = self._program("head", {**defines, **own}, texts, textures, fragment)
            if fin and build.morph == "gpu":
                return self._pass(program, [], self._once("edge indices", None, None, self._edge_indices), 1)
            if fin:
                return self._pass(program, [(self.fin_buffer, STRIP_LAYOUT, STRIP_NAMES)], self.fin_indices, 1)
            return self._pass(
                program,
                [
                    (self.dynamic_buffer, "3f 3f 3f", ("position", "normal", "shade")),
                    (self.static_buffer, "3f 2f 1f 1f 2f", ("canonical", "uv", "alpha", "field_weight", "gloss")),
                ],
                self._every_face() if build.morph == "gpu" else self.index_buffer,
                instances,
            )

        counts = range(min(len(self.deltas), MAX_DELTAS) + 1)
        skin = [[head(0, 0, 0, deltas, source=source) for source in sources] for deltas in counts]
        faded = [head(1, 1, 0, deltas, source=self._faded_source() if len(set(sources)) > 1 else "pixels") for deltas in counts]
        detail = [head(1, 0, 0, deltas, field=self._parts_have_field) for deltas in counts]
        fins = [head(0, 0, 1, deltas) for deltas in counts] if soft else []

        def whole(fragment: str, deltas: int = 0) -> Pass:
            own = {"DETAIL": 0, "FADED": 0, "DELTAS": deltas, "FIN": 0, "DEPTH_ONLY": 0, "GATHERED": 1}
            shared, texts = asked("pixels", self._asking, len(avatar.vertices))
            return self._pass(self._program("whole", {**defines, **own, **shared}, texts, textures, fragment), [], None, 1)

        deferred = None
        if live and build.shading == "deferred":
            gather = head(0, 0, 0, 0, fragment="gather")
            deferred = Deferred(gather, [whole("head", deltas) for deltas in counts], whole("compose"))
        hair = None
        if avatar.hair is not None:
            if form == "baked" and "hair_hidden" not in textures:
                defines["FIELD"] = FIELD_SOURCES["none"]
            vertices = len(avatar.hair.base) * len(avatar.hair.levels)
            kinds = [(defines, generated)]
            if live:
                kinds = [
                    ({**defines, **own}, texts) for own, texts in (asked(source, hair_asking, vertices) for source in sources)
                ]
            hair = self._hair_passes(avatar, variant, hair_asking, kinds, textures)
        passes = Passes(
            skin,
            detail,
            faded,
            head(1, 1, 0, 0, field=False),
            head(1, 1, 0, 0, 1, field=False),
            fins,
            deferred,
            hair,
            {UNITS[name]: item for name, item in textures.items()},
            variant.stereo,
            build.morph == "gpu",
            avatar.neural_field,
        )
        if avatar.neural_field is not None:
            low, high = avatar.neural_field.box_min, avatar.neural_field.box_max
            for entry in passes:
                entry.set({"field_box_min": vector_bytes(low), "field_box_scale": vector_bytes(1 / (high - low))})
        self.passes[variant] = passes
        return passes

    def _hair_passes(
        self,
        avatar: Avatar,
        variant: Variant,
        asking: Asking | None,
        kinds: Sequence[tuple[dict[str, object], dict[str, str]]],
        textures: dict[str, Any],
    ) -> HairPasses:
        """kinds: defines and generated text for all faces, or for those of each of SOURCES."""
        shells = avatar.hair
        assert shells is not None
        if asking is not None:
            groups = _live_faces(avatar, asking)
        else:
            faces = (self._same_hair or self)._hair_faces[variant.hair_levels, variant.form == "baked"]
            groups = [faces.solid, faces.cut, *faces.outer]
        ends = np.cumsum([len(group) for group in groups])
        levels = [level for level in (0, 0, *range(1, len(shells.levels))) for _ in kinds]
        planes = [
            face_planes(shells.base + shells.levels[level] * shells.extent, group)
            for level, group in zip(levels, groups, strict=True)
        ]
        indices = self._kept(self.context.buffer(reserve=12, dynamic=True))

        def one(defines: dict[str, object], texts: dict[str, str], base_level: int, cut: int) -> Pass:
            own = {**defines, "VERTICES": len(shells.base), "FIN": 0, "BASE_LEVEL": base_level, "CUT": cut}
            program = self._program("hair", own, texts, textures)
            return self._pass(
                program,
                [
                    (self.hair_static_buffer, "3f 3f 3f 2f", ("base", "extent", "normal", "uv")),
                    (self.hair_shade_buffer, "3f", ("shade",)),
                ],
                indices,
                1 if variant.stereo == "passes" else EYES,
            )

        solid, cut, outer = ([one(*kind, *own) for kind in kinds] for own in ((1, 0), (1, 1), (0, 0)))
        parts = [*solid, *cut, *(entry for _ in shells.levels[1:] for entry in outer)]
        base = len(solid) + len(cut)
        return HairPasses(shells, parts, base, indices, np.concatenate(groups), ends, np.concatenate(planes, axis=1), levels)

    def _program(
        self, kind: str, defines: dict[str, object], generated: dict[str, str], textures: dict[str, Any], fragment: str = ""
    ) -> Any:
        """The program of a kind of vertex shader, with its fragment shader or the one of another kind."""
        key = (kind, fragment, *sorted(map(str, defines.items())), *generated.values())
        if key not in self._programs:
            names = f"{kind}_vertex.glsl", f"{fragment or kind}_fragment.glsl"
            vertex, pixel = (assemble(name, defines, generated) for name in names)
            program = self._kept(self.context.program(vertex_shader=vertex, fragment_shader=pixel))
            own = {"field_hidden": "hair_hidden"} if kind == "hair" else {}
            if defines.get("CUT"):
                own["hair_folded"] = "hair_cut"
            for name in UNITS:
                if name in program:
                    source = own.get(name, name)
                    if name in ARRAYS:
                        textures[source].assign(program, name, UNITS[source])
                    else:
                        program[name].value = UNITS[source]
            self._programs[key] = program
        return self._programs[key]

    def _pass(self, program: Any, buffers: list[tuple[Any, str, tuple[str, ...]]], indices: Any, instances: int) -> Pass:
        """A vertex array over interleaved buffers; attributes that the program does not use are skipped as padding."""
        import moderngl

        content = []
        for buffer, layout, names in buffers:
            used = [name for name in names if name in program]
            kinds, _, each = layout.partition("/")
            remaining = iter(names)
            parts = [
                kind if kind.endswith("x") or next(remaining) in program else f"{4 * int(kind[0])}x" for kind in kinds.split()
            ]
            if used:
                content.append((buffer, " ".join(parts) + (f"/{each}" if each else ""), *used))
        vertex_array = self._kept(self.context.vertex_array(program, content, indices, index_element_size=4))
        vertex_array.instances = instances
        uniforms = {name: program[name] for name in program if isinstance(program[name], moderngl.Uniform)}
        return Pass(vertex_array, uniforms, self._written.setdefault(program.glo, {}))


def whole_range(ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(first, count) of ranges that follow each other."""
    return ranges[0][0], sum(count for _, count in ranges)


def _ranges(chosen: np.ndarray, ends: np.ndarray, skipped: int = 0) -> list[tuple[int, int]]:
    """(first, count) of indices of each part in a buffer of the `chosen` faces, ascending, behind as many `skipped` ones."""
    bounds = 3 * (skipped + np.concatenate([[0], np.searchsorted(chosen, ends)]))
    return [(int(first), int(last - first)) for first, last in pairwise(bounds)]


def _nearest_first(vertices: np.ndarray, faces: np.ndarray, eyes: Sequence[np.ndarray]) -> np.ndarray:
    """(F,) order of faces (F, 3) by the distance of their first corner from the middle of the eyes: faces here are small."""
    away = vertices.take(faces[:, 0], axis=0) - np.mean(eyes, axis=0).astype(np.float32)
    return np.argsort(np.einsum("fa,fa->f", away, away))


def _any(flags: Sequence[np.ndarray]) -> np.ndarray:
    """Where any of some flags is set."""
    return flags[0] if len(flags) == 1 else np.logical_or.reduce(flags)


def refill(buffer: Any, values: np.ndarray) -> None:
    """Replace a buffer's content and size: what is still being drawn keeps the old memory, and no more is asked for than is used."""
    if values.nbytes:
        buffer.orphan(values.nbytes)
        buffer.write(values)


def _along_curve(points: np.ndarray) -> np.ndarray:
    """(N,) i64 places of points (N, 3) along a Morton curve: neighbours share vertices, which a driver then places fewer times."""
    low = points.min(0)
    cells = ((points - low) / max(float(np.ptp(points, axis=0).max()), 1e-9) * (CURVE_CELLS - 1)).astype(np.int64)
    bits = np.arange(CURVE_CELLS.bit_length() - 1)
    return ((cells[..., None] >> bits & 1) << (3 * bits + np.arange(3)[:, None])).sum((1, 2))


def _live_faces(avatar: Avatar, asking: Asking) -> list[np.ndarray]:
    """The hair faces of HairPasses' parts, (n, 3) i32 each: the field may uncover any of the blended levels' faces. What is cut
    is asked at its pixels."""
    hair, field = avatar.hair, avatar.neural_field
    assert hair is not None and field is not None
    faces = np.ascontiguousarray(hair.faces, np.int32)
    low, high = face_bounds(hair.opacity[0] / np.float32(255), hair.uv, faces)
    solid = low - field.alpha_bound >= HAIR_CUT
    cut = ~solid & (high + field.alpha_bound >= HAIR_CUT)
    sources = range(len(SOURCES))
    groups = [faces[solid & (asking.source[0] == source)] for source in sources]
    groups += [faces[cut & (source == len(SOURCES) - 1)] for source in sources]
    for source_of_face in asking.source[1:]:
        groups += [faces[source_of_face == source] for source in sources]
    return groups


def _texels(rgb: np.ndarray, colors: str, detail: np.ndarray | None = None) -> np.ndarray:
    """(H, W, 4) texels of (H, W, 3) u8 sRGB with a linear detail added; drivers hold three channels as four."""
    if detail is None:
        return _four(rgb if colors == "srgb" else (ROOT_OF_BYTE if colors == "byte" else LINEAR_OF_BYTE)[rgb])
    linear = LINEAR_OF_BYTE.astype(np.float32)[rgb] + detail
    if colors == "half":
        return _four(linear.astype(np.float16))
    return _four(to_u8(np.sqrt(linear.clip(0, 1)) if colors == "byte" else linear_to_srgb(linear)))


def _folded_texels(values: np.ndarray, precision: Precision, dtype: str | None = None) -> np.ndarray:
    """(..., 4) texels of linear colours and opacities; dtype: other than the precision's own."""
    if precision == "byte":
        values = np.concatenate([np.sqrt(values[..., :3].clip(0, 1)), values[..., 3:]], axis=-1)
    if (dtype or DTYPES[precision]) == "f1":
        return np.rint(values * 255).astype(np.uint8)
    return values.astype(np.float16)


def _send_hair(textures: dict[str, Any], precision: Precision, block: RowBlock) -> int:
    """Write rows of folded hair; the opaque level's also to the texture that it is cut by, where that is another."""
    sent = _write_rows(textures["hair_folded"], _folded_texels(block.values, precision), block.first, block.level)
    if block.level == 0 and textures["hair_cut"] is not textures["hair_folded"]:
        sent += _write_rows(textures["hair_cut"], _folded_texels(block.values, precision, "f2"), block.first, 0)
    return sent


def _write_rows(texture: Any, texels: np.ndarray, first: int, level: int | None = None) -> int:
    """Write rows of texels (h, w, 4) from row `first` of a texture, or of a level of a texture array; returns their bytes."""
    rows, width = texels.shape[:2]
    place = (0, first, width, rows) if level is None else (0, first, level, width, rows, 1)
    texture.write(np.ascontiguousarray(texels).tobytes(), viewport=place)
    return texels.nbytes


def _four(values: np.ndarray) -> np.ndarray:
    """(..., 4) of (..., 3): filled up with zeros."""
    return np.concatenate([values, np.zeros((*values.shape[:-1], 1), values.dtype)], axis=-1)


def vector_bytes(values: Any) -> bytes:
    """A uniform's value: numbers in their order."""
    return np.asarray(values, np.float32).tobytes()


def matrix_bytes(values: np.ndarray) -> bytes:
    """A uniform's value: a matrix, column after column."""
    return np.asarray(values, np.float32).T.tobytes()


def _bytes(image: np.ndarray, dtype: str) -> bytes:
    return np.ascontiguousarray(image, {"f1": np.uint8, "f2": np.float16, "f4": np.float32}[dtype]).tobytes()


def _bilinear(texture: Any, context: Any) -> Any:
    texture.filter = (context.LINEAR, context.LINEAR)
    texture.repeat_x = texture.repeat_y = False
    return texture
