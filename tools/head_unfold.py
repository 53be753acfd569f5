"""The default head's atlas: the outer skin unfolded into the plane, rectangles for the rest."""

from __future__ import annotations

import numpy as np
from atlas import boundary_loops, cut_open, fill_loop, slim, tutte

from avatar3d.geometry import smoothstep

CUT_END_Z_M = -0.075  # the texture's seam runs up the back of the head to here, about the crown
# Wanted length ratio of map to surface; the face is 1.
SCALE_SCALP, SCALE_NECK, SCALE_BUST, SCALE_EAR = 0.28, 0.36, 0.18, 0.80
SLIM_ROUNDS, FACE_IMPORTANCE = 60, 3.0


def unfold_main(points: np.ndarray, faces: np.ndarray, mirror: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unfold the outer skin, cut open along the back of the head; symmetric about u = 0.

    Returns faces over the cut vertices (F,3), the point (N,) each stands for, and map places (N,2), u toward +X, v down.
    """
    middle = np.abs(points[:, 0]) < 1e-7
    loops = boundary_loops(faces)
    bottom = max(loops, key=lambda loop: np.ptp(points[loop, 0]))
    start = min((k for k in bottom.tolist() if middle[k]), key=lambda k: points[k, 2])
    neighbours: dict[int, set[int]] = {}
    for face in faces.tolist():
        for k in range(3):
            a, b = face[k], face[(k + 1) % 3]
            if middle[a] and middle[b]:
                neighbours.setdefault(a, set()).add(b)
                neighbours.setdefault(b, set()).add(a)
    path = [start]
    while points[path[-1], 2] < CUT_END_Z_M or points[path[-1], 1] < 0:
        onward = [k for k in neighbours[path[-1]] if k not in path]
        path.append(max(onward, key=lambda k: points[k, 1] + points[k, 2]))
    side = points[faces][..., 0].mean(1)
    cut_faces, stands_for = cut_open(faces, np.array(path), side, len(points))
    count = len(stands_for)
    holes = [loop for loop in boundary_loops(cut_faces) if path[-1] not in loop]
    outer = next(loop for loop in boundary_loops(cut_faces) if path[-1] in loop)
    filled, places = [cut_faces], [points[stands_for]]
    for number, loop in enumerate(holes):
        filled.append(fill_loop(loop, count + number))
        places.append(points[stands_for[loop]].mean(0)[None])
    every_face, every_point = np.vstack(filled), np.vstack(places)

    outer = np.roll(outer, -int(np.flatnonzero(outer == path[-1])[0]))
    step = np.linalg.norm(np.diff(every_point[np.r_[outer, outer[0]]], axis=0), axis=1)
    angle = np.pi / 2 + 2 * np.pi * np.r_[0, np.cumsum(step)[:-1]] / step.sum()
    start_map = tutte(every_face, len(every_point), outer, np.stack([np.cos(angle), np.sin(angle)], 1))
    scale = map_scale(every_point)[every_face].mean(1)
    # Where the map cannot keep the wanted scale everywhere, face and ears keep it.
    weight = 1.0 + FACE_IMPORTANCE * smoothstep(0.3, 0.9, scale)
    weight[len(cut_faces) :] = 1e-3
    flat = slim(every_point, every_face, start_map, scale, weight, SLIM_ROUNDS)[:count]

    partner = np.arange(count)
    partner[: len(points)] = mirror
    copies = np.arange(len(points), count)
    partner[copies], partner[stands_for[copies]] = stands_for[copies], copies
    flat = (flat + flat[partner] * [-1, 1]) / 2
    return cut_faces, stands_for, flat * [1, -1]


def map_scale(points: np.ndarray) -> np.ndarray:
    """Wanted length ratio (N,) of map to surface at points of the template, head frame."""
    x, y, z = np.abs(points[:, 0]), points[:, 1], points[:, 2]
    face = smoothstep(-0.065, -0.015, z) * smoothstep(-0.135, -0.118, y) * (1 - smoothstep(0.075, 0.105, y))
    scale = SCALE_SCALP + (SCALE_NECK - SCALE_SCALP) * (1 - smoothstep(-0.12, -0.08, y))
    scale += (SCALE_BUST - scale) * (1 - smoothstep(-0.21, -0.17, y))
    ear = bump(points, (0.080, -0.008, -0.09), (0.02, 0.04, 0.03)) * (x > 0.062)
    scale = np.maximum(scale, SCALE_EAR * ear)
    return scale + (1 - scale) * face


# Rectangles (u0, v0, u1, v1) of the atlas, v down: the outer skin and, in the corners and the strip below it, the rest.
ATLAS = {
    "main": (0.004, 0.004, 0.996, 0.898),
    "eye_right": (0.004, 0.004, 0.154, 0.154),
    "eye_left": (0.846, 0.004, 0.996, 0.154),
    "crowns_upper": (0.004, 0.905, 0.304, 0.950),
    "crowns_lower": (0.004, 0.955, 0.304, 0.996),
    "gum_upper": (0.310, 0.930, 0.560, 0.960),
    "gum_lower": (0.310, 0.966, 0.560, 0.996),
    "tongue": (0.570, 0.915, 0.640, 0.996),
    "mouth": (0.650, 0.905, 0.760, 0.996),
    "socket_right": (0.770, 0.950, 0.815, 0.996),
    "socket_left": (0.820, 0.950, 0.865, 0.996),
    "cap": (0.875, 0.930, 0.955, 0.996),
    "lashes": (0.965, 0.960, 0.996, 0.996),
}


def fit_rectangle(uv: np.ndarray, rectangle: tuple[float, float, float, float], keep_aspect: bool = True) -> np.ndarray:
    """Scale and centre local coordinates (N,2) into an atlas rectangle."""
    low, high = uv.min(0), uv.max(0)
    size = np.array([rectangle[2] - rectangle[0], rectangle[3] - rectangle[1]])
    scale = size / np.maximum(high - low, 1e-9)
    if keep_aspect:
        scale = np.full(2, scale.min())
    middle = np.array([rectangle[0] + rectangle[2], rectangle[1] + rectangle[3]]) / 2
    return (uv - (low + high) / 2) * scale + middle


def bump(points: np.ndarray, centre: tuple[float, float, float], radii: tuple[float, float, float]) -> np.ndarray:
    """1 inside an ellipsoid about ±centre, 0 outside 1.6 radii; symmetric in x."""
    d = np.linalg.norm((np.c_[np.abs(points[:, 0]), points[:, 1:]] - centre) / radii, axis=1)
    return 1.0 - smoothstep(0.9, 1.6, d)
