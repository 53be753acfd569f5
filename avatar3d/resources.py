"""Where the data files of an installation lie: assets, shaders and configs, in a checkout or in an installed wheel."""

from __future__ import annotations

import os
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
    """The user's cache folder for models and samples: $AVATAR3D_HOME, else $XDG_CACHE_HOME/avatar3d, else ~/.cache/avatar3d."""
    home = os.environ.get("AVATAR3D_HOME")
    if home:
        return Path(home).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "avatar3d"
