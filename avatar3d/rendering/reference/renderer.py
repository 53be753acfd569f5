"""The reference renderer: the definition of the picture, torch shading over a CPU rasteriser, differentiable in its textures.

`fragments` finds what each pixel sees, `shading` its colour, `composite` the picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numba
import torch

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import Frame, RenderOptions, box_filter
from avatar3d.rendering.lod.hair_levels import merge_levels
from avatar3d.rendering.lod.level import LodChain
from avatar3d.rendering.reference.composite import composite
from avatar3d.rendering.reference.fragments import fragments
from avatar3d.rendering.reference.shading import Residual, Textures, shade_fragments, shading_of
from avatar3d.rendering.scene import Scene, build_scene


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit torch and numba to one thread: on a busy machine their threads wait for each other and a frame takes tenfold."""
    torch_threads, numba_threads = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(torch_threads)
        numba.set_num_threads(numba_threads)


class ReferenceRenderer:
    """Draws with torch on the CPU; holds no state but its description and the coarser forms of what it drew last."""

    name = "reference"

    def __init__(self) -> None:
        self._lods: LodChain | None = None
        self.info = {"vendor": "avatar3d", "renderer": "reference (torch, CPU)", "version": str(torch.__version__)}

    def render(
        self, avatar: Avatar, motion: MotionCode, cameras: Sequence[Camera], options: RenderOptions | None = None
    ) -> list[Frame]:
        """One Frame per camera."""
        options = options or RenderOptions()
        if self._lods is None or self._lods[0] is not avatar:
            self._lods = LodChain(avatar)
        lods = self._lods

        @cache
        def posed(lod: int) -> tuple[Scene, Textures, Residual | None]:
            scene = build_scene(merge_levels(lods[lod], options.hair_levels), motion)
            return scene, *shading_of(scene, options.form)

        return [self._frame(*posed(lods.wanted(options, motion, [camera])), camera, options) for camera in cameras]

    def _frame(
        self, scene: Scene, textures: Textures, residual: Residual | None, camera: Camera, options: RenderOptions
    ) -> Frame:
        factor = options.supersample
        sampled = camera.resized(camera.width * factor, camera.height * factor)
        with torch.no_grad(), _one_thread():
            drawn = fragments(scene, sampled, options.hair)
            shaded = [shade_fragments(layer, textures, residual) for layer in drawn]
            picture = composite(drawn, shaded, sampled.width * sampled.height)
        shape = (sampled.height, sampled.width)
        frame = Frame(picture.rgba.numpy().reshape(*shape, 4), picture.depth.reshape(shape), picture.surface.reshape(shape))
        return box_filter(frame, factor)

    def close(self) -> None:
        """Nothing to free."""
