"""Both ends of a link of UDP datagrams."""

from __future__ import annotations

import ipaddress
import select
import socket
import threading
import time
from collections import deque
from contextlib import suppress

from avatar3d.errors import InputError, WorkError
from avatar3d.motion.sources.base import MAX_DRAIN, RECEIVE_BUFFER_BYTES
from avatar3d.motion.wire_layout import MAX_PACKET
from avatar3d.net.link import LinkName

ANSWER_WAIT_S = 0.2  # between two looks at whether the link was closed
REFUSED_WAIT_S = 0.02
_DO_NOT_WAIT = getattr(socket, "MSG_DONTWAIT", 0)  # where there is none, a send waits ANSWER_WAIT_S at most


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
