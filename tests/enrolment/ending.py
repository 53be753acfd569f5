"""One enrolment, of which a copy (fork) is ended at every stage by every signal, and by failures of every step of writing.

Run: python ending.py PHOTO TARGET.glb MORE_ARGUMENTS; prints a JSON list of [what, exit code, sentence, names in the folder, whether
the target is still what it was]. Exit code −9 is SIGKILL's.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from avatar3d import cli, progress

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
WRITING = "writing the avatar"
for number in SIGNALS[1:-1]:
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests may ignore it (nohup)
signal.signal(signal.SIGINT, signal.default_int_handler)
photo, target, *more = sys.argv[1:]
folder = Path(target).parent
before = Path(target).read_bytes() if Path(target).exists() else None
results: list[list[object]] = []
in_copy = False


def copied(what: str, trouble: Callable[[], None]) -> None:
    """Go on in a copy of this process that meets `trouble` now; the original waits and notes what is left of it."""
    global in_copy
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        in_copy = True
        os.dup2(theirs, 2)
        trouble()
        return
    os.close(theirs)
    with open(ours, "rb") as stream:
        said = stream.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    now = Path(target).read_bytes() if Path(target).exists() else None
    results.append([what, code, said, sorted(os.listdir(folder)), now == before])


def failing(name: str, trouble: Callable[[], None]) -> Callable[[], None]:
    """Let the next call of a function of `os` fail."""

    def set_up() -> None:
        def failed(*_: object, **__: object) -> None:
            trouble()

        setattr(os, name, failed)

    return set_up


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def small_files(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


class Ending(progress.ProgressBar):
    """The bar, at whose every step copies end."""

    def __call__(self, fraction: float, label: str) -> None:
        """Meet every trouble that this stage can have."""
        if in_copy:
            return
        for number in SIGNALS:
            copied(f"{label}: {number.name}", lambda number=number: os.kill(os.getpid(), number))  # type: ignore[misc]
            if in_copy:
                return
        if label == WRITING:
            for size in (0, 1000, 1_000_000):
                copied(f"{label}: {size} bytes of disk", small_files(size))
                if in_copy:
                    return
            for name in ("fsync", "link", "replace"):
                if name != "link":  # where it fails, the file gets a name first
                    copied(f"{label}: no space at {name}", failing(name, no_space))
                    if in_copy:
                        return
                for number in SIGNALS:
                    if (name, number) == ("replace", signal.SIGKILL):
                        continue  # what has its first name by then is whole, and named by a dot
                    copied(
                        f"{label}: {number.name} at {name}", failing(name, lambda number=number: os.kill(os.getpid(), number))
                    )  # type: ignore[misc]
                    if in_copy:
                        return


progress.ProgressBar = Ending  # type: ignore[misc]
code = cli.main(["enroll", photo, "-o", target, "--quiet", *more])
if in_copy:
    sys.stderr.flush()
    os._exit(code)
results.append(["no trouble", code, "", sorted(os.listdir(folder)), False])
print(json.dumps(results))
