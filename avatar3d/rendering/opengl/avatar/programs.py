"""All programs of one way to draw an avatar (`Variant`), with the textures that they read; draws nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from avatar3d.avatar import FieldParams
from avatar3d.rendering.opengl.avatar.hair_programs import HairPrograms
from avatar3d.rendering.opengl.avatar.program import Program
from avatar3d.rendering.opengl.stereo import Stereo


@dataclass
class DeferredPrograms:
    """Programs of deferred shading: surfaces into a GBuffer, their shade by the number of texture deltas, that into a picture."""

    gbuffer: Program
    shade: list[Program]
    compose: Program


@dataclass
class VariantPrograms:
    """The programs of one variant and the textures they read: {unit: texture}.

    skin, detail, faded: indexed by the number of texture deltas that are applied. detail adds gloss, faded opacity.
    faded_plain knows no field, faded_depth no colour. skin: for each of field_source.SOURCES, or one for all of it. fins: of the
    outline, empty where it is not softened. on_gpu: the GPU morphs: all faces are drawn, and the outline is found there.
    """

    skin: list[list[Program]]
    detail: list[Program]
    faded: list[Program]
    faded_plain: Program
    faded_depth: Program
    fins: list[Program]
    deferred: DeferredPrograms | None
    hair: HairPrograms | None
    textures: dict[int, Any]
    stereo: Stereo
    on_gpu: bool
    field: FieldParams | None

    def drawn_with(self, deltas: int) -> Iterator[Program]:
        """Those that draw a frame with so many texture deltas."""
        yield from (*self.skin[0], self.detail[0], self.faded_plain, self.faded_depth)
        yield from (*self.skin[deltas], self.detail[deltas], self.faded[deltas], *self.fins[deltas : deltas + 1])
        if self.deferred is not None:
            yield from (self.deferred.gbuffer, self.deferred.shade[deltas], self.deferred.compose)
        if self.hair is not None:
            yield from self.hair.programs

    def __iter__(self) -> Iterator[Program]:
        for skin in self.skin:
            yield from skin
        yield from (*self.detail, *self.faded, self.faded_plain, self.faded_depth, *self.fins)
        if self.deferred is not None:
            yield from (self.deferred.gbuffer, *self.deferred.shade, self.deferred.compose)
        if self.hair is not None:
            yield from self.hair.programs
