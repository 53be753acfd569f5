"""Where a stream goes and comes from: the names of links, and UDP. WebSocket and zenoh are in modules of their own."""

from __future__ import annotations

import ipaddress
import re
import select
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from avatar3d.errors import InputError, WorkError
from avatar3d.motion.sources.base import LOOPBACK, MAX_DRAIN, RECEIVE_BUFFER_BYTES
from avatar3d.motion.wire_layout import MAX_PACKET
from avatar3d.text import whole_number

DEFAULT_PORT = 9310
SCHEMES = ("udp", "ws", "zenoh")
MAX_HEAD_NAME = 64
ANSWER_WAIT_S = 0.2  # between two looks at whether the link was closed
REFUSED_WAIT_S = 0.02
_DO_NOT_WAIT = getattr(socket, "MSG_DONTWAIT", 0)  # where there is none, a send waits ANSWER_WAIT_S at most


@dataclass(frozen=True)
class LinkName:
    """`[udp:][HOST:]PORT`, `ws:[HOST:]PORT` or `zenoh:HEAD[@ENDPOINT]`. text: as given, for messages.

    endpoint: of zenoh, such as tcp/192.0.2.7:7447 of a router that is to be joined; None: on this machine only.
    """

    scheme: str
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    head: str = ""
    endpoint: str | None = None
    text: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str) -> LinkName:
        """Raises InputError for what is no link; hosts are IP addresses or names without spaces."""
        scheme, colon, rest = text.partition(":")
        if not colon or scheme not in SCHEMES:
            scheme, rest = "udp", text
        if scheme == "zenoh":
            head, _, endpoint = rest.partition("@")
            plain = head.replace("/", "").replace("-", "").replace("_", "")
            if not (plain.isalnum() and plain.isascii() and len(head) <= MAX_HEAD_NAME) or "//" in f"/{head}/":
                raise InputError(f"{text!r}: {head!r} is not a head's name; expected letters, digits, - _ and single /")
            return cls("zenoh", head=head, endpoint=endpoint or None, text=text)
        host, _, port = rest.rpartition(":")
        host = host.strip("[]") or LOOPBACK
        number = whole_number(port, 0, 65_535)
        if number is None:
            raise InputError(f"{text!r} is not a link; expected HOST:PORT, ws:PORT or zenoh:HEAD")
        if len(host) > 253 or not re.fullmatch(r"[A-Za-z0-9._:%-]+", host):
            raise InputError(f"{text!r}: {host!r} is not a machine's name or address")
        return cls(scheme, host, number, text=text)

    @property
    def scope(self) -> bytes:
        """What both ends know of the link and keys are bound to: the head's name of zenoh, so that none is played as another."""
        return self.head.encode()

    @property
    def local(self) -> bool:
        """Whether it stays on this machine."""
        if self.scheme == "zenoh":
            return self.endpoint is None
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class Outlet(Protocol):
    """The sending end of a link; `send` never blocks and drops what does not fit."""

    def send(self, packet: bytes) -> None: ...

    def answers(self) -> list[tuple[bytes, int]]:
        """(packet, arrival on the monotonic clock in ns) of what came back since the last call; at most MAX_DRAIN."""
        ...

    def close(self) -> None: ...


class Inlet(Protocol):
    """The receiving end of a link."""

    def receive(self, timeout_s: float) -> list[tuple[bytes, object]]:
        """(packet, where it came from) of what waits, at most MAX_DRAIN; waits for the first up to `timeout_s`."""
        ...

    def answer(self, packet: bytes, address: object) -> None:
        """Send a packet back, where the link can."""
        ...

    def close(self) -> None: ...


class UdpOutlet:
    """Datagrams to one address."""

    def __init__(self, name: LinkName) -> None:
        try:
            family, _, _, _, address = socket.getaddrinfo(name.host, name.port, type=socket.SOCK_DGRAM)[0]
        except OSError as error:
            raise InputError(f"{name.text!r}: no machine {name.host!r} is known ({error.strerror})") from error
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise WorkError(f"cannot send to {name.text}: {error.strerror}") from error
        self._socket.settimeout(ANSWER_WAIT_S)
        self._answers: deque[tuple[bytes, int]] = deque(maxlen=MAX_DRAIN)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="answers", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        """Note when answers come: whoever sends may be waiting for a camera meanwhile."""
        while not self._closing.is_set():
            try:
                self._answers.append((self._socket.recv(MAX_PACKET + 1), time.monotonic_ns()))
            except TimeoutError:
                pass
            except OSError:  # the other end is away
                self._closing.wait(REFUSED_WAIT_S)

    def send(self, packet: bytes) -> None:
        # Nobody listens yet, the network is away, the buffer is full: this packet is lost like any other.
        with suppress(OSError):
            self._socket.send(packet, _DO_NOT_WAIT)

    def answers(self) -> list[tuple[bytes, int]]:
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def close(self) -> None:
        self._closing.set()
        self._thread.join(2.0)
        self._socket.close()


class UdpInlet:
    """Datagrams on one port."""

    def __init__(self, name: LinkName) -> None:
        try:
            host = ipaddress.ip_address(name.host)
        except ValueError as error:
            raise InputError(f"{name.text!r}: {name.host!r} is not an IP address of this machine, such as 0.0.0.0") from error
        self._socket = socket.socket(socket.AF_INET6 if host.version == 6 else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            self._socket.bind((name.host, name.port))
        except OSError as error:
            self._socket.close()
            raise WorkError(f"cannot listen on {name.host} port {name.port}: {error.strerror}; choose another port") from error
        self._socket.setblocking(False)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._socket.getsockname()[1])

    def receive(self, timeout_s: float) -> list[tuple[bytes, object]]:
        select.select([self._socket], [], [], max(0.0, timeout_s))
        found: list[tuple[bytes, object]] = []
        for _ in range(MAX_DRAIN):
            try:
                found.append(self._socket.recvfrom(MAX_PACKET + 1))
            except OSError:
                break
        return found

    def answer(self, packet: bytes, address: object) -> None:
        with suppress(OSError):  # as lost as any other packet
            self._socket.sendto(packet, address)  # type: ignore[call-overload]

    def close(self) -> None:
        self._socket.close()


def open_outlet(name: LinkName, token: bytes) -> Outlet:
    """The sending end: UDP to an address, a WebSocket server for those who know the token, or a zenoh publisher.

    Raises InputError for an unknown machine, WorkError when a port or a package is missing.
    """
    if name.scheme == "ws":
        from avatar3d.net.websocket import WebSocketOutlet

        return WebSocketOutlet(name, token)
    if name.scheme == "zenoh":
        from avatar3d.net.zenoh import ZenohOutlet

        return ZenohOutlet(name)
    return UdpOutlet(name)


def open_inlet(name: LinkName, token: bytes) -> Inlet:
    """The receiving end: a UDP port, a connection to a WebSocket sender, or a zenoh subscriber. Raises as `open_outlet`."""
    if name.scheme == "ws":
        from avatar3d.net.websocket import WebSocketInlet

        return WebSocketInlet(name, token)
    if name.scheme == "zenoh":
        from avatar3d.net.zenoh import ZenohInlet

        return ZenohInlet(name)
    return UdpInlet(name)
