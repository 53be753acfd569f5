"""The hair's programs and its index buffer, which holds the faces that the eyes drawn last may see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from avatar3d.avatar import HairShells
from avatar3d.rendering.culling.backface import face_planes, heights
from avatar3d.rendering.culling.screen_region import may_show
from avatar3d.rendering.opengl.avatar.buffers import refill
from avatar3d.rendering.opengl.avatar.face_order import Range, any_of, index_ranges
from avatar3d.rendering.opengl.avatar.program import Program, vector_bytes


class HairPart(NamedTuple):
    """Faces (n, 3) i32 of one level that one program draws."""

    level: int
    faces: np.ndarray
    program: Program


@dataclass
class HairPrograms:
    """The programs of the hair, for the faces of each of its parts.

    parts: [base's uncut, base's cut, levels 1 to K − 1], for the live form each by SOURCES; the first `base` are of the base.
    indices: a buffer for the faces. ranges: (first, count) of indices: of those parts seen from the front, then of the base's seen
    from the back.
    """

    shells: HairShells
    parts: list[HairPart]
    base: int
    indices: Any
    ranges: list[Range] = field(default_factory=list)

    def __post_init__(self) -> None:
        shells = self.shells
        groups = [part.faces for part in self.parts]
        self._faces = np.concatenate(groups)
        self._ends = np.cumsum([len(group) for group in groups])
        planes = [face_planes(shells.base + shells.levels[part.level] * shells.extent, part.faces) for part in self.parts]
        self._planes = np.concatenate(planes, axis=1)
        self._level_values = [
            {
                "level_offset": vector_bytes(offset),
                "level_layer": vector_bytes(level),
                "level_occlusion": vector_bytes(occlusion),
            }
            for level, (offset, occlusion) in enumerate(zip(shells.levels, shells.occlusion, strict=True))
        ]

    @property
    def programs(self) -> list[Program]:
        """Each once, though several parts share one."""
        return list({id(part.program): part.program for part in self.parts}.values())

    def send(self, eyes: Sequence[np.ndarray], edge_on: Sequence[float], codes: Sequence[np.ndarray] | None = None) -> None:
        """Send the faces that any of the eyes (3,) in the resting head's frame may see, and note their ranges.

        edge_on: of each eye, the height under which a face counts as seen from both sides (backface.edge_on_m3). codes: outcodes
        of each level's vertices, to leave out what shows nowhere.
        """
        above = [heights(self._planes, eye) for eye in eyes]
        base = self._ends[self.base - 1]
        front = any_of([each > -margin for each, margin in zip(above, edge_on, strict=True)])
        back = any_of([each[:base] < margin for each, margin in zip(above, edge_on, strict=True)])
        if codes is not None:
            shown = np.concatenate([may_show(codes[part.level], part.faces.T) for part in self.parts])
            front, back = front & shown, back & shown[:base]
        front, back = np.flatnonzero(front), np.flatnonzero(back)
        self.ranges = [*index_ranges(front, self._ends), *index_ranges(back, self._ends[: self.base], len(front))]
        refill(self.indices, self._faces.take(np.concatenate([front, back]), axis=0))

    def drawn(self, which: str) -> Iterator[tuple[Program, dict[str, bytes], int, int]]:
        """(program, its level's values, first, count) of what holds any face, of "front" or "back" of the base, or the "outer"
        levels."""
        ends = {"front": (0, self.base, 0), "back": (0, self.base, len(self.parts)), "outer": (self.base, len(self.parts), 0)}
        begin, end, offset = ends[which]
        for index in range(begin, end):
            first, count = self.ranges[index + offset]
            if count:
                part = self.parts[index]
                yield part.program, self._level_values[part.level], first, count
