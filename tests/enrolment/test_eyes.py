import cv2
import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.skin.eyes import measure_eyes
from avatar3d.head.mediapipe import EYE_LOOPS, IRISES

SKIN = np.array([0.5, 0.35, 0.28])


def picture_of_eyes(opening_px: float, iris_px: float = 9.0) -> WorkPicture:
    """Two eyes of 40 px across whose lids stand so far apart, blue irises of that radius, on even skin."""
    rgb = np.full((200, 200, 3), (190, 160, 145), np.uint8)
    points = np.zeros((478, 3))
    for (centre, *ring), lids, x in zip(IRISES, EYE_LOOPS, (140.0, 60.0), strict=True):
        angle = np.linspace(0, 2 * np.pi, len(lids), endpoint=False)
        points[list(lids), :2] = np.stack([x + 20 * np.cos(angle), 100 + opening_px / 2 * np.sin(angle)], 1)
        points[centre, :2] = x, 100
        points[list(ring), :2] = [(x + iris_px, 100), (x, 100 - iris_px), (x - iris_px, 100), (x, 100 + iris_px)]
        cv2.fillPoly(rgb, [points[list(lids), :2].round().astype(np.int32)], (225, 220, 215))
        if opening_px > 2:
            cv2.circle(rgb, (round(x), 100), round(iris_px), (60, 90, 150), -1)
    camera = Camera.orbit(0.0, width=200, height=200)
    return WorkPicture(rgb, camera, points, np.eye(2, 3), np.ones(rgb.shape[:2], bool))


@pytest.mark.parametrize("opening_px", [0.0, 2.0, 4.0, 8.0, 22.0])
@pytest.mark.parametrize("iris_px", [2.0, 4.0, 9.0])
def test_iris_and_white_of_eyes_however_far_open_are_colours(opening_px, iris_px, recwarn):
    eyes = measure_eyes(picture_of_eyes(opening_px, iris_px), SKIN)
    assert np.isfinite(eyes.iris).all() and np.isfinite(eyes.white).all()
    assert (eyes.iris > 0).all() and (eyes.white > 0).all() and (eyes.white < 1).all()
    assert not recwarn.list


def test_an_open_eye_shows_its_own_iris():
    iris = measure_eyes(picture_of_eyes(22.0), SKIN).iris.mean(0)
    assert iris[2] > 1.5 * iris[0]
