"""`livelink:PORT`: the UDP packets of the Live Link Face app, and making them for tests and for other receivers.

Wire, all big-endian, as Unreal's AppleARKitLiveLinkSource reads it: u8 version (6), string device id, string subject name,
i32 frame number, f32 sub-frame, i32 rate numerator, i32 rate denominator, u8 61, 61 × f32. A string is an i32 length and so
many bytes; a negative length counts UTF-16 units. Packets without a face end after the rate. The 61 are the 52 weights in
Unreal's order, which has jawLeft before jawRight and mouthLeft before mouthRight (the app's CSV has them the other way round),
and the nine angles of the CSV (avatar3d.motion.csv).
"""

from __future__ import annotations

import struct

import numpy as np

from avatar3d.motion.code import ARKIT_INDEX, WEIGHT_COUNT, MotionCode
from avatar3d.motion.csv import angle_columns, from_angle_columns
from avatar3d.motion.sources.base import ClockOffset, DatagramSource, Spec
from avatar3d.motion.validation import MotionValidator

DEFAULT_PORT = 11_111
VERSION = 6
VALUES = 61
MAX_NAME = 256  # characters, the engine's own bound
MAX_PACKET = 1 + 2 * (4 + 2 * MAX_NAME) + 16 + 1 + 4 * VALUES
_FROM_UNREAL = np.arange(WEIGHT_COUNT)
for _left, _right in (("jawLeft", "jawRight"), ("mouthLeft", "mouthRight")):
    _FROM_UNREAL[[ARKIT_INDEX[_left], ARKIT_INDEX[_right]]] = ARKIT_INDEX[_right], ARKIT_INDEX[_left]


class LiveLinkParser:
    """Packets of one subject: the one named, else the first seen. State: that name and a clock offset."""

    partial = False

    def __init__(self, validator: MotionValidator, subject: str | None = None) -> None:
        self._validator = validator
        self.subject = subject
        self._clock = ClockOffset()

    def __call__(self, data: bytes, now_ns: int) -> MotionCode | None:
        """The code of one packet, timed by the phone's frame time on our clock; None for anything else."""
        parts = unpack(data)
        if parts is None:
            return None
        name, seconds, values = parts
        if self.subject is None:
            self.subject = name
        if name != self.subject:
            return None
        weights = values[:WEIGHT_COUNT][_FROM_UNREAL]
        angles = values[WEIGHT_COUNT:]
        rotation = gaze = None
        if np.isfinite(angles).all() and np.abs(angles).max() < 100 and np.isfinite(weights).all():
            rotation, gaze = from_angle_columns(angles.tolist(), np.clip(weights, 0, 1))
        time_ns = self._clock.local(round(seconds * 1e9), now_ns) if seconds is not None else now_ns
        return self._validator.admit(weights, rotation, None, gaze, time_ns=time_ns)


def unpack(data: bytes) -> tuple[str, float | None, np.ndarray] | None:
    """(subject, frame time in seconds or None, (61,) float64) of a packet with a face; None for anything else."""
    if len(data) > MAX_PACKET or len(data) < 1 or data[0] != VERSION:
        return None
    device = _string(data, 1)
    subject = _string(data, device[1]) if device else None
    if subject is None or len(data) != subject[1] + 17 + 4 * VALUES:
        return None
    frame, part, numerator, denominator, count = struct.unpack_from(">ifiiB", data, subject[1])
    if count != VALUES:
        return None
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = np.frombuffer(data, ">f4", VALUES, subject[1] + 17).astype(np.float64)
    timed = numerator > 0 and denominator > 0 and 0 <= part < 1.001
    return subject[0], (frame + part) * denominator / numerator if timed else None, values


def pack(code: MotionCode, subject: str = "avatar3d", device: str = "0" * 36, fps: int = 60) -> bytes:
    """The packet the app would send for a code; translation and confidence have no place in it."""
    weights = code.weights.astype(np.float32)
    values = np.concatenate([weights[_FROM_UNREAL], angle_columns(code, weights.astype(np.float64))])
    frames = code.time_ns * fps / 1e9
    head = bytes([VERSION]) + _packed_string(device) + _packed_string(subject)
    # Frame numbers count from midnight, as the app's do.
    rate = struct.pack(">ifiiB", int(frames) % (86_400 * fps), frames % 1, fps, 1, VALUES)
    return head + rate + values.astype(">f4").tobytes()


def _string(data: bytes, start: int) -> tuple[str, int] | None:
    """(text, place after it) of a length-prefixed string, or None where there is none."""
    if len(data) < start + 4:
        return None
    length = struct.unpack_from(">i", data, start)[0]
    size = length if length >= 0 else -2 * length
    if not 0 <= size <= 2 * MAX_NAME or len(data) < start + 4 + size:
        return None
    encoding = "utf-8" if length >= 0 else "utf-16-be"
    return data[start + 4 : start + 4 + size].decode(encoding, "replace").rstrip("\0"), start + 4 + size


def _packed_string(text: str) -> bytes:
    content = text.encode()[:MAX_NAME]
    return struct.pack(">i", len(content)) + content


def open_livelink(spec: Spec) -> DatagramSource:
    """Listen for the app; `?subject=NAME` picks one of several phones."""
    spec.only("subject")
    return DatagramSource(
        spec.address(DEFAULT_PORT), lambda validator: LiveLinkParser(validator, spec.options.get("subject")), spec.text
    )
