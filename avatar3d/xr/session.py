"""An OpenXR session from its begin to its end: states, frame timing, views and layers; draws nothing itself.

`Headset` is what it runs on, `FrameImages` what its frames are drawn into.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from ctypes import POINTER, byref, c_void_p, cast, pointer
from types import TracebackType
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.motion.code import MotionCode
from avatar3d.runtime.placement import Placement
from avatar3d.runtime.views import EyeView, is_view
from avatar3d.xr import openxr
from avatar3d.xr.actions import GAZE, Actions
from avatar3d.xr.bindings import open_graphics
from avatar3d.xr.face import FaceReader, open_face
from avatar3d.xr.frame_images import FrameImages
from avatar3d.xr.graphics import Graphics
from avatar3d.xr.headset import CLOCK, DEPTH_LAYER, THERMAL, Headset, offered_extensions
from avatar3d.xr.heat import Heat
from avatar3d.xr.options import SessionOptions
from avatar3d.xr.pacing import Prefetch
from avatar3d.xr.space_warp import SpaceWarp, open_space_warp
from avatar3d.xr.timing import FrameTiming, RuntimeClock
from avatar3d.xr.visibility import EXTENSION as VISIBILITY_MASK
from avatar3d.xr.visibility import VisibilityMasks

END_WITHIN_S = 3.0  # how long a runtime may take from our goodbye to its own


class HeadsetSession:
    """A stereo session. Use it as a context manager, in the thread in which `graphics` is current.

    After `running` turned true, each frame is `wait_frame`, `begin_frame`, `end_frame`, with `acquire`, `locate`, drawing and
    `release` between where the frame should be rendered. Every method may raise RuntimeGone; WorkError says what is missing.
    graphics: of an earlier session; without it a context is made for what the runtime takes, and is the caller's to close.
    """

    def __init__(self, options: SessionOptions, graphics: Graphics | None = None) -> None:
        self._xr = openxr.load()
        self._options = options
        self._headset: Headset | None = None
        self._session: Any = None
        self._own_images: FrameImages | None = None
        self.graphics: Graphics = graphics  # type: ignore[assignment]  # set by _open before anything uses it
        self.running = False
        self.ended = False
        self.recentered = False  # since `take_recentered`
        self._ahead: Prefetch[FrameTiming] | None = None
        self._actions: Actions | None = None
        self._face: FaceReader | None = None
        self._masks: VisibilityMasks | None = None
        self.space_warp: SpaceWarp | None = None
        self.warnings: list[str] = []  # what was asked for and cannot be had, a sentence each
        try:
            with openxr.failures_as_sentences("starting the session"):
                self._open()
        except BaseException:
            self.close()
            if graphics is None and self.graphics is not None:
                self.graphics.close()  # nobody else will know of it
            raise

    def __enter__(self) -> HeadsetSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- opening

    def _open(self) -> None:
        xr = self._xr
        offered = offered_extensions()
        if self.graphics is None:
            self.graphics = open_graphics(offered)
        context, options = self.graphics.context, self._options
        headset = self._headset = Headset(options, offered, self.graphics.extension)
        self.runtime, self.system = headset.runtime, headset.name
        self.width, self.height, self.eyes = headset.width, headset.height, headset.eyes
        headset.check_gl(context)
        self._clock = RuntimeClock(headset.instance, CLOCK in headset.enabled)
        binding = self.graphics.binding()
        info = xr.SessionCreateInfo(system_id=headset.system, next=cast(pointer(binding), c_void_p))
        self._session = xr.create_session(headset.instance, info)
        self._heat = Heat(self._session, THERMAL in headset.enabled)
        self._space = xr.create_reference_space(
            self._session, xr.ReferenceSpaceCreateInfo(reference_space_type=xr.ReferenceSpaceType.LOCAL)
        )
        formats = list(xr.enumerate_swapchain_formats(self._session))
        gives_depth = options.depth_layer and DEPTH_LAYER in headset.enabled
        self._own_images = FrameImages(
            context, self._session, formats, (self.width, self.height), self.eyes, gives_depth=gives_depth
        )
        if options.space_warp:
            self.space_warp, missing = open_space_warp(context, headset, self._session, formats)
            self.warnings += missing
        if VISIBILITY_MASK in headset.enabled:
            self._masks = VisibilityMasks(headset.instance, self._session, headset.views)
            for eye in range(self.eyes):
                self._read_mask(eye)
        self.hz = headset.choose_rate(self._session, options.hz)
        # A headset without controllers, or without a camera for the face, still shows heads.
        with contextlib.suppress(xr.exception.XrException):
            self._actions = Actions(headset.instance, self._session, GAZE in headset.enabled)
        self._face = open_face(headset.instance, self._session, headset.enabled)

    @property
    def _found(self) -> Headset:
        assert self._headset is not None
        return self._headset

    @property
    def _images(self) -> FrameImages:
        assert self._own_images is not None
        return self._own_images

    @property
    def uses_arrays(self) -> bool:
        """Whether both eyes lie in one array image."""
        return self._images.uses_arrays

    @property
    def layers(self) -> bool:
        """Whether both eyes can be drawn at once, into the layers of the array."""
        return self._images.layers

    @property
    def uses_masks(self) -> bool:
        """Whether the runtime told what the headset hides of some eye's view."""
        return bool(self._masks)

    @property
    def gives_depth(self) -> bool:
        """Whether the compositor is given our depth."""
        return self._images.gives_depth

    # --- states

    def poll(self) -> None:
        """Follow what the runtime says: starts, ends, recentering, heat."""
        xr = self._xr
        with openxr.failures_as_sentences("reading its events"):
            while True:
                try:
                    event = xr.poll_event(self._found.instance)
                except xr.exception.EventUnavailable:
                    return
                self._handle(event)

    def _handle(self, event: Any) -> None:
        xr = self._xr
        try:
            kind = xr.StructureType(event.type)
        except ValueError:  # a kind that pyopenxr does not know is of nothing that was enabled
            return
        if kind == xr.StructureType.EVENT_DATA_INSTANCE_LOSS_PENDING:
            raise openxr.RuntimeGone("the OpenXR runtime is shutting down; start it again")
        if kind == xr.StructureType.EVENT_DATA_REFERENCE_SPACE_CHANGE_PENDING:
            self.recentered = True
        if kind == xr.StructureType.EVENT_DATA_PERF_SETTINGS_EXT:
            self._heat.note(event)
        if kind == xr.StructureType.EVENT_DATA_VISIBILITY_MASK_CHANGED_KHR and self._masks is not None:
            self._read_mask(cast(byref(event), POINTER(xr.EventDataVisibilityMaskChangedKHR)).contents.view_index)
        if kind != xr.StructureType.EVENT_DATA_SESSION_STATE_CHANGED:
            return
        state = xr.SessionState(cast(byref(event), POINTER(xr.EventDataSessionStateChanged)).contents.state)
        if state == xr.SessionState.READY:
            xr.begin_session(self._session, xr.SessionBeginInfo(self._found.views))
            self.running = True
        elif state == xr.SessionState.STOPPING:
            self._finish_waiting()
            xr.end_session(self._session)
            self.running = False
        elif state == xr.SessionState.EXITING:
            self.running, self.ended = False, True
        elif state == xr.SessionState.LOSS_PENDING:
            raise openxr.RuntimeGone("the OpenXR runtime gave the session up; start it again")

    def _read_mask(self, eye: int) -> None:
        """A mask that cannot be had hides nothing: it only saves work."""
        assert self._masks is not None
        with contextlib.suppress(self._xr.exception.XrException):
            self._masks.read(eye)

    def hidden(self, cameras: Sequence[Camera | None]) -> list[np.ndarray | None]:
        """Of each eye's camera, what the headset hides (see avatar3d.rendering.opengl.hidden_area), None where it hides nothing."""
        masks = self._masks
        return [None if masks is None or camera is None else masks.hidden(eye, camera) for eye, camera in enumerate(cameras)]

    def take_recentered(self) -> bool:
        """Whether the viewer recentered the room since the last call."""
        taken, self.recentered = self.recentered, False
        return taken

    def too_hot(self) -> bool:
        """Whether the runtime says that the headset is too warm to go on like this: by notice, or when asked."""
        return self._heat.too_hot()

    # --- frames

    def wait_frame(self) -> FrameTiming:
        """Wait until the next frame should be begun; its wait began with the frame before."""
        if self._ahead is None:
            self._ahead = Prefetch(self._wait_frame, "wait")
        return self._ahead.take()

    def _wait_frame(self) -> FrameTiming:
        xr = self._xr
        with openxr.failures_as_sentences("waiting for a frame"):
            state = xr.wait_frame(self._session, xr.FrameWaitInfo())
            shown = int(state.predicted_display_time)
            period = int(state.predicted_display_period)
            return FrameTiming(shown, self._clock.monotonic_ns(shown, period), period, bool(state.should_render))

    def begin_frame(self) -> None:
        """Begin drawing the frame that was waited for, and begin to wait for the next."""
        xr = self._xr
        # Where an earlier frame was given up, this one goes on.
        with openxr.failures_as_sentences("beginning a frame"), contextlib.suppress(xr.exception.FrameDiscarded):
            xr.begin_frame(self._session, xr.FrameBeginInfo())
        if self._ahead is not None:
            self._ahead.begin()

    def acquire(self) -> list[Any]:
        """moderngl framebuffers of this frame's images, one an eye, each width × height."""
        with openxr.failures_as_sentences("taking an image"):
            self._images.acquire()
            if self.space_warp is not None:
                self.space_warp.acquire()
        return [self._images.framebuffer(eye) for eye in range(self.eyes)]

    def layered(self) -> Any:
        """A moderngl framebuffer whose layers are what `acquire` gave last; None where a vertex shader cannot choose a layer."""
        return self._images.layered()

    def clear_around(self, framebuffers: Sequence[Any], cameras: Sequence[Camera | None], background: Sequence[float]) -> None:
        """Before drawing: wipe what earlier frames left outside the part of each image that is drawn now."""
        self._images.clear_around(framebuffers, cameras, background)

    def locate(self, timing: FrameTiming) -> list[EyeView] | None:
        """Where the eyes will be when the frame is shown, as late as it is asked; None while the head is not tracked.

        An empty view or a pose that is none (a runtime that does not know yet gives zeros) counts as not tracked.
        """
        xr = self._xr
        with openxr.failures_as_sentences("locating the eyes"):
            info = xr.ViewLocateInfo(self._found.views, timing.runtime_time, self._space)
            state, located = xr.locate_views(self._session, info)
        if not int(state.view_state_flags) & xr.ViewStateFlags.ORIENTATION_VALID_BIT.value:
            return None
        views = [
            EyeView(
                (view.pose.orientation.x, view.pose.orientation.y, view.pose.orientation.z, view.pose.orientation.w),
                (view.pose.position.x, view.pose.position.y, view.pose.position.z),
                (view.fov.angle_left, view.fov.angle_right, view.fov.angle_up, view.fov.angle_down),
            )
            for view in located
        ]
        if not all(map(is_view, views)):
            return None
        self._located = located
        return views

    def holding(self, timing: FrameTiming) -> Placement | None:
        """Pose of the hand that holds something when the frame is shown, None where none does."""
        if self._actions is None:
            return None
        with openxr.failures_as_sentences("reading the controllers"):
            return self._actions.holding(self._space, timing.runtime_time)

    @property
    def reads_face(self) -> bool:
        """Whether the wearer's face is read."""
        return self._face is not None

    @property
    def wearer_extensions(self) -> list[str]:
        """Extensions through which the wearer's face and eyes may be told."""
        eyes = [GAZE] if GAZE in self._found.enabled and self._actions is not None else []
        return eyes if self._face is None else [self._face.extension, *eyes]

    def gaze(self, timing: FrameTiming) -> list[float] | None:
        """Where the wearer's eyes look when the frame is shown: quaternion xyzw in the head's space; None where it is not known.

        As of the last `holding`, which takes the frame's input in.
        """
        if self._actions is not None:
            # A tracker that fails is one that tells nothing; a session that is lost is told by the next frame.
            with contextlib.suppress(self._xr.exception.XrException):
                return self._actions.gaze(timing.runtime_time)
        return None

    def face(self, timing: FrameTiming, gaze: Sequence[float] | None = None) -> MotionCode | None:
        """The wearer's face when the frame is shown, with its `gaze`; None where it is not known."""
        if self._face is not None:
            with contextlib.suppress(self._xr.exception.XrException):
                return self._face.read(timing.runtime_time, gaze)
        return None

    def release(self) -> None:
        """Give this frame's images to the compositor."""
        with openxr.failures_as_sentences("handing an image over"):
            self._images.release()
            if self.space_warp is not None:
                self.space_warp.release()

    def end_frame(self, timing: FrameTiming, cameras: Sequence[Camera | None] | None) -> None:
        """Show the frame. cameras: what was drawn for each eye as last located, into the lower left of its image; it may be a
        part of the eye's view, then the rest of the view stays empty. None for an eye that sees nothing, or for all."""
        xr = self._xr
        layers: Sequence[Any] = []
        warp = self.space_warp if self.space_warp is not None and self.space_warp.drawn else None
        if cameras is not None and any(camera is not None for camera in cameras):
            views, kept = self._images.projection_views(self._located, cameras, warp)  # kept: lives until the call below
            flags = xr.CompositionLayerFlags.NONE
            if self._found.blend != xr.EnvironmentBlendMode.OPAQUE:
                flags = xr.CompositionLayerFlags.BLEND_TEXTURE_SOURCE_ALPHA_BIT
            layer = xr.CompositionLayerProjection(layer_flags=flags, space=self._space, views=views)
            layers = [byref(layer)]
        with openxr.failures_as_sentences("showing a frame"):
            xr.end_frame(
                self._session,
                xr.FrameEndInfo(display_time=timing.runtime_time, environment_blend_mode=self._found.blend, layers=layers),
            )
        if self.space_warp is not None:
            self.space_warp.ended(warp is not None)

    # --- ending

    def _finish_waiting(self) -> None:
        """Give up the frame that is being waited for: a session ends between frames."""
        if self._ahead is None or not self._ahead.pending:
            return
        timing = self._ahead.take()
        self._xr.begin_frame(self._session, self._xr.FrameBeginInfo())
        self.end_frame(timing, None)

    def request_exit(self) -> None:
        """Say goodbye and follow the runtime to the end of the session, with empty frames while it wants them."""
        xr = self._xr
        with openxr.failures_as_sentences("ending the session"):
            if self.running:
                xr.request_exit_session(self._session)
        deadline = time.monotonic() + END_WITHIN_S
        while not self.ended and time.monotonic() < deadline:
            self.poll()
            if self.running:
                timing = self.wait_frame()
                self.begin_frame()
                self.end_frame(timing, None)
            elif not self.ended:
                time.sleep(0.005)

    def close(self) -> None:
        """Free everything of the session; the graphics context stays. A runtime that is gone is no error here."""
        xr = self._xr
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
        if self._face is not None:
            with contextlib.suppress(xr.exception.XrException):
                self._face.close()
            self._face = None
        if self._own_images is not None:
            self._own_images.close()
            self._own_images = None
        if self.space_warp is not None:
            self.space_warp.close()
            self.space_warp = None
        with contextlib.suppress(xr.exception.XrException):
            if self._session is not None:
                xr.destroy_session(self._session)
        with contextlib.suppress(xr.exception.XrException):
            if self._headset is not None:
                self._headset.close()
        self._session = None
