"""A network's answers led to a head: rest is rest, full is full, known answers give the known faces, and nothing leaves its bounds."""

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.retarget import HEAD, NETWORK, Reach, retargeted

BLINK, JAW, LOOK = ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["jawOpen"], ARKIT_INDEX["eyeLookDownLeft"]


def weights(**named: float) -> np.ndarray:
    return MotionCode.from_expression(named).weights.copy()


@pytest.fixture(scope="module")
def reach():
    """A head whose open eyes the network calls a fifth shut and whose shut eyes three fifths; of its photo it sees no open mouth."""
    rest, full = weights(eyeBlinkLeft=0.2, eyeBlinkRight=0.2), np.ones(52)
    full[[BLINK, BLINK + 6]] = 0.6
    answers = np.stack([rest, weights(eyeBlinkLeft=0.25, eyeBlinkRight=0.25, mouthSmileLeft=0.6, mouthSmileRight=0.6)])
    return Reach.through(rest, full, answers, np.stack([np.zeros(52), weights(jawOpen=0.3, mouthSmileLeft=0.4)]))


def test_rest_is_rest_shut_is_shut_and_the_photos_answer_gives_the_photos_face(reach):
    assert reach.weights(weights(eyeBlinkLeft=0.2, eyeBlinkRight=0.2)).max() < 0.05
    assert reach.weights(weights(eyeBlinkLeft=0.6, eyeBlinkRight=0.6))[BLINK] > 0.9
    photo = reach.weights(reach.answers[1])
    assert photo[JAW] == pytest.approx(0.3, abs=0.03)
    assert photo[ARKIT_INDEX["mouthSmileLeft"]] == pytest.approx(0.4, abs=0.03)


def test_far_from_known_answers_rest_and_full_alone_say_it(reach):
    wild = weights(jawOpen=0.9, mouthFunnel=1.0, browInnerUp=1.0, eyeBlinkLeft=0.4, cheekPuff=1.0)
    plain = Reach(reach.rest, reach.full, np.zeros((0, 52)), np.zeros((0, 52)))
    np.testing.assert_allclose(reach.weights(wild), plain.weights(wild), atol=0.05)
    assert plain.weights(wild)[BLINK] == pytest.approx(0.5)


def test_it_is_smooth_and_stays_within_the_weights(reach):
    random = np.random.default_rng(2)
    for answer in random.uniform(0, 1, (50, 52)):
        out = reach.weights(answer)
        assert out.min() >= 0 and out.max() <= 1
        assert np.abs(reach.weights(np.clip(answer + random.normal(0, 1e-3, 52), 0, 1)) - out).max() < 0.03
        assert out[LOOK] == answer[LOOK]  # looks are measured


def test_only_a_networks_answers_are_led_and_only_where_the_head_knows_them(reach):
    code = MotionCode(weights(eyeBlinkLeft=0.6), time_ns=7)
    assert retargeted(code, HEAD, reach) is code and retargeted(code, NETWORK, None) is code
    led = retargeted(code, NETWORK, reach)
    assert led.weights[BLINK] > 0.9 and led.time_ns == 7


@pytest.mark.parametrize("name", ["rest", "full", "answers", "corrections"])
def test_numbers_that_no_head_has_are_refused(reach, name):
    parts = {key: np.array(getattr(reach, key)) for key in ("rest", "full", "answers", "corrections")}
    for bad in (np.nan, 50.0):
        parts[name].flat[3] = bad
        if name != "answers" or not np.isfinite(bad):
            with pytest.raises(InputError, match="the reach"):
                Reach(**parts)
