"""`osc:[HOST:]PORT`: Unified Expressions as VRCFaceTracking sends them to VRChat, and VRChat's own eye tracking addresses.

`/avatar/parameters/…/v2/NAME float`, where NAME is an expression, one of the combined parameters
(configs/vocabularies/unified.yaml) or of the eyes: EyeLeftX (right of the user is +), EyeLeftY (up is +), EyeX and EyeY for both,
EyeOpenLeft, EyeLidLeft (0.75 is open, 1 wide); `/tracking/eye/LeftRightPitchYaw` four degrees (down and right are +) and
`/tracking/eye/EyesClosedAmount`. Parameters packed into booleans (NAME1, NAME2, NAME4, NAMENegative) are not read: turn them
off in the sender, or use the float ones. Other names are counted.
"""

from __future__ import annotations

import math

import numpy as np

from avatar3d.motion.code import MotionCode
from avatar3d.motion.sources.base import DatagramSource, Spec
from avatar3d.motion.sources.osc_packet import messages, need_osc, number
from avatar3d.motion.validation import MotionValidator
from avatar3d.motion.vocabulary import vocabulary

DEFAULT_PORT = 9000  # where VRChat listens
LID_OPEN = 0.75  # EyeLid at an open, not widened eye
_SIDES = ("Left", "Right")
_PREFIX = "/avatar/parameters/"


class UnifiedParser:
    """The last value of every known parameter; of bounded size, since other names are not kept."""

    partial = True

    def __init__(self, validator: MotionValidator) -> None:
        need_osc()
        self._validator = validator
        self._vocabulary = vocabulary("unified")
        self._index = self._vocabulary.index
        self._values = np.zeros(len(self._vocabulary.names))
        self._gaze: np.ndarray | None = None

    def __call__(self, data: bytes, now_ns: int) -> MotionCode | None:
        """The code after one packet; None when it holds no parameter that is known."""
        changed = False
        for address, arguments in messages(data):
            values = [number(argument) for argument in arguments]
            if not values or any(value is None or not math.isfinite(value) for value in values):
                self._validator.not_understood(address)
                continue
            known = self._take(address, [value for value in values if value is not None])
            if not known:
                self._validator.not_understood(address.removeprefix(_PREFIX))
            changed = known or changed
        if not changed:
            return None
        return self._validator.admit(self._vocabulary.to_arkit(self._values), gaze=self._gaze, time_ns=now_ns)

    def _take(self, address: str, values: list[float]) -> bool:
        if address == "/tracking/eye/LeftRightPitchYaw" and len(values) == 4:
            down_left, right_left, down_right, right_right = np.radians(np.clip(values, -90, 90))
            self._gaze = np.array([[-right_left, -down_left], [-right_right, -down_right]])
            return True
        if address == "/tracking/eye/EyesClosedAmount":
            return self._set(["EyeClosedLeft", "EyeClosedRight"], values[0])
        if not address.startswith(_PREFIX):
            return False
        return self._parameter(address.rpartition("/")[2], values[0])

    def _parameter(self, name: str, value: float) -> bool:
        if name in self._index:
            return self._set([name], value)
        if name in self._vocabulary.combined:
            plus, minus = self._vocabulary.combined[name]
            return self._set(plus, max(value, 0.0)) | self._set(minus, max(-value, 0.0))
        for eye, side in enumerate(_SIDES):
            if name == f"EyeOpen{side}":
                return self._set([f"EyeClosed{side}"], 1 - value)
            if name == f"EyeLid{side}":
                wide = max(0.0, (value - LID_OPEN) / (1 - LID_OPEN))
                return self._set([f"EyeClosed{side}"], 1 - value / LID_OPEN) | self._set([f"EyeWide{side}"], wide)
            if name in (f"Eye{side}X", f"Eye{side}Y"):
                if self._gaze is None:
                    self._gaze = np.zeros((2, 2))
                across = name.endswith("X")
                self._gaze[eye, 0 if across else 1] = math.atan(max(-2.0, min(2.0, -value if across else value)))
                return True
        if name in ("EyeOpen", "EyeLid", "EyeX", "EyeY"):
            one, axis = (name, "") if name.endswith(("Open", "Lid")) else ("Eye", name[-1])
            return self._parameter(f"{one}Left{axis}", value) | self._parameter(f"{one}Right{axis}", value)
        return False

    def _set(self, names: list[str] | tuple[str, ...], value: float) -> bool:
        for name in names:
            self._values[self._index[name]] = min(max(value, 0.0), 1.0)
        return True


def open_osc(spec: Spec) -> DatagramSource:
    """Listen for Unified Expressions."""
    spec.only()
    return DatagramSource(spec.address(DEFAULT_PORT), UnifiedParser, spec.text)
