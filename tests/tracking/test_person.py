"""A person's head is found from the best frames and kept; on it the landmarks, not the network, say how far a face is open."""

from itertools import pairwise

import numpy as np
import pytest
from staged_face import landmarks_of, portrait_camera

from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.head.landmarks import fitting_head
from avatar3d.motion.code import ARKIT_INDEX, MotionCode, look_angles
from avatar3d.motion.csv import head_angles
from avatar3d.motion.rotation import between
from avatar3d.tracking.person import CHANGE_S, LOOK_S, MAX_FITS, FaceTrack, HeadFinder, PersonMotion, harm

SIZE = 512
FRAME_NS = 33_000_000


@pytest.fixture(scope="module")
def head():
    return fitting_head()


@pytest.fixture(scope="module")
def vertices(head):
    """A face that is not the average: small eyes, wide mouth and more, as the random numbers have it."""
    rng = np.random.default_rng(4)
    return head.shape(np.where(rng.random(len(head.identity_lower)) < 0.05, 0.4 * head.identity_upper, 0.0))


def frame(head, vertices, yaw=0.1, gaze=(0.0, 0.0), noise_px=0.0, seed=0, **expression) -> FaceLandmarks:
    code = MotionCode.from_expression(expression)
    code = MotionCode(code.weights, gaze=np.array([gaze, gaze]))
    found = landmarks_of(head, vertices, code, portrait_camera(yaw, SIZE))
    noise = np.random.default_rng(seed).normal(0, noise_px, (478, 3)) * (1, 1, 0)
    return FaceLandmarks(found.points_px + noise, 1.0)


@pytest.fixture(scope="module")
def person(head, vertices):
    finder = HeadFinder(SIZE, SIZE)
    for _ in range(2):
        finder.keep(frame(head, vertices), np.zeros(52), 1.0)
    finder.fit()
    return finder.head


def gaps(head, vertices, weights):
    """Millimetres between the lips and between the lids of a head that these weights move."""
    points = head.landmark_points(vertices + head.expression_offsets(weights)) * 1000
    return np.array([points[13, 1] - points[14, 1], points[159, 1] - points[145, 1], points[386, 1] - points[374, 1]])


@pytest.mark.parametrize("yaw", [0.1, 0.5, -0.4])
@pytest.mark.parametrize(
    "expression",
    [
        {},
        {"jawOpen": 0.7},
        {"eyeBlinkLeft": 0.8, "eyeBlinkRight": 0.8},
        {"mouthSmileLeft": 0.6, "mouthSmileRight": 0.6, "jawOpen": 0.2},
        {"jawOpen": 0.3, "mouthFunnel": 0.5, "browInnerUp": 0.5},
    ],
)
def test_the_landmarks_decide_and_not_the_network(head, vertices, person, yaw, expression):
    motion = PersonMotion(SIZE, SIZE, None, person)
    for share in (0.0, 0.5, 1.0, 1.0):
        shown = {name: share * value for name, value in expression.items()}
        code = motion.code(frame(head, vertices, yaw, noise_px=0.2, **shown), np.zeros(52), 0, 0)
    truth = MotionCode.from_expression(expression).weights
    opened = gaps(head, vertices, code.weights) - gaps(head, vertices, np.zeros(52))
    wanted = gaps(head, vertices, truth) - gaps(head, vertices, np.zeros(52))
    np.testing.assert_allclose(opened, wanted, atol=1.6)
    assert motion.residual_iod < 0.012


def test_a_face_at_rest_reads_as_rest_and_looks_where_it_looks(head, vertices, person):
    motion = PersonMotion(SIZE, SIZE, None, person)
    for _ in range(3):
        code = motion.code(frame(head, vertices, gaze=(0.2, -0.15)), np.zeros(52), 0, 0)
    still = [place for name, place in ARKIT_INDEX.items() if not name.startswith("eye")]  # lids lower with a look
    assert code.weights[still].max() < 0.15
    np.testing.assert_allclose((code.gaze + look_angles(code.weights)).mean(0), (0.2, -0.15), atol=0.06)


def test_the_turn_is_recovered(head, vertices, person):
    motion = PersonMotion(SIZE, SIZE, None, person)
    yaws = [head_angles(motion.code(frame(head, vertices, yaw), np.zeros(52), 0, 0).rotation)[0] for yaw in (0.0, 0.3, -0.3)]
    np.testing.assert_allclose(np.array(yaws) - yaws[0], [0, -0.3, 0.3], atol=0.03)


def test_points_that_are_no_face_give_no_nonsense(person):
    random = np.random.default_rng(3)
    motion = PersonMotion(SIZE, SIZE, None, person)
    for _ in range(5):
        code = motion.code(FaceLandmarks(random.uniform(0, 480, (478, 3)), 0.5), random.uniform(0, 1, 52), 0, 0)
        assert np.isfinite(code.translation).all() and code.weights.max() <= 1


def test_frontal_still_calm_frames_teach_best(head, vertices):
    calm, smiling = np.zeros(52), np.zeros(52)
    smiling[[ARKIT_INDEX["mouthSmileLeft"], ARKIT_INDEX["mouthSmileRight"]]] = 0.8
    face = frame(head, vertices)
    best = harm(face, calm, 1.0, 0.1)
    for worse in (harm(face, smiling, 1.0, 0.1), harm(face, calm, np.cos(0.5), 0.1), harm(face, calm, 1.0, 8.0),
                  harm(FaceLandmarks(face.points_px, 0.8), calm, 1.0, 0.1)):  # fmt: skip
        assert worse > best + 0.5


def test_a_cameras_motion_passes_from_the_networks_to_the_solved_without_a_jump(head, vertices):
    """The mouth is open, which the network does not see; once the head is known the code says so, and comes there smoothly."""
    track = FaceTrack(SIZE, SIZE)
    seconds = LOOK_S + CHANGE_S + 0.5
    codes = []
    for index in range(round(seconds * 1e9 / FRAME_NS)):
        opened = 0.0 if index * FRAME_NS < 0.5e9 else 0.5
        codes.append(
            track.code(frame(head, vertices, jawOpen=opened, noise_px=0.1, seed=index), np.zeros(52), index * FRAME_NS)
        )
    jaw = np.array([code.weights[ARKIT_INDEX["jawOpen"]] for code in codes])
    assert jaw[: int(0.9e9 / FRAME_NS)].max() == 0 and jaw[-1] > 0.35
    assert np.diff(jaw).max() < 0.1
    passing = codes[int(0.9e9 / FRAME_NS) :]
    assert max(np.linalg.norm(between(a.rotation, b.rotation)) for a, b in pairwise(passing)) < 0.02
    assert max(np.abs(a.translation - b.translation).max() for a, b in pairwise(passing)) < 0.006


def test_the_network_alone_on_request(head, vertices):
    track = FaceTrack(SIZE, SIZE, solved=False)
    for index in range(50):
        code = track.code(frame(head, vertices, jawOpen=0.5), np.zeros(52), index * FRAME_NS)
    assert code.weights[ARKIT_INDEX["jawOpen"]] == 0 and track.finder.head is None


def test_a_head_is_fitted_a_few_times_at_most_and_anew_only_from_a_better_frame(head, vertices):
    finder = HeadFinder(SIZE, SIZE)
    heads = set()
    for index in range(12):
        facing = 0.8 if index < 6 else 1.0
        finder.see(frame(head, vertices, noise_px=0.1, seed=index), np.zeros(52), facing, round(index * 1.1 * LOOK_S * 1e9))
        heads.add(id(finder.head))
    assert finder.head is not None and 2 <= len(heads) - 1 <= MAX_FITS
