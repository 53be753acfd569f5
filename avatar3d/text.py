"""Text that comes from outside or goes to a terminal: whole numbers read strictly, lines without control characters or secrets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LAYOUT = "\n\r\t"  # of tracebacks, and what a bar goes back to the line's start with
_TOKEN = re.compile(r"(token=)[^&'\"\s]+")
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def whole_number(text: str, low: int, high: int) -> int | None:
    """The number in low..high that `text` is in plain digits, or None; other scripts' digits, signs and spaces are none."""
    if not _WHOLE.fullmatch(text):
        return None
    value = int(text)
    return value if low <= value <= high else None


def printable(text: str) -> str:
    """One line of it that a terminal only prints: what a file or a network names may hold escape sequences."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def without_tokens(text: str) -> str:
    """A specification, or a line that quotes one, with the value of each `token=` left out: nothing that is printed tells it."""
    return _TOKEN.sub("\\1…", text)


class PrintableStream:
    """A text stream whose writer, whoever it is (a traceback, a library's warning, a bar), moves no cursor but by lines.

    Everything but `write` is the stream's own.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write it with a blank for each control character but line ends and tabs; the number of characters."""
        if not text.isprintable():
            text = "".join(each if each.isprintable() or each in _LAYOUT else " " for each in text)
        return int(self._stream.write(text) or 0)

    def writelines(self, lines: Any) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def printable_stderr() -> Iterator[None]:
    """Let nothing on stderr move a terminal's cursor meanwhile: not a traceback, not the warnings of libraries in Python."""
    before = sys.stderr
    if before is None:  # a process without one
        yield
        return
    sys.stderr = PrintableStream(before)
    try:
        yield
    finally:
        sys.stderr = before
