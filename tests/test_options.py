"""A command line from dataclasses: what each kind of field becomes, and that nothing is said twice."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest

from avatar3d.cli.options import Parser, add_options, parse
from avatar3d.errors import InputError
from avatar3d.settings import Option, Within


def _pair(text: str) -> tuple[int, int]:
    left, _, right = text.partition("-")
    if not (left.isdigit() and right.isdigit()):
        raise InputError(f"{text!r} is not A-B")
    return int(left), int(right)


@dataclass(frozen=True)
class Lens:
    width_m: Annotated[float, Within(0, 0.2), Option("of the glass", ("--width",), scale=1000, unit="millimetres")] = 0.05
    kind: Annotated[Literal["clear", "dark"] | None, Option("of glass", none="any")] = None


@dataclass(frozen=True)
class Shop:
    where: Annotated[Path, Option("the shop", positional=True)]
    out: Annotated[Path, Option("the bill", ("-o", "--out"))]
    name: Annotated[str, Option("of the buyer")] = "nobody"
    many: Annotated[tuple[str, ...], Option("one more")] = ()
    count: Annotated[int, Within(1, 9), Option("how many")] = 2
    paid: Annotated[bool, Option("paid already")] = False
    bag: Annotated[bool, Option("without a bag")] = True
    pair: Annotated[tuple[int, int], Option("a pair", parse=_pair)] = (1, 2)
    lens: Lens = field(default_factory=Lens)
    red: Annotated[bool, Option("red", one_of="colour")] = False
    blue: Annotated[bool, Option("blue", one_of="colour")] = False
    how: Annotated[str, Option("", switches=(("--fast", "f", "go"), ("--slow", "s", "wait")), default="m")] = "x"
    inner: object = None


NEEDED = ["shop", "-o", "bill"]


def test_what_is_not_given_is_as_the_dataclass_has_it_but_for_the_command_lines_own_default() -> None:
    assert parse(Shop, NEEDED) == Shop(Path("shop"), Path("bill"), how="m")


def test_every_kind_of_field_is_filled() -> None:
    words = "--name me --many a --many b --count 9 --paid --no-bag --pair 3-4 --width 60 --kind dark --blue --slow"
    assert parse(Shop, [*NEEDED, *words.split()]) == Shop(
        Path("shop"), Path("bill"), "me", ("a", "b"), 9, True, False, (3, 4), Lens(0.06, "dark"), False, True, "s"
    )
    assert parse(Shop, [*NEEDED, "--kind", "any"]).lens.kind is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--count 10", "argument --count: '10' is not a whole number from 1 to 9"),
        ("--count 1.5", "argument --count: '1.5' is not a whole number from 1 to 9"),
        ("--width 201", "argument --width: '201' is not a number from 0 to 200 millimetres"),
        ("--width nan", "argument --width: 'nan' is not a number from 0 to 200 millimetres"),
        ("--pair x", "argument --pair: 'x' is not A-B"),
        ("--kind green", "argument --kind: invalid choice: 'green'"),
        ("--red --blue", "argument --blue: not allowed with argument --red"),
        ("--fast --slow", "argument --slow: not allowed with argument --fast"),
    ],
)
def test_what_is_wrong_names_the_option(words: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(Shop, [*NEEDED, *words.split()])
    assert sentence in str(refused.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="required: -o/--out"):
        parse(Shop, ["shop"])


def test_the_help_says_what_the_dataclass_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    parser = Parser(prog="shop", formatter_class=argparse.HelpFormatter)
    add_options(parser, Shop)
    lines = [" ".join(line.split()) for line in parser.format_help().splitlines()]
    for line in (
        "--count COUNT how many (default 2)", "--width WIDTH of the glass (default 50)", "--many MANY one more", "--paid paid already",
        "--no-bag without a bag", "--name NAME of the buyer (default nobody)", "-o OUT, --out OUT the bill", "where the shop",
    ):  # fmt: skip
        assert line in lines
    assert "--kind {any,clear,dark}" in lines and "of glass (default any)" in lines
