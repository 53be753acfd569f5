"""`net:LINK` as a motion source: a stream received, put in order and played evenly, such as `avatar3d xr --motion net:9310`."""

from __future__ import annotations

import time

from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.motion.seal import need_encryption
from avatar3d.motion.sources.base import SourceBase, Spec
from avatar3d.net.jitter import JitterBuffer
from avatar3d.net.link import Inlet, LinkName
from avatar3d.net.open_link import open_inlet
from avatar3d.net.receiver import MAX_AGE_S, Receiver
from avatar3d.net.token import ENVIRONMENT, read_token

HZ = 60
MAX_AGE_LIMIT_S = 86_400


class NetSource(SourceBase):
    """Codes at even instants from an inlet. hz: how many a second. plain, scope: of `Receiver`. read gives None while nothing comes."""

    def __init__(
        self,
        inlet: Inlet,
        token: bytes,
        hz: float = HZ,
        max_age_s: float | None = MAX_AGE_S,
        plain: bool = True,
        scope: bytes = b"",
    ) -> None:
        super().__init__()
        self._inlet = inlet
        self.receiver = Receiver(token, max_age_s, plain=plain, scope=scope)
        self.buffer = JitterBuffer()
        self._period_ns = round(1e9 / hz)
        self._due_ns = 0
        self._sessions = 0
        self.playing = False

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        """The head at the next instant; takes packets until then."""
        deadline = time.monotonic_ns() + round(timeout_s * 1e9)
        while not self._closed:
            now = time.monotonic_ns()
            if now >= self._due_ns:
                # Instants stay even; those that nobody asked for in time are left out.
                self._due_ns = max(self._due_ns + self._period_ns, now + self._period_ns // 2)
                code = self.buffer.at(now)
                self.playing = code is not None
                if code is not None:
                    self.validator.admitted += 1
                    return code
            if now >= deadline:
                return None
            self.take((min(self._due_ns, deadline) - now) / 1e9)
        return None

    def take(self, timeout_s: float) -> None:
        """Take the packets that wait, or the first that comes within the time, and acknowledge."""
        for packet, address in self._inlet.receive(timeout_s):
            now = time.monotonic_ns()
            arrivals = self.receiver.accept(packet, now, address)
            if self.receiver.sessions != self._sessions:
                self._sessions = self.receiver.sessions
                self.buffer.reset()
            self.buffer.transit_ns = (self.receiver.round_trip_ns or 0) // 2
            for arrival in arrivals:
                self.buffer.put(arrival)
            answer = self.receiver.acknowledgement(time.monotonic_ns()) if arrivals else None
            for back in (answer, self.receiver.request()):
                if back is not None:
                    self._inlet.answer(back, address)
        self.validator.refused = sum(
            self.receiver.counts[kind] for kind in ("forged", "replayed", "stale", "flooded", "plain", "encrypted")
        )

    def close(self) -> None:
        super().close()
        self._inlet.close()


def open_net(spec: Spec) -> NetSource:
    """A stream: `net:PORT`, `net:ws:HOST:PORT` or `net:zenoh:HEAD`, with `?token=` or `?token_file=` or the environment's token.

    `plain=1` believes a stream from another machine that is not encrypted.
    """
    spec.only("token", "token_file", "max_age", "plain")
    name = LinkName.parse(spec.target)
    token = read_token(spec.options.get("token"), spec.options.get("token_file"), name.local)
    if token is None:
        raise InputError(
            f"{spec.text!r} needs the sender's token: ?token=…, ?token_file=FILE or {ENVIRONMENT} in the environment"
        )
    max_age_s = spec.integer("max_age", round(MAX_AGE_S), 0, MAX_AGE_LIMIT_S)
    plain = bool(spec.integer("plain", int(name.local), 0, 1))
    if not plain:
        need_encryption()
    return NetSource(
        open_inlet(name, token.encode()), token.encode(), max_age_s=max_age_s or None, plain=plain, scope=name.scope
    )
