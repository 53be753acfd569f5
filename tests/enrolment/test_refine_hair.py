from dataclasses import replace

import cv2
import numpy as np
import pytest
from make_avatar import synthetic_avatar

from avatar3d.enrolment.hair import refine
from avatar3d.enrolment.hair.refine import _carried_on, _without_pits, refine_hair
from avatar3d.enrolment.photo.metrics import masked_psnr_db
from avatar3d.generator.protocol import PhotoEvidence
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HAIR, RenderOptions
from avatar3d.rendering.reference.renderer import ReferenceRenderer

MESH = RenderOptions(form="mesh")


@pytest.fixture(scope="module")
def staged():
    """An avatar, and the photo of one whose hair has another colour and pattern."""
    avatar = synthetic_avatar()
    camera = avatar.photo_camera.resized(200, round(200 * avatar.photo_camera.height / avatar.photo_camera.width))
    rng = np.random.default_rng(0)
    pattern = cv2.GaussianBlur(rng.normal(size=avatar.hair.color.shape[:2]).astype(np.float32), (0, 0), 5)
    color = np.clip(np.array([120, 90, 60]) + (25 * pattern / pattern.std())[..., None], 0, 255).astype(np.uint8)
    frame = drawn(replace(avatar, hair=replace(avatar.hair, color=color)), camera)
    matte = frame.rgba[..., 3]
    hair = (frame.surface == SURFACE_HAIR).astype(np.float32)
    return avatar, PhotoEvidence(frame.to_srgb8((128, 128, 128)), camera, MotionCode(), matte, hair), color


def drawn(avatar, camera):
    return ReferenceRenderer().render(avatar, MotionCode(), [camera], MESH)[0]


def test_the_photos_hair_is_reproduced_where_the_photo_shows_it(staged):
    avatar, evidence, _ = staged
    inside = cv2.erode((evidence.hair_alpha > 0.9).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    before, after = (
        masked_psnr_db(drawn(head, evidence.camera).to_srgb8((128, 128, 128)), evidence.rgb, inside)
        for head in (avatar, refine_hair(avatar, evidence))
    )
    assert after > before + 6


def test_locks_grown_over_the_hair_leave_its_photo_as_it_is_at_the_photos_own_view(staged, monkeypatch):
    avatar, evidence, _ = staged
    monkeypatch.setattr(refine, "dress", lambda color, growth: np.full_like(color, color.mean()))
    inside = cv2.erode((evidence.hair_alpha > 0.9).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    bare, dressed = (
        masked_psnr_db(drawn(head, evidence.camera).to_srgb8((128, 128, 128)), evidence.rgb, inside)
        for head in (refine_hair(avatar, evidence), refine_hair(avatar, evidence, object()))
    )
    assert dressed > bare - 2


def test_shape_skin_and_opacity_classes_stay(staged):
    avatar, evidence, _ = staged
    refined = refine_hair(avatar, evidence)
    assert np.array_equal(refined.base_color, avatar.base_color)
    assert np.array_equal(refined.hair.base, avatar.hair.base)
    assert np.array_equal(refined.hair.opacity[0], avatar.hair.opacity[0])
    assert not refined.hair.opacity[avatar.hair.opacity == 0].any(), "no strand where there was none"
    assert np.array_equal(refine_hair(avatar, evidence).hair.color, refined.hair.color)


def test_an_avatar_without_hair_is_left_alone(staged):
    avatar, evidence, _ = staged
    bald = replace(avatar, hair=None)
    assert refine_hair(bald, evidence) is bald
    assert refine_hair(avatar, replace(evidence, hair_alpha=None)) is avatar


def test_a_black_gap_in_the_photos_hair_is_no_hole_in_the_texture(staged):
    avatar, evidence, _ = staged
    hairy = np.argwhere(cv2.erode(evidence.hair_alpha, np.ones((25, 25))) > 0.9)
    y, x = hairy[len(hairy) // 2]
    rgb = evidence.rgb.copy()
    rgb[y - 4 : y + 5, x - 4 : x + 5] = 0
    pierced = refine_hair(avatar, replace(evidence, rgb=rgb)).hair.color
    whole = refine_hair(avatar, evidence).hair.color
    darker = whole.astype(int).mean(-1) - pierced.astype(int).mean(-1)
    assert darker.max() > 15, "the gap is seen"
    assert pierced.mean(-1)[darker == darker.max()].min() > 0.3 * whole.mean(-1)[darker == darker.max()].min()


def test_a_wide_pit_is_lifted_in_the_hue_around_it_and_keeps_its_strands():
    color = np.full((144, 256, 3), (0.30, 0.20, 0.08), np.float32)
    color[60:72, 100:130] = 0.003
    color[60:72, 110] = 0.02
    lifted = _without_pits(color)
    pit = lifted[62:70, 102:108].reshape(-1, 3).mean(0)
    assert pit.min() > 0.01
    assert pit[0] > 1.3 * pit[1] > 1.3 * pit[2], "brown, not grey"
    assert lifted[66, 110].sum() > lifted[66, 108].sum(), "what is brighter stays brighter"
    far = np.ones((144, 256), bool)
    far[40:92, 80:150] = False
    assert lifted[far] == pytest.approx(color[far], abs=1e-4)


def test_hair_that_no_photo_shows_takes_the_usual_change_of_tone():
    before = np.full((144, 256, 3), 0.2, np.float32)
    after, solved = before.copy(), np.zeros((144, 256), np.float32)
    solved[:, :100] = 1
    after[:, :100] = 0.1
    carried = _carried_on(before, after, solved)
    assert carried[:, 178].mean() == pytest.approx(0.1, abs=0.02), "farthest from what was solved"


def test_a_blue_light_on_a_part_of_the_hair_does_not_tint_its_texture(staged):
    avatar, evidence, _ = staged
    hairy = np.argwhere(evidence.hair_alpha > 0.9)
    low, high = hairy.min(0), hairy.max(0)
    x = low[1] + (high[1] - low[1]) * 3 // 4
    rgb = evidence.rgb.copy()
    rgb[:, x:, 2] = np.minimum(rgb[:, x:, 2].astype(int) + 90, 255)

    def blueness(picture):
        color = refine_hair(avatar, replace(evidence, rgb=picture)).hair.color.astype(int)
        return color[..., 2] - color[..., 0]

    assert (blueness(rgb) - blueness(evidence.rgb)).max() < 60, "of the 90 that were added"
