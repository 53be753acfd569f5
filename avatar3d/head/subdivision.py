"""Loop subdivision (Loop 1987) of a head's surfaces across texture seams, as one matrix that makes the fine vertices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

    from avatar3d.head.model import HeadModel


@dataclass(frozen=True)
class Subdivision:
    """A finer surface: `matrix` (N,V) csr makes its vertices from the model's; faces, uv, part and weld as in HeadModel."""

    matrix: sp.csr_matrix
    faces: np.ndarray
    uv: np.ndarray
    part: np.ndarray
    weld: np.ndarray


def subdivide(model: HeadModel, levels: int, parts: tuple[int, ...]) -> Subdivision:
    """The faces of the chosen parts after `levels` steps; every vertex of theirs comes along."""
    import scipy.sparse as sp

    chosen = np.isin(model.part, parts)
    used, inverse = np.unique(model.faces[chosen], return_inverse=True)
    faces = inverse.reshape(-1, 3)
    matrix = sp.csr_matrix((np.ones(len(used)), (np.arange(len(used)), used)), (len(used), len(model.vertices)))
    uv, part = model.uv[used].astype(np.float64), model.part[chosen]
    _, weld = np.unique(model.weld[used], return_inverse=True)
    first = np.full(weld.max() + 1, len(used))
    np.minimum.at(first, weld, np.arange(len(used)))
    weld = first[weld]
    for _ in range(levels):
        step, split, faces, weld = _loop_step(faces, weld)
        matrix = (step @ matrix).tocsr()
        uv = split @ uv
        part = np.tile(part, 4)
    return Subdivision(matrix, faces, uv.astype(np.float32), part, weld)


def _loop_step(faces: np.ndarray, weld: np.ndarray) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray, np.ndarray]:
    """One step: smooth rule over welded vertices, midpoint rule for texture, new faces, new weld."""
    import scipy.sparse as sp

    count = len(weld)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    low, high = np.sort(edges, 1).T
    unique, which = np.unique(low.astype(np.int64) * count + high, return_inverse=True)
    a, b = unique // count, unique % count
    middle = count + np.arange(len(unique))
    split = sp.csr_matrix(
        (
            np.r_[np.ones(count), np.full(2 * len(unique), 0.5)],
            (np.r_[np.arange(count), np.repeat(middle, 2)], np.r_[np.arange(count), np.stack([a, b], 1).ravel()]),
        ),
        (count + len(unique), count),
    )
    # Welded edges: every copy of an edge shares its opposite corners.
    wf = weld[faces]
    wa, wb = np.sort(weld[np.stack([a, b], 1)], 1).T
    welded, edge_of = np.unique(wa.astype(np.int64) * count + wb, return_inverse=True)
    ea, eb = welded // count, welded % count
    opposite = np.concatenate([wf[:, 2], wf[:, 0], wf[:, 1]])
    face_edge = edge_of[which]
    uses = np.bincount(face_edge, minlength=len(welded))
    border = uses != 2
    rows = np.arange(len(welded))
    end_weight = np.where(border, 0.5, 0.375)
    opposite_weight = np.where(border[face_edge], 0.0, 0.125)
    edge_rule = sp.csr_matrix(
        (np.r_[end_weight, end_weight, opposite_weight], (np.r_[rows, rows, face_edge], np.r_[ea, eb, opposite])),
        (len(welded), count),
    )
    adjacency = sp.csr_matrix((np.ones(2 * len(ea)), (np.r_[ea, eb], np.r_[eb, ea])), (count, count))
    along = sp.csr_matrix(
        (np.ones(2 * border.sum()), (np.r_[ea[border], eb[border]], np.r_[eb[border], ea[border]])), (count, count)
    )
    valence = np.asarray(adjacency.sum(1)).ravel()
    border_valence = np.asarray(along.sum(1)).ravel()
    on_border = border_valence > 0
    beta = np.where(valence == 3, 3 / 16, 3 / (8 * np.maximum(valence, 1)))
    smooth = sp.diags(np.where(on_border, 0.75, 1 - valence * beta)) + sp.diags(np.where(on_border, 0, beta)) @ adjacency
    smooth = smooth + sp.diags(np.where(on_border, 0.25 / np.maximum(border_valence, 1), 0)) @ along
    step = sp.vstack([smooth.tocsr()[weld], edge_rule[edge_of]]).tocsr()
    m = (which + count).reshape(3, -1)
    f = faces.T
    new_faces = np.concatenate(
        [np.stack(t, 1) for t in ((f[0], m[0], m[2]), (f[1], m[1], m[0]), (f[2], m[2], m[1]), (m[0], m[1], m[2]))]
    )
    first = np.full(len(welded), count + len(unique))
    np.minimum.at(first, edge_of, middle)
    return step, split, new_faces, np.r_[weld, first[edge_of]]
