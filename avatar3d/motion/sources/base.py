"""What a motion source is, how its spec reads, and the parts that network sources share: a bounded socket, a clock offset."""

from __future__ import annotations

import ipaddress
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Protocol, cast
from urllib.parse import parse_qsl

from avatar3d.errors import InputError, WorkError
from avatar3d.motion.code import MotionCode
from avatar3d.motion.retarget import HEAD
from avatar3d.motion.validation import MotionValidator
from avatar3d.text import whole_number

LOOPBACK = "127.0.0.1"
MAX_DATAGRAM = 65_535
RECEIVE_BUFFER_BYTES = 1 << 18  # what the system keeps for us while we draw: a second of any source here
MAX_DRAIN = 512  # datagrams taken in one turn, so that a flood cannot hold a reader
MAX_TURN_S = 0.02  # and time: what is dear to read must not hold it either
MAX_SPEC = 4096


class MotionSource(Protocol):
    """Gives motion codes of one face; `SourceBase` is what one of your own is derived from.

    Attributes
    ----------
    live
        Whether codes come as time passes and `read` waits for the next; otherwise it is a recording, read as fast as wanted.
    dialect
        What its weights mean: "solved", how far the head shown goes along its shapes, or "network", a network's answers as they are.
    ended
        Whether no code will come any more.
    validator
        Counts of codes admitted, mended and refused.
    """

    live: bool
    dialect: str
    validator: MotionValidator

    @property
    def ended(self) -> bool: ...

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        """The next code; None when the recording is at its end or no code came within the time."""
        ...

    def close(self) -> None: ...


NEEDED = ("read", "close", "ended")  # of an object that a program drives a head with
NEEDED_BY_COMMANDS = (*NEEDED, "live", "dialect", "validator")


def check_source(source: object, names: Sequence[str] = NEEDED) -> MotionSource:
    """The object itself, where it has what `names` says; raises InputError naming what it lacks."""
    lacking = [name for name in names if not hasattr(source, name)]
    if lacking:
        what = f"a {type(source).__name__} is no motion source: it has no {' and no '.join(lacking)}"
        raise InputError(f"{what}; derive it from avatar3d.motion.sources.SourceBase")
    return cast(MotionSource, source)


class SourceBase:
    """What a source of one's own is derived from: give it `read`, and it is a context manager, ends when closed, and can be iterated.

    Iterating a live source ends when it is closed. A recording sets `live = False` and overrides `ended`, or is a `Recording`.
    """

    live = True
    dialect = HEAD
    _closed = False

    @cached_property
    def validator(self) -> MotionValidator:
        """Counts of codes admitted, mended and refused; `validator.admit` makes codes of raw values."""
        return MotionValidator()

    @property
    def ended(self) -> bool:
        """Whether no code will come any more."""
        return self._closed

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        """The next code; None when none came within the time, or the recording is at its end."""
        raise NotImplementedError

    def close(self) -> None:
        """End it."""
        self._closed = True

    def __enter__(self) -> SourceBase:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Iterator[MotionCode]:
        while not self.ended:
            code = self.read()
            if code is not None:
                yield code


class Recording(SourceBase):
    """A source over codes that are all there already, their times rising; commands play it over and over at its own speed."""

    live = False

    def __init__(self, codes: list[MotionCode], validator: MotionValidator | None = None) -> None:
        self.validator = validator or MotionValidator()
        self.codes = codes
        self._next = 0
        self.validator.admitted = len(codes)

    @property
    def ended(self) -> bool:
        return self._closed or self._next >= len(self.codes)

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        if self.ended:
            return None
        self._next += 1
        return self.codes[self._next - 1]


