"""The viewer before the window: circles about the heads with the mouse; pure, knows no window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from avatar3d.choices import MAX_DISTANCE_M, MIN_DISTANCE_M
from avatar3d.motion.rotation import matrix_quaternion
from avatar3d.runtime.views import EyeView

HALF_HEIGHT = 0.3  # tangent of half the window's vertical angle: a laptop's screen seen from an arm's length
TARGET_M = (0.0, -0.03, 0.0)  # a head's middle lies under its eyes
TURN_RAD_PX = 0.006
MAX_PITCH_RAD = 1.4
ZOOM_STEP = 0.9  # of the distance, for a notch of the wheel


@dataclass(frozen=True)
class Orbit:
    """yaw_rad toward the head's left (+X), pitch_rad from above, distance_m of the eyes from the target (3,) of the room."""

    yaw_rad: float = 0.0
    pitch_rad: float = 0.0
    distance_m: float = 0.8
    target_m: tuple[float, float, float] = TARGET_M

    def dragged(self, right_px: float, down_px: float) -> Orbit:
        """After the mouse drew the head along, pixels."""
        pitch = self.pitch_rad + down_px * TURN_RAD_PX
        return replace(
            self,
            yaw_rad=self.yaw_rad - right_px * TURN_RAD_PX,
            pitch_rad=float(np.clip(pitch, -MAX_PITCH_RAD, MAX_PITCH_RAD)),
        )

    def zoomed(self, notches: float) -> Orbit:
        """After the wheel turned; positive comes nearer."""
        distance = self.distance_m * ZOOM_STEP**notches
        return replace(self, distance_m=float(np.clip(distance, MIN_DISTANCE_M, MAX_DISTANCE_M)))

    @property
    def axes(self) -> np.ndarray:
        """(3, 3) columns: right, up and backward of the viewer, in the room."""
        sy, cy, sp, cp = np.sin(self.yaw_rad), np.cos(self.yaw_rad), np.sin(self.pitch_rad), np.cos(self.pitch_rad)
        backward, right = np.array([sy * cp, sp, cy * cp]), np.array([cy, 0.0, -sy])
        return np.stack([right, np.cross(backward, right), backward], axis=1)

    def eyes(self, aspect: float, ipd_m: float | None = None) -> list[EyeView]:
        """One eye, or with an IPD the left and the right one, whose pictures have this width for a height of 1.

        Both look through one window that stands at the target, so that what is there lies in the plane of the screen.
        """
        axes = self.axes
        x, y, z, w = matrix_quaternion(axes).tolist()
        middle = np.asarray(self.target_m) + self.distance_m * axes[:, 2]
        half_width = aspect * HALF_HEIGHT
        views = []
        for side in (0.0,) if ipd_m is None else (-1.0, 1.0):
            offset = side * (ipd_m or 0.0) / 2
            shift = offset / self.distance_m
            tangents = (-half_width - shift, half_width - shift, HALF_HEIGHT, -HALF_HEIGHT)
            left, right, up, down = np.arctan(tangents).tolist()
            px, py, pz = (middle + offset * axes[:, 0]).tolist()
            views.append(EyeView((x, y, z, w), (px, py, pz), (left, right, up, down)))
        return views
