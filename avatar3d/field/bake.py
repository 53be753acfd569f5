"""The bake: a field projected onto textures of each shell for renderers that cannot afford the MLP at every pixel, its loss measured.

Per texel the mean residual over view directions of the front hemisphere, cosine-weighted: what a surface shows to the eye in
proportion to the area it shows. What the view and the motion code change of it varies slowly over a surface: renderers take that
from the field at the vertices. Where the motion code changes the rest by more than is seen, it enters the textures through
principal directions, see avatar3d.field.bake_motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import PART_SKIN, Avatar, BakedField, BakedMotion, FieldParams
from avatar3d.color import MAX_PSNR_DB, linear_to_srgb, psnr_db, srgb_to_linear
from avatar3d.errors import InputError
from avatar3d.field.bake_motion import BOUND_CODES, Sample, contribution, principal_directions, random_codes
from avatar3d.field.definition import evaluate, first_layer, from_first_layer
from avatar3d.field.int8 import in_bytes
from avatar3d.field.projection import MEAN_DIRECTIONS, FieldAt, FieldBetween, cosine_directions
from avatar3d.field.shells import UvRaster, sample_texture, uv_raster
from avatar3d.geometry import random_points
from avatar3d.motion.code import WEIGHT_COUNT

SKIN_SIZE = (384, 384)  # texels; the field's finest cell is 2.6 mm, a texel on the face about 1 mm
HAIR_SIZE = (144, 256)  # a level's texture; quarter of the hair colour's resolution
MEASURED_SAMPLES = 4096
MOVED_CODES, MOVED_SAMPLES = 6, 1536  # motion codes and points that the loss away from the bake's own is measured at
JUDGED_SAMPLES = 1024  # of a kind of shell, where it is judged whether a motion is seen
_SMALL_STEP = 1e-3  # linear light: sRGB's slope is taken over this


@dataclass(frozen=True)
class Shell:
    """A surface that the field acts on: vertices (N, 3) metres in the neutral head, faces (F, 3), uv (N, 2).

    level: of the hair, -1 for the skin. color: (H, W, 3) linear, of which it shows `occlusion` without the field. opacity: (h, w)
    in [0, 1].
    """

    level: int
    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray
    color: np.ndarray
    occlusion: float
    opacity: np.ndarray


@dataclass(frozen=True)
class Points:
    """Random points of a shell. corners: (P, 3) vertices of their faces. barycentric: (P, 3)."""

    shell: Shell
    corners: np.ndarray
    barycentric: np.ndarray

    @classmethod
    def of(cls, shell: Shell, faces: np.ndarray, count: int, rng: np.random.Generator) -> Points:
        """Uniform by area over some of its faces."""
        chosen, barycentric = random_points(shell.vertices, faces, 1.0, count, rng)
        return cls(shell, faces[chosen], barycentric)

    def mixed(self, attribute: np.ndarray) -> np.ndarray:
        """(P, k) f32 of a vertex attribute (N, k)."""
        return (attribute[self.corners] * self.barycentric[..., None]).sum(1).astype(np.float32)

    def albedo(self) -> np.ndarray:
        """(P, 3) linear colour without the field, under even light."""
        return sample_texture(self.shell.color, self.mixed(self.shell.uv)) * np.float32(self.shell.occlusion)

    def opacity(self) -> np.ndarray:
        """(P, 1) in [0, 1]."""
        return sample_texture(self.shell.opacity[..., None], self.mixed(self.shell.uv))


class _Target:
    """The texels of a shell's texture."""

    def __init__(self, params: FieldParams, shell: Shell, raster: UvRaster) -> None:
        self.shell, self.raster = shell, raster
        self.texels = FieldAt(params, raster.interpolate(shell.faces, shell.vertices))
        self.corners = FieldAt(params, shell.vertices)
        self.between = FieldBetween(self.texels, self.corners, shell.faces[raster.triangle], raster.barycentric)


