"""The outline of a mesh as one eye sees it: edges between a face that is seen and one that is turned away; arrays only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MAX_FINS = 8192  # a head has about a thousand; what is beyond stays hard


@dataclass(frozen=True)
class Outline:
    """Edges of a mesh. sides: (E, 2) faces on both sides of each edge, −1 past an open border.

    corners: (E, 2, 3) vertices of the edge and the one opposite, in each of the two faces.
    """

    sides: np.ndarray
    corners: np.ndarray

    @classmethod
    def of(cls, faces: np.ndarray, weld: np.ndarray) -> Outline:
        """For faces (F, 3) over vertices with weld (V,); edges of more than two faces count pair by pair."""
        count = len(faces)
        turns = np.concatenate([faces, np.roll(faces, -1, axis=1), np.roll(faces, -2, axis=1)])
        owner = np.tile(np.arange(count), 3)
        ends = np.sort(weld[turns[:, :2]], axis=1)
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        first, second = order[:-1], order[1:]
        same = (ends[first] == ends[second]).all(1)
        pairs = np.stack([first[same], second[same]], axis=1)
        alone = np.setdiff1d(order, pairs)
        sides = np.concatenate([owner[pairs], np.stack([owner[alone], np.full(len(alone), -1)], axis=1)])
        corners = np.concatenate([turns[pairs], np.repeat(turns[alone][:, None], 2, axis=1)])
        return cls(sides, corners)

    def fins(self, facing: np.ndarray) -> np.ndarray:
        """(N, 3) i32 vertices of the edges that an eye sees as outline: both ends, and the one opposite in the seen face.

        facing: (F,) bool, the faces that the eye sees from the front.
        """
        seen = np.append(facing, False)[self.sides]
        edges = np.flatnonzero(seen[:, 0] != seen[:, 1])[:MAX_FINS]
        return np.ascontiguousarray(self.corners[edges, np.where(seen[edges, 0], 0, 1)], np.int32)
