"""Frames: background, straight alpha, the box filter's depth."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.camera import Camera
from avatar3d.color import srgb_to_linear
from avatar3d.errors import InputError
from avatar3d.rendering import RenderOptions, make_renderer
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD, SURFACE_NONE, Frame, box_filter


def frame_of(rgba: list[float]) -> Frame:
    pixel = np.array(rgba, np.float32).reshape(1, 1, 4)
    return Frame(pixel, np.ones((1, 1), np.float32), np.zeros((1, 1), np.int8))


def test_an_empty_pixel_shows_the_background_exactly() -> None:
    for background in [(0, 0, 0), (12, 200, 255), (255, 255, 255)]:
        assert tuple(frame_of([0, 0, 0, 0]).to_srgb8(background)[0, 0]) == background


def test_background_is_blended_in_linear_light() -> None:
    picture = frame_of([0.0, 0.0, 0.0, 0.5]).to_srgb8((255, 255, 255))
    assert tuple(picture[0, 0]) == (188, 188, 188)  # half of the light of white, sRGB 0.735


def test_straight_alpha_undoes_the_premultiplication() -> None:
    color = srgb_to_linear(np.array([200, 100, 50], np.uint8))
    picture = frame_of([*(color * 0.4), 0.4]).to_srgb8()
    assert picture.shape == (1, 1, 4)
    assert tuple(picture[0, 0]) == (200, 100, 50, 102)


def test_box_filter_gives_the_depth_of_a_plane_at_the_pixel_centre() -> None:
    factor, size = 2, 64  # a pixel is 5 mm wide, so that the depth within one varies less than SAME_SURFACE_M
    camera = Camera.orbit(0.0, width=size, height=size)
    fine = camera.resized(size * factor, size * factor)

    def plane_depth(grid: Camera) -> np.ndarray:
        rows, columns = np.mgrid[0 : grid.height, 0 : grid.width] + 0.5
        x = (columns - grid.intrinsics[0, 2]) / grid.intrinsics[0, 0]
        y = (rows - grid.intrinsics[1, 2]) / grid.intrinsics[1, 1]
        return (0.6 / (1 + 0.4 * x - 0.3 * y)).astype(np.float32)

    shape = (size * factor, size * factor)
    reduced = box_filter(Frame(np.ones((*shape, 4), np.float32), plane_depth(fine), np.zeros(shape, np.int8)), factor)
    np.testing.assert_allclose(reduced.depth, plane_depth(camera), rtol=1e-6)
    np.testing.assert_allclose(reduced.rgba, 1.0)


def test_box_filter_keeps_surfaces_apart() -> None:
    depth = np.array([[0.5, 0.9], [0.5, 0.9]], np.float32)
    surface = np.array([[SURFACE_HAIR, SURFACE_HEAD]] * 2, np.int8)
    reduced = box_filter(Frame(np.zeros((2, 2, 4), np.float32), depth, surface), 2)
    assert reduced.depth[0, 0] == pytest.approx(0.5)
    assert reduced.surface[0, 0] == SURFACE_HAIR
    mostly_empty = np.array([[0.5, np.inf], [np.inf, np.inf]], np.float32)
    reduced = box_filter(Frame(np.zeros((2, 2, 4), np.float32), mostly_empty, surface), 2)
    assert np.isinf(reduced.depth[0, 0])
    assert reduced.surface[0, 0] == SURFACE_NONE


def test_options_and_names_are_checked() -> None:
    with pytest.raises(InputError, match="unknown form 'neural'; expected one of live, baked, mesh"):
        RenderOptions(form="neural")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"supersample 9 is outside 1\.\.8"):
        RenderOptions(supersample=9)
    with pytest.raises(InputError, match="0 hair levels cannot be drawn; expected at least 1, or hair switched off"):
        RenderOptions(hair_levels=0)
    with pytest.raises(InputError, match="unknown renderer 'opengl'; expected one of realtime, reference"):
        make_renderer("opengl")
