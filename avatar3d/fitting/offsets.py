"""What the head model's shapes cannot say of one face: a smooth field of offsets that brings the landmarks where they were seen.

A Gaussian process (Rasmussen and Williams 2006, equation 2.23) over places on the template, one for each axis of the camera.
"""

from __future__ import annotations

import numpy as np

# Two scales of what a linear model misses, mm: the set of a jaw or forehead, and the shape of one feature.
LENGTHS_MM, AMPLITUDES_MM = (35.0, 11.0), (4.0, 2.0)
PLANE_NOISE_MM = 0.5  # of a landmark in the picture
DEPTH_NOISE_MM = 3.0  # of the network's z; neighbours err together, so each counts for little


def offset_field(
    places: np.ndarray, residual: np.ndarray, weight: np.ndarray, depth_weight: np.ndarray, rotation: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """(N, 3) mm offsets in the head frame at places `at` (N, 3) mm on the template.

    places: (K, 3) mm, the landmarks on the template. residual: (K, 3) mm, seen less modelled, in the camera's axes.
    weight, depth_weight: (K,) relative trust in the picture's plane and along its axis. rotation: (3, 3) head to camera.
    """
    among, toward = _kernel(places, places), _kernel(at, places)
    plane, deep = (
        toward @ np.linalg.solve(among + np.diag((noise / np.maximum(trust, 1e-3)) ** 2), values)
        for noise, trust, values in (
            (PLANE_NOISE_MM, weight, residual[:, :2]),
            (DEPTH_NOISE_MM, depth_weight, residual[:, 2:]),
        )
    )
    return np.concatenate([plane, deep], axis=1) @ rotation


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(A, B) covariance, mm²."""
    square = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T
    return sum(
        amplitude**2 * np.exp(-0.5 * np.maximum(square, 0) / length**2)
        for length, amplitude in zip(LENGTHS_MM, AMPLITUDES_MM, strict=True)
    )
