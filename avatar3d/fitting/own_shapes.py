"""A person's own expression shapes: the head model's, bent so that the photo's motion leads to the photo's very face."""

from __future__ import annotations

import numpy as np

from avatar3d.head.mediapipe import LID_MIDDLES
from avatar3d.head.model import LASHES, MOUTH_BAG, SKIN, HeadModel
from avatar3d.motion.code import ARKIT_INDEX

# Lids must close to the line and looks turn no skin of their own: these stay the model's.
KEPT_STEMS = ("eyeBlink", "eyeWide", "eyeLook", "tongueOut")
MOVING_M = 0.0015  # a shape that moves a vertex this far takes half of its full share there
# Landmarks of LID_MIDDLES this far past each other are lids that show no eye between
# them, from in front, on the model and on fitted heads alike (they meet at 0.85 of the model's blink, at 0.75 to 0.85 of theirs).
SHUT_M = 0.0005
SHUT_RANGE = (0.5, 1.3)  # of the model's blink; outside it the landmarks are wrong
FLOOR = 0.08  # of the weights' squares: a faint expression says little of what its full strength looks like


def own_shapes(head: HeadModel, neutral: np.ndarray, weights: np.ndarray, photo: np.ndarray) -> np.ndarray:
    """(52, V, 3) f32 expression shapes with which `weights` (52,) bring neutral vertices (V, 3) to the photo's (V, 3), metres.

    What the model's shapes miss is shared out among the active ones in proportion to weight and to how far each moves the
    vertex, so a shape never moves skin that it left alone.
    """
    moves = np.isin(head.vertex_part, (SKIN, MOUTH_BAG, LASHES))
    active = [k for name, k in ARKIT_INDEX.items() if weights[k] > 0 and not name.startswith(KEPT_STEMS)]
    shapes = head.expression.copy()
    if not active:
        return shapes
    missed = np.where(moves[:, None], photo - neutral - head.expression_offsets(weights), 0)
    reach = np.linalg.norm(shapes[active], axis=2)
    reach = reach / (reach + MOVING_M)
    strength = weights[active, None] * reach
    shapes[active] += (strength / (FLOOR + (weights[active, None] * strength).sum(0)))[..., None] * missed
    return shapes


def shut_lids(head: HeadModel, neutral: np.ndarray, shapes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(shapes, weights) with eyeBlink shapes that just shut this person's eyes at 1, and the weights that mean the same face.

    neutral (V, 3), shapes (52, V, 3), metres; weights (52,). So a blink of one means shut lids on every head, whoever was tracked.
    """
    shapes, weights = shapes.copy(), np.array(weights)
    for side, pair in zip(("Left", "Right"), LID_MIDDLES, strict=True):
        k = ARKIT_INDEX["eyeBlink" + side]
        (upper, lower), (up, down) = (head.landmark_points(points)[list(pair), 1] for points in (neutral, shapes[k]))
        share = float(np.clip((upper - lower + SHUT_M) / max(down - up, 1e-6), *SHUT_RANGE))
        shapes[k] *= share
        weights[k] = min(weights[k] / share, 1.0)
    return shapes, weights
