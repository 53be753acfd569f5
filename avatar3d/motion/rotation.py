"""Unit quaternions xyzw as arrays: product, inverse, logarithm, blending, and to and from matrices."""

from __future__ import annotations

import math

import numpy as np

IDENTITY = np.array([0.0, 0.0, 0.0, 1.0])
IDENTITY.setflags(write=False)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(4,) the rotation b followed by a."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return np.array([
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ])  # fmt: skip


def inverse(rotation: np.ndarray) -> np.ndarray:
    """(4,) the rotation back."""
    return rotation * (-1.0, -1.0, -1.0, 1.0)


def logarithm(rotation: np.ndarray) -> np.ndarray:
    """(3,) rotation vector, radians, of at most half a turn."""
    vector, scalar = rotation[:3], rotation[3]
    if scalar < 0:
        vector, scalar = -vector, -scalar
    length = math.sqrt(float(vector @ vector))
    if length < 1e-9:
        return 2.0 * vector
    return vector * (2.0 * math.atan2(length, scalar) / length)


def exponential(vector: np.ndarray) -> np.ndarray:
    """(4,) the rotation by a rotation vector, radians; inverse of `logarithm`."""
    angle = math.sqrt(float(vector @ vector))
    if angle < 1e-9:
        return np.array([*(0.5 * vector), 1.0])
    return np.array([*(vector * (math.sin(angle / 2) / angle)), math.cos(angle / 2)])


def between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(3,) rotation vector that turns a into b, applied on the left: b = exponential(between(a, b)) · a."""
    return logarithm(multiply(b, inverse(a)))


def blend(a: np.ndarray, b: np.ndarray, share: float) -> np.ndarray:
    """(4,) the rotation a share of the way from a (0) to b (1), along the shorter arc."""
    mixed = multiply(exponential(share * between(a, b)), a)
    return mixed / np.linalg.norm(mixed)


def matrix_quaternion(matrix: np.ndarray) -> np.ndarray:
    """(4,) unit quaternion of a (3, 3) rotation matrix (Shepperd 1978: the largest component first, so no cancellation)."""
    m = np.asarray(matrix, dtype=np.float64)
    squares = np.array([
        1 + m[0, 0] - m[1, 1] - m[2, 2], 1 - m[0, 0] + m[1, 1] - m[2, 2], 1 - m[0, 0] - m[1, 1] + m[2, 2], 1 + np.trace(m),
    ])  # fmt: skip
    largest = int(squares.argmax())
    table = np.array([
        [squares[0], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[2, 1] - m[1, 2]],
        [m[0, 1] + m[1, 0], squares[1], m[1, 2] + m[2, 1], m[0, 2] - m[2, 0]],
        [m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], squares[2], m[1, 0] - m[0, 1]],
        [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], squares[3]],
    ])  # fmt: skip
    row = table[largest]
    return row / np.linalg.norm(row)


def eye_rotation(yaw_rad: float, pitch_rad: float) -> np.ndarray:
    """Rotation (3,3) that tilts +Z by pitch toward +Y, then turns it by yaw toward +X."""
    cy, sy, cp, sp = np.cos(yaw_rad), np.sin(yaw_rad), np.cos(pitch_rad), np.sin(pitch_rad)
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cp, sp], [0, -sp, cp]])
    return about_y @ about_x
