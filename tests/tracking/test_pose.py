"""Pose and gaze from landmarks that were projected from a known head: what was put in comes out."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from avatar3d.camera import FILM_FOCAL
from avatar3d.face.landmarks import LEFT_EYE_CORNERS, RIGHT_EYE_CORNERS, FaceLandmarks
from avatar3d.motion.code import ARKIT_INDEX, NECK_M, MotionCode, look_angles, quaternion_matrix
from avatar3d.motion.csv import head_angles, head_rotation
from avatar3d.tracking.gaze import UPWARD_RAD
from avatar3d.tracking.pose import CV_TO_WORLD, FaceMotion, landmark_basis

WIDTH, HEIGHT = 640, 480


def landmarks_of(rotation, eyes_m, weights=None, gaze=(0.0, 0.0), noise_px=0.0, seed=0) -> FaceLandmarks:
    """Landmarks of the average head turned by a quaternion, its eyes' middle at eyes_m in front of the camera (OpenCV axes)."""
    basis = landmark_basis()
    face = basis.template + np.tensordot(np.zeros(52) if weights is None else weights, basis.shapes, 1)
    yaw, pitch = gaze
    toward = np.array([np.sin(yaw) * np.cos(pitch), np.sin(pitch), np.cos(yaw) * np.cos(pitch)])
    irises = []
    for eye in (1, 0):  # the network has the right iris first
        centre = basis.eye_centres[eye] + basis.eye_radius * toward
        irises += [centre, *(centre + np.array([[0.006, 0, 0], [0, 0.006, 0], [-0.006, 0, 0], [0, -0.006, 0]]))]
    points = np.concatenate([face, irises]) @ (CV_TO_WORLD @ quaternion_matrix(rotation)).T + eyes_m
    focal = FILM_FOCAL * WIDTH
    pixels = points[:, :2] / points[:, 2:] * focal + (WIDTH / 2, HEIGHT / 2)
    pixels = pixels + np.random.default_rng(seed).normal(0, noise_px, pixels.shape)
    return FaceLandmarks(np.column_stack([pixels, points[:, 2]]), 0.99)


@pytest.mark.parametrize("angles", [(0, 0, 0), (0.5, 0, 0), (-0.5, 0.2, 0.1), (0.1, -0.35, -0.3), (0, 0.3, 0.5)])
@pytest.mark.parametrize("distance", [0.35, 0.7, 1.5])
def test_the_heads_turn_and_place_are_recovered(angles, distance):
    motion = FaceMotion(WIDTH, HEIGHT)
    start = np.array([0.0, 0.0, distance])
    motion.code(landmarks_of(head_rotation(0, 0, 0), start), np.zeros(52), 0, 0)
    for step in range(1, 6):  # a video, not a jump
        share = step / 5
        turn = head_rotation(*(np.array(angles) * share))
        place = start + share * np.array([0.03, -0.02, 0.05])
        code = motion.code(landmarks_of(turn, place), np.zeros(52), step, step)
    np.testing.assert_allclose(head_angles(code.rotation), angles, atol=0.01)
    # The code's translation is the neck's: a head that only turns does not move its neck.
    neck = CV_TO_WORLD @ (place - start) + quaternion_matrix(turn) @ NECK_M - NECK_M
    np.testing.assert_allclose(code.translation, neck, atol=0.004 * distance / 0.35)


def test_a_turn_about_the_neck_moves_nothing():
    motion = FaceMotion(WIDTH, HEIGHT)
    neck = np.array([0.0, 0.0, 0.7]) + CV_TO_WORLD @ NECK_M
    for share in np.linspace(0, 1, 8):
        turn = head_rotation(0.5 * share, 0, 0)
        eyes = neck - CV_TO_WORLD @ (quaternion_matrix(turn) @ NECK_M)
        code = motion.code(landmarks_of(turn, eyes), np.zeros(52), 0, 0)
    assert np.abs(code.translation).max() < 0.004


