"""What the pages show is true: commands parse, drawings are drawn, Python runs, and all that is named or linked exists."""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import re
import shlex
import subprocess
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
PAGES = (*sorted(ROOT.glob("*.md"), reverse=True), *sorted(ROOT.glob("avatar3d/*/README.md")), *sorted(ROOT.glob("docs/*.md")))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    """A page's code blocks of a language, by default the README's."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


LINES = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]
COMMANDS = [shlex.split(line, comments=True) for line in LINES]
OURS = [words[words.index(".venv/bin/avatar3d") + 1 :] for words in COMMANDS if ".venv/bin/avatar3d" in words]
DRAWINGS = [words for words in OURS if words[0] == "render"]


SETTING_UP = [["./tools/demo"], ["./tools/test"], ["python3", "-m"], [".venv/bin/pip", "install"]]


def test_the_extras_named_are_those_there_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = (words for words in COMMANDS if words[:2] == SETTING_UP[-1])
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


def test_what_the_page_on_extending_shows_stands_in_the_examples():
    examples = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    shown = blocks("python", (ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))
    assert len(shown) >= 4
    for block in shown:
        assert any(block in example for example in examples), block


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_what_a_page_names_in_python_can_be_imported(page):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    groups = {*groups, "avatar3d.motion_sources"}  # nothing of our own is in that one
    for name in re.findall(r"`(avatar3d(?:\.\w+)+)[`(]", page.read_text(encoding="utf-8")):
        assert name in groups or resolves(name), name


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of what its front part names."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def headings(text: str) -> set[str]:
    """Anchors of a page's headings, as code hosts make them: lower case, letters, digits, hyphens for spaces."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(page):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not heading or heading in headings(linked.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, *rows = (len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines())
        assert rows and set(rows) == {head}, table


def test_the_page_of_pages_links_all_of_them():
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", text)}
    assert {page.resolve() for page in PAGES} - {ROOT / "docs" / "README.md"} <= linked


def test_the_architecture_page_tells_of_every_folder():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("| folder of `avatar3d/`") :].split("\n\n")[0]
    told = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    git = subprocess.run(["git", "ls-files", "avatar3d/*/*"], cwd=ROOT, capture_output=True, text=True)
    if git.returncode:
        pytest.skip("not a checkout")
    assert told == {name.split("/")[1] for name in git.stdout.splitlines()}


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
    for name in re.findall(r"`((?:avatar3d|configs|shaders|assets|tests|examples)/[\w./]*(?:/|\.\w+))`", text):
        assert (ROOT / name).exists(), name
