"""The receiving end of one head's stream: packets in, codes out, whatever was lost, doubled, swapped, forged or replayed."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from avatar3d.motion import wire
from avatar3d.motion.code import MotionCode
from avatar3d.motion.seal import Seal, can_encrypt
from avatar3d.motion.wire import Frame, Header
from avatar3d.motion.wire_layout import (
    ACK,
    COMPACT,
    EPOCH_UNIX_S,
    FULL,
    RECEIVER_BYTES,
    REQUEST,
    SALT_BITS,
    TICK_NS,
    UNKNOWN_ROUND_TRIP,
)

WINDOW = 1 << (wire.SEQUENCE_BITS - 1)  # sequences behind the newest in which a packet can still be told from its replay
KEPT_FRAMES = 64  # from which later packets may differ; with those that come late, a second's worth
MAX_WAITING = 32  # packets that wait for the frame from which they differ
LOST_AFTER_NS = 2_000_000_000  # after such a silence low bytes say nothing: only a full header is believed
# Between capture and arrival by both machines' wall clocks: bounds replay into another receiver of packets that are not bound to one.
MAX_AGE_S = 10.0
# Packets whose tag is checked, a second: from where the stream comes, from each other address, and from all addresses beyond the
# first MAX_ADDRESSES together. A tag takes some microseconds, a frame a fifth of a millisecond.
OWN_RATE, OTHER_RATE = 240.0, 30.0
# On a link that does not say where packets come from, junk and stream share one look at their tags; only what fits draws on OWN_RATE.
UNTOLD_RATE = 4000.0
MAX_ADDRESSES = 64
FORGET_ADDRESSES_NS = 10_000_000_000
BURST_S = 0.5  # of a rate, let in at once


class _Bucket:
    """Lets in `rate` a second and `rate · BURST_S` at once."""

    def __init__(self, rate: float) -> None:
        self._rate, self._level, self._at_ns = rate, rate * BURST_S, 0

    def take(self, now_ns: int) -> bool:
        passed = max(0, now_ns - self._at_ns) / 1e9
        self._level = min(self._rate * BURST_S, self._level + passed * self._rate)
        self._at_ns = now_ns
        if self._level < 1:
            return False
        self._level -= 1
        return True


@dataclass(frozen=True)
class Arrival:
    """A code with its capture time on the SENDER's clock (ns since its start), and when it arrived on ours (monotonic ns)."""

    code: MotionCode
    arrived_ns: int


