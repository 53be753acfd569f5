"""`avatar3d stream` and `avatar3d listen`: their arguments, and running them; called by the command line."""

from __future__ import annotations

import argparse
import math
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from avatar3d.errors import InputError, WorkError
from avatar3d.extras import install_extra
from avatar3d.text import printable

if TYPE_CHECKING:
    from avatar3d.motion.code import MotionCode
    from avatar3d.net.link import LinkName
    from avatar3d.net.receiver import Receiver

DEFAULT_LINK = "9310"  # UDP on loopback
OUTPUT_SUFFIXES = (".csv", ".jsonl")
MAX_HZ = 240.0
READ_S = 0.1
EARLY = 0.9  # of a period: a source's own unevenness is not a higher rate
LINK_HELP = "[HOST:]PORT for UDP, ws:[HOST:]PORT for WebSocket, zenoh:HEAD[@ENDPOINT]"


def add_arguments_stream(parser: argparse.ArgumentParser) -> None:
    """Everything `avatar3d stream` takes but --json and --quiet; imports nothing heavy."""
    parser.add_argument(
        "source", help="what moves, such as camera:0, video:FILE, csv:FILE (played over and over) or livelink:PORT"
    )
    parser.add_argument(
        "--to", default=DEFAULT_LINK, metavar="LINK", help=f"{LINK_HELP}; without a host this machine (default {DEFAULT_LINK})"
    )
    parser.add_argument("--hz", type=float, default=60.0, help="at most so many codes a second (default 60)")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="stop after so long (default: at the source's end; a file repeats)"
    )
    _add_token_arguments(parser)


def add_arguments_listen(parser: argparse.ArgumentParser) -> None:
    """Everything `avatar3d listen` takes but --json and --quiet; imports nothing heavy."""
    parser.add_argument("link", nargs="?", default=DEFAULT_LINK, help=f"{LINK_HELP}; for ws where the sender serves")
    parser.add_argument(
        "-o", "--out", type=Path, help="motion codes at even instants: .jsonl, or .csv in Live Link Face columns"
    )
    parser.add_argument("--hz", type=float, default=60.0, help="codes a second (default 60)")
    parser.add_argument("--seconds", type=float, metavar="S", help="stop after so long (default: Ctrl-C)")
    parser.add_argument("--silence", type=float, metavar="S", help="stop when a stream that came has been silent for so long")
    parser.add_argument(
        "--max-age", type=float, default=10.0, metavar="S",
        help="refuse captures older by both machines' clocks, which bounds replay (default 10; 0: any age)",
    )  # fmt: skip
    _add_token_arguments(parser)


def _add_token_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--token", help="the secret both ends share (others see it in the process list; a file is better)")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="the same from a file; else AVATAR3D_TOKEN; else one is made"
    )
    parser.add_argument("--plain", action="store_true", help="without encryption: whoever is on the way sees the face")


def run_stream(arguments: argparse.Namespace) -> tuple[dict[str, object], list[str]]:
    """Send until the source ends, the time is over or Ctrl-C; (what --json prints, lines for a person).

    Raises InputError and WorkError as the parts do.
    """
    _check_rate(arguments)
    from avatar3d.motion.seal import can_encrypt
    from avatar3d.motion.validation import unknown_lines
    from avatar3d.net.link import LinkName
    from avatar3d.net.open_link import open_outlet
    from avatar3d.net.sender import Sender
    from avatar3d.runtime.replay import open_live

    name = LinkName.parse(arguments.to)
    sizes: list[int] = []
    pause_ns = 0
    with ExitStack() as stack:
        source = open_live(arguments.source)
        stack.callback(source.close)
        token = _token(arguments, name, "listen", stack)
        encrypted = not arguments.plain and (not name.local or can_encrypt())
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
            while not source.ended and _time_left(began_ns, arguments.seconds):
                code = source.read(READ_S)
                now = time.monotonic_ns()
                for answer, arrived_ns in outlet.answers():
                    sender.answered(answer, arrived_ns)
                if code is None or code.time_ns - captured_ns < EARLY / arguments.hz * 1e9:
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
        raise WorkError(f"nothing was sent: {arguments.source} gave no code; check the source")
    unknown = getattr(getattr(source, "validator", None), "unknown", {})
    report: dict[str, object] = {
        "packets": len(sizes),
        "kbit_per_s": _rate(sum(sizes), len(sizes), last_ns - first_ns),
        "lost": None,
        "stall_ms_max": round(pause_ns / 1e6, 1),
        "jump_frames_max": None,
        "round_trip_ms": None if sender.round_trip_ns is None else round(sender.round_trip_ns / 1e6, 2),
        "to": name.text,
        "encrypted": encrypted,
        "not_understood": dict(unknown),
    }
    return report, [f"{len(sizes)} packets to {name.text}, {report['kbit_per_s']} kbit/s", *unknown_lines(unknown)]


