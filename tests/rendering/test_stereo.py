"""Both eyes in one pass against two passes: the same bits in layers, the same picture side by side; faces of both eyes are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.camera import Camera, stereo_pair
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.layers import LayeredTarget
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.opengl.stereo import Stereo
from tests.rendering.conftest import LAYER_HEIGHT as HEIGHT
from tests.rendering.conftest import LAYER_WIDTH as WIDTH
from tests.rendering.conftest import view

AREA = (0, 0, WIDTH, HEIGHT)
OPTIONS = [
    RenderOptions("mesh", hair=False),
    RenderOptions("baked"),
    RenderOptions("baked", hair_levels=2, precision="byte", antialias=True),
    RenderOptions("live", antialias=True),
]


def eyes(yaw_rad: float = 0.2, ipd_m: float = 0.063) -> tuple[Camera, Camera]:
    return stereo_pair(view(yaw_rad, 0.1, WIDTH, HEIGHT), ipd_m, inward_tangent=0.1)


def pixels(layers: LayeredTarget) -> list[np.ndarray]:
    """Colour (H, W, 4) and depth (H, W) of both layers, and leaves them empty."""
    images = []
    for eye in layers.eyes:
        for components, attachment, dtype in ((4, 0, np.float16), (1, -1, np.float32)):
            kind = "f2" if dtype is np.float16 else "f4"
            data = eye.read(viewport=AREA, components=components, attachment=attachment, dtype=kind)
            images.append(np.frombuffer(data, dtype).reshape(HEIGHT, WIDTH, components).copy())
        eye.clear(viewport=AREA)
    return images


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("ipd_m", [0.063, 0.5])  # eyes so far apart see many faces that the other does not
def test_layers_hold_the_bits_of_two_passes(
    options: RenderOptions, ipd_m: float, drawer: RealtimeRenderer, layers: LayeredTarget, moved: MotionCode
) -> None:
    cameras = eyes(ipd_m=ipd_m)
    drawer.draw(moved, cameras, layers.eyes, options, viewports=[AREA, AREA])
    expected = pixels(layers)
    for _ in range(2):  # the second frame meets the state that the first one left
        drawer.draw(moved, cameras, [layers.framebuffer], options, (0.0, 0.0, 0.0, 0.0), [AREA], "layers")
    assert all(np.array_equal(*pair) for pair in zip(expected, pixels(layers), strict=True))
    assert (expected[0][..., 3] > 0).mean() > 0.1
    assert not np.array_equal(expected[0], expected[2])


def test_layers_hold_them_where_the_gpu_morphs_too(drawer: RealtimeRenderer, layers: LayeredTarget, moved: MotionCode) -> None:
    strategy, cameras = drawer.strategy, eyes()
    drawer.strategy = DrawStrategy(morph="gpu")
    drawer.draw(moved, cameras, layers.eyes, OPTIONS[2], viewports=[AREA, AREA])
    expected = pixels(layers)
    drawer.draw(moved, cameras, [layers.framebuffer], OPTIONS[2], viewports=[AREA], stereo="layers")
    drawer.strategy = strategy
    assert all(np.array_equal(*pair) for pair in zip(expected, pixels(layers), strict=True))
    assert (expected[0][..., 3] > 0).mean() > 0.1


def test_small_faces_are_turned_around_for_both_alike(drawer: RealtimeRenderer, layers: LayeredTarget) -> None:
    """A head of some pixels: rounded to parts of a pixel, many of its faces show their other side."""
    area = (0, 0, 40, 32)
    pixels(layers)  # empty around the area too
    for step in range(12):
        cameras = stereo_pair(Camera.orbit(0.5 * step, 0.1, distance_m=1.5, width=40, height=32, view_height_m=0.6))
        drawer.draw(MotionCode(), cameras, layers.eyes, OPTIONS[2], viewports=[area, area])
        expected = pixels(layers)
        drawer.draw(MotionCode(), cameras, [layers.framebuffer], OPTIONS[2], viewports=[area], stereo="layers")
        assert all(np.array_equal(*pair) for pair in zip(expected, pixels(layers), strict=True))


def test_sides_show_the_picture_of_two_passes(drawer: RealtimeRenderer, moved: MotionCode) -> None:
    context, options = drawer.context, RenderOptions("baked", antialias=True)
    color, depth = context.texture((2 * WIDTH, HEIGHT), 4, dtype="f2"), context.depth_texture((2 * WIDTH, HEIGHT))
    wide = context.framebuffer([color], depth)
    # The head fills one eye's picture and more: what leaves its half must not show in the other.
    cameras = stereo_pair(Camera.orbit(0.2, width=WIDTH, height=HEIGHT, view_height_m=0.12))

    def seen() -> np.ndarray:
        return np.frombuffer(wide.read(components=4, dtype="f2"), np.float16).reshape(HEIGHT, 2 * WIDTH, 4).astype(np.float32)

    drawer.draw(moved, cameras, [wide, wide], options, viewports=[AREA, (WIDTH, 0, WIDTH, HEIGHT)])
    expected = seen()
    drawer.draw(moved, cameras, [wide], options, stereo="sides")
    drawn = seen()
    different = np.abs(drawn - expected).max(-1) > 2e-3
    assert different.mean() < 1e-3
    assert ((drawn[..., 3] > 0) != (expected[..., 3] > 0)).mean() < 1e-4
    assert (expected[:, WIDTH - 1, 3] > 0).any() and (expected[:, WIDTH, 3] > 0).any()
    # Nothing is cut afterwards.
    drawer.draw(moved, cameras, [wide, wide], options, viewports=[AREA, (WIDTH, 0, WIDTH, HEIGHT)])
    assert np.array_equal(seen(), expected)


@pytest.mark.parametrize("stereo", ["layers", "sides"])
def test_a_single_pass_takes_two_cameras_and_one_framebuffer(stereo: Stereo, drawer: RealtimeRenderer) -> None:
    context = drawer.context
    framebuffer = context.framebuffer([context.texture((32, 16), 4)], context.depth_texture((32, 16)))
    with pytest.raises(InputError, match="2 framebuffers and 2 viewports were given; expected one for both eyes"):
        drawer.draw(MotionCode(), eyes(), [framebuffer] * 2, stereo=stereo)
    with pytest.raises(InputError, match=f"1 cameras were given; drawing {stereo} takes those of two eyes"):
        drawer.draw(MotionCode(), eyes()[:1], [framebuffer], stereo=stereo)
