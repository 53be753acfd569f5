"""What the tests of streams share: a moving head, and a link in simulated time that loses, delays, doubles and reorders."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.csv import head_rotation
from avatar3d.net.jitter import JitterBuffer
from avatar3d.net.receiver import Receiver
from avatar3d.net.sender import Sender

TOKEN = b"a token for tests"
UNIX_NS = 1_790_000_000_000_000_000
PERIOD_NS = 16_666_667
JAW = ARKIT_INDEX["jawOpen"]


def head(time_ns: int) -> MotionCode:
    """A head that nods, turns, speaks and smiles, at a time of its clock."""
    t = time_ns / 1e9
    weights = np.zeros(52)
    weights[JAW] = 0.3 + 0.25 * np.sin(2 * np.pi * 2.1 * t)
    weights[ARKIT_INDEX["browInnerUp"]] = 0.3 + 0.2 * np.sin(2 * np.pi * 0.3 * t)
    for side in ("Left", "Right"):
        weights[ARKIT_INDEX[f"mouthSmile{side}"]] = 0.4 + 0.3 * np.sin(2 * np.pi * 0.5 * t)
    turn = head_rotation(0.3 * np.sin(2 * np.pi * 0.4 * t), 0.15 * np.sin(2 * np.pi * 0.7 * t), 0.05 * np.sin(t))
    place = np.array([0.03 * np.sin(2 * np.pi * 0.3 * t), 0.0, 0.02 * np.sin(t)])
    return MotionCode(weights, turn, place, time_ns=time_ns)


def sender(at_ns: int = 0) -> Sender:
    """A sender that starts at a time of the simulated clock, which began at UNIX_NS."""
    return Sender(TOKEN, at_ns, UNIX_NS + at_ns)


def receiver(clock: dict[str, int] | None = None, token: bytes = TOKEN) -> Receiver:
    """A receiver on the simulated clock, whose time is clock["now"]."""
    clock = {"now": 0} if clock is None else clock
    return Receiver(token, wall_ns=lambda: UNIX_NS + clock["now"])


class Link:
    """Packets in flight. loss, twice: shares lost and doubled; delay_ns and up to jitter_ns more before each arrives."""

    def __init__(self, seed: int, loss: float = 0.0, twice: float = 0.0, delay_ns: int = 0, jitter_ns: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._loss, self._twice, self._delay_ns, self._jitter_ns = loss, twice, delay_ns, jitter_ns
        self._flying: list[tuple[int, int, bytes]] = []
        self._count = 0

    def throw(self, packet: bytes, now_ns: int) -> None:
        for _ in range(1 + (self._random.random() < self._twice)):
            if self._random.random() >= self._loss:
                self._count += 1
                when = now_ns + self._delay_ns + round(self._random.uniform(0, self._jitter_ns))
                heapq.heappush(self._flying, (when, self._count, packet))

    def arrived(self, now_ns: int) -> Iterator[tuple[bytes, int]]:
        while self._flying and self._flying[0][0] <= now_ns:
            when, _, packet = heapq.heappop(self._flying)
            yield packet, when


def play(
    seconds: float, link: Link, back: Link | None = None, warm_s: float = 4.0
) -> tuple[JitterBuffer, Receiver, list[tuple[int, MotionCode | None]]]:
    """A stream of `head` over a link at 60 Hz; the worst stall and jump count from warm_s on. back: for acknowledgements."""
    clock = {"now": 0}
    source, sink, buffer = sender(), receiver(clock), JitterBuffer()
    shown: list[tuple[int, MotionCode | None]] = []
    for number in range(round(seconds * 60)):
        now = clock["now"] = number * PERIOD_NS
        link.throw(source.packet(head(now), now), now)
        for packet, when in link.arrived(now + PERIOD_NS // 2):
            for arrival in sink.accept(packet, when):
                buffer.put(arrival)
            for answer in (sink.acknowledgement(when), sink.request()):
                if back is not None and answer is not None:
                    back.throw(answer, when)
        if back is not None:
            for answer, when in back.arrived(now + PERIOD_NS // 2):
                source.answered(answer, when)
        shown.append((now + PERIOD_NS // 2, buffer.at(now + PERIOD_NS // 2)))
        if number == round(warm_s * 60):
            buffer.stall_ns, buffer.jump_frames = 0, 0.0
    return buffer, sink, shown
