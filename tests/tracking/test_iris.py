"""Irises found in pictures of eyes that are drawn: where the disc is, whatever the network says, and left alone where none is seen."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.head.mediapipe import EYE_LOOPS, IRIS_CENTRES, IRISES
from avatar3d.tracking.iris import with_irises

SKIN, WHITE, PUPIL = (205, 160, 135), (225, 220, 215), (20, 15, 12)
WIDTH, FINE = 60.0, 8  # pixels an eye is wide; drawn that many times finer


def drawn(looks: tuple[float, float], opening: float = 0.36, iris=(110, 75, 50), roll: float = 0.0):
    """(picture, landmarks as a network that sees level eyes has them, (2, 2) true middles of the irises) of two eyes.

    looks: how far the irises are moved across and down, in their radii. roll: of the head, radians.
    """
    size, turn = 256, np.array([[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]])
    picture = np.full((size * FINE, size * FINE, 3), SKIN, np.uint8)
    points, middles = np.zeros((478, 3)), []
    radius = 0.2 * WIDTH
    for lids, iris_points, side in zip(EYE_LOOPS, IRISES, (1, -1), strict=True):
        centre = np.array([size / 2, size / 2]) + turn @ [side * 48.0, 0.0]
        angles = np.pi * np.arange(16) / 8  # from the outer corner along the lower lid
        shape = np.column_stack([side * np.cos(angles), opening * np.sin(angles)]) * WIDTH / 2
        points[list(lids), :2] = centre + shape @ turn.T
        points[list(iris_points), :2] = centre + radius * np.array([[0, 0], [1, 0], [0, -1], [-1, 0], [0, 1]])
        middle = centre + turn @ (radius * np.array(looks))
        middles.append(middle)
        eye = np.full_like(picture, WHITE)
        for share, colour in ((1.0, iris), (0.4, PUPIL)):
            cv2.circle(eye, np.rint(middle * FINE).astype(int).tolist(), round(share * radius * FINE), colour, -1)
        mask = np.zeros(picture.shape[:2], np.uint8)
        cv2.fillPoly(mask, [np.rint(points[list(lids), :2] * FINE).astype(np.int32)], 1)
        picture[mask > 0] = eye[mask > 0]
    return cv2.resize(picture, (size, size), interpolation=cv2.INTER_AREA), FaceLandmarks(points, 1.0), np.array(middles)


@pytest.mark.parametrize("looks", [(0, 0), (0, 0.55), (0, -0.5), (0.7, 0), (-0.7, 0.2)])
@pytest.mark.parametrize(("iris", "roll"), [((110, 75, 50), 0.0), ((95, 125, 150), 0.3), ((60, 45, 35), -0.4)])
def test_an_iris_is_where_its_disc_is(looks, iris, roll):
    picture, landmarks, middles = drawn(looks, iris=iris, roll=roll)
    found = with_irises(picture, landmarks).points_px
    for iris_points, middle in zip(IRISES, middles, strict=True):
        assert np.linalg.norm(found[iris_points[0], :2] - middle) < 0.17 * 0.2 * WIDTH  # 0.17 of its radius is 5 degrees
    shift = found[:, :2] - landmarks.points_px[:, :2]
    for iris_points in IRISES:  # its edge goes with it, nothing else moves
        assert shift[list(iris_points)] == pytest.approx(np.tile(shift[iris_points[0]], (5, 1)))
    assert not shift[:468].any()


def test_half_of_a_small_noisy_iris_is_enough():
    picture, landmarks, middles = drawn((0.2, 0.5), opening=0.3)
    small = cv2.resize(picture, (96, 96), interpolation=cv2.INTER_AREA)
    noisy = np.clip(small + np.random.default_rng(1).normal(0, 6, small.shape), 0, 255).astype(np.uint8)
    points = landmarks.points_px * 96 / 256
    found = with_irises(noisy, FaceLandmarks(points, 1.0)).points_px
    off = [np.linalg.norm(found[iris, :2] - middle * 96 / 256) for iris, middle in zip(IRIS_CENTRES, middles, strict=True)]
    before = [np.linalg.norm(points[iris, :2] - middle * 96 / 256) for iris, middle in zip(IRIS_CENTRES, middles, strict=True)]
    assert max(off) < 0.5 * min(before)


def test_shut_and_hidden_eyes_keep_the_networks_place():
    picture, landmarks, _ = drawn((0, 0.5), opening=0.1)
    assert (with_irises(picture, landmarks).points_px == landmarks.points_px).all()
    _, landmarks, _ = drawn((0, 0.5))
    hidden = np.full((256, 256, 3), SKIN, np.uint8)
    assert (with_irises(hidden, landmarks).points_px == landmarks.points_px).all()


def test_eyes_at_and_beyond_the_edge_are_looked_at_too():
    picture, landmarks, _ = drawn((0, 0.5))
    for shift in (-150, 150, 1000):
        moved = FaceLandmarks(landmarks.points_px + [shift, 0, 0], 1.0)
        assert np.isfinite(with_irises(picture, moved).points_px).all()
