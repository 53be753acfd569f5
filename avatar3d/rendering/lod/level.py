"""Levels of detail (LODs): an avatar as coarse as a picture shows it, with fewer faces and smaller textures, which any renderer draws.

A picture of `d` pixels a metre needs no texture of much more than `d` texels a metre: what lies between is skipped, and flickers
when the head turns. And it shows nothing of a surface that moves by a fraction of a pixel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import floor, log2

import numpy as np

from avatar3d.avatar import PART_CLOTHES, PART_EYE, Avatar
from avatar3d.camera import Camera
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.geometry import smooth_normals
from avatar3d.head.rig import head_transform
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.lod.simplify import Mesh

COARSEST_LOD = 4  # coarser ones than the avatar itself: with its own textures, and these halved once to three times
SHARP = 1 / 3  # of an octave by which a texture's texels may be larger than pixels before the finer one is taken
SLANT = 2**0.5  # surfaces lie aslant: half of a ball is seen on half of its area
HOLD = 0.15  # of a LOD that a head goes farther away than where it is drawn coarser, so that it does not flicker between two
ERROR_PX = 2 / 3  # root of the mean squared error of a merged surface with all that follows, at the finest that a LOD is drawn
MIN_SIDE = 64  # texels of a texture that is halved no further
NORMAL_M = 0.003  # a change of normals by a radian is as bad as a surface moved so far
EYE_FRONT = 0.3  # cosine from straight ahead within which eyes keep every vertex: their highlights are small and looked at
SLIP = 0.4  # a texel on which the texture slips is as bad as so many texels that the surface moves
COVER_M = 0.002  # as is one of the coverage from nothing to all
MODES = 3  # of all expressions: merged surfaces move as the fine one does
MODE_M = 0.01  # as far as the strongest move of a mode
SMALL_M = 1e-9
LEAST_TEXELS = 1.0  # a metre, of an avatar that shows a single point of its texture


def texels_per_metre(avatar: Avatar) -> float:
    """Of the base colour, as finely as it is seen on surfaces that lie aslant."""
    size = np.array(avatar.base_color.shape[1::-1])
    faces = avatar.faces[avatar.part < PART_CLOTHES]  # what is worn has coarser texels, and is looked at less
    corners, places = (avatar.uv * size)[faces], avatar.vertices[faces]
    in_texels = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    in_metres = np.linalg.norm(np.cross(places[:, 1] - places[:, 0], places[:, 2] - places[:, 0]), axis=1)
    return max(SLANT * float(np.sqrt(np.abs(in_texels).sum() / max(in_metres.sum(), SMALL_M))), LEAST_TEXELS)


class LodChain:
    """An avatar's levels of detail (LODs), made at the first use of one: 0 is the avatar itself, the last is COARSEST_LOD."""

    def __init__(self, avatar: Avatar) -> None:
        self._avatars = [avatar]
        self._more = coarser_lods(avatar)

    def __getitem__(self, lod: int) -> Avatar:
        while len(self._avatars) <= lod:
            self._avatars.append(next(self._more))
        return self._avatars[lod]

    @cached_property
    def _texels_per_metre(self) -> float:
        return texels_per_metre(self._avatars[0])

    def wanted(self, options: RenderOptions, motion: MotionCode, cameras: Sequence[Camera], before: int | None = None) -> int:
        """The LOD that cameras ask for; of several the nearest counts. before: what was drawn last, kept on a near thing."""
        if options.detail == "full":
            return 0
        place = head_transform(motion, self._avatars[0].joints)[1]
        depths = [max(float(camera.rotation[2] @ place + camera.translation[2]), camera.near_m) for camera in cameras]
        focal_px = [options.supersample * max(camera.intrinsics[0, 0], camera.intrinsics[1, 1]) for camera in cameras]
        pixels = max(focal / depth for focal, depth in zip(focal_px, depths, strict=True))  # a metre
        wanted = 1 + SHARP + log2(self._texels_per_metre / pixels)
        if before is not None and before <= wanted < before + 1 + HOLD:
            return before
        return min(max(floor(wanted), 0), COARSEST_LOD)


