from dataclasses import replace

import numpy as np
import pytest
from staged_face import landmarks_of, portrait_camera

from avatar3d.errors import InputError
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.fit import fit_face
from avatar3d.fitting.size import IRIS_MM, head_size, to_size
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import IRIS_EDGES, LID_MIDDLES
from avatar3d.motion.code import MotionCode


@pytest.fixture(scope="module")
def head():
    return fitting_head()


@pytest.fixture(scope="module")
def photo(head):
    """Landmarks and fit of the template as a portrait shows it: irises of 11.8 mm on a head 8 % too small for an adult."""
    camera = portrait_camera()
    landmarks = landmarks_of(head, head.vertices, MotionCode(), camera)
    return landmarks, fit_face(landmarks, np.zeros(52), camera.width, camera.height, camera.intrinsics[0, 0], head)


def with_irises(landmarks, scale):
    points = landmarks.points_px.copy()
    for edges in IRIS_EDGES:
        middle = points[list(edges)].mean(0)
        points[list(edges)] = middle + scale * (points[list(edges)] - middle)
    return FaceLandmarks(points, landmarks.presence)


def test_the_irises_are_measured_in_millimetres(head, photo):
    landmarks, fit = photo
    size = head_size(fit, landmarks, head)
    assert size.iris_mm / size.scale == pytest.approx(2000 * head.iris_radius, rel=0.03)
    assert size.size_by_iris == pytest.approx(size.iris_mm / IRIS_MM - 1)


def test_small_irises_tell_of_a_large_head_and_its_eyes_distance_of_a_sane_one(head, photo):
    landmarks, fit = photo
    scales = [head_size(fit, with_irises(landmarks, share), head).scale for share in (0.85, 1.0, 1.15)]
    assert scales[0] > scales[1] > scales[2]
    by_iris_alone = [IRIS_MM / (2000 * head.iris_radius * share) for share in (0.85, 1.15)]
    assert scales[0] < by_iris_alone[0] and scales[2] > by_iris_alone[1]


def test_closed_lids_show_no_iris(head, photo):
    landmarks, fit = photo
    points = landmarks.points_px.copy()
    for upper, lower in LID_MIDDLES:
        points[upper] = points[lower]
    size = head_size(fit, FaceLandmarks(points, 1.0), head)
    assert size.iris_mm is None and size.size_by_iris is None
    assert size.pupil_distance_mm == pytest.approx(63, abs=1.5)


def test_a_given_pupil_distance_is_the_heads(head, photo):
    landmarks, fit = photo
    size = head_size(fit, landmarks, head, 70.0)
    grown, larger = to_size(fit, head, size)
    eyes = larger.eye_centres(grown.neutral_vertices)
    assert np.linalg.norm(eyes[0] - eyes[1]) == pytest.approx(0.070, abs=1e-5)
    assert grown.size_by_iris > 0.1, "a head too large for its irises says so"


@pytest.mark.parametrize("distance", [39.0, 81.0, float("nan")])
def test_a_pupil_distance_that_no_person_has_is_refused(head, photo, distance):
    landmarks, fit = photo
    with pytest.raises(InputError, match="expected 40 to 80; measure from the middle of one pupil"):
        head_size(fit, landmarks, head, distance)


def test_at_its_size_the_head_meets_the_photo_as_before(head, photo):
    landmarks, fit = photo
    grown, larger = to_size(fit, head, replace(head_size(fit, landmarks, head), scale=1.12))
    for small, large in (
        (fit.vertices + head.expression_offsets(fit.expression), grown.vertices + larger.expression_offsets(fit.expression)),
        (fit.neutral_vertices + np.tensordot(fit.motion.weights.astype(np.float32), fit.expression_shapes, 1),
         grown.neutral_vertices + np.tensordot(fit.motion.weights.astype(np.float32), grown.expression_shapes, 1)),
    ):  # fmt: skip
        assert np.abs(fit.camera.project(small)[0] - grown.camera.project(large)[0]).max() < 1e-2
    assert np.allclose(larger.shape(fit.identity), 1.12 * head.shape(fit.identity), atol=1e-6)


def test_the_models_irises_are_the_photos(head, photo):
    landmarks, fit = photo
    size = head_size(fit, with_irises(landmarks, 0.93), head)
    assert to_size(fit, head, size)[1].iris_radius == pytest.approx(size.iris_mm / 2000)
