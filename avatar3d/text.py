"""Text that comes from outside or goes to a terminal: whole numbers read strictly, lines without control characters or secrets."""

from __future__ import annotations

import re

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
