"""Settings out of files: dataclasses whose annotations say what a field may hold, and one sentence that names the field."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml

from avatar3d.errors import InputError
from avatar3d.settings import Within, check, read_settings, settings_of


@dataclass(frozen=True)
class Lamp:
    power: Annotated[float, Within(0, 100, "watts", open=True)]
    kind: Literal["warm", "cold"] = "warm"
    angle: Annotated[int, Within(-90, 90, "degrees")] | None = None


@dataclass(frozen=True)
class Room:
    lamps: dict[str, Lamp]
    size: tuple[float, float]
    names: Annotated[tuple[str, ...], Within(0, 2)] = ()
    lit: bool = True

    def __post_init__(self) -> None:
        check(self)
        if self.lit and not self.lamps:
            raise InputError("a room without lamps is not lit")


GIVEN = {"lamps": {"a": {"power": 40}, "b": {"power": 5.5, "kind": "cold", "angle": -3}}, "size": [3, 4.5], "names": ["hall"]}
ROOM = Room({"a": Lamp(40.0), "b": Lamp(5.5, "cold", -3)}, (3.0, 4.5), ("hall",))


@pytest.mark.parametrize("name", ["room.json", "room.yaml", "room"])
def test_a_file_of_either_kind_becomes_the_dataclass(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(json.dumps(GIVEN) if name.endswith("json") else yaml.safe_dump(GIVEN))
    assert read_settings(Room, tmp_path / name, "room", 1000) == ROOM
    assert isinstance(read_settings(Room, tmp_path / name, "room", 1000).lamps["a"].power, float)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lamps": {"a": {"power": 0}}}, "lamps.a.power is 0; expected a number over 0, up to 100 watts"),
        ({"lamps": {"a": {"power": True}}}, "lamps.a.power is True; expected a number over 0, up to 100 watts"),
        ({"lamps": {"a": {"power": float("nan")}}}, "lamps.a.power is nan; expected a number over 0, up to 100 watts"),
        ({"lamps": {"a": {"power": 1, "kind": "blue"}}}, "lamps.a.kind is 'blue'; expected one of warm, cold"),
        ({"lamps": {"a": {"power": 1, "kind": ["warm"]}}}, "lamps.a.kind is ['warm']; expected one of warm, cold"),
        ({"lamps": {"a": {"power": 1, "angle": 91}}}, "lamps.a.angle is 91; expected a whole number from -90 to 90 degrees"),
        ({"lamps": {"a": {"power": 1, "angle": 1.0}}}, "lamps.a.angle is 1.0; expected a whole number from -90 to 90 degrees"),
        ({"lamps": {"a": {}}}, "power is missing in lamps.a"),
        ({"lamps": {"a": 3}}, "lamps.a is 3; expected power, kind, angle"),
        ({"lamps": {1: {"power": 1}}}, "lamps is {1: {'power': 1}}; expected names, each with a table"),
        ({"lamps": {}}, "a room without lamps is not lit"),
        ({"size": [1, 2, 3]}, "size is [1, 2, 3]; expected a list of 2 numbers"),
        ({"size": "ab"}, "size is 'ab'; expected a list of 2 numbers"),
        ({"size": [1, None]}, "size[1] is None; expected a number"),
        ({"names": ["a", "b", "c"]}, "names is ['a', 'b', 'c']; expected a list of texts, from 0 to 2 of them"),
        ({"lit": 1}, "lit is 1; expected true or false"),
        ({"lihgt": 1}, "'lihgt' is unknown; expected lit"),
        ({"dark": 1}, "'dark' is unknown; expected lamps or size or names or lit"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_the_field(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        settings_of(Room, {**GIVEN, **change}, "room.yaml: ")
    assert str(refused.value) == f"room.yaml: {sentence}"


def test_what_is_made_in_code_is_checked_alike() -> None:
    with pytest.raises(InputError, match="names is .* expected a list of texts, from 0 to 2 of them"):
        replace(ROOM, names=("a", "b", "c"))


@pytest.mark.parametrize("value", [None, 3, [], "room"])
def test_a_file_of_something_else_is_said_so(value: object) -> None:
    with pytest.raises(InputError, match="^it is .*; expected lamps, size, names, lit$"):
        settings_of(Room, value)
