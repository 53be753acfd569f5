"""Areas of framebuffers, in pixels, as GL counts them: (x, y, width, height) from the lower left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from avatar3d.rendering.culling.screen_region import Box
from avatar3d.rendering.opengl.stereo import EYES, Stereo

Viewport = tuple[int, int, int, int]


def fill(framebuffers: Sequence[Any], areas: Sequence[Viewport]) -> bool:
    """Whether areas lie side by side in one framebuffer and fill it: a software driver clears it whole in no time, and each area by
    drawing a rectangle."""
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


def cut(viewport: Viewport, box: Box) -> Viewport:
    """The area of a box in a viewport."""
    left, bottom, right, top = box
    return viewport[0] + left, viewport[1] + bottom, right - left, top - bottom


def eye_size(viewport: Viewport, stereo: Stereo) -> tuple[int, int]:
    """(width, height) of one eye's picture."""
    _, _, width, height = viewport
    return (width // EYES, height) if stereo == "sides" else (width, height)
