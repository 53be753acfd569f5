"""An avatar on the GPU, with its levels of detail: its buffers, its textures, and the programs of each way to draw it.

A way to draw (`Variant`) is compiled once and kept, so that a quality ladder switches between them from one frame to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.errors import InputError
from avatar3d.field.int8 import in_bytes
from avatar3d.rendering.frame import Precision
from avatar3d.rendering.lod.hair_levels import merge_levels
from avatar3d.rendering.lod.level import LodChain
from avatar3d.rendering.opengl.avatar.buffers import AvatarBuffers
from avatar3d.rendering.opengl.avatar.compiler import VariantCompiler
from avatar3d.rendering.opengl.avatar.live_field import LiveField
from avatar3d.rendering.opengl.avatar.program import ProgramCache
from avatar3d.rendering.opengl.avatar.programs import VariantPrograms
from avatar3d.rendering.opengl.avatar.textures import AvatarTextures
from avatar3d.rendering.opengl.avatar.variant import Variant
from avatar3d.rendering.opengl.scope import GlScope
from avatar3d.rendering.scene import Scene, layout_of


class GpuAvatar:
    """One level of detail of an avatar on the GPU; the context must be current in every call.

    finer: the avatar whose level of detail it is; its programs are shared, and its hair's textures where the hair is the same.
    layout, buffers, textures: of this level. programs: of each variant that was compiled. lods: the avatar's levels of detail.
    """

    def __init__(self, context: Any, avatar: Avatar, finer: GpuAvatar | None = None) -> None:
        self.avatar = avatar
        self.layout = layout_of(avatar)
        self._scope = GlScope(context)
        self._cache: ProgramCache = ProgramCache(self._scope) if finer is None else finer._cache
        same_hair = finer.textures if finer is not None and finer.avatar.hair is avatar.hair else None
        self.buffers = AvatarBuffers(self._scope, avatar, self.layout)
        self.textures: AvatarTextures = AvatarTextures(self._scope, avatar, self.layout, same_hair)
        self.programs: dict[Variant, VariantPrograms] = {}
        self.lods = LodChain(avatar)
        self._coarser: list[GpuAvatar] = []
        self._live = LiveField(avatar, self.layout)
        self._drawn: dict[tuple[int | None, Precision], Avatar] = {}

    def at(self, lod: int) -> GpuAvatar:
        """The avatar at one of its levels of detail, 0 being itself."""
        while len(self._coarser) < lod:
            self._coarser.append(GpuAvatar(self._scope.context, self.lods[len(self._coarser) + 1], self))
        return self if lod == 0 else self._coarser[lod - 1]

    def shows(self, scene: Scene) -> GpuAvatar:
        """That of the avatar's levels of detail which a scene shows; raises InputError where it shows another."""
        found = next((each for each in (self, *self._coarser) if each.avatar is scene.avatar), None)
        if found is None:
            raise InputError("the scene shows another avatar than the one that is loaded; prepare it anew")
        return found

    def compile(self, variant: Variant) -> VariantPrograms:
        """Make what a variant needs and this avatar does not hold yet."""
        drawn = self._as_drawn(variant)
        if variant.form == "live" and drawn.neural_field is not None:
            is_new = self._live.skin is None
            self._live.choose(drawn, variant.hair_levels)
            assert self._live.skin is not None
            if is_new:
                self.buffers.sort_faces(self._live.skin.source[0])
        compiler = VariantCompiler(
            self._scope, self._cache, self.buffers, self.textures, self._live, drawn=drawn, variant=variant
        )
        self.programs[variant] = compiler.compile()
        return self.programs[variant]

    def rebake(self, variant: Variant, weights: np.ndarray, left: Callable[[], bool] | None) -> int:
        """See AvatarTextures.rebake."""
        return self.textures.rebake(variant, weights, left)

    def _as_drawn(self, variant: Variant) -> Avatar:
        """The avatar as a variant draws it: its hair levels merged, its field as 8 bits hold it where they are asked for."""
        key = (variant.hair_levels, variant.precision)
        if key not in self._drawn:
            own = merge_levels(self.avatar, variant.hair_levels)
            if variant.precision == "byte" and own.neural_field is not None:
                own = replace(own, neural_field=in_bytes(own.neural_field))
            self._drawn[key] = own
        return self._drawn[key]

    @property
    def gl_objects(self) -> int:
        """How many it holds, with those of its levels of detail."""
        return len(self._scope) + sum(coarse.gl_objects for coarse in self._coarser)

    def release(self) -> None:
        """Free every GL object."""
        for coarse in self._coarser:
            coarse.release()
        self._coarser.clear()
        self._scope.release()
