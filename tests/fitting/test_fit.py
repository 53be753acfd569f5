import numpy as np
import pytest
from staged_face import landmarks_of, portrait_camera, staged_face

from avatar3d.errors import InputError
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.fit import fit_face, photo_intrinsics
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.rig import gaze_angles
from avatar3d.motion.code import ARKIT_INDEX, MotionCode


@pytest.fixture(scope="module")
def head():
    return fitting_head()


def fit_of(face, head, blendshapes=None, focal=None):
    weights = face.motion.weights if blendshapes is None else blendshapes
    return fit_face(face.landmarks, weights, face.camera.width, face.camera.height, focal or face.camera.intrinsics[0, 0], head)


@pytest.fixture(scope="module")
def straight(head):
    """The fit of a face at rest."""
    return fit_of(staged_face(), head)


@pytest.fixture(scope="module")
def smiling(head):
    return fit_of(staged_face(smile=0.7), head)


def test_a_known_face_is_found_again(head, straight):
    face, fit = staged_face(), straight
    assert fit.residual_iod_pct < 0.5
    assert np.degrees(rotation_between(fit.camera.rotation, face.camera.rotation)) < 2.0
    shape = head.landmark_points(fit.vertices) - head.landmark_points(face.vertices)
    shape -= shape.mean(0)
    assert np.linalg.norm(shape, axis=1).mean() < 0.0025, "mean landmark error of the identity, metres"


def rotation_between(a, b):
    return np.arccos(np.clip((np.trace(a @ b.T) - 1) / 2, -1, 1))


def test_the_camera_looks_at_a_head_that_stays_in_its_own_frame(head, straight):
    fit = straight
    middle = head.eye_centres(fit.neutral_vertices).mean(0)
    assert np.linalg.norm(middle) < 0.012
    assert fit.camera.to_camera(middle)[2] == pytest.approx(1.0, abs=0.15)
    assert np.array_equal(fit.motion.rotation, [0, 0, 0, 1])


def test_a_smile_goes_to_the_expression_and_not_to_the_identity(head, straight, smiling):
    fit = smiling
    smile = fit.motion.weights[[ARKIT_INDEX["mouthSmileLeft"], ARKIT_INDEX["mouthSmileRight"]]]
    assert (smile > 0.4).all()
    corners = [head.landmark_points(f.neutral_vertices)[[61, 291], 1].mean() for f in (fit, straight)]
    smiling = head.landmark_points(fit.neutral_vertices + head.expression_offsets(fit.motion.weights))[[61, 291], 1].mean()
    assert abs(corners[0] - corners[1]) < 0.35 * (smiling - corners[1])


def test_the_motion_leads_from_the_neutral_head_back_to_the_photo(head, smiling):
    face, fit = staged_face(smile=0.7), smiling
    posed = fit.neutral_vertices + head.expression_offsets(fit.motion.weights)
    pixels, _ = fit.camera.project(head.landmark_points(posed))
    error = np.linalg.norm(pixels - face.landmarks.points_px[:468, :2], axis=1).mean()
    assert 100 * error / fit.iod_px < 1.0


@pytest.mark.parametrize("yaw, pitch", [(0.0, 0.0), (0.3, 0.0), (-0.2, 0.15)])
def test_gaze_is_read_from_the_irises(head, yaw, pitch):
    motion = MotionCode(gaze=np.array([[yaw, pitch], [yaw, pitch]]))
    camera = portrait_camera(0.0)
    landmarks = landmarks_of(head, head.vertices, motion, camera)
    fit = fit_face(landmarks, motion.weights, camera.width, camera.height, camera.intrinsics[0, 0], head)
    assert np.abs(gaze_angles(fit.motion) - (yaw, pitch)).max() < 0.06


def test_gaze_counts_what_the_look_weights_turn_already(head):
    weights = np.zeros(52)
    weights[ARKIT_INDEX["eyeLookOutLeft"]] = weights[ARKIT_INDEX["eyeLookInRight"]] = 0.6
    motion = MotionCode(weights=weights)
    camera = portrait_camera(0.0)
    landmarks = landmarks_of(head, head.vertices, motion, camera)
    fit = fit_face(landmarks, weights, camera.width, camera.height, camera.intrinsics[0, 0], head)
    assert np.abs(gaze_angles(fit.motion) - (0.3, 0.0)).max() < 0.06


@pytest.mark.parametrize("focal", [600.0, 1200.0, 2500.0])
def test_any_plausible_focal_length_fits(head, focal):
    assert fit_of(staged_face(), head, focal=focal).residual_iod_pct < 1.2


def test_the_focal_length_without_exif_follows_the_longer_side():
    intrinsics = photo_intrinsics(800, 600, None)
    assert intrinsics[0, 0] == intrinsics[1, 1] == pytest.approx(1600)
    assert (intrinsics[0, 2], intrinsics[1, 2]) == (400, 300)
    assert photo_intrinsics(800, 600, 999.0)[0, 0] == 999.0


def test_the_same_landmarks_give_the_same_fit(head, straight):
    first, second = straight, fit_of(staged_face(), head)
    assert np.array_equal(first.neutral_vertices, second.neutral_vertices)
    assert np.array_equal(first.motion.weights, second.motion.weights)


def test_weights_stay_in_range_whatever_the_network_says(head):
    fit = fit_of(staged_face(), head, blendshapes=np.ones(52))
    assert fit.expression.min() >= 0 and fit.expression.max() <= 1
    assert (fit.identity >= head.identity_lower - 1e-6).all() and (fit.identity <= head.identity_upper + 1e-6).all()


def test_landmarks_that_are_no_numbers_are_refused_in_one_sentence(head):
    points = np.full((478, 3), np.nan)
    with pytest.raises(InputError, match="the landmarks of this face are not finite numbers; use another photo"):
        fit_face(FaceLandmarks(points, 1.0), np.zeros(52), 512, 512, None, head)


def test_the_astronaut_fits_to_the_goal(head):
    from samples import model, sample_rgb

    from avatar3d.face import FaceTracker

    rgb = sample_rgb("astronaut.png")
    face = FaceTracker(model("face_landmarker.task")).track(rgb)
    fit = fit_face(face.landmarks, face.blendshapes, 512, 512, None, head)
    assert fit.residual_iod_pct <= 0.9
