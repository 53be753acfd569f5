"""Normals, unit vectors, soft steps, bilinear and random samples: what several parts compute alike; numpy only."""

from __future__ import annotations

import numpy as np


def smooth_normals(vertices: np.ndarray, faces: np.ndarray, weld: np.ndarray) -> np.ndarray:
    """(V, 3) f32 unit normals, weighted by area and equal over welded vertices; +Z where a vertex has no area.

    vertices (V, 3) metres; faces (F, 3) counter-clockwise; weld (V,) first vertex at the same place.
    """
    corner = vertices[faces].astype(np.float64)
    area = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    welded = weld[faces]
    total = np.empty((len(vertices), 3))
    for axis in range(3):
        weights = np.repeat(area[:, axis], 3)
        total[:, axis] = np.bincount(welded.ravel(), weights=weights, minlength=len(vertices))
    normal = total[weld]
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return np.where(length > 1e-20, normal / np.maximum(length, 1e-20), [0.0, 0.0, 1.0]).astype(np.float32)


def unit(vectors: np.ndarray) -> np.ndarray:
    """(..., k) vectors of length one; a vector of no length stays as it is."""
    length = np.sqrt(np.einsum("...k,...k->...", vectors, vectors))  # several times as fast as numpy's norm of short rows
    return vectors / np.maximum(length, 1e-9)[..., None]


def smoothstep(low: float | np.ndarray, high: float | np.ndarray, values: np.ndarray) -> np.ndarray:
    """0 below `low`, 1 above `high`, cubic between."""
    share = np.clip((values - low) / (high - low), 0, 1)
    return share * share * (3 - 2 * share)


def sample_bilinear(image: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """(..., C) or (...) values of an (H, W, C) or (H, W) image at (..., 2) pixels, clamped at the border.

    Exact in the coordinates, where common image libraries round them to 1/32 pixel.
    """
    height, width = image.shape[:2]
    # fmax and fmin also bring a NaN, which belongs to no pixel, into the image.
    x = np.fmin(np.fmax(pixels[..., 0] - 0.5, 0), width - 1)
    y = np.fmin(np.fmax(pixels[..., 1] - 0.5, 0), height - 1)
    column = np.minimum(x.astype(np.int32), max(width - 2, 0))
    row = np.minimum(y.astype(np.int32), max(height - 2, 0))
    fx, fy = (x - column).astype(np.float32), (y - row).astype(np.float32)
    if image.ndim == 3:
        fx, fy = fx[..., None], fy[..., None]
    flat = image.reshape(height * width, *image.shape[2:])
    first = row * width + column
    right, down = min(1, width - 1), width if height > 1 else 0
    top = flat[first] * (1 - fx) + flat[first + right] * fx
    bottom = flat[first + down] * (1 - fx) + flat[first + down + right] * fx
    return top * (1 - fy) + bottom * fy


def random_points(
    vertices: np.ndarray, faces: np.ndarray, weight: np.ndarray | float, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`count` random points of a mesh as (face (count,), barycentric (count, 3) f32), by area × weight (F,)."""
    corners = vertices[faces]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) * weight + 1e-20
    chosen = rng.choice(len(faces), count, p=area / area.sum())
    root, along = np.sqrt(rng.random((count, 1))), rng.random((count, 1))
    return chosen, np.concatenate([1 - root, root * (1 - along), root * along], axis=1).astype(np.float32)
