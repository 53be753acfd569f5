"""What fits and trackers solve with: least squares inside a box by coordinate descent, in machine code, and a pose's derivative."""

from __future__ import annotations

import numpy as np

from avatar3d.jit import njit


@njit()
def descend(
    gram: np.ndarray, linear: np.ndarray, coefficients: np.ndarray, lower: np.ndarray, upper: np.ndarray, sweeps: int
) -> None:
    """Projected coordinate descent on ½ wᵀGw − gᵀw inside a box, in place."""
    count = len(coefficients)
    gradient = linear - gram @ coefficients
    for _ in range(sweeps):
        largest = 0.0
        for k in range(count):
            value = min(max(coefficients[k] + gradient[k] / gram[k, k], lower[k]), upper[k])
            step = value - coefficients[k]
            if step != 0.0:
                coefficients[k] = value
                for i in range(count):
                    gradient[i] -= gram[i, k] * step
                largest = max(largest, abs(step))
        if largest < 1e-5:
            break


def pose_rows(turned: np.ndarray, slope: np.ndarray, px_per_length: np.ndarray) -> np.ndarray:
    """(N, 2, 6) derivative of pixels by a small turn (left of the rotation) and a shift of the translation.

    turned: (N, 3) points turned to the camera's axes, not shifted. slope: (N, 2) x and y over depth of the shifted points.
    px_per_length: (N, 1) or (N, 2) focal lengths over depth.
    """
    move = np.zeros((len(turned), 3, 6))
    move[:, 0, 1], move[:, 0, 2] = turned[:, 2], -turned[:, 1]
    move[:, 1, 0], move[:, 1, 2] = -turned[:, 2], turned[:, 0]
    move[:, 2, 0], move[:, 2, 1] = turned[:, 1], -turned[:, 0]
    move[:, :, 3:] = np.eye(3)
    return (move[:, :2] - slope[..., None] * move[:, 2:]) * px_per_length[..., None]
