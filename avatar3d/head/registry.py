"""Head models by name: the default one, and those that installed packages offer as entry points `avatar3d.head_models`."""

from __future__ import annotations

from collections.abc import Callable

from avatar3d.errors import InputError
from avatar3d.head.model import HeadModel
from avatar3d.registry import Registry

DEFAULT = "default"
# An entry point names a function without arguments that gives the head, landmarks and all.
HEAD_MODELS: Registry[Callable[[], HeadModel]] = Registry(
    "head model", "avatar3d.head_models", {DEFAULT: "avatar3d.head.landmarks:fitting_head"}
)


def head_of(given: str | HeadModel) -> HeadModel:
    """A head model by name, or as it was given.

    Raises InputError for an unknown name or what is neither, and WorkError where a plug-in cannot be imported.
    """
    if isinstance(given, str):
        given = HEAD_MODELS.load(given)()
    if not isinstance(given, HeadModel):
        raise InputError(f"a {type(given).__name__} is no head model; expected an avatar3d.head.HeadModel, or a name")
    return given
