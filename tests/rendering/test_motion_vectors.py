"""Motion vectors say where each visible point was: checked against the reference's points projected by the old camera."""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.motion_vectors import MotionVectors
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.reference.fragments import fragments
from avatar3d.rendering.scene import build_scene
from tests.rendering.conftest import view

SIZE = 160


def test_points_came_from_where_the_vectors_say(avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer) -> None:
    before = build_scene(avatar, MotionCode()), view(0.0, 0.0, SIZE, SIZE)
    now = build_scene(avatar, moved), view(0.12, 0.05, SIZE, SIZE)
    with realtime.context as context:
        color, depth = context.texture((SIZE, SIZE), 4, dtype="f4"), context.depth_texture((SIZE, SIZE))
        framebuffer = context.framebuffer([color], depth)
        vectors = MotionVectors(context, now[0])
        vectors.draw(before, now, framebuffer)
        seen = np.frombuffer(framebuffer.read(components=4, dtype="f4"), np.float32).reshape(SIZE, SIZE, 4)[::-1]
        vectors.release()
    head = fragments(now[0], now[1], hair=False)[0]
    corners = avatar.faces[head.face]
    old_points = (before[0].vertices[corners] * head.barycentric[..., None]).sum(1)
    old_pixels, _ = before[1].project(old_points.astype(float))
    rows, columns = np.divmod(head.pixel, SIZE)
    expected = np.stack([columns + 0.5, rows + 0.5], axis=1) - old_pixels
    drawn = seen[rows, columns]
    shown = np.linalg.norm(drawn[:, :2] - expected, axis=1) < 0.02
    # The rest is hair in front of the head.
    assert shown.mean() > 0.4
    assert np.linalg.norm(expected[shown], axis=1).max() > 5
    assert (drawn[:, 3] == 1).all()
    assert (seen[0, 0] == 0).all()


def test_a_head_at_rest_does_not_move(avatar: Avatar, realtime: RealtimeRenderer) -> None:
    still = build_scene(avatar, MotionCode()), view(0.4, 0.0, SIZE, SIZE)
    with realtime.context as context:
        framebuffer = context.framebuffer([context.texture((SIZE, SIZE), 4, dtype="f4")], context.depth_texture((SIZE, SIZE)))
        vectors = MotionVectors(context, still[0])
        vectors.draw(still, still, framebuffer)
        seen = np.frombuffer(framebuffer.read(components=4, dtype="f4"), np.float32)
        vectors.release()
    assert seen.reshape(-1, 4)[:, 3].mean() > 0.1
    assert np.abs(seen.reshape(-1, 4)[:, :2]).max() < 1e-3


def test_a_headset_is_told_the_same_in_its_own_coordinates(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    before = build_scene(avatar, MotionCode()), view(0.0, 0.0, SIZE, SIZE)
    now = build_scene(avatar, moved), view(0.12, 0.05, SIZE, SIZE)
    seen = []
    with realtime.context as context:
        framebuffer = context.framebuffer([context.texture((SIZE, SIZE), 4, dtype="f4")], context.depth_texture((SIZE, SIZE)))
        for ndc in (False, True):
            vectors = MotionVectors(context, now[0], ndc)
            vectors.draw(before, now, framebuffer)
            seen.append(np.frombuffer(framebuffer.read(components=4, dtype="f4"), np.float32).reshape(SIZE, SIZE, 4))
            vectors.release()
    pixels, coordinates = seen
    np.testing.assert_allclose(coordinates[..., :2] * SIZE / 2 * [1, -1], pixels[..., :2], atol=1e-3)
    assert np.abs(coordinates[..., 2]).max() > 1e-4
    np.testing.assert_array_equal(coordinates[..., 3], pixels[..., 3])
