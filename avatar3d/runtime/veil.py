"""A veil over a finished picture: fades all of it toward the background, alike in both eyes, whatever drew it."""

from __future__ import annotations

from typing import Any

from avatar3d.render.realtime import GL_FRAMEBUFFER_SRGB

_VERTEX = """#version 330
void main() {
    vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0;  // one triangle over the whole picture
    gl_Position = vec4(corner, 0.0, 1.0);
}
"""
_FRAGMENT = """#version 330
uniform vec4 color;
out vec4 written;
void main() { written = color; }
"""


class Veil:
    """Owns its program; use it in the thread of its context."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._program = context.program(vertex_shader=_VERTEX, fragment_shader=_FRAGMENT)
        self._triangle = context.vertex_array(self._program, [])

    def draw(self, framebuffer: Any, area: tuple[int, int, int, int], background: tuple[float, ...], presence: float) -> None:
        """picture = presence · picture + (1 − presence) · background, linear and premultiplied, in `area`."""
        context = self._context
        framebuffer.use()
        framebuffer.viewport = area
        context.enable_only(context.BLEND)
        context.enable_direct(GL_FRAMEBUFFER_SRGB)
        # Two passes: first the picture is dimmed, then the background's share is added.
        context.blend_func = context.ZERO, context.SRC_ALPHA
        self._program["color"].value = (0.0, 0.0, 0.0, presence)
        self._triangle.render(vertices=3)
        context.blend_func = context.ONE, context.ONE
        self._program["color"].value = tuple(value * (1 - presence) for value in background)
        self._triangle.render(vertices=3)
        context.disable_direct(GL_FRAMEBUFFER_SRGB)
        context.disable(context.BLEND)

    def close(self) -> None:
        """Free the GL objects."""
        self._triangle.release()
        self._program.release()
