"""Settings as frozen dataclasses: what a field may hold is said in its annotation, and checked wherever a value comes from.

A field is a bool, int, float, str, Literal, None, another such dataclass, or a union, tuple or dict of these; `Annotated` adds a
range (`Within`) and what the command line says of it (`Option`, see avatar3d.cli.options). `read_settings` makes one of a YAML or
JSON file, `settings_of` of plain values, and `check` judges one that is made already. Relations between fields belong to the class's
own `__post_init__`.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from avatar3d.errors import InputError
from avatar3d.files import read_json, read_yaml, shown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S")
MAX_NUMBER = 1e30  # squares and products of it stay in a double's range
MAX_NAMED, MAX_LISTED = 5, 12  # fields that an error names as missing or near, and as all that there are
AS_THE_FIELD = object()  # an option's default that is not another
_UNIONS = (Union, types.UnionType)


@dataclass(frozen=True)
class Within:
    """The range of a number, both ends allowed, or of how many letters or entries a text or a tuple has; open: not the lower end."""

    low: float
    high: float = math.inf
    unit: str = ""
    open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number lies in it; a NaN does not."""
        return (self.low < value if self.open else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        if self.high == math.inf:
            text = f"over {self.low:g}" if self.open else f"of {self.low:g} or more"
        elif self.open:
            text = f"over {self.low:g}, up to {self.high:.12g}"
        else:
            text = f"from {self.low:g} to {self.high:.12g}"
        return f"{text} {self.unit}".rstrip()


@dataclass(frozen=True)
class Option:
    """What the command line says of a field: the help, and where they are not as the field's own the names, such as "-o", "--out".

    metavar: for the value. parse: text to value, raising InputError; by default as the annotation has it. scale, unit: how many of the
    option's units are one of the field's, and what it is called. none: the word for None. one_of: the name of a group of which one may
    be given. switches: (flag, value, help) of flags that each set one value. default: of the command line, where it is not the field's.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    scale: float = 1.0
    unit: str = ""
    none: str | None = None
    positional: bool = False
    one_of: str = ""
    switches: tuple[tuple[str, Any, str], ...] = ()
    default: Any = AS_THE_FIELD


@cache
def annotation(owner: type, field: Field[Any]) -> tuple[Any, tuple[Any, ...]]:
    """(type, what `Annotated` adds to it) of a dataclass's field."""
    kind = field.type
    if isinstance(kind, str):  # of a module with postponed annotations; the class that wrote it knows its names
        writer = next(base for base in owner.__mro__ if field.name in get_annotations(base))
        kind = eval(kind, {**vars(sys.modules[writer.__module__])})
    return (kind.__origin__, kind.__metadata__) if get_origin(kind) is Annotated else (kind, ())


def _annotated(cls: type) -> Iterator[tuple[Field[Any], Any, tuple[Any, ...]]]:
    """(field, type, notes) of a dataclass's fields, but for those with names that are there for the type checker alone."""
    for field in fields(cls):
        try:
            kind, notes = annotation(cls, field)
        except NameError:
            continue
        yield field, kind, notes


def found(kind: type[S], notes: tuple[Any, ...]) -> S | None:
    """The note of a kind among what `Annotated` adds, or None."""
    return next((note for note in notes if isinstance(note, kind)), None)


def read_settings(cls: type[S], path: str | Path, what: str, max_bytes: int) -> S:
    """The settings that a .json or, under any other name, YAML file holds.

    what: what the file is, for errors. Raises InputError, in one sentence that names file and field.
    """
    read = read_json if Path(path).suffix == ".json" else read_yaml
    return settings_of(cls, read(path, what, max_bytes), f"{path}: ")


def settings_of(cls: type[S], values: object, where: str = "") -> S:
    """A dataclass of a mapping of its fields to plain values. where: begins every error. Raises InputError."""
    made: S = _made(cls, (), values, where, "")
    return made


def check(settings: DataclassInstance, what: str = "") -> None:
    """Raise InputError, saying what it is of, where a field of a dataclass holds what its annotation does not allow."""
    where, cls = f"{what}: " if what else "", type(settings)
    for field, kind, notes in _annotated(cls):
        _made(kind, notes, getattr(settings, field.name), where, field.name)


def _made(kind: Any, notes: tuple[Any, ...], value: object, where: str, place: str) -> Any:
    """A value as a type has it."""
    if get_origin(kind) is Annotated:
        kind, notes = kind.__origin__, (*notes, *kind.__metadata__)
    within = found(Within, notes)
    origin = get_origin(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return value if isinstance(value, kind) else _dataclass(kind, value, where, place)
    if origin in _UNIONS:
        return _of_union(kind, notes, value, where, place)
    if origin in (tuple, list) and isinstance(value, list | tuple) and _long_enough(within, value):
        inner, *rest = get_args(kind)
        kinds = (inner,) * len(value) if origin is list or rest == [...] else (inner, *rest)
        if len(kinds) == len(value):
            each = zip(kinds, value, strict=True)
            return origin(_made(part, (), item, where, f"{place}[{i}]") for i, (part, item) in enumerate(each))
    if origin is dict and isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {
            key: _made(get_args(kind)[1], (), item, where, f"{place}.{key}" if place else key) for key, item in value.items()
        }
    if origin is Literal and isinstance(value, str) and value in get_args(kind):
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str) and _long_enough(within, value):
        return value
    if kind is int and type(value) is int and (within is None or within.holds(value)):
        return value
    if kind is float and type(value) in (int, float) and _fits(cast(float, value), within):
        return float(cast(float, value))
    if isinstance(kind, type) and kind not in (bool, str, int, float) and isinstance(value, kind):
        return value  # what no file holds, such as a Path, made in code
    raise InputError(f"{where}{place or 'it'} is {shown(value)}; expected {_wanted(kind, within)}")


def _fits(value: float, within: Within | None) -> bool:
    return abs(value) < MAX_NUMBER and (within is None or within.holds(value))  # neither is true of a NaN


def _long_enough(within: Within | None, value: Any) -> bool:
    return within is None or within.holds(len(value))


def _of_union(kind: Any, notes: tuple[Any, ...], value: object, where: str, place: str) -> Any:
    """What the first type of a union makes of a value; None is itself."""
    kinds = [part for part in get_args(kind) if part is not types.NoneType]
    if value is None and len(kinds) < len(get_args(kind)):
        return None
    for number, part in enumerate(kinds, start=1):
        try:
            return _made(part, notes, value, where, place)
        except InputError:
            if number == len(kinds):
                raise
    raise InputError(f"{where}{place} is {shown(value)}; expected nothing")


def _dataclass(cls: type, value: object, where: str, place: str) -> Any:
    """A dataclass of plain values, whose keys are its fields: all without a default, and no others."""
    known = {field.name: field for field in fields(cls)}
    inside = f" in {place}" if place else ""
    if not isinstance(value, Mapping):
        raise InputError(f"{where}{place or 'it'} is {shown(value)}; expected {', '.join(known)}")
    for key in value:
        if key not in known:
            near = get_close_matches(str(key), known, MAX_NAMED) or (list(known) if len(known) <= MAX_LISTED else [])
            raise InputError(f"{where}{shown(key)} is unknown{inside}" + (f"; expected {' or '.join(near)}" if near else ""))
    missing = [name for name, field in known.items() if name not in value and not _has_default(field)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise InputError(f"{where}{', '.join(missing[:MAX_NAMED])} {verb} missing{inside}")
    made = {}
    for name, item in value.items():
        kind, notes = annotation(cls, known[name])
        made[name] = _made(kind, notes, item, where, f"{place}.{name}" if place else name)
    try:
        return cls(**made)
    except InputError as error:
        raise InputError(f"{where}{place and f'{place}: '}{error}") from error


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _wanted(kind: Any, within: Within | None) -> str:
    """What a value should be, for a person."""
    origin = get_origin(kind)
    ranged = "" if within is None else f" {within}"
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if origin in (tuple, list):
        inner, *rest = get_args(kind)
        number = f"{1 + len(rest)} " if origin is tuple and rest != [...] else ""
        return f"a list of {number}{_wanted_each(inner)}" + ("" if within is None else f", {within} of them")
    if origin is dict:
        inner = get_args(kind)[1]
        return f"names, each with {'a table' if is_dataclass(inner) else _wanted(inner, None)}"
    words = {bool: "true or false", int: f"a whole number{ranged}", float: f"a number{ranged}"}
    return words.get(kind, f"a text {within} letters" if within else "a text")


def _wanted_each(kind: Any) -> str:
    kind, notes = (kind.__origin__, kind.__metadata__) if get_origin(kind) is Annotated else (kind, ())
    within = found(Within, notes)
    if is_dataclass(kind):
        return "tables"
    word = {int: "whole numbers", float: "numbers"}.get(kind, "texts")
    return word if within is None else f"{word} {within}"


def option_fields(cls: type) -> Iterator[tuple[Field[Any], Any, tuple[Any, ...]]]:
    """(field, type, notes) of a dataclass's fields that the command line shows: those with an `Option`, and dataclasses within."""
    for field, kind, notes in _annotated(cls):
        if found(Option, notes) is not None or is_dataclass(kind):
            yield field, kind, notes
