"""The person's matte on real photos."""

import cv2
import numpy as np
import pytest
from samples import sample_rgb

from avatar3d.errors import InputError
from avatar3d.face import person_matte


@pytest.fixture(scope="module")
def matte(portrait, face):
    return person_matte(portrait, face.landmarks)


def test_matte_covers_the_astronauts_head(matte, face):
    assert matte.shape == (512, 512) and matte.dtype == np.float32
    assert matte.min() >= 0 and matte.max() <= 1
    hull = cv2.convexHull(face.landmarks.points_px[:468, :2].astype(np.float32)).astype(np.int32)
    inside = cv2.fillConvexPoly(np.zeros((512, 512), np.uint8), hull, 1)
    inside = cv2.erode(inside, np.ones((9, 9), np.uint8)).astype(bool)  # the mesh may pass the cheek by some pixels
    assert matte[inside].min() > 0.9
    # Places read off the photo: hair on top and at both sides; backdrop above, left and right of the head.
    for x, y in ((222, 25), (170, 75), (275, 75)):
        assert matte[y, x] > 0.9
    for x, y in ((222, 5), (120, 80), (330, 80), (420, 30)):
        assert matte[y, x] < 0.05


def test_matte_has_a_thin_rim(matte):
    head = matte[:150, 120:330]
    unsure = ((head > 0.1) & (head < 0.9)).mean()
    assert unsure < 0.06


def test_matte_of_the_mirror_image_is_the_mirror_image(portrait, matte, tracker):
    mirrored = np.ascontiguousarray(portrait[:, ::-1])
    other = person_matte(mirrored, tracker.track(mirrored).landmarks)
    assert np.abs(other[:200, ::-1] - matte[:200]).mean() < 0.01


def test_matte_scales_with_the_picture(portrait, matte, tracker):
    large = cv2.resize(portrait, (1536, 1536), interpolation=cv2.INTER_CUBIC)
    other = person_matte(large, tracker.track(large).landmarks)
    assert other.shape == (1536, 1536)
    small = cv2.resize(other, (512, 512), interpolation=cv2.INTER_AREA)
    assert np.abs(small[:200] - matte[:200]).mean() < 0.01


def test_matte_keeps_the_background_person_out(tracker):
    """A bystander stands at the right edge behind the speaker."""
    rgb = sample_rgb("obama2.jpg")
    matte = person_matte(rgb, tracker.track(rgb).landmarks)
    assert matte[300, 330] > 0.95
    assert matte[60, :200].max() < 0.1


def test_missing_model_is_said(portrait, face, tmp_path, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    with pytest.raises(
        InputError, match=r"selfie_segmentation.tflite .* run `avatar3d models pull` to fetch all that is missing$"
    ):
        person_matte(portrait, face.landmarks)
