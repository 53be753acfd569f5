"""The EGL binding (XR_MNDX_egl_enable): needs no window, so it serves headless machines and Wayland alike."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_void_p, cast
from typing import Any

from avatar3d.errors import WorkError
from avatar3d.rendering.opengl.context import create_context
from avatar3d.xr import openxr
from avatar3d.xr.graphics import Graphics

EXTENSION = "XR_MNDX_egl_enable"
EGL_CONFIG_ID, EGL_NONE = 0x3028, 0x3038


def create() -> Graphics:
    """A headless context made current, and its binding; raises WorkError where EGL is missing."""
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError as error:
        raise WorkError(f"EGL is missing ({error}); Debian and Ubuntu: apt install libegl1") from error
    context = create_context()
    return Graphics("egl", context, EXTENSION, lambda: _binding(egl))


def _binding(egl: Any) -> Any:
    xr = openxr.load()
    from xr.platform import linux

    for name in ("eglGetCurrentDisplay", "eglGetCurrentContext"):
        getattr(egl, name).restype = c_void_p
    display, context = egl.eglGetCurrentDisplay(), egl.eglGetCurrentContext()
    egl.eglQueryContext.argtypes = [c_void_p, c_void_p, c_int, ctypes.POINTER(c_int)]
    egl.eglChooseConfig.argtypes = [
        c_void_p, ctypes.POINTER(c_int), ctypes.POINTER(c_void_p), c_int, ctypes.POINTER(c_int)
    ]  # fmt: skip
    number, config, count = c_int(), c_void_p(), c_int()
    egl.eglQueryContext(display, context, EGL_CONFIG_ID, ctypes.byref(number))
    wanted = (c_int * 3)(EGL_CONFIG_ID, number.value, EGL_NONE)
    egl.eglChooseConfig(display, wanted, ctypes.byref(config), 1, ctypes.byref(count))
    binding = xr.GraphicsBindingEGLMNDX()
    binding.get_proc_address = cast(egl.eglGetProcAddress, xr.PFN_xrEglGetProcAddressMNDX)
    # pyopenxr declares these fields with PyOpenGL's types, which only take pointers cast to them.
    binding.display = cast(c_void_p(display), linux.EGLDisplay)
    binding.config = cast(config, linux.EGLConfig)
    binding.context = cast(c_void_p(context), linux.EGLContext)
    return binding
