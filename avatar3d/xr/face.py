"""The wearer's face as headsets tell it: one small interface, one class for each extension that reads faces.

Written to the OpenXR specification and run against a played runtime only (tests/xr/played.py), not against a headset.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from ctypes import POINTER, byref, c_float, cast
from typing import Any, Protocol

from avatar3d.motion.code import MotionCode
from avatar3d.motion.sources.openxr import HTC_EYES, read_android, read_fb2, read_htc
from avatar3d.motion.validation import MotionValidator
from avatar3d.motion.vocabulary import vocabulary
from avatar3d.xr import openxr

FB2_CONFIDENCES = 2  # XrFaceConfidence2FB: lower, upper face
ANDROID_CONFIDENCES = 3  # XrFaceConfidenceRegionsANDROID: lower, left upper, right upper


class FaceReader(Protocol):
    """The face of a session whose instance has `extension` enabled; making one raises pyopenxr's exceptions where the system
    has no such tracker."""

    extension: str

    def read(self, runtime_time: int, gaze: Sequence[float] | None) -> MotionCode | None:
        """The face at an XrTime, None while it is not seen; gaze: the eyes' quaternion xyzw in the head's space, None: unknown."""

    def close(self) -> None:
        """Destroy the trackers."""


class _Calls:
    """An extension's functions by name, checked: a failure is raised as pyopenxr's exception."""

    def __init__(self, instance: Any) -> None:
        self._instance, self._xr = instance, openxr.load()

    def __call__(self, name: str) -> Callable[..., None]:
        call = openxr.instance_function(self._instance, name, getattr(self._xr, f"PFN_{name}"))
        return lambda *arguments: openxr.check(call(*arguments))


class Fb2Face:
    """XR_FB_face_tracking2 (Meta), from its cameras; the microphone, which the wearer was not asked about, is left out."""

    extension = "XR_FB_face_tracking2"

    def __init__(self, instance: Any, session: Any) -> None:
        xr, calls = openxr.load(), _Calls(instance)
        self._ask, self._destroy = calls("xrGetFaceExpressionWeights2FB"), calls("xrDestroyFaceTracker2FB")
        self._tracker = xr.FaceTracker2FB()
        sources = [xr.FaceTrackingDataSource2FB.VISUAL.value]
        wanted = xr.FaceTrackerCreateInfo2FB(requested_data_sources=sources)
        calls("xrCreateFaceTracker2FB")(session, byref(wanted), byref(self._tracker))
        self._validator, self._moment = MotionValidator(), xr.FaceExpressionInfo2FB()
        self._state = xr.FaceExpressionWeights2FB(
            weights=(c_float * len(vocabulary("fb2").names))(), confidences=(c_float * FB2_CONFIDENCES)()
        )

    def read(self, runtime_time: int, gaze: Sequence[float] | None) -> MotionCode | None:
        """See FaceReader."""
        self._moment.time = runtime_time
        self._ask(self._tracker, byref(self._moment), byref(self._state))
        return read_fb2(self._validator, self._state, gaze)

    def close(self) -> None:
        """See FaceReader."""
        self._destroy(self._tracker)


class AndroidFace:
    """XR_ANDROID_face_tracking (Android XR)."""

    extension = "XR_ANDROID_face_tracking"

    def __init__(self, instance: Any, session: Any) -> None:
        xr, calls = openxr.load(), _Calls(instance)
        self._ask, self._destroy = calls("xrGetFaceStateANDROID"), calls("xrDestroyFaceTrackerANDROID")
        self._tracker = xr.FaceTrackerANDROID()
        wanted = xr.FaceTrackerCreateInfoANDROID()
        calls("xrCreateFaceTrackerANDROID")(session, byref(wanted), byref(self._tracker))
        self._validator, self._moment = MotionValidator(), xr.FaceStateGetInfoANDROID()
        count = len(vocabulary("android").names)
        self._values, self._sure = (c_float * count)(), (c_float * ANDROID_CONFIDENCES)()
        self._state = xr.FaceStateANDROID(
            parameters_capacity_input=count,
            parameters=cast(self._values, POINTER(c_float)),
            region_confidences_capacity_input=ANDROID_CONFIDENCES,
            region_confidences=cast(self._sure, POINTER(c_float)),
        )

    def read(self, runtime_time: int, gaze: Sequence[float] | None) -> MotionCode | None:
        """See FaceReader."""
        self._moment.time = runtime_time
        self._ask(self._tracker, byref(self._moment), byref(self._state))
        return read_android(self._validator, self._state, gaze)

    def close(self) -> None:
        """See FaceReader."""
        self._destroy(self._tracker)


class HtcFace:
    """XR_HTC_facial_tracking (VIVE): a tracker for the eyes and one for the lips; a headset may have either."""

    extension = "XR_HTC_facial_tracking"

    def __init__(self, instance: Any, session: Any) -> None:
        xr, calls = openxr.load(), _Calls(instance)
        self._ask, self._destroy = calls("xrGetFacialExpressionsHTC"), calls("xrDestroyFacialTrackerHTC")
        lips = len(vocabulary("htc").names) - HTC_EYES
        self._validator = MotionValidator()
        self._parts: list[tuple[Any, Any] | None] = []  # of eyes and lips: tracker and what it tells, None where there is none
        absent: Exception | None = None
        for kind, count in ((xr.FacialTrackingTypeHTC.EYE_DEFAULT, HTC_EYES), (xr.FacialTrackingTypeHTC.LIP_DEFAULT, lips)):
            tracker, wanted = xr.FacialTrackerHTC(), xr.FacialTrackerCreateInfoHTC(facial_tracking_type=kind)
            try:
                calls("xrCreateFacialTrackerHTC")(session, byref(wanted), byref(tracker))
            except xr.exception.XrException as error:
                absent = error
                self._parts.append(None)
            else:
                state = xr.FacialExpressionsHTC(expression_weightings=(c_float * count)())
                self._parts.append((tracker, state))
        if absent is not None and not any(self._parts):
            raise absent

    def read(self, runtime_time: int, gaze: Sequence[float] | None) -> MotionCode | None:
        """See FaceReader; the extension has no say in the time: it gives its newest."""
        for part in self._parts:
            if part is not None:
                self._ask(part[0], byref(part[1]))
        eyes, lips = (None if part is None else part[1] for part in self._parts)
        return read_htc(self._validator, eyes, lips, gaze)

    def close(self) -> None:
        """See FaceReader."""
        for part in self._parts:
            if part is not None:
                self._destroy(part[0])


READERS: tuple[type[Fb2Face] | type[AndroidFace] | type[HtcFace], ...] = (Fb2Face, AndroidFace, HtcFace)  # the richest first
EXTENSIONS = tuple(reader.extension for reader in READERS)


def open_face(instance: Any, session: Any, enabled: Collection[str]) -> FaceReader | None:
    """The reader of the first enabled extension whose tracker the system has; None where it has none: heads are shown all the same."""
    xr = openxr.load()
    for reader in READERS:
        if reader.extension in enabled:
            with contextlib.suppress(xr.exception.XrException):
                return reader(instance, session)
    return None
