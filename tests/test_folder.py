"""A folder that a command fills holds all of one run or nothing of it, and what else lies there stays."""

from __future__ import annotations

import json

import pytest

from avatar3d.errors import InputError
from avatar3d.folder import FilledFolder

KIND = FilledFolder("the sketches", "list.json", frozenset({"sketches"}))


def fill(folder, *names: str, last: tuple[str, ...] = ()) -> None:
    with KIND.filling(folder, last) as scratch:
        for name in names:
            (scratch / name).parent.mkdir(exist_ok=True)
            (scratch / name).write_text(name)
        (scratch / "list.json").write_text(json.dumps({"sketches": len(names), "files": ["list.json", *names]}))


def names_in(folder) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_second_run_takes_its_own_away_and_leaves_the_rest(tmp_path):
    out = tmp_path / "deep" / "out"
    fill(out, "a.png", "sub/b.png")
    (out / "sub" / "mine.txt").write_text("mine")
    KIND.check(out)
    fill(out, "a.png", "c.png", last=("a.png",))
    assert names_in(out) == ["a.png", "c.png", "list.json", "sub/mine.txt"]
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_a_run_that_ends_early_leaves_what_was_there(tmp_path):
    fill(tmp_path / "out", "a.png")
    with pytest.raises(KeyboardInterrupt), KIND.filling(tmp_path / "out") as scratch:
        (scratch / "b.png").write_text("half")
        raise KeyboardInterrupt
    assert names_in(tmp_path) == ["out/a.png", "out/list.json"]


def test_a_listing_never_leads_out_of_its_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "keep.txt").write_text("keep")
    listing = {"sketches": 1, "files": ["../keep.txt", str(tmp_path / "keep.txt"), "", 7]}
    (tmp_path / "out" / "list.json").write_text(json.dumps(listing))
    fill(tmp_path / "out", "a.png")
    assert (tmp_path / "keep.txt").exists() and names_in(tmp_path / "out") == ["a.png", "list.json"]


@pytest.mark.parametrize("content", ['{"files": []}', "[]", "{", '{"stages": 1}'])
def test_a_folder_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "list.json").write_text(content)
    with pytest.raises(InputError, match="cannot write the sketches to .* holds other things; name a new one"):
        KIND.check(tmp_path)
    with pytest.raises(InputError, match="a file is there; name a folder"):
        KIND.check(tmp_path / "list.json")
