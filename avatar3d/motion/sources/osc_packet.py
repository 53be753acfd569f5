"""Open Sound Control packets read with python-osc, with the bounds and the silence that packets from strangers need."""

from __future__ import annotations

import logging
import struct

from avatar3d.errors import WorkError
from avatar3d.extras import install_extra

MAX_PACKET = 16_384  # bytes; a full frame of 88 named floats takes 5,000
MAX_BRACKETS = 64  # of arrays; python-osc takes time that grows with their nesting, and nobody sends a face in arrays
MAX_BUNDLES = 32  # python-osc reads nested bundles by recursion; senders nest one or two
_BUNDLE = b"#bundle\0"


def _not_from_osc(record: logging.LogRecord) -> bool:
    """python-osc warns on the root logger about each strange packet; a flood of them must not fill the user's screen."""
    return "pythonosc" not in record.pathname


def need_osc() -> None:
    """Raise WorkError unless python-osc is there; once it is, keep its warnings about strange packets quiet."""
    try:
        import pythonosc  # noqa: F401
    except ModuleNotFoundError as error:
        raise WorkError(f"OSC sources need the package python-osc; run: {install_extra('motion')}") from error
    root = logging.getLogger()
    if _not_from_osc not in root.filters:
        root.addFilter(_not_from_osc)


def messages(data: bytes) -> list[tuple[str, list[object]]]:
    """[(address, arguments)] of a packet in order; empty for bytes that are no OSC packet. Never raises."""
    from pythonosc.osc_packet import OscPacket, ParseError

    if len(data) > MAX_PACKET or data.count(_BUNDLE) > MAX_BUNDLES or data.count(b"[") > MAX_BRACKETS or not _sizes_hold(data):
        return []
    try:
        found = [(item.message.address, item.message.params) for item in OscPacket(data).messages]
    except (ParseError, ValueError, IndexError, TypeError, struct.error, OverflowError, RecursionError):
        return []
    return [(address, parameters) for address, parameters in found if isinstance(address, str)]


def _sizes_hold(data: bytes) -> bool:
    """Whether every bundle's elements lie inside it, one after the other.

    python-osc trusts their sizes: a negative one sends it back over the same bytes for ever, keeping what it finds.
    """
    waiting = [(0, len(data))]
    while waiting:
        start, end = waiting.pop()
        if not data.startswith(_BUNDLE, start, end):
            continue
        place = start + len(_BUNDLE) + 8  # the time tag
        while place < end:
            if place + 4 > end:
                return False
            size = int.from_bytes(data[place : place + 4], "big", signed=True)
            if size <= 0 or place + 4 + size > end:
                return False
            waiting.append((place + 4, place + 4 + size))
            place += 4 + size
    return True


def number(value: object) -> float | None:
    """An OSC argument as a float: numbers, and True and False as 1 and 0; None for anything else."""
    return float(value) if isinstance(value, bool | int | float) else None
