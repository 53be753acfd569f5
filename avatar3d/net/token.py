"""The secret that both ends of a stream share: where it is read from, and making one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from avatar3d.errors import InputError
from avatar3d.files import read_bounded

ENVIRONMENT = "AVATAR3D_TOKEN"
MIN_LENGTH, MAX_LENGTH = 8, 256  # characters
MADE_BYTES = 16


def make_token() -> str:
    """A new one, of characters that need no quoting anywhere."""
    return secrets.token_urlsafe(MADE_BYTES)


def read_token(text: str | None = None, file: str | Path | None = None) -> str | None:
    """The token given as a text, else in a file, else in the environment variable AVATAR3D_TOKEN, else None.

    Raises InputError where two are given, the file cannot be read, or the token is too short to be a secret.
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
    if not MIN_LENGTH <= len(text) <= MAX_LENGTH:
        raise InputError(f"{origin} has {len(text)} characters; expected {MIN_LENGTH} to {MAX_LENGTH}")
    return text
