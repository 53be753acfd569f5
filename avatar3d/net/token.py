"""The secret that both ends of a stream share: where it is read from, and making one."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from avatar3d.errors import InputError
from avatar3d.files import read_bounded

ENVIRONMENT = "AVATAR3D_TOKEN"
MIN_LENGTH, MAX_LENGTH = 8, 256  # characters
MIN_LENGTH_AWAY = 16  # where packets leave the machine: who records them can try tokens at home, some ten a second and core
MADE_BYTES = 16


def make_token() -> str:
    """A new one, of characters that need no quoting anywhere."""
    return secrets.token_urlsafe(MADE_BYTES)


@contextmanager
def token_file(token: str) -> Iterator[Path]:
    """A file that holds the token, its owner's alone, for the other end to read; removed at the end."""
    handle, name = tempfile.mkstemp(prefix="avatar3d-token-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(token + "\n")
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def read_token(text: str | None = None, file: str | Path | None = None, local: bool = True) -> str | None:
    """The token given as a text, else in a file, else in the environment variable AVATAR3D_TOKEN, else None.

    local: whether the link stays on this machine. Raises InputError where two are given, the file cannot be read, or the token is too
    short to be a secret.
    """
    if text is not None and file is not None:
        raise InputError("a token and a token file were both given; expected one of them")
    origin = "the token"
    if file is not None:
        origin = f"the token in {file}"
        try:
            text = read_bounded(file, "token file", 4 * MAX_LENGTH + 2).decode().strip()
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is not a text file with a token") from error
    elif text is None:
        text = os.environ.get(ENVIRONMENT)
        origin = f"the token in {ENVIRONMENT}"
        if text is None:
            return None
    shortest = MIN_LENGTH if local else MIN_LENGTH_AWAY
    if not shortest <= len(text) <= MAX_LENGTH:
        why = "" if local or len(text) < MIN_LENGTH else " on a link that leaves this machine"
        raise InputError(f"{origin} has {len(text)} characters; expected {shortest} to {MAX_LENGTH}{why}")
    return text
