"""Validation: what is mended, what is refused, and that both are counted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from avatar3d.motion.code import MotionCode
from avatar3d.motion.validation import MotionValidator

any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)


def with_value(place: int, value: float) -> np.ndarray:
    weights = np.full(52, 0.5)
    weights[place] = value
    return weights


def test_a_whole_code_passes_untouched():
    validator = MotionValidator()
    code = validator.admit(np.full(52, 0.25), [0, 0, 0, 1], [0, 0.1, 0], np.zeros((2, 2)), np.full(5, 0.5), 7)
    assert (validator.admitted, validator.refused, dict(validator.repaired)) == (1, 0, {})
    assert code.weights[0] == 0.25 and code.translation[1] == 0.1 and code.time_ns == 7 and code.confidence[0] == 0.5


def test_broken_values_take_the_last_ones_and_lose_their_confidence():
    validator = MotionValidator()
    validator.admit(np.full(52, 0.25), [0, 1, 0, 0], [0, 0.1, 0], np.full((2, 2), 0.2), time_ns=1)
    code = validator.admit(with_value(17, np.nan), [np.nan] * 4, [0, np.inf, 0], [[np.nan, 0], [0, 0]], time_ns=2)
    assert code.weights[17] == 0.25 and code.weights[16] == 0.5
    np.testing.assert_array_equal(code.rotation, [0, 1, 0, 0])
    np.testing.assert_array_equal(code.translation, [0, 0.1, 0])
    np.testing.assert_array_equal(code.gaze, np.full((2, 2), 0.2))
    np.testing.assert_array_equal(code.confidence, [1, 0, 0, 1, 0])  # brow and tongue were whole
    assert set(validator.repaired) == {"weights not finite", "rotation unusable", "translation unusable", "gaze not finite"}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"weights": with_value(0, 1.5)}, "weights out of range"),
        ({"weights": np.zeros(52), "rotation": [0, 0, 0, 2]}, "rotation not unit"),
        ({"weights": np.zeros(52), "rotation": [0, 0, 0, 0]}, "rotation unusable"),
        ({"weights": np.zeros(52), "rotation": [1e300] * 4}, "rotation unusable"),
        ({"weights": np.zeros(52), "translation": [0, 0, 50]}, "translation unusable"),
        ({"weights": np.zeros(52), "gaze": [[2, 0], [0, 0]]}, "gaze out of range"),
    ],
)
def test_each_mending_is_counted(fields, kind):
    validator = MotionValidator()
    code = validator.admit(**fields)
    assert dict(validator.repaired) == {kind: 1} and validator.admitted == 1
    assert np.linalg.norm(code.rotation) == pytest.approx(1) and np.abs(code.gaze).max() <= 1.2


@pytest.mark.parametrize("weights", [np.full(52, np.nan), np.zeros(51), "jaw", [None] * 52, [[0] * 52]])
def test_what_is_no_face_is_refused(weights):
    validator = MotionValidator()
    assert validator.admit(weights) is None
    assert (validator.admitted, validator.refused) == (0, 1)


def test_time_goes_forward_and_codes_are_counted():
    validator = MotionValidator()
    codes = [validator.admit(np.zeros(52), time_ns=when) for when in (100, 50, 200)]
    assert [code.time_ns for code in codes] == [100, 101, 200] and [code.sequence for code in codes] == [0, 1, 2]
    assert validator.repaired["time not later"] == 1
    assert validator.admit(np.zeros(52), time_ns=2**80, sequence=-5).sequence == 0


@settings(max_examples=200)
@given(
    arrays(np.float64, 52, elements=any_float),
    arrays(np.float64, 4, elements=any_float),
    arrays(np.float64, 3, elements=any_float),
    arrays(np.float64, (2, 2), elements=any_float),
    arrays(np.float64, 5, elements=any_float),
)
def test_whatever_comes_a_valid_code_or_nothing_goes_out(weights, rotation, translation, gaze, confidence):
    code = MotionValidator().admit(weights, rotation, translation, gaze, confidence)
    if code is not None:
        assert isinstance(code, MotionCode)
        assert code.weights.min() >= 0 and code.weights.max() <= 1
        assert code.confidence.min() >= 0 and code.confidence.max() <= 1
        assert np.linalg.norm(code.rotation) == pytest.approx(1)
    else:
        assert not np.isfinite(weights).all()
