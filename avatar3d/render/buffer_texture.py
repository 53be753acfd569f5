"""Buffer textures (OpenGL 3.1), which moderngl does not offer: one array that shaders read by index.

A software driver reads them in two thirds of the time that the same array takes in a 2D texture.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from avatar3d.errors import InputError
from avatar3d.render.raw_gl import call

GL_TEXTURE0 = 0x84C0
GL_TEXTURE_BUFFER = 0x8C2A
FORMATS = {1: 0x822E, 2: 0x8230, 4: 0x8814}  # R32F, RG32F, RGBA32F


class BufferTexture:
    """(N, C) f32 numbers, C in 1, 2 or 4, for a samplerBuffer; the context must be current in every call."""

    def __init__(self, context: Any, values: np.ndarray) -> None:
        limit = context.info["GL_MAX_TEXTURE_BUFFER_SIZE"]
        if len(values) > limit:
            raise InputError(f"the field has {len(values)} table entries, this driver reads up to {limit}; use the baked form")
        self._context = context
        self._name = ctypes.c_uint()
        self._buffer = context.buffer(np.ascontiguousarray(values, np.float32).tobytes())
        self._call("glGenTextures", 1, ctypes.byref(self._name))
        self.use(0)
        self._call("glTexBuffer", GL_TEXTURE_BUFFER, FORMATS[values.shape[1]], self._buffer.glo)

    def _call(self, function: str, *arguments: Any) -> None:
        call(self._context, function, *arguments)

    def use(self, unit: int) -> None:
        """Bind to a texture unit."""
        self._call("glActiveTexture", GL_TEXTURE0 + unit)
        self._call("glBindTexture", GL_TEXTURE_BUFFER, self._name.value)

    def assign(self, program: Any, sampler: str, unit: int) -> None:
        """Let a samplerBuffer of a moderngl program read that unit; moderngl takes its uniform for a float."""
        self._call("glUseProgram", program.glo)
        self._call("glUniform1i", program[sampler].location, unit)

    def release(self) -> None:
        """Free the texture and its buffer."""
        self._call("glDeleteTextures", 1, ctypes.byref(self._name))
        self._buffer.release()
