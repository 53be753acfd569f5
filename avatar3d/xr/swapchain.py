"""The images a session draws into: a swapchain of two layers, or two swapchains where a runtime has no arrays."""

from __future__ import annotations

from typing import Any

from avatar3d.errors import WorkError
from avatar3d.rendering.opengl.raw_gl import GL_SRGB8_ALPHA8
from avatar3d.xr import openxr

GL_DEPTH_COMPONENT32F, GL_DEPTH_COMPONENT24, GL_DEPTH24_STENCIL8 = 0x8CAC, 0x81A6, 0x88F0
COLOR_FORMATS = (GL_SRGB8_ALPHA8,)  # 8 linear bits would band in the dark, and half floats cost twice the bandwidth
DEPTH_FORMATS = (GL_DEPTH_COMPONENT32F, GL_DEPTH_COMPONENT24, GL_DEPTH24_STENCIL8)
WAIT_NS = 1_000_000_000  # for an image; a runtime that needs longer is gone


class EyeImages:
    """Swapchain images of one kind for all eyes, all of one size.

    handles: one swapchain with a layer an eye, or one swapchain an eye. images: GL texture names of each swapchain.
    """

    def __init__(self, session: Any, format_: int, usage: Any, width: int, height: int, eyes: int, array: bool) -> None:
        xr = openxr.load()
        self.array = array
        self.handles = []
        self.images: list[list[int]] = []
        self._acquired: list[int] = []
        for _ in range(1 if array else eyes):
            handle = xr.create_swapchain(
                session,
                xr.SwapchainCreateInfo(
                    usage_flags=usage, format=format_, sample_count=1, width=width, height=height, face_count=1,
                    array_size=eyes if array else 1, mip_count=1,
                ),
            )  # fmt: skip
            self.handles.append(handle)
            self.images.append([image.image for image in xr.enumerate_swapchain_images(handle, xr.SwapchainImageOpenGLKHR)])

    def acquire(self) -> None:
        """Take the next image of each swapchain, and wait until the compositor has done with it."""
        xr = openxr.load()
        self._acquired = [xr.acquire_swapchain_image(handle, xr.SwapchainImageAcquireInfo()) for handle in self.handles]
        for handle in self.handles:
            try:
                xr.wait_swapchain_image(handle, xr.SwapchainImageWaitInfo(timeout=WAIT_NS))
            except xr.exception.TimeoutExpired as error:
                raise openxr.RuntimeGone("the OpenXR runtime gave back no image for a second; start it again") from error

    def texture(self, eye: int) -> tuple[int, int | None]:
        """(GL name, layer or None) of what was acquired for an eye."""
        chain = 0 if self.array else eye
        return self.images[chain][self._acquired[chain]], eye if self.array else None

    def part(self, eye: int, width: int, height: int) -> Any:
        """The XrSwapchainSubImage of an eye's lower left width × height pixels."""
        xr = openxr.load()
        area = xr.Rect2Di(xr.Offset2Di(0, 0), xr.Extent2Di(width, height))
        return xr.SwapchainSubImage(self.handles[0 if self.array else eye], area, eye if self.array else 0)

    def release(self) -> None:
        """Give the images to the compositor."""
        xr = openxr.load()
        for handle in self.handles:
            xr.release_swapchain_image(handle, xr.SwapchainImageReleaseInfo())


def color_images(session: Any, formats: list[int], width: int, height: int, eyes: int) -> EyeImages:
    """sRGB images, in one array where the runtime has them; raises WorkError where it has no sRGB format."""
    format_ = next((wanted for wanted in COLOR_FORMATS if wanted in formats), None)
    if format_ is None:
        raise WorkError("the OpenXR runtime offers no 8-bit sRGB images to OpenGL; update the runtime or use another one")
    return eye_images(session, format_, width, height, eyes)


def eye_images(session: Any, format_: int, width: int, height: int, eyes: int) -> EyeImages:
    """Images to draw colours of a format into, in one array where the runtime has such."""
    xr = openxr.load()
    usage = xr.SwapchainUsageFlags.COLOR_ATTACHMENT_BIT | xr.SwapchainUsageFlags.SAMPLED_BIT
    try:
        return EyeImages(session, format_, usage, width, height, eyes, array=True)
    except (xr.exception.FeatureUnsupportedError, xr.exception.ValidationFailureError):
        return EyeImages(session, format_, usage, width, height, eyes, array=False)


def depth_images(session: Any, formats: list[int], width: int, height: int, eyes: int, array: bool) -> EyeImages | None:
    """Depth images that the compositor reads, or None where the runtime has no depth format."""
    xr = openxr.load()
    format_ = next((wanted for wanted in DEPTH_FORMATS if wanted in formats), None)
    if format_ is None:
        return None
    usage = xr.SwapchainUsageFlags.DEPTH_STENCIL_ATTACHMENT_BIT | xr.SwapchainUsageFlags.SAMPLED_BIT
    return EyeImages(session, format_, usage, width, height, eyes, array)
