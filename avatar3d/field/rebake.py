"""Textures that follow the motion code: put together from what a bake's directions add, whole or by rows, as a frame has time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import BakedField

BLOCK_TEXELS = 16384  # of a re-bake that is handed out at a time; about 0.2 ms
TOLERANCE = 1e-3  # linear residual: half an 8-bit step of sRGB on dark hair, less on skin


@dataclass(frozen=True)
class Moving:
    """A stack of textures that the motion code moves. base: (K, h, w, C) f32, as they are at the bake's own motion code.

    moves: what a unit of each of its directions adds to the first channels, (K, h, w, up to C) f32, or None.
    """

    base: np.ndarray
    moves: Sequence[np.ndarray | None]

    @property
    def moves_at_all(self) -> bool:
        """Whether any direction adds anything."""
        return any(move is not None for move in self.moves)

    def at(self, amounts: np.ndarray, level: int | slice = slice(None), rows: slice = slice(None)) -> np.ndarray:
        """(..., rows, w, C) f32 of one level or several, at amounts (D,) of the directions."""
        out = self.base[level][..., rows, :, :]
        for move, amount in zip(self.moves, amounts, strict=True):
            if move is not None and amount != 0:
                added = move[level][..., rows, :, :]
                out = out.copy()
                out[..., : added.shape[-1]] += np.float32(amount) * added
        return out


@dataclass(frozen=True)
class RowBlock:
    """Rows first to first + len(values) of one level, as they are from now on. values: (rows, w, C) f32."""

    level: int
    first: int
    values: np.ndarray


class Rebaker:
    """Brings textures, which start as at the bake's own motion code, to other ones; hands out blocks of rows in a fixed order.

    A re-bake under way is finished before a new one begins, so that a head that never rests is never left half old.
    """

    def __init__(self, baked: BakedField, textures: Moving) -> None:
        self._baked, self._textures = baked, textures
        peaks = [0.0 if move is None else float(np.abs(move).max(initial=0.0)) for move in textures.moves]
        self._peaks = np.array(peaks, np.float32)
        self.amounts = np.zeros(len(baked.motion), np.float32)  # (D,) that the re-bake under way, or the last, aims at
        self._left: list[tuple[int, slice]] = []

    @property
    def busy(self) -> bool:
        """Whether a re-bake is under way."""
        return bool(self._left)

    def aim(self, weights: np.ndarray, tolerance: float = TOLERANCE, anew: bool = False) -> bool:
        """Whether rows are left to hand out, after beginning a re-bake for ARKit weights (52,) where one is due.

        It is due where a value would move by more than `tolerance` and none is under way; `anew` drops the one under way.
        """
        if self.busy and not anew:
            return True
        wanted = self._baked.amounts(weights)
        if float(np.abs(wanted - self.amounts) @ self._peaks) > tolerance:
            self.amounts = wanted
            levels, height, width = self._textures.base.shape[:3]
            step = max(1, BLOCK_TEXELS // width)
            starts = range(0, height, step)
            self._left = [(level, slice(first, first + step)) for level in range(levels) for first in starts][::-1]
        return self.busy

    def next(self) -> RowBlock | None:
        """The next rows; None when none are left."""
        if not self._left:
            return None
        level, rows = self._left.pop()
        return RowBlock(level, rows.start, self._textures.at(self.amounts, level, rows))
