"""The GL context an OpenXR session draws with, and the raw GL calls that moderngl has no name for."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from avatar3d.errors import WorkError

GL_FRAMEBUFFER = 0x8D40
GL_COLOR_ATTACHMENT0 = 0x8CE0
GL_DEPTH_ATTACHMENT = 0x8D00
GL_TEXTURE_2D = 0x0DE1
GL_RENDERBUFFER = 0x8D41
GL_FRAMEBUFFER_COMPLETE = 0x8CD5
ALL_LAYERS = -1
_U, _I = ctypes.c_uint, ctypes.c_int
# OpenGL 3.0 core, chapter 4.4: result, then arguments.
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "glGenFramebuffers": (None, _I, ctypes.POINTER(_U)),
    "glDeleteFramebuffers": (None, _I, ctypes.POINTER(_U)),
    "glBindFramebuffer": (None, _U, _U),
    "glFramebufferTexture": (None, _U, _U, _U, _I),
    "glFramebufferTextureLayer": (None, _U, _U, _U, _I, _I),
    "glFramebufferTexture2D": (None, _U, _U, _U, _U, _I),
    "glFramebufferRenderbuffer": (None, _U, _U, _U, _U),
    "glCheckFramebufferStatus": (_U, _U),
}


@dataclass
class Graphics:
    """An open GL context with the way into OpenXR.

    kind: egl, glx or win32. context: moderngl's. extension: the OpenXR extension that takes the binding. binding: makes
    the structure for xrCreateSession. address: of a GL function by name.
    """

    kind: str
    context: Any
    extension: str
    binding: Callable[[], Any]
    address: Callable[[bytes], int | None]
    _functions: dict[str, Any] = field(default_factory=dict)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a GL function of _PROTOTYPES."""
        if name not in self._functions:
            address = self.address(name.encode())
            if not address:
                raise WorkError(f"the graphics driver lacks {name}; update it")
            self._functions[name] = ctypes.CFUNCTYPE(*_PROTOTYPES[name])(address)
        return self._functions[name](*arguments)

    def framebuffer(self, color: int, depth: int, layer: int | None, depth_is_texture: bool) -> tuple[int, Any]:
        """(GL name, moderngl framebuffer) over the GL names of a colour and a depth image; layer: of arrays, ALL_LAYERS for a
        layered framebuffer, None for plain images. depth is a renderbuffer where it is no texture. Raises WorkError where the
        driver cannot draw into them."""
        name = ctypes.c_uint()
        self.call("glGenFramebuffers", 1, ctypes.byref(name))
        self.call("glBindFramebuffer", GL_FRAMEBUFFER, name)
        for attachment, image in ((GL_COLOR_ATTACHMENT0, color), (GL_DEPTH_ATTACHMENT, depth)):
            if attachment == GL_DEPTH_ATTACHMENT and not depth_is_texture:
                self.call("glFramebufferRenderbuffer", GL_FRAMEBUFFER, attachment, GL_RENDERBUFFER, image)
            elif layer == ALL_LAYERS:
                self.call("glFramebufferTexture", GL_FRAMEBUFFER, attachment, image, 0)
            elif layer is None:
                self.call("glFramebufferTexture2D", GL_FRAMEBUFFER, attachment, GL_TEXTURE_2D, image, 0)
            else:
                self.call("glFramebufferTextureLayer", GL_FRAMEBUFFER, attachment, image, 0, layer)
        status = self.call("glCheckFramebufferStatus", GL_FRAMEBUFFER)
        if status != GL_FRAMEBUFFER_COMPLETE:
            raise WorkError(f"the graphics driver cannot draw into the headset's images (status {status:#x}); update it")
        return name.value, self.context.detect_framebuffer(name.value)

    def delete_framebuffers(self, names: Sequence[int]) -> None:
        """Delete framebuffers by GL name."""
        if names:
            self.call("glDeleteFramebuffers", len(names), (ctypes.c_uint * len(names))(*names))

    def close(self) -> None:
        """Release the context."""
        self.context.release()


def open_graphics(offered: set[str]) -> Graphics:
    """A context for one of the graphics bindings that the runtime offers (names of its extensions), the best first.

    Raises WorkError where the runtime takes none that can be made here.
    """
    from avatar3d.xr import egl, glx, win32

    modules = (win32,) if sys.platform == "win32" else (egl, glx)
    problems = []
    for module in modules:
        if module.EXTENSION not in offered:
            problems.append(f"the runtime does not offer {module.EXTENSION}")
            continue
        try:
            return module.create()
        except WorkError as error:
            problems.append(str(error))
    raise WorkError(f"no OpenGL context fits this OpenXR runtime: {'; '.join(problems)}")
