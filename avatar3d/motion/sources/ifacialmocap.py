"""`ifacialmocap:[HOST:]PORT`: the text packets of the iFacialMocap app (also Facemotion3d and MeowFace), versions 1 and 2.

Fields between `|`: `name-percent` or, in version 2, `name&percent`, names as ARKit's with _L and _R; `=head#rx,ry,rz,x,y,z`,
`rightEye#rx,ry,rz`, `leftEye#…`: degrees about ARKit's axes (+X the subject's left, +Y up, +Z out of the face), so rx turns the
face DOWN; metres. Phones set to some languages write decimal commas, which are read where they leave no doubt. The app sends once it
has been greeted: `?phone=ADDRESS` does that.
"""

from __future__ import annotations

import ipaddress
import math

import numpy as np

from avatar3d.errors import InputError
from avatar3d.motion.code import (
    ARKIT_INDEX,
    NECK_M,
    WEIGHT_COUNT,
    MotionCode,
    head_angles,
    head_rotation,
    look_angles,
    quaternion_matrix,
)
from avatar3d.motion.sources.base import DatagramSource, Spec
from avatar3d.motion.validation import MotionValidator

DEFAULT_PORT = 49_983
GREETING = b"iFacialMocap_sahuasouryya9218sauhuiayeta91555dy3719|sendDataVersion=v2"
MAX_PACKET = 8192  # bytes; a real one has 960
MAX_FIELDS = 256
GROUPS = {"head": 6, "leftEye": 3, "rightEye": 3}  # numbers of each


class IFacialMocapParser:
    """State: where the head was first, from which translation counts."""

    partial = False

    def __init__(self, validator: MotionValidator) -> None:
        self._validator = validator
        self._rest: np.ndarray | None = None

    def __call__(self, data: bytes, now_ns: int) -> MotionCode | None:
        """The code of one packet; None unless it holds at least one ARKit weight."""
        if len(data) > MAX_PACKET:
            return None
        weights, found = np.zeros(WEIGHT_COUNT), 0
        groups: dict[str, list[float]] = {}
        for part in data.decode("utf-8", "replace").split("|", MAX_FIELDS)[:MAX_FIELDS]:
            name, hash_sign, numbers = part.strip().partition("#")
            if hash_sign:
                group = name.lstrip("=")
                if group in GROUPS:
                    groups[group] = _numbers(numbers, GROUPS[group])
                if not groups.get(group):
                    self._validator.not_understood(group)
                continue
            # Percentages are never negative in version 1, whose sign is the separator.
            name, sign, value = part.strip().partition("&" if "&" in part else "-")
            place = ARKIT_INDEX.get(_arkit(name)) if sign else None
            if place is not None:
                weights[place] = _number(value.replace(",", ".")) / 100
                found += 1
            elif sign:
                self._validator.not_understood(name)
        if not found:
            return None
        rotation = translation = gaze = None
        head = groups.get("head", [])
        if len(head) >= 3 and all(map(math.isfinite, head[:3])):
            down, yaw, roll = np.radians(np.clip(head[:3], -360, 360))
            rotation = head_rotation(yaw, -down, roll)
            if len(head) >= 6 and np.isfinite(head[3:6]).all() and np.abs(head[3:6]).max() < 100:
                neck = np.array(head[3:6]) + quaternion_matrix(rotation) @ NECK_M
                self._rest = neck if self._rest is None else self._rest
                translation = neck - self._rest
        eyes = [groups.get(name, []) for name in ("leftEye", "rightEye")]
        if all(len(eye) >= 2 and all(map(math.isfinite, eye[:2])) for eye in eyes):
            whole = np.radians([[eye[1], -eye[0]] for eye in eyes])
            gaze = whole - look_angles(np.nan_to_num(np.clip(weights, 0, 1)))
        return self._validator.admit(weights, rotation, translation, gaze, time_ns=now_ns)


def pack(code: MotionCode, version: int = 2) -> bytes:
    """The packet the app would send for a code whose head stands still; for tests and for other receivers."""
    separator = "&" if version == 2 else "-"
    fields = [f"{_short(name)}{separator}{round(100 * code.weights[place])}" for name, place in ARKIT_INDEX.items()]
    yaw, pitch, roll = np.degrees(head_angles(code.rotation))
    left, right = np.degrees(code.gaze + look_angles(np.round(code.weights, 2)))
    fields.append("=head#" + ",".join(f"{value:.6f}" for value in (-pitch, yaw, roll, *code.translation)))
    fields += [f"{name}#{-eye[1]:.6f},{eye[0]:.6f},0" for name, eye in (("rightEye", right), ("leftEye", left))]
    return "|".join(fields).encode()


def _arkit(name: str) -> str:
    if name.endswith("_L"):
        return name[:-2] + "Left"
    return name[:-2] + "Right" if name.endswith("_R") else name


def _short(name: str) -> str:
    if name in ("jawLeft", "jawRight", "mouthLeft", "mouthRight"):
        return name
    return (
        name.removesuffix("Left") + "_L"
        if name.endswith("Left")
        else (name.removesuffix("Right") + "_R" if name.endswith("Right") else name)
    )


def _numbers(text: str, count: int) -> list[float]:
    """The numbers between commas, twice as many parts where each has a decimal comma; none where nobody can say which is which."""
    parts = text.split(",", 2 * count + 1)
    if len(parts) == 2 * count and "." not in text:
        parts = [f"{whole}.{rest}" for whole, rest in zip(parts[::2], parts[1::2], strict=True)]
    elif len(parts) > count and "." not in text:
        return []
    return [_number(part) for part in parts[:count]]


def _number(text: str) -> float:
    try:
        return float(text[:32])
    except ValueError:
        return math.nan


def open_ifacialmocap(spec: Spec) -> DatagramSource:
    """Listen for the app; `?phone=ADDRESS` first asks that phone to send here (name 0.0.0.0 as the host then)."""
    spec.only("phone")
    phone = spec.options.get("phone")
    if phone is not None:
        try:
            ipaddress.ip_address(phone)
        except ValueError as error:
            raise InputError(f"{spec.text!r}: phone={phone} is not an IP address") from error
    source = DatagramSource(spec.address(DEFAULT_PORT), IFacialMocapParser, spec.text)
    if phone is not None:
        source.send(GREETING, (phone, DEFAULT_PORT))
    return source
