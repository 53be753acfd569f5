"""A person's own expression shapes: the head model's, bent so that the photo's motion leads to the photo's very face."""

from __future__ import annotations

import numpy as np

from avatar3d.head.model import LASHES, MOUTH_BAG, SKIN, HeadModel
from avatar3d.motion.code import ARKIT_INDEX

# Lids must close to the line and looks turn no skin of their own: these stay the model's.
KEPT_STEMS = ("eyeBlink", "eyeWide", "eyeLook", "tongueOut")
MOVING_M = 0.0015  # a shape that moves a vertex this far takes half of its full share there
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
