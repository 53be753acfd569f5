"""The one definition of the wire format: headers, channels, steps and the coder's tables; no code that reads or writes.

The codec (wire.py), the browser's decoder (web/wire_layout.js), the page's tables and the golden vectors all come from it, the last
three by tools/wire_tables.py. Change anything here and `layout_id` changes with it, so that old and new never mistake each other.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES
from avatar3d.motion.filter import GROUPS as WEIGHT_GROUPS
from avatar3d.motion.filter import WEIGHT_GROUP
from avatar3d.motion.wire_model import STARTS

VERSION = 2  # of packets in the clear; encrypted ones say ENCRYPTED in its place
ENCRYPTED = 3
# Of HMAC-SHA256. A forger needs 2**39 tries on average for one frame: eight years at all that is let in (net/receiver.py).
TAG_BYTES = 5
KEY_LABEL = b"avatar3d wire 2"  # salt of scrypt, whose cost comes next (RFC 7914): 32 MiB and 50 to 100 ms for each token tried
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 15, 8, 1
SALT_BITS = 24  # random part of a session
RECEIVER_BYTES = 8  # random number by which a receiver asks for packets that no other one believes
SESSION_BYTES, SEQUENCE_BYTES, TIME_BYTES = 8, 4, 5  # whole numbers as tags and ciphers take them
EPOCH_UNIX_S = 1_704_067_200  # 2024-01-01 UTC; sessions are counted from it in milliseconds
TICK_NS = 100_000  # of times and round trips
# Low half of the first byte: how many packets back the frame is from which a compact packet differs (0: a key frame, from none),
# or a kind that has no such reference.
COMPACT, FULL, ACK, REQUEST = 0, 13, 14, 15
MAX_REFERENCE = 12


@dataclass(frozen=True)
class Field:
    """One big-endian unsigned number of a header. bytes: its width. what: its meaning, for the page."""

    name: str
    bytes: int
    what: str


@dataclass(frozen=True)
class Group:
    """Channels that are quantised alike. step: of the quantised integers, in `unit`. low, high: bounds of the integers."""

    name: str
    count: int
    step: float
    low: int
    high: int
    unit: str
    what: str


def _kind(low: str) -> Field:
    return Field("kind", 1, f"{VERSION} (version; {ENCRYPTED}: encrypted) in the high half; in the low half {low}")


HEADERS: dict[int, tuple[Field, ...]] = {
    COMPACT: (
        _kind(
            f"0 to {MAX_REFERENCE}: how many packets back the frame is from which this one differs, 0: a key frame, from none"
        ),
        Field("sequence", 1, "low byte of the packet's number"),
        Field("time", 2, "low two bytes of the capture time"),
    ),
    FULL: (
        _kind(f"{FULL}; always a key frame"),
        Field("layout", 2, "checksum of this definition; a packet of another one is refused"),
        Field(
            "session", SESSION_BYTES, "when the sender started, milliseconds since 2024-01-01 UTC; the low 24 bits are random"
        ),
        Field("sequence", SEQUENCE_BYTES, "the packet's number"),
        Field("time", TIME_BYTES, "capture time, 0.1 ms since the sender started"),
        Field("round_trip", 2, "shortest round trip that acknowledgements showed, 0.1 ms; all ones: not known"),
    ),
    ACK: (
        _kind(f"{ACK}; nothing but the tag follows"),
        Field("session", SALT_BITS // 8, "low bytes of the session answered"),
        Field("sequence", SEQUENCE_BYTES, "newest frame that was decoded"),
        Field("held", 2, "from its arrival to this answer, 0.1 ms"),
    ),
    REQUEST: (
        _kind(f"{REQUEST}; nothing but the tag follows"),
        Field("session", SALT_BITS // 8, "low bytes of the session asked for"),
        Field("receiver", RECEIVER_BYTES, "random number of the receiver: tags are to be made for it alone from now on"),
    ),
}
HEADER_NAMES = {COMPACT: "compact", FULL: "full", ACK: "acknowledgement", REQUEST: "request"}
UNKNOWN_ROUND_TRIP = 0xFFFF
MAX_PACKET = 320  # bytes; the longest possible frame takes less

# A step is twice the error that is allowed: 1/255 a weight; 0.1° a turn over three axes, and a gaze over two.
GROUPS: tuple[Group, ...] = (
    Group("weights", 52, 2 / 255, 0, 128, "1", "ARKit's order, at most 1"),
    Group("rotation", 3, math.radians(0.2) / math.sqrt(3), -3200, 3200, "rad", "rotation vector, head to world"),
    Group("translation", 3, 0.001, -10_000, 10_000, "m", "world"),
    Group("gaze", 4, math.radians(0.2) / math.sqrt(2), -485, 485, "rad", "left yaw, left pitch, right yaw, right pitch"),
    Group("confidence", 5, 1 / 15, 0, 15, "1", "brow, eyes, mouth, tongue, head"),
)
CHANNELS = sum(group.count for group in GROUPS)  # 67
WEIGHTS = GROUPS[0].count

# The weight from which a later one is foretold, or -1: the left side's for the right, and for sideways looks that of the same turn.
_TOGETHER = {"eyeLookInRight": "eyeLookOutLeft", "eyeLookOutRight": "eyeLookInLeft", "jawRight": "", "mouthRight": ""}
PARTNER: tuple[int, ...] = tuple(
    ARKIT_INDEX.get(_TOGETHER.get(name, name.removesuffix("Right") + "Left"), -1) if name.endswith("Right") else -1
    for name in ARKIT_NAMES
)

# The family of contexts that each weight of a key frame belongs to.
KEY_FAMILY: tuple[int, ...] = tuple(
    int(group) if partner < 0 else len(WEIGHT_GROUPS) for group, partner in zip(WEIGHT_GROUP, PARTNER, strict=True)
)

# The confidence from which a later one of the same key frame is foretold, or -1: most regions are seen as well as the brow.
CONFIDENCE_PARTNER = (-1, 0, 0, -1, 0)

# Contexts: places in the table of probabilities.
#   signed value, one family each: "sign", then PREFIX_BINS of the length's unary code, then as many of the bit after it.
FAMILIES = (
    *(f"key {group}" for group in WEIGHT_GROUPS), "key mirrored", "weight calm", "weight moving",
    "rotation key", "rotation", "translation key", "translation", "gaze", "confidence",
)  # fmt: skip
PREFIX_BINS = 8
MAX_BITS = 14  # of a size after its first: nothing is larger than 2**15
SIGNS = 3  # by the partner's own sign: none, up, down
FAMILY_SIZE = SIGNS + 2 * PREFIX_BINS
ZERO_KEY = len(FAMILIES) * FAMILY_SIZE  # + weight's place
ZERO_DELTA = ZERO_KEY + WEIGHTS  # + ((age · 3 + size of the reference) · 4 + partner's change) · 2 + change of the one before
ZERO_OTHER = ZERO_DELTA + 3 * 3 * 4 * 2  # + 2 · (group - 1) + whether it is a key frame
SAME_GAZE = ZERO_OTHER + 2 * (len(GROUPS) - 1)
SAME_CONFIDENCE = SAME_GAZE + 2
CONTEXTS = SAME_CONFIDENCE + 2
AGES = (2, 8)  # packets back: up to 2, up to 8, more
SIZES = (0, 3)  # of the reference's weight: 0, up to 3, more

# The binary range coder: 32 bits, probabilities of a zero in 12 bits, each moved by 1/2**ADAPT of its error.
PROBABILITY_BITS = 12
ADAPT = 5
TOP = 1 << 24


def layout_id() -> int:
    """Sixteen bits that change with the definition."""
    described = repr((
        VERSION, ENCRYPTED, TAG_BYTES, TICK_NS, HEADERS, GROUPS, PARTNER, CONFIDENCE_PARTNER, KEY_FAMILY, FAMILIES,
        PREFIX_BINS, MAX_BITS, SIGNS, AGES, SIZES, PROBABILITY_BITS, ADAPT, STARTS,
    ))  # fmt: skip
    return zlib.crc32(described.encode()) & 0xFFFF
