from dataclasses import dataclass

import numpy as np
from painted_head import paint

from avatar3d.enrolment.shape.cranium import grow_cranium


@dataclass(frozen=True)
class Fit:
    vertices: np.ndarray
    neutral_vertices: np.ndarray


def flattened(head, share):
    """The head's vertices with the cranium above the brows pressed down."""
    vertices = head.vertices.astype(np.float64)
    above = vertices[:, 1] > 0.05
    vertices[above, 1] = 0.05 + share * (vertices[above, 1] - 0.05)
    return Fit(vertices, vertices.copy())


def test_a_flat_cranium_grows_and_face_and_ears_stay():
    painted = paint()
    fit = flattened(painted.head, 0.75)
    grown = grow_cranium(fit, painted.head, painted.work, painted.matte)
    rise = grown.vertices[:, 1].max() - fit.vertices[:, 1].max()
    assert 0.006 < rise <= 0.022
    moved = np.abs(grown.vertices - fit.vertices).max(1) > 1e-6
    assert not moved[painted.head.regions["ears"] > 0.99].any()
    assert not moved[fit.vertices[:, 1] < 0.02].any()
    assert np.allclose(grown.vertices - fit.vertices, grown.neutral_vertices - fit.neutral_vertices)


def test_it_does_not_grow_out_of_the_photo():
    painted = paint()
    fit = flattened(painted.head, 0.75)
    low = painted.matte.copy()
    top = painted.work.camera.project(fit.vertices[[fit.vertices[:, 1].argmax()]])[0][0, 1]
    low[: int(top)] = 0
    grown = grow_cranium(fit, painted.head, painted.work, low)
    assert grown.vertices[:, 1].max() - fit.vertices[:, 1].max() < 0.004


def test_a_head_of_usual_height_is_left_alone():
    painted = paint()
    vertices = painted.head.vertices.astype(np.float64)
    fit = Fit(vertices, vertices)
    grown = grow_cranium(fit, painted.head, painted.work, painted.matte)
    assert np.abs(grown.vertices - vertices).max() < 0.002


def test_a_skull_that_stands_out_of_the_person_is_sunk_into_it():
    painted = paint()
    vertices = painted.head.vertices.astype(np.float64)
    fit = Fit(vertices, vertices)
    summit = vertices[vertices[:, 1].argmax()] - (0, 0.008, 0)
    low = painted.matte.copy()
    low[: int(painted.work.camera.project(summit[None])[0][0, 1])] = 0
    sunk = grow_cranium(fit, painted.head, painted.work, low)
    drop = vertices[:, 1].max() - sunk.vertices[:, 1].max()
    assert 0.006 < drop <= 0.015
    moved = np.abs(sunk.vertices - vertices).max(1) > 1e-6
    assert not moved[painted.head.regions["ears"] > 0.99].any() and not moved[vertices[:, 1] < 0.02].any()
