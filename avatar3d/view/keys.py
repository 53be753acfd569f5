"""What the keyboard does: expressions while a key is held, the head moved by arrows, things switched; pure, knows no window."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from avatar3d.motion.code import WEIGHT_COUNT, MotionCode

FACES: dict[str, dict[str, float]] = {
    "1": {"mouthSmileLeft": 0.8, "mouthSmileRight": 0.8, "cheekSquintLeft": 0.4, "cheekSquintRight": 0.4},
    "2": {"jawOpen": 0.7},
    "3": {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0},
    "4": {"eyeBlinkLeft": 1.0, "mouthSmileLeft": 0.4},
    "5": {"browInnerUp": 0.8, "browOuterUpLeft": 0.8, "browOuterUpRight": 0.8, "eyeWideLeft": 0.5, "eyeWideRight": 0.5},
    "6": {"browDownLeft": 0.9, "browDownRight": 0.9, "noseSneerLeft": 0.4, "noseSneerRight": 0.4},
    "7": {"mouthPucker": 0.9, "mouthFunnel": 0.3},
    "8": {"mouthFrownLeft": 0.8, "mouthFrownRight": 0.8, "browInnerUp": 0.6},
    "9": {"tongueOut": 0.9, "jawOpen": 0.4},
}
_WEIGHTS = {key: MotionCode.from_expression(face).weights for key, face in FACES.items()}
FACE_S = 0.09  # time constant in which a face comes and goes
# Right, up, nearer, in the viewer's sense.
MOVES: dict[str, tuple[float, float, float]] = {
    "left": (-1, 0, 0), "right": (1, 0, 0), "up": (0, 1, 0), "down": (0, -1, 0), "page up": (0, 0, -1), "page down": (0, 0, 1),
}  # fmt: skip
MOVE_M_S = 0.25


def face_weights(now: np.ndarray, held: Iterable[str], seconds: float) -> np.ndarray:
    """The keyboard's weights (52,) a moment later, on their way to those of the held keys."""
    wanted = np.zeros(WEIGHT_COUNT)
    for key in held:
        wanted = np.maximum(wanted, _WEIGHTS.get(key, 0.0))
    return now + (1 - math.exp(-max(seconds, 0.0) / FACE_S)) * (wanted - now)


def shift_m(held: Iterable[str], seconds: float) -> np.ndarray:
    """(3,) how far the held keys move the head in that time: right, up, nearer."""
    moved = np.zeros(3)
    for key in held:
        moved += MOVES.get(key, (0.0, 0.0, 0.0))
    return moved * MOVE_M_S * seconds


def with_face(motion: MotionCode, weights: np.ndarray) -> MotionCode:
    """The motion with the keyboard's weights (52,) where they are stronger."""
    return motion.with_weights(np.maximum(motion.weights, weights)) if weights.any() else motion
