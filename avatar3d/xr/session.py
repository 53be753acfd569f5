"""An OpenXR session from instance to end: states, frame timing, views, images and layers; draws nothing itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from ctypes import POINTER, byref, c_void_p, cast, pointer
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from avatar3d import __version__
from avatar3d.camera import Camera
from avatar3d.errors import WorkError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.layers import DepthArray
from avatar3d.rendering.opengl.layers import offered as offered_stereo
from avatar3d.rendering.opengl.raw_gl import ALL_LAYERS, delete_framebuffers, make_framebuffer
from avatar3d.runtime.placement import Placement
from avatar3d.runtime.views import FAR_M, NEAR_M, EyeView, angles_of, is_view
from avatar3d.xr import openxr
from avatar3d.xr.actions import GAZE, Actions
from avatar3d.xr.bindings import open_graphics
from avatar3d.xr.face import EXTENSIONS as FACES
from avatar3d.xr.face import FaceReader, open_face
from avatar3d.xr.graphics import Graphics
from avatar3d.xr.pacing import Ahead
from avatar3d.xr.space_warp import EXTENSION as SPACE_WARP
from avatar3d.xr.space_warp import SpaceWarp
from avatar3d.xr.swapchain import EyeImages, color_images, depth_images
from avatar3d.xr.visibility import EXTENSION as VISIBILITY_MASK
from avatar3d.xr.visibility import VisibilityMasks

NS = 1_000_000_000
END_WITHIN_S = 3.0  # how long a runtime may take from our goodbye to its own
OPENGL = "XR_KHR_opengl_enable"  # needed by every GL binding, also beside the EGL one
DEPTH_LAYER = "XR_KHR_composition_layer_depth"
CLOCK = "XR_KHR_convert_timespec_time"
REFRESH_RATE = "XR_FB_display_refresh_rate"
THERMAL = "XR_EXT_thermal_query"
PERFORMANCE = "XR_EXT_performance_settings"
OPTIONAL = (DEPTH_LAYER, CLOCK, REFRESH_RATE, THERMAL, PERFORMANCE, VISIBILITY_MASK)
EMPTY_FOV = (-0.001, 0.001, 0.001, -0.001)  # radians: a pixel or so
RATE_TOLERANCE_HZ = 0.6  # 59.94 is asked for as 60, 89.5 is not 90


@dataclass(frozen=True)
class SessionOptions:
    """hz: refresh rate to ask for, None for the runtime's own. passthrough: show the real room around the head.

    depth_layer: give the compositor our depth, so that it can move the picture with the viewer. face: read the wearer's face
    and eyes, which needs the wearer's consent.
    """

    hz: float | None = None
    passthrough: bool = False
    depth_layer: bool = True
    face: bool = False
    gaze: bool = False
    space_warp: bool = False


@dataclass(frozen=True)
class FrameTiming:
    """One frame as the runtime foretells it.

    runtime_time: XrTime of its display. display_ns: the same on our monotonic clock. period_ns: between frames.
    should_render: False while nobody would see it.
    """

    runtime_time: int
    display_ns: int
    period_ns: int
    should_render: bool


class HeadsetSession:
    """A stereo session. Use it as a context manager, in the thread in which `graphics` is current.

    After `running` turned true, each frame is `wait_frame`, `begin_frame`, `end_frame`, with `acquire`, `locate`, drawing and
    `release` between where the frame should be rendered. Every method may raise RuntimeGone; WorkError says what is missing.
    graphics: of an earlier session; without it a context is made for what the runtime takes, and is the caller's to close.
    """

    def __init__(self, options: SessionOptions, graphics: Graphics | None = None) -> None:
        self._xr = openxr.load()
        self._options = options
        self._instance: Any = None
        self._session: Any = None
        self._framebuffers: dict[tuple[int, int, int | None], tuple[int, Any]] = {}
        self._depth_buffer: Any = None
        self._covered: dict[tuple[int, int | None], tuple[int, int]] = {}  # image: size of the part that was drawn last
        self.graphics: Graphics = graphics  # type: ignore[assignment]  # set by _open before anything uses it
        self.running = False
        self.ended = False
        self.recentered = False  # since `take_recentered`
        self._hot_domains: set[int] = set()  # of XrPerfSettingsDomainEXT, from the runtime's notices
        self._first_offset_ns: int | None = None
        self._to_timespec: Any = None
        self._ahead: Ahead[FrameTiming] | None = None
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
        offered = {str(entry) for entry in xr.enumerate_instance_extension_properties()}
        if self.graphics is None:
            self.graphics = open_graphics(offered)
        faces = (*FACES, GAZE) if self._options.face else (GAZE,) if self._options.gaze else ()
        warps = (SPACE_WARP,) if self._options.space_warp else ()
        optional = (*OPTIONAL, *faces, *warps)
        wanted = {OPENGL, self.graphics.extension, *(name for name in optional if name in offered)}
        self._enabled = wanted
        application = xr.ApplicationInfo(
            application_name="avatar3d",
            application_version=1,
            engine_name=f"avatar3d {__version__}",
            engine_version=1,
            api_version=xr.Version(1, 0, 0),  # every runtime has 1.0, and nothing of 1.1 is needed
        )
        self._instance = xr.create_instance(
            xr.InstanceCreateInfo(application_info=application, enabled_extension_names=sorted(wanted))
        )
        self.runtime = _text(xr.get_instance_properties(self._instance).runtime_name)
        system = xr.get_system(self._instance, xr.SystemGetInfo(form_factor=xr.FormFactor.HEAD_MOUNTED_DISPLAY))
        self.system = _text(xr.get_system_properties(self._instance, system).system_name)
        self._kind = xr.ViewConfigurationType.PRIMARY_STEREO
        kinds = [xr.ViewConfigurationType(kind) for kind in xr.enumerate_view_configurations(self._instance, system)]
        if self._kind not in kinds:
            raise WorkError(f"{self.system} is no stereo headset to this runtime; connect one")
        views = xr.enumerate_view_configuration_views(self._instance, system, self._kind)
        self.width = max(view.recommended_image_rect_width for view in views)
        self.height = max(view.recommended_image_rect_height for view in views)
        self.eyes = len(views)
        self._blend = self._choose_blend(system)
        self._check_gl(system)
        binding = self.graphics.binding()
        info = xr.SessionCreateInfo(system_id=system, next=cast(pointer(binding), c_void_p))
        self._session = xr.create_session(self._instance, info)
        self._space = xr.create_reference_space(
            self._session, xr.ReferenceSpaceCreateInfo(reference_space_type=xr.ReferenceSpaceType.LOCAL)
        )
        formats = list(xr.enumerate_swapchain_formats(self._session))
        self._color = color_images(self._session, formats, self.width, self.height, self.eyes)
        self._depth: EyeImages | None = None
        if self._options.depth_layer and DEPTH_LAYER in self._enabled:
            self._depth = depth_images(self._session, formats, self.width, self.height, self.eyes, self._color.array)
        self._layered: bool = self._color.array and "layers" in offered_stereo(self.graphics.context)
        if self._depth is None:
            context, size = self.graphics.context, (self.width, self.height)
            self._depth_buffer = DepthArray(context, *size) if self._layered else context.depth_renderbuffer(size)
        if self._options.space_warp:
            self.space_warp = self._open_space_warp(system, formats)
        if VISIBILITY_MASK in self._enabled:
            self._masks = VisibilityMasks(self._instance, self._session, self._kind)
            for eye in range(self.eyes):
                self._read_mask(eye)
        self.hz = self._choose_rate()
        # A headset without controllers, or without a camera for the face, still shows heads.
        with contextlib.suppress(xr.exception.XrException):
            self._actions = Actions(self._instance, self._session, GAZE in self._enabled)
        self._face = open_face(self._instance, self._session, self._enabled)

    def _open_space_warp(self, system: Any, formats: list[int]) -> SpaceWarp | None:
        """What takes motion, or None and a warning: without it the head is shown all the same."""
        gone = self._xr.exception.InstanceLostError, self._xr.exception.SessionLostError
        try:
            if SPACE_WARP not in self._enabled:
                raise WorkError(f"the OpenXR runtime does not offer {SPACE_WARP}")
            return SpaceWarp.open(self.graphics.context, self._instance, system, self._session, formats, self.eyes)
        except gone:
            raise
        except WorkError as error:
            reason = str(error)
        except self._xr.exception.XrException as error:
            reason = f"the OpenXR runtime refused {SPACE_WARP}: {type(error).__name__.removesuffix('Error')}"
        self.warnings.append(f"{reason}; going on without space warp")
        return None

    def _choose_blend(self, system: Any) -> Any:
        xr = self._xr
        modes = [
            xr.EnvironmentBlendMode(mode) for mode in xr.enumerate_environment_blend_modes(self._instance, system, self._kind)
        ]
        if not self._options.passthrough:
            return modes[0] if xr.EnvironmentBlendMode.OPAQUE not in modes else xr.EnvironmentBlendMode.OPAQUE
        for wanted in (xr.EnvironmentBlendMode.ALPHA_BLEND, xr.EnvironmentBlendMode.ADDITIVE):
            if wanted in modes:
                return wanted
        raise WorkError(f"{self.system} cannot show the real room (no alpha-blend mode); leave --passthrough out")

    def _check_gl(self, system: Any) -> None:
        """The specification wants this call before the session, and the runtime's least GL version met."""
        xr = self._xr
        needs = xr.GraphicsRequirementsOpenGLKHR()
        ask = openxr.instance_function(
            self._instance, "xrGetOpenGLGraphicsRequirementsKHR", xr.PFN_xrGetOpenGLGraphicsRequirementsKHR
        )
        openxr.check(ask(self._instance, system, byref(needs)))
        least = int(needs.min_api_version_supported) >> 48, int(needs.min_api_version_supported) >> 32 & 0xFFFF
        have = divmod(self.graphics.context.version_code // 10, 10)
        if have < least:
            raise WorkError(
                f"the OpenXR runtime needs OpenGL {least[0]}.{least[1]}, this driver gives {have[0]}.{have[1]}; update it"
            )

    def _choose_rate(self) -> float | None:
        """Ask for the wanted refresh rate where the runtime lets us; returns the rate it says, None where it says none."""
        if REFRESH_RATE not in self._enabled:
            return None
        xr = self._xr
        rates = [float(rate) for rate in xr.enumerate_display_refresh_rates_fb(self._session)]
        wanted = self._options.hz
        if wanted is not None and rates:
            nearest = min(rates, key=lambda rate: abs(rate - wanted))
            if abs(nearest - wanted) > RATE_TOLERANCE_HZ:
                listed = ", ".join(f"{rate:g}" for rate in rates)
                raise WorkError(f"{self.system} cannot show {wanted:g} Hz; it offers {listed} Hz")
            xr.request_display_refresh_rate_fb(self._session, nearest)
        current = xr.get_display_refresh_rate_fb(self._session)
        return float(getattr(current, "value", current)) or None

    @property
    def uses_arrays(self) -> bool:
        """Whether both eyes lie in one array image."""
        return self._color.array

    @property
    def layers(self) -> bool:
        """Whether both eyes can be drawn at once, into the layers of the array."""
        return self._layered

    @property
    def uses_masks(self) -> bool:
        """Whether the runtime told what the headset hides of some eye's view."""
        return bool(self._masks)

    @property
    def gives_depth(self) -> bool:
        """Whether the compositor is given our depth."""
        return self._depth is not None

    # --- states

    def poll(self) -> None:
        """Follow what the runtime says: starts, ends, recentering, heat."""
        xr = self._xr
        with openxr.failures_as_sentences("reading its events"):
            while True:
                try:
                    event = xr.poll_event(self._instance)
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
            notice = cast(byref(event), POINTER(xr.EventDataPerfSettingsEXT)).contents
            if xr.PerfSettingsSubDomainEXT(notice.sub_domain) == xr.PerfSettingsSubDomainEXT.THERMAL:
                domain = xr.PerfSettingsDomainEXT(notice.domain).value
                cooled = xr.PerfSettingsNotificationLevelEXT(notice.to_level) == xr.PerfSettingsNotificationLevelEXT.NORMAL
                (self._hot_domains.discard if cooled else self._hot_domains.add)(domain)
        if kind == xr.StructureType.EVENT_DATA_VISIBILITY_MASK_CHANGED_KHR and self._masks is not None:
            self._read_mask(cast(byref(event), POINTER(xr.EventDataVisibilityMaskChangedKHR)).contents.view_index)
        if kind != xr.StructureType.EVENT_DATA_SESSION_STATE_CHANGED:
            return
        state = xr.SessionState(cast(byref(event), POINTER(xr.EventDataSessionStateChanged)).contents.state)
        if state == xr.SessionState.READY:
            xr.begin_session(self._session, xr.SessionBeginInfo(self._kind))
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
        if self._hot_domains or THERMAL not in self._enabled:
            return bool(self._hot_domains)
        xr = self._xr
        normal = xr.PerfSettingsNotificationLevelEXT.NORMAL.value
        for domain in (xr.PerfSettingsDomainEXT.CPU, xr.PerfSettingsDomainEXT.GPU):
            # A runtime need not know every domain, and a session that is lost is told by the next frame.
            with contextlib.suppress(xr.exception.XrException):
                level = xr.thermal_get_temperature_trend_ext(self._session, domain)[0]
                if getattr(level, "value", level) != normal:
                    return True
        return False

    # --- frames

    def wait_frame(self) -> FrameTiming:
        """Wait until the next frame should be begun; its wait began with the frame before."""
        if self._ahead is None:
            self._ahead = Ahead(self._wait_frame, "wait")
        return self._ahead.take()

    def _wait_frame(self) -> FrameTiming:
        xr = self._xr
        with openxr.failures_as_sentences("waiting for a frame"):
            state = xr.wait_frame(self._session, xr.FrameWaitInfo())
            shown = int(state.predicted_display_time)
            period = int(state.predicted_display_period)
            return FrameTiming(shown, self._monotonic_ns(shown, period), period, bool(state.should_render))

    def _monotonic_ns(self, runtime_time: int, period_ns: int) -> int:
        """An XrTime on the clock of time.monotonic_ns."""
        if CLOCK in self._enabled:
            from xr.platform import linux

            if self._to_timespec is None:
                self._to_timespec = openxr.instance_function(
                    self._instance, "xrConvertTimeToTimespecTimeKHR", linux.PFN_xrConvertTimeToTimespecTimeKHR
                )
            moment = linux.timespec()
            openxr.check(self._to_timespec(self._instance, runtime_time, byref(moment)))
            return int(moment.tv_sec) * NS + int(moment.tv_nsec)
        # Without the extension clocks cannot be compared: the first frame is taken to be shown a period from now.
        if self._first_offset_ns is None:
            self._first_offset_ns = time.monotonic_ns() + period_ns - runtime_time
        return runtime_time + self._first_offset_ns

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
            self._color.acquire()
            if self._depth is not None:
                self._depth.acquire()
            if self.space_warp is not None:
                self.space_warp.acquire()
        return [self._framebuffer(eye) for eye in range(self.eyes)]

    def layered(self) -> Any:
        """A moderngl framebuffer whose layers are what `acquire` gave last; None where a vertex shader cannot choose a layer."""
        return self._framebuffer(0, ALL_LAYERS) if self._layered else None

    def _framebuffer(self, eye: int, layers: int | None = None) -> Any:
        color, layer = self._color.texture(eye)
        layer = layer if layers is None else layers
        depth = self._depth_buffer.glo if self._depth is None else self._depth.texture(eye)[0]
        key = (color, depth, layer)
        if key not in self._framebuffers:
            is_texture = self._depth is not None or self._layered
            self._framebuffers[key] = make_framebuffer(self.graphics.context, color, depth, layer, is_texture)
        return self._framebuffers[key][1]

    def clear_around(self, framebuffers: Sequence[Any], cameras: Sequence[Camera | None], background: Sequence[float]) -> None:
        """Before drawing: wipe what earlier frames left outside the part of each image that is drawn now.

        Some compositors (Monado) look beyond the part they were told of.
        """
        for eye, (framebuffer, camera) in enumerate(zip(framebuffers, cameras, strict=True)):
            image = self._color.texture(eye)
            width, height = (1, 1) if camera is None else (camera.width, camera.height)
            left_width, left_height = self._covered.get(image, (self.width, self.height))
            if camera is None or left_width > width or left_height > height:
                framebuffer.use()
                framebuffer.depth_mask = True
                framebuffer.clear(*background, depth=1.0, viewport=(0, 0, left_width, left_height))
            self._covered[image] = (width, height)

    def locate(self, timing: FrameTiming) -> list[EyeView] | None:
        """Where the eyes will be when the frame is shown, as late as it is asked; None while the head is not tracked.

        An empty view or a pose that is none (a runtime that does not know yet gives zeros) counts as not tracked.
        """
        xr = self._xr
        with openxr.failures_as_sentences("locating the eyes"):
            info = xr.ViewLocateInfo(self._kind, timing.runtime_time, self._space)
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
        eyes = [GAZE] if GAZE in self._enabled and self._actions is not None else []
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
            self._color.release()
            if self._depth is not None:
                self._depth.release()
            if self.space_warp is not None:
                self.space_warp.release()

    def end_frame(self, timing: FrameTiming, cameras: Sequence[Camera | None] | None) -> None:
        """Show the frame. cameras: what was drawn for each eye as last located, into the lower left of its image; it may be a
        part of the eye's view, then the rest of the view stays empty. None for an eye that sees nothing, or for all."""
        xr = self._xr
        layers: Sequence[Any] = []
        warp = self.space_warp if self.space_warp is not None and self.space_warp.drawn else None
        if cameras is not None and any(camera is not None for camera in cameras):
            views = (xr.CompositionLayerProjectionView * self.eyes)(
                *(xr.CompositionLayerProjectionView() for _ in range(self.eyes))
            )
            kept = []
            for eye, (view, located, camera) in enumerate(zip(views, self._located, cameras, strict=True)):
                # An eye that sees nothing still needs a view: one pixel, which was cleared.
                size = (1, 1) if camera is None else (camera.width, camera.height)
                view.pose = located.pose
                view.fov = xr.Fovf(*EMPTY_FOV) if camera is None else xr.Fovf(*angles_of(camera))
                view.sub_image = self._color.part(eye, *size)
                chain = None
                if self._depth is not None:
                    chain = xr.CompositionLayerDepthInfoKHR(
                        sub_image=self._depth.part(eye, *size), min_depth=0.0, max_depth=1.0, near_z=NEAR_M, far_z=FAR_M
                    )
                    kept.append(chain)  # lives until the call below
                if warp is not None:
                    chain = warp.chained(eye, chain)
                    kept.append(chain)
                if chain is not None:
                    view.next = cast(pointer(chain), c_void_p)
            flags = xr.CompositionLayerFlags.NONE
            if self._blend != xr.EnvironmentBlendMode.OPAQUE:
                flags = xr.CompositionLayerFlags.BLEND_TEXTURE_SOURCE_ALPHA_BIT
            layer = xr.CompositionLayerProjection(layer_flags=flags, space=self._space, views=views)
            layers = [byref(layer)]
        with openxr.failures_as_sentences("showing a frame"):
            xr.end_frame(
                self._session,
                xr.FrameEndInfo(display_time=timing.runtime_time, environment_blend_mode=self._blend, layers=layers),
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
        if self.graphics is not None:
            delete_framebuffers(self.graphics.context, [name for name, _ in self._framebuffers.values()])
            self._framebuffers.clear()
            if self.space_warp is not None:
                self.space_warp.close()
                self.space_warp = None
            if self._depth_buffer is not None:
                self._depth_buffer.release()
                self._depth_buffer = None
        for handle, destroy in ((self._session, xr.destroy_session), (self._instance, xr.destroy_instance)):
            if handle is not None:
                with contextlib.suppress(xr.exception.XrException):
                    destroy(handle)
        self._session = self._instance = None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
