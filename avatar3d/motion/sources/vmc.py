"""`vmc:[HOST:]PORT`: the Virtual Motion Capture protocol over OSC, as VSeeFace, VMagicMirror, Warudo and others send it.

`/VMC/Ext/Blend/Val string float` and `/VMC/Ext/Blend/Apply`; `/VMC/Ext/Bone/Pos string p.xyz q.xyzw` (protocol.vmc.info,
marionette). Blend names: ARKit's own ("perfect sync"), without regard to case, and the presets of VRM 0 and 1, which carry less; of
a weight that both give the larger counts, and names of a kind that has not come for a while beside the other are left out. Other
clips are counted. Bones are local rotations in Unity's axes (left-handed, +X the avatar's right): the head's turn is
Neck · Head, without the body's.
"""

from __future__ import annotations

import numpy as np

from avatar3d.motion.code import (
    ARKIT_INDEX,
    ARKIT_NAMES,
    LOOK_MAX_RAD,
    WEIGHT_COUNT,
    MotionCode,
    look_angles,
    quaternion_matrix,
)
from avatar3d.motion.rotation import IDENTITY, multiply
from avatar3d.motion.sources.base import DatagramSource, Spec
from avatar3d.motion.sources.osc_packet import messages, need_osc, number
from avatar3d.motion.validation import MotionValidator

DEFAULT_PORT = 39_539
_ARKIT_LOWER = {name.lower(): place for place, name in enumerate(ARKIT_NAMES)}
# Presets of VRM 0.x and 1.0 (VRMC_vrm expressions) as ARKit weights; vowels by what the lips do.
_VOWELS = {
    "a": {"jawOpen": 0.7}, "i": {"jawOpen": 0.15, "mouthStretchLeft": 0.5, "mouthStretchRight": 0.5},
    "u": {"jawOpen": 0.15, "mouthPucker": 0.6}, "e": {"jawOpen": 0.35, "mouthStretchLeft": 0.3, "mouthStretchRight": 0.3},
    "o": {"jawOpen": 0.4, "mouthFunnel": 0.6},
}  # fmt: skip
_SMILE = {"mouthSmileLeft": 0.8, "mouthSmileRight": 0.8, "cheekSquintLeft": 0.4, "cheekSquintRight": 0.4}
_ANGRY = {"browDownLeft": 0.8, "browDownRight": 0.8, "noseSneerLeft": 0.3, "noseSneerRight": 0.3}
_SAD = {"browInnerUp": 0.7, "mouthFrownLeft": 0.7, "mouthFrownRight": 0.7}
PRESETS: dict[str, dict[str, float]] = {
    **_VOWELS, **dict(zip(("aa", "ih", "ou", "ee", "oh"), (_VOWELS[v] for v in "aiueo"), strict=True)),
    "blink": {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0}, "blink_l": {"eyeBlinkLeft": 1.0}, "blink_r": {"eyeBlinkRight": 1.0},
    "blinkleft": {"eyeBlinkLeft": 1.0}, "blinkright": {"eyeBlinkRight": 1.0},
    "joy": _SMILE, "happy": _SMILE, "fun": {"mouthSmileLeft": 0.5, "mouthSmileRight": 0.5}, "relaxed": {"browInnerUp": 0.2},
    "angry": _ANGRY, "sorrow": _SAD, "sad": _SAD,
    "surprised": {"eyeWideLeft": 0.7, "eyeWideRight": 0.7, "browInnerUp": 0.7, "jawOpen": 0.3},
    "lookup": {"eyeLookUpLeft": 1.0, "eyeLookUpRight": 1.0}, "lookdown": {"eyeLookDownLeft": 1.0, "eyeLookDownRight": 1.0},
    "lookleft": {"eyeLookOutLeft": 1.0, "eyeLookInRight": 1.0}, "lookright": {"eyeLookInLeft": 1.0, "eyeLookOutRight": 1.0},
}  # fmt: skip
SILENT_NS = 1_000_000_000  # behind the other, after which a kind of names counts as no longer sent
_BONES = ("Neck", "Head", "LeftEye", "RightEye")


