"""`avatar3d stream`: motion codes out, over the network."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated

from avatar3d.cli.command import Result, command
from avatar3d.cli.link import DEFAULT_LINK, LINK_HELP, READ_S, Rate, Seconds, kbit_per_s, shared_token, time_left
from avatar3d.cli.shared import Secret
from avatar3d.errors import WorkError
from avatar3d.settings import Option
from avatar3d.text import printable

EARLY = 0.9  # of a period: a source's own unevenness is not a higher rate


@dataclass(frozen=True)
class Stream:
    """What `avatar3d stream` takes."""

    source: Annotated[
        str,
        Option("what moves, such as camera:0, video:FILE, csv:FILE (played over and over) or livelink:PORT", positional=True),
    ]
    to: Annotated[str, Option(f"{LINK_HELP}; without a host this machine (default {DEFAULT_LINK})", metavar="LINK")] = (
        DEFAULT_LINK
    )
    hz: Annotated[Rate, Option("at most so many codes a second")] = 60.0
    seconds: Annotated[Seconds, Option("stop after so long (default: at the source's end; a file repeats)", metavar="S")] = None
    secret: Secret = field(default_factory=Secret)


def run(options: Stream, quiet: bool) -> Result:
    """Send until the source ends, the time is over or Ctrl-C; (what --json prints, lines for a person).

    Raises InputError and WorkError as the parts do.
    """
    from avatar3d.motion.seal import can_encrypt
    from avatar3d.motion.validation import unknown_lines
    from avatar3d.net.link import LinkName
    from avatar3d.net.open_link import open_outlet
    from avatar3d.net.sender import Sender
    from avatar3d.runtime.replay import open_live

    name = LinkName.parse(options.to)
    sizes: list[int] = []
    pause_ns = 0
    with ExitStack() as stack:
        source = open_live(options.source)
        stack.callback(source.close)
        token = shared_token(options.secret, name, "listen", stack)
        encrypted = not options.secret.plain and (not name.local or can_encrypt())
        sender = Sender(token, encrypted=encrypted, scope=name.scope)
        outlet = open_outlet(name, token)
        stack.callback(outlet.close)
        if not name.local:
            how = "encrypted" if encrypted else "NOT encrypted: whoever is on the way sees the face move"
            print(printable(f"avatar3d: motion leaves this machine for {name.text}: {how}"), file=sys.stderr)
        began_ns = time.monotonic_ns()
        first_ns = last_ns = None
        captured_ns = -(1 << 62)
        try:
            while not source.ended and time_left(began_ns, options.seconds):
                code = source.read(READ_S)
                now = time.monotonic_ns()
                for answer, arrived_ns in outlet.answers():
                    sender.answered(answer, arrived_ns)
                if code is None or code.time_ns - captured_ns < EARLY / options.hz * 1e9:
                    continue
                captured_ns = code.time_ns
                packet = sender.packet(code, now)
                outlet.send(packet)
                sizes.append(len(packet))
                pause_ns = max(pause_ns, 0 if last_ns is None else now - last_ns)
                first_ns, last_ns = (now if first_ns is None else first_ns), now
        except KeyboardInterrupt:
            pass
    if first_ns is None or last_ns is None:
        raise WorkError(f"nothing was sent: {options.source} gave no code; check the source")
    unknown = getattr(getattr(source, "validator", None), "unknown", {})
    report: dict[str, object] = {
        "packets": len(sizes),
        "kbit_per_s": kbit_per_s(sum(sizes), len(sizes), last_ns - first_ns),
        "lost": None,
        "stall_ms_max": round(pause_ns / 1e6, 1),
        "jump_frames_max": None,
        "round_trip_ms": None if sender.round_trip_ns is None else round(sender.round_trip_ns / 1e6, 2),
        "to": name.text,
        "encrypted": encrypted,
        "not_understood": dict(unknown),
    }
    return report, [f"{len(sizes)} packets to {name.text}, {report['kbit_per_s']} kbit/s", *unknown_lines(unknown)]


COMMAND = command("stream", "send motion codes over the network", Stream, run)
