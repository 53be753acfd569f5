"""Streams over Eclipse Zenoh, for rooms and many machines: one topic a head, on this machine unless an endpoint is named."""

from __future__ import annotations

import json
import threading
from collections import deque
from typing import Any

from avatar3d.errors import InputError, WorkError
from avatar3d.extras import install_extra
from avatar3d.motion.sources.base import MAX_DRAIN
from avatar3d.motion.wire_layout import MAX_PACKET
from avatar3d.net.link import LinkName

TOPIC = "avatar3d/head/"
MEETING = "tcp/127.0.0.1:7447"  # whoever comes first listens there, the others find each other through it
QUEUED = 1024  # junk of strangers beside a stream must not push it out between two looks
QUEUED_BATCHES = 16  # zenoh's own 2 drop packets of a room of 20 heads whenever a machine is busy for a moment


def open_session(endpoint: str | None) -> Any:
    """A zenoh session. endpoint: of a router or peer to join; None: meet others of this machine on loopback.

    Neither looks for others by multicast. Raises InputError for an endpoint that cannot be reached, WorkError without zenoh.
    """
    try:
        import zenoh
    except ModuleNotFoundError as error:
        raise WorkError(f"zenoh: needs the package eclipse-zenoh; run: {install_extra('net')}") from error

    def attempt(listen: list[str], connect: list[str]) -> Any:
        config = zenoh.Config()
        for key, value in {
            "mode": "peer",
            "listen/endpoints": listen,
            "connect/endpoints": connect,
            "connect/timeout_ms": 2000,
            "connect/exit_on_failure": True,
            "scouting/multicast/enabled": False,
            "transport/link/tx/queue/size/data": QUEUED_BATCHES,
        }.items():
            config.insert_json5(key, json.dumps(value))
        return zenoh.open(config)

    if endpoint is not None:
        try:
            return attempt([], [endpoint])
        except zenoh.ZError as error:
            raise InputError(f"cannot join zenoh at {endpoint!r}: {error}; expected such as tcp/192.0.2.7:7447") from error
    failed: Exception | None = None
    for _ in range(2):  # the one that listened may leave between the two attempts
        for listen, connect in (([MEETING], []), (["tcp/127.0.0.1:0"], [MEETING])):
            try:
                return attempt(listen, connect)
            except zenoh.ZError as error:
                failed = error
    raise WorkError(f"cannot start zenoh on this machine: {failed}")


class ZenohOutlet:
    """Publishes a head; packets that do not fit are dropped. session: one to share among heads, else its own."""

    def __init__(self, name: LinkName, session: Any = None) -> None:
        self._own = session is None
        self._session = open_session(name.endpoint) if session is None else session
        import zenoh

        self._publisher = self._session.declare_publisher(
            TOPIC + name.head, congestion_control=zenoh.CongestionControl.DROP, express=True
        )

    def send(self, packet: bytes) -> None:
        self._publisher.put(packet)

    def answers(self) -> list[tuple[bytes, int]]:
        return []

    def close(self) -> None:
        self._publisher.undeclare()
        if self._own:
            self._session.close()


class ZenohInlet:
    """Subscribes to a head; of packets that nobody takes the oldest are dropped."""

    def __init__(self, name: LinkName, session: Any = None) -> None:
        self._own = session is None
        self._session = open_session(name.endpoint) if session is None else session
        self._packets: deque[bytes] = deque(maxlen=QUEUED)
        self._came = threading.Condition()
        self._subscriber = self._session.declare_subscriber(TOPIC + name.head, self._take)

    def _take(self, sample: Any) -> None:
        if len(sample.payload) > MAX_PACKET:
            return
        with self._came:
            self._packets.append(sample.payload.to_bytes())
            self._came.notify()

    def receive(self, timeout_s: float) -> list[tuple[bytes, object]]:
        with self._came:
            self._came.wait_for(lambda: bool(self._packets), max(0.0, timeout_s))
            return [(self._packets.popleft(), None) for _ in range(min(len(self._packets), MAX_DRAIN))]

    def answer(self, packet: bytes, address: object) -> None:
        pass

    def close(self) -> None:
        self._subscriber.undeclare()
        if self._own:
            self._session.close()