def _shown(opacity: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(height, width) bool, texels of a texture of this size that a sample may read where opacity (h, w) is not zero.

    The rest stays empty: nothing shows it, and noise there would take most of a level's bytes.
    """
    shown = opacity > 0
    for axis in (0, 1):
        shown = np.repeat(shown, -(-size[axis] // shown.shape[axis]), axis)  # at least as fine as the texture
    row, column = ((places * many // few) for places, many, few in zip(np.nonzero(shown), size, shown.shape, strict=True))
    touched = np.zeros((size[0] + 2, size[1] + 2), bool)
    touched[row + 1, column + 1] = True
    near = touched[:-2] | touched[1:-1] | touched[2:]
    return near[:, :-2] | near[:, 1:-1] | near[:, 2:]


def shells_of(avatar: Avatar) -> list[Shell]:
    """The skin, then the hair's levels from inside out."""
    faces = avatar.faces[(avatar.field_weight[avatar.faces] > 0).any(1)]
    opaque = np.ones((1, 1), np.float32)
    shells = [Shell(-1, avatar.vertices, faces, avatar.uv, srgb_to_linear(avatar.base_color), 1.0, opaque)]
    hair = avatar.hair
    if hair is not None:
        color = srgb_to_linear(hair.color)
        for level, height in enumerate(hair.levels):
            surface, opacity = hair.base + height * hair.extent, hair.opacity[level] / np.float32(255)
            shells.append(Shell(level, surface, hair.faces, hair.uv, color, float(hair.occlusion[level]), opacity))
    return shells


def bake(avatar: Avatar, weights: np.ndarray | None = None, seed: int = 0) -> BakedField:
    """The baked form of `avatar.neural_field` for ARKit weights (52,) (neutral by default), with its loss in dB.

    The loss is the PSNR in sRGB of base colour + residual, as drawn from the bake against live, over random surface points and
    cosine-weighted directions: at `weights`, and over motion codes that the directions were not made from. 99 stands for no
    difference. Raises InputError when the avatar has no field.
    """
    params = avatar.neural_field
    if params is None:
        raise InputError("this avatar has no neural field to bake; enrol it with field training, or render its mesh form")
    weights = np.zeros(WEIGHT_COUNT, np.float32) if weights is None else np.asarray(weights, np.float32)
    rest = weights @ params.motion_projection
    rng = np.random.default_rng(seed)
    shells = shells_of(avatar)
    rasters = [uv_raster(shells[0].faces, shells[0].uv, SKIN_SIZE)]
    if len(shells) > 1:
        whole = uv_raster(shells[1].faces, shells[1].uv, HAIR_SIZE)
        rasters += [whole.take(_shown(shell.opacity, HAIR_SIZE).reshape(-1)[whole.texel]) for shell in shells[1:]]
    targets = [_Target(params, shell, raster) for shell, raster in zip(shells, rasters, strict=True)]
    skin, *hair = targets
    means = [target.raster.scatter(target.texels.mean(rest, MEAN_DIRECTIONS)) for target in targets]
    baked = BakedField(means[0][..., :3], np.stack(means[1:]) if hair else None, weights, MAX_PSNR_DB, MAX_PSNR_DB)
    judged = [
        _sample(params, shell, JUDGED_SAMPLES if shell.level < 0 else JUDGED_SAMPLES // len(hair), rng) for shell in shells
    ]
    for direction in principal_directions(params, weights, judged, rng):
        seen = [contribution(direction, rest, sample) > BOUND_CODES for sample in judged]

        def moved(chosen: Sequence[_Target], direction=direction) -> list[np.ndarray]:  # type: ignore[no-untyped-def]
            return [target.raster.scatter(direction.slope(target.between, rest)[:, :3]) for target in chosen]

        baked.motion.append(
            BakedMotion(
                row=direction.row,
                low=direction.low,
                high=direction.high,
                skin=moved([skin])[0] if seen[0] else None,
                hair=np.stack(moved(hair)) if any(seen[1:]) else None,
            )
        )
    baked.psnr_skin_db, baked.psnr_hair_db = losses(avatar, baked, [weights], MEASURED_SAMPLES, rng)
    held_out = list(random_codes(MOVED_CODES, rng))
    baked.psnr_moved_skin_db, baked.psnr_moved_hair_db = losses(avatar, baked, held_out, MOVED_SAMPLES, rng)
    return baked


def losses(
    avatar: Avatar, baked: BakedField, codes: Sequence[np.ndarray], count: int, rng: np.random.Generator
) -> tuple[float, float]:
    """PSNR in dB of what is drawn from a bake against the avatar's live field, on skin and on hair, over ARKit weights [(52,)].

    count: of points on the skin, and on all hair levels together, which count by the opacity they show. 99 where there is nothing
    to compare.
    """
    skin, *hair = shells_of(avatar)
    faces = avatar.faces[(avatar.part == PART_SKIN) & (avatar.field_weight[avatar.faces] > 0.5).all(1)]
    results = []
    for kind in ([(skin, faces)], [(shell, shell.faces) for shell in hair]):
        differences = [
            _differences(avatar, baked, Points.of(shell, chosen, max(count // len(kind), 1), rng), codes, rng)
            for shell, chosen in kind
            if len(chosen)
        ]
        results.append(psnr_db(float(np.square(np.concatenate(differences)).mean())) if differences else MAX_PSNR_DB)
    return results[0], results[1]


def losses_in_bytes(avatar: Avatar, seed: int = 0) -> tuple[float, float]:
    """PSNR in dB of the avatar's field as 8 bits hold it against the field, live, on skin and on hair; as `losses` measures."""
    params, rng = avatar.neural_field, np.random.default_rng(seed)
    if params is None:
        raise InputError("this avatar has no neural field to hold in 8 bits; enrol it with field training")
    weights, held = np.zeros(WEIGHT_COUNT, np.float32), in_bytes(params)
    skin, *hair = shells_of(avatar)
    results = []
    for kind in ([skin], hair):
        differences = []
        for shell in (shell for shell in kind if len(shell.faces)):
            points = Points.of(shell, shell.faces, max(MEASURED_SAMPLES // len(kind), 1), rng)
            positions, directions = points.mixed(shell.vertices), cosine_directions(len(points.corners))
            albedo = points.albedo()
            shown = [linear_to_srgb(albedo + evaluate(field, positions, directions, weights)[0]) for field in (params, held)]
            differences.append((shown[0] - shown[1]) * points.opacity())
        results.append(psnr_db(float(np.square(np.concatenate(differences)).mean())) if differences else MAX_PSNR_DB)
    return results[0], results[1]


def _differences(
    avatar: Avatar, baked: BakedField, points: Points, codes: Sequence[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """(P · codes, 3) sRGB difference of base colour + residual, baked − live, each point seen from a random direction."""
    params, shell, count = avatar.neural_field, points.shell, len(points.corners)
    assert params is not None
    if shell.level < 0:
        texture, moves = baked.skin_q0, [step.skin for step in baked.motion]
    else:
        assert baked.hair_q0 is not None
        texture = baked.hair_q0[shell.level, ..., :3]
        moves = [None if step.hair is None else step.hair[shell.level] for step in baked.motion]
    uv, albedo, opacity = points.mixed(shell.uv), points.albedo(), points.opacity()
    used, corners = np.unique(points.corners, return_inverse=True)
    corners = corners.reshape(-1, 3)
    places = first_layer(params, np.concatenate([points.mixed(shell.vertices), shell.vertices[used]]))
    at_points, at_vertices = places[:count], places[count:]
    mean = FieldAt(params, shell.vertices[used]).mean(baked.weights @ params.motion_projection, MEAN_DIRECTIONS)[:, :3]
    detail = sample_texture(texture, uv) - (mean[corners] * points.barycentric[..., None]).sum(1)
    sampled_moves = [None if move is None else sample_texture(move, uv) for move in moves]
    found = []
    for code in codes:
        directions = cosine_directions(4 * count)[rng.permutation(4 * count)[:count]]
        live, _ = from_first_layer(params, at_points, directions, code)
        residual = detail.copy()
        for move, amount in zip(sampled_moves, baked.amounts(code), strict=True):
            if move is not None:
                residual += amount * move
        for corner in range(3):
            at_corner, _ = from_first_layer(params, at_vertices[corners[:, corner]], directions, code)
            residual += points.barycentric[:, corner, None] * at_corner
        found.append((linear_to_srgb(albedo + residual) - linear_to_srgb(albedo + live)) * opacity)
    return np.concatenate(found)


def _sample(params: FieldParams, shell: Shell, count: int, rng: np.random.Generator) -> Sample:
    """Points of a shell at which it is judged what is seen."""
    none = np.zeros((0, 3), np.float32)
    if not len(shell.faces):
        return Sample(FieldBetween(FieldAt(params, none), FieldAt(params, none), none.astype(int), none), none)
    points = Points.of(shell, shell.faces, max(count, 1), rng)
    used, corners = np.unique(points.corners, return_inverse=True)
    places, vertices = FieldAt(params, points.mixed(shell.vertices)), FieldAt(params, shell.vertices[used])
    albedo = points.albedo()
    steepness = (linear_to_srgb(albedo + _SMALL_STEP) - linear_to_srgb(albedo)) / _SMALL_STEP
    codes = (255 * steepness * points.opacity()).astype(np.float32)
    return Sample(FieldBetween(places, vertices, corners.reshape(-1, 3), points.barycentric), codes)
