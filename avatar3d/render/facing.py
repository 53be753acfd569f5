"""Which faces an eye may see from the front: planes of faces and the test against them, so that the rest is never sent; arrays only."""

from __future__ import annotations

import numpy as np

# Faces this near to edge-on count as both, cubic metres (twice the area times the eye's height over the plane): rounding of
# numbers must not open a seam, and the driver culls the few that are too many.
EDGE_ON_M3 = 1e-9


def face_planes(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """(4, F) f32 of faces (F, 3) over (V, 3) vertices: normal of twice the area's length, and minus its product with a corner."""
    return corner_planes(vertices, np.ascontiguousarray(faces.T))


def corner_planes(vertices: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """`face_planes` of corners (3, F)."""
    places = np.ascontiguousarray(vertices.T, np.float32)
    a, b, c = (places.take(corner, axis=1) for corner in corners)
    b -= a
    c -= a
    planes = np.empty((4, corners.shape[1]), np.float32)
    for axis in range(3):
        following, last = (axis + 1) % 3, (axis + 2) % 3
        np.multiply(b[following], c[last], out=planes[axis])
        planes[axis] -= b[last] * c[following]
    np.einsum("af,af->f", planes[:3], a, out=planes[3])
    np.negative(planes[3], out=planes[3])
    return planes


def heights(planes: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """(F,) f32 height of an eye (3,) over (4, F) planes, times twice the area, m³: positive where the front is seen."""
    return np.append(np.asarray(eye, np.float32), np.float32(1)) @ planes
