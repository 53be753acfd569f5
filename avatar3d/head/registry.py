"""Head models by name: the default one, and those that installed packages offer as entry points `avatar3d.head_models`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from avatar3d.head.archive import load_head
from avatar3d.head.given import check_members
from avatar3d.head.protocol import MorphableModel
from avatar3d.registry import Registry

DEFAULT = "default"
# An entry point names a function without arguments that gives the head, landmarks and all.
HEAD_MODELS: Registry[Callable[[], MorphableModel]] = Registry(
    "head model", "avatar3d.head_models", {DEFAULT: "avatar3d.head.landmarks:fitting_head"}
)


def head_of(given: str | Path | MorphableModel) -> MorphableModel:
    """A head model by name, out of its file (.npz), or as it was given.

    Raises InputError for an unknown name, a file that holds none or what is neither, and WorkError where a plug-in cannot be
    imported.
    """
    if isinstance(given, Path) or (isinstance(given, str) and given.lower().endswith(".npz")):
        return load_head(given)
    if isinstance(given, str):
        given = HEAD_MODELS.load(given)()
    check_members(given)
    return given
