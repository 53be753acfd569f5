"""The head's surface as enrolment colours it: a fine graph of nodes on the skin, and the atlas texels that read from it.

Nodes lie on the base triangles themselves (each cut into SPLIT² smaller ones), shared across texture seams, so that a colour
solved on them has no seam and sits exactly where the renderers put it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from avatar3d.camera import Camera
from avatar3d.field.shells import UvRaster, uv_raster
from avatar3d.head.model import MOUTH_BAG, SKIN, HeadModel
from avatar3d.jit import njit
from avatar3d.rendering.reference.raster import nearest, rasterise

SPLIT = 4  # small triangles along a base edge: nodes about 1.2 mm apart on the face
MANY_ROUNDS = 40  # of averaging, from which on fewer products of sums do the same
FAR_TOLERANCE = 1e-11  # of what is left out then: weights of 1e-5 are divided by
GUTTER_TEXELS = 8  # around every island, so that coarser texture levels stay clean


@dataclass(frozen=True)
class NodeGraph:
    """Nodes on skin and mouth bag.

    spread: (N, V) csr, node attributes from vertex attributes. faces: (M, 3) small triangles. base_faces: (B,) indices of
    the base triangles covered; local: (B, 15) node of each lattice point of a base triangle, rows of LATTICE.
    smooth: (N, N) csr, mean of the neighbours. laplacian: (N, N) csr, degree − adjacency. mirror: (N,) node on the other
    side. rest: (N, 3) metres, on the template.
    """

    spread: sp.csr_matrix
    faces: np.ndarray
    base_faces: np.ndarray
    local: np.ndarray
    smooth: sp.csr_matrix
    laplacian: sp.csr_matrix
    mirror: np.ndarray
    rest: np.ndarray

    def blurred(self, values: np.ndarray, rounds: int, weight: np.ndarray | None = None) -> np.ndarray:
        """(N, ...) values after `rounds` of neighbour averaging, of weighted values when a (N,) weight is given."""
        if weight is None and rounds < MANY_ROUNDS:
            for _ in range(rounds):
                values = 0.5 * (values + self.smooth @ values)
            return values
        if weight is None:
            return self._blurred_far(values, rounds)
        shaped = weight[:, None] + 1e-5
        columns = values.reshape(len(values), -1)
        summed = self.blurred(np.concatenate([columns * shaped, shaped], axis=1), rounds)
        return (summed[:, :-1] / summed[:, -1:]).reshape(values.shape)

    def _blurred_far(self, values: np.ndarray, rounds: int) -> np.ndarray:
        """The same in far fewer products: ((1 + S) / 2)^n in Chebyshev polynomials of S, as ((1 + cos θ) / 2)^n = cos^2n(θ / 2)
        is a short sum of cosines of k θ with binomial coefficients C(2n, n − k)."""
        shares = [math.comb(2 * rounds, rounds - k) / 4**rounds for k in range(rounds + 1)]
        count = next((k for k, share in enumerate(shares) if share < FAR_TOLERANCE), rounds + 1)
        before, last = values, self.smooth @ values
        out = shares[0] * before + 2 * shares[1] * last
        for share in shares[2:count]:
            before, last = last, 2 * (self.smooth @ last) - before
            out += 2 * share * last
        return out

    def eroded(self, values: np.ndarray, rounds: int) -> np.ndarray:
        """(N,) values, each replaced by the least among its neighbours and itself, `rounds` times."""
        for _ in range(rounds):
            least = values.copy()
            for a, b in ((0, 1), (1, 2), (2, 0)):
                np.minimum.at(least, self.faces[:, a], values[self.faces[:, b]])
                np.minimum.at(least, self.faces[:, b], values[self.faces[:, a]])
            values = least
        return values


LATTICE = np.array([(i, j, SPLIT - i - j) for i in range(SPLIT + 1) for j in range(SPLIT + 1 - i)])
_LATTICE_INDEX = np.full((SPLIT + 1, SPLIT + 1), -1)
_LATTICE_INDEX[LATTICE[:, 0], LATTICE[:, 1]] = np.arange(len(LATTICE))


def node_graph(head: HeadModel) -> NodeGraph:
    """The node graph of a head model."""
    from scipy.spatial import cKDTree

    base_faces = np.flatnonzero(np.isin(head.part, (SKIN, MOUTH_BAG)))
    corners = head.faces[base_faces]
    local = _shared_lattice(head.weld[corners].astype(np.int64), len(head.vertices))
    count = int(local.max()) + 1
    first = np.full(count, -1)
    first[local.reshape(-1)[::-1]] = np.arange(local.size)[::-1]
    face, point = np.divmod(first, len(LATTICE))
    weights = LATTICE[point] / SPLIT
    spread = sp.csr_matrix(
        (weights.ravel(), (np.repeat(np.arange(count), 3), corners[face].ravel())), (count, len(head.vertices))
    )
    spread.eliminate_zeros()
    small = local[:, _small_triangles()].reshape(-1, 3)
    ends = np.concatenate([small[:, [0, 1]], small[:, [1, 2]], small[:, [2, 0]]])
    low, high = np.sort(ends, axis=1).T
    edges = np.unique(low * count + high)
    a, b = edges // count, edges % count
    adjacency = sp.csr_matrix((np.ones(2 * len(a)), (np.r_[a, b], np.r_[b, a])), (count, count))
    degree = np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1)
    rest = spread @ head.vertices.astype(np.float64)
    mirror = cKDTree(rest).query(rest * (-1, 1, 1))[1]
    return NodeGraph(
        spread=spread, faces=small, base_faces=base_faces, local=local, smooth=sp.diags(1 / degree) @ adjacency,
        laplacian=(sp.diags(degree) - adjacency).tocsr(), mirror=mirror, rest=rest,
    )  # fmt: skip


def _small_triangles() -> np.ndarray:
    """(SPLIT², 3) lattice indices of the small triangles, turned as the base triangle is."""
    out = []
    at = _LATTICE_INDEX
    for i in range(SPLIT):
        for j in range(SPLIT - i):
            out.append((at[i + 1, j], at[i, j + 1], at[i, j]))
            if i + j < SPLIT - 1:
                out.append((at[i, j + 1], at[i + 1, j], at[i + 1, j + 1]))
    return np.array(out)


def _shared_lattice(corners: np.ndarray, vertex_count: int) -> np.ndarray:
    """(B, 15) one number for each lattice point of faces (B, 3) of welded vertices, equal where two faces share the point."""
    faces = len(corners)
    key = np.empty((faces, len(LATTICE)), np.int64)
    edge_base = vertex_count
    inner_base = edge_base + vertex_count * vertex_count * SPLIT
    inner = 0
    for index, weights in enumerate(LATTICE):
        used = np.flatnonzero(weights)
        if len(used) == 1:
            key[:, index] = corners[:, used[0]]
        elif len(used) == 2:
            a, b = corners[:, used[0]], corners[:, used[1]]
            step = np.where(a < b, weights[used[0]], weights[used[1]])
            key[:, index] = edge_base + (np.minimum(a, b) * vertex_count + np.maximum(a, b)) * SPLIT + step
        else:
            key[:, index] = inner_base + np.arange(faces) * len(LATTICE) + inner
            inner += 1
    return np.unique(key, return_inverse=True)[1].reshape(faces, len(LATTICE))


@dataclass(frozen=True)
class Atlas:
    """Texels of a (size, size) atlas. raster: all parts. on_graph: (R,) bool, raster rows that read the node graph.

    from_nodes: (R', N) csr, their values from node values, R' = on_graph.sum(), in the raster's order.
    """

    size: int
    raster: UvRaster
    on_graph: np.ndarray
    from_nodes: sp.csr_matrix


def atlas(head: HeadModel, graph: NodeGraph, size: int) -> Atlas:
    """The atlas of a head model at one size, reading from its node graph."""
    raster = uv_raster(head.faces, head.uv, (size, size), GUTTER_TEXELS)
    row_of_face = np.full(len(head.faces), -1)
    row_of_face[graph.base_faces] = np.arange(len(graph.base_faces))
    row = row_of_face[raster.triangle]
    on_graph = row >= 0
    nodes, weights = _lattice_weights(raster.barycentric[on_graph], graph.local, row[on_graph])
    count = int(on_graph.sum())
    matrix = sp.csr_matrix((weights.ravel(), nodes.ravel(), np.arange(0, 3 * count + 1, 3)), (count, graph.spread.shape[0]))
    return Atlas(size, raster, on_graph, matrix)


def _lattice_weights(barycentric: np.ndarray, local: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The three nodes (R, 3) i32 around each barycentric place (R, 3) and their weights (R, 3), nodes from `row` (R,) of `local`."""
    nodes, weights = np.empty((len(row), 3), np.int32), np.empty((len(row), 3))
    _look_up_lattice(barycentric, local, row, _LATTICE_INDEX, nodes, weights)
    return nodes, weights


@njit()
def _look_up_lattice(barycentric, local, row, index, nodes, weights):  # type: ignore[no-untyped-def]
    part, cell, place = np.empty(3), np.empty(3, np.int64), np.empty(3)
    split = index.shape[0] - 1
    for r in range(len(row)):
        for k in range(3):
            place[k] = min(max(barycentric[r, k], 0.0), 1.0)
        total = place[0] + place[1] + place[2]
        for k in range(3):
            place[k] = place[k] / total * (split - 1e-4)
            cell[k] = int(place[k])
            part[k] = place[k] - cell[k]
        part[2] = np.round(part[0] + part[1] + part[2]) - part[0] - part[1]
        upright = np.round(part[0] + part[1] + part[2]) < 1.5
        for corner in range(3):
            # Corners of the small triangle in the lattice's first two coordinates: (1, 0), (0, 1), (0, 0), or turned over.
            i = cell[0] + ((1 if corner == 0 else 0) if upright else (0 if corner == 0 else 1))
            j = cell[1] + ((1 if corner == 1 else 0) if upright else (0 if corner == 1 else 1))
            nodes[r, corner] = local[row[r], max(index[min(max(i, 0), split), min(max(j, 0), split)], 0)]
            weight = part[corner] if upright else 1 - part[corner]
            weights[r, corner] = min(max(weight, 0.0), 1.0)


def depth_map(vertices: np.ndarray, faces: np.ndarray, camera: Camera) -> np.ndarray:
    """(H, W) f32 depth along the axis, metres, of the nearest triangle at each pixel's centre; inf where there is none."""
    drawn = nearest(rasterise(vertices, faces, camera, np.ones(len(faces), bool)))
    depth = np.full(camera.height * camera.width, np.inf, np.float32)
    depth[drawn.pixel] = drawn.depth
    return depth.reshape(camera.height, camera.width)
