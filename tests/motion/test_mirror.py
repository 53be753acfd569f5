"""Mirroring: its own inverse, sides change places, and a posed head is the reflection of the unmirrored one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.head.rig import gaze_angles
from avatar3d.motion.code import ARKIT_INDEX, MotionCode, quaternion_matrix
from avatar3d.motion.mirror import mirrored

FLIP = np.diag([-1.0, 1.0, 1.0])


@given(st.integers(0, 2**31))
def test_the_image_is_a_reflection_and_its_image_the_original(seed):
    rng = np.random.default_rng(seed)
    code = MotionCode(
        weights=rng.random(52), rotation=rng.normal(size=4), translation=rng.normal(size=3), gaze=rng.normal(size=(2, 2)) * 0.1
    )
    image = mirrored(code)
    np.testing.assert_allclose(quaternion_matrix(image.rotation), FLIP @ quaternion_matrix(code.rotation) @ FLIP, atol=1e-12)
    np.testing.assert_allclose(image.translation, FLIP @ code.translation)
    np.testing.assert_allclose(gaze_angles(image), gaze_angles(code)[::-1] * (-1, 1), atol=1e-12)
    back = mirrored(image)
    for name in ("weights", "rotation", "translation", "gaze"):
        np.testing.assert_allclose(getattr(back, name), getattr(code, name), atol=1e-12)


def test_a_wink_changes_sides():
    image = mirrored(MotionCode.from_expression({"eyeBlinkLeft": 1.0, "jawRight": 0.5, "jawOpen": 0.3}))
    assert [image.weights[ARKIT_INDEX[name]] for name in ("eyeBlinkRight", "jawLeft", "jawOpen")] == [1.0, 0.5, 0.3]
    assert image.weights[ARKIT_INDEX["eyeBlinkLeft"]] == 0
