"""OpenGL calls and values that moderngl has no name for; calls go through the loader with which moderngl found its own functions."""

from __future__ import annotations

import ctypes
from typing import Any

GL_FRAMEBUFFER_SRGB = 0x8DB9  # encodes on writing to sRGB targets only
GL_SRGB8_ALPHA8 = 0x8C43


def call(context: Any, function: str, *arguments: int | float | Any) -> int:
    """Call a GL function of the current context: ints go as GLint or GLenum, floats as GLfloat, the rest (ctypes.byref) as pointers.

    Returns what it returns, for functions that return a number.
    """
    kinds = {int: ctypes.c_uint, float: ctypes.c_float}
    types: list[Any] = [kinds.get(type(value), ctypes.c_void_p) for value in arguments]
    result = ctypes.CFUNCTYPE(ctypes.c_uint, *types)(context.mglo._context.load(function))(*arguments)
    return int(result)
