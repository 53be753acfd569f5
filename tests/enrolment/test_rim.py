"""The drawn outline against the photo: what a wrong hair mask builds is told by colours and the matte that know nothing of it."""

import cv2
import numpy as np
import pytest
from painted_head import IOD_PX, paint

from avatar3d.enrolment.photo.masks import grown, shrunk
from avatar3d.enrolment.photo.rim import rim_of


@pytest.fixture(scope="module")
def painted():
    return paint()


def rim(head, drawn, photo=None, person=None):
    rows = np.arange(drawn.shape[0])[:, None] < head.work.landmarks_px[152, 1] - 0.5 * IOD_PX
    judged = np.ones(drawn.shape, bool) & rows
    photo = head.work.rgb if photo is None else photo
    return rim_of(drawn, photo, head.matte if person is None else person, head.work.landmarks_px, judged)


def test_a_true_outline_is_borne_out(painted):
    found = rim(painted, painted.matte > 0.5)
    assert found.unsupported == 0 and found.beyond_person < 0.01


def test_backdrop_taken_for_hair_is_told(painted):
    """The head as it would be built from a mask that takes in 30 pixels of the backdrop on one side."""
    wide = painted.matte > 0.5
    wide |= grown(wide, 61) & (np.arange(640)[None] > 320)
    found = rim(painted, wide)
    assert found.unsupported > 0.3 and found.beyond_person > 0.1


def test_hair_that_is_missing_is_told(painted):
    found = rim(painted, shrunk(painted.matte > 0.5, 41) | (painted.matte > 0.5) & ~painted.hair)
    assert found.unsupported > 0.12 and found.beyond_person < 0.01


def test_hair_before_a_backdrop_of_its_colour_is_borne_out_by_the_matte(painted):
    photo = painted.work.rgb.copy()
    photo[painted.matte < 0.1] = photo[painted.hair].mean(0)
    assert rim(painted, painted.matte > 0.5, photo).unsupported < 0.05


def test_a_neighbour_in_the_matte_condemns_nobody(painted):
    """Another person right behind, whom the matting network cannot tell from this one: their clothes' colour does."""
    neighbour = np.zeros(painted.matte.shape, np.uint8)
    cv2.rectangle(neighbour, (330, 0), (639, 639), 1, -1)
    beside = (neighbour > 0) & (painted.matte < 0.5)
    photo = painted.work.rgb.copy()
    photo[beside] = (150, 30, 40)
    found = rim(painted, painted.matte > 0.5, photo, np.maximum(painted.matte, neighbour))
    assert found.unsupported < 0.05


def test_where_nothing_is_to_be_judged_nothing_is_said(painted):
    nowhere = np.zeros(painted.matte.shape, bool)
    found = rim_of(painted.matte > 0.5, painted.work.rgb, painted.matte, painted.work.landmarks_px, nowhere)
    assert found.unsupported is None and found.beyond_person == 0
