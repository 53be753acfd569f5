"""OpenGL calls and values that moderngl has no name for; calls go through the loader with which moderngl found its own functions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from avatar3d.errors import WorkError

GL_TEXTURE_2D, GL_RENDERBUFFER, GL_FRAMEBUFFER = 0x0DE1, 0x8D41, 0x8D40
GL_COLOR_ATTACHMENT0, GL_DEPTH_ATTACHMENT, GL_FRAMEBUFFER_COMPLETE = 0x8CE0, 0x8D00, 0x8CD5
ALL_LAYERS = -1
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


def make_framebuffer(context: Any, color: int, depth: int, layer: int | None, depth_is_texture: bool = True) -> tuple[int, Any]:
    """(GL name, moderngl framebuffer) over the GL names of a colour and a depth image (OpenGL 3.2 core, chapter 4.4).

    layer: of arrays, ALL_LAYERS for a layered framebuffer, None for plain images. depth is a renderbuffer where it is no texture.
    Raises WorkError where the driver cannot draw into them. The name is the caller's, for `delete_framebuffers`.
    """
    name = ctypes.c_uint()
    call(context, "glGenFramebuffers", 1, ctypes.byref(name))
    call(context, "glBindFramebuffer", GL_FRAMEBUFFER, name.value)
    for attachment, image in ((GL_DEPTH_ATTACHMENT, depth), (GL_COLOR_ATTACHMENT0, color)):
        if attachment == GL_DEPTH_ATTACHMENT and not depth_is_texture:
            call(context, "glFramebufferRenderbuffer", GL_FRAMEBUFFER, attachment, GL_RENDERBUFFER, image)
        elif layer == ALL_LAYERS:
            call(context, "glFramebufferTexture", GL_FRAMEBUFFER, attachment, image, 0)
        elif layer is None:
            call(context, "glFramebufferTexture2D", GL_FRAMEBUFFER, attachment, GL_TEXTURE_2D, image, 0)
        else:
            call(context, "glFramebufferTextureLayer", GL_FRAMEBUFFER, attachment, image, 0, layer)
    status = call(context, "glCheckFramebufferStatus", GL_FRAMEBUFFER)
    if status != GL_FRAMEBUFFER_COMPLETE:
        delete_framebuffers(context, [name.value])
        raise WorkError(f"the graphics driver cannot draw into these images (status {status:#x}); update it")
    return name.value, context.detect_framebuffer(name.value)


def delete_framebuffers(context: Any, names: Sequence[int]) -> None:
    """Delete framebuffers by GL name."""
    if names:
        call(context, "glDeleteFramebuffers", len(names), ctypes.byref((ctypes.c_uint * len(names))(*names)))
