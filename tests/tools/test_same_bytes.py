"""The tool that compares what two commits enrol: a clock makes no difference, any byte else does, and it leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from make_avatar import tiny_avatar

from avatar3d.glb import write_glb

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import same_bytes

# In place of avatar3d: "enrols" a text file, as many times as --seed says.
COMMAND = """
import sys
photo, out = sys.argv[2], sys.argv[4]
text = open(photo).read()
if "no face" in text:
    sys.exit(print("avatar3d: no face found", file=sys.stderr) or 2)
body = b'{"asset":"%s"}' % (text.TIMES * (3 if "--seed" in sys.argv else 1)).encode()
glb = b"glTF" + bytes(8) + len(body).to_bytes(4, "little") + b"JSON" + body
open(out, "wb").write(glb)
"""


def made(provenance: dict[str, object], path: Path, **changes: object) -> bytes:
    write_glb(replace(tiny_avatar(), provenance=provenance, **changes), path)
    return path.read_bytes()


def test_only_what_a_clock_wrote_may_differ(tmp_path):
    training = {"iterations": 450, "seconds": 1.5, "seconds_per_iteration": 3.3e-3, "loss_last": 0.25}
    first = made({"date": "2026-11-30", "seed": 0, "training": training}, tmp_path / "a.glb")
    later = {"date": "2027-01-01", "seed": 0, "training": {**training, "seconds": 11.25, "seconds_per_iteration": 0.025}}
    assert same_bytes.difference(first, made(later, tmp_path / "b.glb")) == ""
    other_loss = {**later, "training": {**training, "loss_last": 0.250001}}
    found = same_bytes.difference(first, made(other_loss, tmp_path / "c.glb"))
    assert found == "JSON at /extensions/AVATAR3D_neural/provenance/training/loss_last"


def test_a_single_moved_vertex_is_named(tmp_path):
    avatar = tiny_avatar()
    moved = avatar.vertices.copy()
    moved[3, 0] += 1e-5
    first = made({}, tmp_path / "a.glb")
    found = same_bytes.difference(first, made({}, tmp_path / "b.glb", vertices=moved))
    assert "data of buffer view" in found and "/accessors/" in found
    with pytest.raises(ValueError):
        same_bytes.difference(first, b"an apple")


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository of three commits, of which the last enrols otherwise; becomes what the tool looks at."""
    folder = tmp_path / "repository"
    package = folder / "avatar3d" / "cli"
    package.mkdir(parents=True)
    (folder / "avatar3d" / "__init__.py").touch()
    git(tmp_path, "init", "-q", str(folder))
    for tag, text in (("one", "strip()"), ("two", "strip() "), ("three", "upper()")):
        (package / "__init__.py").write_text("")
        (package / "__main__.py").write_text(COMMAND.replace("TIMES", text))
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "--allow-empty", "-m", tag)
        git(folder, "tag", tag)
    monkeypatch.setattr(same_bytes, "ROOT", folder)
    return folder


def run(monkeypatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["same_bytes", *words])
    return same_bytes.main()


def test_commits_are_run_as_they_were_and_leave_nothing(repository, tmp_path, monkeypatch, capsys):
    (tmp_path / "me.txt").write_text("Ann")
    (tmp_path / "wall.txt").write_text("no face")
    photos = [str(tmp_path / "me.txt"), str(tmp_path / "wall.txt")]
    assert run(monkeypatch, "one", "two", *photos, "--seed", "3") == 0
    mine, wall = capsys.readouterr().out.splitlines()
    assert mine.startswith(f"me.txt: same, {20 + 12 + 9} bytes") and wall == "wall.txt: same, refused: avatar3d: no face found"
    assert run(monkeypatch, "one", "three", *photos) == 1
    mine, wall = capsys.readouterr().out.splitlines()
    assert mine.startswith("me.txt: DIFFERS in JSON at /asset") and "same" in wall
    assert run(monkeypatch, ".", "three", photos[0]) == 0
    assert git(repository, "worktree", "list").count("\n") == 1 and git(repository, "status", "--porcelain") == ""


def test_an_unknown_commit_and_a_missing_photo_are_refused(repository, tmp_path, monkeypatch, capsys):
    (tmp_path / "me.txt").write_text("Ann")
    for words, what in (
        (("one", "four", str(tmp_path / "me.txt")), "four is no commit"),
        (("one", "two", "x"), "no such photo: x"),
    ):
        with pytest.raises(SystemExit) as refused:
            run(monkeypatch, *words)
        assert refused.value.code == 2 and what in capsys.readouterr().err