@dataclass(frozen=True)
class Spec:
    """A source spec `scheme:target?key=value&…` taken apart. text: as given but for a token, for messages."""

    scheme: str
    target: str
    options: dict[str, str]
    text: str

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Raises InputError for a text without a scheme."""
        scheme, colon, rest = text.partition(":")
        if not colon or not scheme.isidentifier() or len(text) > MAX_SPEC:
            raise InputError(f"{text[:80]!r} is not a motion source; expected SCHEME:TARGET, such as video:clip.mp4")
        target, _, query = rest.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        shown = "&".join("token=…" if part.startswith("token=") else part for part in query.split("&"))
        return cls(scheme.lower(), target, options, f"{scheme}:{target}?{shown}" if query else text)

    def only(self, *known: str) -> None:
        """Raise InputError for an option that is not one of `known`."""
        for key in self.options:
            if key not in known:
                what = f"knows {', '.join(known)}" if known else "takes no options"
                raise InputError(f"{self.text!r}: unknown option {key!r}; {self.scheme}: {what}")

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        """An option as a whole number; raises InputError when it is none in low..high."""
        value = self.options.get(key, str(default))
        number = whole_number(value, low, high)
        if number is None:
            raise InputError(f"{self.text!r}: {key}={value} is not a whole number in {low}..{high}")
        return number

    def number(self, default: float, low: float, high: float) -> float:
        """The target as a number, `default` where there is none; raises InputError when it is none in low..high."""
        try:
            value = float(self.target) if self.target else default
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise InputError(f"{self.text!r}: {self.target} is not a number in {low:g}..{high:g}")
        return value

    def address(self, default_port: int) -> tuple[str, int]:
        """(host, port) of a target `PORT`, `HOST:PORT` or nothing; loopback unless a host is named.

        Raises InputError for a host that is no IP address or a port outside 0..65535 (0: any free one).
        """
        host, _, port = self.target.rpartition(":")
        port, host = port or str(default_port), host.strip("[]") or LOOPBACK
        try:
            ipaddress.ip_address(host)
        except ValueError as error:
            raise InputError(f"{self.text!r}: {host!r} is not an IP address of this machine, such as 0.0.0.0") from error
        number = whole_number(port, 0, 65_535)
        if number is None:
            raise InputError(f"{self.text!r}: {port!r} is not a port; expected 0..65535")
        return host, number


class Parser(Protocol):
    """Bytes of one datagram and its arrival (monotonic ns) to a code or None; never raises on any bytes, keeps bounded state.

    partial: one datagram holds part of a frame, so `read` takes all that wait and gives the newest code.
    """

    partial: bool

    def __call__(self, data: bytes, now_ns: int) -> MotionCode | None: ...


class DatagramSource(SourceBase):
    """Codes from UDP datagrams on one port. received, ignored: datagrams, and those that gave no code."""

    def __init__(self, address: tuple[str, int], make_parser: Callable[[MotionValidator], Parser], text: str) -> None:
        super().__init__()
        self._parser = make_parser(self.validator)
        self.received = 0
        self.ignored = 0
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            self._socket.bind(address)
        except OSError as error:
            self._socket.close()
            raise WorkError(f"cannot listen for {text!r} on {address[0]} port {address[1]}: {error.strerror}") from error
        self._socket.setblocking(False)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._socket.getsockname()[1])

    def send(self, data: bytes, address: tuple[str, int]) -> None:
        """Send one datagram from the same port, as some phones expect before they answer."""
        try:
            self._socket.sendto(data, address)
        except OSError as error:
            raise WorkError(f"cannot send to {address[0]} port {address[1]}: {error.strerror}") from error

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        deadline = time.monotonic() + timeout_s
        while not self._closed:
            code = self._take()
            if code is not None:
                return code
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            select.select([self._socket], [], [], left)
        return None

    def _take(self) -> MotionCode | None:
        """The next code among the datagrams that wait; of a partial parser the newest."""
        newest = None
        turn_ends = time.monotonic() + MAX_TURN_S
        for _ in range(MAX_DRAIN):
            if time.monotonic() > turn_ends:
                break
            try:
                data = self._socket.recv(MAX_DATAGRAM)
            except (BlockingIOError, InterruptedError, ConnectionError):
                break
            self.received += 1
            code = self._parser(data, time.monotonic_ns())
            if code is None:
                self.ignored += 1
            elif self._parser.partial:
                newest = code
            else:
                return code
        return newest

    def close(self) -> None:
        super().close()
        self._socket.close()


@dataclass
class ClockOffset:
    """A sender's clock on ours: the least (arrival − sent) seen, let go by LEAK so that it can follow a drifting clock.

    The least delay is the one nearest the network's own; later packets were only held up. State is two numbers.
    """

    LEAK = 2e-4  # s a second: four times what two crystals drift apart, and a millisecond in five seconds
    JUMP_NS = 2_000_000_000  # a sender that was restarted, or whose clock was set
    _offset_ns: int | None = field(default=None)
    _at_ns: int = 0

    def local(self, sent_ns: int, now_ns: int) -> int:
        """The sender's time on our monotonic clock, never later than its arrival."""
        delay = now_ns - sent_ns
        if self._offset_ns is not None and abs(delay - self._offset_ns) < self.JUMP_NS:
            leaked = self._offset_ns + round((now_ns - self._at_ns) * self.LEAK)
            self._offset_ns = min(delay, leaked)
        else:
            self._offset_ns = delay
        self._at_ns = now_ns
        return min(sent_ns + self._offset_ns, now_ns)
