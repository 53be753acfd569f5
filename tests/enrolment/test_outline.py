from dataclasses import replace

import cv2
import numpy as np
import pytest
from painted_head import SKIN as SKIN_RGB
from painted_head import paint

from avatar3d.enrolment.photo.segment import Labels, Segmentation
from avatar3d.enrolment.shape.outline import MAX_MOVE_M, NEAR_STEP_M, meet_outline
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.model import SKIN
from avatar3d.motion.code import MotionCode


@pytest.fixture(scope="module")
def bald():
    return paint(hair=None)


def person_of(bald, vertices):
    """(H, W) f32 matte of exactly these (V, 3) vertices' skin."""
    person = np.zeros(bald.matte.shape, np.uint8)
    for triangle in bald.work.camera.project(vertices.astype(np.float64))[0][bald.head.faces[bald.head.part == SKIN]]:
        cv2.fillConvexPoly(person, np.round((triangle - 0.5) * 16).astype(np.int32), 1, cv2.LINE_8, 4)
    return person.astype(np.float32)


def met(bald, true, hair=0.0, hand=False, beside=SKIN_RGB):
    """The fit of a photo of `true` (V, 3) vertices; beside: colour of what of them lies outside the head's own outline."""
    vertices = bald.head.vertices.copy()
    matte = person_of(bald, true)
    rgb = bald.work.rgb.copy()
    more = (matte > 0.5) & (person_of(bald, vertices) < 0.5)
    rgb[cv2.dilate(more.astype(np.uint8), np.ones((7, 7), np.uint8)) > 0] = beside
    hair_alpha = np.full(matte.shape, hair, np.float32)
    labels = replace(Labels.none(matte.shape), hand=np.full(matte.shape, hand))
    seen = Segmentation(matte, hair_alpha, hair_alpha > 0.5, bald.matte > 0.5, 1.0, labels=labels)
    shapes = bald.head.expression
    fit = FaceFit(bald.work.camera, *(None,) * 2, MotionCode(), vertices, vertices.copy(), shapes, *(None,) * 2, 0.0, 0.0, 0.0)
    return meet_outline(fit, bald.head, replace(bald.work, rgb=rgb), seen)


def widened(bald, share):
    """The head with its sides and ears moved out by a share of their distance from the middle."""
    vertices = bald.head.vertices.copy()
    side = np.clip((np.abs(vertices[:, 0]) - 0.04) / 0.02, 0, 1) * (bald.head.vertex_part == SKIN)
    vertices[:, 0] *= 1 + share * side
    return vertices


@pytest.mark.parametrize("share", [0.06, -0.06])
def test_the_sides_move_to_where_the_person_ends_and_the_features_stay(bald, share):
    true = widened(bald, share)
    found = met(bald, true)
    wanted = person_of(bald, true) > 0.5
    rows = np.flatnonzero(wanted.any(1))
    head = np.zeros(wanted.shape, bool)
    head[rows[0] : int(bald.work.landmarks_px[164, 1])] = True  # down to the upper lip: below come collars in a photo

    def differing(vertices):
        return (((person_of(bald, vertices) > 0.5) ^ wanted) & head).sum()

    assert differing(found.vertices) < 0.35 * differing(bald.head.vertices)
    moved = np.linalg.norm(found.vertices - bald.head.vertices, axis=1)
    assert moved.max() <= 2 * MAX_MOVE_M
    features = bald.head.landmark_tri[[33, 133, 263, 362, 61, 291, 1]]
    assert moved[features].max() < 1e-6
    assert np.array_equal(found.vertices, found.neutral_vertices)


def test_an_outline_that_fits_or_is_the_hairs_moves_nothing(bald):
    assert np.abs(met(bald, bald.head.vertices).vertices - bald.head.vertices).max() < 0.0006
    assert np.array_equal(met(bald, widened(bald, 0.06), hair=1.0).vertices, bald.head.vertices)
    assert np.array_equal(met(bald, widened(bald, 0.06), hand=True).vertices, bald.head.vertices)


def test_an_outline_far_off_that_is_not_of_the_faces_colour_is_somebody_elses(bald):
    true = widened(bald, 0.12)
    moved = [
        np.linalg.norm(met(bald, true, beside=colour).vertices - bald.head.vertices, axis=1).max()
        for colour in (SKIN_RGB, (40, 60, 160))
    ]
    assert moved[0] > 1.5 * NEAR_STEP_M and moved[1] < 1.2 * NEAR_STEP_M
