"""The wearer of the headset as a motion source: head from the eyes' poses, face and gaze from its trackers where it has them.

Without them the head idles in the face and moves as the wearer does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from avatar3d.motion.code import MotionCode, quaternion_matrix
from avatar3d.motion.rotation import inverse, matrix_quaternion, multiply
from avatar3d.motion.sources.openxr import gaze_angles, head_pose
from avatar3d.runtime.gaze import with_gaze
from avatar3d.runtime.idle import idle
from avatar3d.runtime.mailbox import Mailbox
from avatar3d.runtime.placement import turned
from avatar3d.runtime.views import EyeView


class Wearer:
    """A motion source that the headset's loop feeds with `tell`; `read` waits for it."""

    live = True

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._codes: Mailbox[MotionCode] = Mailbox()
        self._clock_ns = clock_ns
        self._home: tuple[np.ndarray, np.ndarray] | None = None  # heading and place of the head when it was first seen
        self._count = 0
        self.ended = False

    def tell(self, views: Sequence[EyeView], face: MotionCode | None, gaze: Sequence[float] | None = None) -> None:
        """The eyes as just located, the face with its gaze, None where it is not known now, and the gaze alone (quaternion xyzw
        in the head's space), for a headset that knows eyes but no face."""
        orientation = np.asarray(views[0].orientation, np.float64)
        position = np.mean([view.position for view in views], axis=0)
        rotation, place = head_pose((orientation / np.linalg.norm(orientation)).tolist(), position.tolist())
        if self._home is None:
            forward = quaternion_matrix(rotation)[:, 2]
            self._home = matrix_quaternion(turned(float(np.arctan2(forward[0], forward[2])))), place
        heading, home = self._home
        now_ns = self._clock_ns()
        shown = face
        if shown is None:
            shown = idle(now_ns / 1e9)
            angles = None if gaze is None else gaze_angles(gaze)
            shown = shown if angles is None else with_gaze(shown, angles)
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
