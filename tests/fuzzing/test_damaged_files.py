"""Damaged files through every reader: each is taken for whole or refused in one sentence, in bounded time and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing.files import feed, readers

NAMES = tuple(readers(Path()))
SLOW_COUNT = 6_000  # a million each: tools/fuzz.py
FEWER = {"places": 600, "numbers": 2_000}  # these ask the disk, or draw: up to 20 ms each


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    taken, refused = feed(readers(tmp_path)[name](), 500, seed=0)
    assert taken > 20 and refused > 100, "the mutations are too weak or too strong to test anything"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_more_damaged_files(name: str, tmp_path: Path) -> None:
    feed(readers(tmp_path)[name](), FEWER.get(name, SLOW_COUNT), seed=10**9)
