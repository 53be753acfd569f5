"""The rig: motion codes move the head as their definitions say."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.geometry import unit
from avatar3d.head.model import EYES, KAPPA_RAD, LASHES, SKIN, HeadModel
from avatar3d.head.rig import LOOK_MAX_RAD, gaze_angles, head_transform, pose
from avatar3d.motion.code import ARKIT_INDEX, MotionCode, quaternion_matrix
from avatar3d.motion.rotation import eye_rotation


@pytest.fixture(scope="module")
def head() -> HeadModel:
    return HeadModel.default()


def weights(**values: float) -> np.ndarray:
    out = np.zeros(52)
    for name, value in values.items():
        out[ARKIT_INDEX[name]] = value
    return out


def turn(axis: list[float], angle: float) -> np.ndarray:
    return np.r_[np.sin(angle / 2) * np.array(axis), np.cos(angle / 2)]


def sight(head: HeadModel, posed: np.ndarray, side: int) -> np.ndarray:
    """Line of sight of an eye: +Z, turned as the eyeball was turned."""
    index, centre = head.eye_vertices[side], head.eye_centres(head.vertices)[side]
    rotation = np.linalg.lstsq(head.vertices[index] - centre, posed[index] - centre, rcond=None)[0].T
    return rotation[:, 2]


def test_the_pupils_axes_at_rest_point_outward_of_the_lines_of_sight(head):
    for side, outward in enumerate((KAPPA_RAD, -KAPPA_RAD)):
        index = head.eye_vertices[side]
        pole = index[np.argmin(np.linalg.norm(head.uv[index] - head.eye_uv[side].centre, axis=1))]
        axis = unit(head.vertices[pole] - head.eye_centres(head.vertices)[side])
        np.testing.assert_allclose(axis, eye_rotation(outward, 0.0)[:, 2], atol=1e-3)


def test_nothing_moves_without_motion(head):
    np.testing.assert_allclose(pose(head, head.vertices, MotionCode()), head.vertices, atol=1e-7)


def test_rotation_matrix_agrees_with_the_right_hand_rule():
    np.testing.assert_allclose(quaternion_matrix(turn([0, 1, 0], np.pi / 2)) @ [0, 0, 1], [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(quaternion_matrix(turn([1, 0, 0], np.pi / 2)) @ [0, 1, 0], [0, 0, 1], atol=1e-12)
    matrix = quaternion_matrix(np.array([0.1, -0.3, 0.2, 0.9]) / np.linalg.norm([0.1, -0.3, 0.2, 0.9]))
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)


def test_gaze_turns_each_eye_toward_its_angles(head):
    posed = pose(head, head.vertices, MotionCode(gaze=np.array([[0.3, 0.1], [-0.2, -0.15]])))
    for side, (yaw, pitch) in enumerate(((0.3, 0.1), (-0.2, -0.15))):
        direction = sight(head, posed, side)
        np.testing.assert_allclose(np.arctan2(direction[0], direction[2]), yaw, atol=1e-3)
        np.testing.assert_allclose(np.arcsin(direction[1]), pitch, atol=1e-3)
    still = head.vertex_part != EYES
    np.testing.assert_allclose(posed[still], head.vertices[still], atol=1e-7)


@pytest.mark.parametrize(
    ("name", "side", "axis", "sign"),
    [("eyeLookOutLeft", 0, 0, 1), ("eyeLookInLeft", 0, 0, -1), ("eyeLookOutRight", 1, 0, -1), ("eyeLookInRight", 1, 0, 1),
     ("eyeLookUpLeft", 0, 1, 1), ("eyeLookDownRight", 1, 1, -1)],
)  # fmt: skip
def test_look_weights_turn_the_right_eye_the_right_way(head, name, side, axis, sign):
    posed = pose(head, head.vertices, MotionCode(weights=weights(**{name: 1.0})))
    np.testing.assert_allclose(sight(head, posed, side)[axis], sign * np.sin(LOOK_MAX_RAD), atol=2e-3)
    np.testing.assert_allclose(sight(head, posed, 1 - side), [0, 0, 1], atol=1e-3)


def test_gaze_is_limited_to_what_an_eye_can_do():
    motion = MotionCode(weights=weights(eyeLookOutLeft=1.0), gaze=np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert gaze_angles(motion)[0, 0] == pytest.approx(1.2 * LOOK_MAX_RAD)


def test_eye_rotation_is_a_rotation():
    matrix = eye_rotation(0.4, -0.2)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(matrix) == pytest.approx(1)


def test_the_head_turns_about_the_neck_and_the_bust_stays(head):
    motion = MotionCode(rotation=turn([0, 1, 0], 0.5))
    posed = pose(head, head.vertices, motion)
    rotation, shift = head_transform(motion, head.joints(head.vertices))
    whole = head.head_weight == 1
    np.testing.assert_allclose(posed[whole], head.vertices[whole] @ rotation.T + shift, atol=1e-5)
    fixed = head.head_weight == 0
    assert fixed.sum() > 50
    np.testing.assert_allclose(posed[fixed], head.vertices[fixed], atol=1e-6)
    nose = np.argmax(np.where(head.vertex_part == SKIN, head.vertices[:, 2], -1))
    assert posed[nose, 0] > 0.03  # a positive turn about +Y brings the nose to the subject's left


def test_translation_moves_everything_alike(head):
    shift = np.array([0.1, -0.02, 0.3])
    posed = pose(head, head.vertices, MotionCode(translation=shift))
    np.testing.assert_allclose(posed - head.vertices, np.broadcast_to(shift, posed.shape), atol=1e-6)


def test_lashes_follow_a_closing_lid(head):
    posed = pose(head, head.vertices, MotionCode(weights=weights(eyeBlinkLeft=1.0, eyeBlinkRight=1.0)))
    lashes = head.vertex_part == LASHES
    drop = head.vertices[lashes, 1] - posed[lashes, 1]
    assert drop.max() > 0.006
    # A lash keeps its length: turning, not stretching. Its points follow one another from root to tip.
    faces = head.faces[head.part == LASHES]
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    edges = edges[np.abs(edges[:, 0] - edges[:, 1]) == 1]
    assert len(edges) > 200
    lengths = [np.linalg.norm(v[edges[:, 0]] - v[edges[:, 1]], axis=1) for v in (head.vertices, posed)]
    np.testing.assert_allclose(lengths[1], lengths[0], atol=6e-4)
