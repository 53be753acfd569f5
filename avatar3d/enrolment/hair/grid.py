"""The ray map that hair lives on: directions about the cranium's centre with the pole at the crown, and smoothing on it.

Rows are colatitudes from the pole, columns are meridians, so that columns run the way hair falls; column 0 is the back.
"""

from __future__ import annotations

import cv2
import numpy as np
import scipy.sparse as sp
from scipy.ndimage import map_coordinates
from scipy.sparse.linalg import cg

POLE_TILT_RAD = np.radians(28.0)  # the crown's whorl lies this far behind the vertical
MAX_COLATITUDE_RAD = np.radians(158.0)  # reaches under the jaw in front and down the neck behind
_POLE = np.array([0.0, np.cos(POLE_TILT_RAD), -np.sin(POLE_TILT_RAD)])
_FRONT = np.array([0.0, np.sin(POLE_TILT_RAD), np.cos(POLE_TILT_RAD)])
_MIN_SINE = 0.08  # the horizontal coupling of cells at the pole is bounded as if they were this far from it


def ray_directions(theta: np.ndarray, colatitude: np.ndarray) -> np.ndarray:
    """(..., 3) unit directions in the head frame; theta in (-π, π], 0 to the front and +π/2 to the subject's left (+X)."""
    around = np.sin(theta)[..., None] * np.array([1.0, 0.0, 0.0]) + np.cos(theta)[..., None] * _FRONT
    return np.sin(colatitude)[..., None] * around + np.cos(colatitude)[..., None] * _POLE


def ray_angles(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(theta, colatitude) of (..., 3) vectors of any length."""
    theta = np.arctan2(directions[..., 0], directions @ _FRONT)
    length = np.maximum(np.linalg.norm(directions, axis=-1), 1e-12)
    return theta, np.arccos(np.clip(directions @ _POLE / length, -1.0, 1.0))


def cell_centres(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """(theta (rows, columns), colatitude (rows, columns)) of a map's or texture's cell centres."""
    theta = ((np.arange(columns) + 0.5) / columns * 2 - 1) * np.pi
    colatitude = (np.arange(rows) + 0.5) / rows * MAX_COLATITUDE_RAD
    return tuple(np.meshgrid(theta, colatitude))


def sample(values: np.ndarray, theta: np.ndarray, colatitude: np.ndarray, order: int = 1) -> np.ndarray:
    """Values of a (rows, columns) map at angles of any shape; clamps at the pole and the lower end.

    It wraps around, as no other sampler does.
    """
    rows, columns = values.shape
    pad = 4
    wrapped = np.concatenate([values[:, -pad:], values, values[:, :pad]], 1)
    x = ((theta / np.pi + 1) / 2 % 1.0) * columns - 0.5 + pad
    y = colatitude / MAX_COLATITUDE_RAD * rows - 0.5
    return map_coordinates(wrapped, [y, x], order=order, mode="nearest", output=np.float32)


def enlarge(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A (r, c) or (r, c, k) map on a finer grid of cells, bilinear, wrapping around."""
    r, c = values.shape[:2]
    pad = 2
    wrapped = np.concatenate([values[:, -pad:], values, values[:, :pad]], 1).astype(np.float32)
    x = (np.arange(columns, dtype=np.float32) + 0.5) / columns * c - 0.5 + pad
    y = (np.arange(rows, dtype=np.float32) + 0.5) / rows * r - 0.5
    xs, ys = np.meshgrid(x, y)
    return cv2.remap(wrapped, xs, ys, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def blur(values: np.ndarray, sigma: float) -> np.ndarray:
    """Gaussian blur of a map, sigma in cells, wrapping around; mirrored at the pole and the lower end.

    Wide blurs are made on a smaller map, which they cannot be told from.
    """
    shrink = 1 << max(0, int(np.log2(max(sigma / 3.0, 1.0))))
    if shrink > 1 and min(values.shape[:2]) >= 16 * shrink:
        small = cv2.resize(values, (values.shape[1] // shrink, values.shape[0] // shrink), interpolation=cv2.INTER_AREA)
        return enlarge(blur(small, sigma / shrink), *values.shape[:2])
    pad = int(np.ceil(3.5 * sigma)) + 1
    pad = min(pad, values.shape[1])
    wrapped = np.concatenate([values[:, -pad:], values, values[:, :pad]], 1).astype(np.float32)
    return cv2.GaussianBlur(wrapped, (0, 0), sigma)[:, pad:-pad]


def mirrored(values: np.ndarray) -> np.ndarray:
    """The map of the other side of the head."""
    return values[:, ::-1]


class Harmonic:
    """Screened harmonic interpolation on a (rows, columns) map: minimises |∇f|² + weight (f - value)² + screen (f - prior)²."""

    def __init__(self, rows: int, columns: int) -> None:
        self._shape = (rows, columns)
        index = np.arange(rows * columns).reshape(rows, columns)
        sine = np.maximum(np.sin((np.arange(rows) + 0.5) / rows * MAX_COLATITUDE_RAD), _MIN_SINE)
        step_row, step_column = MAX_COLATITUDE_RAD / rows, 2 * np.pi / columns
        around = np.repeat(step_row / (sine * step_column), columns)
        along = np.repeat((sine[:-1] + sine[1:]) / 2 * step_column / step_row, columns)
        a = np.concatenate([index.ravel(), index[:-1].ravel()])
        b = np.concatenate([np.roll(index, -1, 1).ravel(), index[1:].ravel()])
        weight = np.concatenate([around, along])
        count = rows * columns
        links = sp.coo_matrix((np.r_[weight, weight], (np.r_[a, b], np.r_[b, a])), (count, count)).tocsr()
        self._laplacian = (sp.diags(np.asarray(links.sum(1)).ravel()) - links).tocsr()

    def fill(
        self,
        values: np.ndarray,
        weights: np.ndarray,
        screen: float,
        prior: np.ndarray | float,
        start: np.ndarray | None = None,
    ) -> np.ndarray:
        """(rows, columns) map from `values` where `weights` > 0, pulled to `prior`; start: a first guess."""
        weight = weights.ravel().astype(np.float64)
        target = np.broadcast_to(np.asarray(prior, np.float64), self._shape).ravel()
        system = self._laplacian + sp.diags(weight + screen)
        right = weight * values.ravel() + screen * target
        guess = target if start is None else start.ravel().astype(np.float64)
        precondition = sp.diags(1.0 / system.diagonal())
        solution, _ = cg(system, right, x0=guess, M=precondition, rtol=1e-4, maxiter=300)
        return solution.reshape(self._shape)
