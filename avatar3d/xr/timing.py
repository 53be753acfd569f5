"""When frames are shown: as the runtime foretells it, and on our monotonic clock."""

from __future__ import annotations

import time
from ctypes import byref
from dataclasses import dataclass
from typing import Any

from avatar3d.xr import openxr

NS = 1_000_000_000


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


class RuntimeClock:
    """Converts XrTime. exact: the instance has XR_KHR_convert_timespec_time enabled."""

    def __init__(self, instance: Any, exact: bool) -> None:
        self._instance, self._exact = instance, exact
        self._to_timespec: Any = None
        self._first_offset_ns: int | None = None

    def monotonic_ns(self, runtime_time: int, period_ns: int) -> int:
        """An XrTime on the clock of time.monotonic_ns. period_ns: between frames. Raises pyopenxr's exceptions."""
        if self._exact:
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
