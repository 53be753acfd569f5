"""What an avatar looks like at one motion code: posed geometry, shade and attributes; the one definition both renderers draw.

Light, linear colour (Ramamoorthi and Hanrahan 2001, second-order irradiance):
shade(n) = clip(B(n) @ light, 0.12, 3) ** shading_power for each vertex, n in the world,
B(n) = [1, x, y, z, xy, yz, 3z² − 1, xz, x² − y²].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from avatar3d.avatar import (
    PART_CLOTHES,
    PART_EYE,
    PART_GLASSES,
    PART_LASH,
    PART_LENS,
    PART_MOUTH,
    PART_SKIN,
    PART_TEETH,
    PART_TONGUE,
    Avatar,
    HairShells,
)
from avatar3d.color import LUMA_BT709
from avatar3d.geometry import smooth_normals
from avatar3d.head.rig import head_transform, pose_vertices
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.culling.backface import corner_planes

MIN_IRRADIANCE, MAX_IRRADIANCE = 0.12, 3.0  # no point of a lit room is black, none is blown out
MAX_DELTAS = 4  # texture deltas drawn at once; the strongest ones
# Strength and exponent of the gloss (Blinn-Phong lobe) by part: wet eyes sharp, teeth and tongue dull, the rest none.
GLOSS_BY_PART = {
    PART_EYE: (1.0, 800.0), PART_TEETH: (0.25, 60.0), PART_TONGUE: (0.06, 40.0), PART_MOUTH: (0.05, 30.0),
    PART_GLASSES: (0.25, 60.0), PART_LENS: (0.8, 200.0),
}  # fmt: skip
NO_GLOSS = (0.0, 30.0)  # the exponent is the mouth's, so that it stays even across the lip line
# A photo rarely tells the key light well: the estimate is pulled toward where portrait light mostly comes from.
USUAL_LIGHT_DIRECTION = np.array([-0.3, 0.5, 0.8]) / np.linalg.norm([-0.3, 0.5, 0.8])
USUAL_LIGHT_PULL = 0.5  # against the degree-1 part of the irradiance relative to its mean
BACK_FACE_SHADE = 0.55  # the inside of hair is darker than its outside
HAIR_CUT = 0.5  # the opaque hair level is cut where its opacity is lower
MIN_ALPHA = 1 / 255  # head fragments fainter than this are left out, so that they hide nothing
UP_FOR_TANGENT = np.array([0.0, 1.0, 0.01])  # not parallel to any normal of a face


def light_basis(normals: np.ndarray) -> np.ndarray:
    """(..., 9) basis B(n) of unit normals (..., 3)."""
    x, y, z = np.moveaxis(normals, -1, 0)
    return np.stack([np.ones_like(x), x, y, z, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y], axis=-1)


def shade_of(normals: np.ndarray, light: np.ndarray, shading_power: float) -> np.ndarray:
    """(..., 3) f32 shade of unit world normals (..., 3) under `light` (9, 3)."""
    irradiance = light_basis(np.asarray(normals, np.float32)) @ np.asarray(light, np.float32)
    return np.clip(irradiance, MIN_IRRADIANCE, MAX_IRRADIANCE) ** np.float32(shading_power)


def light_direction(light: np.ndarray) -> np.ndarray:
    """(3,) unit vector toward the dominant light of `light` (9, 3), pulled toward USUAL_LIGHT_DIRECTION."""
    luminance = np.asarray(light, np.float64) @ LUMA_BT709
    direction = luminance[1:4] / max(abs(luminance[0]), 1e-6) + USUAL_LIGHT_PULL * USUAL_LIGHT_DIRECTION
    length = np.linalg.norm(direction)
    return direction / length if length > 1e-6 else USUAL_LIGHT_DIRECTION


@dataclass(frozen=True)
class Adjacency:
    """Which faces meet at each welded vertex, sorted, so that sums over them are one pass.

    corners: (3, F) vertex of each corner. meeting: faces by the vertex they meet at. starts: where each vertex's begin.
    owner: (V,) which of those sums a vertex takes, −1 where no face meets.
    """

    corners: np.ndarray
    meeting: np.ndarray
    starts: np.ndarray
    owner: np.ndarray

    @classmethod
    def of(cls, faces: np.ndarray, weld: np.ndarray) -> Adjacency:
        """For faces (F, 3) over vertices with weld (V,), the first vertex at the same place."""
        corners = np.ascontiguousarray(np.asarray(faces, np.int64).T)
        welded = weld[corners].ravel()
        order = np.argsort(welded, kind="stable")
        starts = np.flatnonzero(np.diff(welded[order], prepend=-1))
        sum_of = np.full(len(weld), -1)
        sum_of[welded[order][starts]] = np.arange(len(starts))
        return cls(corners, order % max(len(faces), 1), starts, sum_of[weld])


def vertex_normals(planes: np.ndarray, adjacency: Adjacency) -> np.ndarray:
    """(V, 3) f32 area-weighted unit normals, shared by welded vertices, from the planes of their faces; +Z without area."""
    normals = np.zeros((3, len(adjacency.starts) + 1), np.float32)  # the last sum, of no face, is of index −1
    if len(adjacency.starts):
        np.add.reduceat(planes[:3].take(adjacency.meeting, axis=1), adjacency.starts, axis=1, out=normals[:, :-1])
    length = np.sqrt((normals * normals).sum(0))
    flat = length <= 1e-20
    normals /= np.where(flat, 1, length)
    normals[:, flat] = [[0], [0], [1]]
    return np.ascontiguousarray(normals.take(adjacency.owner, axis=1).T)


def view_directions(positions: np.ndarray, normals: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """(..., 3) f32 direction to the eye (3,) in the local frame (tangent, bitangent, normal) of world positions and normals."""
    # Written out by components: several times as fast as numpy's cross products and norms of short rows.
    x, y, z = np.moveaxis(np.asarray(eye, np.float32) - positions, -1, 0)
    length = np.sqrt(x * x + y * y + z * z)
    x, y, z = x / length, y / length, z / length
    up = UP_FOR_TANGENT.astype(np.float32)
    nx, ny, nz = np.moveaxis(normals, -1, 0)
    tx, ty, tz = up[1] * nz - up[2] * ny, up[2] * nx - up[0] * nz, up[0] * ny - up[1] * nx
    length = np.maximum(np.sqrt(tx * tx + ty * ty + tz * tz), np.float32(1e-6))
    tx, ty, tz = tx / length, ty / length, tz / length
    bx, by, bz = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
    local = [x * tx + y * ty + z * tz, x * bx + y * by + z * bz, x * nx + y * ny + z * nz]
    return np.stack(local, axis=-1).astype(np.float32)


@dataclass(frozen=True)
class Layout:
    """What does not move with the motion code.

    faces: (F, 3) i32 of the head in drawing order: [front-facing skin and clothes, other front-facing parts, lashes, faded]; the three
    counts are `skin_count`, `part_count`, `lash_count`, the rest fades (a vertex alpha below one) and is blended over.
    order: (F,) index into avatar.faces. gloss: (V, 2) f32 strength and exponent. hair_normals: (N, 3) f32 head frame.
    adjacency: of avatar.faces.
    """

    faces: np.ndarray
    order: np.ndarray
    skin_count: int
    part_count: int
    lash_count: int
    vertex_part: np.ndarray
    gloss: np.ndarray
    hair_normals: np.ndarray | None
    adjacency: Adjacency

    @property
    def two_sided(self) -> np.ndarray:
        """(F,) bool, lashes: seen from both sides."""
        flags = np.zeros(len(self.faces), bool)
        first = self.skin_count + self.part_count
        flags[first : first + self.lash_count] = True
        return flags

    @property
    def opaque_count(self) -> int:
        """Number of faces that do not fade."""
        return self.skin_count + self.part_count + self.lash_count


def layout_of(avatar: Avatar) -> Layout:
    """The drawing order and fixed attributes of an avatar."""
    vertex_part = avatar.vertex_part
    faded = (avatar.vertex_alpha[avatar.faces] < 1).any(axis=1)
    dull = np.isin(avatar.part, (PART_SKIN, PART_CLOTHES))
    group = np.where(dull, 0, np.where(avatar.part == PART_LASH, 2, 1))
    group = np.where(faded, 3, group)
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=4)
    table = np.array([GLOSS_BY_PART.get(part, NO_GLOSS) for part in range(256)], np.float32)
    hair = avatar.hair
    return Layout(
        faces=np.ascontiguousarray(avatar.faces[order], dtype=np.int32),
        order=order,
        skin_count=int(counts[0]),
        part_count=int(counts[1]),
        lash_count=int(counts[2]),
        vertex_part=vertex_part,
        gloss=table[vertex_part],
        hair_normals=None if hair is None else smooth_normals(hair.base, hair.faces, hair.weld),
        adjacency=Adjacency.of(avatar.faces, avatar.weld),
    )


@dataclass(frozen=True)
class PosedHair:
    """Hair follows the head rigidly: world = rotation @ p + translation. resting_normals: (N, 3) f32 in the head frame.

    normals, shade: (N, 3) f32, world, for every level; made when they are asked for.
    """

    shells: HairShells
    rotation: np.ndarray
    translation: np.ndarray
    resting_normals: np.ndarray
    light: np.ndarray
    shading_power: float

    @cached_property
    def normals(self) -> np.ndarray:
        return (self.resting_normals @ self.rotation.T).astype(np.float32)

    @cached_property
    def shade(self) -> np.ndarray:
        return shade_of(self.normals, self.light, self.shading_power)

    def canonical(self, level: int) -> np.ndarray:
        """(N, 3) f32 places of one level in the head frame."""
        return self.shells.base + self.shells.levels[level] * self.shells.extent

    def vertices(self, level: int) -> np.ndarray:
        """(N, 3) f32 places of one level in the world."""
        return (self.canonical(level) @ self.rotation.T + self.translation).astype(np.float32)


@dataclass(frozen=True)
class Scene:
    """An avatar at one motion code.

    vertices, normals, shade: (V, 3) f32 in the world. planes: (4, F) f32 of avatar.faces, see facing.face_planes. These four are
    made when they are asked for: a GPU that morphs needs none of them. deltas: [(index into avatar.texture_deltas, activation)],
    at most MAX_DELTAS. light_direction: (3,) toward the dominant light.
    """

    avatar: Avatar
    motion: MotionCode
    layout: Layout
    light_direction: np.ndarray
    deltas: list[tuple[int, float]]
    hair: PosedHair | None

    @cached_property
    def vertices(self) -> np.ndarray:
        avatar, part = self.avatar, self.layout.vertex_part
        return pose_vertices(avatar.vertices, avatar.expression, self.motion, avatar.head_weight, avatar.joints, part)

    @cached_property
    def planes(self) -> np.ndarray:
        return corner_planes(self.vertices, self.layout.adjacency.corners)

    @cached_property
    def normals(self) -> np.ndarray:
        return vertex_normals(self.planes, self.layout.adjacency)

    @cached_property
    def shade(self) -> np.ndarray:
        return shade_of(self.normals, self.avatar.light, self.avatar.shading_power)

    def active_deltas(self) -> Iterator[tuple[np.ndarray, float]]:
        """(log ratio (h, w, 3), activation) of each drawn texture delta."""
        for index, activation in self.deltas:
            yield self.avatar.texture_deltas[index].log_ratio, activation


def active_deltas(avatar: Avatar, weights: np.ndarray) -> list[tuple[int, float]]:
    """The MAX_DELTAS strongest texture deltas at (52,) weights, in the avatar's order: [(index, activation > 0)]."""
    activations = np.array([delta.activation(weights) for delta in avatar.texture_deltas])
    strongest = np.argsort(-activations, kind="stable")[:MAX_DELTAS]
    return [(int(index), float(activations[index])) for index in sorted(strongest) if activations[index] > 0]


def build_scene(avatar: Avatar, motion: MotionCode, layout: Layout | None = None) -> Scene:
    """Pose and light an avatar; pass the avatar's own `layout_of` where many frames are drawn."""
    layout = layout or layout_of(avatar)
    hair = None
    if avatar.hair is not None and layout.hair_normals is not None:
        rotation, translation = head_transform(motion, avatar.joints)
        hair = PosedHair(avatar.hair, rotation, translation, layout.hair_normals, avatar.light, avatar.shading_power)
    return Scene(
        avatar=avatar,
        motion=motion,
        layout=layout,
        light_direction=light_direction(avatar.light),
        deltas=active_deltas(avatar, motion.weights),
        hair=hair,
    )
