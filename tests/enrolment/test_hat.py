"""A hat in a real photo: a shell of its own in its own colours all around, the person's hair below it, and a sentence that says so."""

from __future__ import annotations

import numpy as np
import pytest
from samples import sample

from avatar3d.avatar import PART_CLOTHES
from avatar3d.camera import Camera
from avatar3d.enrolment.pipeline import EnrollOptions, enroll
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.reference.renderer import ReferenceRenderer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def admiral():
    return enroll(sample("grace_hopper.jpg"), EnrollOptions(field=False))


def view(avatar, yaw_deg: float) -> np.ndarray:
    camera = Camera.orbit(np.radians(yaw_deg), 0.0, 0.9, 200, 200, 0.30, target=(0, 0.03, -0.06))
    (frame,) = ReferenceRenderer().render(avatar, MotionCode(), [camera], RenderOptions(form="mesh"))
    return np.dstack([frame.to_srgb8((255, 255, 255)), 255 * (frame.rgba[..., 3] > 0.5)]).astype(int)


def test_the_report_says_that_there_is_a_hat(admiral):
    assert any("hat" in warning for warning in admiral[1]["warnings"])


def test_the_hat_is_worn_on_the_head_and_turns_with_it(admiral):
    avatar = admiral[0]
    clothed = np.unique(avatar.faces[avatar.part == PART_CLOTHES])
    hat = clothed[avatar.vertices[clothed, 1] > 0.04]
    assert len(hat) > 200
    assert avatar.head_weight[hat].min() == 1


@pytest.mark.parametrize("yaw", [90, 180, 270])
def test_her_navy_cap_is_navy_behind_her_ears(admiral, yaw):
    """And no grey strand grows in it."""
    picture = view(admiral[0], yaw)
    top = np.flatnonzero((picture[..., 3] > 0).any(1))[0]
    columns = {90: np.s_[100:], 180: np.s_[:], 270: np.s_[:100]}[yaw]
    cap = picture[top + 8 : top + 45, columns]
    dark = (cap[..., :3].max(-1) < 90) & (cap[..., 3] > 0)
    assert dark.sum() > 0.9 * (cap[..., 3] > 0).sum()


def test_the_badge_shows_in_front_and_nowhere_behind(admiral):
    front, back = view(admiral[0], 0), view(admiral[0], 180)
    top = np.flatnonzero((front[..., 3] > 0).any(1))[0]
    bright = [((part[top : top + 45, :, :3].min(-1) > 120) & (part[top : top + 45, :, 3] > 0)).sum() for part in (front, back)]
    assert bright[0] > 150
    assert bright[1] < 0.1 * bright[0]