def coarser_lods(avatar: Avatar) -> Iterator[Avatar]:
    """LODs 1 to COARSEST_LOD of an avatar. Landmarks go where their vertices were merged to; the rest is as it was."""
    members = np.bincount(avatar.weld, minlength=len(avatar.vertices))[avatar.weld]
    normals = smooth_normals(avatar.vertices, avatar.faces, avatar.weld)
    looked_at = (avatar.vertex_part == PART_EYE) & (normals[:, 2] > EYE_FRONT)
    mesh = Mesh(_points(avatar, normals), avatar.faces, (members > 1) | looked_at)  # merging one side of a seam would open it
    density = texels_per_metre(avatar)
    for lod in range(1, COARSEST_LOD + 1):
        mesh.simplify(ERROR_PX * 2 ** (lod - 1 - SHARP) / density)
        yield _textured(_merged(avatar, mesh), lod - 1)


def _points(avatar: Avatar, normals: np.ndarray) -> np.ndarray:
    """(V, n) f64 of each vertex, with normals (V, 3), what tells a merged surface from the fine one, in metres."""
    vertices = avatar.vertices.astype(np.float64)
    moves = avatar.expression.reshape(len(avatar.expression), -1).astype(np.float64)
    modes = (np.linalg.eigh(moves @ moves.T)[1][:, -MODES:].T @ moves).reshape(MODES, *vertices.shape)
    modes *= MODE_M / np.maximum(np.abs(modes).max((1, 2), keepdims=True), SMALL_M)
    texels = avatar.uv * (np.array(avatar.base_color.shape[1::-1]) * SLIP / texels_per_metre(avatar))
    return np.concatenate([vertices, NORMAL_M * normals, texels, COVER_M * avatar.vertex_alpha[:, None], *modes], axis=1)


def _merged(avatar: Avatar, mesh: Mesh) -> Avatar:
    """The avatar with a mesh's faces and the vertices that they use."""
    used = np.unique(mesh.faces)
    index = np.zeros(len(avatar.vertices), np.int32)
    index[used] = np.arange(len(used))
    _, first, welded = np.unique(avatar.weld[used], return_index=True, return_inverse=True)
    return replace(
        avatar,
        vertices=avatar.vertices[used],
        uv=avatar.uv[used],
        head_weight=avatar.head_weight[used],
        vertex_alpha=avatar.vertex_alpha[used],
        field_weight=avatar.field_weight[used],
        faces=index[mesh.faces],
        part=avatar.part[mesh.number],
        weld=first[welded].astype(np.int32),
        expression=np.ascontiguousarray(avatar.expression[:, used]),
        landmark_triangles=index[mesh.into[avatar.landmark_triangles]],
    )


def _textured(avatar: Avatar, times: int) -> Avatar:
    """The avatar with its textures halved so many times."""
    color = halved_color(avatar.base_color, _possible(avatar.base_color, times))
    side = max(color.shape[:2])
    deltas = []
    for delta in avatar.texture_deltas:
        own = max(0, (max(delta.log_ratio.shape[:2]) // side).bit_length() - 1)
        deltas.append(replace(delta, log_ratio=_halved(delta.log_ratio, _possible(delta.log_ratio, own))))
    hair = avatar.hair
    if hair is not None and times:
        levels = hair.opacity.transpose(1, 2, 0).astype(np.float32)
        opacity = np.rint(_halved(levels, _possible(levels, times))).astype(np.uint8)
        own_color = halved_color(hair.color, _possible(hair.color, times))
        hair = replace(hair, color=own_color, opacity=np.ascontiguousarray(opacity.transpose(2, 0, 1)))
    return replace(avatar, base_color=color, texture_deltas=deltas, hair=hair)


def halved_color(rgb: np.ndarray, times: int) -> np.ndarray:
    """(h, w, 3) u8 sRGB of (H, W, 3), averaged in linear light over squares of 2^times."""
    return to_u8(linear_to_srgb(_halved(srgb_to_linear(rgb), times))) if times else rgb


def _possible(image: np.ndarray, times: int) -> int:
    """How many of so many times an image (H, W, ...) can be halved: while its sides are even and not small."""
    sides = np.array(image.shape[:2])
    done = 0
    while done < times and not (sides % 2).any() and sides.min() >= 2 * MIN_SIDE:
        sides //= 2
        done += 1
    return done


def _halved(image: np.ndarray, times: int) -> np.ndarray:
    """(H / 2^times, W / 2^times, C) means of (H, W, C)."""
    side = 2**times
    height, width = image.shape[:2]
    return image.reshape(height // side, side, width // side, side, -1).mean((1, 3)) if times else image
