"""Fewer triangles for one surface: vertices are merged into neighbours where that moves it little; arrays only, knows no avatar.

Garland and Heckbert 1998, "Simplifying surfaces with color and texture using quadric error metrics": a vertex is a point of n
numbers, place and attributes, and remembers the planes (through n dimensions) of all faces that were merged into it. Merging
goes onto vertices that are there already, many at a time that do not touch each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAX_ROUNDS = 60  # of merging; half of a head's faces take about twenty
SHARES = (0.5, 1.0)  # of the tolerance, one after another: what costs little goes first
MIN_TURN_COS = 0.5  # a face may turn by no more than 60° when one corner moves
MIN_THINNESS = 0.02  # twice a face's area over the square of its longest edge: no needles


@dataclass
class Quadrics:
    """Sums of squared distances to planes: for a point x (n,) of vertex k, x·a[k]·x + 2 b[k]·x + c[k] over weight[k]."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, faces: np.ndarray) -> Quadrics:
        """Of the faces (F, 3) that meet at each point (V, n), weighted by area.

        An open border is remembered as the lines along it, weighted by the squares of their lengths.
        """
        count, size = points.shape
        first, second, third = (points[faces[:, corner]] for corner in range(3))
        along = _unit(second - first)
        across = third - first
        across = _unit(across - (across * along).sum(1, keepdims=True) * along)
        edge_a, edge_b = (second - first)[:, :3], (third - first)[:, :3]
        area = np.linalg.norm(np.cross(edge_a, edge_b), axis=1)
        p_along, p_across = (first * along).sum(1), (first * across).sum(1)
        rows, columns = np.triu_indices(size)  # the matrices are symmetric
        upper = (rows == columns) - along[:, rows] * along[:, columns] - across[:, rows] * across[:, columns]
        b = p_along[:, None] * along + p_across[:, None] * across - first
        c = (first * first).sum(1) - p_along**2 - p_across**2
        of_faces = np.concatenate([upper, b, c[:, None], np.ones((len(faces), 1))], axis=1) * area[:, None]
        border = _border(faces, count)
        start, end = points[border[:, 0]], points[border[:, 1]]
        line = _unit(end - start)
        upper = (rows == columns) - line[:, rows] * line[:, columns]
        at = (start * line).sum(1)
        parts = [upper, at[:, None] * line - start, ((start * start).sum(1) - at**2)[:, None], np.ones((len(border), 1))]
        of_lines = np.concatenate(parts, axis=1) * np.square(end - start)[:, :3].sum(1)[:, None]
        numbers = np.concatenate([of_faces, of_lines])
        owner = np.concatenate([faces.T.ravel(), border.T.ravel()])
        source = np.concatenate([np.tile(np.arange(len(faces)), 3), np.tile(len(faces) + np.arange(len(border)), 2)])
        order = np.argsort(owner, kind="stable")
        starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
        sums = np.zeros((count, numbers.shape[1]))
        sums[owner[order][starts]] = np.add.reduceat(numbers[source[order]], starts, axis=0)
        a = np.empty((count, size, size))
        a[:, rows, columns] = a[:, columns, rows] = sums[:, : len(rows)]
        return cls(a, sums[:, len(rows) : -2].copy(), sums[:, -2].copy(), sums[:, -1].copy())

    def errors(self, gone: np.ndarray, stays: np.ndarray, points: np.ndarray) -> np.ndarray:
        """(E,) mean squared distance of points[stays] (E,) to the planes of both `gone` and `stays`."""
        total = np.zeros(len(gone))
        x = points[stays]
        for owner in (gone, stays):
            total += np.einsum("ei,eij,ej->e", x, self.a[owner], x, optimize=True)
            total += 2 * np.einsum("ei,ei->e", x, self.b[owner]) + self.c[owner]
        return np.maximum(total, 0) / np.maximum(self.weight[gone] + self.weight[stays], 1e-30)

    def merge(self, gone: np.ndarray, stays: np.ndarray) -> None:
        """Let vertices `stays` remember what `gone` do; no vertex is named twice."""
        for values in (self.a, self.b, self.c, self.weight):
            values[stays] += values[gone]


