"""How a motion code moves a head: weights, eyeballs about their centres, the head about its neck; arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from avatar3d.head.model import EYES, HeadModel
from avatar3d.motion.code import LOOK_MAX_RAD, MotionCode, look_angles, quaternion_matrix
from avatar3d.motion.rotation import eye_rotation

GAZE_MAX_RAD = 1.2 * LOOK_MAX_RAD  # the eye's own range


def gaze_angles(motion: MotionCode) -> np.ndarray:
    """Yaw (toward +X) and pitch (toward +Y) of [left, right] eye, (2,2) radians: gaze plus what the eyeLook weights ask for.

    The sum is limited to GAZE_MAX_RAD.
    """
    angles = np.asarray(motion.gaze, float) + look_angles(motion.weights)
    return np.clip(angles, -GAZE_MAX_RAD, GAZE_MAX_RAD)


def head_transform(motion: MotionCode, joints: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rotation (3,3) and shift (3,) of the points that follow the head wholly: p → R @ p + t, metres."""
    rotation = quaternion_matrix(motion.rotation)
    pivot = np.asarray(joints["neck"], float)
    return rotation, pivot - rotation @ pivot + np.asarray(motion.translation, float)


def pose_vertices(
    vertices: np.ndarray,
    expression: np.ndarray,
    motion: MotionCode,
    head_weight: np.ndarray,
    joints: Mapping[str, np.ndarray],
    vertex_part: np.ndarray,
) -> np.ndarray:
    """Vertices (V,3) f32 in the world: the head frame moved by the motion's pose.

    vertices (V,3): neutral; expression (52,V,3): displacements; head_weight (V,): share of the head's turn about
    joints["neck"]; vertex_part (V,): eyeball vertices (part 1) turn about joints leftEye (x > 0) and rightEye. The
    translation moves the whole bust. Blending is linear, as glTF skinning does it.
    """
    posed = np.array(vertices, np.float32)
    weights = np.asarray(motion.weights, np.float32)
    for index in np.flatnonzero(weights):
        posed += weights[index] * expression[index]
    place_eyes(posed, np.asarray(vertices), motion, joints, vertex_part)
    rotation, shift = head_transform(motion, joints)
    translation = np.asarray(motion.translation, float)
    turned = posed @ rotation.T + shift
    share = np.asarray(head_weight)[:, None]
    return (share * turned + (1 - share) * (posed + translation)).astype(np.float32)


def place_eyes(
    posed: np.ndarray, neutral: np.ndarray, motion: MotionCode, joints: Mapping[str, np.ndarray], vertex_part: np.ndarray
) -> None:
    """Turn the eyeball vertices of `posed` (V,3) in place to the motion's gaze, from their places in `neutral`."""
    eyes = np.flatnonzero(vertex_part == EYES)
    middle = (np.asarray(joints["leftEye"])[0] + np.asarray(joints["rightEye"])[0]) / 2
    for name, on_side, (yaw, pitch) in zip(
        ("leftEye", "rightEye"), (neutral[eyes, 0] > middle, neutral[eyes, 0] <= middle), gaze_angles(motion), strict=True
    ):
        index = eyes[on_side]
        centre = np.asarray(joints[name])
        posed[index] = (neutral[index] - centre) @ eye_rotation(yaw, pitch).T + centre


def pose(model: HeadModel, neutral: np.ndarray, motion: MotionCode) -> np.ndarray:
    """`pose_vertices` of a head of the model with neutral vertices (V,3)."""
    return pose_vertices(neutral, model.expression, motion, model.head_weight, model.joints(neutral), model.vertex_part)
