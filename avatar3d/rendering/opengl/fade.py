"""A head that fades: drawn on a sheet of its own and laid over the picture by a share, alike in both eyes, whatever drew it."""

from __future__ import annotations

from typing import Any

from avatar3d.rendering.opengl.raw_gl import GL_FRAMEBUFFER_SRGB
from avatar3d.rendering.opengl.shaders import assemble


class Fade:
    """Owns its program and, once something faded, the sheet; use it in the thread of its context."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._program = context.program(
            vertex_shader=assemble("whole_vertex.glsl", {}), fragment_shader=assemble("fade_fragment.glsl", {})
        )
        self._triangle = context.vertex_array(self._program, [])
        self._sheet: tuple[Any, Any, Any] | None = None  # framebuffer, colour, depth

    def sheet(self, width: int, height: int) -> Any:
        """A framebuffer of linear half floats with depth, at least width × height; what was on it is gone."""
        if self._sheet is None or any(have < want for have, want in zip(self._sheet[0].size, (width, height), strict=True)):
            size = (width, height)
            if self._sheet is not None:
                size = tuple(max(have, want) for have, want in zip(self._sheet[0].size, size, strict=True))
                self._free_sheet()
            color, depth = self._context.texture(size, 4, dtype="f2"), self._context.depth_renderbuffer(size)
            self._sheet = self._context.framebuffer([color], depth), color, depth
        return self._sheet[0]

    def clear(self, framebuffer: Any, area: tuple[int, int, int, int], background: tuple[float, ...]) -> None:
        """Fill `area` with the background, linear and premultiplied, at the farthest depth."""
        framebuffer.use()
        framebuffer.depth_mask = True
        self._context.enable_direct(GL_FRAMEBUFFER_SRGB)
        framebuffer.clear(*background, depth=1.0, viewport=area)
        self._context.disable_direct(GL_FRAMEBUFFER_SRGB)

    def blend(self, framebuffer: Any, area: tuple[int, int, int, int], share: float) -> None:
        """picture = share · sheet + (1 − share · alpha of the sheet) · picture in `area`, from the sheet's lower left."""
        assert self._sheet is not None
        context = self._context
        framebuffer.use()
        framebuffer.viewport = area
        context.enable_only(context.BLEND)
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        context.enable_direct(GL_FRAMEBUFFER_SRGB)
        self._sheet[1].use(0)
        self._program["sheet"].value = 0
        self._program["corner"].value = area[:2]
        self._program["share"].value = share
        self._triangle.render(vertices=3)
        context.disable_direct(GL_FRAMEBUFFER_SRGB)
        context.disable(context.BLEND)

    def _free_sheet(self) -> None:
        for resource in self._sheet or ():
            resource.release()
        self._sheet = None

    def release(self) -> None:
        """Free the GL objects."""
        self._free_sheet()
        self._triangle.release()
        self._program.release()
