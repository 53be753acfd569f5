"""Unfold a surface with one boundary into the plane with low stretch: Tutte's embedding, then SLIM; knows nothing of heads."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu


def tutte(faces: np.ndarray, count: int, boundary: np.ndarray, on_circle: np.ndarray) -> np.ndarray:
    """Places (N,2): the boundary loop at `on_circle` (B,2), every other vertex at the mean of its neighbours (Tutte 1963)."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    edges = np.unique(np.sort(edges, 1), axis=0)
    adjacency = sp.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (count, count)).tocsr()
    adjacency = adjacency + adjacency.T
    laplacian = (sp.diags(np.asarray(adjacency.sum(1)).ravel()) - adjacency).tocsr()
    place = np.zeros((count, 2))
    place[boundary] = on_circle
    inner = np.setdiff1d(np.arange(count), boundary)
    solver = splu(laplacian[inner][:, inner].tocsc())
    place[inner] = solver.solve(-(laplacian[inner][:, boundary] @ on_circle))
    return place


def local_gradients(
    vertices: np.ndarray, faces: np.ndarray, scale: np.ndarray
) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray]:
    """Operators d/dx, d/dy (F,N) in each triangle's own plane, lengths multiplied by `scale` (F,), and its scaled area."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    ab, ac = (b - a) * scale[:, None], (c - a) * scale[:, None]
    length = np.linalg.norm(ab, axis=1)
    cx = (ac * ab).sum(1) / length
    cy = np.linalg.norm(np.cross(ab, ac), axis=1) / length
    area = length * cy / 2
    # Gradients of the hat functions on the triangle (0,0), (length,0), (cx,cy).
    gx = np.stack([-1 / length, 1 / length, np.zeros_like(length)], 1)
    gy = np.stack([(cx - length) / (length * cy), -cx / (length * cy), 1 / cy], 1)
    rows = np.repeat(np.arange(len(faces)), 3)
    shape = (len(faces), len(vertices))
    return (
        sp.csr_matrix((gx.ravel(), (rows, faces.ravel())), shape),
        sp.csr_matrix((gy.ravel(), (rows, faces.ravel())), shape),
        area,
    )


def jacobians(dx: sp.csr_matrix, dy: sp.csr_matrix, place: np.ndarray) -> np.ndarray:
    """Jacobian (F,2,2) of the map from each triangle's plane to `place` (N,2)."""
    return np.stack([dx @ place, dy @ place], 2)


def symmetric_dirichlet(jacobian: np.ndarray, weight: np.ndarray) -> float:
    """Σ weight (|J|² + |J⁻¹|²); infinite when a triangle has turned over."""
    determinant = np.linalg.det(jacobian)
    if determinant.min() <= 0:
        return np.inf
    square = (jacobian**2).sum((1, 2))
    return float(weight @ (square * (1 + 1 / determinant**2)))


def slim(
    vertices: np.ndarray, faces: np.ndarray, place: np.ndarray, scale: np.ndarray, weight: np.ndarray, rounds: int
) -> np.ndarray:
    """Scalable locally injective mapping (Rabinovich et al. 2017) from a start without overturned triangles.

    scale (F,): wanted length ratio between map and surface; weight (F,): importance beside area. Returns places (N,2).
    """
    dx, dy, area = local_gradients(vertices, faces, scale)
    weight = weight * area / area.mean()
    # Start at the right size.
    start = jacobians(dx, dy, place)
    place = place / np.sqrt(np.average(np.linalg.det(start), weights=area))
    energy = symmetric_dirichlet(jacobians(dx, dy, place), weight)
    count = len(vertices)
    for _ in range(rounds):
        u, s, vt = np.linalg.svd(jacobians(dx, dy, place))
        rotation = u @ vt
        gap = s - 1.0
        safe = np.where(np.abs(gap) < 1e-6, 1.0, gap)
        proxy = np.sqrt(np.where(np.abs(gap) < 1e-6, 4.0, (s - s**-3) / safe))
        w = (u * proxy[:, None, :]) @ np.swapaxes(u, 1, 2)
        root = np.sqrt(weight)
        blocks, right = [], []
        for row in range(2):
            for operator, column in ((dx, 0), (dy, 1)):
                blocks.append([sp.diags(root * w[:, row, k]) @ operator for k in range(2)])
                right.append(root * (w[:, row, 0] * rotation[:, 0, column] + w[:, row, 1] * rotation[:, 1, column]))
        system = sp.bmat(blocks).tocsr()
        normal = (system.T @ system + 1e-8 * sp.identity(2 * count)).tocsc()
        target = splu(normal).solve(system.T @ np.concatenate(right) + 1e-8 * place.T.ravel()).reshape(2, count).T
        step, direction = 1.0, target - place
        while step > 1e-8:
            trial = place + step * direction
            trial_energy = symmetric_dirichlet(jacobians(dx, dy, trial), weight)
            if trial_energy < energy:
                break
            step *= 0.6
        else:
            break
        done = energy - trial_energy < 1e-5 * energy
        place, energy = trial, trial_energy
        if done:
            break
    return place


def boundary_loops(faces: np.ndarray) -> list[np.ndarray]:
    """Boundary loops of a triangle mesh, each in the direction of its faces, longest first."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    _, inverse, uses = np.unique(np.sort(edges, 1), axis=0, return_inverse=True, return_counts=True)
    border = edges[uses[inverse.reshape(-1)] == 1]
    following = dict(border.tolist())
    loops = []
    while following:
        start, at = following.popitem()
        loop = [start]
        while at != start:
            loop.append(at)
            at = following.pop(at)
        loops.append(np.array(loop))
    return sorted(loops, key=len, reverse=True)


def fill_loop(loop: np.ndarray, centre: int) -> np.ndarray:
    """Fan triangles (B,3) that close a boundary loop about a new vertex `centre`."""
    return np.stack([np.roll(loop, -1), loop, np.full(len(loop), centre)], 1)


def cut_open(faces: np.ndarray, path: np.ndarray, side: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Split a mesh along `path` vertices: faces with side > 0 keep them, faces with side < 0 get copies.

    The path's last vertex is its inner end and stays whole. Returns faces and the original (N + copies,) of each vertex.
    """
    copies = np.arange(count)
    copies_of = path[:-1]
    copies[copies_of] = count + np.arange(len(copies_of))
    new_faces = np.where((side < 0)[:, None], copies[faces], faces)
    return new_faces, np.r_[np.arange(count), copies_of]
