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
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from avatar3d import __version__
from avatar3d.cli import bench as bench_command
from avatar3d.cli import drawing
from avatar3d.cli import enroll as enroll_command
from avatar3d.cli import glb as glb_command
from avatar3d.cli import net as net_command
from avatar3d.cli import track as track_command
from avatar3d.cli import view as view_command
from avatar3d.cli import xr as xr_command
from avatar3d.cli.flags import add_renderer_flag
from avatar3d.errors import Avatar3dError, InputError, WorkError, is_refused_memory
from avatar3d.extras import install_module
from avatar3d.text import printable, printable_stderr

if TYPE_CHECKING:
    from avatar3d.doctor import Check

EXIT_INTERRUPTED = 130
_ENDINGS = ("SIGTERM", "SIGHUP", "SIGXCPU")  # a kill, a terminal that closes, a time limit
_FAILED_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class _Told(WorkError):
    """A failure whose command printed its result and the failure in one object already."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence and exit code 2, without the usage lines."""
        raise InputError(f"{message}; see {self.prog} --help")


class _CommandParser(_Parser):
    """One command's parser, which takes options and positionals in any order.

    argparse gives an optional positional its default at the first option it meets, and then knows nothing of the word that follows.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args(self._positionals_first(list(args or [])), namespace)

    def _positionals_first(self, words: list[str]) -> list[str]:
        words, rest = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, [])
        options: list[str] = []
        positionals: list[str] = []
        takes_next = False
        for word in words:
            is_option = not takes_next and len(word) > 1 and word[0] == "-"
            (options if is_option or takes_next else positionals).append(word)
            takes_next = is_option and "=" not in word and self._takes_value(word)
        return [*positionals, *options, *rest]

    def _takes_value(self, word: str) -> bool:
        known = self._option_string_actions
        names = [word] if word in known else [name for name in known if word[:2] == "--" and name.startswith(word)]
        return any(known[name].nargs is None for name in names)


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    """A command's parser, which says what it is for in both helps."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    return parser


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; importing nothing heavy."""
    parser = _Parser(
        prog="avatar3d",
        description="Head avatars from one photo, consistent in stereo.",
        epilog="Exit codes: 0 done, 1 the work failed, 2 the input or the arguments were wrong, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"avatar3d {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_CommandParser)

    enroll = _command(commands, "enroll", "make an avatar from one photo")
    enroll_command.add_arguments(enroll)

    render = _command(commands, "render", "draw stills, stereo pairs, turntables and videos")
    drawing.add_arguments_render(render)
    export = _command(commands, "export", "write the posed mesh as PLY or OBJ, metres")
    drawing.add_arguments_export(export)

    glb = _command(commands, "glb", "make an avatar's file smaller, with or without loss")
    glb_command.add_arguments(glb)

    evaluate = _command(commands, "evaluate", "measure view consistency against controls; write a page")
    evaluate.add_argument("avatar", type=Path, help="what enroll wrote (.glb)")
    evaluate.add_argument("-o", "--out", type=Path, required=True, help="folder for index.html, report.json and pictures")
    add_renderer_flag(evaluate)

    track = _command(commands, "track", "turn a video or a camera into motion codes")
    track_command.add_arguments(track)

    stream = _command(commands, "stream", "send motion codes over the network")
    net_command.add_arguments_stream(stream)
    listen = _command(commands, "listen", "receive motion codes from the network")
    net_command.add_arguments_listen(listen)

    view = _command(commands, "view", "show the head live in a window")
    view_command.add_arguments(view)

    xr = _command(commands, "xr", "show the head in a headset (OpenXR)")
    xr_command.add_arguments(xr)

    bench = _command(commands, "bench", "time every rung, size and stage on this machine, beside a plain mesh")
    bench_command.add_arguments(bench)

    doctor = _command(commands, "doctor", "what works on this machine, and how to mend what does not")

    models = _command(commands, "models", "list, fetch and check model files")
    models.add_argument("action", choices=("list", "pull", "verify"))
    models.add_argument(
        "name", nargs="?",
        help="a file or, to pull, a group (needed, evaluation, sample, corpus, all); without it, all that this installation can use",
    )  # fmt: skip
    models.add_argument(
        "--from", dest="source", type=Path, metavar="PATH", help="a file, a wheel or zip that holds it, or a folder with those"
    )
    models.add_argument("--print-path", action="store_true", help="print where the file lies")

    for command in (enroll, render, export, glb, evaluate, track, stream, listen, view, xr, bench, doctor, models):
        command.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        command.add_argument("--quiet", action="store_true", help="no progress and no summary")
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
    for stream in (sys.stdout, sys.stderr):  # a sign that the terminal's encoding lacks must not end a command
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if not sys.warnoptions:  # a library's remark about numbers is nothing that a user can act on; `python -W` shows them
        warnings.simplefilter("ignore")
    with printable_stderr():
        command = ""
        try:
            arguments = build_parser().parse_args(given)
            command = arguments.command
            _check_address_space(command)
            _COMMANDS[command](arguments)
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
            if _asks_for_json(given) and not isinstance(error, _Told):
                with suppress(OSError):
                    print(json.dumps({"error": sentence, "exit": code}), flush=True)
            return code
    return 0


def _check_address_space(command: str) -> None:
    """Raise WorkError where a limit (`ulimit -v`) lets a command not even load its libraries: some of them hang then, or abort."""
    if command not in _HEAVY_COMMANDS:
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


def _enroll(arguments: argparse.Namespace) -> None:
    _report(arguments, *enroll_command.run(arguments))


def _render(arguments: argparse.Namespace) -> None:
    _report(arguments, *drawing.run_render(arguments))


def _export(arguments: argparse.Namespace) -> None:
    _report(arguments, *drawing.run_export(arguments))


def _glb(arguments: argparse.Namespace) -> None:
    _report(arguments, *glb_command.run(arguments))


def _evaluate(arguments: argparse.Namespace) -> None:
    from avatar3d.evaluation import AVATARS_IN_TURN, evaluate
    from avatar3d.glb import read_glb
    from avatar3d.progress import ProgressBar
    from avatar3d.rendering import make_renderer

    avatar = read_glb(arguments.avatar)
    with (
        ProgressBar(not arguments.quiet) as progress,
        closing(make_renderer(arguments.renderer, keep=AVATARS_IN_TURN)) as renderer,
    ):
        result = evaluate(avatar, arguments.out, renderer, progress=progress)
    stereo = result["stereo"]
    _report(
        arguments,
        result,
        [
            f"{result['report']}: colour {stereo['rmse_255']:.2f}/255, disparity p95 {stereo['disparity_error_px_p95']:.3f} px,"
            f" controls ranked {'right' if result['ranked_correctly'] else 'WRONG'}"
        ],
    )


def _track(arguments: argparse.Namespace) -> None:
    _report(arguments, *track_command.run(arguments))


def _stream(arguments: argparse.Namespace) -> None:
    _report(arguments, *net_command.run_stream(arguments))


def _listen(arguments: argparse.Namespace) -> None:
    _report(arguments, *net_command.run_listen(arguments))


def _view(arguments: argparse.Namespace) -> None:
    result = view_command.run(arguments)
    _report(arguments, result, view_command.summary(result))


def _xr(arguments: argparse.Namespace) -> None:
    result = xr_command.run(arguments)
    _report(arguments, result, xr_command.summary(result))


def _bench(arguments: argparse.Namespace) -> None:
    _report(arguments, *bench_command.run(arguments))


def _mark(check: Check) -> str:
    """How a check stands: what only some commands ask for is no fault where it is missing."""
    return "ok " if check.ok else "NO " if check.needed else "-- "


def _doctor(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from avatar3d.doctor import run_checks

    checks = run_checks()
    lines = [f"{_mark(check)} {check.name}: {check.found}" + (f"; {check.fix}" if check.fix else "") for check in checks]
    _report(arguments, {"checks": [asdict(check) for check in checks]}, lines)


def _models(arguments: argparse.Namespace) -> None:
    from avatar3d import models

    if arguments.action == "pull":
        statuses = models.pull(models.DEFAULT if arguments.name is None else arguments.name, arguments.source)
    elif arguments.source is not None:
        raise InputError(f"--from belongs to models pull, not to models {arguments.action}")
    elif arguments.action == "verify":
        statuses = models.verify(None if arguments.name is None else [arguments.name])
    else:
        statuses = models.list_models(samples=True)
    if arguments.print_path:
        as_is = not sys.stdout.isatty()  # for a program to open; a terminal only shows it
        print("\n".join(str(status.path) if as_is else printable(str(status.path)) for status in statuses))
        return
    rows: list[dict[str, Any]] = [
        {
            "name": status.entry.name,
            "ok": status.ok,
            "problem": status.problem,
            "path": str(status.path),
            "bytes": status.entry.bytes,
            "sha256": status.entry.sha256,
            "licence": status.entry.licence,
            "purpose": status.entry.purpose,
            "source": f"{status.entry.source.requirement} ({status.entry.member})",
        }
        for status in statuses
    ]
    lines = [
        f"{'ok ' if row['ok'] else '-- '} {row['name']} ({row['bytes'] / 1e6:.1f} MB, {row['licence']}): "
        + (row["problem"] or row["purpose"])
        for row in rows
    ]
    wrong = [status for status in statuses if not status.ok]
    if arguments.action != "verify" or not wrong:
        _report(arguments, {"models": rows}, lines)
        return
    found = ", ".join(f"{status.entry.name} ({status.problem})" for status in wrong)
    fixes = list(dict.fromkeys(models.fix(status.entry) for status in wrong))
    failed = _Told(f"not as the manifest has it: {found}; run {' && '.join(fixes)}")
    _report(arguments, {"models": rows, "error": str(failed), "exit": failed.exit_code}, lines)
    raise failed


# Those that load scipy, numba, OpenCV and the face networks: 1300 MiB is enough to load them all, with 1100 one or another fails.
_HEAVY_COMMANDS = ("enroll", "evaluate", "track")
LEAST_ADDRESS_SPACE_MIB = 1300

_COMMANDS = {
    "enroll": _enroll,
    "render": _render,
    "export": _export,
    "glb": _glb,
    "evaluate": _evaluate,
    "track": _track,
    "stream": _stream,
    "listen": _listen,
    "view": _view,
    "xr": _xr,
    "bench": _bench,
    "doctor": _doctor,
    "models": _models,
}
