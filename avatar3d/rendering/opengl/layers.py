"""Array images with a layer an eye, and whether a driver lets a vertex shader choose the layer."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from avatar3d.errors import WorkError
from avatar3d.rendering.opengl.raw_gl import ALL_LAYERS, call, delete_framebuffers, make_framebuffer
from avatar3d.rendering.opengl.shaders import assemble
from avatar3d.rendering.opengl.stereo import EYES, STEREO, Stereo

LAYER_EXTENSIONS = ("GL_ARB_shader_viewport_layer_array", "GL_AMD_vertex_shader_layer")
GL_TEXTURE_2D_ARRAY = 0x8C1A
GL_TEXTURE_MIN_FILTER, GL_TEXTURE_MAG_FILTER, GL_NEAREST = 0x2801, 0x2800, 0x2600
GL_RGBA, GL_DEPTH_COMPONENT, GL_FLOAT = 0x1908, 0x1902, 0x1406
GL_RGBA8, GL_DEPTH_COMPONENT24 = 0x8058, 0x81A6


def offered(context: Any) -> tuple[Stereo, ...]:
    """The ways that the context's driver has; "layers" is believed when its shader compiles."""
    if not set(LAYER_EXTENSIONS) & set(context.extensions):
        return ("passes", "sides")
    source = assemble("layer_probe_vertex.glsl", {"STEREO": "STEREO_LAYERS", "FIN": 0})
    try:
        program = context.program(vertex_shader=source, fragment_shader=assemble("hidden_fragment.glsl", {}))
    except Exception:  # moderngl raises its own kind for any driver's complaint
        return ("passes", "sides")
    program.release()
    return STEREO


class _ArrayImage:
    """A GL texture of a layer an eye, which moderngl has for colours only; glo: its name."""

    def __init__(self, context: Any, width: int, height: int, internal_format: int, format_: int) -> None:
        self._context = context
        name = ctypes.c_uint()
        call(context, "glGenTextures", 1, ctypes.byref(name))
        self.glo = name.value
        call(context, "glBindTexture", GL_TEXTURE_2D_ARRAY, self.glo)
        size = (width, height, EYES)
        call(context, "glTexImage3D", GL_TEXTURE_2D_ARRAY, 0, internal_format, *size, 0, format_, GL_FLOAT, None)
        for filter_ in (GL_TEXTURE_MIN_FILTER, GL_TEXTURE_MAG_FILTER):
            call(context, "glTexParameteri", GL_TEXTURE_2D_ARRAY, filter_, GL_NEAREST)

    def release(self) -> None:
        """Free it."""
        call(self._context, "glDeleteTextures", 1, ctypes.byref(ctypes.c_uint(self.glo)))


class DepthArray(_ArrayImage):
    """A depth image with a layer an eye."""

    def __init__(self, context: Any, width: int, height: int) -> None:
        super().__init__(context, width, height, GL_DEPTH_COMPONENT24, GL_DEPTH_COMPONENT)


class LayeredTarget:
    """Colour and depth images of two layers. `framebuffer` writes both, by gl_Layer; `eyes` hold one layer each.

    internal_format: sized GL format of the colour. The context must be current in every call. Raises WorkError where the driver
    cannot draw into them.
    """

    def __init__(self, context: Any, width: int, height: int, internal_format: int = GL_RGBA8) -> None:
        self._context = context
        self.size = width, height
        self._depth, self._color = (
            DepthArray(context, width, height),
            _ArrayImage(context, width, height, internal_format, GL_RGBA),
        )
        self._names: list[int] = []
        try:
            self.framebuffer, *eyes = [self._framebuffer(layer) for layer in (ALL_LAYERS, *range(EYES))]
        except WorkError:
            self.release()
            raise
        self.eyes: Sequence[Any] = eyes
        _ = context.error  # moderngl asks for the size of a plain texture, which an array is not

    def _framebuffer(self, layer: int) -> Any:
        name, made = make_framebuffer(self._context, self._color.glo, self._depth.glo, layer)
        self._names.append(name)
        return made

    def release(self) -> None:
        """Free the GL objects."""
        delete_framebuffers(self._context, self._names)
        for image in (self._depth, self._color):
            image.release()
