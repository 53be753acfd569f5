"""Painting: what a generator changed in its pictures is what the avatar then shows, and nothing else of it changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.generator import GeneratedView, GeneratorRequest, make_request, paint
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HEAD
from tests.make_avatar import synthetic_avatar

FRONT = Camera.orbit(0.0, width=200, height=200)
RED = np.array([0.9, 0.1, 0.1])


class Spot:
    """Reddens what lies within `radius_m` of a place on the resting head."""

    name = "spot"

    def __init__(self, place: np.ndarray, radius_m: float, sure: float = 1.0) -> None:
        self.place, self.radius_m, self.sure = place, radius_m, sure

    def generate(self, request: GeneratorRequest) -> GeneratedView:
        rgba = request.picture()
        near = np.linalg.norm(request.places_at_rest() - self.place, axis=-1) < self.radius_m
        rgba[near, :3] += 0.5 * (RED - rgba[near, :3])
        return GeneratedView(rgba, np.full(near.shape, self.sure))


@pytest.fixture(scope="module")
def avatar():
    """With a texture whose texels are 2 mm wide."""
    coarse = synthetic_avatar()
    return replace(coarse, base_color=coarse.base_color.repeat(4, 0).repeat(4, 1))


@pytest.fixture(scope="module")
def cheek(avatar) -> np.ndarray:
    """A place on the skin, left of the middle of the face."""
    places = make_request(avatar, MotionCode(), FRONT).places_at_rest()
    return places[115, 118]


def difference(before, after, camera: Camera) -> tuple[np.ndarray, GeneratorRequest]:
    """(H, W, 3) what the pictures differ by, sRGB, and the request of the first."""
    requests = [make_request(head, MotionCode(), camera) for head in (before, after)]
    first, second = (request.picture()[..., :3] for request in requests)
    return second - first, requests[0]


def test_a_picture_that_is_left_as_it_was_leaves_the_texture(avatar, cheek):
    assert np.array_equal(paint(avatar, Spot(cheek, 0.0)).base_color, avatar.base_color)


def test_every_view_shows_what_the_generator_drew_and_the_rest_stays(avatar, cheek):
    spot = Spot(cheek, 0.02)
    painted = paint(avatar, spot)
    for yaw in (0.0, 0.5):
        camera = Camera.orbit(yaw, width=200, height=200)
        shown, request = difference(avatar, painted, camera)
        wanted = spot.generate(request).rgba[..., :3] - request.picture()[..., :3]
        away = np.linalg.norm(request.places_at_rest() - cheek, axis=-1)
        inside, outside = away < 0.015, away > 0.026
        assert inside.sum() > 100
        np.testing.assert_allclose(shown[inside].mean(0), wanted[inside].mean(0), atol=0.02)
        assert np.abs(shown[outside]).max() < 0.02
        elsewhere = (request.geometry.surface >= 0) & (request.geometry.surface != SURFACE_HEAD)
        assert elsewhere.any() and np.abs(shown[elsewhere]).max() < 0.02
    assert painted.hair is avatar.hair and painted.neural_field is avatar.neural_field


def test_confidence_is_how_much_of_it_is_painted(avatar, cheek):
    whole, half, none = (difference(avatar, paint(avatar, Spot(cheek, 0.02, sure)), FRONT)[0].min() for sure in (1.0, 0.5, 0.0))
    assert none == 0 and 0.35 < half / whole < 0.65


def test_what_an_avatar_has_no_light_for_is_still_painted(avatar, cheek):
    black = replace(avatar, base_color=np.zeros_like(avatar.base_color))
    shown, request = difference(black, paint(black, Spot(cheek, 0.02)), FRONT)
    near = np.linalg.norm(request.places_at_rest() - cheek, axis=-1) < 0.012
    assert shown[near, 0].mean() > 0.3


@pytest.mark.parametrize(
    "answer",
    [
        None,
        GeneratedView(np.zeros((8, 8, 4)), np.zeros((8, 8))),
        GeneratedView(np.zeros((512, 512, 4), np.uint8), np.zeros((512, 512))),
        GeneratedView(np.full((512, 512, 4), np.nan), np.zeros((512, 512))),
        GeneratedView(np.zeros((512, 512, 4)), np.zeros((512, 512, 1))),
    ],
    ids=["nothing", "small", "bytes", "not a number", "confidence"],
)
def test_an_answer_that_is_no_picture_is_one_sentence(avatar, answer):
    class Broken:
        name = "broken"

        def generate(self, request: GeneratorRequest) -> GeneratedView:
            return answer

    with pytest.raises(InputError, match=r"the generator 'broken' answered with \w+ .*; expected finite floats \(512, 512"):
        paint(avatar, Broken())
