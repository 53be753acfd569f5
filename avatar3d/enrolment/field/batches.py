"""Random batches for the field's training: pixels of the photo and the generator, and the teacher's points. Knows no field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.enrolment.field.options import TrainOptions
from avatar3d.enrolment.field.pixels import Pixels
from avatar3d.enrolment.field.teacher import DIRECTION_SETS, Teacher
from avatar3d.field.projection import cosine_directions
from avatar3d.motion.code import WEIGHT_COUNT, MotionCode

RANDOM_DIRECTIONS = 997
EXPRESSION_SHARE = 0.25  # of the weights, that a random expression moves
# Columns of a pool's rows.
CANONICAL, DIRECTION, COLOR, WEIGHT, ALPHA, SEEN = slice(0, 3), slice(3, 6), slice(6, 9), 9, 10, 11
TARGET, SLOPE, COLOR_WEIGHT, COVERAGE, COVERAGE_WEIGHT = slice(0, 3), slice(3, 6), 6, 7, 8


@dataclass(frozen=True)
class PixelPool:
    """Pixels to draw batches from, in rows: what a batch needs of a fragment or a pixel lies together in memory.

    slots: (P, 1 + R) i64, the opaque fragment and the layers over it from inside out, −1 where there is none.
    fragments: (N, 12) f32 and pixels: (P, 9) f32, in the columns named above. batch: pixels a step. share: of their colours.
    """

    slots: np.ndarray
    fragments: np.ndarray
    pixels: np.ndarray
    batch: int
    share: float

    @classmethod
    def of(cls, pixels: Pixels, batch: int, share: float) -> PixelPool:
        """The pool of `pixels`."""
        p = pixels
        fragments = [p.canonical, p.d, p.color, p.weight[:, None], p.alpha[:, None], p.seen[:, None]]
        rows = [p.target, p.slope, p.color_weight[:, None], p.coverage[:, None], p.coverage_weight[:, None]]
        return cls(
            slots=np.concatenate([p.opaque[:, None], p.layers], axis=1),
            fragments=np.concatenate(fragments, axis=1, dtype=np.float32),
            pixels=np.concatenate(rows, axis=1, dtype=np.float32),
            batch=batch,
            share=share,
        )


@dataclass(frozen=True)
class PixelBatch:
    """B pixels of a pool with F fragments in all, in the order of the used `slots`, row by row.

    slots: (B, 1 + R) i64 as in the pool. fragments: (F, 12) and pixels: (B, 9) rows. d: (F, 3) directions they are taught for.
    belief: (B,) that the pixel looks so from there. motion: (M,) projected expression. share: of their colours.
    """

    slots: np.ndarray
    fragments: np.ndarray
    pixels: np.ndarray
    d: np.ndarray
    belief: np.ndarray
    motion: np.ndarray
    share: float


@dataclass(frozen=True)
class PointBatch:
    """B points of the teacher, D directions each: canonical, slope (B, 3), d, target (B, D, 3), mean_weight (B,) of the residual's
    mean over directions, opacity_weight (B,) of its opacity change, motion (M,)."""

    canonical: np.ndarray
    d: np.ndarray
    target: np.ndarray
    slope: np.ndarray
    mean_weight: np.ndarray
    opacity_weight: np.ndarray
    motion: np.ndarray


class Batches:
    """Draws what each step learns from; equal seeds give equal batches."""

    def __init__(
        self,
        pools: list[tuple[Pixels, int, float]],
        teacher: Teacher,
        motion: MotionCode,
        motion_projection: np.ndarray,
        options: TrainOptions,
    ) -> None:
        self._rng = np.random.default_rng(options.seed + 1)
        self._pools = [PixelPool.of(*pool) for pool in pools if len(pool[0].pixel)]
        self._teacher, self._options = teacher, options
        self._directions = cosine_directions(RANDOM_DIRECTIONS)
        self._projection = np.asarray(motion_projection, np.float32)
        self._photo_motion = np.asarray(motion.weights, np.float32) @ self._projection

    def draw(self) -> tuple[list[PixelBatch], PointBatch]:
        """The next step's pixels, pool by pool, and points."""
        return [self._pixels(pool) for pool in self._pools], self._points()

    def _pixels(self, pool: PixelPool) -> PixelBatch:
        rng, options = self._rng, self._options
        chosen = rng.integers(0, len(pool.slots), pool.batch)
        slots = pool.slots[chosen]
        fragments = pool.fragments[slots[slots >= 0]]
        if rng.random() < options.any_view_share:
            belief = pool.fragments[slots.max(1), SEEN]
            d = self._directions[rng.integers(0, RANDOM_DIRECTIONS, len(fragments))]
        else:
            belief, d = np.ones(len(chosen), np.float32), fragments[:, DIRECTION]
        motion = self._random_motion() if rng.random() < options.any_expression_share else self._photo_motion
        return PixelBatch(slots, fragments, pool.pixels[chosen], d, belief, motion, pool.share)

    def _points(self) -> PointBatch:
        teacher, options = self._teacher, self._options
        chosen = self._rng.integers(0, len(teacher.level), options.batch_points)
        pick = int(self._rng.integers(DIRECTION_SETS))
        skin = teacher.level[chosen] < 0
        unseen = options.unseen_mean_weight * (1 - teacher.seen[chosen])
        hidden = (teacher.level[chosen] == 0) | (teacher.facing[chosen] < options.behind_cosine) | teacher.bare[chosen]
        opacity = np.where(hidden, options.hidden_opacity_weight, options.opacity_weight) * ~skin
        return PointBatch(
            canonical=teacher.canonical[chosen],
            d=teacher.d[chosen, pick],
            target=teacher.target[chosen, pick],
            slope=teacher.slope[chosen],
            mean_weight=np.where(skin, options.skin_mean_weight, options.hair_mean_weight + unseen).astype(np.float32),
            opacity_weight=opacity.astype(np.float32),
            motion=self._random_motion(),
        )

    def _random_motion(self) -> np.ndarray:
        """Projected motion (M,): as often the neutral expression as a random one."""
        weights = np.zeros(WEIGHT_COUNT, np.float32)
        if self._rng.random() < 0.5:
            weights = (self._rng.random(WEIGHT_COUNT) * (self._rng.random(WEIGHT_COUNT) < EXPRESSION_SHARE)).astype(np.float32)
        return weights @ self._projection
