"""Text over a window's picture: a few lines in a dark box at the lower left, in pixels; what the heads' panel is not for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from avatar3d.rendering.font import drawable, font
from avatar3d.rendering.opengl.shaders import assemble

FONT_PX, LINE_PX, MARGIN_PX = 17, 24, 14


def caption_picture(lines: Sequence[str]) -> np.ndarray:
    """(H, W) u8, how far each pixel of a box that holds these lines is covered by letters."""
    texts = [drawable(line) for line in lines]
    face = font(FONT_PX)
    width = round(max((face.getlength(text) for text in texts), default=0.0)) + 2 * MARGIN_PX
    image = Image.new("L", (width, LINE_PX * len(texts) + 2 * MARGIN_PX), 0)
    draw = ImageDraw.Draw(image)
    for index, text in enumerate(texts):
        draw.text((MARGIN_PX, MARGIN_PX + (index + 0.5) * LINE_PX), text, fill=255, font=face, anchor="lm")
    return np.asarray(image)


class Caption:
    """Owns its texture and program; use it in the thread of its context."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._program = context.program(
            vertex_shader=assemble("caption_vertex.glsl", {}), fragment_shader=assemble("caption_fragment.glsl", {})
        )
        self._strip = context.vertex_array(self._program, [])
        self._texture: Any = None
        self._lines: list[str] = []

    def draw(self, lines: Sequence[str], area: tuple[int, int, int, int]) -> None:
        """Blend the lines over the bound framebuffer in a viewport (x, y, width, height); wider lines are cut."""
        if not lines:
            return
        if list(lines) != self._lines:
            self._lines = list(lines)
            picture = caption_picture(lines)
            self._free()
            self._texture = self._context.texture(picture.shape[::-1], 1, picture.tobytes(), alignment=1)
            self._texture.filter = self._context.NEAREST, self._context.NEAREST
        x, y, width, height = area
        box_width, box_height = self._texture.size
        self._context.viewport = x, y, width, height
        self._program["corner"].value = -1.0, -1.0
        self._program["size"].value = 2 * box_width / width, 2 * box_height / height
        self._context.enable_only(self._context.BLEND)
        self._context.blend_func = self._context.SRC_ALPHA, self._context.ONE_MINUS_SRC_ALPHA
        self._texture.use(0)
        before = self._context.scissor
        self._context.scissor = area
        self._strip.render(self._context.TRIANGLE_STRIP, vertices=4)
        self._context.scissor = before
        self._context.disable(self._context.BLEND)

    def _free(self) -> None:
        if self._texture is not None:
            self._texture.release()
            self._texture = None

    def close(self) -> None:
        """Free the GL objects."""
        self._free()
        for resource in (self._strip, self._program):
            resource.release()
