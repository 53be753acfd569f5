"""Compiles the programs of one way to draw an avatar (`Variant`): which #defines, generated GLSL and buffers each is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from avatar3d.avatar import Avatar
from avatar3d.rendering.lod.field_source import SOURCES, FieldSources
from avatar3d.rendering.opengl.avatar.buffers import AvatarBuffers
from avatar3d.rendering.opengl.avatar.hair_programs import HairPart, HairPrograms
from avatar3d.rendering.opengl.avatar.live_field import LiveField, live_hair_faces
from avatar3d.rendering.opengl.avatar.program import UNITS, Attributes, Program, ProgramCache, ShaderText, vector_bytes
from avatar3d.rendering.opengl.avatar.programs import DeferredPrograms, VariantPrograms
from avatar3d.rendering.opengl.avatar.texels import COLOR_OF_SAMPLE
from avatar3d.rendering.opengl.avatar.textures import AvatarTextures
from avatar3d.rendering.opengl.avatar.variant import Variant
from avatar3d.rendering.opengl.scope import GlScope
from avatar3d.rendering.opengl.shaders import (
    FIELD_SOURCES,
    field_defines,
    field_network,
    hidden_rows,
    split_network,
    vertex_network,
    vertex_share,
)  # fmt: skip
from avatar3d.rendering.outline import STRIP_LAYOUT, STRIP_NAMES
from avatar3d.rendering.scene import BACK_FACE_SHADE, HAIR_CUT, MAX_DELTAS, MIN_ALPHA

MAX_SHARE_ROWS = 8  # vec4 of the MLP's first layer that vertices hand on: what every driver passes, beside the rest


@dataclass(frozen=True)
class HeadProgram:
    """What tells the head's programs apart.

    deltas: how many texture deltas it applies. detail: of parts that are no skin, with gloss; faded: blended by the vertices' opacity;
    fin: strips along the outline; depth_only: no colour. field: whether the field acts on it, and source where the live form
    evaluates it, one of SOURCES. fragment: the kind of its fragment shader.
    """

    deltas: int = 0
    detail: bool = False
    faded: bool = False
    fin: bool = False
    depth_only: bool = False
    field: bool = True
    source: str = "pixels"
    fragment: str = "head"


class VariantCompiler:
    """Makes what a variant needs and the avatar does not hold yet; use it once. The context must be current.

    drawn: the avatar as the variant draws it. live: has chosen for the variant where its form is live.
    """

    def __init__(
        self,
        scope: GlScope,
        cache: ProgramCache,
        buffers: AvatarBuffers,
        textures: AvatarTextures,
        live: LiveField,
        drawn: Avatar,
        variant: Variant,
    ) -> None:
        self._scope, self._cache, self._buffers, self._live = scope, cache, buffers, live
        self._drawn, self._variant, self._field = drawn, variant, drawn.neural_field
        self._is_live = variant.form == "live" and drawn.neural_field is not None
        self._textures = textures.of_variant(drawn, variant, live)
        if variant.antialias and variant.on_gpu:
            self._textures |= buffers.as_textures()
        self._level_faces = None if drawn.hair is None or self._is_live else textures.hair_faces(variant)
        self._text = self._common_text()
        self._sources = self._live_sources()

    def compile(self) -> VariantPrograms:
        """All programs of the variant."""
        variant, order = self._variant, self._buffers.order
        counts = range(min(len(self._drawn.texture_deltas), MAX_DELTAS) + 1)
        faded_source = self._live.faded_source() if len(set(self._sources)) > 1 else "pixels"
        programs = VariantPrograms(
            skin=[[self._head(HeadProgram(deltas, source=source)) for source in self._sources] for deltas in counts],
            detail=[self._head(HeadProgram(deltas, detail=True, field=order.parts_have_field)) for deltas in counts],
            faded=[self._head(HeadProgram(deltas, detail=True, faded=True, source=faded_source)) for deltas in counts],
            faded_plain=self._head(HeadProgram(detail=True, faded=True, field=False)),
            faded_depth=self._head(HeadProgram(detail=True, faded=True, field=False, depth_only=True)),
            fins=[self._head(HeadProgram(deltas, fin=True)) for deltas in counts] if variant.antialias else [],
            deferred=self._deferred(counts) if self._is_live and variant.strategy.shading == "deferred" else None,
            hair=None if self._drawn.hair is None else self._hair(),
            textures={UNITS[name]: item for name, item in self._textures.items()},
            stereo=variant.stereo,
            on_gpu=variant.on_gpu,
            field=self._field,
        )
        if self._field is not None:
            low, high = self._field.box_min, self._field.box_max
            box = {"field_box_min": vector_bytes(low), "field_box_scale": vector_bytes(1 / (high - low))}
            for program in programs:
                program.set(box)
        return programs

    # --- texts

    def _common_text(self) -> ShaderText:
        """What all programs of the variant have in common."""
        variant = self._variant
        defines: dict[str, object] = {
            "FIELD": FIELD_SOURCES["vertices" if variant.form == "baked" else "none"],
            "FOLDED": int(not self._is_live),
            "MIN_ALPHA": MIN_ALPHA,
            "HAIR_CUT": HAIR_CUT,
            "BACK_FACE_SHADE": BACK_FACE_SHADE,
            "COLOR(value)": COLOR_OF_SAMPLE[variant.colors],
            "STEREO": f"STEREO_{variant.stereo.upper()}",
        }
        generated = {"field_network": "", "field_vertex_network": ""}
        if variant.form != "mesh" and self._field is not None:
            defines |= field_defines(self._field, variant.strategy)
            generated["field_vertex_network"] = vertex_network(self._field)
        return ShaderText(defines, generated)

    def _live_sources(self) -> Sequence[str]:
        """Where the programs for each of SOURCES evaluate the field; one program without a field that is evaluated live."""
        if not self._is_live:
            return ("",)
        assert self._field is not None
        shares = self._variant.strategy.network == "literals" and hidden_rows(self._field) <= MAX_SHARE_ROWS
        return SOURCES if shares else ("pixels",) * len(SOURCES)

    def _evaluating(self, source: str, sources: FieldSources | None, vertices: int) -> ShaderText:
        """The text of a program that evaluates the live field there; vertices: of the surfaces that `sources` was chosen for."""
        params, strategy = self._field, self._variant.strategy
        assert params is not None and sources is not None
        generated = dict(self._text.generated)
        if source == "vertices":
            generated["field_vertex_network"] = vertex_network(params)
        elif source == "split":
            generated["field_vertex_network"] = vertex_share(params, vertices)
            generated["field_network"] = split_network(params, sources.levels)
        else:
            generated["field_network"] = field_network(params, strategy.network)[0]
        return ShaderText({**self._text.defines, "FIELD": FIELD_SOURCES[source]}, generated)

    def _on_skin(self, source: str) -> ShaderText:
        return self._evaluating(source, self._live.skin, len(self._drawn.vertices))

    # --- the head

    def _head(self, own: HeadProgram) -> Program:
        text = self._text
        if not own.field:
            text = text.with_defines(FIELD=FIELD_SOURCES["none"])
        elif self._is_live:
            text = self._on_skin(own.source)
        order, variant, buffers = self._buffers.order, self._variant, self._buffers
        text = text.with_defines(
            DETAIL=int(own.detail),
            FADED=int(own.faded),
            DELTAS=own.deltas,
            FIN=int(own.fin),
            SOFT=int(variant.antialias and not own.detail),
            DEPTH_ONLY=int(own.depth_only),
            GLOSS=int(not own.faded or order.faded_has_gloss),
            EDGES=int(own.fin and variant.on_gpu),
        )
        program = self._cache.linked("head", text, self._textures, own.fragment)
        if own.fin and variant.on_gpu:
            return self._drawable(program, [], buffers.edge_indices(), 1)
        if own.fin:
            return self._drawable(program, [Attributes(buffers.fins, STRIP_LAYOUT, STRIP_NAMES)], buffers.fin_indices, 1)
        attributes = [
            Attributes(buffers.posed_buffer, "3f 3f 3f", ("position", "normal", "shade")),
            Attributes(buffers.resting_buffer, "3f 2f 1f 1f 2f", ("canonical", "uv", "alpha", "field_weight", "gloss")),
        ]
        faces = buffers.every_face() if variant.on_gpu else buffers.indices
        return self._drawable(program, attributes, faces, variant.instances)

    def _deferred(self, counts: Sequence[int]) -> DeferredPrograms:
        return DeferredPrograms(
            gbuffer=self._head(HeadProgram(fragment="gbuffer")),
            shade=[self._whole_picture("head", deltas) for deltas in counts],
            compose=self._whole_picture("compose"),
        )

    def _whole_picture(self, fragment: str, deltas: int = 0) -> Program:
        """One triangle over all of it."""
        text = self._on_skin("pixels").with_defines(DETAIL=0, FADED=0, DELTAS=deltas, FIN=0, DEPTH_ONLY=0, GBUFFER=1)
        return self._drawable(self._cache.linked("whole", text, self._textures, fragment), [], None, 1)

    # --- the hair

    def _hair(self) -> HairPrograms:
        drawn, shells = self._drawn, self._drawn.hair
        assert shells is not None
        if self._is_live:
            sources = self._live.hair(self._variant.hair_levels)
            assert sources is not None
            vertices = len(shells.base) * len(shells.levels)
            texts = [self._evaluating(source, sources, vertices) for source in self._sources]
            groups = live_hair_faces(drawn, sources)
        else:
            unlit = self._variant.form == "baked" and "hair_hidden" not in self._textures
            texts = [self._text.with_defines(FIELD=FIELD_SOURCES["none"]) if unlit else self._text]
            assert self._level_faces is not None
            groups = [self._level_faces.solid, self._level_faces.cut, *self._level_faces.outer]
        indices = self._buffers.empty_indices()
        solid, cut, outer = (
            [self._hair_program(text, base_level, cut, indices) for text in texts]
            for base_level, cut in ((1, 0), (1, 1), (0, 0))
        )
        programs = [*solid, *cut, *(program for _ in shells.levels[1:] for program in outer)]
        levels = [level for level in (0, 0, *range(1, len(shells.levels))) for _ in texts]
        parts = [HairPart(*part) for part in zip(levels, groups, programs, strict=True)]
        return HairPrograms(shells, parts, len(solid) + len(cut), indices)

    def _hair_program(self, text: ShaderText, base_level: int, cut: int, indices: Any) -> Program:
        shells, buffers = self._drawn.hair, self._buffers
        assert shells is not None
        text = text.with_defines(VERTICES=len(shells.base), FIN=0, BASE_LEVEL=base_level, CUT=cut)
        attributes = [
            Attributes(buffers.hair_resting, "3f 3f 3f 2f", ("base", "extent", "normal", "uv")),
            Attributes(buffers.hair_shade, "3f", ("shade",)),
        ]
        program = self._cache.linked("hair", text, self._textures)
        return self._drawable(program, attributes, indices, self._variant.instances)

    def _drawable(self, program: Any, attributes: Sequence[Attributes], indices: Any, instances: int) -> Program:
        return self._cache.drawable(self._scope, program, attributes, indices, instances)
