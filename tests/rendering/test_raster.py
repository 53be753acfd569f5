"""The rasteriser: every pixel once, exact attributes, order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.camera import Camera
from avatar3d.rendering.reference.raster import SUBPIXEL, draw_ranks, nearest, rasterise
from tests.rendering.conftest import view


def jittered_grid(seed: int, count: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """A bumpy sheet facing the camera, larger than the picture."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(-0.5, 0.5, count), np.linspace(0.5, -0.5, count))
    vertices = np.stack([x, y, np.zeros_like(x)], -1)
    vertices[1:-1, 1:-1, :2] += rng.uniform(-0.05, 0.05, (count - 2, count - 2, 2))
    vertices[..., 2] += rng.uniform(-0.01, 0.01, (count, count))
    index = np.arange(count * count).reshape(count, count)
    a, b, c, d = index[:-1, :-1].ravel(), index[:-1, 1:].ravel(), index[1:, 1:].ravel(), index[1:, :-1].ravel()
    return vertices.reshape(-1, 3), np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(40, 90), st.integers(40, 90))
def test_a_sheet_covers_every_pixel_once(seed: int, width: int, height: int) -> None:
    vertices, faces = jittered_grid(seed)
    camera = Camera.orbit(0.0, width=width, height=height, view_height_m=0.3)
    raster = rasterise(vertices, faces, camera, np.zeros(len(faces), bool))
    assert np.array_equal(np.bincount(raster.pixel, minlength=width * height), np.ones(width * height))
    assert raster.front.all()


def test_pixel_centres_on_shared_edges_belong_to_one_triangle() -> None:
    size = 32
    camera = Camera.orbit(0.0, width=size, height=size, view_height_m=0.3)
    pixels = np.array([[4.5, 4.5], [20.5, 4.5], [20.5, 20.5], [4.5, 20.5], [12.5, 12.5]])
    vertices = camera.unproject(pixels, np.full(5, 0.6))
    faces = np.array([[0, 4, 1], [1, 4, 2], [2, 4, 3], [3, 4, 0]])
    raster = rasterise(vertices, faces, camera, np.zeros(4, bool))
    covered = np.bincount(raster.pixel, minlength=size * size).reshape(size, size)
    assert covered.max() == 1
    assert covered.sum() == 16 * 16  # half-open: a centre on the left or top edge counts, on the right or bottom not


def test_barycentrics_are_perspective_correct() -> None:
    camera = view(0.9, 0.3, 64, 64)
    vertices = np.array([[-0.1, -0.15, 0.1], [0.12, -0.1, -0.3], [0.0, 0.15, -0.1]])
    raster = rasterise(vertices, np.array([[0, 1, 2]]), camera, np.ones(1, bool))
    assert len(raster.pixel) > 100
    position = (vertices[None] * raster.barycentric[..., None]).sum(1)
    projected, depth = camera.project(position)
    centres = np.stack([raster.pixel % 64 + 0.5, raster.pixel // 64 + 0.5], 1)
    assert np.abs(projected - centres).max() < 1e-3
    np.testing.assert_allclose(raster.depth, depth, rtol=1e-5)


def test_back_faces_are_seen_only_where_two_sided() -> None:
    vertices, faces = jittered_grid(3)
    camera = Camera.orbit(np.pi, width=40, height=40, view_height_m=0.3)
    assert len(rasterise(vertices, faces, camera, np.zeros(len(faces), bool)).pixel) == 0
    seen = rasterise(vertices, faces, camera, np.ones(len(faces), bool))
    assert len(seen.pixel) == 40 * 40
    assert not seen.front.any()


def test_what_lies_behind_the_limit_or_the_camera_is_left_out() -> None:
    vertices, faces = jittered_grid(4)
    camera = Camera.orbit(0.0, width=40, height=40, view_height_m=0.3, distance_m=0.6)
    one_sided = np.zeros(len(faces), bool)
    limit = np.full((40, 40), np.inf, np.float32)
    limit[:, :20] = 0.5
    raster = rasterise(vertices, faces, camera, one_sided, limit)
    assert len(raster.pixel) == 40 * 20
    assert (raster.pixel % 40 >= 20).all()
    assert len(rasterise(vertices + np.array([0, 0, 2]), faces, camera, one_sided).pixel) == 0


def test_more_fragments_than_pixels_are_all_kept() -> None:
    vertices, faces = jittered_grid(5)
    stack = np.concatenate([vertices - np.array([0, 0, 0.02 * layer]) for layer in range(5)])
    stacked = np.concatenate([faces + layer * len(vertices) for layer in range(5)])
    camera = Camera.orbit(0.0, width=32, height=32, view_height_m=0.3)
    raster = rasterise(stack, stacked, camera, np.zeros(len(stacked), bool))
    assert len(raster.pixel) == 5 * 32 * 32
    front = nearest(raster)
    assert np.array_equal(front.pixel, np.arange(32 * 32))
    assert (front.face < len(faces)).all()


def test_ranks_count_earlier_fragments_of_the_same_pixel() -> None:
    assert draw_ranks(np.array([5, 2, 5, 5, 2, 9])).tolist() == [0, 0, 1, 2, 1, 0]
    assert draw_ranks(np.zeros(0, np.int64)).tolist() == []


def test_vertices_are_snapped_like_graphics_hardware() -> None:
    camera = Camera.orbit(0.0, width=16, height=16, view_height_m=0.3)
    just_outside = 4.5 + 0.4 / SUBPIXEL  # rounds to the pixel centre, which a left edge then includes
    pixels = np.array([[just_outside, 0.0], [just_outside, 16.0], [14.0, 8.0]])
    vertices = camera.unproject(pixels, np.full(3, 0.6))
    raster = rasterise(vertices, np.array([[0, 1, 2]]), camera, np.ones(1, bool))
    assert (raster.pixel % 16).min() == 4
