"""A small panel of text that stands in the scene, alike for both eyes: its picture, its place, and what draws it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from avatar3d.camera import Camera
from avatar3d.rendering.font import drawable, font
from avatar3d.rendering.opengl.raw_gl import GL_FRAMEBUFFER_SRGB
from avatar3d.rendering.opengl.shaders import assemble

WIDTH_PX, HEIGHT_PX = 512, 160
LINES = 4
FONT_PX = 30
MARGIN_PX = 12
LINE_PX = (HEIGHT_PX - 2 * MARGIN_PX) / LINES
WIDTH_M = 0.24  # letters of 1.2 cm: some 25 headset pixels at 0.8 m
HEIGHT_M = WIDTH_M * HEIGHT_PX / WIDTH_PX
BELOW_M = 0.145  # its upper edge under the eyes: on the chest, where it hides no face
BEFORE_M = 0.15  # toward the viewer from the neck, clear of chest and chin
_BACK, _INK = (0.02, 0.02, 0.025), (0.9, 0.9, 0.85)  # linear light
_BACK_ALPHA = 0.6


def _share(lines: int) -> float:
    """Of the whole panel's height, that so many lines take."""
    return (2 * MARGIN_PX + min(lines, LINES) * LINE_PX) / HEIGHT_PX


def wrapped(text: str, lines: int) -> list[str]:
    """A sentence in at most so many lines of the panel's width; what is over is left out."""
    rows: list[str] = []
    for word in text.split():
        longer = f"{rows[-1]} {word}" if rows else word
        if rows and font(FONT_PX).getlength(drawable(longer)) <= WIDTH_PX - 2 * MARGIN_PX:
            rows[-1] = longer
        else:
            rows.append(word)
    return rows[:lines]


def text_picture(lines: Sequence[str]) -> np.ndarray:
    """(HEIGHT_PX, WIDTH_PX) u8, how far each pixel is covered by letters; what is too long is cut off."""
    image = Image.new("L", (WIDTH_PX, HEIGHT_PX), 0)
    draw = ImageDraw.Draw(image)
    for index, line in enumerate(lines[:LINES]):
        place = MARGIN_PX, MARGIN_PX + (index + 0.5) * LINE_PX
        draw.text(place, drawable(line), fill=255, font=font(FONT_PX), anchor="lm")
    return np.asarray(image)


def panel_place(viewer_m: np.ndarray, lines: int = LINES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(lower left corner, whole width, whole height) of a panel as vectors (3,), metres, upright and facing the viewer.

    viewer_m: of the point between the eyes, in the scene. The panel hangs from one height, however many lines it has.
    """
    toward = np.array(viewer_m, np.float64)
    toward[1] = 0.0
    length = float(np.linalg.norm(toward))
    toward = toward / length if length > 1e-3 else np.array([0.0, 0.0, 1.0])
    right = np.cross([0.0, 1.0, 0.0], toward) * WIDTH_M
    up = np.array([0.0, HEIGHT_M * _share(lines), 0.0])
    top = BEFORE_M * toward - np.array([0.0, BELOW_M, 0.0])
    return top - right / 2 - up, right, up


class Panel:
    """Owns its texture and program; use it in the thread of its context."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._program = context.program(
            vertex_shader=assemble("panel_vertex.glsl", {}), fragment_shader=assemble("panel_fragment.glsl", {})
        )
        self._strip = context.vertex_array(self._program, [])
        self._texture = context.texture((WIDTH_PX, HEIGHT_PX), 1, dtype="f1", alignment=1)
        self._texture.filter = context.LINEAR_MIPMAP_LINEAR, context.LINEAR
        self._lines: list[str] = []
        self._program["back"].value, self._program["ink"].value = _BACK, _INK
        self._program["back_alpha"].value = _BACK_ALPHA

    def write(self, lines: Sequence[str]) -> None:
        """Show these lines, as far as there is room."""
        if list(lines) != self._lines:
            self._lines = list(lines)
            self._texture.write(text_picture(self._lines).tobytes())
            self._texture.build_mipmaps()

    def draw(self, framebuffer: Any, area: tuple[int, int, int, int], camera: Camera, viewer_m: np.ndarray) -> None:
        """Blend the panel over a picture of `camera` in `area`, for the point between the viewer's eyes; nothing hides it."""
        context, program = self._context, self._program
        framebuffer.use()
        framebuffer.viewport = area
        context.enable_only(context.BLEND)
        context.blend_func = context.ONE, context.ONE_MINUS_SRC_ALPHA
        context.enable_direct(GL_FRAMEBUFFER_SRGB)
        matrix = camera.projection_matrix() @ camera.view_matrix()
        program["view_projection"].write(np.ascontiguousarray(matrix.T, np.float32).tobytes())
        program["share"].value = _share(len(self._lines))
        for name, value in zip(("corner", "right", "up"), panel_place(viewer_m, len(self._lines)), strict=True):
            program[name].value = tuple(map(float, value))
        self._texture.use(0)
        self._strip.render(context.TRIANGLE_STRIP, vertices=4)
        context.disable_direct(GL_FRAMEBUFFER_SRGB)
        context.disable(context.BLEND)

    def release(self) -> None:
        """Free the GL objects."""
        for resource in (self._strip, self._program, self._texture):
            resource.release()
