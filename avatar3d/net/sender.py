"""The sending end of one head's stream: codes in, packets out; touches no network and no clock of its own."""

from __future__ import annotations

import secrets
import time

from avatar3d.motion import wire
from avatar3d.motion.code import MotionCode
from avatar3d.motion.seal import Seal, need_encryption
from avatar3d.motion.wire import Frame, Header
from avatar3d.motion.wire_layout import (
    ACK,
    COMPACT,
    EPOCH_UNIX_S,
    FULL,
    MAX_REFERENCE,
    REQUEST,
    SALT_BITS,
    TICK_NS,
    UNKNOWN_ROUND_TRIP,
)

# A late joiner, or one that lost its way, waits for a full header: the next key frame's after the first, at the latest the second.
FULL_EVERY_NS, FULL_LATEST_NS = 300_000_000, 400_000_000
# A frame refers to an acknowledged one of the last CLOSE, else to the last anchor: a key frame sent every ANCHOR_EVERY packets. A lost
# packet thus costs at most the one after it, and nothing where acknowledgements come back soon.
CLOSE = 3
ANCHOR_EVERY = 2
# Where answers come but to fewer than this share of the last KEPT packets, the link loses or shuffles them: a frame then refers to an
# acknowledged one however old, else to none, so that each packet that arrives can be used at once.
ROUGH_BELOW = 0.5
KEPT = 64  # frames sent, for acknowledgements that come late
ROUND_TRIP_LEAK = 0.01  # share by which the shortest round trip is let go with each answer


class Sender:
    """One session. started_ns: monotonic; started_unix_ns: the same instant on the wall clock. scope: the head's name of the link.

    salt: the session's random part, given for tests only. Raises WorkError for `encrypted` without the package cryptography.
    """

    def __init__(
        self, token: bytes, started_ns: int | None = None, started_unix_ns: int | None = None, encrypted: bool = False,
        scope: bytes = b"", salt: int | None = None,
    ) -> None:  # fmt: skip
        if encrypted:
            need_encryption()
        self._own_seal, self._encrypted = Seal(token, scope), encrypted
        self._seal = self._own_seal  # of packets: bound to a receiver once it asked
        self._receiver: int | None = None
        self._started_ns = time.monotonic_ns() if started_ns is None else started_ns
        unix_ns = time.time_ns() if started_unix_ns is None else started_unix_ns
        started_ms = max(0, unix_ns // 1_000_000 - EPOCH_UNIX_S * 1000) & 0xFFFFFFFFFF
        self.session = started_ms << SALT_BITS | (secrets.randbits(SALT_BITS) if salt is None else salt)
        self.sequence = -1  # of the last packet
        self._frames: dict[int, Frame] = {}
        self._sent_ns: dict[int, int] = {}
        self._anchor = self._acknowledged = -1
        self._answered: set[int] = set()  # of those in _sent_ns
        self._full_ns: int | None = None
        self.round_trip_ns: float | None = None

    @property
    def _rough(self) -> bool:
        return 0 < len(self._answered) < ROUGH_BELOW * KEPT and self.sequence > 2 * KEPT

    def packet(self, code: MotionCode, now_ns: int) -> bytes:
        """The next packet, of a code captured at `code.time_ns` and sent now, both on the monotonic clock."""
        self.sequence += 1
        frame = wire.quantise(code)
        ticks = max(0, (code.time_ns - self._started_ns) // TICK_NS)
        reference = -1
        if self._acknowledged >= 0 and self.sequence - self._acknowledged <= (MAX_REFERENCE if self._rough else CLOSE):
            reference = self._acknowledged
        elif not self._rough and self._anchor >= 0 and self.sequence - self._anchor < ANCHOR_EVERY:
            reference = self._anchor
        since_ns = FULL_LATEST_NS if self._full_ns is None else now_ns - self._full_ns
        if since_ns >= FULL_LATEST_NS or (since_ns >= FULL_EVERY_NS and reference < 0):
            self._full_ns, reference = now_ns, -1
            round_trip = UNKNOWN_ROUND_TRIP
            if self.round_trip_ns is not None:
                round_trip = min(round(self.round_trip_ns / TICK_NS), UNKNOWN_ROUND_TRIP - 1)
            header = Header(FULL, self.sequence, ticks, session=self.session, round_trip=round_trip, encrypted=self._encrypted)
        else:
            age = 0 if reference < 0 else self.sequence - reference
            header = Header(COMPACT, self.sequence, ticks, age, encrypted=self._encrypted)
        if reference < 0:
            self._anchor = self.sequence
        data = wire.encode(frame, self._frames.get(reference), header.reference)
        body = header.pack() + (self._seal.cipher(self.session, self.sequence, data) if self._encrypted else data)
        self._frames[self.sequence], self._sent_ns[self.sequence] = frame, now_ns
        for kept in (self._frames, self._sent_ns):
            kept.pop(self.sequence - KEPT, None)
        self._answered.discard(self.sequence - KEPT)
        return body + self._seal.tag(self.session, self.sequence, ticks, body)

    def _bind(self, header: Header, packet: bytes) -> bool:
        """Make tags for the receiver that asks from now on, beginning with a full header."""
        if not self._own_seal.fits(self.session, 0, 0, packet):
            return False
        if header.receiver != self._receiver:
            self._receiver, self._seal = header.receiver, self._own_seal.bound(header.receiver)
            self._full_ns, self._acknowledged = None, -1
            self._answered.clear()
        return True

    def answered(self, packet: bytes, now_ns: int) -> bool:
        """Take an acknowledgement or a receiver's request; False, and nothing else, for what is not one of this session."""
        header = wire.read_header(packet)
        if header is None or header.kind not in (ACK, REQUEST) or header.session != self.session & ((1 << SALT_BITS) - 1):
            return False
        if header.kind == REQUEST:
            return self._bind(header, packet)
        sent_ns = self._sent_ns.get(header.sequence)
        if sent_ns is None or not self._seal.fits(self.session, header.sequence, 0, packet):
            return False
        self._answered.add(header.sequence)
        if header.sequence > self._acknowledged:
            self._acknowledged = header.sequence
            trip = max(0, now_ns - sent_ns - header.held * TICK_NS)
            known = self.round_trip_ns
            self.round_trip_ns = trip if known is None else min(trip, known + (trip - known) * ROUND_TRIP_LEAK)
        return True
