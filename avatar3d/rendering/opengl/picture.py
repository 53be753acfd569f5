"""What one call of `RealtimeRenderer.draw` draws where: its lists, checked against each other and told by picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.rendering.culling.screen_region import ScreenRegion
from avatar3d.rendering.opengl.stereo import EYES, Stereo
from avatar3d.rendering.opengl.viewports import Viewport, cut


class Picture(NamedTuple):
    """One pass into a viewport of a framebuffer: cameras of one eye, or of both; hidden: of each; region: what is wanted of it."""

    cameras: list[Camera]
    framebuffer: Any
    viewport: Viewport
    hidden: list[np.ndarray | None]
    region: ScreenRegion | None

    @property
    def wanted(self) -> Viewport:
        """The part of the viewport that is drawn and cleared."""
        inside = None if self.region is None else self.region.inside
        return self.viewport if inside is None else cut(self.viewport, inside)


def pictures_of(
    cameras: Sequence[Camera],
    framebuffers: Sequence[Any],
    viewports: Sequence[Viewport] | None,
    stereo: Stereo,
    hidden: Sequence[np.ndarray | None] | None,
    regions: Sequence[ScreenRegion | None] | None,
) -> list[Picture]:
    """One picture a camera, or one for both eyes; see RealtimeRenderer.draw. Raises InputError on lists of unequal length."""
    areas = viewports or [(0, 0, *framebuffer.size) for framebuffer in framebuffers]
    groups = [[camera] for camera in cameras] if stereo == "passes" else [list(cameras)]
    if not len(groups) == len(framebuffers) == len(areas):
        counts = f"{len(cameras)} cameras, {len(framebuffers)} framebuffers and {len(areas)} viewports"
        raise InputError(f"{counts} were given; expected {'as many of each' if stereo == 'passes' else 'one for both eyes'}")
    if stereo != "passes" and len(cameras) != EYES:
        raise InputError(f"{len(cameras)} cameras were given; drawing {stereo} takes those of two eyes")
    unseen: list[np.ndarray | None] = [None] * len(cameras) if hidden is None else list(hidden)
    wanted = [None] * len(cameras) if regions is None else list(regions)
    if len(unseen) != len(cameras):
        raise InputError(f"{len(unseen)} hidden areas were given for {len(cameras)} cameras; expected one a camera, or None")
    if len(wanted) != len(cameras) or (stereo != "passes" and regions is not None):
        raise InputError(f"{len(wanted)} regions were given for {len(cameras)} cameras drawn in {stereo}; expected one a pass")
    hidden_of: list[list[np.ndarray | None]] = [[each] for each in unseen] if stereo == "passes" else [unseen]
    return [Picture(*each) for each in zip(groups, framebuffers, areas, hidden_of, wanted[: len(groups)], strict=True)]
