"""A driven head stays in the picture over its whole motion, and one that does so anyway is left where it is."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.head.rig import head_transform
from avatar3d.motion.code import MotionCode
from avatar3d.motion.csv import head_rotation
from avatar3d.rendering.framing import WIDEST, frame, outermost_points
from tests.make_avatar import synthetic_avatar

TARGET, HEIGHT_M = (0.0, -0.02, -0.06), 0.36


def look(target: np.ndarray, view_height_m: float) -> Camera:
    return Camera.orbit(0.2, 0.1, 0.6, 320, 240, view_height_m, tuple(target))


def wandering(metres: float) -> list[MotionCode]:
    return [
        MotionCode(rotation=head_rotation(0.5 * np.sin(t), 0.3 * np.sin(2 * t), 0.4 * np.cos(t)),
                   translation=metres * np.array([np.sin(t) - 0.5, np.cos(t), 0.5 * np.sin(3 * t)]))
        for t in np.linspace(0, 6, 30)
    ]  # fmt: skip


@pytest.mark.parametrize("metres", [0.05, 0.15])
def test_no_motion_takes_the_head_out_of_the_picture(metres):
    avatar, motions = synthetic_avatar(), wandering(metres)
    camera = frame(avatar, motions, look, TARGET, HEIGHT_M)
    # All of the head and hair, not only the points that the camera was chosen by.
    hair = avatar.hair.base + avatar.hair.levels.max() * avatar.hair.extent
    points = np.concatenate([avatar.vertices[avatar.head_weight > 0.99], hair])
    for motion in motions:
        rotation, shift = head_transform(motion, avatar.joints)
        pixels, _ = camera.project(points @ rotation.T + shift)
        assert pixels.min() >= 0 and (pixels <= (camera.width, camera.height)).all()
    np.testing.assert_allclose(camera.rotation, look(TARGET, HEIGHT_M).rotation)


def test_a_head_that_stays_inside_is_shown_as_without_motion():
    camera, plain = frame(synthetic_avatar(), [MotionCode()], look, TARGET, 0.6), look(TARGET, 0.6)
    np.testing.assert_array_equal(camera.intrinsics, plain.intrinsics)
    np.testing.assert_array_equal(camera.translation, plain.translation)


def test_a_head_that_leaves_the_room_or_passes_the_camera_does_not_break_the_view():
    avatar = synthetic_avatar()
    away = [MotionCode(), MotionCode(translation=np.array([9.0, 0.0, 0.0])), MotionCode(translation=np.array([0.0, 0.0, 0.6]))]
    camera = frame(avatar, away, look, TARGET, HEIGHT_M)
    assert camera.intrinsics[1, 1] >= look(TARGET, HEIGHT_M).intrinsics[1, 1] / WIDEST * 0.999
    past = frame(avatar, away[2:], look, TARGET, HEIGHT_M)
    np.testing.assert_array_equal(past.translation, look(TARGET, HEIGHT_M).translation)
    assert len(outermost_points(avatar)) > 20
