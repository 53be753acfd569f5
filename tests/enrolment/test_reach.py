"""What the networks say of a drawn face, and that the photo's own answer leads back to the photo's face."""

import numpy as np
import pytest
from samples import model
from staged_face import dressed, painted, staged_face

from avatar3d.enrolment.shape.reach import learn_reach
from avatar3d.face import FaceTracker
from avatar3d.head.landmarks import fitting_head
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.retarget import KEPT


@pytest.fixture(scope="module")
def face():
    head = fitting_head()
    avatar = dressed(head, staged_face().vertices, painted(head, np.random.default_rng(5)), shading_power=1.0)
    avatar.photo_motion = MotionCode.from_expression({"jawOpen": 0.15, "mouthSmileLeft": 0.3, "mouthSmileRight": 0.3})
    return avatar


def test_the_photos_own_answer_leads_to_the_photo_and_rest_to_rest(face):
    model("face_landmarker.task")
    said = MotionCode.from_expression({"mouthSmileLeft": 0.6, "mouthSmileRight": 0.55, "eyeBlinkLeft": 0.1}).weights
    reach = learn_reach(face, said, FaceTracker(threads=1))
    np.testing.assert_allclose(reach.weights(said), face.photo_motion.weights, atol=0.05)
    assert reach.weights(reach.answers[0])[KEPT].max() < 0.12
    for name in ("eyeBlinkLeft", "jawOpen"):  # the networks see these on any face, and less than all of them
        assert reach.rest[ARKIT_INDEX[name]] < 0.3 < reach.full[ARKIT_INDEX[name]] < 1.0


def test_pictures_without_a_face_give_no_reach(face):
    model("face_landmarker.task")
    from dataclasses import replace

    blank = replace(face, base_color=np.full_like(face.base_color, 110), light=np.eye(9, 3, dtype=np.float32) * 0)
    assert learn_reach(blank, np.zeros(52), FaceTracker(threads=1)) is None
