"""How open each vertex of a head lies: the share of the sky it sees, for the shadow in ears, nostrils and folds."""

from __future__ import annotations

import numpy as np

from avatar3d.camera import Camera
from avatar3d.enrolment.skin.surface import depth_map
from avatar3d.head.model import LASHES, HeadModel

DIRECTIONS = 40
PICTURE = 192  # pixels a side of each look: 2 mm of the head
DISTANCE_M = 4.0  # far enough that the looks are nearly parallel
VIEW_M = 0.42  # covered by a look
BIAS_M = 0.003


def openness(vertices: np.ndarray, head: HeadModel) -> np.ndarray:
    """(V,) in [0, 1]: cosine-weighted share of directions above the surface from which the vertex is seen.

    vertices: (V, 3) metres. Directions from below count half: rooms are darker there.
    """
    normals = head.normals(vertices)
    faces = head.faces[head.part != LASHES]
    seen = np.zeros(len(vertices))
    total = np.full(len(vertices), 1e-6)
    points = vertices.astype(np.float64)
    middle = points[head.regions["face"] > 0.5].mean(0) - (0, 0, 0.06)
    for index in range(DIRECTIONS):
        height = 1 - (2 * index + 1) / DIRECTIONS
        turn = np.pi * (1 + np.sqrt(5)) * index
        camera = Camera.orbit(turn, float(np.arcsin(height)), DISTANCE_M, PICTURE, PICTURE, VIEW_M, middle)
        away = (camera.center - middle) / DISTANCE_M
        weight = np.clip(normals @ away, 0, None) * (0.75 + 0.25 * height)
        pixels, depth = camera.project(points + normals * BIAS_M)
        surface = depth_map(points, faces, camera)
        column, row = np.clip(pixels.astype(int), 0, PICTURE - 1).T
        seen += weight * (depth < surface[row, column] + BIAS_M)
        total += weight
    return seen / total
