from dataclasses import replace

import cv2
import numpy as np
import pytest
from make_avatar import synthetic_avatar

from avatar3d.enroll.agreement import masked_psnr_db
from avatar3d.enroll.refine_hair import refine_hair
from avatar3d.generator.protocol import PhotoEvidence
from avatar3d.motion.code import MotionCode
from avatar3d.render.frame import SURFACE_HAIR, RenderOptions
from avatar3d.render.reference import ReferenceRenderer

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
