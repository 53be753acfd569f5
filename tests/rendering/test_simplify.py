"""Merging vertices: fewer faces, the same surface within the tolerance, no hole and no face turned around."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.rendering.lod.simplify import Mesh

RADIUS_M = 0.1


def globe(rows: int = 40, columns: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """(V, 3) points and (F, 3) faces, counter-clockwise from outside, of a closed ball with one vertex at each pole."""
    down = np.linspace(0, np.pi, rows)[1:-1, None]
    around = np.linspace(0, 2 * np.pi, columns, endpoint=False)[None]
    ring = np.stack([np.sin(down) * np.sin(around), np.cos(down) + 0 * around, np.sin(down) * np.cos(around)], axis=-1)
    points = np.concatenate([ring.reshape(-1, 3), [[0, 1, 0], [0, -1, 0]]]) * RADIUS_M
    index = np.arange((rows - 2) * columns).reshape(rows - 2, columns)
    right = np.roll(index, -1, axis=1)
    a, b, c, d = index[:-1].ravel(), right[:-1].ravel(), right[1:].ravel(), index[1:].ravel()
    top, bottom = np.full(columns, index.size), np.full(columns, index.size + 1)
    faces = [[a, d, c], [a, c, b], [top, index[0], right[0]], [bottom, right[-1], index[-1]]]
    return points, np.concatenate([np.stack(corners, axis=1) for corners in faces])


def sheet(side: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """A flat square with an open border."""
    y, x = np.mgrid[:side, :side]
    points = np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1) * 0.01
    index = y * side + x
    a, b, c, d = index[:-1, :-1].ravel(), index[:-1, 1:].ravel(), index[1:, 1:].ravel(), index[1:, :-1].ravel()
    return points, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])


def edge_uses(faces: np.ndarray) -> np.ndarray:
    """How many faces meet at each edge."""
    edges = np.sort(np.concatenate([faces[:, :2], faces[:, 1:], faces[:, ::2]]), axis=1)
    return np.unique(edges, axis=0, return_counts=True)[1]


def normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    corners = points[faces]
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def test_a_ball_stays_closed_round_and_outside_out() -> None:
    points, faces = globe()
    mesh = Mesh(points, faces, np.zeros(len(points), bool))
    counts = []
    for tolerance in (1e-4, 5e-4, 2e-3):
        mesh.simplify(tolerance)
        counts.append(len(mesh.faces))
        assert (edge_uses(mesh.faces) == 2).all()
        middles = points[mesh.faces].mean(1)
        assert ((normals(points, mesh.faces) * middles).sum(1) > 0).all()
        assert RADIUS_M - np.linalg.norm(middles, axis=1).min() < 6 * tolerance
    assert len(faces) > counts[0] > counts[1] > counts[2]
    assert counts[1] < len(faces) / 3


def test_a_flat_sheet_keeps_its_outline_and_its_area() -> None:
    points, faces = sheet()
    mesh = Mesh(points, faces, np.zeros(len(points), bool))
    mesh.simplify(1e-5)
    area = normals(points, mesh.faces)[:, 2]
    assert len(mesh.faces) < len(faces) / 8
    assert (area > 0).all() and area.sum() == pytest.approx(normals(points, faces)[:, 2].sum(), rel=0.02)


def test_an_attribute_that_bends_keeps_faces_that_the_place_does_not_need() -> None:
    points, faces = sheet()
    bent = np.concatenate([points, 0.01 * np.sin(points[:, :1] * 60)], axis=1)
    counts = []
    for values in (points, bent):
        mesh = Mesh(values, faces, np.zeros(len(points), bool))
        mesh.simplify(3e-4)
        counts.append(len(mesh.faces))
    assert counts[1] > 2 * counts[0]


def test_locked_vertices_stay_and_all_know_where_they_went() -> None:
    points, faces = globe()
    locked = points[:, 0] > 0
    mesh = Mesh(points, faces, locked)
    mesh.simplify(2e-3)
    used = np.unique(mesh.faces)
    assert np.isin(np.flatnonzero(locked), used).all()
    assert np.isin(mesh.into, used).all() and (mesh.into[used] == used).all()
    assert (mesh.number < len(faces)).all() and len(np.unique(mesh.number)) == len(mesh.faces)
