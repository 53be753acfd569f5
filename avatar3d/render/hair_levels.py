"""Fewer, merged hair levels, and which faces of a level can be seen at all; arrays only, shared by both renderers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from avatar3d.avatar import Avatar, BakedField, HairShells
from avatar3d.render.bounds import face_bounds
from avatar3d.render.scene import HAIR_CUT

MIN_OPACITY = 0.5 / 255  # a face whose opacity stays under half an 8-bit step shows nothing


def merge_levels(avatar: Avatar, at_most: int | None) -> Avatar:
    """The avatar with at most so many hair levels: the base, and the others in groups of neighbours, each one surface.

    A merged level has the opacity of its group seen head-on, the mean height and occlusion of what is seen of the group, and
    its share of the baked residual. None, or no fewer levels than there are, gives the avatar itself.
    """
    hair = avatar.hair
    if hair is None or at_most is None or at_most >= len(hair.levels):
        return avatar
    groups = np.array_split(np.arange(1, len(hair.levels)), at_most - 1) if at_most > 1 else []
    alpha = hair.opacity.astype(np.float32) / 255
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


def _seen_shares(alpha: np.ndarray) -> np.ndarray:
    """(G, h, w) share of a ray that each of G levels (inner to outer, opacity (G, h, w)) stops, seen from outside."""
    passed = np.cumprod(1 - alpha[::-1], axis=0)[::-1]
    beyond = np.concatenate([passed[1:], np.ones_like(alpha[:1])])
    return alpha * beyond


def _merged_bake(baked: BakedField | None, alpha: np.ndarray, groups: list[np.ndarray]) -> BakedField | None:
    if baked is None or baked.hair_q0 is None or baked.hair_q1 is None:
        return baked
    height, width = baked.hair_q0.shape[1:3]
    rows = ((np.arange(height) + 0.5) / height * alpha.shape[1]).astype(int)
    columns = ((np.arange(width) + 0.5) / width * alpha.shape[2]).astype(int)
    alpha = alpha[:, rows][:, :, columns]
    q0, q1 = [baked.hair_q0[0]], [baked.hair_q1[0]]
    for group in groups:
        shares = _seen_shares(np.clip(alpha[group] + baked.hair_q0[group, ..., 3], 0, 1))
        total = shares.sum(0)
        weights = (shares / np.maximum(total, 1e-4))[..., None]
        change = total - _seen_shares(alpha[group]).sum(0)
        q0.append(np.concatenate([(weights * baked.hair_q0[group, ..., :3]).sum(0), change[..., None]], axis=-1))
        q1.append((weights * baked.hair_q1[group]).sum(0))
    return replace(baked, hair_q0=np.stack(q0).astype(np.float32), hair_q1=np.stack(q1).astype(np.float32))


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
