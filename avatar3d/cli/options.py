"""A command line from dataclasses: a flag for each field that has an `Option`, and the dataclass of what was given.

The field's name, type, default and range make the flag, so that none is written twice: `distance_m: Annotated[float, Within(0.2, 10,
"metres"), Option("from the eyes", ("--distance",))] = 0.8`. A bool that is true by default gets a `--no-` flag, a Literal its choices,
a list a flag that may be given again; a dataclass within adds its own. Imports nothing heavy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

from avatar3d.errors import InputError
from avatar3d.settings import AS_THE_FIELD, MAX_NUMBER, Option, Within, found, option_fields
from avatar3d.text import whole_number

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence and exit code 2, without the usage lines."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""
        raise InputError(f"{message}; see {self.prog} --help")


def parse(cls: type[T], words: Sequence[str]) -> T:
    """The dataclass that words of a command line fill. Raises InputError."""
    parser = Parser()
    add_options(parser, cls)
    return filled(cls, parser.parse_args(list(words)))


def filled(cls: type[T], arguments: argparse.Namespace) -> T:
    """The dataclass of what was given for the options that `add_options` added; other fields keep their defaults."""
    values: dict[str, Any] = {}
    for field, kind, notes in option_fields(cls):
        option = found(Option, notes)
        if option is None:
            values[field.name] = filled(kind, arguments)
            continue
        value = getattr(arguments, field.name)
        if option.none is not None and value == option.none:
            value = None
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)


def add_options(parser: argparse.ArgumentParser, cls: type) -> None:
    """Add what a dataclass's fields ask for, in their order."""
    groups: dict[str, Any] = {}
    for field, kind, notes in option_fields(cls):
        option = found(Option, notes)
        if option is None:
            add_options(parser, kind)
            continue
        place: Any = parser
        if option.one_of:
            place = groups.setdefault(option.one_of, None) or parser.add_mutually_exclusive_group()
            groups[option.one_of] = place
        if option.switches:
            place = parser.add_mutually_exclusive_group()
            for flag, value, text in option.switches:
                place.add_argument(
                    flag,
                    dest=field.name,
                    action="store_const",
                    const=value,
                    default=_default(field, option),
                    help=_escaped(text),
                )
            continue
        _add(place, field, kind, found(Within, notes), option)


def _add(place: Any, field: Field[Any], kind: Any, within: Within | None, option: Option) -> None:
    default = _default(field, option)
    flag = f"--{field.name.replace('_', '-')}"
    names = list(option.names) or [flag]
    settings: dict[str, Any] = {"help": _escaped(option.help + _said_default(default, option))}
    if kind is bool:
        if default is True:
            names = list(option.names) or [f"--no-{field.name.replace('_', '-')}"]
        place.add_argument(*names, dest=field.name, action="store_false" if default is True else "store_true", **settings)
        return
    inner = _without_none(kind)
    several = get_origin(inner) in (tuple, list) and option.parse is None
    if several:
        inner = get_args(inner)[0]
    if get_origin(inner) is Annotated:
        inner = inner.__origin__
    if get_origin(inner) is Literal:
        choices = get_args(inner)
        settings["choices"] = choices if option.none is None else (option.none, *choices)
        inner = type(choices[0])
        if inner is not str:
            settings["type"] = inner
    elif option.parse is not None or inner in (int, float):
        range_ = within or Within(-MAX_NUMBER, MAX_NUMBER)
        settings["type"] = _telling(option.parse) if option.parse else number(range_, inner is int, option.scale, option.unit)
    elif inner is not str:
        settings["type"] = inner
    if not option.positional and "choices" not in settings:
        settings["metavar"] = option.metavar or names[-1].lstrip("-").replace("-", "_").upper()
    required = default is MISSING
    settings["default"] = option.none if default is None and option.none is not None else None if required else default
    if option.positional:
        place.add_argument(field.name, **({"nargs": "+"} if several else {} if required else {"nargs": "?"}), **settings)
    elif several:
        place.add_argument(*names, dest=field.name, action="append", **{**settings, "default": list(default)})
    else:
        place.add_argument(*names, dest=field.name, required=required, **settings)


def number(within: Within, whole: bool = False, scale: float = 1.0, unit: str = "") -> Callable[[str], float]:
    """An argument's type: a number in a range, given in a unit of which `scale` are one of the range's; others are refused."""
    shown = Within(within.low * scale, within.high * scale, unit or within.unit, within.open)

    def parse_number(text: str) -> float:
        value: float | None
        try:
            value = whole_number(text.strip(), int(shown.low), int(min(shown.high, 1e18))) if whole else float(text)
        except ValueError:
            value = None
        if value is None or not shown.holds(value):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a {'whole ' * whole}number {shown}")
        return value if scale == 1 else value / scale

    return parse_number


def _telling(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same with argparse's own error, so that the option is named."""

    def parse_text(text: str) -> Any:
        try:
            return parse(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_text


def _default(field: Field[Any], option: Option) -> Any:
    if option.default is not AS_THE_FIELD:
        return option.default
    factory: Any = field.default_factory
    return field.default if factory is MISSING else factory()


def _said_default(default: Any, option: Option) -> str:
    """What a help says of the default, where it does not speak of it itself."""
    if "default" in option.help or default is MISSING or isinstance(default, bool | Path):
        return ""
    if default is None:
        return "" if option.none is None else f" (default {option.none})"
    if isinstance(default, int | float):
        return f" (default {default * option.scale:g})"
    return f" (default {default})" if isinstance(default, str) and default else ""


def _without_none(kind: Any) -> Any:
    """X of X | None."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    (inner,) = (part for part in get_args(kind) if part is not NoneType)
    return inner


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
