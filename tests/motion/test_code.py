"""MotionCode: what validation mends, what is refused, and the quaternion axioms everything rests on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.errors import InputError
from avatar3d.motion.code import ARKIT_NAMES, MotionCode, head_angles, quaternion_matrix

quaternions = st.lists(st.floats(-1, 1), min_size=4, max_size=4).map(np.array).filter(lambda q: np.linalg.norm(q) > 1e-2)


def test_the_vocabulary_is_arkits():
    assert len(ARKIT_NAMES) == 52 == len(set(ARKIT_NAMES))
    assert ARKIT_NAMES[0] == "eyeBlinkLeft" and ARKIT_NAMES[17] == "jawOpen" and ARKIT_NAMES[-1] == "tongueOut"


@given(st.lists(st.floats(-10, 10), min_size=52, max_size=52), quaternions)
def test_weights_are_clipped_and_the_quaternion_made_unit(weights, quaternion):
    code = MotionCode(weights=weights, rotation=quaternion)
    assert code.weights.min() >= 0 and code.weights.max() <= 1
    assert np.linalg.norm(code.rotation) == pytest.approx(1)
    inside = (np.array(weights) >= 0) & (np.array(weights) <= 1)
    assert np.array_equal(code.weights[inside], np.array(weights)[inside])


def test_a_code_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        MotionCode().weights[0] = 1.0


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"weights": np.zeros(51)}, r"weights has shape \(51,\), expected \(52,\)"),
        ({"weights": np.full(52, np.nan)}, "not finite"),
        ({"weights": {"jawOpen": 1.0}}, "weights is a dict, expected 52 numbers"),
        ({"rotation": np.zeros(4)}, "length 0"),
        ({"translation": np.array([0, np.inf, 0])}, "not finite"),
        ({"gaze": np.zeros((3, 2))}, "gaze has shape"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(fields, sentence):
    with pytest.raises(InputError, match=sentence):
        MotionCode(**fields)


def test_expressions_by_name():
    assert MotionCode.from_expression({"jawOpen": 0.5}).weights[17] == 0.5
    with pytest.raises(InputError, match="unknown expression 'jawopen'"):
        MotionCode.from_expression({"jawopen": 0.5})
    with pytest.raises(InputError, match="outside"):
        MotionCode.from_expression({"jawOpen": 1.5})
    with pytest.raises(InputError, match="outside"):
        MotionCode.from_expression({"jawOpen": float("nan")})


def test_a_head_turns_to_its_left_and_up_and_its_face_stays():
    smile = MotionCode.from_expression({"mouthSmileLeft": 0.5})
    turned = smile.turned(yaw_rad=0.3, pitch_rad=0.2, roll_rad=-0.1)
    assert np.array_equal(turned.weights, smile.weights)
    assert head_angles(turned.rotation) == pytest.approx((0.3, 0.2, -0.1))
    ahead = quaternion_matrix(turned.rotation) @ [0.0, 0.0, 1.0]
    assert ahead[0] > 0.25 and ahead[1] > 0.15
    assert np.array_equal(smile.turned().rotation, [0, 0, 0, 1])


@given(quaternions, quaternions)
def test_quaternion_matrices_are_rotations_that_compose(a, b):
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    product = np.array(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ]
    )
    first, second = quaternion_matrix(a), quaternion_matrix(b)
    assert np.allclose(first @ first.T, np.eye(3), atol=1e-12) and np.linalg.det(first) == pytest.approx(1)
    assert np.allclose(first @ second, quaternion_matrix(product), atol=1e-12)
