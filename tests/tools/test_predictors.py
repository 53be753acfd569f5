"""The predictors that the project's own is measured against: valid codes, still faces left still, steady speed carried on."""

import numpy as np
import pytest

from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.predict import observe, predict
from tools.predictors import METHODS

BROW = ARKIT_INDEX["browInnerUp"]
PERIOD_NS, AHEAD_NS = 16_000_000, 50_000_000


def guesses(name: str, codes: list[MotionCode]) -> list[MotionCode]:
    state, found = None, []
    for code, method in zip(codes, METHODS[name](codes), strict=True):
        state = observe(state, code)
        found.append(predict(state, code.time_ns + AHEAD_NS, method).code)
    return found


def rising(count: int, gap_after: int | None = None) -> list[MotionCode]:
    """A brow that rises steadily, with two silent seconds after so many codes."""
    return [
        MotionCode(
            np.eye(52)[BROW] * 0.01 * k,
            time_ns=k * PERIOD_NS + (2_000_000_000 if gap_after is not None and k >= gap_after else 0),
        )
        for k in range(count)
    ]


@pytest.mark.parametrize("name", METHODS)
def test_no_method_moves_a_face_that_stands_still(name: str) -> None:
    still = [MotionCode(np.full(52, 0.3), time_ns=k * PERIOD_NS) for k in range(40)]
    np.testing.assert_allclose(guesses(name, still)[-1].weights, 0.3, atol=1e-9)


@pytest.mark.parametrize("name", ["velocity", "double_exponential", "kalman"])
def test_a_steady_rise_is_carried_on(name: str) -> None:
    codes = rising(60)
    expected = codes[-1].weights[BROW] + 0.01 * AHEAD_NS / PERIOD_NS
    assert guesses(name, codes)[-1].weights[BROW] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("name", METHODS)
def test_nothing_is_carried_over_a_gap(name: str) -> None:
    codes = rising(40, gap_after=30)
    np.testing.assert_array_equal(guesses(name, codes)[30].weights, codes[30].weights)
