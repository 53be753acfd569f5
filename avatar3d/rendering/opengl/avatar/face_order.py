"""The order in which a head's faces are drawn, in groups that differ by their program; and ranges of indices. Arrays only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.rendering.culling.bounds import face_bounds
from avatar3d.rendering.lod.field_source import SOURCES
from avatar3d.rendering.scene import Layout

# Head faces in drawing order; "reached" are those on which a texture delta shows.
GROUPS = ("skin", "skin reached", "parts", "parts reached", "lashes", "faded", "faded skin")
FADED = ("faded", "faded skin")
MIN_LOG_RATIO = 1e-3  # a texture delta that stays under a tenth of a percent over a face is not sampled there
CURVE_CELLS = 1024  # along an axis of the head

Range = tuple[int, int]  # first, count


@dataclass(frozen=True)
class FaceOrder:
    """A head's faces in drawing order: by GROUPS, within each by SOURCES, within those along a curve.

    order: (F,) index into avatar.faces. faces: (F, 3) i32, corners: (3, F) the same. ends: where each source of each group ends.
    faded_has_gloss: whether any fading face has. parts_have_field: whether the field acts on any part that is no skin.
    """

    order: np.ndarray
    faces: np.ndarray
    corners: np.ndarray
    ends: np.ndarray
    faded_has_gloss: bool
    parts_have_field: bool

    @classmethod
    def of(cls, avatar: Avatar, layout: Layout, source: np.ndarray | None = None) -> FaceOrder:
        """source: (F,) of avatar.faces, index into SOURCES, where the live form evaluates the field; the first for all by default."""
        reached = np.zeros(len(layout.faces), bool)
        for delta in avatar.texture_deltas:
            _, greatest = face_bounds(np.abs(delta.log_ratio).max(2), avatar.uv, layout.faces)
            reached |= greatest >= MIN_LOG_RATIO
        counts = (layout.skin_count, layout.part_count, layout.lash_count)
        kind = np.repeat([0, 2, 4, 5], [*counts, len(reached) - sum(counts)])
        fields = (avatar.field_weight[layout.faces] > 0).any(1)
        group = kind + np.where(kind < 4, reached, (kind == 5) & (fields | reached))
        of_skin = np.zeros(len(group), int)
        if source is not None:
            of_skin[kind == 0] = source[layout.order[kind == 0]]
        part = len(SOURCES) * group + of_skin
        nearby = _along_curve(avatar.vertices[layout.faces].mean(1))
        order = layout.order[np.lexsort((nearby, part))]
        faces = np.ascontiguousarray(avatar.faces[order], np.int32)
        return cls(
            order=order,
            faces=faces,
            corners=np.ascontiguousarray(faces.T),
            ends=np.cumsum(np.bincount(part, minlength=len(SOURCES) * len(GROUPS))),
            faded_has_gloss=bool(layout.gloss[layout.faces[kind == 5], 0].any()),
            parts_have_field=bool((fields & (kind > 0) & (kind < 5)).any()),
        )

    @property
    def lashes(self) -> slice:
        """Of the order."""
        first = len(SOURCES) * GROUPS.index("lashes")
        return slice(self.ends[first - 1], self.ends[first + len(SOURCES) - 1])

    def groups_of(self, drawn: np.ndarray) -> dict[str, list[Range]]:
        """Indices of each group, by source, in a buffer of `drawn` faces, ascending in the order."""
        ranges, each = index_ranges(drawn, self.ends), len(SOURCES)
        return {name: ranges[each * group : each * (group + 1)] for group, name in enumerate(GROUPS)}


def whole_range(ranges: Sequence[Range]) -> Range:
    """Of ranges that follow each other."""
    return ranges[0][0], sum(count for _, count in ranges)


def index_ranges(chosen: np.ndarray, ends: np.ndarray, skipped: int = 0) -> list[Range]:
    """Of indices of each part in a buffer of the `chosen` faces, ascending, behind as many `skipped` ones."""
    bounds = 3 * (skipped + np.concatenate([[0], np.searchsorted(chosen, ends)]))
    return [(int(first), int(last - first)) for first, last in pairwise(bounds)]


def nearest_first(vertices: np.ndarray, faces: np.ndarray, eyes: Sequence[np.ndarray]) -> np.ndarray:
    """(F,) order of faces (F, 3) by the distance of their first corner from the middle of the eyes: faces here are small."""
    away = vertices.take(faces[:, 0], axis=0) - np.mean(eyes, axis=0).astype(np.float32)
    return np.argsort(np.einsum("fa,fa->f", away, away))


def any_of(flags: Sequence[np.ndarray]) -> np.ndarray:
    """Where any of some flags is set."""
    return flags[0] if len(flags) == 1 else np.logical_or.reduce(flags)


def _along_curve(points: np.ndarray) -> np.ndarray:
    """(N,) i64 places of points (N, 3) along a Morton curve: neighbours share vertices, which a driver then places fewer times."""
    low = points.min(0)
    cells = ((points - low) / max(float(np.ptp(points, axis=0).max()), 1e-9) * (CURVE_CELLS - 1)).astype(np.int64)
    bits = np.arange(CURVE_CELLS.bit_length() - 1)
    return ((cells[..., None] >> bits & 1) << (3 * bits + np.arange(3)[:, None])).sum((1, 2))
