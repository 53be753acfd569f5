"""OpenXR poses and views as arrays and cameras; pure, knows no runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.camera import Camera
from avatar3d.motion.code import quaternion_matrix

NEAR_M = 0.03  # nearer than the fade, so that nothing is cut away while it is seen
FAR_M = 30.0


@dataclass(frozen=True)
class EyeView:
    """One eye as the runtime tells it, in the session's space.

    orientation: (4,) unit quaternion xyzw. position: (3,) metres. angles: (left, right, up, down) of the frustum, radians,
    left and down negative for a centred axis (XrFovf).
    """

    orientation: tuple[float, float, float, float]
    position: tuple[float, float, float]
    angles: tuple[float, float, float, float]


def camera_of(view: EyeView, width: int, height: int, name: str = "") -> Camera:
    """The camera of an eye that draws width × height pixels. Raises InputError for an empty frustum.

    A runtime may give a quaternion that is not quite of length one, as floats go; it is normalised.
    """
    orientation = np.asarray(view.orientation, np.float64)
    rotation = quaternion_matrix(orientation / np.linalg.norm(orientation))
    left, right, up, down = np.tan(view.angles)
    return Camera.from_fov(
        (left, right, up, down), rotation, np.asarray(view.position), width, height, near_m=NEAR_M, far_m=FAR_M, name=name
    )


def eye_distance_m(views: Sequence[EyeView]) -> float:
    """Between the first and the last eye, metres."""
    return float(np.linalg.norm(np.subtract(views[-1].position, views[0].position)))
