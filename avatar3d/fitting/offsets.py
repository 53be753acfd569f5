"""What the head model's shapes cannot say of one face: a smooth field of offsets that brings the landmarks where they were seen.

A Gaussian process (Rasmussen and Williams 2006, equation 2.23) over places on the template, one for each axis.
"""

from __future__ import annotations

import numpy as np

# Two scales of what a linear model misses, mm: the set of a jaw or forehead, and the shape of one feature.
LENGTHS_MM, AMPLITUDES_MM = (35.0, 11.0), (4.0, 2.0)


def offset_field(places: np.ndarray, residual: np.ndarray, weight: np.ndarray, at: np.ndarray, noise_mm: float) -> np.ndarray:
    """(N, D) mm offsets at places `at` (N, 3) mm on the template.

    places: (K, 3) mm, the landmarks on the template. residual: (K, D) mm, seen less modelled, along any axes. weight: (K,)
    relative trust in them. noise_mm: of a residual of weight 1.
    """
    among, toward = _kernel(places, places), _kernel(at, places)
    return toward @ np.linalg.solve(among + np.diag((noise_mm / np.maximum(weight, 1e-3)) ** 2), residual)


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(A, B) covariance, mm²."""
    square = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T
    return sum(
        amplitude**2 * np.exp(-0.5 * np.maximum(square, 0) / length**2)
        for length, amplitude in zip(LENGTHS_MM, AMPLITUDES_MM, strict=True)
    )
