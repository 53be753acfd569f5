"""Hash-grid kernels for CPUs (numba): forward parallel over samples, backward parallel over levels, free of races."""

from __future__ import annotations

import numpy as np
from numba import prange

from avatar3d.jit import njit

_PRIME_Y, _PRIME_Z = 2654435761, 805459861  # definition.HASH_PRIMES; numba folds literals, not tuples of another module


@njit(inline="always")
def _corners(x, y, z, resolution, table_size):  # type: ignore[no-untyped-def]
    """Table entries and trilinear weights of the eight grid vertices around a unit position, x fastest; written out for speed."""
    one, cells = np.float32(1), np.float32(resolution)
    sx, sy, sz = x * cells, y * cells, z * cells
    cx, cy, cz = min(int(sx), resolution - 1), min(int(sy), resolution - 1), min(int(sz), resolution - 1)
    fx, fy, fz = sx - np.float32(cx), sy - np.float32(cy), sz - np.float32(cz)
    gx, gy, gz = one - fx, one - fy, one - fz
    near, far = gy * gz, gy * fz
    near_up, far_up = fy * gz, fy * fz
    weights = (gx * near, fx * near, gx * near_up, fx * near_up, gx * far, fx * far, gx * far_up, fx * far_up)
    side = resolution + 1
    if side * side * side <= table_size:
        e = cx + side * (cy + side * cz)
        slice_ = side * side
        entries = (e, e + 1, e + side, e + side + 1, e + slice_, e + slice_ + 1, e + slice_ + side, e + slice_ + side + 1)
        return entries, weights
    x1, mask = cx + 1, table_size - 1
    y0, z0 = cy * _PRIME_Y, cz * _PRIME_Z
    y1, z1 = y0 + _PRIME_Y, z0 + _PRIME_Z
    entries = (
        (cx ^ y0 ^ z0) & mask, (x1 ^ y0 ^ z0) & mask, (cx ^ y1 ^ z0) & mask, (x1 ^ y1 ^ z0) & mask,
        (cx ^ y0 ^ z1) & mask, (x1 ^ y0 ^ z1) & mask, (cx ^ y1 ^ z1) & mask, (x1 ^ y1 ^ z1) & mask,
    )  # fmt: skip
    return entries, weights


# Not fastmath: with parallel loops numba's code then rounds otherwise in the process that compiles it than once it is loaded.
@njit(parallel=True)
def encode_forward(unit: np.ndarray, tables: np.ndarray, resolutions: np.ndarray, out: np.ndarray) -> None:
    """Fill `out` (N, L·F) f32 from unit positions (N, 3) f32 in [0, 1], tables (L, T, F) f32 and resolutions (L,) i64."""
    levels, table_size, features = tables.shape
    for i in prange(unit.shape[0]):
        for level in range(levels):
            e, w = _corners(unit[i, 0], unit[i, 1], unit[i, 2], resolutions[level], table_size)
            t = tables[level]
            for f in range(features):
                near = w[0] * t[e[0], f] + w[1] * t[e[1], f] + w[2] * t[e[2], f] + w[3] * t[e[3], f]
                far = w[4] * t[e[4], f] + w[5] * t[e[5], f] + w[6] * t[e[6], f] + w[7] * t[e[7], f]
                out[i, level * features + f] = near + far


@njit(parallel=True, fastmath=True)
def encode_backward(unit: np.ndarray, gradient: np.ndarray, resolutions: np.ndarray, table_gradient: np.ndarray) -> None:
    """Fill `table_gradient` (L, T, F) f32 with the scatter of `gradient` (N, L·F) f32; each level belongs to one thread."""
    levels, table_size, features = table_gradient.shape
    for level in prange(levels):
        t = table_gradient[level]
        t[:] = 0.0
        for i in range(unit.shape[0]):
            e, w = _corners(unit[i, 0], unit[i, 1], unit[i, 2], resolutions[level], table_size)
            for f in range(features):
                g = gradient[i, level * features + f]
                for corner in range(8):
                    t[e[corner], f] += w[corner] * g


@njit(fastmath=True)
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
