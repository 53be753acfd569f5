"""`avatar3d listen`: motion codes in, from the network."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from avatar3d.cli.command import Result, command
from avatar3d.cli.link import DEFAULT_LINK, LINK_HELP, READ_S, Rate, Seconds, kbit_per_s, shared_token, time_left
from avatar3d.cli.shared import A_YEAR_S, Secret, check_codes_file
from avatar3d.errors import WorkError
from avatar3d.extras import install_extra
from avatar3d.settings import Option, Within
from avatar3d.text import printable

if TYPE_CHECKING:
    from avatar3d.motion.code import MotionCode
    from avatar3d.net.receiver import Receiver


@dataclass(frozen=True)
class Listen:
    """What `avatar3d listen` takes."""

    link: Annotated[str, Option(f"{LINK_HELP}; for ws where the sender serves", positional=True)] = DEFAULT_LINK
    out: Annotated[
        Path | None, Option("motion codes at even instants: .jsonl, or .csv in Live Link Face columns", ("-o", "--out"))
    ] = None
    hz: Annotated[Rate, Option("codes a second")] = 60.0
    seconds: Annotated[Seconds, Option("stop after so long (default: Ctrl-C)", metavar="S")] = None
    silence_s: Annotated[
        Seconds, Option("stop when a stream that came has been silent for so long", ("--silence",), metavar="S")
    ] = None
    max_age_s: Annotated[
        float,
        Within(0, A_YEAR_S, "seconds"),
        Option(
            "refuse captures older by both machines' clocks, which bounds replay (default 10; 0: any age)",
            ("--max-age",),
            metavar="S",
        ),
    ] = 10.0
    secret: Secret = field(default_factory=Secret)


def run(options: Listen, quiet: bool) -> Result:
    """Receive until the time is over, the stream is silent or Ctrl-C; (what --json prints, lines for a person).

    Raises InputError and WorkError as the parts do; WorkError when no stream came.
    """
    if options.out is not None:
        check_codes_file(options.out)
    from avatar3d.motion.csv import MAX_ROWS
    from avatar3d.motion.seal import need_encryption
    from avatar3d.net.link import LinkName
    from avatar3d.net.open_link import open_inlet
    from avatar3d.net.source import NetSource

    name = LinkName.parse(options.link)
    plain = options.secret.plain or name.local
    if not plain:
        need_encryption()
    elif not name.local:
        warning = f"a stream that is NOT encrypted is taken on {name.text}: whoever is on the way sees the face move"
        print(printable(f"avatar3d: {warning}"), file=sys.stderr)
    codes: list[MotionCode] = []
    shown = 0
    with ExitStack() as stack:
        token = shared_token(options.secret, name, "stream", stack)
        source = NetSource(open_inlet(name, token), token, options.hz, options.max_age_s or None, plain, name.scope)
        stack.enter_context(source)
        began_ns = heard_ns = time.monotonic_ns()
        first_ns = None
        try:
            while time_left(began_ns, options.seconds):
                code = source.read(READ_S)
                now = time.monotonic_ns()
                if code is not None:
                    heard_ns, first_ns = now, now if first_ns is None else first_ns
                    shown += 1
                    if options.out is not None:
                        codes.append(code)
                        if len(codes) == MAX_ROWS:
                            break
                elif shown and options.silence_s is not None and now - heard_ns > options.silence_s * 1e9:
                    break
        except KeyboardInterrupt:
            pass
    receiver, buffer = source.receiver, source.buffer
    if first_ns is None:
        raise WorkError(_why_nothing(name.text, receiver))
    if options.out is not None and codes:
        _write(options.out, codes, options.hz)
    report: dict[str, object] = {
        "packets": receiver.packets,
        "kbit_per_s": kbit_per_s(receiver.bytes, receiver.packets, heard_ns - first_ns),
        "lost": receiver.lost,
        "stall_ms_max": round(buffer.stall_ns / 1e6, 1),
        "jump_frames_max": round(buffer.jump_frames, 2),
        "codes": shown,
        "delay_ms": round(buffer.delay_ns / 1e6, 1),
        "round_trip_ms": None if receiver.round_trip_ns is None else round(receiver.round_trip_ns / 1e6, 2),
        "sessions": receiver.sessions,
        "refused": {kind: count for kind, count in receiver.counts.items() if kind != "decoded" and count},
        "output": None if options.out is None else str(options.out),
    }
    return report, [
        f"{receiver.packets} packets, {receiver.lost} lost, {report['kbit_per_s']} kbit/s; played {report['delay_ms']} ms late,"
        f" longest without news {report['stall_ms_max']} ms, largest step {report['jump_frames_max']} frames"
    ]


def _why_nothing(link: str, receiver: Receiver) -> str:
    """One sentence on a stream that never came."""
    counts = receiver.counts
    if counts["forged"]:
        return f"no stream came on {link}: {counts['forged']} packets did not fit the token; give both ends the same"
    if counts["stale"]:
        return f"no stream came on {link}: captures were too old by the clocks of both machines; set them, or pass --max-age 0"
    if counts["plain"]:
        return (
            f"no stream came on {link}: the sender does not encrypt; let it, or pass --plain here if everyone may see the face"
        )
    if counts["encrypted"]:
        return f"no stream came on {link}: it is encrypted, which needs the package cryptography; run: {install_extra('net')}"
    if counts["other layout"]:
        return f"no stream came on {link}: the sender is of another version of avatar3d; update both"
    return f"no stream came on {link}; start avatar3d stream there"


def _write(path: Path, codes: list[MotionCode], hz: float) -> None:
    if path.suffix.lower() == ".csv":
        from avatar3d.motion.csv import write_motion_csv

        write_motion_csv(path, codes, hz)
    else:
        from avatar3d.motion.jsonl import write_motion_jsonl

        write_motion_jsonl(path, codes)


COMMAND = command("listen", "receive motion codes from the network", Listen, run)
