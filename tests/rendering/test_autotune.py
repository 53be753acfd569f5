"""The measurement of what draws fastest: what it chooses, what it remembers, and that nothing damaged is believed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from avatar3d.avatar import Avatar
from avatar3d.errors import InputError
from avatar3d.rendering.opengl import autotune
from avatar3d.rendering.opengl.draw_strategy import VALUES, DrawStrategy
from avatar3d.rendering.opengl.renderer import RealtimeRenderer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def context(realtime: RealtimeRenderer) -> Iterator[Any]:
    with realtime.context:
        yield realtime.context


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> dict[DrawStrategy, float]:
    """Seconds that a frame of a strategy is said to take, 1 ms by default; nothing is timed."""
    told: dict[DrawStrategy, float] = {}
    monkeypatch.setattr(autotune, "BUDGET_S", 1e9)
    monkeypatch.setattr(autotune, "MAX_ROUNDS", autotune.MIN_ROUNDS)
    monkeypatch.setattr(autotune, "NOT_ON_SOFTWARE", {"network": ("uniforms",), "table": ("storage",)})
    draw = autotune.Trial.frame

    def frame(self: Any, strategy: DrawStrategy, form: Any) -> float:
        draw(self, strategy, form)
        return told.get(strategy, 1e-3)

    monkeypatch.setattr(autotune.Trial, "frame", frame)
    return told


def choose(context: Any, avatar: Avatar, mode: str = "cached", size: int = 64) -> autotune.Choice:
    return autotune.choose(context, avatar, size, size, 2, mode, quiet=True)


def test_the_fastest_wins_and_is_remembered(home: Path, context: Any, avatar: Avatar, slow: dict[DrawStrategy, float]) -> None:
    slow[DrawStrategy(table="texture")] = 5e-4
    slow[DrawStrategy(table="texture", numbers="half")] = 4.9e-4  # by less than the margin: the change is not worth it
    first = choose(context, avatar)
    assert (first.strategy, first.source) == (DrawStrategy(table="texture"), "measured")
    assert first.times_ms["table"]["buffer"] == 1.0 and first.times_ms["table"]["texture"] == 0.5
    slow.clear()
    second = choose(context, avatar)
    assert (second.strategy, second.source, second.times_ms) == (first.strategy, "remembered", first.times_ms)
    assert choose(context, avatar, size=80).source == "measured"
    assert choose(context, avatar, "again").strategy == DrawStrategy()
    assert choose(context, avatar).strategy == DrawStrategy()
    assert len(autotune.remembered()) == 2


def test_deferred_shading_rules_out_one_pass_for_both_eyes(
    home: Path, context: Any, avatar: Avatar, slow: dict[DrawStrategy, float]
) -> None:
    deferred = DrawStrategy(stereo="passes", shading="deferred")
    slow[deferred] = 5e-4
    choice = choose(context, avatar)
    assert choice.strategy == deferred
    assert set(choice.times_ms.get("stereo", {}).values()) <= {None}


def test_a_real_measurement_gives_a_time_for_what_it_tried(
    home: Path, context: Any, avatar: Avatar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autotune, "MARGIN", 1.0)  # no change is worth it: which choices rule others out is not left to chance
    axes = autotune.contenders(context, avatar)
    strategy, times = autotune.measure(context, avatar, 64, 64, 2, axes, budget_s=3600)
    assert times.keys() == {name for name, _, _ in axes}
    assert all(ms is not None and ms > 0 for row in times.values() for ms in row.values())
    assert strategy.to_json().keys() == VALUES.keys()


def test_without_time_or_without_measuring_all_is_as_by_default(home: Path, context: Any, avatar: Avatar) -> None:
    strategy, times = autotune.measure(context, avatar, 64, 64, 1, autotune.contenders(context, avatar), budget_s=0)
    assert strategy == DrawStrategy()
    assert all(ms is None for row in times.values() for ms in row.values())
    never = choose(context, avatar, "never")
    assert (never.strategy, never.source) == (DrawStrategy(), "default")
    assert not home.exists()


def test_only_what_an_avatar_has_is_measured(context: Any, avatar: Avatar) -> None:
    plain = replace(avatar, neural_field=None, baked=None)
    assert {name for name, _, _ in autotune.contenders(context, plain)} < {
        name for name, _, _ in autotune.contenders(context, avatar)
    }


def test_a_contender_that_the_driver_refuses_is_left_out(
    home: Path, context: Any, avatar: Avatar, slow: dict[DrawStrategy, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InputError("too large")

    monkeypatch.setattr("avatar3d.rendering.opengl.arrays.GridTexture.__init__", refuse)
    choice = choose(context, avatar)
    assert choice.times_ms["table"]["texture"] is None
    assert choice.strategy == DrawStrategy()


def test_a_cache_folder_that_cannot_be_written_means_no_measurement(
    tmp_path: Path, context: Any, avatar: Avatar, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "file"))
    choice = choose(context, avatar)
    assert choice.source == "default" and "cannot be kept" in choice.reason


def test_a_measurement_that_cannot_be_kept_counts_all_the_same(
    home: Path, context: Any, avatar: Avatar, slow: dict[DrawStrategy, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(autotune, "write_bytes", full)
    slow[DrawStrategy(table="texture")] = 5e-4
    choice = choose(context, avatar)
    assert (choice.strategy, choice.source) == (DrawStrategy(table="texture"), "measured")
    assert "No space left" in choice.reason and autotune.remembered() == []


def entry() -> dict[str, Any]:
    times = {"table": {"buffer": 1.0, "texture": None}}
    offered = {"table": ["buffer", "texture"]}
    return vars(autotune.Entry("v", "r", "1", 64, 64, 2, "0", offered, DrawStrategy().to_json(), times)).copy()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"entries": 3}',
        b"[" * 100_000,
        b'{"entries": []' + b" " * autotune.MAX_FILE_BYTES + b"}",
        json.dumps({"entries": [entry()] * (autotune.MAX_ENTRIES + 1)}).encode(),
        *(
            json.dumps({"entries": [{**entry(), **wrong}]}).encode()
            for wrong in (
                {"width": "64"},
                {"width": -1},
                {"eyes": True},
                {"vendor": "x" * 1000},
                {"more": 1},
                {"strategy": {"table": "list"}},
                {"strategy": {"table": "storage"}},
                {"strategy": {"network": "uniforms"}},
                {"choices": {"table": 3}},
                {"strategy": {"speed": "most"}},
                {"strategy": []},
                {"times_ms": {"table": {"buffer": float("nan")}}},
                {"times_ms": {"table": {"list": 1.0}}},
                {"times_ms": {"speed": {}}},
                {"times_ms": 3},
            )
        ),
    ],
)
def test_a_damaged_file_is_said_and_written_anew(
    content: bytes,
    home: Path,
    context: Any,
    avatar: Avatar,
    slow: dict[DrawStrategy, float],
    capsys: pytest.CaptureFixture[str],
) -> None:
    home.mkdir()
    autotune.cache_path().write_bytes(content)
    with pytest.raises(InputError, match="autotune.json"):
        autotune.remembered()
    plain = replace(avatar, neural_field=None, baked=None)
    assert choose(context, plain).source == "measured"
    assert "autotune.json" in capsys.readouterr().err
    assert len(autotune.remembered()) == 1


def test_the_oldest_make_room(home: Path) -> None:
    home.mkdir()
    entries = [autotune.Entry(**{**entry(), "width": 100 + number}) for number in range(autotune.MAX_ENTRIES + 3)]
    autotune.remember(autotune.cache_path(), entries)
    assert [item.width for item in autotune.remembered()] == [100 + number for number in range(3, autotune.MAX_ENTRIES + 3)]
    assert autotune.remembered() == entries[3:]