class Mesh:
    """A surface that becomes coarser. points: (V, n) f64 place and attributes in metres. faces: (F, 3). locked: (V,) bool stay.

    What is left: `faces` (F', 3) over the same points, `number` (F',) which of the first faces each was, `into` (V,) the vertex
    that each is merged into.
    """

    def __init__(self, points: np.ndarray, faces: np.ndarray, locked: np.ndarray) -> None:
        self.points = np.asarray(points, np.float64) - np.mean(points, axis=0)
        self.faces = np.array(faces, np.int64)
        self.number = np.arange(len(faces))
        self.into = np.arange(len(points))
        self._locked = locked
        self._rng = np.random.default_rng(0)
        self._quadrics = Quadrics.of(self.points, self.faces)
        self._errors = (np.zeros(0, np.int64), np.zeros(0))  # of half-edges known, sorted by their key
        self._refused = np.zeros(0, np.int64)

    def simplify(self, tolerance: float) -> None:
        """Merge vertices while the root of the mean squared distance to all that was merged stays under `tolerance`, metres."""
        for share in SHARES:
            for _ in range(MAX_ROUNDS):
                if not self._round((share * tolerance) ** 2):
                    break
            self._refused = self._refused[:0]

    def _round(self, limit: float) -> int:
        """Merge vertices that do not touch each other; returns how many."""
        gone, stays, inner, both = self._half_edges()
        count = len(self.points)
        keys = gone * count + stays
        errors = self._known(keys, gone, stays)
        allowed = ~np.isin(keys, self._refused) & (errors <= limit)
        gone, stays, errors, keys, inner = (values[allowed] for values in (gone, stays, errors, keys, inner))
        if not len(gone):
            return 0
        best = np.full(count, np.inf)
        order = np.lexsort((errors, gone))
        first = order[np.flatnonzero(np.diff(gone[order], prepend=-1))]
        gone, stays, keys, inner = gone[first], stays[first], keys[first], inner[first]  # one a vertex, the least error
        rank = self._rng.permutation(len(gone)).astype(
            float
        )  # any order ends sooner than that of the errors, with chains of waiting
        best[gone] = rank
        around = best.copy()
        for a, b in ((0, 1), (1, 2), (2, 0)):
            ends = self.faces[:, a], self.faces[:, b]
            np.minimum.at(around, ends[0], best[ends[1]])
            np.minimum.at(around, ends[1], best[ends[0]])
        chosen = rank <= around[gone]
        gone, stays, rank, keys, inner = gone[chosen], stays[chosen], rank[chosen], keys[chosen], inner[chosen]
        nearest = np.full(count, np.inf)
        np.minimum.at(nearest, stays, rank)
        chosen = rank == nearest[stays]
        gone, stays, keys, inner = gone[chosen], stays[chosen], keys[chosen], inner[chosen]
        # Both ends may have no neighbour in common but those of the faces at their edge, or the surface would fold onto itself.
        bad = self._spoilt(gone, stays) | (self._common(gone, stays, both) != np.where(inner, 2, 1))
        self._refused = np.concatenate([self._refused, keys[bad]])
        gone, stays = gone[~bad], stays[~bad]
        target = np.arange(count)
        target[gone] = stays
        self.faces, self.into = target[self.faces], target[self.into]
        a, b, c = self.faces.T
        kept = (a != b) & (b != c) & (c != a)
        self.faces, self.number = self.faces[kept], self.number[kept]
        self._quadrics.merge(gone, stays)
        changed = np.zeros(count, bool)
        changed[gone] = changed[stays] = True
        known, values = self._errors
        fresh = ~changed[known // count] & ~changed[known % count]
        self._errors = known[fresh], values[fresh]
        return len(gone) + int(bad.sum())

    def _half_edges(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(from, to, bool whether two faces meet there) of merges: vertices of open borders go along them, locked ones nowhere.

        And sorted keys, from · V + to, of all edges both ways.
        """
        count = len(self.points)
        tails = self.faces.ravel()
        heads = np.roll(self.faces, -1, axis=1).ravel()
        low, high = np.minimum(tails, heads), np.maximum(tails, heads)
        edges, uses = _distinct(low * count + high)
        low, high = edges // count, edges % count
        both = np.concatenate([edges, high * count + low])
        order = np.argsort(both)
        both, inner = both[order], np.tile(uses == 2, 2)[order]
        gone, stays = both // count, both % count
        border = np.zeros(count, bool)
        border[gone[~inner]] = True
        fits = ~self._locked[gone] & (~border[gone] | ~inner)
        return gone[fits], stays[fits], inner[fits], both

    def _common(self, gone: np.ndarray, stays: np.ndarray, both: np.ndarray) -> np.ndarray:
        """(E,) how many neighbours each pair shares; `both`: sorted keys of all half-edges, both ways."""
        count = len(self.points)
        starts = np.searchsorted(both, np.arange(count + 1) * count)
        degree = starts[gone + 1] - starts[gone]
        pair = np.repeat(np.arange(len(gone)), degree)
        offset = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
        neighbour = both[starts[gone][pair] + offset] % count
        wanted = neighbour * count + stays[pair]
        place = np.minimum(np.searchsorted(both, wanted), len(both) - 1)
        return np.bincount(pair[both[place] == wanted], minlength=len(gone))

    def _known(self, keys: np.ndarray, gone: np.ndarray, stays: np.ndarray) -> np.ndarray:
        """(E,) errors of sorted half-edges, computed where they are not known yet."""
        known, values = self._errors
        errors = np.empty(len(keys))
        place = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        there = known[place] == keys if len(known) else np.zeros(len(keys), bool)
        errors[there] = values[place[there]] if len(known) else 0.0
        errors[~there] = self._quadrics.errors(gone[~there], stays[~there], self.points)
        self._errors = keys, errors
        return errors

    def _spoilt(self, gone: np.ndarray, stays: np.ndarray) -> np.ndarray:
        """(E,) bool: merging would turn a face around or make it a needle."""
        index = np.full(len(self.points), -1)
        index[gone] = np.arange(len(gone))
        moving = index[self.faces]
        face, corner = np.nonzero(moving >= 0)
        merge = moving[face, corner]
        corners = self.faces[face]
        stay = stays[merge]
        left = ~(corners == stay[:, None]).any(1)
        face, corner, merge, corners, stay = face[left], corner[left], merge[left], corners[left], stay[left]
        places = self.points[:, :3]
        before, after = places[corners], places[corners]
        after[np.arange(len(corner)), corner] = places[stay]
        normal_before, normal_after = (np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]) for p in (before, after))
        length_before, length_after = (np.linalg.norm(normal, axis=1) for normal in (normal_before, normal_after))
        turned = (normal_before * normal_after).sum(1) < MIN_TURN_COS * length_before * length_after
        longest = np.square(after - np.roll(after, 1, axis=1)).sum(2).max(1)
        thin = length_after < MIN_THINNESS * longest
        bad = np.zeros(len(gone), bool)
        bad[merge[turned | thin]] = True
        return bad


def _border(faces: np.ndarray, count: int) -> np.ndarray:
    """(B, 2) edges of one face."""
    tails, heads = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    edges, uses = _distinct(np.minimum(tails, heads) * count + np.maximum(tails, heads))
    alone = edges[uses == 1]
    return np.stack([alone // count, alone % count], axis=1)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sorted distinct keys, how often each is there)."""
    keys = np.sort(keys)
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.diff(starts, append=len(keys))
