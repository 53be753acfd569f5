from dataclasses import replace

import cv2
import numpy as np
import pytest
from painted_head import BACKDROP, SKIN, paint

from avatar3d.camera import Camera
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.enrolment.shape.ears import ear_offsets, fit_ears
from avatar3d.fitting.fit import FaceFit


@pytest.fixture(scope="module")
def bald():
    return paint(hair=None)


def seen_with(bald, vertices, hair=None):
    """The segmentation of a photo that shows exactly these (V, 3) vertices."""
    person = np.zeros(bald.matte.shape, np.uint8)
    for triangle in bald.work.camera.project(vertices.astype(np.float64))[0][bald.head.faces[bald.head.part == 0]]:
        cv2.fillConvexPoly(person, np.round((triangle - 0.5) * 16).astype(np.int32), 1, cv2.LINE_8, 4)
    nothing = np.zeros(person.shape, np.float32) if hair is None else hair
    return Segmentation(person.astype(np.float32), nothing, nothing > 0.5, person > 0, 1.0)


def fitted(bald, segmentation, rgb=None):
    vertices = bald.head.vertices.copy()
    if rgb is None:  # the person's ears are skin in the photo too, wherever they stand
        rgb = np.where(segmentation.face_mask[..., None], np.uint8(SKIN), np.uint8(BACKDROP))
    fit = FaceFit(bald.work.camera, *(None,) * 3, vertices, vertices.copy(), *(None,) * 4, 0.0, 0.0)
    return fit_ears(fit, bald.head, replace(bald.work, rgb=rgb), segmentation)


def test_ears_take_the_size_and_stand_that_the_outline_shows(bald):
    true = bald.head.vertices + ear_offsets(bald.head.vertices, bald.head, np.radians(16.0), 1.2)
    ears = bald.head.regions["ears"] > 0.8
    found = fitted(bald, seen_with(bald, true))
    before = np.linalg.norm(bald.head.vertices - true, axis=1)[ears].mean()
    assert np.linalg.norm(found.vertices - true, axis=1)[ears].mean() < 0.35 * before
    assert np.array_equal(found.vertices, found.neutral_vertices)
    assert np.array_equal(found.vertices[bald.head.regions["ears"] == 0], bald.head.vertices[bald.head.regions["ears"] == 0])


def test_ears_that_fit_or_lie_under_hair_stay(bald):
    assert np.allclose(fitted(bald, seen_with(bald, bald.head.vertices)).vertices, bald.head.vertices, atol=1e-6)
    true = bald.head.vertices + ear_offsets(bald.head.vertices, bald.head, np.radians(16.0), 1.2)
    hidden = seen_with(bald, true, hair=np.ones(bald.matte.shape, np.float32))
    assert np.array_equal(fitted(bald, hidden).vertices, bald.head.vertices)


def test_what_is_not_of_the_faces_colour_is_no_ear(bald):
    true = bald.head.vertices + ear_offsets(bald.head.vertices, bald.head, np.radians(16.0), 1.2)
    seen = seen_with(bald, true)
    scarf = bald.work.rgb.copy()
    middle = bald.work.landmarks_px[[234, 454], 0]
    for columns in (slice(0, int(middle.min()) + 6), slice(int(middle.max()) - 6, None)):
        scarf[:, columns] = (40, 60, 160)
    fit = FaceFit(bald.work.camera, *(None,) * 3, bald.head.vertices, bald.head.vertices.copy(), *(None,) * 4, 0.0, 0.0)
    assert np.array_equal(fit_ears(fit, bald.head, replace(bald.work, rgb=scarf), seen).vertices, bald.head.vertices)


def test_an_ear_that_the_cheek_hides_is_not_led_by_what_lies_behind_it(bald):
    head, vertices = bald.head, bald.head.vertices.astype(np.float64)
    size = bald.work.camera.width
    turned = replace(bald, work=replace(bald.work, camera=Camera.orbit(np.radians(17.0), 0.0, 1.4, size, size, 0.45)))
    seen = seen_with(turned, vertices)
    ears = [
        turned.work.camera.project(vertices[(head.regions["ears"] > 0.5) & (np.sign(vertices[:, 0]) == s)])[0] for s in (-1, 1)
    ]
    far, near = sorted(ears, key=lambda ear: np.ptp(ear[:, 0]))
    rows = slice(int(far[:, 1].min()), int(far[:, 1].max()))
    behind = np.zeros(seen.face_mask.shape, np.uint8)
    behind[rows] = cv2.dilate(seen.face_mask.astype(np.uint8), np.ones((1, 25), np.uint8))[rows]
    behind = (behind > 0) & (np.abs(np.arange(size) - far[:, 0].mean()) < 40)
    hair = np.zeros(seen.matte.shape, np.float32)
    hair[:, np.abs(np.arange(size) - near[:, 0].mean()) < 40] = 1
    person = seen.face_mask | behind
    taken = replace(seen, matte=person.astype(np.float32), hair_alpha=hair, face_mask=seen.face_mask)
    rgb = np.where(person[..., None], np.uint8(SKIN), np.uint8(BACKDROP))
    assert np.array_equal(fitted(turned, taken, rgb).vertices, head.vertices)
