"""Hash-grid kernels for CPUs (numba): forward parallel over samples, backward parallel over levels, free of races."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

_PRIME_Y, _PRIME_Z = 2654435761, 805459861  # definition.HASH_PRIMES; numba folds literals, not tuples of another module


@njit(inline="always")
def _entry(x, y, z, resolution, table_size):  # type: ignore[no-untyped-def]
    side = resolution + 1
    if side * side * side <= table_size:
        return x + side * (y + side * z)
    return (x ^ (y * _PRIME_Y) ^ (z * _PRIME_Z)) & (table_size - 1)


@njit(inline="always")
def _cell(scaled, resolution):  # type: ignore[no-untyped-def]
    return min(int(scaled), resolution - 1)


@njit(parallel=True, fastmath=True, cache=True)
def encode_forward(unit: np.ndarray, tables: np.ndarray, resolutions: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (N, L·F) f32 from unit positions (N, 3) f32 in [0, 1], tables (L, T, F) f32 and resolutions (L,) i64."""
    levels, table_size, features = tables.shape
    for i in prange(unit.shape[0]):
        for level in range(levels):
            resolution = resolutions[level]
            sx, sy, sz = unit[i, 0] * resolution, unit[i, 1] * resolution, unit[i, 2] * resolution
            cx, cy, cz = _cell(sx, resolution), _cell(sy, resolution), _cell(sz, resolution)
            fx, fy, fz = np.float32(sx - cx), np.float32(sy - cy), np.float32(sz - cz)
            for f in range(features):
                out[i, level * features + f] = 0.0
            for corner in range(8):
                dx, dy, dz = corner & 1, (corner >> 1) & 1, (corner >> 2) & 1
                wx = fx if dx else np.float32(1) - fx
                wy = fy if dy else np.float32(1) - fy
                wz = fz if dz else np.float32(1) - fz
                weight = wx * wy * wz
                entry = _entry(cx + dx, cy + dy, cz + dz, resolution, table_size)
                for f in range(features):
                    out[i, level * features + f] += weight * tables[level, entry, f]


@njit(parallel=True, fastmath=True, cache=True)
def encode_backward(unit: np.ndarray, gradient: np.ndarray, resolutions: np.ndarray, table_gradient: np.ndarray) -> None:
    """Fill `table_gradient` (L, T, F) f32 with the scatter of `gradient` (N, L·F) f32; each level belongs to one thread."""
    levels, table_size, features = table_gradient.shape
    for level in prange(levels):
        resolution = resolutions[level]
        table_gradient[level] = 0.0
        for i in range(unit.shape[0]):
            sx, sy, sz = unit[i, 0] * resolution, unit[i, 1] * resolution, unit[i, 2] * resolution
            cx, cy, cz = _cell(sx, resolution), _cell(sy, resolution), _cell(sz, resolution)
            fx, fy, fz = np.float32(sx - cx), np.float32(sy - cy), np.float32(sz - cz)
            for corner in range(8):
                dx, dy, dz = corner & 1, (corner >> 1) & 1, (corner >> 2) & 1
                wx = fx if dx else np.float32(1) - fx
                wy = fy if dy else np.float32(1) - fy
                wz = fz if dz else np.float32(1) - fz
                weight = wx * wy * wz
                entry = _entry(cx + dx, cy + dy, cz + dz, resolution, table_size)
                for f in range(features):
                    table_gradient[level, entry, f] += weight * gradient[i, level * features + f]


@njit(fastmath=True, cache=True)
def adam_step(
    parameter: np.ndarray,
    gradient: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    step: int,
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
) -> None:
    """One step of AdamW (Loshchilov and Hutter 2019, algorithm 2) in place on flat f32 arrays; `step` counts from 1."""
    beta1, beta2 = np.float32(betas[0]), np.float32(betas[1])
    scale = np.float32(rate / (1 - betas[0] ** step))
    unbias = np.float32(1 / (1 - betas[1] ** step))
    eps, kept = np.float32(epsilon), np.float32(1 - rate * decay)
    for i in range(parameter.size):
        g = gradient[i]
        first[i] = beta1 * first[i] + (np.float32(1) - beta1) * g
        second[i] = beta2 * second[i] + (np.float32(1) - beta2) * g * g
        parameter[i] = kept * parameter[i] - scale * first[i] / (np.sqrt(second[i] * unbias) + eps)
