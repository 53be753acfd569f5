"""Motion vectors and depth for a headset that makes frames between ours (XR_FB_space_warp).

Written to the specification and run against a played runtime only (tests/xr/played.py), not against a headset.
"""

from __future__ import annotations

from ctypes import byref, c_void_p, cast, pointer
from typing import Any

from avatar3d.errors import WorkError
from avatar3d.rendering.opengl.raw_gl import delete_framebuffers, make_framebuffer
from avatar3d.rendering.opengl.stereo import EYES
from avatar3d.runtime.views import FAR_M, NEAR_M
from avatar3d.xr import openxr
from avatar3d.xr.headset import SPACE_WARP, Headset
from avatar3d.xr.swapchain import EyeImages, depth_images, eye_images

GL_RGBA16F = 0x881A  # "Signed 16 bit float pixel format is recommended", XrCompositionLayerSpaceWarpInfoFB


class SpaceWarp:
    """Images of motion and depth of one size for all eyes. Raises pyopenxr's exceptions and WorkError.

    In each frame that is drawn: `acquire`, draw into `framebuffers`, `release`, and `chained` to each view of the projection.
    """

    def __init__(self, context: Any, motion: EyeImages, depth: EyeImages, size: tuple[int, int]) -> None:
        self.width, self.height = size
        self._context = context
        self._motion, self._depth = motion, depth
        self._framebuffers: dict[tuple[int, int, int | None], tuple[int, Any]] = {}
        self._drawn = False  # since the images were acquired
        self._continues = False  # the frame before had its picture too

    @classmethod
    def open(cls, context: Any, instance: Any, system: Any, session: Any, formats: list[int], eyes: int) -> SpaceWarp:
        """For a session whose instance has SPACE_WARP enabled; WorkError where the system or its image formats do not take it."""
        xr = openxr.load()
        wanted = xr.SystemSpaceWarpPropertiesFB()
        properties = xr.SystemProperties(next=cast(pointer(wanted), c_void_p))
        ask = openxr.instance_function(instance, "xrGetSystemProperties", xr.PFN_xrGetSystemProperties)
        openxr.check(ask(instance, system, byref(properties)))
        size = wanted.recommended_motion_vector_image_rect_width, wanted.recommended_motion_vector_image_rect_height
        if GL_RGBA16F not in formats or 0 in size:
            raise WorkError("the headset has no images for motion")
        motion = eye_images(session, GL_RGBA16F, *size, eyes)
        depth = depth_images(session, formats, *size, eyes, motion.array)
        if depth is None:
            raise WorkError("the headset has no images for the depth of motion")
        return cls(context, motion, depth, size)

    def acquire(self) -> None:
        """Take the next images."""
        self._motion.acquire()
        self._depth.acquire()
        self._drawn = False

    def framebuffers(self) -> list[Any]:
        """moderngl framebuffers of the acquired images, one an eye; what is drawn into them counts as this frame's motion."""
        self._drawn = True
        found = []
        for eye in range(EYES):
            (color, layer), (depth, _) = self._motion.texture(eye), self._depth.texture(eye)
            key = color, depth, layer
            if key not in self._framebuffers:
                self._framebuffers[key] = make_framebuffer(self._context, color, depth, layer)
            found.append(self._framebuffers[key][1])
        return found

    def release(self) -> None:
        """Give the images to the compositor."""
        self._motion.release()
        self._depth.release()

    def chained(self, eye: int, after: Any) -> Any:
        """The structure for an eye's view, which leads on to the structure `after` (or None); keep it until the frame is ended.

        The space stays where it is, also when the head in it is moved: that is motion of the head. A frame without one before it
        asks the runtime to make none from it.
        """
        xr = openxr.load()
        flags = xr.CompositionLayerSpaceWarpInfoFlagsFB
        return xr.CompositionLayerSpaceWarpInfoFB(
            layer_flags=flags.NONE if self._continues else flags.FRAME_SKIP_BIT,
            motion_vector_sub_image=self._motion.part(eye, self.width, self.height),
            app_space_delta_pose=xr.Posef(xr.Quaternionf(0.0, 0.0, 0.0, 1.0), xr.Vector3f(0.0, 0.0, 0.0)),
            depth_sub_image=self._depth.part(eye, self.width, self.height),
            min_depth=0.0,
            max_depth=1.0,
            near_z=NEAR_M,
            far_z=FAR_M,
            next=None if after is None else cast(pointer(after), c_void_p),
        )

    @property
    def drawn(self) -> bool:
        """Whether this frame has its motion."""
        return self._drawn

    def ended(self, shown: bool) -> None:
        """The frame was ended; shown: with its motion."""
        self._continues = shown
        self._drawn = False

    def close(self) -> None:
        """Free the framebuffers; the images go with the session."""
        delete_framebuffers(self._context, [name for name, _ in self._framebuffers.values()])
        self._framebuffers.clear()


def open_space_warp(context: Any, headset: Headset, session: Any, formats: list[int]) -> tuple[SpaceWarp | None, list[str]]:
    """(what takes motion, sentences for the viewer): None and why, where it cannot be had; the head is shown all the same.

    Raises pyopenxr's exceptions where the runtime is gone.
    """
    xr = openxr.load()
    try:
        if SPACE_WARP not in headset.enabled:
            raise WorkError(f"the OpenXR runtime does not offer {SPACE_WARP}")
        return SpaceWarp.open(context, headset.instance, headset.system, session, formats, headset.eyes), []
    except (xr.exception.InstanceLostError, xr.exception.SessionLostError):
        raise
    except WorkError as error:
        reason = str(error)
    except xr.exception.XrException as error:
        reason = f"the OpenXR runtime refused {SPACE_WARP}: {type(error).__name__.removesuffix('Error')}"
    return None, [f"{reason}; going on without space warp"]
