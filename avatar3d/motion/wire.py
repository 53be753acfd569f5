"""The wire format's codec: a motion code to quantised integers, integers to bytes and back, and headers. Sealing is in seal.py.

Every frame is a list of CHANNELS integers. A packet holds them as differences from an earlier frame that it names, or from nothing (a
key frame), through an adaptive binary range coder whose probabilities start anew in each packet: any packet whose reference is there
can be decoded, whatever else was lost. What the bytes mean is in wire_layout.py. Nothing here keeps state or knows a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.motion import wire_layout as layout
from avatar3d.motion.code import MotionCode
from avatar3d.motion.rotation import exponential, logarithm
from avatar3d.motion.wire_layout import COMPACT, HEADERS, MAX_REFERENCE, TAG_BYTES, UNKNOWN_ROUND_TRIP
from avatar3d.motion.wire_model import STARTS

Frame = tuple[int, ...]  # CHANNELS integers
EMPTY: Frame = (0,) * layout.CHANNELS
_STEPS = np.repeat([group.step for group in layout.GROUPS], [group.count for group in layout.GROUPS])
_LOW = np.repeat([group.low for group in layout.GROUPS], [group.count for group in layout.GROUPS])
_HIGH = np.repeat([group.high for group in layout.GROUPS], [group.count for group in layout.GROUPS])
_LOWS, _HIGHS = tuple(map(int, _LOW)), tuple(map(int, _HIGH))
_FAMILY = {name: place * layout.FAMILY_SIZE for place, name in enumerate(layout.FAMILIES)}
_MASK = 0xFFFFFFFF
_BYPASS = -1  # a context of even odds that is never moved
LAYOUT_ID = layout.layout_id()


class Damaged(ValueError):
    """A payload that no encoder writes."""


def quantise(code: MotionCode) -> Frame:
    """The integers nearest to a code, clipped to their bounds; time and sequence go into the header."""
    values = np.concatenate([
        code.weights, logarithm(code.rotation), code.translation, code.gaze.ravel(), code.confidence,
    ])  # fmt: skip
    return tuple(np.clip(np.rint(values / _STEPS), _LOW, _HIGH).astype(int).tolist())


def restore(frame: Frame, time_ns: int, sequence: int) -> MotionCode:
    """The code that a frame stands for; errors within half a step of what was quantised."""
    values = np.array(frame) * _STEPS
    return MotionCode(
        weights=np.minimum(values[:52], 1.0),
        rotation=exponential(values[52:55]),
        translation=values[55:58],
        gaze=values[58:62].reshape(2, 2),
        confidence=values[62:67],
        time_ns=time_ns,
        sequence=sequence,
    )


# --- the range coder


class _Writer:
    """Binary range coder, writing. After Subbotin's carry-less idea, but with the carry: `low` is one exact integer."""

    def __init__(self) -> None:
        self._low, self._range, self._bytes = 0, _MASK, 0
        self._chances = list(STARTS)

    def bit(self, context: int, bit: int) -> int:
        """Write one bit."""
        chance = 1 << (layout.PROBABILITY_BITS - 1) if context < 0 else self._chances[context]
        bound = (self._range >> layout.PROBABILITY_BITS) * chance
        if bit:
            self._low += bound
            self._range -= bound
        else:
            self._range = bound
        if context >= 0:
            self._chances[context] = _moved(chance, bit)
        while self._range < layout.TOP:
            self._low <<= 8
            self._range <<= 8
            self._bytes += 1
        return bit

    def finish(self) -> bytes:
        """The shortest bytes inside the final interval; the reader takes zeros after them."""
        size = 4 + self._bytes
        for zeros in range(8 * size, -1, -8):
            value = -(-self._low >> zeros) << zeros  # low rounded up
            if value < self._low + self._range:
                return value.to_bytes(size, "big")[: size - zeros // 8]
        raise AssertionError("the interval is never empty")


class _Reader:
    """Binary range coder, reading; gives bits for any bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 4
        self._code = int.from_bytes(data[:4].ljust(4, b"\0"), "big")
        self._range = _MASK
        self._chances = list(STARTS)

    def bit(self, context: int, bit: int) -> int:
        """The next bit; the argument is ignored, so that one walk serves both ways."""
        chance = 1 << (layout.PROBABILITY_BITS - 1) if context < 0 else self._chances[context]
        bound = (self._range >> layout.PROBABILITY_BITS) * chance
        if self._code < bound:
            self._range, bit = bound, 0
        else:
            self._code -= bound
            self._range -= bound
            bit = 1
        if context >= 0:
            self._chances[context] = _moved(chance, bit)
        while self._range < layout.TOP:
            following = self._data[self._place] if self._place < len(self._data) else 0
            self._code = (self._code << 8 | following) & _MASK
            self._range = self._range << 8 & _MASK
            self._place += 1
        return bit


def _moved(chance: int, bit: int) -> int:
    """A probability of zero after a bit; it never reaches 0 or 1."""
    if bit:
        return chance - (chance >> layout.ADAPT)
    return chance + ((1 << layout.PROBABILITY_BITS) - chance >> layout.ADAPT)


# --- the model: one walk that writes with a _Writer and reads with a _Reader


def _signed(coder: _Writer | _Reader, zero: int, family: int, sign: int, positive: bool, value: int) -> int:
    """One integer: whether it is 0, its sign (unless known `positive`), its size as an Exp-Golomb code of order 0."""
    if not coder.bit(zero, int(value != 0)):
        return 0
    negative = 0 if positive else coder.bit(family + sign, int(value < 0))
    size = abs(value)
    length = size.bit_length() - 1
    bits = 0
    while bits < layout.MAX_BITS and coder.bit(family + layout.SIGNS + min(bits, layout.PREFIX_BINS - 1), int(bits < length)):
        bits += 1
    result = 1
    for place in range(bits - 1, -1, -1):
        first = place == bits - 1
        context = family + layout.SIGNS + layout.PREFIX_BINS + min(bits, layout.PREFIX_BINS) - 1 if first else _BYPASS
        result = result << 1 | coder.bit(context, size >> place & 1)
    return -result if negative else result


def _class(value: int, bounds: Sequence[int]) -> int:
    return sum(value > bound for bound in bounds)


def walk(coder: _Writer | _Reader, reference: Frame | None, age: int, target: Frame) -> list[int]:
    """Code all channels of a frame; the frame written or read."""
    key = reference is None
    base = EMPTY if reference is None else reference
    frame: list[int] = []
    changes: list[int] = []
    aged = _class(age, layout.AGES)
    before = 0
    for place in range(layout.WEIGHTS):
        partner = layout.PARTNER[place]
        if key:
            guess = frame[partner] if partner >= 0 else 0
            family = layout.KEY_FAMILY[place] * layout.FAMILY_SIZE
            change = _signed(coder, layout.ZERO_KEY + place, family, 0, guess == 0, target[place] - guess)
        else:
            guess = base[place]
            other = changes[partner] if partner >= 0 else 0
            like = 0 if partner < 0 else 1 + min(abs(other), 2)
            zero = layout.ZERO_DELTA + ((aged * 3 + _class(guess, layout.SIZES)) * 4 + like) * 2 + (before != 0)
            family = _FAMILY["weight moving" if abs(before) > 2 or abs(other) > 2 else "weight calm"]
            sign = 0 if other == 0 else 1 if other > 0 else 2
            change = _signed(coder, zero, family, sign, guess == 0, target[place] - guess)
            before = change
        frame.append(guess + change)
        changes.append(change)
    first = layout.WEIGHTS
    for number, group in enumerate(layout.GROUPS[1:]):
        places = range(first, first + group.count)
        first += group.count
        same = {"gaze": layout.SAME_GAZE, "confidence": layout.SAME_CONFIDENCE}.get(group.name)
        if same is not None and not coder.bit(same + key, int(any(target[place] != base[place] for place in places))):
            frame.extend(base[place] for place in places)
            continue
        family = _FAMILY[f"{group.name} key" if key and f"{group.name} key" in _FAMILY else group.name]
        partners = layout.CONFIDENCE_PARTNER if key and group.name == "confidence" else (-1,) * group.count
        for place, partner in zip(places, partners, strict=True):
            zero = layout.ZERO_OTHER + 2 * number + key
            guess = base[place] if partner < 0 else frame[places[partner]]
            frame.append(guess + _signed(coder, zero, family, 0, False, target[place] - guess))
    return frame


def encode(frame: Frame, reference: Frame | None, age: int = 0) -> bytes:
    """The payload of a frame as its difference from a reference `age` packets back, or as a key frame."""
    coder = _Writer()
    walk(coder, reference, age, frame)
    return coder.finish()


def decode(data: bytes, reference: Frame | None, age: int = 0) -> Frame:
    """The frame of a payload; any bytes give one, but Damaged is raised where a value leaves its bounds."""
    coder = _Reader(data)
    frame = tuple(walk(coder, reference, age, EMPTY))
    if any(not low <= value <= high for value, low, high in zip(frame, _LOWS, _HIGHS, strict=True)):
        raise Damaged("a value is out of its bounds")
    return frame


# --- packets


@dataclass(frozen=True)
class Header:
    """The numbers of a header, those that its kind does not have at 0. sequence and time: as sent, in full or the low bytes."""

    kind: int
    sequence: int = 0
    time: int = 0
    reference: int = 0
    session: int = 0
    layout: int = LAYOUT_ID
    round_trip: int = UNKNOWN_ROUND_TRIP
    held: int = 0
    receiver: int = 0
    encrypted: bool = False

    def pack(self) -> bytes:
        """The header's bytes; numbers wider than their field lose their high part."""
        low = self.reference if self.kind == COMPACT else self.kind
        version = layout.ENCRYPTED if self.encrypted else layout.VERSION
        parts = [version << 4 | low] + [getattr(self, field.name) for field in HEADERS[self.kind][1:]]
        return b"".join(
            (part & (1 << 8 * field.bytes) - 1).to_bytes(field.bytes, "big")
            for part, field in zip(parts, HEADERS[self.kind], strict=True)
        )


SEQUENCE_BITS, TIME_BITS = (8 * field.bytes for field in HEADERS[COMPACT][1:])  # that a compact header tells of whole numbers
HEADER_BYTES = {kind: sum(field.bytes for field in fields) for kind, fields in HEADERS.items()}


def _kind(low: int) -> int:
    return COMPACT if low <= MAX_REFERENCE else low


def read_header(packet: bytes) -> Header | None:
    """The header of a packet of this version, or None for anything else. Believe nothing in it before its tag was found right."""
    if not packet or len(packet) > layout.MAX_PACKET:
        return None
    version, low = divmod(packet[0], 16)
    kind = _kind(low)
    if version not in (layout.VERSION, layout.ENCRYPTED) or kind not in HEADERS or len(packet) < HEADER_BYTES[kind] + TAG_BYTES:
        return None
    values, place = {"reference": low if kind == COMPACT else 0}, 1
    for field in HEADERS[kind][1:]:
        values[field.name] = int.from_bytes(packet[place : place + field.bytes], "big")
        place += field.bytes
    return Header(kind, encrypted=version == layout.ENCRYPTED, **values)


def payload(packet: bytes) -> bytes:
    """What lies between the header and the tag of a packet that `read_header` knew."""
    return packet[HEADER_BYTES[_kind(packet[0] & 15)] : -TAG_BYTES]


def whole(low: int, bits: int, near: int) -> int:
    """The number nearest to `near`, not negative, whose low bits are these (RFC 3711, 3.3.1)."""
    span = 1 << bits
    number = near + (low - near + span // 2) % span - span // 2
    return number if number >= 0 else number + span
