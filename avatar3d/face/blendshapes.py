"""Expression weights from landmarks: MediaPipe's blendshape network, answered in ARKit's order."""

from __future__ import annotations

import numpy as np

from avatar3d.face.networks import Network
from avatar3d.head.mediapipe import BLENDSHAPE_INPUT
from avatar3d.motion.code import ARKIT_INDEX

# The network's 52 outputs. It has no tongueOut; its first output is unused.
OUTPUT_NAMES: tuple[str, ...] = (
    "_neutral", "browDownLeft", "browDownRight", "browInnerUp", "browOuterUpLeft", "browOuterUpRight",
    "cheekPuff", "cheekSquintLeft", "cheekSquintRight", "eyeBlinkLeft", "eyeBlinkRight", "eyeLookDownLeft",
    "eyeLookDownRight", "eyeLookInLeft", "eyeLookInRight", "eyeLookOutLeft", "eyeLookOutRight",
    "eyeLookUpLeft", "eyeLookUpRight", "eyeSquintLeft", "eyeSquintRight", "eyeWideLeft", "eyeWideRight",
    "jawForward", "jawLeft", "jawOpen", "jawRight", "mouthClose", "mouthDimpleLeft", "mouthDimpleRight",
    "mouthFrownLeft", "mouthFrownRight", "mouthFunnel", "mouthLeft", "mouthLowerDownLeft",
    "mouthLowerDownRight", "mouthPressLeft", "mouthPressRight", "mouthPucker", "mouthRight",
    "mouthRollLower", "mouthRollUpper", "mouthShrugLower", "mouthShrugUpper", "mouthSmileLeft",
    "mouthSmileRight", "mouthStretchLeft", "mouthStretchRight", "mouthUpperUpLeft", "mouthUpperUpRight",
    "noseSneerLeft", "noseSneerRight",
)  # fmt: skip

_FROM = np.array([index for index, name in enumerate(OUTPUT_NAMES) if name in ARKIT_INDEX])
_TO = np.array([ARKIT_INDEX[OUTPUT_NAMES[index]] for index in _FROM])


def blendshapes_of(network: Network, points_px: np.ndarray) -> np.ndarray:
    """(52,) ARKit weights in [0, 1], order ARKIT_NAMES, from (478, 2 or 3) landmarks in pixels; tongueOut is 0."""
    points = np.asarray(points_px, dtype=np.float32)[list(BLENDSHAPE_INPUT), :2]
    scores = network.run(points[None])[0].ravel()
    weights = np.zeros(len(ARKIT_INDEX))
    weights[_TO] = np.clip(scores[_FROM], 0.0, 1.0)
    return weights
