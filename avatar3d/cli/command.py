"""What a command is: a name, a summary, the dataclass that its words fill, and what runs with it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from avatar3d.cli.options import add_options, filled
from avatar3d.errors import WorkError

T = TypeVar("T")
Result = tuple[dict[str, Any], list[str]]  # what --json prints, and lines for a person


class FailedWith(WorkError):
    """A failure that has a result all the same: it is printed as the command's, with the failure in it."""

    def __init__(self, sentence: str, result: dict[str, Any], lines: list[str]) -> None:
        super().__init__(sentence)
        self.result, self.lines = result, lines


@dataclass(frozen=True)
class Command:
    """One command. run: of the parsed arguments (`quiet` among them); None: it has printed its result itself.

    loads_networks: it loads scipy, numba, OpenCV and the face networks, which needs room to address.
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Result | None]
    loads_networks: bool = False
    epilog: str | None = None


def command(
    name: str,
    summary: str,
    options: type[T],
    run: Callable[[T, bool], Result | None],
    loads_networks: bool = False,
    epilog: str | None = None,
) -> Command:
    """A command whose words fill a dataclass; run: of it and whether to be quiet."""
    return Command(
        name,
        summary,
        lambda parser: add_options(parser, options),
        lambda arguments: run(filled(options, arguments), arguments.quiet),
        loads_networks,
        epilog,
    )
