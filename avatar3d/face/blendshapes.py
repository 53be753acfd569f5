"""Expression weights from landmarks: MediaPipe's blendshape network, answered in ARKit's order."""

from __future__ import annotations

import numpy as np

from avatar3d.face.networks import Network
from avatar3d.motion.code import ARKIT_INDEX

# The landmarks the network takes, in this order (MediaPipe, face_blendshapes_graph.cc).
INPUT_LANDMARKS = np.array([
    0, 1, 4, 5, 6, 7, 8, 10, 13, 14, 17, 21, 33, 37, 39, 40, 46, 52, 53, 54, 55, 58, 61, 63, 65, 66, 67, 70,
    78, 80, 81, 82, 84, 87, 88, 91, 93, 95, 103, 105, 107, 109, 127, 132, 133, 136, 144, 145, 146, 148, 149,
    150, 152, 153, 154, 155, 157, 158, 159, 160, 161, 162, 163, 168, 172, 173, 176, 178, 181, 185, 191, 195,
    197, 234, 246, 249, 251, 263, 267, 269, 270, 276, 282, 283, 284, 285, 288, 291, 293, 295, 296, 297, 300,
    308, 310, 311, 312, 314, 317, 318, 321, 323, 324, 332, 334, 336, 338, 356, 361, 362, 365, 373, 374, 375,
    377, 378, 379, 380, 381, 382, 384, 385, 386, 387, 388, 389, 390, 397, 398, 400, 402, 405, 409, 415, 454,
    466, 468, 469, 470, 471, 472, 473, 474, 475, 476, 477,
])  # fmt: skip

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
    points = np.asarray(points_px, dtype=np.float32)[INPUT_LANDMARKS, :2]
    scores = network.run(points[None])[0].ravel()
    weights = np.zeros(len(ARKIT_INDEX))
    weights[_TO] = np.clip(scores[_FROM], 0.0, 1.0)
    return weights
