"""Clothes of a real photo: the suit's colours where the photo shows them and behind, a bust that is closed, no face that changed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from avatar3d.avatar import PART_CLOTHES, PART_SKIN
from avatar3d.camera import Camera
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.reference.fragments import fragments
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from avatar3d.rendering.scene import build_scene

pytestmark = pytest.mark.slow


def around(yaw_deg: float, pitch_deg: float = 0.0) -> Camera:
    return Camera.orbit(np.radians(yaw_deg), np.radians(pitch_deg), 0.9, 200, 200, 0.5, target=(0, -0.12, -0.06))


def orange(picture: np.ndarray) -> np.ndarray:
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (red > 110) & (red > 1.4 * green) & (red > 1.7 * blue)


@pytest.mark.parametrize("yaw", [0, 90, 180, 270])
def test_the_astronauts_suit_is_orange_from_all_sides(preview, yaw):
    (frame,) = ReferenceRenderer().render(preview, MotionCode(), [around(yaw)], RenderOptions(form="mesh"))
    shoulders = frame.to_srgb8((255, 255, 255))[140:, :]
    drawn = frame.rgba[140:, :, 3] > 0.5
    assert (orange(shoulders) & drawn).sum() > (0.3 if yaw else 0.15) * drawn.sum()


def test_the_bust_is_closed_below_and_nothing_fades(preview):
    faces = preview.weld[preview.faces[preview.part == PART_CLOTHES]]
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(1)]
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    low, high = np.sort(edges, 1).T
    once, uses = np.unique(low.astype(np.int64) * len(preview.vertices) + high, return_counts=True)
    assert uses.max() == 2
    open_ends = preview.vertices[once[uses == 1] // len(preview.vertices)]
    assert open_ends[:, 1].min() > -0.2, "the only opening is the neck's"
    clothed = np.unique(preview.faces[np.isin(preview.part, (PART_SKIN, PART_CLOTHES))])
    assert preview.vertex_alpha[clothed].min() == 1


@pytest.mark.parametrize("pitch", [-50, -20, 20])
def test_one_never_looks_inside(preview, pitch):
    """From every side what is in front faces the camera: no inside of a bust shows, and no gap at the collar."""
    scene = build_scene(preview, MotionCode())
    for yaw in range(0, 360, 45):
        camera = around(yaw, pitch)
        solid = np.zeros(camera.width * camera.height, bool)
        solid[np.asarray(fragments(scene, camera, hair=False)[0].pixel)] = True
        solid = ndimage.binary_dilation(solid.reshape(camera.height, -1)).ravel()
        back = np.zeros_like(solid)
        corner = scene.vertices[preview.faces]
        pixels, _ = camera.project(corner.mean(1).astype(np.float64))
        inside = ((pixels >= 0) & (pixels < camera.width)).all(1)
        at = pixels[inside].astype(int)
        back[at[:, 1] * camera.width + at[:, 0]] = True
        assert (back & ~solid).sum() <= 3, (yaw, pitch)


def test_clothes_stay_as_the_head_turns_but_for_the_collar_on_the_neck(preview):
    clothed = np.unique(preview.faces[preview.part == PART_CLOTHES])
    low = clothed[preview.vertices[clothed, 1] < -0.24]
    assert preview.head_weight[low].max() == 0
    assert not preview.expression[:, clothed].any()


def test_no_skin_is_painted_on_a_collar_where_the_neck_lies_in_shade(preview):
    """The astronaut's neck is dark on one side; her black collar stands up the neck in front and is as black there."""
    clothed = np.unique(preview.faces[preview.part == PART_CLOTHES])
    points, uv = preview.vertices[clothed], preview.uv[clothed]
    texture = preview.base_color
    rows, columns = texture.shape[:2]
    front = np.abs(np.arctan2(points[:, 0], points[:, 2] + 0.1)) < np.radians(60)
    front &= points[:, 1] > points[np.isclose(uv[:, 1], uv[:, 1].min()), 1].max() - 0.045
    texels = texture[(uv[front, 1] * rows).astype(int), (uv[front, 0] * columns).astype(int)]
    assert np.percentile(texels.max(1), 90) < 90
