"""Plug-ins by name: what is built in, and what installed packages offer under an entry-point group. One registry a kind of plug-in.

A package offers one in its pyproject.toml, here a generator called `cheeks`:

    [project.entry-points."avatar3d.generators"]
    cheeks = "my_package.cheeks:CheekGenerator"

The kinds are avatar3d.generators, avatar3d.head_models and avatar3d.motion_sources; what an entry point names is said where each
registry is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from avatar3d.errors import Avatar3dError, InputError, WorkError

T = TypeVar("T")


@dataclass(frozen=True)
class Registry(Generic[T]):
    """Things of one kind by name.

    kind: what one is, for errors, such as "generator". group: the entry points' group. built_in: {name: "module:attribute"}, found
    even in a checkout that was never installed, and before a plug-in of the same name.
    """

    kind: str
    group: str
    built_in: Mapping[str, str]

    def names(self) -> list[str]:
        """Of all that there are, sorted."""
        return sorted({*self.built_in, *self._plug_ins()})

    def load(self, name: str) -> T:
        """What a name stands for, imported now.

        Raises InputError for an unknown name, with all that are known, and WorkError where a plug-in cannot be imported, whatever it
        fails with. What a built-in one lacks is a ModuleNotFoundError, as everywhere.
        """
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            return cast(T, getattr(import_module(module), attribute))
        point = self._plug_ins().get(name)
        if point is None:
            raise InputError(f"unknown {self.kind} {name!r}; expected one of {', '.join(self.names())}")
        try:
            return cast(T, point.load())
        except Avatar3dError:
            raise
        except Exception as error:  # a plug-in may fail in any way while it is imported
            raise WorkError(
                f"the {self.kind} {name!r} is installed but cannot be loaded from {point.value} ({error}); reinstall its package"
            ) from error

    def _plug_ins(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}
