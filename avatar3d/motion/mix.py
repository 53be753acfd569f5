"""A motion code between two others."""

from __future__ import annotations

import numpy as np

from avatar3d.motion.code import MotionCode
from avatar3d.motion.rotation import blend


def mix(a: MotionCode, b: MotionCode, share: float) -> MotionCode:
    """The motion a share of the way from a (0) to b (1); time and sequence are b's."""
    if share >= 1:
        return b

    def between(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x + share * (y - x)

    return MotionCode(
        weights=between(a.weights, b.weights),
        rotation=blend(a.rotation, b.rotation, share),
        translation=between(a.translation, b.translation),
        gaze=between(a.gaze, b.gaze),
        confidence=between(a.confidence, b.confidence),
        time_ns=b.time_ns,
        sequence=b.sequence,
    )
