"""Flags that commands share: --tune and --no-tune, and numbers, each with a range."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import pytest

from avatar3d.cli import build_parser, main
from avatar3d.errors import InputError


@pytest.mark.parametrize("command", ["bench", "view", "xr"])
@pytest.mark.parametrize(("words", "mode"), [([], "cached"), (["--tune"], "again"), (["--no-tune"], "never")])
def test_how_to_draw_is_measured_once_anew_or_never(command: str, words: list[str], mode: str) -> None:
    assert build_parser().parse_args([command, "me.glb", *words]).tuning == mode


@pytest.mark.parametrize("command", ["bench", "view", "xr"])
def test_both_flags_at_once_are_refused(command: str) -> None:
    with pytest.raises(InputError, match="--no-tune"):
        build_parser().parse_args([command, "me.glb", "--tune", "--no-tune"])


def _commands() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


# What each command needs beside the flag; files that do not exist, so that nothing starts where a number is not refused.
NEEDED = {
    "enroll": ["no.jpg", "-o", "a.glb"], "render": ["no.glb", "-o", "a.png"], "view": ["no.glb"], "xr": ["no.glb"],
    "track": ["no.mp4", "-o", "a.csv"], "glb": ["optimise", "no.glb", "a.glb"],
    "stream": ["csv:no.csv"], "listen": [], "bench": ["no.glb"],
}  # fmt: skip
NUMERIC = [
    (name, action.option_strings[0])
    for name, parser in _commands().items()
    for action in parser._actions
    if action.option_strings and action.type is not None and action.type is not Path and not action.choices
]


def test_the_flags_that_are_numbers_are_many() -> None:
    assert len(NUMERIC) > 30 and {name for name, _ in NUMERIC} >= set(NEEDED)


@pytest.mark.parametrize(
    ("command", "flag", "value"),
    [
        (command, flag, value)
        for command, flag in NUMERIC
        for value in ("nan", "inf", "-inf", "1e999", "²", "x", "")
        if value or flag != "--expression"  # no expression at all is neutral
    ],
)
def test_no_number_but_a_number_in_range_is_taken(
    command: str, flag: str, value: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = main([command, *NEEDED.get(command, ["no.glb", "-o", "a.ply"]), f"{flag}={value}"])
    err = capsys.readouterr().err
    assert code == 2 and err.count("\n") == 1, err
    assert flag in err or flag.strip("-") in err or flag == "--expression", f"it names another fault: {err}"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["render", "a.glb", "-o", "a.png", "--distance", "0"], "'0' is not a number from 0.1 to 100 metres"),
        (["render", "a.glb", "-o", "a.png", "--yaw", "inf"], "'inf' is not a number from -3600 to 3600 degrees"),
        (["render", "a.glb", "-o", "a.png", "--view-height", "0"], "from 0.001 to 100 metres"),
        (["render", "a.glb", "-o", "a.png", "--turntable", "1"], "whole number from 2 to 720 views"),
        (["view", "a.glb", "--ipd", "900"], "from 0 to 200 millimetres"),
        (["xr", "a.glb", "--hz", "0"], "from 1 to 1000 times a second"),
        (["enroll", "a.jpg", "-o", "a.glb", "--seed", "-1"], "whole number from 0 to 4294967295"),
        (["enroll", "a.jpg", "-o", "a.glb", "--face-box", "1,2,nan,4"], "is not x,y,w,h in pixels"),
    ],
)
def test_a_number_outside_its_range_is_refused_with_the_range(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
