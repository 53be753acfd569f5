"""Where a stream goes and comes from: the names of links, and what their two ends do; `open_link` opens them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Protocol

from avatar3d.errors import InputError
from avatar3d.motion.sources.base import LOOPBACK
from avatar3d.text import whole_number

DEFAULT_PORT = 9310
SCHEMES = ("udp", "ws", "zenoh")
MAX_HEAD_NAME = 64


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
