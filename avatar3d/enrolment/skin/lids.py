"""The skin of closed upper lids, which no photo of open eyes shows: the tone around the eye, a crease, and the lash line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.enrolment.skin.projection import PhotoNodes
from avatar3d.enrolment.skin.surface import NodeGraph
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.mediapipe import UPPER_LIDS
from avatar3d.head.model import HeadModel
from avatar3d.motion.code import ARKIT_INDEX

# The upper lid's rim from the inner to the outer corner, by side.
RIMS = dict(zip(("Left", "Right"), UPPER_LIDS, strict=True))
RING_M = (0.013, 0.027)  # from the middle of the eye: cheekbone, temple and the root of the nose, whose skin a lid's is like
RING_NODES = 60  # fewer say nothing; then the face's plain skin stands in
RING_PERCENTILE = 72.0  # well above the middle: the ring's shadows are the light's
LID_TONE = np.array([1.0, 0.98, 0.97])  # encoded, against the skin around: thinner, so a little redder
BELOW_RIM_M = 0.0012  # a rim's own thickness, and the corner's fold
FADE_M = 0.006  # above the unfolded skin, over which the photo's own comes back
RIM_BAND_M = 0.004  # above the rim, where the photo shows lashes and their shadow smeared
LASH_LINE, LASH_LINE_M = 0.5, 0.0011  # darkening at the rim (encoded) and its width
CREASE, CREASE_M, CREASE_AT = 0.045, 0.0011, 0.78  # of the crease; where it runs, as a share of the unfolded skin's height
HOLLOW = 0.01  # darkening toward the crease: a closed lid bulges over the eye and falls back above it
MASK_ROUNDS, MASK_GAIN = 10, 1.5  # a soft edge around a lid that is full inside
MIN_HEIGHT_M = 0.004
AROUND_SHARE = 0.8  # of what surrounds the eye in the lid's colour at its upper end, so that no edge shows there
AROUND_LIMITS = (0.97, 1.06)  # of the ring's tone: what is darker is a lash, a brow's rim or the open eye's fold
UNFOLDED = 0.3  # of the share that unfolds, from which on skin counts to the lid


@dataclass(frozen=True)
class LidSkin:
    """color: (N, 3) encoded skin of the closed lids; weight: (N,) in [0, 1], where it holds; left: (N,) bool."""

    color: np.ndarray
    weight: np.ndarray
    left: np.ndarray


def lid_skin(
    head: HeadModel, fit: FaceFit, graph: NodeGraph, nodes: PhotoNodes, encoded: np.ndarray, fill: np.ndarray,
    plain: np.ndarray,
) -> LidSkin:  # fmt: skip
    """Skin of both closed lids.

    encoded: (N, 3) the photo's albedo at the nodes; fill: (N, 3) the same without brows and lids, filled. plain: (3,) encoded, the
    face's plain skin.
    """
    rest = fit.neutral_vertices
    closed = rest + fit.expression_shapes[ARKIT_INDEX["eyeBlinkLeft"]] + fit.expression_shapes[ARKIT_INDEX["eyeBlinkRight"]]
    place, open_place = graph.spread @ closed.astype(np.float64), graph.spread @ rest.astype(np.float64)
    marks, open_marks = head.landmark_points(closed), head.landmark_points(rest)
    color = np.broadcast_to(plain * LID_TONE, encoded.shape).copy()
    weight = np.zeros(len(encoded))
    left = graph.rest[:, 0] > 0
    sides = {side: (list(rim), left if side == "Left" else ~left) for side, rim in RIMS.items()}
    tones = {
        side: _ring_tone(nodes, encoded, open_place, open_marks[rim].mean(0), of_side) for side, (rim, of_side) in sides.items()
    }
    for side, (rim, of_side) in sides.items():
        own, other = tones[side], tones["Right" if side == "Left" else "Left"]
        tone = np.mean([t for t in (own, own, other) if t is not None] or [plain], axis=0)
        above = place[:, 1] - _height_of(marks[rim], place[:, 0])
        upper = open_place[:, 1] > _height_of(open_marks[rim], open_place[:, 0]) - BELOW_RIM_M
        lid = of_side & upper & (above > -BELOW_RIM_M)
        low, high = marks[rim, 0].min(), marks[rim, 0].max()
        arc = np.sqrt(np.clip(1 - (2 * (place[:, 0] - low) / (high - low) - 1) ** 2, 0, 1))
        folded = lid & (nodes.unfolding > UNFOLDED)
        height = arc * max(float(np.percentile(above[folded], 95)) if folded.any() else 0.0, MIN_HEIGHT_M)
        near_rim = np.clip(2 - above / RIM_BAND_M, 0, 1) * (arc > 0)
        reach = np.clip((height + FADE_M - above) / FADE_M, 0, 1)
        weight = np.maximum(weight, lid * reach * np.maximum(np.clip(1.5 * nodes.unfolding, 0, 1), near_rim))
        crease = CREASE * arc * np.exp(-(((above - CREASE_AT * height) / CREASE_M) ** 2))
        lash = LASH_LINE * np.exp(-np.clip(above, 0, None) / LASH_LINE_M)
        hollow = HOLLOW * np.clip(above / np.maximum(height, 1e-4), 0, 1) ** 2
        shade = (1 - lash) * (1 - crease) * (1 - hollow)
        around = (AROUND_SHARE * np.clip(above / np.maximum(height, 1e-4), 0, 1))[:, None]
        beside = np.clip(fill, AROUND_LIMITS[0] * tone, AROUND_LIMITS[1] * tone)
        color[of_side] = ((tone * LID_TONE + around * (beside - tone * LID_TONE)) * shade[:, None])[of_side]
    return LidSkin(color, np.clip(MASK_GAIN * graph.blurred(weight, MASK_ROUNDS), 0, 1), left)


def _height_of(line: np.ndarray, x: np.ndarray) -> np.ndarray:
    """(N,) height of a line of points (K, 3) at places x (N,)."""
    order = np.argsort(line[:, 0])
    return np.interp(x, line[order, 0], line[order, 1])


def _ring_tone(
    nodes: PhotoNodes, encoded: np.ndarray, place: np.ndarray, middle: np.ndarray, of_side: np.ndarray
) -> np.ndarray | None:
    """(3,) encoded colour of the plain skin around an eye, None where the photo shows hardly any."""
    distance = np.linalg.norm((place - middle)[:, :2], axis=1)
    plain = of_side & (distance > RING_M[0]) & (distance < RING_M[1]) & (place[:, 1] < middle[1] + RING_M[0])
    plain &= (nodes.weight > 0.6) & (nodes.brows < 0.1) & (nodes.eyes == 0)
    if plain.sum() < RING_NODES:
        return None
    return np.percentile(encoded[plain], RING_PERCENTILE, axis=0)
