"""The objective of the field's training and its gradient, twice: by torch's autograd, which defines it, and written out.

The written-out form leaves autograd's bookkeeping, most of a step's time on a CPU, and agrees with torch's to rounding.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch

from avatar3d.enrolment.field.batches import (
    ALPHA,
    CANONICAL,
    COLOR,
    COLOR_WEIGHT,
    COVERAGE,
    COVERAGE_WEIGHT,
    SLOPE,
    TARGET,
    WEIGHT,
    PixelBatch,
    PointBatch,
)
from avatar3d.enrolment.field.options import TrainOptions
from avatar3d.field.definition import spherical_harmonics
from avatar3d.field.network import NeuralField

TEACHER_SHARE_OF_BOUND = 0.8  # targets stay where the soft bound is far from flat


class Objective(Protocol):
    """Sets the gradient of the field's parameters for one batch and returns its loss."""

    def step(self, pixels: list[PixelBatch], points: PointBatch) -> float: ...


def make_objective(field: NeuralField, options: TrainOptions) -> Objective:
    """The written-out form where its kernels run (implementation numba), else torch's."""
    return WrittenObjective(field, options) if field.implementation == "numba" else TorchObjective(field, options)


def _centred_target(points: PointBatch, color_bound: float) -> np.ndarray:
    """(B, D, 3) what the view should change, without its mean over the directions."""
    limit = TEACHER_SHARE_OF_BOUND * color_bound
    return np.clip(points.target - points.target.mean(1, keepdims=True), -limit, limit)


