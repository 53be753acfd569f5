from dataclasses import replace

import numpy as np
import pytest
from other_head import EXPRESSIONS, counts, other_head

from avatar3d.avatar import JOINT_NAMES
from avatar3d.errors import InputError
from avatar3d.fitting.given import given_head
from avatar3d.head.archive import load_head, write_head
from avatar3d.head.given import adopted
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import LID_MIDDLES, MESH_POINTS, STABLE
from avatar3d.head.model import EYES, HeadModel
from avatar3d.head.protocol import REGIONS
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, MotionCode


@pytest.fixture(scope="module")
def other():
    return other_head()


@pytest.fixture(scope="module")
def head(other):
    return given_head(other)


def test_the_other_head_shares_no_count_with_the_default_one(other):
    assert all(own != default for own, default in counts(other).values())


def test_the_default_head_is_taken_as_it_is():
    assert given_head() is given_head(fitting_head()) is fitting_head()
    default = HeadModel.default()
    assert adopted(default) is default
    code = MotionCode.from_expression({"jawOpen": 0.4, "tongueOut": 1.0})
    np.testing.assert_array_equal(default.rig(code), code.weights)


def test_a_model_of_bare_arrays_is_driven_by_the_weights_as_its_rig_says(other, head):
    assert head.expression_names == ARKIT_NAMES and head.expression.shape == (len(ARKIT_NAMES), len(other.vertices), 3)
    rng = np.random.default_rng(1)
    for _ in range(4):
        code = MotionCode(weights=rng.uniform(0, 1, len(ARKIT_NAMES)))
        told = np.tensordot(other.rig(code), other.expression, 1)
        np.testing.assert_allclose(head.expression_offsets(code.weights), told, atol=2e-6)
    unanswered = set(ARKIT_NAMES) - {name for mixed in EXPRESSIONS for name in mixed}
    assert not head.expression[[ARKIT_INDEX[name] for name in unanswered]].any()


def test_its_shapes_joints_and_seams_are_its_own(other, head):
    rng = np.random.default_rng(2)
    identity = rng.normal(0, 0.3, len(other.identity)).astype(np.float32)
    shaped = other.vertices + np.tensordot(identity, other.identity, 1)
    np.testing.assert_allclose(head.shape(identity), shaped, atol=1e-6)
    joints = head.joints(head.vertices)
    assert set(joints) == set(JOINT_NAMES) and joints["jaw"][1] < joints["leftEye"][1] and joints["leftEye"][0] > 0
    np.testing.assert_allclose(head.vertices[head.mirror] * (-1, 1, 1), head.vertices, atol=1e-4)
    np.testing.assert_array_equal(head.vertices[head.weld], head.vertices)
    default = fitting_head()  # as many seams as the model that it was cut from, less those of the parts left out
    assert 0 < (head.weld != np.arange(len(head.weld))).sum() < (default.weld != np.arange(len(default.weld))).sum()


def test_landmarks_that_it_does_not_place_are_put_where_faces_have_them(other, head):
    points = head.landmark_points(head.vertices)
    assert points.shape == (MESH_POINTS, 3)
    own = (other.vertices[other.landmark_tri] * other.landmark_bary[..., None]).sum(1)
    np.testing.assert_allclose(points[other.landmark_ids], own, atol=1e-6)
    guessed = np.setdiff1d(np.arange(MESH_POINTS), other.landmark_ids)
    assert len(guessed) > 300
    # The other head was made of the default one, whose landmarks tell the truth.
    default = fitting_head()
    modes = [k for k, name in enumerate(default.identity_names) if name.startswith("ict/")][:2]
    average = default.vertices + sum(0.4 * default.identity[k] for k in modes)
    truth = default.landmark_points(average) - default.eye_centres(average).mean(0)
    off = np.linalg.norm(points - 1.06 * truth, axis=1)
    assert np.median(off[guessed]) < 0.0003 and off.max() < 0.002
    assert head.landmark_confidence[guessed].max() < head.landmark_confidence[other.landmark_ids].min()


