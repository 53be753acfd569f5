"""The field at fixed places: what depends on neither view nor motion is computed once, the rest for many of both at a time."""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import FieldParams
from avatar3d.field.definition import HARMONICS, bound, spherical_harmonics, unit_positions

MEAN_DIRECTIONS = 12  # that a bake's mean over the views is taken over
_CHUNK = 4096  # places evaluated at a time: the buffers stay in the cache
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


def cosine_directions(count: int) -> np.ndarray:
    """(count, 3) f32 unit directions over the hemisphere +z with density cos(θ)/π, on a golden-angle spiral."""
    index = np.arange(count) + 0.5
    radius, angle = np.sqrt(index / count), index * _GOLDEN_ANGLE
    z = np.sqrt(np.maximum(1 - radius**2, 0))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1).astype(np.float32)


def encode_quickly(params: FieldParams, positions: np.ndarray) -> np.ndarray:
    """definition.encode by the compiled kernels."""
    from avatar3d.field.kernels import encode_forward

    levels, _, features = params.tables.shape
    out = np.empty((len(positions), levels * features), np.float32)
    tables, cells = np.ascontiguousarray(params.tables, np.float32), np.ascontiguousarray(params.resolutions, np.int64)
    encode_forward(unit_positions(params, positions), tables, cells, out)
    return out


class FieldAt:
    """A field at positions (N, 3) metres in the neutral head."""

    def __init__(self, params: FieldParams, positions: np.ndarray) -> None:
        encoded = encode_quickly(params, positions)
        self.count, self._params = len(positions), params
        self._grid = encoded.shape[1]
        self._static = encoded @ params.weights[0][:, : self._grid].T + params.biases[0]
        self._scale = np.array([params.color_bound] * 3 + [params.alpha_bound], np.float32)

    def _shifts(self, motion: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """(D, H) f32 what directions and motion add to the hidden layer, before its rectifier."""
        first = self._params.weights[0]
        harmonics = spherical_harmonics(directions).astype(np.float32)
        shifts = harmonics @ first[:, self._grid : self._grid + HARMONICS].T
        return shifts + first[:, self._grid + HARMONICS :] @ np.asarray(motion, np.float32)

    def _views(self, part: slice, motion: np.ndarray, directions: np.ndarray) -> np.ndarray:
        static = self._static[part]
        values = np.empty((len(directions), len(static), 4), np.float32)
        for index, shift in enumerate(self._shifts(motion, directions)):
            value = static + shift
            for weight, bias in zip(self._params.weights[1:], self._params.biases[1:], strict=True):
                value = np.maximum(value, 0) @ weight.T + bias
            values[index] = bound(value) * self._scale
        return values

    def _parts(self) -> list[slice]:
        return [slice(start, start + _CHUNK) for start in range(0, self.count, _CHUNK)]

    def views(self, motion: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """(D, N, 4) f32 residual and opacity change seen from directions (D, 3), local frame, at a projected motion (M,)."""
        parts = [self._views(part, motion, directions) for part in self._parts()]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(directions), 0, 4), np.float32)

    def mean(self, motion: np.ndarray, count: int) -> np.ndarray:
        """(N, 4) f32 mean of residual and opacity change over `count` cosine-weighted directions."""
        directions = cosine_directions(count)
        out = np.empty((self.count, 4), np.float32)
        if len(self._params.weights) == 2:
            from avatar3d.field.loops import mean_over_views

            shifts = self._shifts(motion, directions)
            mean_over_views(self._static, shifts, self._params.weights[1], self._params.biases[1], self._scale, out)
            return out
        for part in self._parts():
            out[part] = self._views(part, motion, directions).mean(0)
        return out


class FieldBetween:
    """What textures have to hold of a field at places on faces: its mean less what the corners' means, interpolated, give of it."""

    def __init__(self, places: FieldAt, corners: FieldAt, faces: np.ndarray, barycentric: np.ndarray) -> None:
        """places: (N). corners: the field at vertices (V). faces: (N, 3) vertices of each place's face. barycentric: (N, 3)."""
        self._places, self._corners, self._faces, self._barycentric = places, corners, faces, barycentric

    def mean(self, motion: np.ndarray, count: int) -> np.ndarray:
        """(N, 4) f32, colours less the corners', opacity change whole, over `count` cosine-weighted directions."""
        mean, corners = self._places.mean(motion, count), self._corners.mean(motion, count)[:, :3]
        for corner in range(3):
            mean[:, :3] -= corners[self._faces[:, corner]] * self._barycentric[:, corner, None]
        return mean
