"""What a solver knows of ARKit's weights before it sees a face: which pull against each other, and how far they go."""

from __future__ import annotations

import numpy as np

from avatar3d.motion.code import ARKIT_INDEX, WEIGHT_COUNT

OPPOSED_SIGMA = 0.15  # of the lesser of two opposed weights: a jaw does not go left and right at once
# Pairs that pull apart; half their product's penalty in each off-diagonal place of the normal matrix keeps one of them at zero.
OPPOSED = (
    ("jawLeft", "jawRight"), ("mouthLeft", "mouthRight"), ("mouthSmileLeft", "mouthFrownLeft"),
    ("mouthSmileRight", "mouthFrownRight"), ("eyeLookUpLeft", "eyeLookDownLeft"), ("eyeLookUpRight", "eyeLookDownRight"),
    ("eyeLookInLeft", "eyeLookOutLeft"), ("eyeLookInRight", "eyeLookOutRight"), ("eyeBlinkLeft", "eyeWideLeft"),
    ("eyeBlinkRight", "eyeWideRight"),
)  # fmt: skip
# Landmarks cannot tell a rolled lip from a thin one. Rolled, the lip's colour would land on the skin below it.
ROLL_MAX = 0.1


def opposed_penalty() -> np.ndarray:
    """(52, 52) addition to the weights' normal matrix that charges the product of opposed weights."""
    out = np.zeros((WEIGHT_COUNT, WEIGHT_COUNT))
    for first, second in OPPOSED:
        i, j = ARKIT_INDEX[first], ARKIT_INDEX[second]
        out[i, j] = out[j, i] = 1 / OPPOSED_SIGMA**2
        # Descent in a box needs no definiteness, but keeps its direction only with a diagonal that carries the product.
        out[i, i] = out[j, j] = 1 / OPPOSED_SIGMA**2 * 0.25
    return out


def most_weights() -> np.ndarray:
    """(52,) upper bounds of the weights; the lower ones are zero."""
    upper = np.ones(WEIGHT_COUNT)
    upper[[k for name, k in ARKIT_INDEX.items() if name.startswith("mouthRoll")]] = ROLL_MAX
    return upper
