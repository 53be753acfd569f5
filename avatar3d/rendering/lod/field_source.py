"""Where the live form evaluates the field: for each face the source that is cheapest for what it loses; arrays only.

"vertices": the field at a face's corners, interpolated. "split": the coarsest grid levels, view and motion from the corners as
their share of the MLP's first layer, in which they are linear; finer levels and the other layers at each pixel. "pixels": all
there. Cells of the coarse levels are larger than most faces, and much of a trained field is as smooth as its faces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import FieldParams
from avatar3d.color import linear_to_srgb
from avatar3d.field.bake import Shell
from avatar3d.field.bake_motion import random_codes
from avatar3d.field.definition import HARMONICS, bound, spherical_harmonics
from avatar3d.field.projection import encode_quickly
from avatar3d.field.shells import sample_texture
from avatar3d.geometry import unit
from avatar3d.motion.code import WEIGHT_COUNT
from avatar3d.rendering.scene import view_directions

SOURCES = ("vertices", "split", "pixels")
# What fetching one grid level at a face's pixels may cost: so many squared 8-bit steps of sRGB lost by leaving it out.
PRICE = 0.04
SPLIT_COST, PIXELS_COST = 0.5, 1.0  # of what a pixel costs after the grid, in grid levels
BEHIND = 0.5  # sRGB by which a surface may differ from what lies behind it, for what a wrong opacity loses
EYE_M = 0.5  # distance that faces are seen from: nearer than a viewer comes
VIEWS = 3  # of each face, each at another motion code: where one happens to show no loss another does
MOTIONS = 8  # motion codes that faces are looked at in, beside the neutral one
CHUNK = 512  # faces looked at a time: the buffers stay in the cache
# Barycentric places that a face is looked at: the middles of the edges, and between those and the corners across.
PLACES = np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2], [0, 2, 2], [2, 0, 2], [2, 2, 0]], np.float32) / 4
LEAST_SEEN = 0.25  # share of a shell that is seen through others at least: aslant they may stand beside it


@dataclass(frozen=True)
class FieldSources:
    """Where the field on some shells is evaluated. levels: how many of the coarsest grid levels split faces take from their vertices.

    source: of each shell, (F,) u8 of its faces, index into SOURCES.
    """

    levels: int
    source: list[np.ndarray]


@dataclass(frozen=True)
class LitVertices:
    """Vertices (N) of shells that share one program: unit normals (N, 3) and shade (N, 3) at rest, and (N,) each what the residual
    is drawn with and how opaque they are beside the texture."""

    normals: np.ndarray
    shade: np.ndarray
    weight: np.ndarray
    alpha: np.ndarray


def choose_sources(params: FieldParams, shells: Sequence[Shell], lit: LitVertices) -> FieldSources:
    """Choose for shells that share one program, from inside out; the first is drawn opaque."""
    rng = np.random.default_rng(0)
    # Head-on the outer shells hide the inner ones; toward the outline they are all that is seen: between the two.
    passed, looks = np.ones_like(shells[-1].opacity), list[np.ndarray]()
    for shell in reversed(shells):
        looks.insert(0, _look(params, shell, lit, shell is shells[0], np.maximum(np.sqrt(passed), LEAST_SEEN), rng))
        passed = passed * (1 - shell.opacity)
    wanted = [_chosen(looks, levels) for levels in range(len(params.resolutions) + 1)]
    levels = int(np.argmin([total for total, _ in wanted]))
    return FieldSources(levels, wanted[levels][1])


def _chosen(looks: Sequence[np.ndarray], levels: int) -> tuple[float, list[np.ndarray]]:
    """(loss and price of all faces, source of each shell's) where split faces take so many levels from their vertices."""
    total, source = 0.0, []
    for look in looks:
        left = len(look) - 2 - levels
        squares = np.stack([look[0], look[1 + levels], np.zeros_like(look[0])])
        prices = PRICE * np.array([0.0, left + SPLIT_COST, len(look) - 2 + PIXELS_COST])
        both = squares + prices[:, None].astype(np.float32)
        total += float(both.min(0).sum())
        source.append(both.argmin(0).astype(np.uint8))
    return total, source


def _look(
    params: FieldParams, shell: Shell, lit: LitVertices, opaque: bool, passed: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(L + 2, F) f32 what the faces of a shell lose, in squared 8-bit steps: from vertices alone, and split, by how many levels
    are the vertices'.

    passed: (h, w), the share of it that is seen through what lies outside.
    """
    levels = len(params.resolutions)
    motions = np.concatenate([np.zeros((1, WEIGHT_COUNT), np.float32), random_codes(MOTIONS, rng)]) @ params.motion_projection
    towards = unit(rng.normal(size=(VIEWS, len(shell.faces), 3))).astype(np.float32)
    encoded = encode_quickly(params, shell.vertices)
    found = [np.zeros((levels + 2, 0), np.float32)]
    for start in range(0, len(shell.faces), CHUNK):
        part = slice(start, start + CHUNK)
        found.append(_look_at(params, shell, encoded, lit, opaque, passed, motions, part, towards[:, part]))
    return np.concatenate(found, axis=1)


def _look_at(
    params: FieldParams,
    shell: Shell,
    encoded: np.ndarray,
    lit: LitVertices,
    opaque: bool,
    passed: np.ndarray,
    motions: np.ndarray,
    part: slice,
    towards: np.ndarray,
) -> np.ndarray:
    """(L + 2, f) of some faces: `_look`'s results, one after another."""
    faces = shell.faces[part]
    corners, across, grid = shell.vertices[faces], lit.normals[faces], encoded.shape[1]
    places = PLACES @ corners
    first = params.weights[0]
    # A unit vector beside the normal is where a face shows itself in proportion to the area that it shows.
    eyes = corners.mean(1) + EYE_M * unit(across.mean(1) + 0.99 * towards)
    at_corners = view_directions(corners, across, eyes[:, :, None])  # (VIEWS, f, 3, 3)
    motion = motions[(part.start + np.arange(len(faces)) + np.arange(VIEWS)[:, None]) % len(motions)]
    rest = params.biases[0] + motion @ first[:, grid + HARMONICS :].T

    def seen_from(directions: np.ndarray) -> np.ndarray:
        return spherical_harmonics(directions) @ first[:, grid : grid + HARMONICS].T + rest[:, :, None]

    scale = np.array([params.color_bound] * 3 + [params.alpha_bound], np.float32)

    def change(hidden: np.ndarray) -> np.ndarray:
        value = hidden
        for matrix, bias in zip(params.weights[1:], params.biases[1:], strict=True):
            value = np.maximum(value, 0) @ matrix.T + bias
        return bound(value) * scale

    columns = [slice(start, start + params.tables.shape[2]) for start in range(0, grid, params.tables.shape[2])]
    inside = encode_quickly(params, places.reshape(-1, 3)).reshape(len(faces), len(PLACES), grid)
    near = encoded[faces]
    of_levels = [(PLACES @ near[..., own] - inside[..., own]) @ first[:, own].T for own in columns]
    exact = inside @ first[:, :grid].T + seen_from(unit(PLACES @ at_corners))
    view_at_corners = seen_from(at_corners)
    uv = (PLACES @ shell.uv[faces]).reshape(-1, 2)
    color = sample_texture(shell.color, uv).reshape(*places.shape) * (PLACES @ lit.shade[faces]) * np.float32(shell.occlusion)
    opacity = sample_texture(shell.opacity[..., None], uv).reshape(places.shape[:2])
    weight = (lit.weight[faces] @ PLACES.T)[..., None]
    seen = sample_texture(passed[..., None], uv).reshape(places.shape[:2]) * (lit.alpha[faces] @ PLACES.T)

    def shown(change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        alpha = seen if opaque else seen * (opacity + change[..., 3]).clip(0, 1)
        return linear_to_srgb(color + weight * change[..., :3]) * alpha[..., None], alpha

    wanted, wanted_alpha = shown(change(exact))

    def lost(change: np.ndarray) -> np.ndarray:
        drawn, alpha = shown(change)
        squares = np.square(drawn - wanted).mean(-1) + np.square(BEHIND * (alpha - wanted_alpha))
        return 255**2 * squares.mean((0, 2))

    rows = [lost(PLACES @ change(near @ first[:, :grid].T + view_at_corners))]
    hidden = exact + PLACES @ view_at_corners - seen_from(unit(PLACES @ at_corners))
    rows.append(lost(change(hidden)))
    for step in of_levels:
        hidden = hidden + step
        rows.append(lost(change(hidden)))
    return np.stack(rows).astype(np.float32)
