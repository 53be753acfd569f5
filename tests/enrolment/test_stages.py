"""Enrolment as a list of stages: what the list promises, stopping, replacing, looking on; the clock and the report come from it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from samples import sample

import avatar3d
from avatar3d import cli
from avatar3d.enrolment.keep import kept_stages
from avatar3d.enrolment.pipeline import STAGES, EnrollOptions, run
from avatar3d.enrolment.stage import Stage, following, replaced, run_stages, until
from avatar3d.enrolment.state import Enrolment
from avatar3d.errors import InputError

DOCS = Path(__file__).resolve().parents[2] / "docs" / "enrolment.md"
START = Enrolment(EnrollOptions(), "me.jpg")


def noted(name: str, share: float = 1.0, **more: object) -> Stage:
    """A stage that notes its name."""
    return Stage(name, share, f"doing {name}", lambda state: state.told(name), **more)


def test_stages_run_in_turn_and_those_that_are_not_needed_do_not():
    stages = (noted("a"), noted("b", needed=lambda state: "x" in state.notes), noted("c"))
    watched = []
    state = run_stages(stages, START, after=lambda stage, left: watched.append((stage.name, left.notes)))
    assert state.notes == ("a", "c") and list(state.seconds) == ["a", "c"]
    assert watched == [("a", ("a",)), ("c", ("a", "c"))]
    assert set(state.report()["seconds"]) == {"a", "c", "total"} and state.report()["warnings"] == ["a", "c"]
    assert START.notes == () and START.seconds == {}


def test_progress_rises_by_the_shares_of_what_is_needed():
    def half_way(state: Enrolment) -> Enrolment:
        state.progress(0.5, "half of c")
        state.progress(0.25, "never back")
        return state

    hat = noted("hat", 10.0, needed=lambda state: "b" in state.notes)
    stages = (
        noted("a", 1.0),
        noted("b", 2.0, needed=lambda state: False),
        Stage("c", 4.0, "doing c", half_way),
        hat,
        noted("d", 5.0),
    )
    told: list[tuple[float, str]] = []
    run_stages(stages, START, lambda share, label: told.append((round(share, 6), label)))
    assert told == [(0.0, "doing a"), (0.1, "doing c"), (0.3, "half of c"), (0.3, "never back"), (0.5, "doing d")]


def test_a_stage_that_turns_out_to_be_needed_sets_progress_back_no_further_than_it_was():
    told: list[float] = []
    hat = noted("hat", 3.0, needed=lambda state: "b" in state.notes)
    run_stages((noted("a", 1.0), noted("b", 4.0), hat, noted("c", 1.0)), START, lambda share, _: told.append(share))
    assert told == sorted(told) and told[-1] == pytest.approx(8 / 9)


def test_neighbours_share_a_context_which_ends_with_the_last_of_them_whatever_happens():
    log: list[str] = []

    @contextmanager
    def around(state: Enrolment):
        log.append(f"in after {len(state.notes)}")
        try:
            yield
        finally:
            log.append("out")

    def fail(state: Enrolment) -> Enrolment:
        log.append("fail")
        raise KeyboardInterrupt

    stages = (
        noted("a"),
        noted("b", within=around),
        noted("skip", needed=lambda _: False),
        noted("c", within=around),
        noted("d"),
    )
    run_stages(stages, START, after=lambda stage, _: log.append(stage.name))
    assert log == ["a", "in after 1", "b", "c", "out", "d"]
    log.clear()
    with pytest.raises(KeyboardInterrupt):
        run_stages(replaced(stages, "c", fail), START)
    assert log == ["in after 1", "fail", "out"]


def test_lists_are_cut_and_changed_by_name():
    names = [stage.name for stage in STAGES]
    assert [stage.name for stage in until(STAGES, "light")] == names[: names.index("light") + 1]
    assert until(STAGES, "hair") + following(STAGES, "hair") == STAGES
    other = replaced(STAGES, "hair", lambda state: state)
    assert [stage.name for stage in other] == names and other[names.index("hair")].share == STAGES[names.index("hair")].share
    with pytest.raises(InputError, match="no stage 'beard'; expected one of photo, face, fit"):
        until(STAGES, "beard")


def test_the_page_tells_of_every_stage_and_of_no_other():
    table = DOCS.read_text(encoding="utf-8").split("| stage | what it does |")[1].split("\n\n")[0]
    told = [
        name.strip().strip("`")
        for line in table.splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].split(",")
    ]
    assert sorted(told) == sorted(stage.name for stage in STAGES)


@pytest.mark.slow
def test_the_seconds_of_a_whole_enrolment_are_the_lists(astronaut):
    seconds = list(astronaut[1]["seconds"])
    wanted = [stage.name for stage in STAGES if stage.name not in ("hat", "paint", "write")]  # nothing for them to do
    assert seconds == [*wanted, "total"]


@pytest.mark.slow
def test_stopped_after_a_stage_it_knows_as_much_as_that_and_no_more():
    state = run(sample("astronaut.png"), EnrollOptions(field=False), stages=until(STAGES, "segment"))
    assert list(state.seconds) == ["photo", "face", "fit", "segment"]
    assert state.segmentation.hair_mask.any() and state.avatar is None
    report = json.loads(json.dumps(state.report()))
    assert report["landmark_error_iod_pct"] < 2 and "quality" not in report


@pytest.mark.slow
def test_the_pages_example_runs(tmp_path, monkeypatch):
    code = DOCS.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    with Image.open(sample("astronaut.png")) as picture:
        picture.convert("RGB").save(tmp_path / "me.jpg", quality=95)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code, names)  # what the page tells a person to run
    state = names["state"]
    assert state.avatar.hair is None and state.report()["hair"] is False
    assert [name for name in state.report()["seconds"] if name in ("segment", "hair", "judge")] == ["segment", "hair", "judge"]
    assert avatar3d.load("shaved.glb").hair is None and Path("head.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_front_door_takes_stages_and_refuses_those_that_make_no_avatar():
    watched: list[str] = []
    with pytest.raises(InputError, match=r"make no avatar: photo, face"):
        avatar3d.enroll(
            sample("astronaut.png"), stages=until(STAGES, "face"), after=lambda stage, _: watched.append(stage.name)
        )
    assert watched == ["photo", "face"]


def test_a_head_that_is_given_is_the_one_that_is_fitted():
    from avatar3d.head.landmarks import fitting_head

    own = replace(fitting_head(), control_identity=fitting_head().control_identity * 0)
    state = run(sample("astronaut.png"), EnrollOptions(head=own), stages=until(STAGES, "fit"))
    assert state.head.control_identity.max() == 0


@pytest.mark.slow
def test_kept_stages_are_pictures_of_each_and_change_nothing(tmp_path, capsys, preview):
    from avatar3d.glb import write_glb
    from tools.same_bytes import difference

    command = ["enroll", str(sample("astronaut.png")), "-o", str(tmp_path / "me.glb"), "--no-field", "--json"]
    assert cli.main([*command, "--keep-stages", str(tmp_path / "stages")]) == 0
    report = json.loads(capsys.readouterr().out)
    listed = json.loads((tmp_path / "stages" / "stages.json").read_text())
    assert [entry["name"] for entry in listed["stages"]] == [name for name in report["seconds"] if name != "total"]
    found = sorted(path.name for path in (tmp_path / "stages").iterdir())
    assert found == sorted(listed["files"])
    for entry in listed["stages"]:
        assert (entry["name"] == "write") == (not entry["pictures"])
        for name in entry["pictures"]:
            assert entry["name"] in name
            with Image.open(tmp_path / "stages" / name) as picture:
                assert min(picture.size) > 100 and np.asarray(picture.convert("L")).std() > 2, name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["me.glb", "stages"]
    write_glb(preview, tmp_path / "plain.glb")
    assert difference((tmp_path / "plain.glb").read_bytes(), (tmp_path / "me.glb").read_bytes()) == ""


def shown(state: Enrolment):
    yield "", np.zeros((8, 8), np.uint8)
    yield "wide", np.zeros((8, 16, 3), np.uint8)


def test_kept_stages_replace_their_own_and_leave_other_things(tmp_path):
    def keep(*names: str) -> None:
        with kept_stages(tmp_path / "stages") as after:
            run_stages([noted(name, pictures=shown) for name in names], START, after=after)

    keep("a", "b")
    (tmp_path / "stages" / "mine.txt").write_text("mine")
    keep("c")
    names = sorted(path.name for path in (tmp_path / "stages").iterdir())
    assert names == ["01-c-wide.png", "01-c.png", "mine.txt", "stages.json"]
    assert (tmp_path / "stages" / "01-c.png").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("end", [KeyboardInterrupt, InputError])
def test_ended_before_the_last_stage_nothing_is_kept(tmp_path, end):
    with pytest.raises(end), kept_stages(tmp_path / "stages") as after:
        run_stages([noted("a", pictures=shown)], START, after=after)
        raise end("enough")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_other_things_is_refused_before_any_work(tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"cat")
    command = ["enroll", "me.jpg", "-o", str(tmp_path / "me.glb"), "--keep-stages", str(tmp_path / "photos")]
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert said.endswith("photos: the folder holds other things; name a new one\n") and said.count("\n") == 1
    assert [path.name for path in tmp_path.rglob("*")] == ["photos", "cat.png"]
