"""How a motion code moves a head of the model: weights, eyeballs about their centres, the head about its joint."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from avatar3d.head.model import HeadModel

# Eye turn at an eyeLook weight of one, radians: ARKit's own range (about 30° sideways, 25° up, 30° down).
LOOK_SIDE_RAD, LOOK_UP_RAD, LOOK_DOWN_RAD = np.radians(30.0), np.radians(25.0), np.radians(30.0)


class Motion(Protocol):
    """What `pose` reads of a motion code (see avatar3d.motion.code.MotionCode)."""

    weights: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    gaze: np.ndarray


def rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """Rotation matrix (3,3) of a unit quaternion xyzw."""
    x, y, z, w = np.asarray(quaternion, float)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])


def eye_rotation(yaw_rad: float, pitch_rad: float) -> np.ndarray:
    """Rotation (3,3) that turns +Z by yaw toward +X, then by pitch toward +Y."""
    cy, sy, cp, sp = np.cos(yaw_rad), np.sin(yaw_rad), np.cos(pitch_rad), np.sin(pitch_rad)
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cp, sp], [0, -sp, cp]])
    return about_y @ about_x


def look_angles(model: HeadModel, weights: np.ndarray) -> np.ndarray:
    """Yaw and pitch (2,2) of [left, right] eye, radians, that the eight eyeLook weights ask for."""
    value = {name: float(weights[k]) for k, name in enumerate(model.expression_names) if name.startswith("eyeLook")}
    pitch = [LOOK_UP_RAD * value[f"eyeLookUp{s}"] - LOOK_DOWN_RAD * value[f"eyeLookDown{s}"] for s in ("Left", "Right")]
    # Out is away from the nose: +X for the left eye.
    left = LOOK_SIDE_RAD * (value["eyeLookOutLeft"] - value["eyeLookInLeft"])
    right = LOOK_SIDE_RAD * (value["eyeLookInRight"] - value["eyeLookOutRight"])
    return np.array([[left, pitch[0]], [right, pitch[1]]])


def gaze_angles(model: HeadModel, motion: Motion) -> np.ndarray:
    """Yaw and pitch (2,2) of [left, right] eye: the measured gaze where there is one, else the eyeLook weights."""
    gaze = np.asarray(motion.gaze, float)
    return gaze if np.any(gaze) else look_angles(model, np.asarray(motion.weights))


def pose(model: HeadModel, neutral: np.ndarray, motion: Motion) -> np.ndarray:
    """Posed vertices (V,3) f32 of a neutral head (V,3): expression, gaze, then head turn and translation, metres."""
    vertices = neutral + model.expression_offsets(motion.weights)
    joints = model.joint_positions(neutral)
    for index, centre, (yaw, pitch) in zip(model.eye_vertices, model.eye_centres(neutral), gaze_angles(model, motion), strict=True):
        if yaw or pitch:
            vertices[index] = (vertices[index] - centre) @ eye_rotation(yaw, pitch).T + centre
    rotation = rotation_matrix(motion.rotation)
    pivot = joints[model.joint_names.index("head")]
    turned = (vertices - pivot) @ rotation.T + pivot
    share = model.head_weight[:, None]
    posed = vertices + share * (turned - vertices) + np.asarray(motion.translation)
    return posed.astype(np.float32)
