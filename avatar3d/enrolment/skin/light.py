"""The photo's light on the head: second-order spherical harmonics per channel, estimated from skin that is plainly seen."""

from __future__ import annotations

import numpy as np

from avatar3d.color import LUMA_BT709
from avatar3d.enrolment.skin.projection import PhotoNodes
from avatar3d.geometry import smoothstep
from avatar3d.rendering.scene import light_basis

# The share of shading taken out of the photo: all of it (1.0) turns shadows the fit got wrong into stains; at 0.6 heads look
# better turned and are better recognised.
SHADING_POWER = 0.6
# Where one side of the face is much darker than the other, the light is no guess: nearly all of it is taken out.
LIT_POWER, CONTRASTS = 0.95, (0.2, 0.7)  # natural logs of one side's brightness over the other's between which the share rises
# A face shows half a sphere of normals. On the other half the light is held to what rooms have: much of it from everywhere,
# more from above and in front.
USUAL_LIGHT = np.array([0.86, 0.0, 0.12, 0.14, 0.0, 0.0, 0.0, 0.0, 0.0])
USUAL_SHARE = 0.12  # weight of that expectation over the sphere against all seen skin
# Second-order terms look like first-order ones on a face's half sphere, but are a third as strong under any one lamp.
SECOND_ORDER_RIDGE = 0.08
TINT_RIDGE = 0.15  # of a channel's departure from the luminance's directions, against all seen skin
PAIR_WEIGHT = 2.0  # of two mirrored places' ratio against one place's brightness: it holds whatever the skin's colour there
SPHERE_SAMPLES = 256
ROBUST_ROUNDS = 6
ROBUST_SCALE = 1.5  # robust standard deviations at which a node counts half: brows, highlights, make-up
MIN_NODES = 200  # fewer cannot tell nine numbers


def shading_power(contrast: float) -> float:
    """Share of the shading that is taken out of a photo whose two sides of the face differ by `contrast` (evenness.side_contrast)."""
    return SHADING_POWER + (LIT_POWER - SHADING_POWER) * float(smoothstep(*CONTRASTS, np.array(contrast)))


def estimate_light(nodes: PhotoNodes, mirror: np.ndarray) -> np.ndarray:
    """Light (9, 3) f32 in the basis of rendering.scene, head frame, mean 1 on the seen skin; flat when hardly any skin is seen.

    mirror: (N,) node on the other side. Iteratively reweighted least squares of linear colour over normals, and of the colour's
    ratio between mirrored nodes: their albedo is one.
    """
    light = np.zeros((9, 3))
    light[0] = 1.0
    chosen = nodes.core & (nodes.weight > 0.6)
    if chosen.sum() < MIN_NODES:
        return light.astype(np.float32)
    basis = light_basis(nodes.normals[chosen].astype(np.float64))
    colour = nodes.linear[chosen].astype(np.float64)
    colour /= np.median(colour, axis=0)
    # Mirrored places i, j of one albedo: c_i (B_j · l) = c_j (B_i · l), linear in the light l.
    row = np.full(len(chosen), -1)
    row[chosen] = np.arange(chosen.sum())
    first = np.flatnonzero(chosen & (row[mirror] >= 0) & (np.arange(len(chosen)) < mirror))
    i, j = row[first], row[mirror[first]]
    sphere = light_basis(_sphere(SPHERE_SAMPLES))
    usual = sphere.T @ sphere * (USUAL_SHARE / SPHERE_SAMPLES) + np.diag([0.0] * 4 + [SECOND_ORDER_RIDGE] * 5)

    def rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = PAIR_WEIGHT * 2 / np.maximum(values[i] + values[j], 1e-3)
        pairs = half[:, None] * (values[i, None] * basis[j] - values[j, None] * basis[i])
        return np.concatenate([basis, pairs]), np.r_[values, np.zeros(len(pairs))]

    everywhere = _robust(*rows(colour @ LUMA_BT709), usual, USUAL_LIGHT)
    for channel in range(3):
        solution = _robust(*rows(colour[:, channel]), np.eye(9) * TINT_RIDGE, everywhere)
        light[:, channel] = solution / (basis @ solution).mean()
    return light.astype(np.float32)


def _robust(basis: np.ndarray, values: np.ndarray, prior: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """(9,) coefficients of values (K,) over basis (K, 9), with precision `prior` (9, 9) about `expected`."""
    trust = np.ones(len(values))
    solution = expected
    for _ in range(ROBUST_ROUNDS):
        weighted = basis * trust[:, None]
        held = prior * trust.sum()
        solution = np.linalg.solve(weighted.T @ basis + held, weighted.T @ values + held @ expected)
        residual = values - basis @ solution
        scale = 1.48 * np.median(np.abs(residual)) + 1e-6
        trust = 1 / (1 + (residual / scale / ROBUST_SCALE) ** 2)
    return solution


def _sphere(count: int) -> np.ndarray:
    """(count, 3) even directions (Fibonacci)."""
    z = 1 - (2 * np.arange(count) + 1) / count
    turn = np.pi * (1 + np.sqrt(5)) * np.arange(count)
    flat = np.sqrt(1 - z * z)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), z], axis=1)
