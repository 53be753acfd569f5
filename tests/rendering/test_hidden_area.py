"""What a headset hides is not drawn, the rest to the bit; triangles in tangents follow the camera."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.camera import Camera, stereo_pair
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.culling.screen_region import ScreenRegion
from avatar3d.rendering.opengl.hidden_area import hidden_triangles, rectangle
from avatar3d.rendering.opengl.layers import LayeredTarget
from avatar3d.rendering.opengl.raw_gl import GL_FRAMEBUFFER_SRGB, call
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.opengl.stereo import Stereo
from avatar3d.runtime.views import cropped
from tests.rendering.conftest import view
from tests.rendering.test_stereo import AREA, HEIGHT, WIDTH, eyes, pixels

# Left of x = 0 for the left eye, above y = 0 for the right: column and row where the hidden part ends.
LEFT, TOP = rectangle(-1, 0, -1, 1), rectangle(-1, 1, 0, 1)
PAINT = (0.25, 0.5, 0.125, 0.5)
OPTIONS = RenderOptions("baked", antialias=True)


def hidden_masks() -> list[np.ndarray]:
    left, right = np.zeros((2, HEIGHT, WIDTH), bool)
    left[:, : WIDTH // 2] = True
    right[HEIGHT // 2 :] = True  # OpenGL's rows go up
    return [left, right]


@pytest.mark.parametrize("stereo", ["passes", "layers"])
def test_the_hidden_part_stays_as_it_was_cleared_and_the_rest_as_it_is(
    stereo: Stereo,
    drawer: RealtimeRenderer,
    layers: LayeredTarget,
    moved: MotionCode,
) -> None:
    cameras = eyes()
    drawer.draw(moved, cameras, layers.eyes, OPTIONS, PAINT, [AREA, AREA])
    whole = pixels(layers)
    targets, areas = (layers.eyes, [AREA, AREA]) if stereo == "passes" else ([layers.framebuffer], [AREA])
    drawer.draw(moved, cameras, targets, OPTIONS, PAINT, areas, stereo, [LEFT, TOP])
    drawn = pixels(layers)
    for eye, mask in enumerate(hidden_masks()):
        color, expected = drawn[2 * eye], whole[2 * eye]
        assert (color[mask] == np.array(PAINT, np.float16)).all()
        assert np.array_equal(color[~mask], expected[~mask])
        assert not np.array_equal(color, expected)
        assert (drawn[2 * eye + 1][mask] == 0).all()
        assert np.array_equal(drawn[2 * eye + 1][~mask], whole[2 * eye + 1][~mask])


def test_hidden_sides_stay_in_their_half(drawer: RealtimeRenderer, moved: MotionCode) -> None:
    context, size = drawer.context, (2 * WIDTH, HEIGHT)
    wide = context.framebuffer([context.texture(size, 4, dtype="f2")], context.depth_texture(size))
    seen = []
    for hidden in (None, [LEFT, None]):
        drawer.draw(moved, eyes(), [wide], OPTIONS, PAINT, stereo="sides", hidden=hidden)
        seen.append(np.frombuffer(wide.read(components=4, dtype="f2"), np.float16).reshape(HEIGHT, 2 * WIDTH, 4))
    assert (seen[1][:, : WIDTH // 2] == np.array(PAINT, np.float16)).all()
    assert np.array_equal(seen[0][:, WIDTH // 2 :], seen[1][:, WIDTH // 2 :])
    assert not np.array_equal(*seen)


def test_tangents_stay_in_place_whatever_part_of_the_view_is_drawn() -> None:
    camera: Camera = stereo_pair(view(0.2), inward_tangent=0.2)[0]
    left, right, up, down = camera.fov_tangents()
    tangents = np.array([[left, down], [right, down], [left, up], [(left + right) / 2, (up + down) / 2]])
    triangles = np.array([[0, 1, 3], [2, 0, 3]])
    corners = hidden_triangles(tangents, triangles, camera)
    np.testing.assert_allclose(corners, [[-1, -1], [1, -1], [0, 0], [-1, 1], [-1, -1], [0, 0]], atol=1e-6)
    part = cropped(camera, camera.unproject(np.array([[40.0, 50.0], [90.0, 80.0]]), np.array([0.6, 0.6])))
    assert part is not None and part.width < camera.width
    pixels_of = []
    for seen in (camera, part):
        x, y = hidden_triangles(tangents, triangles, seen).T
        origin = camera.intrinsics[:2, 2] - seen.intrinsics[:2, 2]
        pixels_of.append(np.stack([(x + 1) / 2 * seen.width, (1 - y) / 2 * seen.height], axis=1) + origin)
    np.testing.assert_allclose(*pixels_of, atol=1e-3)


def test_what_is_no_triangle_is_refused(drawer: RealtimeRenderer) -> None:
    context = drawer.context
    framebuffer = context.framebuffer([context.texture((16, 16), 4)], context.depth_texture((16, 16)))
    for wrong, words in (
        (np.zeros((4, 2)), r"shape \(4, 2\)"),
        (np.zeros((3, 3)), r"shape \(3, 3\)"),
        (np.full((3, 2), np.nan), "no numbers"),
    ):
        with pytest.raises(InputError, match=words):
            drawer.draw(MotionCode(), [view(0.0)], [framebuffer], hidden=[wrong])
    with pytest.raises(InputError, match="2 hidden areas were given for 1 cameras"):
        drawer.draw(MotionCode(), [view(0.0)], [framebuffer], hidden=[None, None])


def test_a_refusal_leaves_the_state_as_it_was(drawer: RealtimeRenderer, moved: MotionCode) -> None:
    context, options, camera = drawer.context, RenderOptions("baked"), view(0.0, width=32, height=32)
    target = context.framebuffer([context.texture((32, 32), 4)], context.depth_texture((32, 32)))
    drawer.draw(moved, [camera], [target], options)
    expected = target.read(components=4)
    part = ScreenRegion(inside=(4, 4, 12, 12))
    with pytest.raises(InputError, match="no numbers"):
        drawer.draw(moved, [camera], [target], options, hidden=[np.full((3, 2), np.nan)], regions=[part])
    assert target.scissor in (None, (0, 0, 32, 32))
    assert not call(context, "glIsEnabled", GL_FRAMEBUFFER_SRGB) & 255
    drawer.draw(moved, [camera], [target], options)
    assert target.read(components=4) == expected
    drawer.draw(moved, [], [], options)  # no eye sees anything
    assert target.read(components=4) == expected
