"""What the two ends of a stream share: where it goes, its token, how long it runs and how much it carries."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

from avatar3d.cli.shared import A_YEAR_S, Secret
from avatar3d.settings import Within
from avatar3d.text import printable

if TYPE_CHECKING:
    from avatar3d.net.link import LinkName

DEFAULT_LINK = "9310"  # UDP on loopback
READ_S = 0.1
LINK_HELP = "[HOST:]PORT for UDP, ws:[HOST:]PORT for WebSocket, zenoh:HEAD[@ENDPOINT]"
Rate = Annotated[float, Within(1, 240, "a second")]
Seconds = Annotated[float | None, Within(0, A_YEAR_S, "seconds", open=True)]


def shared_token(secret: Secret, name: LinkName, other: str, stack: ExitStack) -> bytes:
    """The token given, or a new one, for which the other end finds a file while this one runs; a token is never printed."""
    from avatar3d.net.token import make_token, read_token, token_file

    token = read_token(secret.token, secret.token_file, name.local)
    if token is None:
        token = make_token()
        path = stack.enter_context(token_file(token))
        where = "" if name.local else " (copied to the other machine by a safe way)"
        line = f"avatar3d: made a token; give it to avatar3d {other} as --token-file {path}{where}"
        print(printable(line), file=sys.stderr, flush=True)
    return token.encode()


def time_left(began_ns: int, seconds: float | None) -> bool:
    """Whether so many seconds since a time on the monotonic clock are not over."""
    return seconds is None or time.monotonic_ns() - began_ns < seconds * 1e9


def kbit_per_s(size: int, packets: int, span_ns: int) -> float:
    """kbit/s of packets whose first and last lie span_ns apart."""
    return round(size * 8e6 * (packets - 1) / packets / span_ns, 2) if span_ns > 0 and packets > 1 else 0.0
