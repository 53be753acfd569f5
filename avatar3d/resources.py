"""Where the data files of an installation lie: assets, shaders and configs, in a checkout or in an installed wheel."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from avatar3d.errors import WorkError

_PACKAGE = Path(__file__).resolve().parent
# A wheel carries the three folders inside the package (see pyproject.toml); a checkout has them beside it.
_ROOTS = (_PACKAGE / "_data", _PACKAGE.parent)


def _find(folder: str, name: str) -> Path:
    for root in _ROOTS:
        candidate = root / folder / name
        if candidate.exists():
            return candidate
    raise WorkError(f"the data file {folder}/{name} is missing from this installation; reinstall avatar3d")


def asset_path(name: str) -> Path:
    """Path of a file in assets/; raises WorkError when the installation lacks it."""
    return _find("assets", name)


def shader_path(name: str) -> Path:
    """Path of a file in shaders/; raises WorkError when the installation lacks it."""
    return _find("shaders", name)


def config_path(name: str) -> Path:
    """Path of a file in configs/; raises WorkError when the installation lacks it."""
    return _find("configs", name)


def cache_dir() -> Path:
    """The user's cache folder for models and samples: $AVATAR3D_HOME, else $XDG_CACHE_HOME/avatar3d, else ~/.cache/avatar3d.

    A user without a home, as containers have, gets a folder among the temporary files.
    """
    home = os.environ.get("AVATAR3D_HOME")
    try:
        if home:
            return Path(home).expanduser()
        base = os.environ.get("XDG_CACHE_HOME")
        return (Path(base).expanduser() if base else Path.home() / ".cache") / "avatar3d"
    except RuntimeError:  # neither HOME nor an entry among the users
        return Path(home) if home else Path(tempfile.gettempdir()) / _OWN_NAME


_OWN_NAME = f"avatar3d-{os.getuid()}" if hasattr(os, "getuid") else "avatar3d"


def private_temporary_dir() -> Path | None:
    """A folder of this user's alone among the temporary files, the same each time; None where there cannot be one.

    What is read back from it may be code, so one that somebody else made or may write is not used.
    """
    folder = Path(tempfile.gettempdir()) / _OWN_NAME
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077)
    return folder if own and stat.S_ISDIR(found.st_mode) else None
