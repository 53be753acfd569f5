"""Whether the headset is too warm: notices of XR_EXT_performance_settings, and XR_EXT_thermal_query where nothing was told."""

from __future__ import annotations

import contextlib
from ctypes import POINTER, byref, cast
from typing import Any

from avatar3d.xr import openxr


class Heat:
    """queries: the session's instance has XR_EXT_thermal_query enabled."""

    def __init__(self, session: Any, queries: bool) -> None:
        self._session, self._queries = session, queries
        self._hot_domains: set[int] = set()  # of XrPerfSettingsDomainEXT, from the runtime's notices

    def note(self, event: Any) -> None:
        """Take in an XrEventDataPerfSettingsEXT."""
        xr = openxr.load()
        notice = cast(byref(event), POINTER(xr.EventDataPerfSettingsEXT)).contents
        if xr.PerfSettingsSubDomainEXT(notice.sub_domain) == xr.PerfSettingsSubDomainEXT.THERMAL:
            domain = xr.PerfSettingsDomainEXT(notice.domain).value
            cooled = xr.PerfSettingsNotificationLevelEXT(notice.to_level) == xr.PerfSettingsNotificationLevelEXT.NORMAL
            (self._hot_domains.discard if cooled else self._hot_domains.add)(domain)

    def too_hot(self) -> bool:
        """Whether the runtime says that the headset is too warm to go on like this: by notice, or when asked."""
        if self._hot_domains or not self._queries:
            return bool(self._hot_domains)
        xr = openxr.load()
        normal = xr.PerfSettingsNotificationLevelEXT.NORMAL.value
        for domain in (xr.PerfSettingsDomainEXT.CPU, xr.PerfSettingsDomainEXT.GPU):
            # A runtime need not know every domain, and a session that is lost is told by the next frame.
            with contextlib.suppress(xr.exception.XrException):
                level = xr.thermal_get_temperature_trend_ext(self._session, domain)[0]
                if getattr(level, "value", level) != normal:
                    return True
        return False
