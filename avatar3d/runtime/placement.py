"""Where heads stand in the room: life-size before the viewer, upright, face to face; how they are moved, and fade when too near."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.choices import MAX_DISTANCE_M, MIN_DISTANCE_M
from avatar3d.errors import InputError
from avatar3d.motion.code import quaternion_matrix
from avatar3d.runtime.views import EyeView

FADE_START_M, FADE_END_M = 0.15, 0.07  # whole from the first, gone at the second: nobody wants a face inside the own
VERTEX_STEP = 7  # every so many vertices are looked at for the distance; they lie some 3 mm apart
SPACING_M = 0.5  # between neighbours' eyes: shoulders are that wide
MAX_HEADS = 6  # six at arm's length already stand half around the viewer
STEEP = 0.98  # of the up component, above which a view has no heading to speak of


@dataclass(frozen=True)
class Placement:
    """room = rotation @ head + translation, metres; no scale: heads are shown life-size."""

    rotation: np.ndarray
    translation: np.ndarray

    def camera(self, room_camera: Camera) -> Camera:
        """A camera of the room, as seen from the avatar's own frame."""
        return room_camera.moved(self.rotation, self.translation)

    def inside(self, point_m: np.ndarray) -> np.ndarray:
        """A point (3,) of the room in the head's frame."""
        return self.rotation.T @ (np.asarray(point_m) - self.translation)

    def outside(self, points_m: np.ndarray) -> np.ndarray:
        """Points (..., 3) of the head's frame in the room."""
        return points_m @ self.rotation.T + self.translation


def turned(yaw_rad: float) -> np.ndarray:
    """(3, 3) rotation about the vertical, from +Z toward +X."""
    sine, cosine = math.sin(yaw_rad), math.cos(yaw_rad)
    return np.array([[cosine, 0.0, sine], [0.0, 1.0, 0.0], [-sine, 0.0, cosine]])


def side_by_side(count: int, distance_m: float) -> list[Placement]:
    """Places of several heads in a frame whose +Z, `distance_m` from its origin, is the viewer: on an arc about the viewer, each
    facing it, the first on the viewer's left. One head stands in the origin. Raises InputError for more than MAX_HEADS.
    """
    if count > MAX_HEADS:
        raise InputError(f"{count} heads were given; at most {MAX_HEADS} stand around one viewer")
    viewer = np.array([0.0, 0.0, distance_m])
    spacing = min(SPACING_M / distance_m, math.pi / MAX_HEADS)
    angles = (np.arange(count) - (count - 1) / 2) * spacing
    return [Placement(turned(-angle), viewer - turned(-angle) @ viewer) for angle in angles]


def half_width_m(count: int) -> float:
    """From the middle to the outer shoulder of so many heads side by side, metres."""
    return count * SPACING_M / 2


def carried(placement: Placement, hand_before: Placement, hand_now: Placement) -> Placement:
    """The place after the hand that holds it went from one pose of the room to another.

    It follows the hand's way and its turn about the vertical: a head that is carried stays upright.
    """
    turn = hand_now.rotation @ hand_before.rotation.T
    upright = turned(math.atan2(turn[0, 2] - turn[2, 0], turn[0, 0] + turn[2, 2]))
    offset = placement.translation - hand_before.translation
    return Placement(upright @ placement.rotation, hand_now.translation + upright @ offset)


def check_distance(distance_m: float) -> None:
    """Raise InputError for a distance at which no head can stand before a viewer, metres."""
    if not MIN_DISTANCE_M <= distance_m <= MAX_DISTANCE_M:
        raise InputError(f"a distance of {distance_m:g} m is outside {MIN_DISTANCE_M:g} to {MAX_DISTANCE_M:g} m")


def in_front_of(views: Sequence[EyeView], distance_m: float, height_m: float = 0.0) -> Placement:
    """The head's eyes at `distance_m` before the viewer's, at their height plus `height_m`, upright and facing the viewer.

    Only the viewer's heading counts, not nodding or leaning. Raises InputError for a distance out of range.
    """
    check_distance(distance_m)
    middle = np.mean([view.position for view in views], axis=0)
    orientation = np.asarray(views[0].orientation, np.float64)
    matrix = quaternion_matrix(orientation / np.linalg.norm(orientation))
    # Looking straight up or down, the top of the head points where the viewer is heading.
    forward = -matrix[:, 2]
    if abs(forward[1]) > STEEP:
        forward = matrix[:, 1] * -np.sign(forward[1])
    rotation = turned(math.atan2(-forward[0], -forward[2]))
    return Placement(rotation, middle + rotation @ np.array([0.0, height_m, -distance_m]))


def nearest_m(vertices: np.ndarray, cameras: Sequence[Camera]) -> float:
    """Metres from the point between the cameras to the nearest of the posed vertices (V, 3) in the same frame."""
    middle = np.mean([camera.center for camera in cameras], axis=0).astype(np.float32)
    offset = vertices[::VERTEX_STEP] - middle
    return float(np.sqrt((offset * offset).sum(axis=1).min()))


def presence(distance_m: float) -> float:
    """1 where the head is drawn whole, 0 where it has faded away, for its distance from the viewer's eyes, metres."""
    return float(np.clip((distance_m - FADE_END_M) / (FADE_START_M - FADE_END_M), 0.0, 1.0))


def avatar_ipd_m(avatar: Avatar) -> float:
    """Between the avatar's eyeball centres, metres: a scale that the viewer can check."""
    return float(np.linalg.norm(avatar.joints["leftEye"] - avatar.joints["rightEye"]))
