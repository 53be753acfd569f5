"""Text that comes from outside or goes to a terminal: whole numbers read strictly, and lines without control characters."""

from __future__ import annotations

import re

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
