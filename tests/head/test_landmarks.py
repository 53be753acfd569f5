import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.head.landmarks import closest_barycentric, fitting_head, nearest_on_skin, with_landmarks
from avatar3d.head.model import HeadModel


def test_the_calibration_fits_the_head_that_ships():
    head, default = fitting_head(), HeadModel.default()
    moved = np.linalg.norm(head.landmark_points(head.vertices) - default.landmark_points(default.vertices), axis=1)
    assert np.median(moved) < 0.002 and moved.max() < 0.02
    assert ((head.landmark_confidence > 0) & (head.landmark_confidence <= 1)).all()


def test_calibrated_points_are_symmetric():
    head = fitting_head()
    points = head.landmark_points(head.vertices)
    mirrored = points * (-1, 1, 1)
    distance = np.linalg.norm(points[:, None] - mirrored[None], axis=2).min(1)
    assert np.percentile(distance, 95) < 0.0015


def test_the_inner_lips_lie_on_the_lip_line():
    head = fitting_head()
    points = head.landmark_points(head.vertices)
    assert np.abs(points[13] - points[14])[1] < 0.0015


def test_closest_places_of_a_triangle_by_hand():
    corners = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]] * 4, float)
    points = np.array([[0.2, 0.2, 0.5], [-1, -1, 0], [0.5, -2, 0], [1, 1, 0]])
    expected = np.array([[0.6, 0.2, 0.2], [1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    assert np.allclose(closest_barycentric(points, corners), expected)


def test_a_vertex_is_its_own_nearest_skin_point():
    head = HeadModel.default()
    chosen = head.landmark_tri[:50, 0]
    _, barycentric, distance = nearest_on_skin(head, head.vertices[chosen].astype(float))
    assert distance.max() < 1e-6
    assert np.allclose(barycentric.sum(1), 1)


def test_points_of_another_head_are_refused():
    head = HeadModel.default()
    points = head.landmark_points(head.vertices) + (0, 0, 0.05)
    with pytest.raises(InputError, match="run tools/calibrate_landmarks.py"):
        with_landmarks(head, points, np.ones(468))
