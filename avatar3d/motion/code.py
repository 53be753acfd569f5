"""MotionCode: the 52 ARKit weights, head pose, gaze and confidences of one instant; holds no history."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from avatar3d.errors import InputError

# Order of ARFaceAnchor.BlendShapeLocation as Live Link Face writes it; Left and Right are the subject's own.
ARKIT_NAMES: tuple[str, ...] = (
    "eyeBlinkLeft", "eyeLookDownLeft", "eyeLookInLeft", "eyeLookOutLeft", "eyeLookUpLeft", "eyeSquintLeft",
    "eyeWideLeft", "eyeBlinkRight", "eyeLookDownRight", "eyeLookInRight", "eyeLookOutRight", "eyeLookUpRight",
    "eyeSquintRight", "eyeWideRight", "jawForward", "jawRight", "jawLeft", "jawOpen", "mouthClose", "mouthFunnel",
    "mouthPucker", "mouthRight", "mouthLeft", "mouthSmileLeft", "mouthSmileRight", "mouthFrownLeft",
    "mouthFrownRight", "mouthDimpleLeft", "mouthDimpleRight", "mouthStretchLeft", "mouthStretchRight",
    "mouthRollLower", "mouthRollUpper", "mouthShrugLower", "mouthShrugUpper", "mouthPressLeft", "mouthPressRight",
    "mouthLowerDownLeft", "mouthLowerDownRight", "mouthUpperUpLeft", "mouthUpperUpRight", "browDownLeft",
    "browDownRight", "browInnerUp", "browOuterUpLeft", "browOuterUpRight", "cheekPuff", "cheekSquintLeft",
    "cheekSquintRight", "noseSneerLeft", "noseSneerRight", "tongueOut",
)  # fmt: skip
WEIGHT_COUNT = len(ARKIT_NAMES)
ARKIT_INDEX: dict[str, int] = {name: index for index, name in enumerate(ARKIT_NAMES)}
CONFIDENCE_REGIONS: tuple[str, ...] = ("brow", "eyes", "mouth", "tongue", "head")
LOOK_MAX_RAD = 0.5  # eye turn at an eyeLook weight of one
# Places of the eyeLook weights in ARKit's order: (Down, In, Out, Up) of the left and of the right eye.
LOOK_INDICES = ((1, 2, 3, 4), (8, 9, 10, 11))
NECK_M = np.array([0.0, -0.12, -0.095])  # the default head's neck joint, about which a head turns, head frame


def region_of(name: str) -> str:
    """The confidence region an ARKit weight belongs to."""
    if name.startswith("brow"):
        return "brow"
    if name.startswith("eye"):
        return "eyes"
    return "tongue" if name == "tongueOut" else "mouth"


WEIGHT_REGION = np.array([CONFIDENCE_REGIONS.index(region_of(name)) for name in ARKIT_NAMES])  # (52,)


def look_angles(weights: np.ndarray) -> np.ndarray:
    """(2, 2) yaw toward +X and pitch toward +Y, radians, that the eyeLook weights (52,) ask of [left, right] eye.

    An eye turns by this plus `MotionCode.gaze`. A source that measures both stores the rest of the measured angle as gaze, so
    that the lids follow the weights and the eyeball the measurement.
    """
    angles = np.zeros((2, 2))
    for eye, (down, inward, outward, up) in enumerate(LOOK_INDICES):
        away = LOOK_MAX_RAD if eye == 0 else -LOOK_MAX_RAD  # the left eye's way out is +X
        angles[eye] = away * (weights[outward] - weights[inward]), LOOK_MAX_RAD * (weights[up] - weights[down])
    return angles


def _vector(values: object, length: int, what: str) -> np.ndarray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} is a {type(values).__name__}, expected {length} numbers (by name: from_expression)") from None
    if array.shape != (length,):
        raise InputError(f"{what} has shape {array.shape}, expected ({length},)")
    if not np.isfinite(array).all():
        raise InputError(f"{what} holds a value that is not finite; repair it at the source")
    array.setflags(write=False)
    return array


@dataclass(frozen=True)
class MotionCode:
    """One instant of motion; without arguments a neutral face that looks ahead, at time 0.

    `from_expression` takes weights by name, `turned` turns the head, `dataclasses.replace` changes the rest. Whatever is given is
    copied to read-only float64.

    Attributes
    ----------
    weights
        (52,) ARKit weights in [0, 1] in the order of ARKIT_NAMES; values outside are clipped.
    rotation
        (4,) unit quaternion xyzw, head to world.
    translation
        (3,) metres, world.
    gaze
        (2, 2) of left and right eye yaw toward +X and pitch toward +Y, radians, relative to the head, beyond what the eyeLook
        weights ask for (`look_angles`); their sum is the line of sight.
    confidence
        (5,) in [0, 1] for CONFIDENCE_REGIONS.
    time_ns
        Monotonic capture time.
    sequence
        The source's count.

    Raises
    ------
    avatar3d.errors.InputError
        A wrong shape, a value that is not finite, or a quaternion of zero length.
    """

    weights: np.ndarray = field(default_factory=lambda: np.zeros(WEIGHT_COUNT))
    rotation: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 0.0, 1.0]))
    translation: np.ndarray = field(default_factory=lambda: np.zeros(3))
    gaze: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    confidence: np.ndarray = field(default_factory=lambda: np.ones(5))
    time_ns: int = 0
    sequence: int = 0

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        weights = np.clip(_vector(self.weights, WEIGHT_COUNT, "the motion code's weights"), 0.0, 1.0)
        weights.setflags(write=False)
        set_(self, "weights", weights)
        rotation = _vector(self.rotation, 4, "the motion code's rotation")
        length = float(np.linalg.norm(rotation))
        if length < 1e-6:
            raise InputError("the motion code's rotation is a quaternion of length 0; expected a unit quaternion xyzw")
        rotation = rotation / length
        rotation.setflags(write=False)
        set_(self, "rotation", rotation)
        set_(self, "translation", _vector(self.translation, 3, "the motion code's translation"))
        gaze = _vector(np.asarray(self.gaze, dtype=np.float64).reshape(-1), 4, "the motion code's gaze").reshape(2, 2)
        set_(self, "gaze", gaze)
        set_(self, "confidence", _vector(self.confidence, 5, "the motion code's confidence"))

    @classmethod
    def from_expression(cls, expression: dict[str, float]) -> MotionCode:
        """A motion code from {ARKit name: weight}; raises InputError naming an unknown name or a weight outside [0, 1]."""
        weights = np.zeros(WEIGHT_COUNT)
        for name, value in expression.items():
            if name not in ARKIT_INDEX:
                raise InputError(f"unknown expression {name!r}; expected one of the 52 ARKit names, such as jawOpen")
            if not 0.0 <= value <= 1.0:
                raise InputError(f"expression {name}={value:g} is outside [0, 1]")
            weights[ARKIT_INDEX[name]] = value
        return cls(weights=weights)

    def turned(self, yaw_rad: float = 0.0, pitch_rad: float = 0.0, roll_rad: float = 0.0) -> MotionCode:
        """The same code with the head turned so: yaw toward +X (the subject's left), then pitch up, then roll from +X to +Y.

        The head turns about the neck joint of the avatar that it moves.
        """
        return replace(self, rotation=head_rotation(yaw_rad, pitch_rad, roll_rad))

    def with_weights(self, weights: np.ndarray) -> MotionCode:
        """The same code with other weights, (52,); raises InputError as the class does."""
        return replace(self, weights=weights)

    def to_json(self) -> dict[str, object]:
        """Plain lists and numbers, weights by name where they are not zero."""
        return {
            "weights": {n: round(float(w), 5) for n, w in zip(ARKIT_NAMES, self.weights, strict=True) if w > 1e-5},
            "rotation": [float(v) for v in self.rotation],
            "translation": [float(v) for v in self.translation],
            "gaze": self.gaze.tolist(),
            "confidence": [float(v) for v in self.confidence],
        }


def quaternion_matrix(rotation: np.ndarray) -> np.ndarray:
    """(3, 3) rotation matrix of a unit quaternion xyzw."""
    x, y, z, w = rotation
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def head_angles(rotation: np.ndarray) -> tuple[float, float, float]:
    """(yaw, pitch, roll) in radians of a unit quaternion xyzw, yaw outermost: inverse of `head_rotation`."""
    matrix = quaternion_matrix(rotation)
    yaw = math.atan2(matrix[0, 2], matrix[2, 2])
    pitch = math.asin(float(np.clip(matrix[1, 2], -1.0, 1.0)))
    return yaw, pitch, math.atan2(matrix[1, 0], matrix[1, 1])


def head_rotation(yaw: float, pitch: float, roll: float) -> np.ndarray:
    """Unit quaternion xyzw of turning by yaw toward +X, then pitch toward +Y, then roll, radians."""
    sy, cy = math.sin(yaw / 2), math.cos(yaw / 2)
    sp, cp = math.sin(-pitch / 2), math.cos(pitch / 2)
    sr, cr = math.sin(roll / 2), math.cos(roll / 2)
    return np.array([
        cy * sp * cr + sy * cp * sr,
        sy * cp * cr - cy * sp * sr,
        cy * cp * sr - sy * sp * cr,
        cy * cp * cr + sy * sp * sr,
    ])  # fmt: skip
