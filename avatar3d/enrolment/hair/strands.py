"""Strand-like random fields on the ray map: noise smeared along a flow of the hair, at several grain sizes."""

from __future__ import annotations

import cv2
import numpy as np

from avatar3d.enrolment.hair.grid import MAX_COLATITUDE_RAD, blur, cell_centres, enlarge, ray_directions

NOMINAL_RADIUS_M = 0.11  # of the hair's surface; sets how many texels a millimetre is
MIN_SINE = 0.04  # texels at the pole are as narrow as this far from it
TABLE = 64  # side of the table of random values that fills space periodically


def texel_m(rows: int) -> float:
    """Height of a texel on the head, metres."""
    return MAX_COLATITUDE_RAD / rows * NOMINAL_RADIUS_M


def flow_step(angle: np.ndarray) -> np.ndarray:
    """(rows, columns, 2) f32 texels (x, y) moved by a texel height along the flow; angle: (rows, columns) off the meridian."""
    rows, columns = angle.shape
    _, colatitude = cell_centres(rows, columns)
    sine = np.maximum(np.sin(colatitude), MIN_SINE)
    step_rad = MAX_COLATITUDE_RAD / rows
    across = np.sin(angle) * step_rad / sine * columns / (2 * np.pi)
    # At the pole a step across would run around it several times.
    return np.stack([np.clip(across, -columns / 16, columns / 16), np.cos(angle)], -1).astype(np.float32)


def grain(rows: int, columns: int, size_m: float, seed: int) -> np.ndarray:
    """(rows, columns) f32 noise of unit variance whose grains have one size on the head, at the pole too."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=TABLE**3).astype(np.float32)
    points = ray_directions(*cell_centres(rows, columns)).astype(np.float32) * np.float32(NOMINAL_RADIUS_M / size_m)
    # A turned lattice, so that its planes do not show as contours on the head.
    turn = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]], np.float32)
    cell = np.floor(points @ turn.T + 1000.0).astype(np.int64) % TABLE
    noise = table[(cell[..., 0] * TABLE + cell[..., 1]) * TABLE + cell[..., 2]]
    noise = cv2.GaussianBlur(noise, (0, 0), max(0.45, 0.4 * size_m / texel_m(rows)))
    return noise / noise.std()


def along(values: np.ndarray, step: np.ndarray, doublings: int) -> np.ndarray:
    """Mean of `values` (rows, columns) or (rows, columns, k) over 2**doublings steps along the flow.

    Line integral convolution (Cabral and Leedom 1993) by doubling: each pass averages two copies one path apart and
    joins the path to itself.
    """
    rows, columns = values.shape[:2]
    xs, ys = np.meshgrid(np.arange(columns, dtype=np.float32), np.arange(rows, dtype=np.float32))
    path = step.copy()
    for _ in range(doublings):
        x, y = xs + path[..., 0], np.clip(ys + path[..., 1], 0, rows - 1)
        values = 0.5 * (values + cv2.remap(values, x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_WRAP))
        path = path + cv2.remap(path, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
    return values


def smear(noise: np.ndarray, step: np.ndarray, doublings: int) -> np.ndarray:
    """Mean of (rows, columns) noise over 2**doublings steps along the flow, of unit variance everywhere."""
    rows, columns = noise.shape
    result = along(noise, step, doublings)
    # Where the flow stands still (the pole, the lower end) less is averaged away: level the variance.
    small = cv2.resize(result * result, (columns // 8, rows // 8), interpolation=cv2.INTER_AREA)
    variance = enlarge(blur(small, 4.0), rows, columns)
    return result / np.sqrt(np.maximum(variance, 1e-8))


def uniform(noise: np.ndarray, inside: np.ndarray | None = None) -> np.ndarray:
    """The same field with values spread evenly over [0, 1], as measured `inside` (H, W) bool."""
    some = noise[::3, ::3] if inside is None else noise[inside][::3]
    levels = np.quantile(some, np.linspace(0, 1, 129))
    return np.interp(noise, levels, np.linspace(0, 1, 129)).astype(np.float32)
