"""The Windows binding (XR_KHR_opengl_enable, XrGraphicsBindingOpenGLWin32KHR). Written to the specification, not run."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p, cast
from typing import Any

from avatar3d.errors import WorkError
from avatar3d.xr import openxr
from avatar3d.xr.graphics import Graphics

EXTENSION = "XR_KHR_opengl_enable"


def create() -> Graphics:
    """A context of a hidden window made current, and its binding; raises WorkError without a driver."""
    import moderngl

    try:
        context = moderngl.create_context(standalone=True, require=330)
    except Exception as error:  # glcontext raises plain exceptions
        raise WorkError(f"no WGL context could be made ({error}); install the driver of your graphics card") from error
    gl = ctypes.WinDLL("opengl32")  # type: ignore[attr-defined]
    return Graphics("win32", context, EXTENSION, lambda: _binding(gl))


def _binding(gl: Any) -> Any:
    xr = openxr.load()
    gl.wglGetCurrentDC.restype = c_void_p
    gl.wglGetCurrentContext.restype = c_void_p
    binding = xr.GraphicsBindingOpenGLWin32KHR()
    kinds = dict(field[:2] for field in type(binding)._fields_)
    binding.h_dc = cast(c_void_p(gl.wglGetCurrentDC()), kinds["h_dc"])
    binding.h_glrc = cast(c_void_p(gl.wglGetCurrentContext()), kinds["h_glrc"])
    return binding
