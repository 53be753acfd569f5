"""Where the live form evaluates an avatar's field: chosen once for the skin, and once for each number of hair levels. No GL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.field.bake import shells_of
from avatar3d.geometry import smooth_normals
from avatar3d.rendering.culling.bounds import face_bounds
from avatar3d.rendering.lod.field_source import SOURCES, FieldSources, LitVertices, choose_sources
from avatar3d.rendering.scene import HAIR_CUT, Layout, shade_of

CONTENT_SHARE = 0.75  # of the fading faces, that their common source of the field suffices for


class LiveField:
    """The field sources of an avatar's surfaces, chosen at the first use.

    skin: of the head, None before a live variant was asked for; its one `source` is of avatar.faces.
    """

    def __init__(self, avatar: Avatar, layout: Layout) -> None:
        self._avatar, self._layout = avatar, layout
        self.skin: FieldSources | None = None
        self._hair: dict[int | None, FieldSources] = {}

    def choose(self, drawn: Avatar, hair_levels: int | None) -> None:
        """Choose for the skin, and for the hair levels of the avatar as a variant draws it."""
        assert drawn.neural_field is not None
        skin, *hair = shells_of(drawn)
        own = self._avatar
        if self.skin is None:
            normals = smooth_normals(own.vertices, own.faces, own.weld)
            found = choose_sources(drawn.neural_field, [skin], self._lit(normals, own.field_weight, own.vertex_alpha))
            source = np.zeros(len(own.faces), np.uint8)
            source[(own.field_weight[own.faces] > 0).any(1)] = found.source[0]
            self.skin = replace(found, source=[source])
        if hair and hair_levels not in self._hair:
            resting = self._layout.hair_normals
            assert resting is not None
            even = np.ones(len(resting), np.float32)
            self._hair[hair_levels] = choose_sources(drawn.neural_field, hair, self._lit(resting, even, even))

    def hair(self, hair_levels: int | None) -> FieldSources | None:
        """Of so many hair levels; None without hair, or where none was chosen."""
        return self._hair.get(hair_levels)

    def faded_source(self) -> str:
        """Of the fading faces, one for all: they are drawn by their distance."""
        assert self.skin is not None
        fading = self.skin.source[0][self._layout.order[self._layout.opaque_count :]]
        return SOURCES[int(np.quantile(fading, CONTENT_SHARE, method="higher"))] if len(fading) else SOURCES[0]

    def _lit(self, normals: np.ndarray, weight: np.ndarray, alpha: np.ndarray) -> LitVertices:
        return LitVertices(normals, shade_of(normals, self._avatar.light, self._avatar.shading_power), weight, alpha)


def live_hair_faces(avatar: Avatar, sources: FieldSources) -> list[np.ndarray]:
    """The hair faces of HairPrograms' parts, (n, 3) i32 each: the field may uncover any of the blended levels' faces. What is cut
    is evaluated at its pixels."""
    hair, field = avatar.hair, avatar.neural_field
    assert hair is not None and field is not None
    faces = np.ascontiguousarray(hair.faces, np.int32)
    low, high = face_bounds(hair.opacity[0] / np.float32(255), hair.uv, faces)
    solid = low - field.alpha_bound >= HAIR_CUT
    cut = ~solid & (high + field.alpha_bound >= HAIR_CUT)
    numbers = range(len(SOURCES))
    groups = [faces[solid & (sources.source[0] == number)] for number in numbers]
    groups += [faces[cut & (number == len(SOURCES) - 1)] for number in numbers]
    for source_of_face in sources.source[1:]:
        groups += [faces[source_of_face == number] for number in numbers]
    return groups
