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

    def fins(self, facing: np.ndarray, planes: np.ndarray, vertices: np.ndarray) -> np.ndarray:
        """(N, 3) i32 vertices of the edges that an eye sees as outline: both ends, and the one opposite in the seen face.

        facing: (F,) bool, the faces that the eye sees from the front. planes: (4, F) of the faces. vertices: (V, 3).
        """
        seen = np.append(facing, False).take(self.sides, mode="wrap")  # −1 is the last, which is not seen
        edges = np.flatnonzero(seen[:, 0] != seen[:, 1])
        near = 1 - seen[edges, 0].astype(np.intp)
        # In a hollow the other face rises before the seen one's edge, and what is inside of it hides that from the eye.
        beyond = vertices.take(self.corners[edges, 1 - near, 2], axis=0)
        plane = planes.take(self.sides[edges, near], axis=1)
        height = np.einsum("ae,ea->e", plane[:3], beyond) + plane[3]
        kept = np.flatnonzero((height <= 0) | (self.sides[edges, 1] < 0))[:MAX_FINS]
        return np.ascontiguousarray(self.corners[edges[kept], near[kept]], np.int32)


# Of each vertex of a strip: both ends of the edge with their normals, the corner opposite, and of its own end what strips() gives.
STRIP_LAYOUT = "3f 3f 3f 3f 3f 3f 3f 2f 1f 1f"
STRIP_NAMES = (
    "position_a", "normal_a", "position_b", "normal_b", "opposite", "shade", "canonical", "uv", "field_weight", "row",
)  # fmt: skip
STRIP_FLOATS = 25
STRIP_VERTICES, STRIP_TRIANGLES = 4, (0, 1, 2, 2, 1, 3)  # inner ends, outer ends


def strips(fins: np.ndarray, dynamic: np.ndarray, static: np.ndarray) -> np.ndarray:
    """(4 · N, STRIP_FLOATS) f32 of fins (N, 3).

    dynamic: (V, 9) place, normal, shade. static: (V, 9) canonical place, uv, alpha, field weight, and more.
    """
    out = np.empty((len(fins), 2, 2, STRIP_FLOATS), np.float32)
    ends = dynamic.take(fins, axis=0)
    out[..., 0:6] = ends[:, 0, None, None, :6]
    out[..., 6:12] = ends[:, 1, None, None, :6]
    out[..., 12:15] = ends[:, 2, None, None, :3]
    out[..., 15:18] = ends[:, None, :2, 6:]
    resting = static.take(fins[:, :2], axis=0)
    out[..., 18:23] = resting[:, None, :, :5]
    out[..., 23] = resting[:, None, :, 6]
    out[..., 24] = fins[:, None, :2]
    return out.reshape(-1, STRIP_FLOATS)
