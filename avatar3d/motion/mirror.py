"""The mirror image of a motion code: what a person does, as it looks in a mirror."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, MotionCode


def _other_side(name: str) -> str:
    if name.endswith("Left"):
        return name.removesuffix("Left") + "Right"
    return name.removesuffix("Right") + "Left" if name.endswith("Right") else name


_OTHER = np.array([ARKIT_INDEX[_other_side(name)] for name in ARKIT_NAMES])


def mirrored(code: MotionCode) -> MotionCode:
    """The code reflected in the plane x = 0: sides change places, and turns to a side go to the other. Its own inverse."""
    return replace(
        code,
        weights=code.weights[_OTHER],
        rotation=code.rotation * (1.0, -1.0, -1.0, 1.0),
        translation=code.translation * (-1.0, 1.0, 1.0),
        gaze=code.gaze[::-1] * (-1.0, 1.0),
    )
