"""Least squares inside a box by coordinate descent: the fit's inner loop, in machine code."""

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
