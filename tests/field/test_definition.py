"""The field's numpy definition against its axioms and every twin against the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from avatar3d.errors import InputError, WorkError
from avatar3d.field import FieldConfig, encode, evaluate, new_field, spherical_harmonics, tcnn
from avatar3d.field.definition import HASH_PRIMES, bound, corner_index, is_dense, unit_positions
from avatar3d.field.network import NeuralField

LIVELY = {"table_scale": 0.5, "output_scale": 1.0}
CONFIGS = [
    FieldConfig(**LIVELY),
    FieldConfig(levels=3, features=4, table_size=1 << 8, coarsest=4, finest=40, hidden=8, motion=2, **LIVELY),
    FieldConfig(levels=1, features=1, table_size=1 << 10, coarsest=9, finest=9, hidden=32, motion=0, **LIVELY),
]


def _samples(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    positions = rng.uniform(-0.3, 0.3, (count, 3)).astype(np.float32)  # some outside the box: clamped
    d = rng.normal(size=(count, 3))
    return positions, (d / np.linalg.norm(d, axis=1, keepdims=True)).astype(np.float32), rng.random(52)


def test_a_new_field_changes_nothing_and_is_reproducible() -> None:
    positions, d, weights = _samples(100, 0)
    residual, alpha = evaluate(new_field(3), positions, d, weights)
    assert not residual.any() and not alpha.any()
    assert (new_field(3).tables == new_field(3).tables).all()
    assert (new_field(3).tables != new_field(4).tables).any()


def test_output_is_bounded_whatever_the_weights() -> None:
    params = new_field(0, FieldConfig(table_scale=100.0, output_scale=100.0))
    residual, alpha = evaluate(params, *_samples(500, 1))
    assert np.abs(residual).max() <= 0.25 and np.abs(alpha).max() <= 0.5
    assert np.abs(residual).max() > 0.2


def test_encoding_is_the_table_at_grid_vertices_and_linear_between() -> None:
    params = new_field(0, FieldConfig(levels=1, coarsest=8, finest=8, **LIVELY))
    corner = np.array([[0, 0, 0], [3, 5, 7], [8, 8, 8]])
    extent = params.box_max - params.box_min
    at_vertex = encode(params, params.box_min + corner / 8 * extent)
    np.testing.assert_allclose(at_vertex, params.tables[0][corner_index(corner, 8, 1 << 14)], atol=1e-5)
    ends = params.box_min + np.array([[3, 5, 7], [4, 5, 7]]) / 8 * extent
    middle = encode(params, ends.mean(0, keepdims=True))
    np.testing.assert_allclose(middle[0], encode(params, ends).mean(0), atol=1e-5)


def test_hashed_index_equals_unsigned_32_bit_arithmetic() -> None:
    corner = np.random.default_rng(0).integers(0, 257, (1000, 3))
    u = corner.astype(np.uint32)
    with np.errstate(over="ignore"):
        hashed = u[:, 0] ^ u[:, 1] * np.uint32(HASH_PRIMES[1]) ^ u[:, 2] * np.uint32(HASH_PRIMES[2])
    expected = hashed & np.uint32((1 << 14) - 1)
    assert not is_dense(256, 1 << 14)
    assert (corner_index(corner, 256, 1 << 14) == expected).all()


def test_harmonics_are_orthogonal_to_constants_and_each_other() -> None:
    rng = np.random.default_rng(0)
    d = rng.normal(size=(200_000, 3))
    basis = spherical_harmonics(d / np.linalg.norm(d, axis=1, keepdims=True))
    assert np.abs(basis.mean(0)).max() < 0.01
    gram = basis.T @ basis / len(basis)
    assert np.abs(gram - np.diag(np.diag(gram))).max() < 0.01


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("implementation", ["torch", "numba"])
@pytest.mark.parametrize("count", [1, 257])
def test_twins_equal_the_definition(config: FieldConfig, implementation: str, count: int) -> None:
    for seed in range(2):
        params = new_field(seed, config)
        positions, d, weights = _samples(count, seed)
        residual, alpha = evaluate(params, positions, d, weights)
        module = NeuralField(params, implementation)
        with torch.no_grad():
            twin, twin_alpha = module(torch.tensor(positions), torch.tensor(d), torch.tensor(weights))
        np.testing.assert_allclose(twin.numpy(), residual, atol=3e-6)
        np.testing.assert_allclose(twin_alpha.numpy(), alpha, atol=3e-6)


@pytest.mark.parametrize("config", CONFIGS)
def test_numba_gradients_equal_torch(config: FieldConfig) -> None:
    params = new_field(5, config)
    positions, d, weights = (torch.tensor(array) for array in _samples(300, 5))
    gradients = []
    for implementation in ("torch", "numba"):
        module = NeuralField(params, implementation)
        residual, alpha = module(positions, d, weights)
        (residual.square().sum() + (alpha * torch.linspace(-1, 1, 300)).sum()).backward()
        gradients.append([parameter.grad.numpy() for parameter in module.parameters()])
    for expected, actual in zip(*gradients, strict=True):
        np.testing.assert_allclose(actual, expected, atol=2e-5 * max(1.0, float(np.abs(expected).max())))


def test_table_gradient_equals_finite_differences_of_the_definition() -> None:
    params = new_field(1, CONFIGS[1])
    positions, d, weights = _samples(40, 1)
    module = NeuralField(params, "numba")
    module(torch.tensor(positions), torch.tensor(d), torch.tensor(weights))[0].sum().backward()
    gradient = module.tables.grad.numpy()
    step = 1e-2
    for entry in np.argsort(-np.abs(gradient).reshape(-1))[:5]:
        index = np.unravel_index(entry, gradient.shape)
        values = []
        for sign in (1, -1):
            moved = NeuralField(params, "torch").to_params()
            moved.tables[index] += sign * step
            values.append(float(evaluate(moved, positions, d, weights)[0].astype(np.float64).sum()))
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(gradient[index], rel=0.05, abs=1e-3)


def test_parameters_survive_the_round_trip_through_the_module() -> None:
    params = new_field(2, CONFIGS[1])
    back = NeuralField(params, "numba").to_params()
    assert (back.tables == params.tables).all()
    assert all((a == b).all() for a, b in zip(back.weights + back.biases, params.weights + params.biases, strict=True))
    np.testing.assert_allclose(back.box_max, params.box_max, atol=1e-7)


def test_expression_enters_only_through_the_projection() -> None:
    params = new_field(0, FieldConfig(**LIVELY))
    params.weights[0][:, -4:] = 1.0
    positions, d, _ = _samples(10, 0)
    eyes = np.zeros(52)
    eyes[1] = 1.0  # eyeLookDownLeft belongs to no group
    jaw = np.zeros(52)
    jaw[17] = 1.0
    neutral = evaluate(params, positions, d, np.zeros(52))[0]
    assert (evaluate(params, positions, d, eyes)[0] == neutral).all()
    assert (evaluate(params, positions, d, jaw)[0] != neutral).any()


def test_unknown_or_missing_back_end_is_one_sentence() -> None:
    with pytest.raises(InputError, match="unknown field back end 'cuda'; expected one of numba, torch, tcnn"):
        NeuralField(new_field(), "cuda")
    try:
        import tinycudann  # noqa: F401
    except (ImportError, OSError):
        with pytest.raises(WorkError, match=r"needs tiny-cuda-nn and an NVIDIA GPU.*numba, which runs here"):
            NeuralField(new_field(), "tcnn")


def test_a_wrong_field_is_refused() -> None:
    with pytest.raises(InputError, match="not a power of two"):
        new_field(0, FieldConfig(table_size=1000))
    with pytest.raises(InputError, match="no volume"):
        new_field(0, box_min=np.zeros(3), box_max=np.array([1.0, 0.0, 1.0]))


def _tcnn_level(parameters: np.ndarray, unit: np.ndarray, resolution: int, table_size: int, features: int) -> np.ndarray:
    """tiny-cuda-nn's kernel_grid for one level, in numpy: grid.h `pos_fract`, common_device.h `grid_index`."""
    grid_resolution = resolution + 1
    rows = parameters.reshape(-1, features)
    scaled = unit * (grid_resolution - 1) + 0.5
    cell = np.floor(scaled).astype(np.int64)
    fraction = scaled - cell
    out = np.zeros((len(unit), features))
    for corner in range(8):
        step = np.array([corner & 1, corner >> 1 & 1, corner >> 2 & 1])
        position = (cell + step).astype(np.uint32)
        stride, index = 1, np.zeros(len(unit), np.uint32)
        for axis in range(3):
            if stride > len(rows):
                break
            index += position[:, axis] * np.uint32(stride)
            stride *= grid_resolution
        if stride > len(rows):
            index = np.zeros(len(unit), np.uint32)
            for axis in range(3):
                with np.errstate(over="ignore"):
                    index ^= position[:, axis] * np.uint32(HASH_PRIMES[axis])
        weight = np.where(step == 1, fraction, 1 - fraction).prod(1)
        out += weight[:, None] * rows[index % np.uint32(len(rows))]
    return out


@pytest.mark.parametrize("resolution", [16, 24, 25, 256])
def test_converted_layout_gives_the_same_features_under_tiny_cuda_nn_rules(resolution: int) -> None:
    params = new_field(0, FieldConfig(levels=1, features=2, coarsest=resolution, finest=resolution, **LIVELY))
    positions, _, _ = _samples(200, 0)
    positions *= 0.3  # inside the box
    packed = tcnn.pack_level(params.tables[0], resolution)
    unit = unit_positions(params, positions).astype(np.float64)
    theirs = _tcnn_level(packed, unit - 0.5 / resolution, resolution, 1 << 14, 2)
    np.testing.assert_allclose(theirs, encode(params, positions), atol=1e-4)
    unpacked = tcnn.unpack_level(packed, 1 << 14, 2)
    assert (tcnn.pack_level(unpacked, resolution) == packed).all()


def test_bound_is_odd_with_slope_one() -> None:
    y = np.linspace(-50, 50, 1001)
    assert (bound(-y) == -bound(y)).all() and (np.abs(bound(y)) < 1).all()
    assert (bound(1e-6) / 1e-6) == pytest.approx(1.0, abs=1e-5)
