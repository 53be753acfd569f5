"""Shaded fragments blended into a picture, in drawing order.

Head (front-most fragment), faded rim of the bust (front-most, blended over), hair level 0 (opaque where its opacity is at least one
half), hair levels 1 and up (blended over from inside out, hidden by what lies nearer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from avatar3d.field.loops import blend_over
from avatar3d.rendering.frame import SURFACE_NONE
from avatar3d.rendering.reference.fragments import Fragments
from avatar3d.rendering.reference.raster import draw_ranks, front_most
from avatar3d.rendering.scene import HAIR_CUT


@dataclass(frozen=True)
class Composite:
    """rgba: (H · W, 4) torch, linear, premultiplied. depth: (H · W,) f32, inf where empty. surface: (H · W,) i8."""

    rgba: torch.Tensor
    depth: np.ndarray
    surface: np.ndarray


def composite(drawn: Sequence[Fragments], shaded: Sequence[tuple[torch.Tensor, torch.Tensor]], pixel_count: int) -> Composite:
    """Blend fragments and their (colour, alpha) in drawing order; differentiable except in what is visible."""
    rgba = torch.zeros(pixel_count, 4)
    depth = np.full(pixel_count, np.inf, np.float32)
    surface = np.full(pixel_count, SURFACE_NONE, np.int8)

    quick = not torch.is_grad_enabled()

    def over(chosen: np.ndarray, layer: Fragments, color: torch.Tensor, alpha: torch.Tensor) -> None:
        nonlocal rgba
        if quick:
            blend_over(rgba.numpy(), layer.pixel, chosen, color.numpy(), alpha.numpy())
            return
        index = torch.from_numpy(chosen)
        pixel = torch.from_numpy(layer.pixel[chosen])
        opacity = alpha[index][:, None]
        source = torch.cat([color[index] * opacity, opacity], dim=1)
        rgba = rgba.index_copy(0, pixel, source + (1 - opacity) * rgba[pixel])

    for layer, (color, alpha) in zip(drawn, shaded, strict=True):
        visible = layer.depth < depth[layer.pixel]
        if layer.level >= 1:
            chosen = np.flatnonzero(visible)
            # One by one in drawing order, or, for gradients, all that are first at their pixel, then all second ones and so on.
            ranks = np.zeros(len(chosen), np.int64) if quick else draw_ranks(layer.pixel[chosen])
            for rank in range(int(ranks.max(initial=-1)) + 1):
                over(chosen[ranks == rank], layer, color, alpha)
            continue
        if layer.level == 0:
            visible &= alpha.detach().numpy() >= HAIR_CUT
            alpha = torch.ones_like(alpha)
        candidates = np.flatnonzero(visible)
        chosen = candidates[front_most(layer.pixel[candidates], layer.depth[candidates])]
        over(chosen, layer, color, alpha)
        depth[layer.pixel[chosen]] = layer.depth[chosen]
        surface[layer.pixel[chosen]] = layer.surface
    return Composite(rgba, depth, surface)
