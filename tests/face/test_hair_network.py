"""The hair network on real photos: what it calls hair, whose, and that it does not depend on how the photo is held."""

import cv2
import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.face import FaceLandmarks, hair_probability


@pytest.fixture(scope="module")
def seen(portrait, face):
    return hair_probability(portrait, face.landmarks)


def test_hair_is_told_from_face_backdrop_and_suit(seen):
    assert seen.probability.shape == (512, 512) and seen.probability.dtype == np.float32
    assert seen.probability.min() >= 0 and seen.probability.max() <= 1
    # Places read off the photo: hair on top and at both sides; forehead, cheek, backdrop, suit.
    for x, y in ((222, 25), (170, 75), (275, 75)):
        assert seen.probability[y, x] > 0.9
    for x, y in ((225, 90), (200, 135), (420, 30), (120, 80), (225, 300)):
        assert seen.probability[y, x] < 0.1


def test_it_agrees_with_its_mirror_image_on_an_easy_photo(seen):
    assert 0.9 < seen.agreement <= 1


def test_a_mirrored_photo_gives_the_mirrored_hair(portrait, seen, tracker):
    mirrored = np.ascontiguousarray(portrait[:, ::-1])
    other = hair_probability(mirrored, tracker.track(mirrored).landmarks)
    assert np.abs(other.probability[:, ::-1] - seen.probability).mean() < 0.01


@pytest.mark.parametrize("degrees", [-30, 90])
def test_a_tilted_photo_gives_the_tilted_hair(portrait, seen, face, degrees):
    turn = cv2.getRotationMatrix2D((222.0, 120.0), degrees, 1.0)
    tilted = cv2.warpAffine(portrait, turn, (512, 512), borderMode=cv2.BORDER_REPLICATE)
    points = face.landmarks.points_px.copy()
    points[:, :2] = points[:, :2] @ turn[:, :2].T + turn[:, 2]
    found = hair_probability(tilted, FaceLandmarks(points, 1.0)).probability > 0.5
    wanted = cv2.warpAffine(seen.probability, turn, (512, 512)) > 0.5
    assert (found & wanted).sum() / (found | wanted).sum() > 0.9


def test_a_file_that_is_no_network_is_refused(portrait, face, tmp_path):
    other = tmp_path / "hair.tflite"
    other.write_bytes(b"nothing")
    with pytest.raises(InputError, match="as a face model"):
        hair_probability(portrait, face.landmarks, other)
