"""What the pages show is true: commands parse, drawings are drawn, the Python example runs, flags and tools that are named exist."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from make_avatar import synthetic_avatar
from PIL import Image

from avatar3d import cli
from avatar3d.camera import Camera
from avatar3d.glb import write_glb

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("avatar3d/*/README.md")), *sorted(ROOT.glob("docs/*.md")))
README = PAGES[0].read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


LINES = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]
COMMANDS = [shlex.split(line, comments=True) for line in LINES]
OURS = [words[words.index(".venv/bin/avatar3d") + 1 :] for words in COMMANDS if ".venv/bin/avatar3d" in words]
DRAWINGS = [words for words in OURS if words[0] == "render"]


SETTING_UP = [["./tools/demo"], ["./tools/test"], ["pip", "install"]]


def test_the_extras_named_are_those_there_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = (words for words in COMMANDS if words[:2] == ["pip", "install"])
    installed = re.fullmatch(r"\.\[(.*)\]", line[2]).group(1).split(",")
    table = README[README.index("| extra |") :].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.splitlines())))
    assert set(installed) < named == set(project["optional-dependencies"]) - {"dev"}


def test_the_page_shows_the_three_jobs():
    assert {"enroll", "xr", "view", "render", "evaluate"} <= {words[0] for words in OURS}
    others = [words for words in COMMANDS if ".venv/bin/avatar3d" not in words and words[:2] not in SETTING_UP]
    assert not others, "nothing here tells whether these lines work"


@pytest.mark.parametrize("words", OURS, ids=" ".join)
def test_a_shown_command_parses(words):
    assert cli.build_parser().parse_args(words).command == words[0]


@pytest.mark.parametrize("words", DRAWINGS, ids=" ".join)
def test_a_shown_drawing_is_drawn(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_glb(synthetic_avatar(), Path("me.glb"))
    camera = Camera.orbit(0.3, width=48, height=32, name="side")
    Path("cameras.json").write_text(json.dumps([camera.to_json()]))
    assert cli.main([*words, "--size", "64", "--supersample", "1", "--json"]) == 0
    files = [Path(name) for name in json.loads(capsys.readouterr().out)["files"]]
    assert files and all(file.stat().st_size > 100 for file in files)
    if files[0].suffix == ".png":
        size = (128, 64) if "--stereo" in words else (48, 32) if "--cameras" in words else (64, 64)
        assert Image.open(files[0]).size == size


def test_the_python_example_runs(tmp_path, monkeypatch):
    (example,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    path = Path(re.findall(r'load\("(.*?)"\)', example)[0])
    path.parent.mkdir(parents=True)
    write_glb(synthetic_avatar(), path)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    left, right = names["pictures"]  # type: ignore[misc]
    assert left.shape == right.shape == (512, 512, 3) and left.dtype == np.uint8
    assert np.ptp(left) > 100 and (left != right).any()


def flags_of(command: str) -> set[str]:
    parser = cli.build_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {flag for action in commands.choices[command]._actions for flag in action.option_strings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_what_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    for code in re.findall(r"`(?:\.venv/bin/)?avatar3d ([^`]*)`", text):
        command, *words = code.split()
        known = flags_of(command)
        assert all(word in known for word in words if word.startswith("--")), code
    for tool in re.findall(r"`(?:\./)?(tools/[\w.]+)", text):
        assert (ROOT / tool).exists(), tool
        assert "." in tool or os.access(ROOT / tool, os.X_OK), tool
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:avatar3d|configs|shaders|assets|tests)/[\w./]*(?:/|\.\w+))`", text):
        assert (ROOT / name).exists(), name
