"""Writing files so that a reader never sees half of one: a temporary name beside the target, then a rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from avatar3d.errors import InputError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path with the target's suffix; on a clean exit it replaces `path`, otherwise it is removed.

    Raises InputError when the folder does not exist, cannot be written, or the target is a folder.
    """
    target = Path(path)
    with _temporary(target) as temporary:
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    if target.is_dir():
        raise InputError(f"cannot write {target}: it is a folder; name a file")
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {target}: the folder {folder} does not exist; create it first")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=folder)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose a folder you may write to") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Raise the InputError that writing `path` would raise, before long work starts; leaves nothing behind."""
    target = Path(path)
    existed = target.exists()
    with _temporary(target):
        pass
    if existed and not os.access(target, os.W_OK):
        raise InputError(f"cannot write {target}: the file there is read-only; choose another name")


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` through a temporary file."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
