"""Re-baking on the GPU: only rows that move are sent, as many as the budget has room for, and the end is the whole bake."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.color import psnr_db
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from tests.rendering.conftest import view

HALF, BYTE = RenderOptions("baked"), RenderOptions("baked", hair_levels=2, precision="byte")
OPEN = MotionCode.from_expression({"jawOpen": 0.9})
SIZE = 96


def ticks() -> Callable[[], float]:
    """A clock that goes on by a millisecond each time it is read."""
    count = itertools.count()
    return lambda: next(count) * 1e-3


def drawn(renderer: RealtimeRenderer, options: RenderOptions) -> np.ndarray:
    """The shut mouth, with the textures as they happen to be."""
    color = renderer.context.texture((SIZE, SIZE), 4, dtype="f4")
    framebuffer = renderer.context.framebuffer([color], renderer.context.depth_texture((SIZE, SIZE)))
    renderer.draw(MotionCode(), [view(0.4, 0.1, SIZE, SIZE)], [framebuffer], options)
    pixels = np.frombuffer(color.read(), np.float32).copy()
    framebuffer.release()
    color.release()
    return pixels


@pytest.fixture
def large(avatar: Avatar) -> Avatar:
    """With textures of several blocks."""
    hair = avatar.hair
    assert hair is not None
    color = np.repeat(np.repeat(hair.color, 8, 0), 8, 1)
    skin = np.repeat(np.repeat(avatar.base_color, 4, 0), 4, 1)
    return replace(avatar, base_color=skin, hair=replace(hair, color=color))


@pytest.mark.parametrize("options", [HALF, BYTE], ids=["half", "byte"])
def test_rows_sent_over_frames_end_in_the_whole_bake(drawer: RealtimeRenderer, large: Avatar, options: RenderOptions) -> None:
    drawer.load(large, [options])
    rest = drawn(drawer, options)
    sent = [drawer.rebake(OPEN, options, 1.5, ticks()) for _ in range(60)]
    busy = [count for count in sent if count]
    assert len(busy) > 4 and sent == busy + [0] * (60 - len(busy))
    assert large.hair is not None
    skin, hair = (texture[..., 0].size for texture in (large.base_color, large.hair.color))
    if options is HALF:
        assert sum(busy) == 8 * (skin + len(large.hair.levels) * hair)
    else:
        assert sum(busy) == 4 * (skin + 2 * hair) + 8 * hair  # the opaque level is cut by 16 bits
    after = drawn(drawer, options)
    assert np.abs(after - rest).max() > 0.01
    again = replace(large)  # another avatar, at rest
    drawer.load(again, [options])
    assert drawer.rebake(OPEN, options, 1e9) == sum(busy)  # at once
    np.testing.assert_array_equal(drawn(drawer, options), after)
    assert drawer.rebake(OPEN, options, 1e9) == 0
    assert drawer.rebake(MotionCode(), options, 1e9) == sum(busy)
    np.testing.assert_array_equal(drawn(drawer, options), rest)


def test_no_budget_and_no_bake_send_nothing(drawer: RealtimeRenderer, avatar: Avatar) -> None:
    drawer.load(replace(avatar), [HALF, RenderOptions("mesh")])
    assert drawer.rebake(OPEN, HALF, 0.0, ticks()) == 0
    assert drawer.rebake(OPEN, RenderOptions("mesh"), 1e9) == 0


def test_a_bake_that_does_not_move_sends_nothing(drawer: RealtimeRenderer, avatar: Avatar) -> None:
    assert avatar.baked is not None
    drawer.load(replace(avatar, baked=replace(avatar.baked, motion=[])), [HALF])
    assert drawer.rebake(OPEN, HALF, 1e9) == 0


@pytest.mark.parametrize("options", [HALF, BYTE], ids=["half", "byte"])
def test_the_moved_bake_is_the_references(
    realtime: RealtimeRenderer, reference: ReferenceRenderer, smooth: Avatar, avatar: Avatar, options: RenderOptions
) -> None:
    assert smooth.baked is not None and avatar.baked is not None
    shapes = smooth.baked.skin_q0.shape[:2], smooth.baked.hair_q0.shape[1:3]  # type: ignore[union-attr]
    rng = np.random.default_rng(0)
    skin, hair = (np.repeat(np.repeat(rng.normal(0, 0.05, (h // 16, w // 16, 3)), 16, 0), 16, 1) for h, w in shapes)
    levels = len(smooth.baked.hair_q0)  # type: ignore[arg-type]
    hair *= 0.1  # dark as it is: 8 bits hold no colour below zero
    moved = replace(avatar.baked.motion[0], skin=skin.astype(np.float32), hair=np.stack([hair.astype(np.float32)] * levels))
    moving = replace(smooth, baked=replace(smooth.baked, motion=[moved]))
    camera = view(0.4, 0.1, SIZE, SIZE)
    frames = [each.render(one, OPEN, [camera], options)[0] for each in (realtime, reference) for one in (moving, smooth)]
    got, got_still, wanted, wanted_still = (frame.rgba.clip(0, 1) ** (1 / 2.2) for frame in frames)
    assert psnr_db(float(np.square(got - wanted).mean())) > (50 if options is HALF else 45)
    assert psnr_db(float(np.square(wanted - wanted_still).mean())) < 42
    assert psnr_db(float(np.square(got_still - wanted_still).mean())) > 45


def test_a_picture_is_of_its_own_motion_code_whatever_was_drawn_before(realtime: RealtimeRenderer, avatar: Avatar) -> None:
    camera = view(0.4, 0.1, SIZE, SIZE)
    first = realtime.render(avatar, OPEN, [camera], HALF)[0].rgba
    realtime.rebake(MotionCode(), HALF, 1.5, ticks())  # a part of the way back
    again = realtime.render(avatar, OPEN, [camera], HALF)[0].rgba
    np.testing.assert_array_equal(first, again)
