"""Settling the texture: with the field on, the photo's own view stays; elsewhere the highlight moves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.enrolment.field.view_term import settle_texture
from avatar3d.enrolment.hair.refine import refine_hair, settle_hair
from avatar3d.errors import InputError
from avatar3d.field import FieldConfig, new_field
from avatar3d.field.definition import box_of
from avatar3d.generator.protocol import PhotoEvidence
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HAIR, RenderOptions
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from tests.make_avatar import synthetic_avatar

CAMERA = Camera.orbit(0.2, width=160, height=160)
MOTION = MotionCode.from_expression({"jawOpen": 0.3})


@pytest.fixture(scope="module")
def avatar():
    """A hairless avatar, all of it seen in the photo, with a field that shows."""
    plain = synthetic_avatar(hair=False)
    fine = plain.base_color.repeat(8, 0).repeat(8, 1)  # coarse texels would span the edge of where the field acts
    low, high = box_of(plain)
    config = FieldConfig(levels=2, features=2, coarsest=4, finest=8, table_scale=0.5, output_scale=0.15)
    return dataclasses.replace(
        plain,
        base_color=fine,
        neural_field=new_field(0, config, low, high),
        baked=None,
        confidence=np.full_like(plain.confidence, 255),
    )


def _picture(avatar, form: str, camera: Camera = CAMERA) -> np.ndarray:
    (frame,) = ReferenceRenderer().render(avatar, MOTION, [camera], RenderOptions(form=form))
    return frame.to_srgb8((0, 0, 0)).astype(float)


def test_the_photos_view_stays_when_texture_and_field_share_the_work(avatar) -> None:
    settled = dataclasses.replace(avatar, base_color=settle_texture(avatar, MOTION, CAMERA))
    photo = _picture(avatar, "mesh")
    twice = np.sqrt(np.mean((_picture(avatar, "live") - photo) ** 2))
    once = np.sqrt(np.mean((_picture(settled, "live") - photo) ** 2))
    assert twice > 2 and once < 0.35 * twice


def test_unseen_skin_keeps_its_texture(avatar) -> None:
    unseen = dataclasses.replace(avatar, confidence=np.zeros_like(avatar.confidence))
    assert (settle_texture(unseen, MOTION, CAMERA) == avatar.base_color).all()


def test_without_a_field_it_says_so(avatar) -> None:
    with pytest.raises(InputError, match="no neural field"):
        settle_texture(dataclasses.replace(avatar, neural_field=None), MOTION, CAMERA)


def test_settled_hair_shows_the_photo_with_the_field_on() -> None:
    plain = synthetic_avatar(field=False, baked=False)
    (frame,) = ReferenceRenderer().render(plain, MOTION, [CAMERA], RenderOptions(form="mesh"))
    photo = frame.to_srgb8((0, 0, 0))
    hair = (frame.surface == SURFACE_HAIR) & (frame.rgba[..., 3] > 0.99)
    matte = frame.rgba[..., 3].astype(np.float32)
    evidence = PhotoEvidence(photo, CAMERA, MOTION, matte, hair.astype(np.float32))
    low, high = box_of(plain)
    config = FieldConfig(levels=2, features=2, coarsest=4, finest=8, table_scale=0.5, output_scale=0.15)
    lit = dataclasses.replace(refine_hair(plain, evidence), neural_field=new_field(0, config, low, high))

    def error(avatar) -> float:
        return float(np.sqrt(np.mean((_picture(avatar, "live") - photo)[hair] ** 2)))

    assert error(lit) > 2 and error(settle_hair(lit, evidence)) < 0.7 * error(lit)
    assert settle_hair(plain, evidence) is plain
