"""Textures of an avatar, and arrays that shaders read: each made once for the variants that share it; some follow the motion code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar, FieldParams
from avatar3d.field.definition import first_layer
from avatar3d.field.rebake import Moving, Rebaker, RowBlock
from avatar3d.rendering.frame import Precision
from avatar3d.rendering.lod.field_source import FieldSources
from avatar3d.rendering.lod.fold import folded_hair, hair_field, skin_detail, skin_field
from avatar3d.rendering.lod.hair_levels import LevelFaces, visible_faces
from avatar3d.rendering.opengl.arrays import BufferTexture, UniformBlock, field_table
from avatar3d.rendering.opengl.avatar.live_field import LiveField
from avatar3d.rendering.opengl.avatar.texels import (
    DTYPES,
    color_texels,
    folded_texels,
    texel_bytes,
    with_fourth,
    write_rows,
)  # fmt: skip
from avatar3d.rendering.opengl.avatar.variant import Variant
from avatar3d.rendering.opengl.raw_gl import GL_SRGB8_ALPHA8
from avatar3d.rendering.opengl.scope import GlScope
from avatar3d.rendering.opengl.shaders import field_network, hidden_texels
from avatar3d.rendering.scene import Layout

Key = tuple[str, object, str | None]  # what a texture is, of which of several, in which precision or colours


@dataclass(frozen=True)
class Rebake:
    """A texture that follows the motion code: what hands out its rows, and how they are sent; returns bytes."""

    rebaker: Rebaker
    send: Callable[[RowBlock], int]


class AvatarTextures:
    """Textures of one avatar. The context must be current in every call.

    same_hair: those of a finer level of detail with the same hair, which are drawn with. deltas: one texture for each texture delta.
    """

    def __init__(self, scope: GlScope, avatar: Avatar, layout: Layout, same_hair: AvatarTextures | None = None) -> None:
        self._scope, self._avatar, self._layout, self._same_hair = scope, avatar, layout, same_hair
        self.deltas = [self._texture(with_fourth(delta.log_ratio), "f2") for delta in avatar.texture_deltas]
        self._details: dict[Precision, Moving] = {}
        self._rebakes: dict[Key, Rebake] = {}
        self._hair_faces: dict[tuple[int | None, bool], LevelFaces] = {}

    # --- of a variant

    def of_variant(self, drawn: Avatar, variant: Variant, live: LiveField) -> dict[str, Any]:
        """{sampler: texture or array} of an avatar as the variant draws it (its hair levels merged, its field in its precision).

        live: where the live form evaluates the field, chosen for the variant.
        """
        precision, baked = variant.precision, variant.form == "baked"
        textures = {"base_color": self._skin_color(drawn, variant)}
        if baked:
            textures["field_hidden"] = self._once(
                ("field_hidden", None, precision), lambda: self._hidden([skin_field(drawn).hidden])
            )
        if variant.form == "live" and drawn.neural_field is not None:
            textures |= self._live_field(drawn, drawn.neural_field, variant, live)
        return textures | (self._hair(drawn, variant) if drawn.hair is not None else {})

    def hair_faces(self, variant: Variant) -> LevelFaces:
        """Which hair faces a variant other than live needs, known once `of_variant` made its textures."""
        return (self._same_hair or self)._hair_faces[variant.hair_levels, variant.form == "baked"]

    def _live_field(self, drawn: Avatar, params: FieldParams, variant: Variant, live: LiveField) -> dict[str, Any]:
        """Hash tables, weights, and what the vertices hold of the field."""
        scope, precision, strategy = self._scope, variant.precision, variant.strategy
        assert live.skin is not None
        skin_sources, hair_sources = live.skin, live.hair(variant.hair_levels)
        arrays = {
            "field_table": self._once(
                ("field_table", (strategy.table, precision), strategy.numbers),
                lambda: scope.keep(field_table(scope.context, params, strategy.table, strategy.numbers)),
            ),
            "field_hidden": self._once(
                ("field_hidden", "live", precision), lambda: self._shared(params, skin_sources, [drawn.vertices])
            ),
        }
        if strategy.network == "uniforms":
            arrays["FieldNetwork"] = self._once(
                ("FieldNetwork", None, precision),
                lambda: scope.keep(UniformBlock(scope.context, field_network(params, strategy.network)[1])),
            )
        if drawn.hair is not None and hair_sources is not None:
            hair, sources = drawn.hair, hair_sources
            places = [hair.base + level * hair.extent for level in hair.levels]
            arrays["hair_hidden"] = self._once(
                ("hair_hidden", ("live", variant.hair_levels), precision), lambda: self._shared(params, sources, places)
            )
        return arrays

    def _skin_color(self, drawn: Avatar, variant: Variant) -> Any:
        baked, colors, precision = variant.form == "baked", variant.colors, variant.precision
        key = ("base_color", baked, colors)
        if not baked:
            return self._once(key, lambda: self._color(drawn.base_color, colors))
        if precision not in self._details:
            self._details[precision] = skin_detail(drawn, self._layout)
        detail = self._details[precision]
        texture = self._once(key, lambda: self._color(drawn.base_color, colors, detail.base[0]))

        def send(block: RowBlock) -> int:
            rows = slice(block.first, block.first + len(block.values))
            return write_rows(texture, color_texels(drawn.base_color[rows], colors, block.values), block.first)

        self._follow(key, detail, send)
        return texture

    def _hair(self, drawn: Avatar, variant: Variant) -> dict[str, Any]:
        """{sampler: texture} of the hair's look."""
        if self._same_hair is not None:
            return self._same_hair._hair(drawn, variant)
        return self._live_hair(drawn, variant) if variant.form == "live" else self._folded_hair(drawn, variant)

    def _live_hair(self, drawn: Avatar, variant: Variant) -> dict[str, Any]:
        hair, colors = drawn.hair, variant.colors
        assert hair is not None
        # Half floats are filtered in full precision everywhere; 8-bit textures are not, which would move the cut edge.
        opacity = hair.opacity[..., None] / np.float32(255)
        return {
            "hair_color": self._once(("hair_color", None, colors), lambda: self._color(hair.color, colors)),
            "hair_opacity": self._once(("hair_opacity", variant.hair_levels, None), lambda: self._array(opacity, "f2")),
        }

    def _folded_hair(self, drawn: Avatar, variant: Variant) -> dict[str, Any]:
        hair, precision, baked = drawn.hair, variant.precision, variant.form == "baked"
        assert hair is not None
        key, folded = (variant.hair_levels, baked), cache(lambda: folded_hair(drawn, self._layout, baked))
        if key not in self._hair_faces:
            self._hair_faces[key] = visible_faces(hair, folded().base[..., 3])
        entry = ("hair_folded", key, precision)
        is_new = not self._scope.holds(entry)
        textures = {"hair_folded": self._once(entry, lambda: self._folded(folded().base, precision))}
        textures["hair_cut"] = textures["hair_folded"]
        if precision == "byte":
            textures["hair_cut"] = self._once(("hair_cut", key, None), lambda: self._folded(folded().base[:1], precision, "f2"))
        if is_new:
            own = dict(textures)
            self._follow(entry, folded(), lambda block: _send_hair(own, precision, block))
        if baked and drawn.baked is not None and drawn.baked.hair_q0 is not None:
            levels = range(len(hair.levels))
            textures["hair_hidden"] = self._once(
                ("hair_hidden", variant.hair_levels, precision),
                lambda: self._hidden([hair_field(drawn, level).hidden for level in levels]),
            )
        return textures

    # --- what follows the motion code

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

    def _follow(self, key: Key, textures: Moving, send: Callable[[RowBlock], int]) -> None:
        """Let a texture follow the motion code from now on, where it moves."""
        if self._avatar.baked is not None and textures.moves_at_all and key not in self._rebakes:
            self._rebakes[key] = Rebake(Rebaker(self._avatar.baked, textures), send)

    # --- making them

    def _once(self, key: Key, make: Callable[[], Any]) -> Any:
        return self._scope.once(key, make)

    def _texture(self, image: np.ndarray, dtype: str, **rest: object) -> Any:
        """A bilinear, clamped texture of (H, W, C)."""
        height, width, channels = image.shape
        context, content = self._scope.context, texel_bytes(image, dtype)
        return self._bilinear(context.texture((width, height), channels, content, alignment=1, dtype=dtype, **rest))

    def _array(self, images: np.ndarray, dtype: str) -> Any:
        """A bilinear, clamped texture array of (K, H, W, C)."""
        layers, height, width, channels = images.shape
        context, content = self._scope.context, texel_bytes(images, dtype)
        return self._bilinear(context.texture_array((width, height, layers), channels, content, alignment=1, dtype=dtype))

    def _bilinear(self, texture: Any) -> Any:
        context = self._scope.context
        texture.filter = (context.LINEAR, context.LINEAR)
        texture.repeat_x = texture.repeat_y = False
        return self._scope.keep(texture)

    def _color(self, rgb: np.ndarray, colors: str, detail: np.ndarray | None = None) -> Any:
        """A texture of (H, W, 3) u8 sRGB, with a linear detail added, whose samples COLOR_OF_SAMPLE turns into linear light."""
        rest = {"internal_format": GL_SRGB8_ALPHA8} if colors == "srgb" else {}
        return self._texture(color_texels(rgb, colors, detail), DTYPES[colors], **rest)

    def _folded(self, values: np.ndarray, precision: Precision, dtype: str | None = None) -> Any:
        """The texture array of (K, H, W, 4) linear colours and opacities; dtype: other than the precision's own."""
        return self._array(folded_texels(values, precision, dtype), dtype or DTYPES[precision])

    def _hidden(self, surfaces: Sequence[np.ndarray]) -> Any:
        """The buffer texture of the first layers (N, H) of some surfaces, one after another."""
        texels = hidden_texels(np.concatenate(surfaces))
        return self._scope.keep(BufferTexture(self._scope.context, texels.astype(np.float32)))

    def _shared(self, params: FieldParams, sources: FieldSources, surfaces: Sequence[np.ndarray]) -> Any:
        """`_hidden` of vertices (N, 3) of all surfaces, then again of the levels that split faces take from them."""
        return self._hidden([first_layer(params, places, levels) for levels in (None, sources.levels) for places in surfaces])


def _send_hair(textures: dict[str, Any], precision: Precision, block: RowBlock) -> int:
    """Write rows of folded hair; the opaque level's also to the texture that it is cut by, where that is another."""
    sent = write_rows(textures["hair_folded"], folded_texels(block.values, precision), block.first, block.level)
    if block.level == 0 and textures["hair_cut"] is not textures["hair_folded"]:
        sent += write_rows(textures["hair_cut"], folded_texels(block.values, precision, "f2"), block.first, 0)
    return sent
