"""The OpenXR instance and the stereo headset that it has: extensions, sizes, blend mode and rates; opens no session."""

from __future__ import annotations

import contextlib
from ctypes import byref
from typing import Any

from avatar3d import __version__
from avatar3d.errors import WorkError
from avatar3d.xr import openxr
from avatar3d.xr.actions import GAZE
from avatar3d.xr.face import EXTENSIONS as FACES
from avatar3d.xr.options import SessionOptions
from avatar3d.xr.visibility import EXTENSION as VISIBILITY_MASK

OPENGL = "XR_KHR_opengl_enable"  # needed by every GL binding, also beside the EGL one
DEPTH_LAYER = "XR_KHR_composition_layer_depth"
CLOCK = "XR_KHR_convert_timespec_time"
REFRESH_RATE = "XR_FB_display_refresh_rate"
THERMAL = "XR_EXT_thermal_query"
PERFORMANCE = "XR_EXT_performance_settings"
SPACE_WARP = "XR_FB_space_warp"
OPTIONAL = (DEPTH_LAYER, CLOCK, REFRESH_RATE, THERMAL, PERFORMANCE, VISIBILITY_MASK)
RATE_TOLERANCE_HZ = 0.6  # 59.94 is asked for as 60, 89.5 is not 90


def offered_extensions() -> set[str]:
    """Of the runtime's instances."""
    return {str(entry) for entry in openxr.load().enumerate_instance_extension_properties()}


class Headset:
    """An instance with what the options ask for and the runtime has. Raises pyopenxr's exceptions, and WorkError where the runtime has
    no stereo headset, or none that shows the real room where that is asked for.

    offered: names of the runtime's extensions. extension: of the graphics binding. instance, system: OpenXR's. runtime, name: what
    they call themselves. enabled: extensions. views, blend: XrViewConfigurationType and XrEnvironmentBlendMode. width, height: pixels
    that are recommended for each of so many eyes.
    """

    def __init__(self, options: SessionOptions, offered: set[str], extension: str) -> None:
        xr = self._xr = openxr.load()
        faces = (*FACES, GAZE) if options.face else (GAZE,) if options.gaze else ()
        warps = (SPACE_WARP,) if options.space_warp else ()
        self.enabled = {OPENGL, extension, *(name for name in (*OPTIONAL, *faces, *warps) if name in offered)}
        application = xr.ApplicationInfo(
            application_name="avatar3d",
            application_version=1,
            engine_name=f"avatar3d {__version__}",
            engine_version=1,
            api_version=xr.Version(1, 0, 0),  # every runtime has 1.0, and nothing of 1.1 is needed
        )
        self.instance = xr.create_instance(
            xr.InstanceCreateInfo(application_info=application, enabled_extension_names=sorted(self.enabled))
        )
        try:
            self._find(options)
        except BaseException:
            with contextlib.suppress(xr.exception.XrException):
                self.close()
            raise

    def _find(self, options: SessionOptions) -> None:
        xr = self._xr
        self.runtime = _text(xr.get_instance_properties(self.instance).runtime_name)
        self.system = xr.get_system(self.instance, xr.SystemGetInfo(form_factor=xr.FormFactor.HEAD_MOUNTED_DISPLAY))
        self.name = _text(xr.get_system_properties(self.instance, self.system).system_name)
        self.views = xr.ViewConfigurationType.PRIMARY_STEREO
        kinds = [xr.ViewConfigurationType(kind) for kind in xr.enumerate_view_configurations(self.instance, self.system)]
        if self.views not in kinds:
            raise WorkError(f"{self.name} is no stereo headset to this runtime; connect one")
        views = xr.enumerate_view_configuration_views(self.instance, self.system, self.views)
        self.width = max(view.recommended_image_rect_width for view in views)
        self.height = max(view.recommended_image_rect_height for view in views)
        self.eyes = len(views)
        self.blend = self._choose_blend(options.passthrough)

    def _choose_blend(self, passthrough: bool) -> Any:
        xr = self._xr
        modes = [
            xr.EnvironmentBlendMode(mode)
            for mode in xr.enumerate_environment_blend_modes(self.instance, self.system, self.views)
        ]
        if not passthrough:
            return modes[0] if xr.EnvironmentBlendMode.OPAQUE not in modes else xr.EnvironmentBlendMode.OPAQUE
        for wanted in (xr.EnvironmentBlendMode.ALPHA_BLEND, xr.EnvironmentBlendMode.ADDITIVE):
            if wanted in modes:
                return wanted
        raise WorkError(f"{self.name} cannot show the real room (no alpha-blend mode); leave --passthrough out")

    def check_gl(self, context: Any) -> None:
        """The specification wants this call before the session, and the runtime's least GL version met; raises WorkError."""
        xr = self._xr
        needs = xr.GraphicsRequirementsOpenGLKHR()
        ask = openxr.instance_function(
            self.instance, "xrGetOpenGLGraphicsRequirementsKHR", xr.PFN_xrGetOpenGLGraphicsRequirementsKHR
        )
        openxr.check(ask(self.instance, self.system, byref(needs)))
        least = int(needs.min_api_version_supported) >> 48, int(needs.min_api_version_supported) >> 32 & 0xFFFF
        have = divmod(context.version_code // 10, 10)
        if have < least:
            raise WorkError(
                f"the OpenXR runtime needs OpenGL {least[0]}.{least[1]}, this driver gives {have[0]}.{have[1]}; update it"
            )

    def choose_rate(self, session: Any, wanted_hz: float | None) -> float | None:
        """Ask for the wanted refresh rate where the runtime lets us; returns the rate it says, None where it says none. Raises
        WorkError for a rate that the headset does not have."""
        if REFRESH_RATE not in self.enabled:
            return None
        xr = self._xr
        rates = [float(rate) for rate in xr.enumerate_display_refresh_rates_fb(session)]
        if wanted_hz is not None and rates:
            nearest = min(rates, key=lambda rate: abs(rate - wanted_hz))
            if abs(nearest - wanted_hz) > RATE_TOLERANCE_HZ:
                listed = ", ".join(f"{rate:g}" for rate in rates)
                raise WorkError(f"{self.name} cannot show {wanted_hz:g} Hz; it offers {listed} Hz")
            xr.request_display_refresh_rate_fb(session, nearest)
        current = xr.get_display_refresh_rate_fb(session)
        return float(getattr(current, "value", current)) or None

    def close(self) -> None:
        """Destroy the instance; may raise pyopenxr's exceptions where the runtime is gone."""
        instance, self.instance = self.instance, None
        if instance is not None:
            self._xr.destroy_instance(instance)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
