"""Foveation: full resolution where an eye looks, a coarser picture around it, blended over a seam; the same for both eyes.

Where it stays sharp the picture is the unfoveated one to the bit: the inset is a part of the eye's own picture (see `part`), not
one of another camera. The coarse picture leaves out what the inset covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np

from avatar3d.camera import Camera
from avatar3d.rendering.culling.screen_region import Box, ScreenRegion
from avatar3d.rendering.frame import Precision, RenderOptions
from avatar3d.rendering.opengl.hidden_area import rectangle
from avatar3d.rendering.opengl.raw_gl import GL_FRAMEBUFFER_SRGB
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.resources import config_path
from avatar3d.settings import Within, check, read_settings

MIN_SCALE = 0.2  # of the coarse picture: beyond, a face is no face any more
REACH_PX = 2  # coarse pixels that the filter of the coarse picture may read inside of the inset
MAX_CONFIG_BYTES = 10_000
GL_SRC1_COLOR = 0x88F9  # moderngl has no name for it


class DrawViews(Protocol):
    """Draws everything there is to see, over a cleared background: one picture a camera (see RealtimeRenderer.draw)."""

    def __call__(
        self,
        cameras: Sequence[Camera],
        framebuffers: Sequence[Any],
        viewports: Sequence[tuple[int, int, int, int]],
        hidden: Sequence[np.ndarray | None],
        regions: Sequence[ScreenRegion | None],
        coarse: bool,
        /,
    ) -> None: ...


@dataclass(frozen=True)
class FoveationSettings:
    """The settings of configs/foveation.yaml, where each is explained."""

    inset_deg: Annotated[float, Within(0, 60, "degrees", open=True)]
    feather_deg: Annotated[float, Within(0, 60, "degrees", open=True)]
    periphery_scale: Annotated[float, Within(MIN_SCALE, 1)]
    periphery_hair_levels: int
    periphery_precision: Precision

    def __post_init__(self) -> None:
        _ = self.coarse_options(RenderOptions())  # raises where the renderer has no such drawing
        check(self, "foveation")

    def coarse_options(self, options: RenderOptions) -> RenderOptions:
        """How the periphery is drawn where the rest is drawn with `options`."""
        levels = self.periphery_hair_levels
        return replace(
            options,
            form="baked" if options.form == "live" else options.form,
            hair_levels=levels if options.hair_levels is None else min(levels, options.hair_levels),
            precision=self.periphery_precision,
        )


def read_foveation(path: Path | None = None) -> FoveationSettings:
    """The settings of a YAML file, by default configs/foveation.yaml; raises InputError naming what is missing or wrong."""
    source = config_path("foveation.yaml") if path is None else path
    return read_settings(FoveationSettings, source, "foveation settings", MAX_CONFIG_BYTES)


@dataclass(frozen=True)
class Inset:
    """Pixels of an eye's picture, left, bottom, right, top, counted from its lower left.

    sharp: what keeps full resolution alone. drawn: what is drawn at full resolution, sharp and seam. Both may reach beyond the
    picture.
    """

    sharp: Box
    drawn: Box

    @classmethod
    def of(cls, camera: Camera, settings: FoveationSettings, toward: tuple[float, float] = (0.0, 0.0)) -> Inset:
        """Around the direction whose tangents (x right, y up) in the eye's view are `toward`: the optical axis by default."""
        sharp = _square(camera, toward, np.radians(settings.inset_deg))
        return cls(sharp, _square(camera, toward, np.radians(settings.inset_deg + settings.feather_deg)))

    def covers(self, camera: Camera) -> bool:
        """Whether all of the picture is sharp."""
        return _clipped(self.sharp, camera) == (0, 0, camera.width, camera.height)

    def misses(self, camera: Camera) -> bool:
        """Whether none of the picture is drawn at full resolution."""
        left, bottom, right, top = _clipped(self.drawn, camera)
        return right <= left or top <= bottom

    def within(self, camera: Camera, coarse: Camera) -> Box | None:
        """What the coarse picture need not show, in its own pixels; None where it must show all."""
        ratio = np.array([coarse.width / camera.width, coarse.height / camera.height])
        left, bottom, right, top = _clipped(self.sharp, camera)
        low = np.ceil(np.array([left, bottom]) * ratio).astype(int) + REACH_PX
        high = np.floor(np.array([right, top]) * ratio).astype(int) - REACH_PX
        return None if (high <= low).any() else (int(low[0]), int(low[1]), int(high[0]), int(high[1]))


