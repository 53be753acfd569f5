"""Off-screen targets: pictures that are read back, and trial frames as a display takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.rendering.opengl.raw_gl import GL_SRGB8_ALPHA8


class OffscreenTarget:
    """A framebuffer of linear half floats with depth. The context must be current in every call."""

    def __init__(self, context: Any, width: int, height: int) -> None:
        self._size = width, height
        self._color = context.texture((width, height), 4, dtype="f2")
        self._depth = context.depth_texture((width, height))
        self.framebuffer = context.framebuffer([self._color], self._depth)

    def clear(self) -> None:
        """Nothing drawn, at the farthest depth."""
        self.framebuffer.use()
        self.framebuffer.depth_mask = True
        self.framebuffer.clear(0.0, 0.0, 0.0, 0.0, depth=1.0)

    def rgba(self) -> np.ndarray:
        """(H, W, 4) f32 as drawn, row 0 at the top."""
        width, height = self._size
        pixels = np.frombuffer(self.framebuffer.read(components=4, dtype="f2"), np.float16).reshape(height, width, 4)
        return pixels[::-1].astype(np.float32)

    def depth_m(self, camera: Camera) -> np.ndarray:
        """(H, W) f32 metres along the axis of the camera that was drawn, inf where nothing was, row 0 at the top."""
        width, height = self._size
        window = np.frombuffer(self._depth.read(), np.float32).reshape(height, width)[::-1]
        near, far = camera.near_m, camera.far_m
        drawn = window < 1.0
        metres = np.full((height, width), np.inf, np.float32)
        metres[drawn] = far * near / (far - window[drawn].astype(np.float64) * (far - near))
        return metres

    def release(self) -> None:
        """Free the GL objects."""
        for resource in (self.framebuffer, self._color, self._depth):
            resource.release()


class SrgbTarget:
    """A framebuffer of 8-bit sRGB with depth, as displays have. The context must be current in every call."""

    def __init__(self, context: Any, width: int, height: int) -> None:
        self._color = context.texture((width, height), 4, internal_format=GL_SRGB8_ALPHA8)
        self._depth = context.depth_renderbuffer((width, height))
        self.framebuffer = context.framebuffer([self._color], self._depth)

    def release(self) -> None:
        """Free the GL objects."""
        for resource in (self.framebuffer, self._color, self._depth):
            resource.release()
