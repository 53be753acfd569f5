"""The bust: it continues the head model's neck, follows the photo's outline within bounds, and goes down without folds."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.enrolment.worn.bust import Body, azimuths, bust_surface, grid_normals
from avatar3d.head.model import HeadModel

SIZE = 400


@pytest.fixture(scope="module")
def head() -> HeadModel:
    return HeadModel.default()


def front() -> Camera:
    intrinsics = np.array([[800.0, 0, SIZE / 2], [0, 800.0, 100], [0, 0, 1]])
    return Camera(SIZE, SIZE, intrinsics, np.diag([1.0, -1.0, -1.0]), np.array([0, 0, 1.2]))


def painted(camera: Camera, half_width_m: float) -> np.ndarray:
    """(SIZE, SIZE) matte of a person with a thin neck and shoulders that wide."""
    person = np.zeros((SIZE, SIZE), np.uint8)
    outline = [(-0.055, -0.1), (-0.06, -0.15), (-half_width_m, -0.19), (-half_width_m, -0.5)]
    points = np.array([(x, y, -0.1) for x, y in outline] + [(-x, y, -0.1) for x, y in outline[::-1]])
    cv2.fillPoly(person, [np.round(camera.project(points)[0]).astype(np.int32)], 1)
    return person.astype(np.float32)


def test_the_neck_is_the_models_own_and_the_rest_falls_outward(head):
    surface = bust_surface(head.vertices, head, Body.usual(head.vertices, head))
    skin = head.vertices[(head.regions["neck"] > 0.5) & (head.regions["bust"] == 0)]
    columns = np.arange(len(azimuths()))
    neck = surface.points[np.rint(surface.base).astype(int), columns]
    nearest = np.linalg.norm(neck[:, None] - head.vertices[None, head.vertex_part == 0], axis=2).min(1)
    assert nearest.max() < 0.014 and len(skin)  # the model's own triangles are up to 25 mm wide
    rows = surface.rows(surface.base, 20)
    assert (np.diff(rows[..., 1], axis=0) < 0.002).all(), "it goes down all the way"
    assert (grid_normals(rows)[2:-1] * (rows - (0, -0.3, surface.axis_z))[2:-1]).sum(-1).min() > 0, "and faces outward"


@pytest.mark.parametrize("half_width", [0.17, 0.20, 0.24])
def test_shoulders_are_as_wide_as_the_photo_shows_them(head, half_width):
    camera = front()
    person = painted(camera, half_width)
    body = Body.usual(head.vertices, head).as_seen(camera, person, np.zeros((SIZE, SIZE), bool))
    low = body.heights < -0.28
    assert np.abs(body.widths[:, low] - half_width).max() < 0.012


def test_a_photo_that_shows_no_shoulders_or_a_wall_leaves_the_usual_ones(head):
    camera, usual = front(), Body.usual(head.vertices, head)
    everything = np.ones((SIZE, SIZE), np.float32)
    for person, unknown in ((painted(camera, 0.2), np.ones((SIZE, SIZE), bool)), (everything, np.zeros((SIZE, SIZE), bool))):
        seen = usual.as_seen(camera, person, unknown)
        assert np.array_equal(seen.widths, usual.widths)


@pytest.mark.parametrize("size", [0.9, 1.15])
def test_a_larger_head_stands_on_a_larger_bust(head, size):
    usual = bust_surface(head.vertices, head, Body.usual(head.vertices, head))
    large = head.scaled(size)
    surface = bust_surface(large.vertices, large, Body.usual(large.vertices, large))
    columns = np.arange(usual.points.shape[1])
    for rows, wanted in ((surface.base, usual.base), (surface.hem, usual.hem)):
        here, there = (one.points[np.rint(row).astype(int), columns] for one, row in ((surface, rows), (usual, wanted)))
        assert np.abs(here - size * there).max() < 0.004
