"""Closed curves: what goes around comes back where it began, follows what is seen, and leaves out what is far off."""

from __future__ import annotations

import numpy as np

from avatar3d.enrolment.worn.closed_curve import closed_curve

COUNT = 64
ANGLE = (np.arange(COUNT) / COUNT * 2 - 1) * np.pi


def fitted(values: np.ndarray, weight: np.ndarray, pull: float = 1e-3) -> np.ndarray:
    return closed_curve(values, weight, pull, harmonics=8, bend=0.002, stray=2.0)


def test_an_even_curve_is_met_and_closes():
    wanted = 5 * np.cos(ANGLE - 0.7) + 2 * np.sin(2 * ANGLE)
    curve = fitted(wanted, np.ones(COUNT))
    assert np.abs(curve - wanted).max() < 0.2
    assert abs(curve[0] - curve[-1]) < 1.5, "no jump where it closes"


def test_a_few_values_far_off_do_not_bend_it():
    wanted = 4 * np.cos(ANGLE)
    values = wanted.copy()
    values[30:34] -= 25
    assert np.abs(fitted(values, np.ones(COUNT)) - wanted).max() < 1.5


def test_where_nothing_is_known_it_goes_on_smoothly_and_is_drawn_to_nothing():
    values, weight = np.where(np.abs(ANGLE) < 1.2, 6.0, 0.0), (np.abs(ANGLE) < 1.2).astype(float)
    curve = fitted(values, weight, pull=0.05)
    assert np.abs(curve[np.abs(ANGLE) < 1.0] - 6).max() < 1.0
    assert abs(curve[0]) < 4
    assert np.abs(np.diff(curve)).max() < 1.5
