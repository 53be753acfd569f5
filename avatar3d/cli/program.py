"""The command line: parses arguments, calls the parts, prints; no work of its own. Heavy imports wait for their command."""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from typing import Any, NoReturn

from avatar3d import __version__
from avatar3d.cli import (
    bench,
    doctor,
    enroll,
    evaluate,
    export,
    glb,
    listen,
    models,
    render,
    stream,
    track,
    view,
    xr,
)  # fmt: skip
from avatar3d.cli.command import Command, FailedWith
from avatar3d.cli.options import Parser
from avatar3d.cli.parser import CommandParser
from avatar3d.errors import Avatar3dError, WorkError, is_refused_memory
from avatar3d.extras import install_module
from avatar3d.text import printable, printable_stderr

EXIT_INTERRUPTED = 130
_ENDINGS = ("SIGTERM", "SIGHUP", "SIGXCPU")  # a kill, a terminal that closes, a time limit
_FAILED_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
LEAST_ADDRESS_SPACE_MIB = 1300  # enough for a command that loads the networks; with 1100 one library or another fails

COMMANDS: dict[str, Command] = {
    made.name: made
    for made in (
        Command("enroll", "make an avatar from one photo", enroll.add_arguments, enroll.run, loads_networks=True),
        render.COMMAND, export.COMMAND, glb.COMMAND, evaluate.COMMAND, track.COMMAND, stream.COMMAND, listen.COMMAND,
        view.COMMAND, xr.COMMAND, bench.COMMAND, doctor.COMMAND, models.COMMAND,
    )
}  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; importing nothing heavy."""
    parser = Parser(
        prog="avatar3d",
        description="Head avatars from one photo, consistent in stereo.",
        epilog="Exit codes: 0 done, 1 the work failed, 2 the input or the arguments were wrong, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"avatar3d {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS.values():
        summary = command.summary
        one = commands.add_parser(
            command.name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=command.epilog
        )
        command.add_arguments(one)
        one.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        one.add_argument("--quiet", action="store_true", help="no progress and no summary")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code (0 done, 1 the work failed, 2 wrong input, 130 interrupted).

    Raises SystemExit 0 after a help or the version. With --json, what failed is an object on stdout as well.
    """
    given = sys.argv[1:] if argv is None else argv
    for name in _ENDINGS:
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:  # nohup ignores hang-ups
            signal.signal(getattr(signal, name), _interrupt)
    # Products of small matrices lose more to waiting threads than they gain (twice the time of an enrolment on two cores), and
    # round as the core count has it. Read when numpy is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for output in (sys.stdout, sys.stderr):  # a sign that the terminal's encoding lacks must not end a command
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")
    if not sys.warnoptions:  # a library's remark about numbers is nothing that a user can act on; `python -W` shows them
        warnings.simplefilter("ignore")
    with printable_stderr():
        command = ""
        try:
            arguments = build_parser().parse_args(given)
            command = arguments.command
            _check_address_space(command)
            try:
                result = COMMANDS[command].run(arguments)
            except FailedWith as failure:
                told = {**failure.result, "error": str(failure), "exit": failure.exit_code}
                _report(arguments, told, failure.lines)
                raise
            if result is not None:
                _report(arguments, *result)
            sys.stdout.flush()  # a pipe that was closed, a disk that is full: told here
        except BrokenPipeError:
            with suppress(OSError):  # what is still to be written at the end of Python would fail again
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except SystemExit:
            raise
        except BaseException as error:
            sentence, code = _failure(error, command)
            with suppress(OSError):
                print(f"avatar3d: {sentence}", file=sys.stderr)
            if _asks_for_json(given) and not isinstance(error, FailedWith):
                with suppress(OSError):
                    print(json.dumps({"error": sentence, "exit": code}), flush=True)
            return code
    return 0


def _check_address_space(command: str) -> None:
    """Raise WorkError where a limit (`ulimit -v`) lets a command not even load its libraries: some of them hang then, or abort."""
    if not COMMANDS[command].loads_networks:
        return
    try:
        import resource
    except ImportError:  # no such limits on Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE_MIB << 20:
        raise WorkError(
            f"this process may address {limit >> 20} MiB (see `ulimit -v`), and `avatar3d {command}` needs "
            f"{LEAST_ADDRESS_SPACE_MIB} MiB to load its libraries; raise the limit, or run it where there is none"
        )


def _failure(error: BaseException, command: str) -> tuple[str, int]:
    """(one sentence, exit code) of what ended a command; a bug's traceback is printed before its sentence."""
    if isinstance(error, Avatar3dError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; nothing was left half-written", EXIT_INTERRUPTED
    if is_refused_memory(error):
        return "this machine has too little memory for it; nothing was left half-written", 1
    if isinstance(error, OSError) and error.errno in _FAILED_DISK:
        place = f" to {error.filename}" if error.filename else ""
        return printable(f"cannot write{place}: {error.strerror}; nothing was left half-written"), 1
    if isinstance(error, ModuleNotFoundError):
        fix = install_module(error.name or "", command)
        if fix is not None:
            return f"{command or 'this command'} needs {error.name}, which is not installed; run: {fix}", 1
    traceback.print_exception(error)
    return printable(f"this is a bug of avatar3d ({type(error).__name__}: {error}); please report it with the lines above"), 1


def _asks_for_json(given: list[str]) -> bool:
    """Whether the arguments ask for JSON, as far as that can be told of arguments that may be wrong."""
    options = given[: given.index("--")] if "--" in given else given
    return any(len(option) > 2 and "--json".startswith(option) for option in options)


def _interrupt(*_: object) -> NoReturn:
    """What ends a command from outside ends it as Ctrl-C does: temporary files go, what was there stays."""
    raise KeyboardInterrupt


def _report(arguments: argparse.Namespace, result: dict[str, Any], lines: list[str]) -> None:
    if arguments.json:
        print(json.dumps(result))
    elif not arguments.quiet:
        print("\n".join(map(printable, lines)))
