"""Re-baking by rows: the blocks together are the whole, in a fixed order, and only where something moves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from avatar3d.avatar import BakedField
from avatar3d.field.rebake import TOLERANCE, Moving, Rebaker, RowBlock
from avatar3d.motion.code import MotionCode
from tests.make_avatar import synthetic_avatar

OPEN = MotionCode.from_expression({"jawOpen": 0.7}).weights
SHUT = np.zeros(52, np.float32)


@pytest.fixture(scope="module")
def baked() -> BakedField:
    made = synthetic_avatar().baked
    assert made is not None
    return dataclasses.replace(made, motion=made.motion * 2)


@pytest.fixture(scope="module")
def textures() -> Moving:
    """Three levels of 300 × 200, moved by the first of two directions in three of four channels."""
    rng = np.random.default_rng(0)
    base, move = (rng.normal(0, 0.1, (3, 300, 200, channels)).astype(np.float32) for channels in (4, 3))
    return Moving(base, [move, None])


def _apply(target: np.ndarray, blocks: list[RowBlock]) -> None:
    for block in blocks:
        target[block.level, block.first : block.first + len(block.values)] = block.values


def _all(rebaker: Rebaker) -> list[RowBlock]:
    return list(iter(rebaker.next, None))


def test_the_blocks_together_are_the_whole(baked: BakedField, textures: Moving) -> None:
    target = textures.base.copy()
    rebaker = Rebaker(baked, textures)
    for weights in (OPEN, SHUT, OPEN):
        assert rebaker.aim(weights) and rebaker.busy
        blocks = _all(rebaker)
        assert not rebaker.busy
        assert len({(block.level, block.first) for block in blocks}) == len(blocks) > 6
        _apply(target, blocks)
        np.testing.assert_array_equal(target, textures.at(baked.amounts(weights)))
    expected = textures.base[..., :3] + baked.amounts(OPEN)[0] * textures.moves[0]
    np.testing.assert_allclose(target[..., :3], expected, atol=1e-6)
    np.testing.assert_array_equal(target[..., 3], textures.base[..., 3])


def test_a_rebake_under_way_is_finished_first(baked: BakedField, textures: Moving) -> None:
    rebaker, target = Rebaker(baked, textures), textures.base.copy()
    rebaker.aim(OPEN)
    first = rebaker.next()
    assert first is not None and rebaker.aim(SHUT)
    _apply(target, [first, *_all(rebaker)])
    np.testing.assert_array_equal(target, textures.at(baked.amounts(OPEN)))
    assert rebaker.aim(SHUT)


def test_anew_drops_the_one_under_way(baked: BakedField, textures: Moving) -> None:
    rebaker, target = Rebaker(baked, textures), textures.base.copy()
    rebaker.aim(OPEN)
    _apply(target, [rebaker.next()])  # type: ignore[list-item]
    rebaker.aim(SHUT, anew=True)
    _apply(target, _all(rebaker))
    np.testing.assert_array_equal(target, textures.base)


def test_what_would_not_be_seen_asks_for_nothing(baked: BakedField, textures: Moving) -> None:
    rebaker = Rebaker(baked, textures)
    one = OPEN / (baked.motion[0].row @ OPEN) / np.abs(textures.moves[0]).max()  # moves some value by 1
    assert not rebaker.aim(one * 0.9 * TOLERANCE)
    assert rebaker.aim(one * 1.1 * TOLERANCE)


def test_textures_that_do_not_move_hand_out_nothing(baked: BakedField, textures: Moving) -> None:
    still = Moving(textures.base, [None, None])
    assert textures.moves_at_all and not still.moves_at_all
    rebaker = Rebaker(baked, still)
    assert not rebaker.aim(OPEN) and rebaker.next() is None
