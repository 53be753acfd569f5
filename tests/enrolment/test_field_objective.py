"""The written-out gradient of the field's objective against torch's autograd, which defines it."""

import numpy as np
import pytest

from avatar3d.enrolment.field.batches import Batches, PixelBatch, PointBatch
from avatar3d.enrolment.field.objective import TorchObjective, WrittenObjective
from avatar3d.enrolment.field.options import TrainOptions
from avatar3d.enrolment.field.pixels import Pixels
from avatar3d.enrolment.field.teacher import Teacher
from avatar3d.field.definition import FieldConfig, new_field
from avatar3d.field.network import NeuralField
from avatar3d.geometry import unit
from avatar3d.motion.code import MotionCode


def _pixel_batch(rng: np.random.Generator, count: int, layers: int) -> PixelBatch:
    """Pixels of every kind: opaque alone, layers with gaps, layers before nothing; colours and opacities at their limits too."""
    filled = rng.random((count, 1 + layers)) < 0.7
    filled[:, 0] |= ~filled.any(1)
    slots = np.where(filled, np.arange(filled.size).reshape(filled.shape), -1)
    fragments = rng.random((filled.sum(), 12)).astype(np.float32)
    fragments[:, :3] = rng.uniform(-0.2, 0.2, (len(fragments), 3))
    fragments[::5, 6:9] = 0.0
    fragments[::7, 10] = 1.0
    d = unit(rng.normal(size=(len(fragments), 3))).astype(np.float32)
    pixels = rng.random((count, 9)).astype(np.float32)
    return PixelBatch(slots, fragments, pixels, d, rng.random(count).astype(np.float32), rng.random(4).astype(np.float32), 0.7)


def _point_batch(rng: np.random.Generator, count: int) -> PointBatch:
    d = unit(rng.normal(size=(count, 6, 3))).astype(np.float32)
    random = [rng.random((count, 3)).astype(np.float32) for _ in range(2)]
    target = rng.normal(0, 0.1, (count, 6, 3)).astype(np.float32)
    weights = [rng.random(count).astype(np.float32) for _ in range(2)]
    return PointBatch(random[0] * 0.3 - 0.15, d, target, random[1], *weights, rng.random(4).astype(np.float32))


@pytest.mark.parametrize("layers", [0, 1, 8])
def test_the_written_gradient_is_autograds(layers):
    rng = np.random.default_rng(layers)
    field = NeuralField(new_field(3, FieldConfig(output_scale=0.5)), "numba")
    options = TrainOptions()
    pixels, points = [_pixel_batch(rng, 40, layers), _pixel_batch(rng, 30, 0)], _point_batch(rng, 25)
    results = []
    for objective in (TorchObjective(field, options), WrittenObjective(field, options)):
        loss = objective.step(pixels, points)
        results.append((loss, [parameter.grad.numpy().copy() for parameter in field.parameters()]))
    (loss, gradients), (written_loss, written) = results
    assert written_loss == pytest.approx(loss, rel=1e-5)
    for wanted, found in zip(gradients, written, strict=True):
        assert np.abs(wanted).max() > 0
        np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max(), rtol=1e-3)


def test_equal_seeds_draw_equal_batches():
    rng = np.random.default_rng(0)
    count = 50
    pixels = Pixels(
        *(rng.random((count, 3)).astype(np.float32) for _ in range(3)),
        *(rng.random(count).astype(np.float32) for _ in range(3)),
        np.zeros(count, np.int8), np.arange(count), np.full((count, 2), -1), np.arange(count),
        *(rng.random((count, 3)).astype(np.float32) for _ in range(3)),
        *(rng.random(count).astype(np.float32) for _ in range(3)),
    )  # fmt: skip
    teacher = Teacher(
        np.zeros((9, 3), np.float32), np.zeros((9, 4, 6, 3), np.float32), np.zeros((9, 4, 6, 3), np.float32),
        np.ones((9, 3), np.float32), np.r_[[-1] * 3, [0] * 3, [1] * 3].astype(np.int8), np.ones(9, np.float32),
        np.ones(9, np.float32), np.zeros(9, bool),
    )  # fmt: skip
    options = TrainOptions(seed=5)
    first, second = (Batches([(pixels, 8, 1.0)], teacher, MotionCode(), np.ones((52, 4)), options).draw() for _ in range(2))
    for a, b in zip([*first[0], first[1]], [*second[0], second[1]], strict=True):
        for name in a.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    skin_and_base = first[1].opacity_weight[first[1].mean_weight == options.skin_mean_weight]
    assert not skin_and_base.any()  # skin has no opacity to hold
