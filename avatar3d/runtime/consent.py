"""Whether the person agreed that their face is read by the headset: asked once, remembered in the cache folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from avatar3d.errors import InputError
from avatar3d.files import replacing
from avatar3d.resources import cache_dir

FILE = "consent.json"
KEY = "face_of_the_headset"
MAX_BYTES = 10_000
QUESTION = (
    "The headset can read your face, eyes and head to move the avatar. Nothing of it is stored, and nothing leaves this machine "
    "unless you start a sender. Use it? [yes/no] "
)


def remembered() -> bool | None:
    """What was answered before; None when nothing was, or the file is not ours."""
    path = cache_dir() / FILE
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        answers = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    answer = answers.get(KEY) if isinstance(answers, dict) else None
    return answer if isinstance(answer, bool) else None


def remember(answer: bool) -> None:
    """Keep the answer for later runs."""
    path = cache_dir() / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps({KEY: answer}) + "\n", encoding="utf-8")


def consented(given: bool | None, ask: Callable[[str], str] | None = None) -> bool:
    """Whether the face may be read: as given now, as remembered, or as answered to the question; new answers are remembered.

    ask: shows a question and returns the line that was typed; by default the terminal, where there is one. Raises InputError
    where nothing was said before and nobody can be asked.
    """
    answer = remembered() if given is None else given
    if answer is None:
        if ask is None and not sys.stdin.isatty():
            raise InputError("the headset may read your face only if you agree: pass --consent yes or --consent no, once")
        answer = _asked(ask or input)
    if answer != remembered():
        remember(answer)
    return answer


def _asked(ask: Callable[[str], str]) -> bool:
    while True:
        try:
            typed = ask(QUESTION).strip().lower()
        except EOFError:
            return False
        if typed in ("y", "yes", "n", "no"):
            return typed.startswith("y")
