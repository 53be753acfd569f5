"""OpenXR poses and views as arrays and cameras; pure, knows no runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from avatar3d.camera import Camera
from avatar3d.motion.code import quaternion_matrix

NEAR_M = 0.03  # nearer than the fade, so that nothing is cut away while it is seen
FAR_M = 30.0
CROP_STEP_PX = 16  # sizes are multiples of it, so that they do not change with every breath
CROP_MARGIN_PX = 8  # between the head and the edge of what is drawn: points are a sample, and filters reach a pixel


@dataclass(frozen=True)
class EyeView:
    """One eye as the runtime tells it, in the session's space: where it is and what it sees, before it is a Camera of some pixels.

    orientation: (4,) unit quaternion xyzw. position: (3,) metres. angles: (left, right, up, down) of the frustum, radians,
    left and down negative for a centred axis (XrFovf).
    """

    orientation: tuple[float, float, float, float]
    position: tuple[float, float, float]
    angles: tuple[float, float, float, float]


def is_rotation(orientation: Sequence[float]) -> bool:
    """Whether four numbers are a quaternion that can be normalised; runtimes give zeros for what they do not know yet."""
    length = float(np.linalg.norm(np.asarray(orientation, np.float64)))
    return 0.5 < length < 2.0


def is_view(view: EyeView) -> bool:
    """Whether an eye's pose is one, and its frustum not empty."""
    left, right, up, down = view.angles
    numbers = np.isfinite([*view.angles, *view.position]).all()
    return bool(numbers and left != right and up != down and is_rotation(view.orientation))


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


def cropped(camera: Camera, points: np.ndarray, margin_px: int = CROP_MARGIN_PX) -> Camera | None:
    """The part of a picture that holds all points (N, 3) of the world, on the same pixel grid; None where none is in sight.

    The whole camera where a point is nearer than its near plane, as that one may be anywhere.
    """
    # In single precision, a thousandth of a pixel, and row by row: every frame does this for thousands of points.
    matrix = (camera.intrinsics @ camera.rotation).astype(np.float32)
    across, down, depth = matrix @ points.astype(np.float32, copy=False).T
    origin = camera.intrinsics @ camera.translation
    depth += np.float32(origin[2])
    if depth.min() < camera.near_m:
        return None if depth.max() < camera.near_m else camera
    across, down = (across + np.float32(origin[0])) / depth, (down + np.float32(origin[1])) / depth
    corner = np.floor([across.min(), down.min()]).astype(int) - margin_px
    left, top = np.maximum(corner, 0).tolist()
    far = np.array([across.max(), down.max()], np.float64)
    size = np.ceil((far - (left, top) + margin_px) / CROP_STEP_PX).astype(int) * CROP_STEP_PX
    right, bottom = np.minimum(np.add((left, top), size), (camera.width, camera.height)).tolist()
    if right <= left or bottom <= top:
        return None
    intrinsics = np.array(camera.intrinsics)
    intrinsics[:2, 2] -= left, top
    return replace(camera, width=right - left, height=bottom - top, intrinsics=intrinsics)


def equal_sized(parts: Sequence[Camera | None], whole: Sequence[Camera]) -> list[Camera | None]:
    """Parts of whole pictures of one size, each grown or moved within its picture to the size of the largest; None stays."""
    sizes = [(part.width, part.height) for part in parts if part is not None]
    if len(set(sizes)) < 2:
        return list(parts)
    size = np.max(sizes, axis=0)
    grown: list[Camera | None] = []
    for part, picture in zip(parts, whole, strict=True):
        if part is None:
            grown.append(None)
            continue
        corner = np.rint(picture.intrinsics[:2, 2] - part.intrinsics[:2, 2])
        intrinsics = np.array(picture.intrinsics)
        intrinsics[:2, 2] -= np.minimum(corner, (picture.width, picture.height) - size)
        grown.append(replace(part, width=int(size[0]), height=int(size[1]), intrinsics=intrinsics))
    return grown


def angles_of(camera: Camera) -> tuple[float, float, float, float]:
    """(left, right, up, down) of a camera's frustum, radians, as OpenXR counts them."""
    left, right, up, down = np.arctan(camera.fov_tangents()).tolist()
    return left, right, up, down


def eye_distance_m(views: Sequence[EyeView]) -> float:
    """Between the first and the last eye, metres."""
    return float(np.linalg.norm(np.subtract(views[-1].position, views[0].position)))


def gaze_point(views: Sequence[EyeView], gaze: Sequence[float], distance_m: float) -> np.ndarray:
    """(3,) point of the session's space that the eyes look at: along the gaze of the head, so far from between the eyes.

    gaze: quaternion xyzw in the head's space, looking along −Z (XR_EXT_eye_gaze_interaction). The head's orientation is taken to
    be the mean of the eyes'.
    """
    turns = np.array([view.orientation for view in views], np.float64)
    turns *= np.where(turns @ turns[0] < 0, -1, 1)[:, None]  # q and −q are one orientation
    head = quaternion_matrix(turns.sum(0) / np.linalg.norm(turns.sum(0)))
    own = np.asarray(gaze, np.float64)
    direction = -(head @ quaternion_matrix(own / np.linalg.norm(own)))[:, 2]
    return np.mean([view.position for view in views], axis=0) + distance_m * direction


def tangents_of(camera: Camera, point_m: np.ndarray) -> tuple[float, float]:
    """Tangents (x right, y up) at which a camera sees a point (3,) of its world; those of its axis for a point behind it."""
    x, y, z = camera.to_camera(np.asarray(point_m, np.float64)).tolist()
    return (x / z, -y / z) if z > 0 else (0.0, 0.0)
