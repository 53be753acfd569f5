"""The wearer of the headset as a motion source: head from the eyes' poses, face from XR_FB_face_tracking2 where there is one.

The face's calls are written to the specification and never ran: no runtime at hand offers them. Without them the head idles in
the face and moves as the wearer does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ctypes import byref, c_float
from dataclasses import replace
from typing import Any

import numpy as np

from avatar3d.motion.code import MotionCode, quaternion_matrix
from avatar3d.motion.door import Door
from avatar3d.motion.rotation import inverse, matrix_quaternion, multiply
from avatar3d.motion.sources.openxr import head_pose, read_fb2
from avatar3d.runtime.idle import idle
from avatar3d.runtime.mailbox import Mailbox
from avatar3d.runtime.placement import turned
from avatar3d.runtime.views import EyeView
from avatar3d.xr import openxr

FACE = "XR_FB_face_tracking2"
WEIGHTS, CONFIDENCES = 70, 2  # XrFaceExpression2FB, XrFaceConfidence2FB


class Wearer:
    """A motion source that the headset's loop feeds with `tell`; `read` waits for it."""

    live = True

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._codes: Mailbox[MotionCode] = Mailbox()
        self._clock_ns = clock_ns
        self._home: tuple[np.ndarray, np.ndarray] | None = None  # heading and place of the head when it was first seen
        self._count = 0
        self.ended = False

    def tell(self, views: Sequence[EyeView], face: MotionCode | None) -> None:
        """The eyes as just located, and the face, None where it is not known now."""
        orientation = np.asarray(views[0].orientation, np.float64)
        position = np.mean([view.position for view in views], axis=0)
        rotation, place = head_pose((orientation / np.linalg.norm(orientation)).tolist(), position.tolist())
        if self._home is None:
            forward = quaternion_matrix(rotation)[:, 2]
            self._home = matrix_quaternion(turned(float(np.arctan2(forward[0], forward[2])))), place
        heading, home = self._home
        now_ns = self._clock_ns()
        resting = idle(now_ns / 1e9)
        shown = resting if face is None else face
        self._count += 1
        self._codes.put(
            replace(
                shown,
                rotation=multiply(inverse(heading), rotation),
                translation=quaternion_matrix(inverse(heading)) @ (place - home),
                confidence=np.array([*shown.confidence[:4], 1.0]),
                time_ns=now_ns,
                sequence=self._count,
            )
        )

    def recenter(self) -> None:
        """What is seen next counts as straight ahead."""
        self._home = None

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        """The newest code that was not read yet, waiting for one up to `timeout_s`."""
        return self._codes.take(timeout_s)

    def close(self) -> None:
        """End it."""
        self.ended = True


class FaceTracker:
    """The face tracker of a session whose instance has FACE enabled. Raises pyopenxr's exceptions where there is none."""

    def __init__(self, instance: Any, session: Any) -> None:
        xr = self._xr = openxr.load()
        self._read = openxr.instance_function(instance, "xrGetFaceExpressionWeights2FB", xr.PFN_xrGetFaceExpressionWeights2FB)
        self._destroy = openxr.instance_function(instance, "xrDestroyFaceTracker2FB", xr.PFN_xrDestroyFaceTracker2FB)
        create = openxr.instance_function(instance, "xrCreateFaceTracker2FB", xr.PFN_xrCreateFaceTracker2FB)
        self._tracker = xr.FaceTracker2FB()
        sources = [xr.FaceTrackingDataSource2FB.VISUAL.value]
        openxr.check(create(session, xr.FaceTrackerCreateInfo2FB(requested_data_sources=sources), byref(self._tracker)))
        self._door = Door()
        self._weights = xr.FaceExpressionWeights2FB(weights=(c_float * WEIGHTS)(), confidences=(c_float * CONFIDENCES)())

    def read(self, runtime_time: int) -> MotionCode | None:
        """The face at an XrTime; None while it is not seen."""
        openxr.check(self._read(self._tracker, self._xr.FaceExpressionInfo2FB(time=runtime_time), byref(self._weights)))
        return read_fb2(self._door, self._weights)

    def close(self) -> None:
        """Destroy it."""
        self._destroy(self._tracker)
