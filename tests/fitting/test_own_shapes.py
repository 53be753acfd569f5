import numpy as np
import pytest

from avatar3d.fitting.own_shapes import own_shapes, shut_lids
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.model import EYES, TEETH
from avatar3d.motion.code import ARKIT_INDEX


@pytest.fixture(scope="module")
def head():
    return fitting_head()


@pytest.fixture(scope="module")
def smile():
    weights = np.zeros(52, np.float32)
    for name, value in (("mouthSmileLeft", 0.8), ("mouthSmileRight", 0.7), ("jawOpen", 0.3), ("eyeBlinkLeft", 0.4)):
        weights[ARKIT_INDEX[name]] = value
    return weights


@pytest.fixture(scope="module")
def wider(head, smile):
    """A photo whose smile is 2 mm wider on either side than the model's."""
    corners = head.landmark_points(head.vertices)[[61, 291]]
    near = np.exp(-((np.linalg.norm(head.vertices[:, None] - corners[None], axis=2).min(1) / 0.012) ** 2))
    photo = head.vertices + head.expression_offsets(smile)
    photo[:, 0] += 0.002 * np.sign(head.vertices[:, 0]) * near
    return photo


def test_the_photos_weights_lead_to_the_photos_face(head, smile, wider):
    own = own_shapes(head, head.vertices, smile, wider)
    reached = head.vertices + np.tensordot(smile, own, 1)
    mouth = [61, 291, 0, 17, 13, 14]
    missed, left = (
        np.linalg.norm(head.landmark_points(wider - v)[mouth], axis=1).max()
        for v in (head.vertices + head.expression_offsets(smile), reached)
    )
    assert missed > 0.0015
    assert left < 0.35 * missed


def test_a_shape_moves_no_skin_that_it_left_alone(head, smile, wider):
    own = own_shapes(head, head.vertices, smile, wider)
    still = np.linalg.norm(head.expression, axis=2) < 1e-9
    assert not (own - head.expression)[still].any()
    changed = np.linalg.norm(own - head.expression, axis=2).max(1) > 1e-5
    assert set(np.flatnonzero(changed)) == {ARKIT_INDEX[name] for name in ("mouthSmileLeft", "mouthSmileRight", "jawOpen")}


def test_blinks_eyes_and_teeth_stay_the_models(head, smile, wider):
    own = own_shapes(head, head.vertices, smile, wider)
    for name in ("eyeBlinkLeft", "eyeBlinkRight", "eyeLookUpLeft"):
        assert np.array_equal(own[ARKIT_INDEX[name]], head.expression[ARKIT_INDEX[name]])
    hard = np.isin(head.vertex_part, (EYES, TEETH))
    assert np.array_equal(own[:, hard], head.expression[:, hard])


def test_a_face_at_rest_keeps_the_models_shapes(head, wider):
    assert np.array_equal(own_shapes(head, head.vertices, np.zeros(52, np.float32), wider), head.expression)


@pytest.mark.parametrize("opening", [0.7, 1.0, 1.1])
def test_a_full_blink_just_shuts_the_eyes_and_the_photos_face_stays(head, opening):
    blink = head.expression[[ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["eyeBlinkRight"]]].sum(0)
    wide = head.vertices + (1 - opening) * blink
    weights = np.zeros(52)
    weights[[ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["jawOpen"]]] = 0.3
    shapes, own = shut_lids(head, wide, head.expression, weights)
    np.testing.assert_allclose(np.tensordot(own, shapes, 1), np.tensordot(weights, head.expression, 1), atol=1e-6)
    for side, (upper, lower) in (("Left", (386, 374)), ("Right", (159, 145))):
        y = head.landmark_points(wide + shapes[ARKIT_INDEX["eyeBlink" + side]])[:, 1]
        assert -0.0008 < y[upper] - y[lower] < 0
