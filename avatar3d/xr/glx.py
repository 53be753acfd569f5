"""The X11 binding (XR_KHR_opengl_enable, XrGraphicsBindingOpenGLXlibKHR), for runtimes that take no EGL context."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_void_p, cast
from typing import Any

from avatar3d.errors import WorkError
from avatar3d.xr import openxr
from avatar3d.xr.graphics import Graphics

EXTENSION = "XR_KHR_opengl_enable"
GLX_FBCONFIG_ID, GLX_VISUAL_ID = 0x8013, 0x800B  # GLX 1.4, tables 3.1 and 3.6


def create() -> Graphics:
    """A context on the X display made current, and its binding; raises WorkError without a display or driver."""
    if not os.environ.get("DISPLAY"):
        raise WorkError("no X display is set (DISPLAY)")
    import moderngl

    try:
        names: dict[str, Any] = {"libgl": "libGL.so.1", "libx11": "libX11.so.6"}
        context = moderngl.create_context(standalone=True, require=330, **names)
        gl = ctypes.CDLL("libGL.so.1")
    except Exception as error:  # glcontext raises plain exceptions
        raise WorkError(f"no GLX context could be made ({error}); install the driver of your graphics card") from error
    return Graphics("glx", context, EXTENSION, lambda: _binding(gl))


def _binding(gl: Any) -> Any:
    xr = openxr.load()
    for name in ("glXGetCurrentDisplay", "glXGetCurrentContext", "glXGetCurrentDrawable"):
        getattr(gl, name).restype = c_void_p
    display, context = gl.glXGetCurrentDisplay(), gl.glXGetCurrentContext()
    gl.glXQueryContext.argtypes = [c_void_p, c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]
    gl.glXChooseFBConfig.restype = ctypes.POINTER(c_void_p)
    gl.glXChooseFBConfig.argtypes = [c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)]
    number, count, visual = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    gl.glXQueryContext(display, context, GLX_FBCONFIG_ID, ctypes.byref(number))
    configs = gl.glXChooseFBConfig(display, 0, (ctypes.c_int * 3)(GLX_FBCONFIG_ID, number.value, 0), ctypes.byref(count))
    config = configs[0] if count.value else None
    if config is not None:
        gl.glXGetFBConfigAttrib.argtypes = [c_void_p, c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]
        gl.glXGetFBConfigAttrib(display, config, GLX_VISUAL_ID, ctypes.byref(visual))
    binding = xr.GraphicsBindingOpenGLXlibKHR()
    kinds = dict(field[:2] for field in type(binding)._fields_)
    binding.visualid = visual.value
    values = {
        "x_display": display, "glx_fbconfig": config, "glx_drawable": gl.glXGetCurrentDrawable(), "glx_context": context
    }  # fmt: skip
    for name, value in values.items():
        # An XID is a number, the others are pointers to PyOpenGL's types.
        setattr(binding, name, value if name == "glx_drawable" else cast(c_void_p(value), kinds[name]))
    return binding