class VmcParser:
    """The blends and bones of the frame being received; a fixed number of them."""

    partial = True

    def __init__(self, validator: MotionValidator) -> None:
        need_osc()
        self._validator = validator
        self._exact: dict[int, float] = {}  # by place in ARKit's order
        self._preset: dict[str, float] = {}
        self._exact_ns = self._preset_ns = 0  # when each kind last came
        self._bones: dict[str, np.ndarray] = {}
        self._sends_apply = False

    def __call__(self, data: bytes, now_ns: int) -> MotionCode | None:
        """The code after one packet that ends a frame: at Blend/Apply, or at each packet of a sender that has none."""
        apply = changed = False
        for address, arguments in messages(data):
            if address == "/VMC/Ext/Blend/Val" and len(arguments) == 2:
                changed = self._blend(arguments[0], number(arguments[1]), now_ns) or changed
            elif address == "/VMC/Ext/Bone/Pos" and len(arguments) == 8:
                changed = self._bone(arguments[0], [number(value) for value in arguments[4:]]) or changed
            elif address == "/VMC/Ext/Blend/Apply":
                apply = self._sends_apply = True
        if not (apply or (changed and not self._sends_apply)) or not (self._exact or self._preset or self._bones):
            return None
        return self._validator.admit(self._weights(), self._head(), None, self._gaze(), time_ns=now_ns)

    def _blend(self, name: object, value: float | None, now_ns: int) -> bool:
        if not isinstance(name, str) or value is None or not np.isfinite(value):
            return False
        key = name.lower()
        if key in _ARKIT_LOWER:
            self._exact[_ARKIT_LOWER[key]], self._exact_ns = value, now_ns
            return True
        if key in PRESETS:
            self._preset[key], self._preset_ns = value, now_ns
            return True
        self._validator.not_understood(name)
        return False

    def _bone(self, name: object, values: list[float | None]) -> bool:
        if name not in _BONES or any(value is None or not np.isfinite(value) for value in values):
            return False
        x, y, z, w = (float(value) for value in values if value is not None)
        if not 0.5 < x * x + y * y + z * z + w * w < 2:
            return False
        # Unity's X points to the avatar's right, ours to its left: mirrored in x, a turn about x keeps its sense.
        self._bones[str(name)] = np.array([x, -y, -z, w])
        return True

    def _weights(self) -> np.ndarray:
        weights = np.zeros(WEIGHT_COUNT)
        ahead_ns = self._exact_ns - self._preset_ns
        if ahead_ns <= SILENT_NS:
            for key, value in self._preset.items():
                for name, share in PRESETS[key].items():
                    weights[ARKIT_INDEX[name]] += value * share
        if ahead_ns >= -SILENT_NS:
            for place, value in self._exact.items():
                weights[place] = max(weights[place], value)
        return np.clip(weights, 0.0, 1.0)

    def _head(self) -> np.ndarray | None:
        if "Head" not in self._bones:
            return None
        return multiply(self._bones.get("Neck", IDENTITY), self._bones["Head"])

    def _gaze(self) -> np.ndarray | None:
        if "LeftEye" not in self._bones or "RightEye" not in self._bones:
            return None
        toward = np.stack([quaternion_matrix(_unit(self._bones[name]))[:, 2] for name in ("LeftEye", "RightEye")])
        whole = np.stack([np.arctan2(toward[:, 0], toward[:, 2]), np.arcsin(np.clip(toward[:, 1], -1, 1))], axis=1)
        # Unlike a phone, these senders turn the bones by what the look blends say already when they send both.
        looks = look_angles(self._weights())
        return whole - looks if np.abs(whole).max() < 2 * LOOK_MAX_RAD else None


def _unit(rotation: np.ndarray) -> np.ndarray:
    return rotation / np.linalg.norm(rotation)


def open_vmc(spec: Spec) -> DatagramSource:
    """Listen for a VMC performer."""
    spec.only()
    return DatagramSource(spec.address(DEFAULT_PORT), VmcParser, spec.text)