class Receiver:
    """Follows one stream at a time: the session that started last of those that know the token.

    counts: packets by what became of them (COUNTS). session: of the stream, None before the first. round_trip_ns: as the sender
    measured it, None where it has no answers. max_age_s: None believes captures of any age. wall_ns: the wall clock. plain: whether
    packets that are not encrypted are believed. scope: the head's name of the link.

    A receiver asks the sender to make tags for it alone (`request`); once a packet came that does, no other one of that session is
    believed. Where the request does not get through, packets are believed that any owner of the token would, up to max_age_s old.
    """

    COUNTS = (
        "decoded", "foreign", "flooded", "forged", "replayed", "stale", "other layout", "lost reference", "damaged",
        "plain", "encrypted",
    )  # fmt: skip

    def __init__(
        self, token: bytes, max_age_s: float | None = MAX_AGE_S, wall_ns: Callable[[], int] = time.time_ns, plain: bool = True,
        scope: bytes = b"",
    ) -> None:  # fmt: skip
        self._seal, self._plain, self._deciphers = Seal(token, scope), plain, can_encrypt()
        self._number = secrets.randbits(8 * RECEIVER_BYTES)
        self._bound_seal = self._seal.bound(self._number)
        self._asked: int | None = None  # session to be asked for tags of our own
        self._max_age_s, self._wall_ns = max_age_s, wall_ns
        self.counts: Counter[str] = Counter()
        self.session: int | None = None
        self.sessions = 0
        self.round_trip_ns: int | None = None
        self.bytes = self.packets = 0  # of what was believed
        self._gone = 0  # lost in sessions before this one
        self._own, self._untold = _Bucket(OWN_RATE), _Bucket(UNTOLD_RATE)
        self._others: dict[object, _Bucket] = {}
        self._others_since_ns = 0
        self._address: object = None
        self._clear(0)

    def _clear(self, first: int) -> None:
        self._newest = first - 1
        self._first, self._before = first, self.packets
        self._time = 0
        self._heard_ns = 0
        self._seen = 0  # bit n: sequence newest - n came
        self._frames: dict[int, Frame] = {}
        self._waiting: dict[int, tuple[Header, bytes, int]] = {}
        self._answer: tuple[int, int] | None = None
        self._decoded = -1
        self.bound = False  # whether the session's packets are made for us alone

    @property
    def newest(self) -> int:
        """The highest sequence of the session so far, -1 before the first."""
        return self._newest

    @property
    def time(self) -> int:
        """Capture time of the newest packet, ticks since the sender started."""
        return self._time

    @property
    def kept(self) -> int:
        """Frames and packets held; bounded by KEPT_FRAMES and MAX_WAITING."""
        return len(self._frames) + len(self._waiting)

    @property
    def lost(self) -> int:
        """Packets that were sent after the first that came of their session, and never came."""
        return self._gone + max(0, self._newest - self._first + 1 - (self.packets - self._before))

    def accept(self, packet: bytes, now_ns: int, address: object = None) -> list[Arrival]:
        """The codes that a packet makes known: its own and those that waited for it; none for anything not to be believed."""
        header = wire.read_header(packet)
        if header is None or header.kind in (ACK, REQUEST):
            self.counts["foreign"] += 1
            return []
        if header.kind == COMPACT and (self.session is None or now_ns - self._heard_ns > LOST_AFTER_NS):
            self.counts["lost reference"] += 1
            return []
        if not self._bucket(address, now_ns).take(now_ns):
            self.counts["flooded"] += 1
            return []
        header = self._believed(header, packet, now_ns)
        if header is None:
            return []
        if address is None and not self._own.take(now_ns):
            self.counts["flooded"] += 1
            return []
        self._address, self._heard_ns = address, now_ns
        self.bytes += len(packet)
        self.packets += 1
        data = wire.payload(packet)
        return self._decode(
            header, self._seal.cipher(header.session, header.sequence, data) if header.encrypted else data, now_ns
        )

    def acknowledgement(self, now_ns: int) -> bytes | None:
        """The packet to send back, or None while there is nothing new to acknowledge."""
        if self._answer is None or self.session is None:
            return None
        sequence, arrived_ns = self._answer
        self._answer = None
        held = min(max(0, now_ns - arrived_ns) // TICK_NS, 0xFFFF)
        body = Header(ACK, sequence, session=self.session, held=held).pack()
        return body + (self._bound_seal if self.bound else self._seal).tag(self.session, sequence, 0, body)

    def request(self) -> bytes | None:
        """The packet that asks the sender of the last packet for tags of our own, or None while that is not to be asked.

        It is shorter than what it answers, so that nobody gains by having it sent to another.
        """
        session, self._asked = self._asked, None
        if session is None:
            return None
        body = Header(REQUEST, 0, session=session, receiver=self._number).pack()
        return body + self._seal.tag(session, 0, 0, body)

    def _bucket(self, address: object, now_ns: int) -> _Bucket:
        """The budget that an address draws on."""
        if address is None:
            return self._untold
        if self.session is not None and address == self._address:
            return self._own
        if now_ns - self._others_since_ns > FORGET_ADDRESSES_NS:
            self._others.clear()
            self._others_since_ns = now_ns
        place = address if address in self._others or len(self._others) < MAX_ADDRESSES else None
        return self._others.setdefault(place, _Bucket(OTHER_RATE))

    def _believed(self, header: Header, packet: bytes, now_ns: int) -> Header | None:
        """The header with whole numbers, after its tag was found right and new; what was found is counted."""
        if header.kind == COMPACT:
            session = self.session or 0
            sequence = wire.whole(header.sequence, wire.SEQUENCE_BITS, max(self._newest, 0))
            when = wire.whole(header.time, wire.TIME_BITS, self._time)
        else:
            session, sequence, when = header.session, header.sequence, header.time
            if header.layout != wire.LAYOUT_ID:
                self.counts["other layout"] += 1
                return None
        later = self.session is None or session > self.session
        if not later and (session != self.session or self._came(sequence)):
            self.counts["replayed"] += 1
            return None
        fits = sequence < 1 << 32 and when < 1 << 40
        bound = fits and self._bound_seal.fits(session, sequence, when, packet)
        if header.kind == FULL and not bound:
            self._asked = (
                session  # made for nobody, for another receiver or for us before we were started again, or not authentic
            )
        if not bound and not (fits and (later or not self.bound) and self._seal.fits(session, sequence, when, packet)):
            self.counts["forged"] += 1
            return None
        if not (self._deciphers if header.encrypted else self._plain):
            self.counts["encrypted" if header.encrypted else "plain"] += 1
            return None
        if header.kind == FULL:
            age_s = self._wall_ns() / 1e9 - (EPOCH_UNIX_S + (session >> SALT_BITS) / 1e3 + when * TICK_NS / 1e9)
            if self._max_age_s is not None and abs(age_s) > self._max_age_s:
                self.counts["stale"] += 1
                return None
            if later:
                self.session = session
                self.sessions += 1
                self._gone = self.lost
                self._clear(sequence)
            self.round_trip_ns = None if header.round_trip == UNKNOWN_ROUND_TRIP else header.round_trip * TICK_NS
        self.bound = self.bound or bound
        self._mark(sequence)
        if sequence == self._newest:
            self._time = when
        return Header(header.kind, sequence, when, header.reference, session, encrypted=header.encrypted)

    def _came(self, sequence: int) -> bool:
        back = self._newest - sequence
        return back >= WINDOW or (back >= 0 and bool(self._seen >> back & 1))

    def _mark(self, sequence: int) -> None:
        ahead = sequence - self._newest
        if ahead > 0:
            self._seen = ((self._seen << ahead) | 1) & ((1 << WINDOW) - 1) if ahead < WINDOW else 1
            self._newest = sequence
        else:
            self._seen |= 1 << -ahead

    def _decode(self, header: Header, data: bytes, now_ns: int) -> list[Arrival]:
        """Decode a packet, and those that waited for it; or let it wait for its reference."""
        found: list[Arrival] = []
        ready = [(header, data, now_ns)]
        while ready:
            header, data, arrived_ns = ready.pop()
            wanted = header.sequence - header.reference
            reference = self._frames.get(wanted) if header.reference else None
            if header.reference and reference is None:
                self._wait(header, data, arrived_ns)
                continue
            try:
                frame = wire.decode(data, reference, header.reference)
            except wire.Damaged:
                self.counts["damaged"] += 1
                continue
            self.counts["decoded"] += 1
            self._frames[header.sequence] = frame
            if len(self._frames) > KEPT_FRAMES:
                del self._frames[min(self._frames)]
            found.append(Arrival(wire.restore(frame, header.time * TICK_NS, header.sequence), arrived_ns))
            if header.sequence > self._decoded:
                self._decoded, self._answer = header.sequence, (header.sequence, arrived_ns)
            dependent = [n for n, (other, _, _) in self._waiting.items() if n - other.reference == header.sequence]
            ready.extend(self._waiting.pop(n) for n in dependent)
        return found

    def _wait(self, header: Header, data: bytes, arrived_ns: int) -> None:
        self._waiting[header.sequence] = (header, data, arrived_ns)
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[min(self._waiting)]
            self.counts["lost reference"] += 1
