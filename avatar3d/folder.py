"""Folders that a command fills: whole or not at all, into nothing, an empty folder or one of its own, whose other things stay."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from avatar3d.errors import InputError
from avatar3d.files import read_json

MAX_LISTING_BYTES = 64 << 20  # of a listing that is looked at
FILES_KEY = "files"


@dataclass(frozen=True)
class FilledFolder:
    """One kind of folder.

    what: as errors call what it holds. listing: the JSON file in it whose `files` are the names of all that was written, itself
    included. keys: what that JSON holds besides, by which it is told from others.
    """

    what: str
    listing: str
    keys: frozenset[str]

    def check(self, path: str | Path) -> None:
        """Raise InputError unless it can be filled: nothing, an empty folder or one of this kind is there, and may be written to."""
        target = Path(path)
        try:
            if target.exists() and not target.is_dir():
                raise InputError(f"cannot write {self.what} to {target}: a file is there; name a folder")
            if target.is_dir() and any(target.iterdir()) and self.own_files(target) is None:
                raise InputError(f"cannot write {self.what} to {target}: the folder holds other things; name a new one")
            existing = target.absolute().parent
            while not existing.exists():
                existing = existing.parent
        except OSError as error:
            raise InputError(f"cannot write {self.what} to {target}: {error.strerror}; name another folder") from error
        for folder in (existing, target) if target.is_dir() else (existing,):
            if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
                raise InputError(f"cannot write {self.what} to {target}: {folder} is not a folder you may write to")

    def own_files(self, folder: Path) -> set[str] | None:
        """What the listing in `folder` says was written, paths relative to it; None where there is no such listing."""
        try:
            listed = read_json(folder / self.listing, "report", MAX_LISTING_BYTES)
        except InputError:
            return None
        if not isinstance(listed, dict) or not self.keys <= set(listed):
            return None
        files = listed.get(FILES_KEY, [])
        names = files if isinstance(files, list) else []
        # A path that leads out of the folder was never written by us.
        return {self.listing, *(name for name in names if isinstance(name, str) and _is_inside(name))}

    @contextmanager
    def filling(self, path: str | Path, last: Sequence[str] = ()) -> Iterator[Path]:
        """Yield an empty folder beside `path`; on a clean exit its files go there, otherwise nothing is left of them.

        Of a folder that was there, only the files that its own listing names are replaced or removed. last: names that come last,
        in this order: whoever sees them finds the others.
        """
        target = Path(path) if Path(path).name else Path(path).absolute()
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            folder = Path(scratch) / "filled"
            folder.mkdir()
            yield folder
            if target.exists() and any(target.iterdir()):
                self._replace(folder, target, last)
            else:
                if target.exists():
                    target.rmdir()
                folder.rename(target)

    def _replace(self, folder: Path, target: Path, last: Sequence[str]) -> None:
        before = self.own_files(target) or set()
        written = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
        names = [*sorted(written - {self.listing, *last}), self.listing, *(name for name in last if name in written)]
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(folder / name, target / name)
        for name in before - set(names):
            (target / name).unlink(missing_ok=True)


def _is_inside(name: str) -> bool:
    parts = Path(name).parts
    return bool(parts) and not Path(name).is_absolute() and ".." not in parts