def run_listen(arguments: argparse.Namespace) -> tuple[dict[str, object], list[str]]:
    """Receive until the time is over, the stream is silent or Ctrl-C; (what --json prints, lines for a person).

    Raises InputError and WorkError as the parts do; WorkError when no stream came.
    """
    _check_rate(arguments)
    if not 0 <= arguments.max_age < math.inf:
        raise InputError(f"--max-age {arguments.max_age:g} is not a number of seconds; 0 accepts any age")
    if arguments.out is not None:
        if arguments.out.suffix.lower() not in OUTPUT_SUFFIXES:
            raise InputError(f"cannot write motion codes as {arguments.out.name}: expected a name that ends in .csv or .jsonl")
        from avatar3d.files import check_writable

        check_writable(arguments.out)
    from avatar3d.motion.csv import MAX_ROWS
    from avatar3d.motion.seal import need_encryption
    from avatar3d.net.link import LinkName
    from avatar3d.net.open_link import open_inlet
    from avatar3d.net.source import NetSource

    name = LinkName.parse(arguments.link)
    plain = arguments.plain or name.local
    if not plain:
        need_encryption()
    elif not name.local:
        warning = f"a stream that is NOT encrypted is taken on {name.text}: whoever is on the way sees the face move"
        print(printable(f"avatar3d: {warning}"), file=sys.stderr)
    codes: list[MotionCode] = []
    shown = 0
    with ExitStack() as stack:
        token = _token(arguments, name, "stream", stack)
        source = NetSource(open_inlet(name, token), token, arguments.hz, arguments.max_age or None, plain, name.scope)
        stack.enter_context(source)
        began_ns = heard_ns = time.monotonic_ns()
        first_ns = None
        try:
            while _time_left(began_ns, arguments.seconds):
                code = source.read(READ_S)
                now = time.monotonic_ns()
                if code is not None:
                    heard_ns, first_ns = now, now if first_ns is None else first_ns
                    shown += 1
                    if arguments.out is not None:
                        codes.append(code)
                        if len(codes) == MAX_ROWS:
                            break
                elif shown and arguments.silence is not None and now - heard_ns > arguments.silence * 1e9:
                    break
        except KeyboardInterrupt:
            pass
    receiver, buffer = source.receiver, source.buffer
    if first_ns is None:
        raise WorkError(_why_nothing(name.text, receiver))
    if codes:
        _write(arguments.out, codes, arguments.hz)
    report: dict[str, object] = {
        "packets": receiver.packets,
        "kbit_per_s": _rate(receiver.bytes, receiver.packets, heard_ns - first_ns),
        "lost": receiver.lost,
        "stall_ms_max": round(buffer.stall_ns / 1e6, 1),
        "jump_frames_max": round(buffer.jump_frames, 2),
        "codes": shown,
        "delay_ms": round(buffer.delay_ns / 1e6, 1),
        "round_trip_ms": None if receiver.round_trip_ns is None else round(receiver.round_trip_ns / 1e6, 2),
        "sessions": receiver.sessions,
        "refused": {kind: count for kind, count in receiver.counts.items() if kind != "decoded" and count},
        "output": None if arguments.out is None else str(arguments.out),
    }
    return report, [
        f"{receiver.packets} packets, {receiver.lost} lost, {report['kbit_per_s']} kbit/s; played {report['delay_ms']} ms late,"
        f" longest without news {report['stall_ms_max']} ms, largest step {report['jump_frames_max']} frames"
    ]


def _check_rate(arguments: argparse.Namespace) -> None:
    if not 1 <= arguments.hz <= MAX_HZ:
        raise InputError(f"--hz {arguments.hz:g} is outside 1..{MAX_HZ:g}")
    for option in ("seconds", "silence"):
        value = getattr(arguments, option, None)
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"--{option} {value:g} is not a time; expected seconds above 0")


def _token(arguments: argparse.Namespace, name: LinkName, other: str, stack: ExitStack) -> bytes:
    """The token given, or a new one, for which the other end finds a file while this one runs; a token is never printed."""
    from avatar3d.net.token import make_token, read_token, token_file

    token = read_token(arguments.token, arguments.token_file, name.local)
    if token is None:
        token = make_token()
        path = stack.enter_context(token_file(token))
        where = "" if name.local else " (copied to the other machine by a safe way)"
        line = f"avatar3d: made a token; give it to avatar3d {other} as --token-file {path}{where}"
        print(printable(line), file=sys.stderr, flush=True)
    return token.encode()


def _time_left(began_ns: int, seconds: float | None) -> bool:
    return seconds is None or time.monotonic_ns() - began_ns < seconds * 1e9


def _rate(size: int, packets: int, span_ns: int) -> float:
    """kbit/s of packets whose first and last lie span_ns apart."""
    return round(size * 8e6 * (packets - 1) / packets / span_ns, 2) if span_ns > 0 and packets > 1 else 0.0


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
