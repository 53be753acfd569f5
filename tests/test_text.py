"""Text from outside: whole numbers in plain digits only, and lines that a terminal merely prints."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.errors import InputError, WorkError
from avatar3d.motion.sources.base import Spec
from avatar3d.net.link import LinkName
from avatar3d.text import printable, whole_number, without_tokens


@pytest.mark.parametrize("text", ["", "²", "٣", "１", "--5", "+5", "1_000", " 1", "1 ", "1\n", "0x10", "1e3", "9" * 19, "-"])
def test_what_is_no_plain_whole_number_is_none(text):
    assert whole_number(text, -(10**30), 10**30) is None


@given(st.integers(-(10**9), 10**9))
def test_whole_numbers_are_read_within_their_range(value):
    assert whole_number(str(value), -(10**9), 10**9) == value
    assert whole_number(str(value), value + 1, 10**10) is None


@given(st.text())
def test_any_text_is_a_link_and_a_spec_or_one_sentence(text):
    for parse in (
        LinkName.parse,
        lambda given: Spec.parse(given).integer("face", 0, 0, 9),
        lambda given: Spec.parse(given).address(1),
    ):
        for given_text in (text, f"ws:{text}", f"livelink:{text}", f"video:x?face={text}"):
            with contextlib.suppress(InputError):
                parse(given_text)


@given(st.text())
def test_what_is_printed_moves_no_cursor(text):
    for line in (printable(text), str(InputError(text)), str(WorkError(text))):
        assert line.isprintable()


def test_letters_and_signs_of_any_script_stay():
    assert printable("Zoë × 中文 σ") == "Zoë × 中文 σ"
    assert printable("a\x1b[31mb\x07") == "a [31mb "


@pytest.mark.parametrize(
    "text", ["net:9310?token=open%20sesame&x=1", "net:x?a=1&token=opensesame", "'net:1?token=sesame' is bad"]
)
def test_no_line_for_a_person_tells_a_token(text):
    for line in (without_tokens(text), str(InputError(text)), str(WorkError(text))):
        assert "sesame" not in line and "token=…" in line
    assert "sesame" not in Spec.parse(text.strip("'")).text