def _square(camera: Camera, toward: tuple[float, float], half_rad: float) -> Box:
    """(left, bottom, right, top) pixels of so many radians to each side of a direction."""
    limit = np.pi / 2 - 0.01
    angles = np.arctan(toward)
    low, high = (np.tan(np.clip(angles + side * half_rad, -limit, limit)) for side in (-1, 1))
    fx, fy = camera.intrinsics[0, 0], camera.intrinsics[1, 1]
    cx, cy = camera.intrinsics[0, 2], camera.height - camera.intrinsics[1, 2]
    left, right = np.rint([cx + low[0] * fx, cx + high[0] * fx])
    bottom, top = np.rint([cy + low[1] * fy, cy + high[1] * fy])
    return int(left), int(bottom), int(right), int(top)


def _clipped(box: Box, camera: Camera) -> Box:
    left, bottom, right, top = box
    return max(left, 0), max(bottom, 0), min(right, camera.width), min(top, camera.height)


def coarse_camera(camera: Camera, scale: float) -> Camera:
    """The same view on a coarser grid of pixels."""
    return camera.resized(max(1, round(camera.width * scale)), max(1, round(camera.height * scale)))


class Foveation:
    """Owns the coarse pictures and the program that joins them with the insets; its context must be current in every call.

    keeps_depth: the framebuffers' depth is to be right everywhere, not only in the insets.
    """

    def __init__(self, context: Any, settings: FoveationSettings, keeps_depth: bool = False) -> None:
        self.settings = settings
        self._context = context
        self._depth = keeps_depth
        self._targets: dict[int, tuple[Any, Any, Any]] = {}  # eye: framebuffer, colour, depth
        vertex = assemble("foveation_vertex.glsl", {})
        self._buffer = context.buffer(reserve=2 * 24 * 2 * 4, dynamic=True)
        self._arrays = []
        for seam in (0, 1):
            fragment = assemble("foveation_fragment.glsl", {"SEAM": seam, "DEPTH": int(keeps_depth)})
            program = context.program(vertex_shader=vertex, fragment_shader=fragment)
            program["coarse"].value = 0
            if "coarse_depth" in program:
                program["coarse_depth"].value = 1
            self._arrays.append((program, context.vertex_array(program, [(self._buffer, "2f", "corner")])))

    def draw(
        self,
        draw_views: DrawViews,
        cameras: Sequence[Camera],
        framebuffers: Sequence[Any],
        viewports: Sequence[tuple[int, int, int, int]],
        hidden: Sequence[np.ndarray | None] | None = None,
        toward: Sequence[tuple[float, float]] | None = None,
    ) -> None:
        """Draw each camera's picture into its viewport. `draw_views` draws what there is to see, over a cleared background.

        toward: tangents (x right, y up) of where each eye looks, in its view; its optical axis by default.
        """
        own = list(hidden or [None] * len(cameras))
        insets = [
            Inset.of(camera, self.settings, place)
            for camera, place in zip(cameras, toward or [(0.0, 0.0)] * len(cameras), strict=True)
        ]
        coarse = [coarse_camera(camera, self.settings.periphery_scale) for camera in cameras]
        around = [eye for eye, camera in enumerate(cameras) if not insets[eye].covers(camera)]
        if around:
            covered = [insets[eye].within(cameras[eye], coarse[eye]) for eye in around]
            draw_views(
                [coarse[eye] for eye in around],
                [self._target(eye, coarse[eye]) for eye in around],
                [(0, 0, coarse[eye].width, coarse[eye].height) for eye in around],
                [_hidden(own[eye], box, coarse[eye]) for eye, box in zip(around, covered, strict=True)],
                [None if box is None else ScreenRegion(outside=box) for box in covered],
                True,
            )
        within = [eye for eye, camera in enumerate(cameras) if not insets[eye].misses(camera)]
        if within:
            draw_views(
                [cameras[eye] for eye in within],
                [framebuffers[eye] for eye in within],
                [viewports[eye] for eye in within],
                [own[eye] for eye in within],
                [ScreenRegion(inside=_clipped(insets[eye].drawn, cameras[eye])) if eye in around else None for eye in within],
                False,
            )
        for eye in around:
            self._join(eye, cameras[eye], coarse[eye], insets[eye], framebuffers[eye], viewports[eye])

    def _target(self, eye: int, camera: Camera) -> Any:
        """A framebuffer of at least a camera's size, kept, and made anew where it is too small."""
        kept = self._targets.get(eye)
        if kept is None or kept[1].width < camera.width or kept[1].height < camera.height:
            size = camera.width, camera.height
            if kept is not None:
                size = max(size[0], kept[1].width), max(size[1], kept[1].height)
                self._free(eye)
            color, depth = self._context.texture(size, 4, dtype="f2"), self._context.depth_texture(size)
            color.repeat_x = color.repeat_y = False
            depth.filter = self._context.NEAREST, self._context.NEAREST
            depth.compare_func = ""
            self._targets[eye] = self._context.framebuffer([color], depth), color, depth
        return self._targets[eye][0]

    def _join(
        self, eye: int, camera: Camera, coarse: Camera, inset: Inset, framebuffer: Any, viewport: tuple[int, int, int, int]
    ) -> None:
        """Lay an eye's coarse picture around its inset."""
        context = self._context
        _, color, depth = self._targets[eye]
        size = camera.width, camera.height
        stored = np.array([color.width, color.height])
        sharp, drawn = _clipped(inset.sharp, camera), _clipped(inset.drawn, camera)
        outside = _around((0, 0, *size), (0, 0, 0, 0) if inset.misses(camera) else drawn)
        seam = np.zeros((0, 2), np.float32) if inset.misses(camera) else _around(drawn, sharp)
        corners = np.concatenate([outside, seam])
        self._buffer.orphan()
        self._buffer.write(np.ascontiguousarray(corners, np.float32))
        framebuffer.use()
        framebuffer.viewport = viewport
        color.use(0)
        depth.use(1)
        context.enable_direct(GL_FRAMEBUFFER_SRGB)
        values = {
            "size": size,
            "scale": tuple(np.array([coarse.width, coarse.height]) / (stored * size)),
            "limit": tuple((np.array([coarse.width, coarse.height]) - 0.5) / stored),
            "inset": tuple(map(float, inset.sharp)),
            "seam": (max(inset.sharp[0] - inset.drawn[0], 1), max(inset.sharp[1] - inset.drawn[1], 1)),
        }
        context.depth_func = "1"  # always, to write what is asked for
        context.enable_only(context.DEPTH_TEST if self._depth else context.NOTHING)
        for (program, array), first, count in (
            (self._arrays[0], 0, len(outside)),
            (self._arrays[1], len(outside), len(seam)),
        ):
            for name, value in values.items():
                if name in program:
                    program[name].value = value
            if count:
                array.render(vertices=count, first=first)
            context.blend_func = context.ONE, GL_SRC1_COLOR
            context.enable_only(context.BLEND)
        context.enable_only(context.NOTHING)
        context.disable_direct(GL_FRAMEBUFFER_SRGB)

    def _free(self, eye: int) -> None:
        for resource in self._targets.pop(eye):
            resource.release()

    def release(self) -> None:
        """Free the GL objects."""
        for eye in list(self._targets):
            self._free(eye)
        for program, array in self._arrays:
            array.release()
            program.release()
        self._buffer.release()


def _around(outer: Box, inner: Box) -> np.ndarray:
    """(N, 2) f32 corners of triangles that fill a box but for another inside of it (or empty): left, bottom, right, top each."""
    left, bottom, right, top = outer
    x0, y0, x1, y1 = inner
    if x1 <= x0 or y1 <= y0:
        return rectangle(left, right, bottom, top)
    parts = [(left, right, bottom, y0), (left, right, y1, top), (left, x0, y0, y1), (x1, right, y0, y1)]
    filled = [rectangle(*part) for part in parts if part[1] > part[0] and part[3] > part[2]]
    return np.concatenate(filled) if filled else np.zeros((0, 2), np.float32)


def _hidden(own: np.ndarray | None, covered: Box | None, coarse: Camera) -> np.ndarray | None:
    """What is hidden of an eye anyway, and what its inset covers."""
    if covered is None:
        return own
    left, bottom, right, top = covered
    across, up = (
        2 * np.array(edges) / size - 1 for edges, size in (((left, right), coarse.width), ((bottom, top), coarse.height))
    )
    box = rectangle(*across.tolist(), *up.tolist())
    return box if own is None else np.concatenate([own, box])
