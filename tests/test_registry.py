"""Plug-ins by name: built in or offered by a package, and one way to fail for all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from avatar3d import registry
from avatar3d.errors import InputError, WorkError
from avatar3d.generator.protocol import GENERATORS
from avatar3d.head.registry import HEAD_MODELS, head_of
from avatar3d.motion.sources import MOTION_SOURCES

KINDS = {"generators": GENERATORS, "head_models": HEAD_MODELS, "motion_sources": MOTION_SOURCES}


class Point:
    """An entry point."""

    value = "mine:thing"

    def __init__(self, name: str, thing: object = None, error: Exception | None = None) -> None:
        self.name, self.thing, self.error = name, thing, error

    def load(self) -> object:
        if self.error is not None:
            raise self.error
        return self.thing


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Any:
    def offered(kind: str, *points: Point) -> None:
        monkeypatch.setattr(registry, "entry_points", lambda group: list(points) if group == f"avatar3d.{kind}" else [])

    return offered


@pytest.mark.parametrize("kind", KINDS)
def test_a_plug_in_is_found_by_its_name(kind: str, offer: Any) -> None:
    thing = object()
    offer(kind, Point("mine", thing))
    assert KINDS[kind].load("mine") is thing
    assert KINDS[kind].names() == sorted([*KINDS[kind].built_in, "mine"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_built_in_is_there_and_no_plug_in_takes_its_place(kind: str, offer: Any) -> None:
    offer(kind, *(Point(name) for name in KINDS[kind].built_in))
    assert all(callable(KINDS[kind].load(name)) for name in KINDS[kind].built_in)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_is_told_all_that_are_known(kind: str, offer: Any) -> None:
    offer(kind, Point("mine"))
    known, word = ", ".join(KINDS[kind].names()), KINDS[kind].kind
    with pytest.raises(InputError, match=rf"^unknown {word} 'dream'; expected one of {known}$"):
        KINDS[kind].load("dream")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [ImportError("no such module"), AttributeError("no thing"), RuntimeError("broken")])
def test_a_plug_in_that_cannot_be_loaded_is_one_sentence(kind: str, error: Exception, offer: Any) -> None:
    offer(kind, Point("mine", error=error))
    with pytest.raises(WorkError, match=rf"'mine' is installed but cannot be loaded from mine:thing \({error}\)"):
        KINDS[kind].load("mine")


def test_a_head_model_is_taken_by_name_or_as_it_is(offer: Any) -> None:
    head = head_of("default")
    offer("head_models", Point("mine", lambda: head), Point("odd", lambda: 3))
    assert head_of("mine") is head and head_of(head) is head
    with pytest.raises(InputError, match="absent.npz"):
        head_of("absent.npz")
    with pytest.raises(InputError, match="a int is no head model"):
        head_of("odd")
