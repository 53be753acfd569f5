"""How a bake's textures follow the motion code: the few directions in which they move by more than is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import FieldParams
from avatar3d.field.projection import FieldAt, FieldBetween
from avatar3d.motion.code import ARKIT_NAMES

SAMPLED_CODES = 12  # random motion codes that the directions are found from, beside the field's own extremes
ACTIVE_SHARE = 0.3  # of a random code's weights; the two sides of the face move alike
BOUND_CODES = 0.5  # 8-bit steps of sRGB: what changes a place by less is not seen
SEEN_PERCENTILE = 99.0  # of the places, by how much they change: one in a hundred may change by more
MOVED_DIRECTIONS = 6  # views that a change of the mean is taken over; it is far smaller than the mean


@dataclass(frozen=True)
class Direction:
    """A direction of the motion code. row: (52,) f32, its amount is row · (weights − the bake's).

    step: (M,) what one unit adds to the projected motion. low, high: least and greatest amount seen.
    """

    row: np.ndarray
    step: np.ndarray
    low: float
    high: float

    def slope(self, place: FieldAt | FieldBetween, rest: np.ndarray) -> np.ndarray:
        """(N, 4) f32 what one unit adds to the mean at places, from `rest` (M,): least squares through rest, over the limits."""
        still, low, high = (place.mean(rest + amount * self.step, MOVED_DIRECTIONS) for amount in (0.0, self.low, self.high))
        square = np.float32(max(self.low**2 + self.high**2, 1e-12))
        return (np.float32(self.low) * (low - still) + np.float32(self.high) * (high - still)) / square


@dataclass(frozen=True)
class Sample:
    """Places (N) at which changes are judged: what textures hold there, and 8-bit steps of sRGB a unit of it is worth (N, 3)."""

    field: FieldBetween
    codes: np.ndarray

    def mean(self, motion: np.ndarray) -> np.ndarray:
        """(N, 3) in 8-bit steps, at a projected motion (M,)."""
        return self.field.mean(motion, MOVED_DIRECTIONS)[:, :3] * self.codes


def random_codes(count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 52) f32 ARKit weights of faces that move: few weights, left and right alike."""
    names = [name.removesuffix("Left").removesuffix("Right") for name in ARKIT_NAMES]
    kinds = sorted(set(names))
    active = rng.random((count, len(kinds))) < ACTIVE_SHARE
    values = np.where(active, rng.random((count, len(kinds))), 0)
    return values[:, [kinds.index(name) for name in names]].astype(np.float32)


def extreme_codes(params: FieldParams) -> np.ndarray:
    """(2 M, 52) f32 ARKit weights that drive each component of the field's projected motion farthest up and down."""
    columns = params.motion_projection.T
    return np.concatenate([columns > 0, columns < 0]).astype(np.float32)


def principal_directions(
    params: FieldParams, weights: np.ndarray, samples: Sequence[Sample], rng: np.random.Generator
) -> list[Direction]:
    """The directions in which what `samples` show moves most with the motion code about `weights` (52,), the strongest first.

    The principal components of the part of the change that is linear in the projected motion (reduced-rank regression), over
    random codes and the extremes. Those that stay under BOUND_CODES, at all but one place in a hundred, are left out.
    """
    codes = np.concatenate([random_codes(SAMPLED_CODES, rng), extreme_codes(params)])
    moved = (codes - weights) @ params.motion_projection
    count = moved.shape[1]
    if count == 0 or not moved.any():
        return []
    rest = np.asarray(weights, np.float32) @ params.motion_projection
    products, fit = np.zeros((count, count)), np.linalg.pinv(moved)
    for sample in samples:
        still = sample.mean(rest)
        linear = fit @ np.stack([(sample.mean(rest + motion) - still).ravel() for motion in moved])
        products += linear @ linear.T
    # Whitened by how far the codes go, so that a component that hardly moves counts little.
    scale = np.linalg.cholesky(moved.T @ moved / len(moved) + 1e-9 * np.eye(count))
    strength, turn = np.linalg.eigh(scale.T @ products @ scale)
    found = []
    for index in np.argsort(-strength):
        to_amount = np.linalg.solve(scale.T, turn[:, index])
        amounts = np.append(moved @ to_amount, 0.0)
        direction = Direction(
            row=(params.motion_projection @ to_amount).astype(np.float32),
            step=(scale @ turn[:, index]).astype(np.float32),
            low=float(amounts.min()),
            high=float(amounts.max()),
        )
        if any(contribution(direction, rest, sample) > BOUND_CODES for sample in samples):
            found.append(direction)
    return found


def contribution(direction: Direction, rest: np.ndarray, sample: Sample) -> float:
    """How many 8-bit steps of sRGB a direction at its limits changes the textures by, at all but one place in a hundred or less.

    Root mean square over the channels. rest: (M,) the bake's projected motion.
    """
    if not len(sample.codes):
        return 0.0
    still = sample.mean(rest)
    changes = [sample.mean(rest + amount * direction.step) - still for amount in (direction.low, direction.high)]
    return max(float(np.percentile(np.sqrt((change**2).mean(1)), SEEN_PERCENTILE)) for change in changes)