def test_a_head_written_to_a_file_is_read_again(head, tmp_path):
    file = tmp_path / "head.npz"
    few = replace(
        head, control_expression=head.control_expression[[17, 0, 7]], expression_names=("open", "shutLeft", "shutRight"),
        rig_matrix=np.eye(len(ARKIT_NAMES))[[17, 0, 7]], landmark_ids=np.array(STABLE),
        landmark_tri=head.landmark_tri[list(STABLE)], landmark_bary=head.landmark_bary[list(STABLE)],
        landmark_confidence=head.landmark_confidence[list(STABLE)],
    )  # fmt: skip
    write_head(few, file)
    read = load_head(file)
    assert read.expression_names == few.expression_names and list(read.regions) == list(few.regions)
    np.testing.assert_array_equal(read.landmark_ids, STABLE)
    np.testing.assert_allclose(read.expression, few.expression, atol=1e-5)
    np.testing.assert_allclose(read.identity, few.identity, atol=1e-5)
    np.testing.assert_allclose(read.joint_positions(read.vertices), few.joint_positions(few.vertices), atol=1e-6)
    again = given_head(read)
    np.testing.assert_allclose(again.expression[[17, 0, 7]], few.expression, atol=1e-5)
    lids = list(LID_MIDDLES[0])
    np.testing.assert_allclose(
        again.landmark_points(again.vertices)[lids], head.landmark_points(head.vertices)[lids], atol=0.001
    )


def _without_region(name):
    return lambda head: replace(head, regions={key: value for key, value in head.regions.items() if key != name})


def _moving_eyes(head):
    eyes = np.isin(np.arange(len(head.vertices)), head.faces[head.part == EYES])
    return replace(head, expression=head.expression + 0.005 * eyes[:, None])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_without_region("ears"), "it has no region ears \\(both ears"),
        (lambda h: replace(h, vertices=10 * h.vertices), "0.6.* m apart.*it wants metres"),
        (lambda h: replace(h, vertices=h.vertices + (0, 0.1, 0)), "middle of its eyes lies at"),
        (lambda h: replace(h, vertices=h.vertices * (-1, 1, 1)), "the left one at x = -0.0"),
        (lambda h: replace(h, expression=h.expression[:, :-1]), "expression .* is not \\(shapes, [0-9]+, 3\\)"),
        (lambda h: replace(h, expression=h.expression[1:]), "its rig answers 11 coefficients for 10 expression shapes"),
        (lambda h: replace(h, landmark_ids=h.landmark_ids[:20], landmark_tri=h.landmark_tri[:20], landmark_bary=h.landmark_bary[:20],
                           landmark_confidence=h.landmark_confidence[:20]), "places 20 landmarks of the 40"),
        (lambda h: replace(h, landmark_ids=h.landmark_ids * 0), "landmark_ids are not different numbers under 468"),
        (lambda h: replace(h, landmark_tri=h.landmark_tri + 10**6), "landmark_tri .* indices under"),
        (lambda h: replace(h, joint_names=[*h.joint_names[:-1], "hat"]), "it has no joint"),
        (lambda h: replace(h, identity_sigma=h.identity_sigma * 0), "sigma of its identity"),
        (lambda h: replace(h, identity=h.identity * np.nan), "identity holds a value that is not finite"),
        (lambda h: replace(h, part=np.minimum(h.part, 0)), "no two eyeballs"),
        (lambda h: replace(h, part=h.part + 7), "part .* is not \\(F,\\) of codes under 6: skin, eyes"),
        (lambda h: replace(h, part=np.where(np.arange(len(h.part)) == 0, 5 - h.part[0], h.part)), "belongs to two parts; split it"),
        (_moving_eyes, "an expression moves its eyeballs"),
        (lambda h: 3, "a int is no head model: it has no vertices, no faces, no part, no uv and 17 more"),
    ],
)  # fmt: skip
def test_what_a_model_lacks_is_said_in_one_sentence(other, change, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        given_head(change(other))
    assert "docs/head-model.md" in str(caught.value)


def test_a_rig_that_is_not_linear_is_refused(other):
    class Curved(type(other)):
        def rig(self, motion):
            return super().rig(motion) ** 2

    with pytest.raises(InputError, match="not linear"):
        given_head(Curved(**vars(other)))


def test_the_regions_of_the_contract_are_those_that_enrolment_asks_for():
    assert set(REGIONS) < set(fitting_head().regions)
