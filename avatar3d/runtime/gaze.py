"""Eye contact: turns a head's eyes to a point such as the viewer, within what eyes can do, at the speed of eyes; pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from avatar3d.head.rig import gaze_angles, head_transform
from avatar3d.motion.code import LOOK_INDICES, LOOK_MAX_RAD, MotionCode, look_angles
from avatar3d.runtime.idle import smooth_step

EASY_RAD = 0.5  # eyes turn as far as that without the head; beyond, contact fades
LOST_RAD = 0.75  # and from here on nobody would try
OWN_RAD = 0.035  # what is kept of the source's own eye movement: 3 cm at 0.8 m, from eye to eye to mouth
FOLLOW_S = 0.05  # time constant
FASTEST_RAD_S = 7.0  # of a saccade of 15° (Carpenter 1988)


@dataclass(frozen=True)
class Gaze:
    """angles: (2, 2) of [left, right] eye × (yaw, pitch), radians, relative to the head. time_s: when."""

    angles: np.ndarray
    time_s: float


def contact_angles(motion: MotionCode, joints: Mapping[str, np.ndarray], target_m: np.ndarray) -> np.ndarray:
    """(2, 2) yaw and pitch of [left, right] eye, radians, that look at a point (3,) of the world the motion moves the head in."""
    rotation, shift = head_transform(motion, joints)
    angles = np.zeros((2, 2))
    for eye, name in enumerate(("leftEye", "rightEye")):
        x, y, z = rotation.T @ (np.asarray(target_m) - shift) - np.asarray(joints[name], float)
        angles[eye] = math.atan2(x, z), math.atan2(y, math.hypot(x, z))
    return angles


def wanted_angles(motion: MotionCode, joints: Mapping[str, np.ndarray], target_m: np.ndarray) -> np.ndarray:
    """(2, 2) angles of eyes that look at a point as far as they can, with a little of their own movement kept (of both together).

    Where the point is too far to the side, they go on as the source has them.
    """
    own, contact = gaze_angles(motion), contact_angles(motion, joints, target_m)
    farthest = float(np.hypot(contact[:, 0], contact[:, 1]).max())
    share = smooth_step((LOST_RAD - farthest) / (LOST_RAD - EASY_RAD))
    held = np.clip(contact, -EASY_RAD, EASY_RAD) + np.clip(own.mean(axis=0), -OWN_RAD, OWN_RAD)
    return share * held + (1 - share) * own


def follow(gaze: Gaze | None, wanted: np.ndarray, time_s: float) -> Gaze:
    """The eyes a moment later, on their way to the wanted angles (2, 2); at the first call they are there."""
    if gaze is None:
        return Gaze(wanted, time_s)
    seconds = max(0.0, time_s - gaze.time_s)
    step = (1 - math.exp(-seconds / FOLLOW_S)) * (wanted - gaze.angles)
    limit = FASTEST_RAD_S * seconds
    return Gaze(gaze.angles + np.clip(step, -limit, limit), time_s)


def with_gaze(motion: MotionCode, angles: np.ndarray) -> MotionCode:
    """The motion with its eyes at (2, 2) angles; the eyeLook weights tell of them, so that the lids follow."""
    weights = np.array(motion.weights)
    for eye, (down, inward, outward, up) in enumerate(LOOK_INDICES):
        yaw, pitch = angles[eye] / LOOK_MAX_RAD
        away = yaw if eye == 0 else -yaw  # the left eye's way out is +X
        weights[[down, inward, outward, up]] = np.clip([-pitch, -away, away, pitch], 0.0, 1.0)
    return replace(motion, weights=weights, gaze=angles - look_angles(weights))