class TorchObjective:
    """The definition, for any device's back end."""

    def __init__(self, field: NeuralField, options: TrainOptions) -> None:
        self._field, self._options = field, options

    def step(self, pixels: list[PixelBatch], points: PointBatch) -> float:
        """See Objective."""
        self._field.zero_grad()
        loss = self.loss(pixels, points)
        loss.backward()
        return float(loss.detach())

    def loss(self, pixels: list[PixelBatch], points: PointBatch) -> torch.Tensor:
        """The loss of a batch; the field sees all of its points in one call."""
        canonical = [torch.from_numpy(batch.fragments[:, CANONICAL]) for batch in pixels]
        sizes = [*map(len, canonical), len(points.canonical)]
        *encoded, at_points = self._field.encode(torch.cat([*canonical, torch.from_numpy(points.canonical)])).split(sizes)
        directions = points.d.shape[1]
        motions = [torch.from_numpy(batch.motion).expand(len(batch.d), -1) for batch in pixels]
        count = directions * len(points.canonical)
        residual, change = self._field.head(
            torch.cat([*encoded, at_points.repeat_interleave(directions, 0)]),
            torch.cat([*(torch.from_numpy(batch.d) for batch in pixels), torch.from_numpy(points.d).reshape(-1, 3)]),
            torch.cat([*motions, torch.from_numpy(points.motion).expand(count, -1)]),
        )
        sizes[-1] = count
        *answers, (at_points, opacity) = zip(residual.split(sizes), change.split(sizes), strict=True)
        terms = [self._picture(batch, *answer) for batch, answer in zip(pixels, answers, strict=True)]
        terms.append(self._teacher(points, at_points.reshape(-1, directions, 3), opacity.reshape(-1, directions)))
        return torch.stack(terms).sum()

    def _picture(self, batch: PixelBatch, residual: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Misses of colour (times the batch's share) and of the hair's opacity on the drawn pixels."""
        options = self._options
        slots, fragments, pixels, belief = (
            torch.from_numpy(np.ascontiguousarray(a)) for a in (batch.slots, batch.fragments, batch.pixels, batch.belief)
        )
        place = torch.nonzero(slots.reshape(-1) >= 0)[:, 0]
        color = (fragments[:, COLOR] + fragments[:, WEIGHT, None] * residual).clamp(min=0)
        alpha = (fragments[:, ALPHA] + change).clamp(0, 1)
        drawn = torch.cat([color, alpha[:, None], change[:, None]], dim=1)
        count, width = slots.shape
        drawn = torch.zeros(count * width, 5).index_copy(0, place, drawn).reshape(count, width, 5)
        opacity = drawn[..., 3].unbind(1)
        through, shares, hidden = torch.ones(count), [], []
        for layer in range(width - 1, 0, -1):
            hidden.append(1 - through.detach())
            shares.append(through * opacity[layer])
            through = through - shares[-1]
        picture = drawn[:, 0, :3] * through[:, None]
        if shares:
            picture = picture + (torch.stack(shares[::-1], dim=1)[..., None] * drawn[:, 1:, :3]).sum(1)
        covered = (1 - through * (slots[:, 0] < 0)).detach()[:, None]
        error = (picture - covered * pixels[:, TARGET]) * pixels[:, SLOPE]
        total = batch.share * options.photo_weight * (error.square().mean(1) * belief * pixels[:, COLOR_WEIGHT]).mean()
        if hidden:
            miss = (1 - through - pixels[:, COVERAGE]).square() * pixels[:, COVERAGE_WEIGHT]
            weight = options.opacity_weight + options.hidden_opacity_weight * torch.stack(hidden[::-1], dim=1)
            total = total + options.coverage_weight * miss.mean() + (weight * drawn[:, 1:, 4].square()).sum(1).mean()
        return total

    def _teacher(self, points: PointBatch, residual: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Misses of the reflectance model and of what must stay, for the field's answers (B, D, 3) and (B, D)."""
        target = torch.from_numpy(_centred_target(points, self._field.color_bound))
        mean = residual.mean(1, keepdim=True)
        slope = torch.from_numpy(points.slope)[:, None]
        return (
            self._options.teacher_weight * ((residual - mean - target) * slope).square().mean()
            + (torch.from_numpy(points.mean_weight)[:, None, None] * (mean * slope).square()).mean()
            + (torch.from_numpy(points.opacity_weight)[:, None] * change.square()).mean()
        )


class WrittenObjective:
    """The same with its gradient written out in numpy and numba, for a field of the numba back end."""

    def __init__(self, field: NeuralField, options: TrainOptions) -> None:
        self._field, self._options = field, options
        self._box = field.box_min.numpy(), field.box_extent.numpy()
        self._weights = [layer.weight.detach().numpy() for layer in field.layers]  # type: ignore[operator]
        self._biases = [layer.bias.detach().numpy() for layer in field.layers]  # type: ignore[operator]

    def step(self, pixels: list[PixelBatch], points: PointBatch) -> float:
        """See Objective."""
        from avatar3d.field.kernels import encode_backward, encode_forward

        field = self._field
        tables = field.tables.detach().numpy()
        place = np.concatenate([*(batch.fragments[:, CANONICAL] for batch in pixels), points.canonical])
        unit = np.clip((place - self._box[0]) / self._box[1], 0, 1)
        encoded = np.empty((len(unit), tables.shape[0] * tables.shape[2]), np.float32)
        encode_forward(unit, tables, field.resolutions, encoded)

        directions = points.d.shape[1]
        first = len(unit) - len(points.canonical)  # of the points' rows
        rest = np.concatenate(
            [_rest(batch.d, batch.motion) for batch in pixels] + [_rest(points.d.reshape(-1, 3), points.motion)]
        )
        weight = self._weights[0]
        split = encoded.shape[1]
        at_place = encoded @ weight[:, :split].T
        values = [np.concatenate([at_place[:first], np.repeat(at_place[first:], directions, 0)])]
        values[0] += rest @ weight[:, split:].T
        values[0] += self._biases[0]
        for weight, bias in zip(self._weights[1:], self._biases[1:], strict=True):
            np.maximum(values[-1], 0, out=values[-1])
            values.append(values[-1] @ weight.T + bias)
        slope = 1 / (1 + np.abs(values[-1]))
        bounds = np.array([*[field.color_bound] * 3, field.alpha_bound], np.float32)
        answer = values[-1] * slope * bounds

        loss, gradient = self._losses(pixels, points, answer)
        gradient *= bounds * slope * slope
        self._backward(gradient, values, rest, encoded, first, directions)
        table_gradient = np.empty_like(tables)
        encode_backward(unit, self._at_place, field.resolutions, table_gradient)
        field.tables.grad = torch.from_numpy(table_gradient)
        return loss

    def _backward(
        self, gradient: np.ndarray, values: list[np.ndarray], rest: np.ndarray, encoded: np.ndarray, first: int, directions: int
    ) -> None:
        """Gradients of the MLP's parameters, and of the encoded features (left in `_at_place`), from that of its output."""
        layers = list(self._field.layers)
        for index in range(len(layers) - 1, 0, -1):
            before = values[index - 1]
            _keep(layers[index], gradient.T @ before, gradient.sum(0))
            gradient = (gradient @ self._weights[index]) * (before > 0)
        at_place = np.concatenate([gradient[:first], gradient[first:].reshape(-1, directions, gradient.shape[1]).sum(1)])
        _keep(layers[0], np.concatenate([at_place.T @ encoded, gradient.T @ rest], axis=1), gradient.sum(0))
        self._at_place = at_place @ self._weights[0][:, : encoded.shape[1]]

    def _losses(self, pixels: list[PixelBatch], points: PointBatch, answer: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and its gradient (N, 4) by the bounded answers (N, 4), residual and opacity change."""
        from avatar3d.enrolment.field.kernels import picture_gradient

        options = self._options
        gradient = np.empty_like(answer)
        loss, start = 0.0, 0
        for batch in pixels:
            rows = slice(start, start + len(batch.d))
            loss += picture_gradient(
                batch.slots, batch.fragments, batch.pixels, batch.belief, answer[rows], batch.share * options.photo_weight,
                options.coverage_weight, options.opacity_weight, options.hidden_opacity_weight, gradient[rows],
            )  # fmt: skip
            start = rows.stop
        count, directions = points.d.shape[:2]
        residual, change = answer[start:, :3].reshape(count, directions, 3), answer[start:, 3].reshape(count, directions)
        mean = residual.mean(1)
        slope = points.slope
        error = residual - mean[:, None] - _centred_target(points, self._field.color_bound)
        error *= slope[:, None]
        held = mean * slope
        loss += options.teacher_weight * float(np.mean(error * error))
        loss += float(np.mean(points.mean_weight[:, None] * held * held))
        loss += float(np.mean(points.opacity_weight[:, None] * change * change))
        error *= slope[:, None] * np.float32(2 * options.teacher_weight / error.size)
        error -= error.mean(1, keepdims=True)
        error += (points.mean_weight[:, None] * held * slope)[:, None] * np.float32(2 / error.size)
        gradient[start:, :3] = error.reshape(-1, 3)
        gradient[start:, 3] = (points.opacity_weight[:, None] * change * np.float32(2 / change.size)).ravel()
        return loss, gradient


def _rest(d: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """(N, 8 + M) what the MLP sees beside the place: the direction's harmonics and the expression."""
    return np.concatenate([spherical_harmonics(d), np.broadcast_to(motion, (len(d), len(motion)))], axis=1, dtype=np.float32)


def _keep(layer: torch.nn.Module, weight: np.ndarray, bias: np.ndarray) -> None:
    layer.weight.grad, layer.bias.grad = torch.from_numpy(weight), torch.from_numpy(bias)
