"""Which faces an eye may see: those whose plane it is over, and those seen from the edge."""

from __future__ import annotations

import numpy as np

from avatar3d.camera import Camera
from avatar3d.rendering.culling.backface import EDGE_ON_PX2, edge_on_m3, face_planes, heights

TRIANGLE = np.array([[0, 0, 0], [0.01, 0, 0], [0, 0.01, 0]], np.float32)
FACES = np.array([[0, 1, 2], [0, 2, 1]])


def test_height_is_distance_times_twice_the_area() -> None:
    planes = face_planes(TRIANGLE + np.float32(0.1), FACES)
    assert np.allclose(heights(planes, np.array([0.3, 0.0, 0.6])), [0.5e-4, -0.5e-4], rtol=1e-4)


def test_an_eye_in_the_plane_is_on_both_sides() -> None:
    planes = face_planes(TRIANGLE + np.float32(0.1), FACES)
    above = heights(planes, np.array([0.9, 0.7, 0.1]))
    camera = Camera.orbit(0.0, distance_m=0.6)
    assert (np.abs(above) < edge_on_m3(camera, 0.5)).all()


def test_what_counts_as_edge_on_is_told_by_the_area_on_the_screen() -> None:
    camera = Camera.orbit(0.4, 0.2, distance_m=0.7, width=300, height=200)
    rng = np.random.default_rng(0)
    corners = rng.normal(0, 0.02, (200, 3, 3)).astype(np.float32)
    pixels, depth = camera.project(corners)
    (ax, ay), (bx, by) = (pixels[:, 1] - pixels[:, 0]).T, (pixels[:, 2] - pixels[:, 0]).T
    planes = face_planes(corners.reshape(-1, 3), np.arange(600).reshape(-1, 3))
    shown_px2 = -(ax * by - ay * bx)  # rows go down
    expected = shown_px2 / EDGE_ON_PX2 * [edge_on_m3(camera, float(np.prod(each) ** (1 / 3))) for each in depth]
    np.testing.assert_allclose(heights(planes, camera.center), expected, rtol=2e-3, atol=1e-9)
