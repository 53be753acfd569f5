"""The bake: a field projected onto textures of each shell for renderers that cannot afford the MLP, with its loss measured.

Per texel, residual ≈ q0 + q1 · d by least squares over view directions of the front hemisphere, cosine-weighted: what a
surface shows to the eye in proportion to the area it shows.
"""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import PART_SKIN, Avatar, BakedField, FieldParams, HairShells
from avatar3d.color import MAX_PSNR_DB, linear_to_srgb, psnr_db, srgb_to_linear
from avatar3d.errors import InputError
from avatar3d.field.definition import HARMONICS, bound, evaluate, spherical_harmonics, unit_positions
from avatar3d.field.shells import sample_texture, uv_raster
from avatar3d.geometry import random_points

SKIN_SIZE = (384, 384)  # texels; the field's finest cell is 2.6 mm, a texel on the face about 1 mm
HAIR_SIZE = (144, 256)  # a level's texture; quarter of the hair colour's resolution
SKIN_DIRECTIONS = 12
HAIR_DIRECTIONS = 8  # the hair has one texture a level
MEASURED_SAMPLES = 8192
_CHUNK = 4096  # texels evaluated at a time: the buffers stay in the cache
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


def cosine_directions(count: int) -> np.ndarray:
    """(count, 3) f32 unit directions over the hemisphere +z with density cos(θ)/π, on a golden-angle spiral."""
    index = np.arange(count) + 0.5
    radius, angle = np.sqrt(index / count), index * _GOLDEN_ANGLE
    z = np.sqrt(np.maximum(1 - radius**2, 0))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1).astype(np.float32)


