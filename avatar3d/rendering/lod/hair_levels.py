"""Fewer, merged hair levels, and which faces of a level can be seen at all; arrays only, shared by both renderers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from avatar3d.avatar import Avatar, BakedField, HairShells
from avatar3d.rendering.culling.bounds import face_bounds
from avatar3d.rendering.scene import HAIR_CUT

MIN_OPACITY = 0.5 / 255  # a face whose opacity stays under half an 8-bit step shows nothing


def merge_levels(avatar: Avatar, at_most: int | None) -> Avatar:
    """The avatar with at most so many hair levels: the base, and the others in groups of neighbours, each one surface.

    A merged level has the opacity of its group seen head-on, the mean height and occlusion of what is seen of the group, and
    its share of the baked residual. None, or no fewer levels than there are, gives the avatar itself.
    """
    hair = avatar.hair
    if hair is None or at_most is None or at_most >= len(hair.levels):
        return avatar
    alpha = hair.opacity.astype(np.float32) / 255
    # Head-on the outer levels hide the inner ones; toward the outline they are all that is seen: between the two.
    groups = _neighbours(hair.levels[1:], np.sqrt(_seen_shares(alpha[1:]).mean((1, 2))), at_most - 1)
    seen = [_seen_shares(alpha[group]) for group in groups]
    opacity = [hair.opacity[:1]] + [np.rint(share.sum(0, keepdims=True) * 255).astype(np.uint8) for share in seen]
    levels, occlusion = [float(hair.levels[0])], [float(hair.occlusion[0])]
    for group, share in zip(groups, seen, strict=True):
        weight = share.mean((1, 2)).astype(np.float64) + 1e-9
        levels.append(float(weight @ hair.levels[group] / weight.sum()))
        occlusion.append(float(weight @ hair.occlusion[group] / weight.sum()))
    merged = replace(
        hair,
        levels=np.array(levels, np.float32),
        occlusion=np.array(occlusion, np.float32),
        opacity=np.concatenate(opacity),
    )
    return replace(avatar, hair=merged, baked=_merged_bake(avatar.baked, alpha, groups))


def _neighbours(heights: np.ndarray, seen: np.ndarray, count: int) -> list[np.ndarray]:
    """Levels 1 and up in `count` groups of neighbours whose heights differ least, in mean square by what is seen.

    heights: (K - 1,) of each level. seen: (K - 1,) how much of each is seen. Strands move aside when the head turns, by as much
    as their level is high: what the heights of a group differ by is what merging it loses.
    """
    if count < 1:
        return []
    best, least = [np.arange(len(heights))], np.inf
    for cuts in combinations(range(1, len(heights)), count - 1):
        groups = np.split(np.arange(len(heights)), cuts)
        loss = 0.0
        for group in groups:
            middle = np.average(heights[group], weights=seen[group] + 1e-9)
            loss += float((seen[group] * (heights[group] - middle) ** 2).sum())
        if loss < least:
            best, least = groups, loss
    return [group + 1 for group in best]


def _seen_shares(alpha: np.ndarray) -> np.ndarray:
    """(G, h, w) share of a ray that each of G levels (inner to outer, opacity (G, h, w)) stops, seen from outside."""
    passed = np.cumprod(1 - alpha[::-1], axis=0)[::-1]
    beyond = np.concatenate([passed[1:], np.ones_like(alpha[:1])])
    return alpha * beyond


def _merged_bake(baked: BakedField | None, alpha: np.ndarray, groups: list[np.ndarray]) -> BakedField | None:
    if baked is None or baked.hair_q0 is None:
        return baked
    height, width = baked.hair_q0.shape[1:3]
    rows = ((np.arange(height) + 0.5) / height * alpha.shape[1]).astype(int)
    columns = ((np.arange(width) + 0.5) / width * alpha.shape[2]).astype(int)
    alpha = alpha[:, rows][:, :, columns]
    weights, changes = [], [baked.hair_q0[0, ..., 3:]]
    for group in groups:
        shares = _seen_shares(np.clip(alpha[group] + baked.hair_q0[group, ..., 3], 0, 1))
        total = shares.sum(0)
        weights.append((shares / np.maximum(total, 1e-4))[..., None])
        changes.append((total - _seen_shares(alpha[group]).sum(0))[..., None])

    def merged(colors: np.ndarray) -> np.ndarray:
        """(K', h, w, 3) of (K, h, w, 3): the base's, and the means of what is seen of the groups."""
        means = [(weight * colors[group]).sum(0) for weight, group in zip(weights, groups, strict=True)]
        return np.stack([colors[0], *means]).astype(np.float32)

    motion = [replace(step, hair=None if step.hair is None else merged(step.hair)) for step in baked.motion]
    hair_q0 = np.concatenate([merged(baked.hair_q0[..., :3]), np.stack(changes)], axis=-1).astype(np.float32)
    return replace(baked, hair_q0=hair_q0, motion=motion)


@dataclass(frozen=True)
class LevelFaces:
    """Which hair faces each level needs, (n, 3) i32 each, in the shells' own order.

    solid: of the base, opaque everywhere. cut: of the base, cut by its opacity somewhere. outer: levels 1 to K − 1.
    """

    solid: np.ndarray
    cut: np.ndarray
    outer: list[np.ndarray]


def visible_faces(hair: HairShells, alpha: np.ndarray | None = None) -> LevelFaces:
    """The faces that are not transparent everywhere; alpha: (K, h, w) where more than the levels' own opacity counts."""
    faces = np.ascontiguousarray(hair.faces, np.int32)
    shown = hair.opacity / np.float32(255) if alpha is None else alpha
    (base_low, base_high), *outer = (face_bounds(level, hair.uv, faces) for level in shown)
    # What rounds to the cut is left to the shader that cuts.
    solid = base_low >= HAIR_CUT + MIN_OPACITY
    cut = ~solid & (base_high >= HAIR_CUT - MIN_OPACITY)
    return LevelFaces(faces[solid], faces[cut], [faces[high >= MIN_OPACITY] for _, high in outer])
