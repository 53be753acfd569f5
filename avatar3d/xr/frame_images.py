"""What a session's frames are drawn into: swapchain images of colour and depth as moderngl framebuffers, and their layers."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p, cast, pointer
from typing import Any

from avatar3d.camera import Camera
from avatar3d.rendering.opengl.layers import DepthArray, offered
from avatar3d.rendering.opengl.raw_gl import ALL_LAYERS, delete_framebuffers, make_framebuffer
from avatar3d.runtime.views import FAR_M, NEAR_M, angles_of
from avatar3d.xr import openxr
from avatar3d.xr.space_warp import SpaceWarp
from avatar3d.xr.swapchain import EyeImages, color_images, depth_images

EMPTY_FOV = (-0.001, 0.001, 0.001, -0.001)  # radians: a pixel or so


class FrameImages:
    """Images of width × height pixels an eye. The context must be current in every call; raises pyopenxr's exceptions.

    gives_depth: ask for depth images that the compositor reads; afterwards whether there are such. uses_arrays: both eyes lie in one
    array image. layers: both can be drawn at once, into the layers of the array.
    """

    def __init__(
        self, context: Any, session: Any, formats: list[int], size: tuple[int, int], eyes: int, gives_depth: bool
    ) -> None:
        self._context, self._size, self._eyes = context, size, eyes
        self._framebuffers: dict[tuple[int, int, int | None], tuple[int, Any]] = {}
        self._covered: dict[tuple[int, int | None], tuple[int, int]] = {}  # image: size of the part that was drawn last
        self._color = color_images(session, formats, *size, eyes)
        self.uses_arrays = self._color.array
        self._depth: EyeImages | None = None
        if gives_depth:
            self._depth = depth_images(session, formats, *size, eyes, self._color.array)
        self.gives_depth = self._depth is not None
        self.layers: bool = self._color.array and "layers" in offered(context)
        self._depth_buffer: Any = None
        if self._depth is None:
            self._depth_buffer = DepthArray(context, *size) if self.layers else context.depth_renderbuffer(size)

    def acquire(self) -> None:
        """Take the images of the next frame."""
        self._color.acquire()
        if self._depth is not None:
            self._depth.acquire()

    def release(self) -> None:
        """Give them to the compositor."""
        self._color.release()
        if self._depth is not None:
            self._depth.release()

    def framebuffer(self, eye: int) -> Any:
        """The moderngl framebuffer of an eye's image."""
        return self._framebuffer(eye, self._color.texture(eye)[1])

    def layered(self) -> Any:
        """A moderngl framebuffer whose layers are the eyes' images; None where a vertex shader cannot choose a layer."""
        return self._framebuffer(0, ALL_LAYERS) if self.layers else None

    def _framebuffer(self, eye: int, layer: int | None) -> Any:
        color = self._color.texture(eye)[0]
        depth = self._depth_buffer.glo if self._depth is None else self._depth.texture(eye)[0]
        key = (color, depth, layer)
        if key not in self._framebuffers:
            is_texture = self._depth is not None or self.layers
            self._framebuffers[key] = make_framebuffer(self._context, color, depth, layer, is_texture)
        return self._framebuffers[key][1]

    def clear_around(self, framebuffers: Sequence[Any], cameras: Sequence[Camera | None], background: Sequence[float]) -> None:
        """Before drawing: wipe what earlier frames left outside the part of each image that is drawn now.

        Some compositors (Monado) look beyond the part they were told of.
        """
        for eye, (framebuffer, camera) in enumerate(zip(framebuffers, cameras, strict=True)):
            image = self._color.texture(eye)
            width, height = (1, 1) if camera is None else (camera.width, camera.height)
            left_width, left_height = self._covered.get(image, self._size)
            if camera is None or left_width > width or left_height > height:
                framebuffer.use()
                framebuffer.depth_mask = True
                framebuffer.clear(*background, depth=1.0, viewport=(0, 0, left_width, left_height))
            self._covered[image] = (width, height)

    def projection_views(
        self, located: Sequence[Any], cameras: Sequence[Camera | None], warp: SpaceWarp | None
    ) -> tuple[Any, list[Any]]:
        """(array of XrCompositionLayerProjectionView, what must live as long as it is used) of a drawn frame.

        located: XrView of each eye. cameras: what was drawn into the lower left of its image; None for an eye that sees nothing.
        """
        xr = openxr.load()
        views = (xr.CompositionLayerProjectionView * self._eyes)(
            *(xr.CompositionLayerProjectionView() for _ in range(self._eyes))
        )
        kept: list[Any] = []
        for eye, (view, place, camera) in enumerate(zip(views, located, cameras, strict=True)):
            # An eye that sees nothing still needs a view: one pixel, which was cleared.
            size = (1, 1) if camera is None else (camera.width, camera.height)
            view.pose = place.pose
            view.fov = xr.Fovf(*EMPTY_FOV) if camera is None else xr.Fovf(*angles_of(camera))
            view.sub_image = self._color.part(eye, *size)
            chain = None
            if self._depth is not None:
                chain = xr.CompositionLayerDepthInfoKHR(
                    sub_image=self._depth.part(eye, *size), min_depth=0.0, max_depth=1.0, near_z=NEAR_M, far_z=FAR_M
                )
                kept.append(chain)
            if warp is not None:
                chain = warp.chained(eye, chain)
                kept.append(chain)
            if chain is not None:
                view.next = cast(pointer(chain), c_void_p)
        return views, kept

    def close(self) -> None:
        """Free the GL objects; the images are the session's."""
        delete_framebuffers(self._context, [name for name, _ in self._framebuffers.values()])
        self._framebuffers.clear()
        if self._depth_buffer is not None:
            self._depth_buffer.release()
            self._depth_buffer = None
