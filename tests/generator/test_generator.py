"""Generators: lookup by name, the geometry they are given, and the photo generator against the photo it holds."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.color import psnr_db
from avatar3d.errors import InputError
from avatar3d.generator import PhotoEvidence, generator_names, generator_of, load_generator, make_request
from avatar3d.generator.photo import PhotoGenerator, facing_belief, photo_lookup, photo_view
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD
from avatar3d.rendering.scene import build_scene
from tests.make_avatar import synthetic_avatar

SIZE = 160


@pytest.fixture(scope="module")
def avatar():
    return synthetic_avatar()


def _camera(yaw_deg: float) -> Camera:
    return Camera.orbit(np.radians(yaw_deg), width=SIZE, height=SIZE)


def _evidence(avatar, motion: MotionCode) -> PhotoEvidence:
    """A photo of the avatar itself, so that the truth at any other view is known."""
    request = make_request(avatar, motion, _camera(0))
    return PhotoEvidence(
        rgb=request.coarse.to_srgb8((90, 110, 130)),
        camera=_camera(0),
        motion=motion,
        matte=request.coarse.rgba[..., 3],
        hair_alpha=(request.geometry.surface == SURFACE_HAIR).astype(np.float32),
    )


@pytest.fixture(scope="module")
def evidence(avatar) -> PhotoEvidence:
    return _evidence(avatar, MotionCode.from_expression({"jawOpen": 0.3}))


def _psnr(a: np.ndarray, b: np.ndarray) -> float:
    return psnr_db(float(np.mean(np.square(a - b))))


def test_photo_is_found_by_name_and_an_unknown_name_is_one_sentence() -> None:
    assert "photo" in generator_names()
    assert load_generator("photo") is PhotoGenerator
    with pytest.raises(InputError, match=r"unknown generator 'dream'; expected one of .*photo"):
        load_generator("dream")


class Nameless:
    """A generator with the least that it needs."""

    def generate(self, request):
        return None


def test_a_generator_may_be_made_of_the_evidence_of_nothing_or_beforehand(evidence) -> None:
    own = Nameless()
    assert generator_of(own)[0] == "Nameless" and generator_of(own)[1](evidence) is own
    name, make = generator_of(Nameless)
    assert name == "Nameless" and isinstance(make(evidence), Nameless)
    name, make = generator_of(PhotoGenerator)
    assert name == "photo" and make(evidence).evidence is evidence
    with pytest.raises(InputError, match="a dict is no generator"):
        generator_of({})


def test_evidence_of_another_size_is_refused(evidence) -> None:
    with pytest.raises(InputError, match="matte is \\(4, 4\\), expected \\(160, 160\\)"):
        PhotoEvidence(evidence.rgb, evidence.camera, evidence.motion, np.zeros((4, 4), np.float32))


def test_geometry_buffers_name_the_point_each_pixel_shows(avatar) -> None:
    motion = MotionCode.from_expression({"mouthSmileLeft": 0.5})
    camera = _camera(20)
    geometry = make_request(avatar, motion, camera).geometry
    head = geometry.surface == SURFACE_HEAD
    assert head.sum() > 2000 and (geometry.surface == SURFACE_HAIR).sum() > 500
    vertices = build_scene(avatar, motion).vertices
    points = (vertices[avatar.faces[geometry.face[head]]] * geometry.barycentric[head][..., None]).sum(1)
    pixels, depth = camera.project(points)
    rows, columns = np.nonzero(head)
    np.testing.assert_allclose(pixels, np.stack([columns + 0.5, rows + 0.5], 1), atol=0.02)
    np.testing.assert_allclose(depth, geometry.depth[head], atol=1e-5)


def test_at_the_photo_camera_the_photo_comes_back(avatar, evidence) -> None:
    view = PhotoGenerator(evidence).generate(make_request(avatar, evidence.motion, evidence.camera))
    sure = view.confidence > 0.2
    assert sure.sum() > 3000
    assert _psnr(view.rgba[sure][:, :3], evidence.rgb[sure] / 255) > 60
    # The warp itself, not only the shortcut: a camera that differs by nothing visible takes the general path.
    nudged = Camera(SIZE, SIZE, evidence.camera.intrinsics, evidence.camera.rotation, evidence.camera.translation + 1e-6)
    warped = PhotoGenerator(evidence).generate(make_request(avatar, evidence.motion, nudged))
    sure = warped.confidence > 0.2
    assert _psnr(warped.rgba[sure][:, :3], evidence.rgb[sure] / 255) > 35


def test_another_view_shows_the_same_surface_colours_where_it_is_sure(avatar, evidence) -> None:
    request = make_request(avatar, evidence.motion, _camera(20))
    view = PhotoGenerator(evidence).generate(request)
    truth = request.coarse.to_srgb8((90, 110, 130)) / 255
    head = (view.confidence > 0.4) & (request.geometry.surface == SURFACE_HEAD)
    assert head.sum() > 1000
    # Gloss moves with the view and the photo is sampled twice; the skin's colours stay.
    assert _psnr(view.rgba[head][:, :3], truth[head]) > 28


def test_confidence_falls_with_the_turn_and_is_zero_on_the_far_side(avatar, evidence) -> None:
    generator = PhotoGenerator(evidence)
    totals = [
        generator.generate(make_request(avatar, evidence.motion, _camera(yaw))).confidence.sum() for yaw in (0, 30, 60, 180)
    ]
    assert totals[0] > totals[1] > totals[2] > totals[3]
    assert totals[3] == 0


def test_expression_is_followed(avatar, evidence) -> None:
    closed = MotionCode()
    request = make_request(avatar, closed, evidence.camera)
    view = PhotoGenerator(evidence).generate(request)
    assert view.rgba.shape == (SIZE, SIZE, 4) and view.rgba.min() >= 0 and view.rgba.max() <= 1
    sure = (view.confidence > 0.4) & (request.geometry.surface == SURFACE_HEAD)
    truth = request.coarse.to_srgb8((90, 110, 130)) / 255
    assert _psnr(view.rgba[sure][:, :3], truth[sure]) > _psnr(evidence.rgb[sure] / 255, truth[sure])


def test_lookup_rejects_hidden_grazing_and_outside_points(evidence) -> None:
    depth = np.full((SIZE, SIZE), 0.5, np.float32)
    view = photo_view(evidence, depth)
    points = evidence.camera.unproject(np.array([[80.0, 80.0]] * 3 + [[-20.0, 80.0]]), np.array([0.5, 0.6, 0.5, 0.5]))
    toward = (evidence.camera.center - points[0]) / np.linalg.norm(evidence.camera.center - points[0])
    flat = np.cross(toward, [0.0, 1.0, 0.0])
    normals = np.stack([toward, toward, flat / np.linalg.norm(flat), toward])
    _, confidence, pixels = photo_lookup(view, points, normals, np.zeros(4, bool))
    assert confidence[0] > 0.5
    assert (confidence[1:] == 0).all()
    np.testing.assert_allclose(pixels[0], [80, 80], atol=1e-6)


def test_facing_belief_rises_from_grazing_to_sure() -> None:
    belief = facing_belief(np.array([-1.0, 0.1, 0.3, 0.6, 1.0]))
    assert belief[0] == belief[1] == 0 < belief[2] < belief[3] == belief[4] == 1
