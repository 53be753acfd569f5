"""A way to draw an avatar, as far as programs and textures differ by it: what options, strategy and stereo come to."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from avatar3d.avatar import Avatar
from avatar3d.choices import Form
from avatar3d.rendering.frame import Precision, RenderOptions
from avatar3d.rendering.lod.fold import available_form
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.stereo import EYES, Stereo


class Variant(NamedTuple):
    """A form of the field, a number of hair levels and a texture precision, drawn with a strategy."""

    form: Form
    hair_levels: int | None
    precision: Precision
    antialias: bool
    strategy: DrawStrategy
    stereo: Stereo = "passes"

    @classmethod
    def of(cls, avatar: Avatar, options: RenderOptions, strategy: DrawStrategy, stereo: Stereo = "passes") -> Variant:
        """What the options ask for, as far as the avatar has it."""
        levels = options.hair_levels
        if avatar.hair is None or levels is None or levels >= len(avatar.hair.levels):
            levels = None
        form = available_form(avatar, options.form)
        own = replace(strategy.of_form(form), stereo="passes")  # what counts is how this drawing is asked for
        if stereo != "passes":
            own = replace(own, shading="forward")
        return cls(form, levels, options.precision, options.antialias, own, stereo)

    @property
    def colors(self) -> str:
        """How colour textures hold their numbers, a key of texels.COLOR_OF_SAMPLE."""
        return "byte" if self.precision == "byte" else self.strategy.colors

    @property
    def instances(self) -> int:
        """Of each draw call: one an eye that it is for."""
        return 1 if self.stereo == "passes" else EYES

    @property
    def on_gpu(self) -> bool:
        """Whether the GPU morphs: all faces are drawn, and the outline is found there."""
        return self.strategy.morph == "gpu"