def test_speech_does_not_nod_the_head():
    motion = FaceMotion(WIDTH, HEIGHT)
    still, place = head_rotation(0, 0, 0), np.array([0.0, 0.0, 0.6])
    pitches = []
    for jaw in np.linspace(0, 0.8, 9):
        weights = np.zeros(52)
        weights[ARKIT_INDEX["jawOpen"]] = jaw
        # The network's weight is off by a quarter, as it may be.
        code = motion.code(landmarks_of(still, place, weights), 0.75 * weights, 0, 0)
        pitches.append(head_angles(code.rotation)[1])
    assert np.abs(pitches).max() < 0.02


def test_pixel_noise_is_averaged_away():
    motion = FaceMotion(WIDTH, HEIGHT)
    turn, place = head_rotation(0.2, 0.1, 0), np.array([0.02, 0.01, 0.6])
    angles = [
        head_angles(motion.code(landmarks_of(turn, place, noise_px=0.5, seed=seed), np.zeros(52), 0, 0).rotation)
        for seed in range(30)
    ]
    assert np.std(angles, axis=0).max() < 0.006
    np.testing.assert_allclose(np.mean(angles[5:], axis=0), [0.2, 0.1, 0], atol=0.01)


@pytest.mark.parametrize("gaze", [(0.3, 0.0), (-0.3, 0.0), (0.0, 0.2), (0.2, -0.15)])
def test_the_eyes_follow_the_irises(gaze):
    motion = FaceMotion(WIDTH, HEIGHT)
    turn, place = head_rotation(0.15, -0.1, 0.05), np.array([0.0, 0.0, 0.6])
    weights = np.zeros(52)
    weights[ARKIT_INDEX["eyeLookDownLeft"]] = 0.5  # what the network says of the eyes is not believed
    for _ in range(3):
        code = motion.code(landmarks_of(turn, place, gaze=gaze), weights, 0, 0)
    whole = code.gaze + look_angles(code.weights)
    # These corners lie where the head has them; the network puts them lower, which is taken off.
    np.testing.assert_allclose(whole.mean(axis=0), np.subtract(gaze, (0, UPWARD_RAD)), atol=0.03)
    np.testing.assert_allclose(code.gaze, 0, atol=1e-9)  # the eyeLook weights say it all, so that the lids follow
    assert whole[0, 0] < whole[1, 0]  # lines of sight meet before the face, they never part


def test_a_closed_eye_keeps_its_last_gaze_and_says_so():
    motion = FaceMotion(WIDTH, HEIGHT)
    turn, place = head_rotation(0, 0, 0), np.array([0.0, 0.0, 0.6])
    before = motion.code(landmarks_of(turn, place, gaze=(0.2, 0.0)), np.zeros(52), 0, 0)
    shut = np.zeros(52)
    shut[[ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["eyeBlinkRight"]]] = 1.0
    after = motion.code(landmarks_of(turn, place, gaze=(-0.4, -0.3)), shut, 1, 1)
    np.testing.assert_allclose(look_angles(after.weights), look_angles(before.weights), atol=1e-9)
    assert after.confidence[1] == 0 < before.confidence[1]


def test_points_that_are_no_face_give_no_nonsense():
    random = np.random.default_rng(3)
    motion = FaceMotion(WIDTH, HEIGHT)
    code = motion.code(FaceLandmarks(random.uniform(0, 480, (478, 3)), 0.5), np.zeros(52), 0, 0)
    assert isinstance(code, MotionCode) and np.isfinite(code.translation).all()


def test_the_corners_lie_on_the_eyes():
    basis = landmark_basis()
    for centre, corners in zip(basis.eye_centres, (LEFT_EYE_CORNERS, RIGHT_EYE_CORNERS), strict=True):
        assert np.linalg.norm(basis.template[list(corners)].mean(axis=0) - centre) < 0.02


def test_rotations_of_the_pose_are_opencvs():
    turn = cv2.Rodrigues(np.array([0.0, 0.3, 0.0]))[0]
    np.testing.assert_allclose(CV_TO_WORLD @ turn @ CV_TO_WORLD, quaternion_matrix(head_rotation(-0.3, 0, 0)), atol=1e-12)
