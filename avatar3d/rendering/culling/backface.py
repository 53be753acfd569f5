"""Which faces an eye may see from the front: planes of faces and the test against them, so that the rest is never sent; arrays only."""

from __future__ import annotations

import numpy as np

from avatar3d.camera import Camera

# Twice the area that a face may show on the screen and yet count as seen from both sides, square pixels: drivers round corners to
# parts of a pixel before they cull, which turns small faces around. The driver culls the few that are too many.
EDGE_ON_PX2 = 0.25


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


def edge_on_m3(camera: Camera, farthest_m: float) -> float:
    """Height, as `heights` has it, under which a face no farther than `farthest_m` shows less than EDGE_ON_PX2 to a camera.

    Twice a face's area on the screen is its height times both focal lengths over the product of its corners' depths.
    """
    return float(EDGE_ON_PX2 * farthest_m**3 / (camera.intrinsics[0, 0] * camera.intrinsics[1, 1]))
