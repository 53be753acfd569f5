"""Smooth closed curves through values around an axis, some of which are missing and some far off: a neckline, the edge of a hat."""

from __future__ import annotations

import numpy as np

ROUNDS = 12


def closed_curve(
    values: np.ndarray, weight: np.ndarray, pull: np.ndarray | float, harmonics: int, bend: float, stray: float
) -> np.ndarray:
    """(C,) of the given number of harmonics through values (C,) at equal steps around, each with its weight (C,).

    pull: (C,) weight of 0. bend: what bending costs, times the fourth power of the harmonic. stray: how far off a value counts for
    half. Iteratively reweighted least squares with Cauchy's weights (Holland and Welsch 1977, section 2).
    """
    angle = (np.arange(len(values)) / len(values) * 2 - 1)[:, None] * np.pi * np.arange(harmonics + 1)
    basis = np.concatenate([np.cos(angle), np.sin(angle[:, 1:])], axis=1)
    order = np.r_[np.arange(harmonics + 1), np.arange(1, harmonics + 1)]
    stiff = np.diag(bend * order.astype(float) ** 4 + 1e-6)
    curve, robust = np.zeros(len(values)), np.ones(len(values))
    for _ in range(ROUNDS):
        held = weight * robust
        system = basis.T @ ((held + pull)[:, None] * basis) + stiff
        curve = basis @ np.linalg.solve(system, basis.T @ (held * values))
        robust = 1 / (1 + ((values - curve) / stray) ** 2)
    return curve
