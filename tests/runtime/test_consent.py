"""Consent: asked once, remembered, changed by saying so; never taken for granted."""

from __future__ import annotations

import io
import sys

import pytest

from avatar3d.errors import InputError
from avatar3d.runtime.consent import FILE, QUESTION, consented, remembered


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _never(question):
    raise AssertionError("was asked")


@pytest.mark.parametrize(("typed", "answer"), [("yes", True), ("n", False), (" Y ", True)])
def test_it_is_asked_once_and_remembered(typed, answer):
    questions = []

    def ask(question):
        questions.append(question)
        return "perhaps" if len(questions) == 1 else typed

    assert remembered() is None
    assert consented(None, ask) is answer
    assert questions == [QUESTION, QUESTION]  # "perhaps" is no answer
    assert consented(None, _never) is answer and remembered() is answer


def test_what_is_said_now_counts_and_is_remembered():
    assert consented(True, _never) is True
    assert consented(False, _never) is False
    assert consented(None, _never) is False


def test_nobody_to_ask_is_no_consent(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(InputError, match="--consent yes"):
        consented(None)
    assert remembered() is None


def test_an_end_of_input_is_a_no():
    def ask(question):
        raise EOFError

    assert consented(None, ask) is False


@pytest.mark.parametrize("text", ["", "[1]", '{"face_of_the_headset": "yes"}', "{" * 100_000])
def test_a_broken_file_is_no_consent(home, text):
    home.mkdir()
    (home / FILE).write_text(text, encoding="utf-8")
    assert remembered() is None
