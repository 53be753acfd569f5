"""What a photo says of how it was taken: focus and light, whatever its size."""

import cv2
import numpy as np
import pytest
from samples import model, sample_rgb

from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.enrolment.photo.taken import light_ratio, sharpness
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.tracker import FaceTracker


@pytest.fixture(scope="module")
def astronaut():
    model("face_landmarker.task")
    rgb = sample_rgb("astronaut.png")
    return rgb, FaceTracker().track(rgb).landmarks


def test_a_photo_out_of_focus_is_told_from_a_small_one(astronaut):
    rgb, face = astronaut
    points = face.points_px * [0.75, 0.75, 0.75]
    small = cv2.resize(rgb, None, fx=0.75, fy=0.75, interpolation=cv2.INTER_AREA)
    assert sharpness(rgb, face) > 0.2 and sharpness(small, FaceLandmarks(points, 1.0)) > 0.2
    assert sharpness(cv2.GaussianBlur(rgb, (0, 0), 0.05 * face.iod_px), face) < 0.14


def test_a_lamp_from_one_side_is_told_by_its_ratio(astronaut):
    rgb, face = astronaut
    dark = np.where(np.arange(rgb.shape[1]) > face.points_px[:468, 0].mean(), 0.1, 1.0)[None, :, None]
    lit = to_u8(linear_to_srgb((srgb_to_linear(rgb) * dark).astype(np.float32)))
    assert light_ratio(rgb, face) < 3 and light_ratio(lit, face) > 6
    assert light_ratio(lit[:, ::-1], FaceLandmarks([rgb.shape[1], 0, 0] + face.points_px * [-1, 1, 1], 1.0)) > 6