def project(params: FieldParams, positions: np.ndarray, weights: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """q0 (N, 4) f32 (rgb and opacity change) and q1 (N, 3) f32 at positions (N, 3) metres, for ARKit weights (52,).

    The contract's q1 is one vector a texel for all three channels (a highlight has the light's colour): the least-squares
    q1 of the channels' mean. q0 leaves every channel its own mean over the directions; q0.a is that of the opacity change.
    """
    from avatar3d.field.kernels import encode_forward

    directions = cosine_directions(count)
    solve = np.linalg.pinv(np.concatenate([np.ones((count, 1)), directions], axis=1)).astype(np.float32)
    harmonics = spherical_harmonics(directions).astype(np.float32)
    motion = (np.asarray(weights, np.float32) @ params.motion_projection).astype(np.float32)
    levels, _, features = params.tables.shape
    grid = levels * features
    tables = np.ascontiguousarray(params.tables, np.float32)
    cells = np.ascontiguousarray(params.resolutions, np.int64)
    first, *rest = list(zip(params.weights, params.biases, strict=True))
    per_direction = harmonics @ first[0][:, grid : grid + HARMONICS].T
    unit = unit_positions(params, positions)
    q0, q1 = np.zeros((len(unit), 4), np.float32), np.zeros((len(unit), 3), np.float32)
    scale = np.array([params.color_bound] * 3 + [params.alpha_bound], np.float32)
    encoded = np.empty((len(unit), grid), np.float32)
    encode_forward(unit, tables, cells, encoded)
    for start in range(0, len(unit), _CHUNK):
        part = slice(start, start + _CHUNK)
        static = encoded[part] @ first[0][:, :grid].T + (first[0][:, grid + HARMONICS :] @ motion + first[1])
        values = np.empty((count, len(static), 4), np.float32)
        for index in range(count):
            value = static + per_direction[index]
            for weight, bias in rest:
                value = np.maximum(value, 0) @ weight.T + bias
            values[index] = bound(value) * scale
        solved = (solve @ values.reshape(count, -1)).reshape(4, len(static), 4)
        q1[part] = solved[1:, :, :3].mean(2).T
        q0[part] = values.mean(0)
        q0[part, :3] -= (q1[part] @ directions.mean(0))[:, None]
    return q0, q1


def bake(avatar: Avatar, weights: np.ndarray | None = None, seed: int = 0) -> BakedField:
    """The baked form of `avatar.neural_field` for ARKit weights (52,) (neutral by default), with its loss in dB.

    The loss is the PSNR in sRGB of base colour + residual, baked (bilinear) against live, over random surface points and
    cosine-weighted directions; 99 stands for no difference. Raises InputError when the avatar has no field.
    """
    params = avatar.neural_field
    if params is None:
        raise InputError("this avatar has no neural field to bake; enrol it with field training, or render its mesh form")
    weights = np.zeros(52, np.float32) if weights is None else np.asarray(weights, np.float32)
    rng = np.random.default_rng(seed)
    faces = avatar.faces[(avatar.field_weight[avatar.faces] > 0).any(1)]
    raster = uv_raster(faces, avatar.uv, SKIN_SIZE)
    q0, q1 = project(params, raster.interpolate(faces, avatar.vertices), weights, SKIN_DIRECTIONS)
    skin_q0, skin_q1 = raster.scatter(q0[:, :3]), raster.scatter(q1)
    measured = avatar.faces[(avatar.part == PART_SKIN) & (avatar.field_weight[avatar.faces] > 0.5).all(1)]
    skin_db = MAX_PSNR_DB
    if len(measured):
        points, uv = _surface_samples(avatar.vertices, measured, avatar.uv, MEASURED_SAMPLES, rng)
        difference = _difference(params, avatar.base_color, points, uv, skin_q0, skin_q1, weights, rng)
        skin_db = _psnr(difference)
    hair_q0 = hair_q1 = None
    hair_db = MAX_PSNR_DB
    if avatar.hair is not None:
        hair_q0, hair_q1, hair_db = _bake_hair(params, avatar.hair, weights, rng)
    return BakedField(skin_q0, skin_q1, hair_q0, hair_q1, weights, skin_db, hair_db)


def _bake_hair(
    params: FieldParams, hair: HairShells, weights: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    count = len(hair.levels)
    q0 = np.zeros((count, *HAIR_SIZE, 4), np.float32)
    q1 = np.zeros((count, *HAIR_SIZE, 3), np.float32)
    if not len(hair.faces):
        return q0, q1, MAX_PSNR_DB
    raster = uv_raster(hair.faces, hair.uv, HAIR_SIZE)
    base, extent = raster.interpolate(hair.faces, hair.base), raster.interpolate(hair.faces, hair.extent)
    differences = []
    for level, height in enumerate(hair.levels):
        level_q0, level_q1 = project(params, base + height * extent, weights, HAIR_DIRECTIONS)
        q0[level], q1[level] = raster.scatter(level_q0), raster.scatter(level_q1)
        surface = hair.base + height * hair.extent
        points, uv = _surface_samples(surface, hair.faces, hair.uv, MEASURED_SAMPLES // count, rng)
        difference = _difference(params, hair.color, points, uv, q0[level, ..., :3], q1[level], weights, rng)
        # What a level shows in proportion to its opacity.
        differences.append(difference * sample_texture(hair.opacity[level][..., None] / np.float32(255), uv))
    return q0, q1, _psnr(np.concatenate(differences))


def _difference(
    params: FieldParams,
    color: np.ndarray,
    points: np.ndarray,
    uv: np.ndarray,
    q0: np.ndarray,
    q1: np.ndarray,
    weights: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """(N, 3) sRGB difference of base colour + residual, baked − live, each point seen from one random direction."""
    directions = cosine_directions(4 * len(points))[rng.permutation(4 * len(points))[: len(points)]]
    live, _ = evaluate(params, points, directions, weights)
    baked = sample_texture(q0, uv) + (sample_texture(q1, uv) * directions).sum(1, keepdims=True)
    albedo = sample_texture(srgb_to_linear(color), uv)
    return linear_to_srgb(albedo + baked) - linear_to_srgb(albedo + live)


def _surface_samples(
    vertices: np.ndarray, faces: np.ndarray, uv: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`count` points (count, 3) m and their uv (count, 2), uniform by area over a mesh."""
    chosen, barycentric = random_points(vertices, faces, 1.0, count, rng)
    corners = faces[chosen]
    points, places = ((values[corners] * barycentric[..., None]).sum(1).astype(np.float32) for values in (vertices, uv))
    return points, places


def _psnr(difference: np.ndarray) -> float:
    return psnr_db(float(np.mean(np.square(difference))))
