"""The training itself: random batches of pixels and of the teacher's points, the objective, and the steps."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from avatar3d.enroll.field_options import TrainOptions
from avatar3d.enroll.field_pixels import Pixels
from avatar3d.enroll.field_teacher import DIRECTION_SETS, DIRECTIONS, Teacher
from avatar3d.field.network import Adam, NeuralField
from avatar3d.field.projection import cosine_directions
from avatar3d.motion.code import MotionCode
from avatar3d.progress import ProgressCallback

BEHIND_COSINE = -0.3  # hair that faces the photo's camera by less lies behind the rim
TEACHER_SHARE_OF_BOUND = 0.8  # targets stay where the soft bound is far from flat
BATCH_POINTS = 512
RANDOM_DIRECTIONS = 997
TABLE_RATE, MLP_RATE = 1e-2, 5e-3  # Adam's step sizes (Müller et al. 2022, section 4, for the tables)
ADAM_BETAS, ADAM_EPSILON = (0.9, 0.99), 1e-15
WARM_UP_STEPS, PACE_STEPS = 3, 40  # the pace is measured between the two, to plan for the time budget
FINAL_RATE_SHARE = 0.03  # the step sizes fall to this share along a half cosine


@dataclass
class _Pool:
    """Pixels to draw batches from, in rows: what a batch needs of a fragment or a pixel lies together in memory.

    slots: (P, 1 + R) i64, the opaque fragment and the layers over it from inside out, −1 where there is none.
    fragments: (N, 12) f32 and pixels: (P, 9) f32, in the columns named below.
    """

    slots: torch.Tensor
    fragments: torch.Tensor
    pixels: torch.Tensor


_CANONICAL, _DIRECTION, _COLOR, _WEIGHT, _ALPHA, _SEEN = slice(0, 3), slice(3, 6), slice(6, 9), 9, 10, 11
_TARGET, _SLOPE, _COLOR_WEIGHT, _COVERAGE, _COVERAGE_WEIGHT = slice(0, 3), slice(3, 6), 6, 7, 8


def _pool(pixels: Pixels) -> _Pool:
    p = pixels
    fragments = [p.canonical, p.d, p.color, p.weight[:, None], p.alpha[:, None], p.seen[:, None]]
    rows = [p.target, p.slope, p.color_weight[:, None], p.coverage[:, None], p.coverage_weight[:, None]]
    return _Pool(
        slots=torch.from_numpy(np.concatenate([p.opaque[:, None], p.layers], axis=1)),
        fragments=torch.from_numpy(np.concatenate(fragments, axis=1).astype(np.float32)),
        pixels=torch.from_numpy(np.concatenate(rows, axis=1).astype(np.float32)),
    )


@dataclass
class _Draw:
    """A batch of a pool: `chosen` (B,) pixels, their `slots` (B, 1 + R), the `place` (F,) of the used ones in the flat slots,
    their fragments `index` (F,), directions `d` (F, 3), `belief` (B,) that the pixel looks so, projected `motion` (1, M).
    """

    chosen: torch.Tensor
    slots: torch.Tensor
    place: torch.Tensor
    index: torch.Tensor
    d: torch.Tensor
    belief: torch.Tensor
    motion: torch.Tensor


class Trainer:
    """The field under training with its data as tensors."""

    def __init__(
        self,
        field: NeuralField,
        pools: list[tuple[Pixels, int, float]],
        teacher: Teacher,
        motion: MotionCode,
        options: TrainOptions,
    ) -> None:
        self.field, self.options = field, options
        self.rng = np.random.default_rng(options.seed + 1)
        self.pools = [(_pool(pixels), batch, share) for pixels, batch, share in pools if len(pixels.pixel)]
        self.directions = torch.from_numpy(cosine_directions(RANDOM_DIRECTIONS))
        self.teacher = _tensors(teacher)
        self.photo_motion = torch.tensor(motion.weights, dtype=torch.float32)[None] @ field.motion_projection

    def loss(self) -> torch.Tensor:
        """The objective on one random batch; the field sees all of its points in one call."""
        draws = [self._draw_pixels(pool, batch) for pool, batch, _ in self.pools]
        chosen, pick, motion = self._draw_points()
        d = self.teacher["d"][chosen, pick].reshape(-1, 3)
        canonical = [pool.fragments[draw.index, _CANONICAL] for (pool, _, _), draw in zip(self.pools, draws, strict=True)]
        *encoded, points = self.field.encode(torch.cat([*canonical, self.teacher["canonical"][chosen]])).split(
            [*map(len, canonical), len(chosen)]
        )
        motions = [draw.motion.expand(len(draw.index), -1) for draw in draws]
        residual, change = self.field.head(
            torch.cat([*encoded, points.repeat_interleave(DIRECTIONS, 0)]),
            torch.cat([*(draw.d for draw in draws), d]),
            torch.cat([*motions, motion.expand(len(d), -1)]),
        )
        sizes = [*map(len, canonical), len(d)]
        terms = []
        answers = list(zip(residual.split(sizes), change.split(sizes), strict=True))
        for (pool, _, share), draw, answer in zip(self.pools, draws, answers, strict=False):
            terms.append(self._picture_loss(pool, draw, share, *answer))
        residual, change = answers[-1]
        terms.append(self._teacher_loss(chosen, pick, residual.reshape(-1, DIRECTIONS, 3), change.reshape(-1, DIRECTIONS)))
        return torch.stack(terms).sum()

    def _draw_pixels(self, pool: _Pool, batch: int) -> _Draw:
        """`batch` random pixels of a pool, with the directions and the expression they are taught for."""
        options = self.options
        chosen = torch.from_numpy(self.rng.integers(0, len(pool.slots), batch))
        slots = pool.slots[chosen]
        place = torch.nonzero(slots.reshape(-1) >= 0)[:, 0]
        index = slots.reshape(-1)[place]
        if self.rng.random() < options.any_view_share:
            belief = pool.fragments[slots.max(1).values, _SEEN]
            d = self.directions[torch.from_numpy(self.rng.integers(0, RANDOM_DIRECTIONS, len(index)))]
        else:
            belief, d = torch.ones(()), pool.fragments[index, _DIRECTION]
        motion = self._random_motion() if self.rng.random() < options.any_expression_share else self.photo_motion
        return _Draw(chosen, slots, place, index, d, belief, motion)

    def _picture_loss(
        self, pool: _Pool, draw: _Draw, share: float, residual: torch.Tensor, change: torch.Tensor
    ) -> torch.Tensor:
        """The picture's misses of colour (times `share`) and of the hair's opacity on the drawn pixels."""
        options = self.options
        fragments, pixels = pool.fragments[draw.index], pool.pixels[draw.chosen]
        color = (fragments[:, _COLOR] + fragments[:, _WEIGHT, None] * residual).clamp(min=0)
        alpha = (fragments[:, _ALPHA] + change).clamp(0, 1)
        drawn = torch.cat([color, alpha[:, None], change[:, None]], dim=1)
        count, width = draw.slots.shape
        drawn = torch.zeros(count * width, 5).index_copy(0, draw.place, drawn).reshape(count, width, 5)
        opacity = drawn[..., 3].unbind(1)
        through, shares, hidden = torch.ones(count), [], []
        for layer in range(width - 1, 0, -1):
            hidden.append(1 - through.detach())
            shares.append(through * opacity[layer])
            through = through - shares[-1]
        picture = drawn[:, 0, :3] * through[:, None]
        if shares:
            picture = picture + (torch.stack(shares[::-1], dim=1)[..., None] * drawn[:, 1:, :3]).sum(1)
        covered = (1 - through * (draw.slots[:, 0] < 0)).detach()[:, None]
        error = (picture - covered * pixels[:, _TARGET]) * pixels[:, _SLOPE]
        total = share * options.photo_weight * (error.square().mean(1) * draw.belief * pixels[:, _COLOR_WEIGHT]).mean()
        if hidden:
            miss = (1 - through - pixels[:, _COVERAGE]).square() * pixels[:, _COVERAGE_WEIGHT]
            weight = options.opacity_weight + options.hidden_opacity_weight * torch.stack(hidden[::-1], dim=1)
            total = total + options.coverage_weight * miss.mean() + (weight * drawn[:, 1:, 4].square()).sum(1).mean()
        return total

    def _draw_points(self) -> tuple[torch.Tensor, int, torch.Tensor]:
        """Random teacher points (B,), their set of directions and the expression (1, M) they are seen at."""
        chosen = torch.from_numpy(self.rng.integers(0, len(self.teacher["level"]), BATCH_POINTS))
        return chosen, int(self.rng.integers(DIRECTION_SETS)), self._random_motion()

    def _teacher_loss(self, chosen: torch.Tensor, pick: int, residual: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Misses of the reflectance model and of what must stay, for the field's answers (B, D, 3) and (B, D)."""
        options, teacher = self.options, self.teacher
        target = teacher["target"][chosen, pick]
        limit = TEACHER_SHARE_OF_BOUND * self.field.color_bound
        target = (target - target.mean(1, keepdim=True)).clamp(-limit, limit)
        mean = residual.mean(1, keepdim=True)
        slope, level, facing = teacher["slope"][chosen][:, None], teacher["level"][chosen], teacher["facing"][chosen]
        skin = level < 0
        hair_weight = options.hair_mean_weight + options.unseen_mean_weight * (1 - teacher["seen"][chosen])
        mean_weight = torch.where(skin, options.skin_mean_weight, hair_weight)[:, None, None]
        hidden = (level == 0) | (facing < BEHIND_COSINE) | teacher["bare"][chosen]
        opacity_weight = torch.where(hidden, options.hidden_opacity_weight, options.opacity_weight) * ~skin
        return (
            options.teacher_weight * ((residual - mean - target) * slope).square().mean()
            + (mean_weight * (mean * slope).square()).mean()
            + (opacity_weight[:, None] * change.square()).mean()
        )

    def teacher_residual(self, chosen: torch.Tensor, pick: int, motion: torch.Tensor) -> torch.Tensor:
        """Residual (B, D, 3) at teacher points `chosen` (B,) in their set `pick` of directions."""
        features = self.field.encode(self.teacher["canonical"][chosen]).repeat_interleave(DIRECTIONS, 0)
        residual, _ = self.field.head(features, self.teacher["d"][chosen, pick].reshape(-1, 3), motion)
        return residual.reshape(-1, DIRECTIONS, 3)

    def _random_motion(self) -> torch.Tensor:
        """Projected motion (1, M): as often the neutral expression as a random one."""
        weights = np.zeros(52, np.float32)
        if self.rng.random() < 0.5:
            weights = (self.rng.random(52) * (self.rng.random(52) < 0.25)).astype(np.float32)
        return torch.from_numpy(weights)[None] @ self.field.motion_projection

    def run(self, progress: ProgressCallback) -> tuple[int, float, float, float]:
        """Train; returns (iterations, seconds, first loss, last loss), the losses as means over a twentieth of the run."""
        options = self.options
        groups = [
            (self.field.grid_parameters(), TABLE_RATE, options.table_decay),
            (self.field.mlp_parameters(), MLP_RATE, 0.0),
        ]
        optimizer = Adam(groups, ADAM_BETAS, ADAM_EPSILON)
        started, losses, planned = time.perf_counter(), [], options.iterations
        # The budget is of processor time, so that what a run learns does not depend on what else the machine does.
        began = warm = time.process_time()
        for iteration in range(options.iterations):
            now = time.process_time()
            if iteration == WARM_UP_STEPS:
                warm = now  # the steps before it compile kernels
            if iteration == PACE_STEPS:
                pace = (now - warm) / (PACE_STEPS - WARM_UP_STEPS)
                planned = min(planned, iteration + max(int((options.seconds_budget - (now - began)) / pace), 0))
            if iteration >= planned or now - began > options.seconds_budget:
                break
            # A run that fits its budget depends on the iteration alone, so that it repeats exactly; one that does not is
            # shortened early, so that its step sizes still fall to the end.
            factor = FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * 0.5 * (1 + np.cos(np.pi * iteration / planned))
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            optimizer.step(factor)
            losses.append(float(loss.detach()))
            if iteration % 20 == 0:
                progress(iteration / planned, "training the field")
        window = max(len(losses) // 20, 1)
        seconds = time.perf_counter() - started
        return len(losses), seconds, float(np.mean(losses[:window])), float(np.mean(losses[-window:]))


def _tensors(data: Teacher) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(getattr(data, name))) for name in data.__dataclass_fields__}
