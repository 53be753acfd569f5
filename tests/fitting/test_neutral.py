import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.fitting.neutral import UPPER_EDGE_BELOW_M, motion_weights, neutral_head, relaxed_mouth, seal_lips
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.model import MOUTH_BAG, TEETH, TONGUE
from avatar3d.motion.code import ARKIT_INDEX
from avatar3d.rendering.reference.raster import nearest, rasterise


@pytest.fixture(scope="module")
def head():
    return fitting_head()


def inside_seen(head, vertices):
    """Pixels (0.1 mm) of a frontal look at the mouth that show teeth, tongue or the mouth's inside."""
    middle = head.landmark_points(vertices)[[78, 308]].mean(0)
    camera = Camera.orbit(0.0, 0.0, 2.0, 600, 600, 0.06, middle)
    drawn = nearest(rasterise(vertices, head.faces, camera, np.ones(len(head.faces), bool)))
    return int(np.isin(head.part[drawn.face], (TEETH, TONGUE, MOUTH_BAG)).sum())


def some_identity(head, seed):
    rng = np.random.default_rng(seed)
    return head.shape(np.where(rng.random(len(head.identity_lower)) < 0.06, 0.2 * head.identity_upper, 0.0))


@pytest.mark.parametrize("seed", range(4))
def test_the_neutral_mouth_is_closed_from_corner_to_corner(head, seed):
    neutral, _ = neutral_head(head, some_identity(head, seed), np.zeros(52))
    assert inside_seen(head, neutral) < 60  # 0.6 mm²


def test_a_smile_that_leaked_into_the_identity_is_taken_out(head):
    smile = np.zeros(52)
    smile[[ARKIT_INDEX["mouthSmileLeft"], ARKIT_INDEX["mouthSmileRight"], ARKIT_INDEX["jawOpen"]]] = 0.3, 0.3, 0.1
    leaked = head.vertices + head.expression_offsets(smile)
    neutral, _ = neutral_head(head, leaked, np.zeros(52))

    def lift(vertices):
        points = head.landmark_points(vertices)
        return (points[[61, 291], 1] - points[13, 1]).mean()

    before, after = (lift(v) - lift(head.vertices) for v in (leaked, neutral))
    assert abs(after) < 0.5 * abs(before)
    assert inside_seen(head, neutral) < 60


def test_a_mouth_photographed_in_motion_has_an_average_shape_at_rest(head):
    thick = np.zeros(len(head.identity_lower))
    for name in ("mouth/mouth-scale-vert-incr", "mouth/mouth-trans-down", "mouth/mouth-upperlip-middle-down"):
        thick[head.identity_names.index(name)] = 1.0
    vertices, smile = head.shape(thick), np.zeros(52)
    smile[[ARKIT_INDEX["mouthSmileLeft"], ARKIT_INDEX["mouthSmileRight"]]] = 0.8
    relaxed = relaxed_mouth(head, vertices, smile)
    average, before, after = (head.landmark_points(v)[[0, 13, 14, 17]] for v in (head.vertices, vertices, relaxed))

    def misshapen(lips):
        return np.abs(np.diff(lips - average, axis=0)[:, 1]).max()

    assert misshapen(after) < 0.5 * misshapen(before)
    assert np.linalg.norm(after.mean(0) - before.mean(0)) < 0.0015, "the mouth keeps its place"
    assert np.abs(relaxed - vertices)[head.landmark_tri[[33, 263, 10, 234, 454]]].max() < 1e-4


def test_a_mouth_photographed_at_rest_is_left_alone(head):
    vertices = some_identity(head, 1)
    assert np.array_equal(relaxed_mouth(head, vertices, np.full(52, 0.15)), vertices)


def test_sealed_lips_are_left_alone_and_the_face_around_them_too(head):
    neutral = seal_lips(head, head.vertices)
    moved = np.linalg.norm(neutral - head.vertices, axis=1)
    far = np.linalg.norm(head.vertices - head.landmark_points(head.vertices)[13], axis=1) > 0.045
    assert moved[far].max() < 1e-5
    assert moved.max() < 0.002


def test_the_upper_teeth_hang_below_the_lip_line_for_every_identity(head):
    for seed in range(3):
        neutral, _ = neutral_head(head, some_identity(head, seed), np.zeros(52))
        line = head.landmark_points(neutral)[[13, 14], 1].mean()
        skull = head.expression[ARKIT_INDEX["jawOpen"]][:, 1] > -0.001
        front = (head.vertex_part == TEETH) & skull & (np.abs(head.vertices[:, 0]) < 0.005)
        assert line - neutral[front, 1].min() == pytest.approx(UPPER_EDGE_BELOW_M, abs=0.002)


def test_the_weights_back_to_the_photo_undo_the_rest_pose(head):
    expression = np.zeros(52)
    expression[[ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["eyeBlinkRight"]]] = 0.12, 0.3
    expression[ARKIT_INDEX["jawOpen"]] = 0.4
    neutral, rest = neutral_head(head, head.vertices, expression)
    blink = rest[[ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["eyeBlinkRight"]]]
    assert blink[0] == blink[1] == pytest.approx(0.12), "a rest pose is symmetric"
    weights = motion_weights(head, head.vertices, neutral, expression, rest)
    assert weights.min() >= 0 and weights.max() <= 1
    photo = head.vertices + head.expression_offsets(expression)
    again = neutral + head.expression_offsets(weights)
    error = np.linalg.norm(head.landmark_points(again) - head.landmark_points(photo), axis=1)
    assert error.mean() < 0.0006
