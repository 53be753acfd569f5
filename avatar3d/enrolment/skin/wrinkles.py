"""The photo's expression in the skin's colour: folds of a smile taken out of the texture and kept as a motion-driven layer."""

from __future__ import annotations

import numpy as np

from avatar3d.enrolment.skin.projection import PhotoNodes
from avatar3d.enrolment.skin.surface import NodeGraph
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.mediapipe import NOSTRILS
from avatar3d.head.model import HeadModel
from avatar3d.motion.code import ARKIT_INDEX

FOLDING_STEMS = ("mouthSmile", "cheekSquint", "noseSneer", "mouthStretch")
FOLDING_SHAPES = tuple(ARKIT_INDEX[stem + side] for stem in FOLDING_STEMS for side in ("Left", "Right"))
NOSTRIL_M = 0.006
FULL_MOVE_M = 0.0016  # a shape that moves the skin this far can fold it
LOW_ROUNDS = 300  # of averaging: about 11 mm, wider than a fold
MASK_ROUNDS = 6
# Of the band's log brightness this much stays, softly limited: pores, freckles, the cheek's own relief.
KEPT_DARK, KEPT_BRIGHT = 0.05, 0.16
# Of a fold the rest leaves with the expression: the line beside a nose is there at rest too, only shallower, and is a good part
# of whom one sees.
EXPRESSION_SHARE = 0.5
DEEPEST = 0.6  # of the band: what is darker beside its surroundings is a cast shadow's edge, which no motion takes away
MIN_LIP_NODES = 20
SPILL_LIP_GAIN, SPILL_ROUNDS = 3.0, 2
MIN_SMILE = 0.08  # a calmer face has no folds of expression to speak of
SMILE_GAIN = 1.4
ACTIVATION_RIDGE = 1e-3


def fold_mask(fit: FaceFit, head: HeadModel, graph: NodeGraph, nodes: PhotoNodes) -> np.ndarray:
    """(N,) in [0, 1]: how much of the mid band at each node the photo's expression may have made; 0 for a face at rest."""
    strength = float(np.clip(fit.motion.weights[list(FOLDING_SHAPES)].max() * SMILE_GAIN, 0, 1))
    if strength < MIN_SMILE * SMILE_GAIN:
        return np.zeros(len(nodes.weight))
    move = np.linalg.norm(head.expression[list(FOLDING_SHAPES)], axis=2).max(0)
    marks = head.landmark_points(head.vertices)[list(NOSTRILS)]
    nostril = np.clip(1.5 - np.linalg.norm(graph.rest[:, None] - marks[None], axis=2).min(1) / NOSTRIL_M, 0, 1)
    mask = np.clip(graph.spread @ move / FULL_MOVE_M, 0, 1)
    mask *= (1 - nodes.lips) * (1 - nodes.eyes) * (1 - nodes.brows) * (1 - nostril)
    mask = graph.blurred(mask, MASK_ROUNDS) * np.sqrt(max(strength, 0.35)) * np.clip(1.5 * nodes.weight, 0, 1)
    return np.maximum(EXPRESSION_SHARE * mask, np.maximum(lip_spill(head, graph, nodes), nodes.lip_lack))


def lip_spill(head: HeadModel, graph: NodeGraph, nodes: PhotoNodes) -> np.ndarray:
    """(N,) in [0, 1]: skin around the lips on which the photo shows lip. In a smile lips stretch further than the model's."""
    lip = np.clip(graph.spread @ head.regions["lips"] * SPILL_LIP_GAIN, 0, 1)
    return graph.blurred(nodes.lip_seen * (1 - lip), SPILL_ROUNDS) * (1 - lip)


def low_band(graph: NodeGraph, nodes: PhotoNodes, albedo: np.ndarray) -> np.ndarray:
    """(N, 3) natural log of the nodes' albedo (N, 3) without anything as narrow as a fold; on lips that the photo does not show
    as lips, the lips' own."""
    low = graph.blurred(np.log(np.maximum(albedo, 2e-4)), LOW_ROUNDS, nodes.weight * (1 - nodes.lip_seen))
    plain_lip = (nodes.lip_seen > 0.9) & (nodes.lip_region > 0.8) & (nodes.weight > 0.5)
    if plain_lip.sum() >= MIN_LIP_NODES:
        lip = np.log(np.maximum(np.median(albedo[plain_lip], axis=0), 2e-4))
        low = low + nodes.lip_lack[:, None] * (lip - low)
    return low


def folds(albedo: np.ndarray, low: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """(R, 3) natural log of the linear colour ratio that the expression adds to albedo (R, 3) over its low band; mask: (R,)."""
    band = np.clip(np.log(np.maximum(albedo, 2e-4)) - low, -DEEPEST, DEEPEST)
    brightness = band.mean(1, keepdims=True)
    limit = np.where(brightness < 0, KEPT_DARK, KEPT_BRIGHT)
    kept = limit * np.tanh(brightness / limit)
    return (band - kept) * mask[:, None]


def fold_row(fit: FaceFit) -> np.ndarray | None:
    """(52,) weights of the layer's activation, 1 at the photo's own motion and 0 at rest; None for a face at rest."""
    row = np.zeros(len(ARKIT_INDEX), np.float32)
    shapes = list(FOLDING_SHAPES)
    photo = fit.motion.weights[shapes]
    if photo.max() < MIN_SMILE:
        return None
    row[shapes] = photo / ((photo**2).sum() + ACTIVATION_RIDGE)
    return row / float(row @ fit.motion.weights)
