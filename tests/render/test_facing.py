"""Which faces an eye may see: those whose plane it is over, and those seen from the edge."""

from __future__ import annotations

import numpy as np

from avatar3d.render.facing import EDGE_ON_M3, face_planes, heights

TRIANGLE = np.array([[0, 0, 0], [0.01, 0, 0], [0, 0.01, 0]], np.float32)
FACES = np.array([[0, 1, 2], [0, 2, 1]])


def test_height_is_distance_times_twice_the_area() -> None:
    planes = face_planes(TRIANGLE + np.float32(0.1), FACES)
    assert np.allclose(heights(planes, np.array([0.3, 0.0, 0.6])), [0.5e-4, -0.5e-4], rtol=1e-4)


def test_an_eye_in_the_plane_is_on_both_sides() -> None:
    planes = face_planes(TRIANGLE + np.float32(0.1), FACES)
    above = heights(planes, np.array([0.9, 0.7, 0.1]))
    assert (np.abs(above) < EDGE_ON_M3).all()
