"""A camera that keeps a head in the picture over all its motion; draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.head.rig import head_transform
from avatar3d.motion.code import MotionCode

MARGIN = 0.04  # of the picture's sides: a jaw opens, hair flies
HEAD_WEIGHT = 0.99  # of the vertices that follow the head wholly
DIRECTIONS = 128  # in which the head's outermost points are taken; its outline between them is well inside MARGIN
NEAREST_M = 0.2  # from the camera's plane; a head that comes nearer, or passes the camera, is left out of account
WIDEST = 4.0  # times the height asked for; a head that roams further is let go rather than shown tiny
STEPS = 4  # the camera moves aside, which changes the perspective a little: a third step moves it by less than a millimetre

Look = Callable[[np.ndarray, float], Camera]


def outermost_points(avatar: Avatar) -> np.ndarray:
    """(N, 3) outermost points of the head and its hair, metres, neutral head frame; N at most DIRECTIONS."""
    points = [avatar.vertices[avatar.head_weight > HEAD_WEIGHT]]
    if avatar.hair is not None:
        points.append(avatar.hair.base + avatar.hair.levels.max() * avatar.hair.extent)
    cloud = np.concatenate(points).astype(np.float64)
    # Even directions on the sphere (golden spiral).
    index = np.arange(DIRECTIONS) + 0.5
    height, turn = 1 - 2 * index / DIRECTIONS, np.pi * (1 + 5**0.5) * index
    across = np.sqrt(1 - height**2)
    directions = np.stack([across * np.cos(turn), height, across * np.sin(turn)])
    return cloud[np.unique((cloud @ directions).argmax(axis=0))]


def frame(avatar: Avatar, motions: Sequence[MotionCode], look: Look, target: Sequence[float], view_height_m: float) -> Camera:
    """The camera `look(target, view_height_m)`, moved aside and widened as little as keeps the head inside in all motions.

    look: from a point to look at (3,), metres, and the height that the picture covers there, to a camera of one direction and
    distance.
    """
    head = outermost_points(avatar)
    aim, height_m = np.array(target, float), view_height_m
    camera = look(aim, height_m)
    for _ in range(STEPS):
        low, high = _extent(head, avatar, motions, camera)
        size = np.array([camera.width, camera.height], float)
        room = size * (1 - 2 * MARGIN)
        if not np.isfinite(low).all():  # no motion keeps the head before the camera
            break
        scale = min(max(1.0, float(((high - low) / room).max())), WIDEST * view_height_m / height_m)
        # Where the head is out of the middle by more than the room left about it, the picture follows it.
        middle, slack = (low + high) / 2 - size / 2, np.maximum(room * scale - (high - low), 0.0) / 2
        aside = np.sign(middle) * np.maximum(np.abs(middle) - slack, 0.0) * height_m / camera.height
        aim = aim + camera.rotation[:2].T @ aside
        height_m *= scale
        camera = look(aim, height_m)
    return camera


def _extent(head: np.ndarray, avatar: Avatar, motions: Sequence[MotionCode], camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest pixel coordinates (2,) of the points over all motions."""
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for motion in motions:
        rotation, shift = head_transform(motion, avatar.joints)
        pixels, depth = camera.project(head @ rotation.T + shift)
        if depth.min() < NEAREST_M:
            continue
        low, high = np.minimum(low, pixels.min(axis=0)), np.maximum(high, pixels.max(axis=0))
    return low, high
