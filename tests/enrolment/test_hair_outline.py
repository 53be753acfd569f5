"""What a photo says of the hair's outline, on made masks."""

import numpy as np
import pytest

from avatar3d.enrolment.hair.outline import OUTLINE_BINS, bare_skin, measure
from avatar3d.enrolment.photo.segment import Labels, Segmentation

SIZE, CENTRE, HEAD_PX = 240, 120.0, 80.0
SKIN, HAIR, BACKDROP = (200, 150, 120), (40, 30, 25), (90, 120, 160)
UP = 3 * OUTLINE_BINS // 4


def distance(x: float = CENTRE, y: float = CENTRE) -> np.ndarray:
    rows, columns = np.mgrid[:SIZE, :SIZE] + 0.5
    return np.hypot(columns - x, rows - y)


def staged(hair_px: float, person: np.ndarray | None = None) -> Segmentation:
    """A round head whose upper half is hair as far as hair_px from its middle."""
    matte = distance() < HEAD_PX if person is None else person
    above = np.arange(SIZE)[:, None] < CENTRE - 20
    hair = (distance() < hair_px) & above
    face = (distance() < HEAD_PX - 20) & ~above
    return Segmentation(matte.astype(np.float32), hair.astype(np.float32), hair, face, 1.0, [], Labels.none(matte.shape))


def test_hair_ends_where_the_person_does_if_only_backdrop_follows():
    outline = measure(staged(HEAD_PX - 2), np.zeros((SIZE, SIZE)), np.full(2, CENTRE))
    upper = slice(UP - 40, UP + 40)
    assert outline.radius_px[upper] == pytest.approx(HEAD_PX, abs=1)
    assert outline.free[upper].all()


def test_hair_ends_at_its_own_mask_where_the_person_goes_on():
    outline = measure(staged(HEAD_PX - 30), np.zeros((SIZE, SIZE)), np.full(2, CENTRE))
    upper = slice(UP - 20, UP + 20)
    assert outline.radius_px[upper].max() < HEAD_PX - 25
    assert not outline.free[upper].any()


def test_an_ear_close_to_hair_is_bare_and_hair_is_not():
    seg = staged(HEAD_PX)
    rgb = np.full((SIZE, SIZE, 3), BACKDROP, np.uint8)
    rgb[seg.matte > 0.5] = SKIN
    rgb[seg.hair_mask] = HAIR
    bare = bare_skin(rgb, seg, ear_top_px=0.0)
    beside = int(CENTRE - 20) + 8  # eight pixels under the hair's edge, outside the face's mask
    assert bare[beside, int(CENTRE + HEAD_PX - 10)] > 0.9
    assert bare[seg.hair_mask & (distance() < HEAD_PX - 6)].mean() < 0.05
    rgb[~seg.hair_mask & ~seg.face_mask] = HAIR
    assert bare_skin(rgb, seg, ear_top_px=0.0)[beside, int(CENTRE + HEAD_PX - 10)] < 0.1, "of hair's colour it is none"
