"""Letters: what a panel may have to say is drawn in signs that exist, whatever script a name is in."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.rendering.font import drawable, font
from avatar3d.rendering.opengl.panel import text_picture
from avatar3d.view.caption import caption_picture

TEXT = "baked ×0.7  45 °C  Zoë Ærøskøbing Łódź ŽŠČ Ñandú · Ελλάδα Ωμέγα · Привет Їжак — “a” … − ≤ ± σ µ"


def box(size: int = 30) -> bytes:
    """What the font draws for a sign that it lacks."""
    return bytes(font(size).getmask("\U0010fffd"))


def test_latin_greek_cyrillic_and_signs_are_drawn_as_they_are():
    assert drawable(TEXT) == TEXT
    for character in set(TEXT) - {" "}:
        assert bytes(font(30).getmask(character)) != box(), character


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("中文.glb", "??.glb"),
        ("ﬁle", "file"),
        ("ḱ", "k"),
        ("e\u0301", "é"),
        ("a\u20ddb", "ab"),
        ("→", "?"),
        ("①", "1"),
        ("", ""),
    ],
)
def test_what_the_font_lacks_is_written_otherwise(text, drawn):
    assert drawable(text) == drawn


def test_panels_and_captions_hold_no_box():
    for picture in (text_picture, caption_picture):
        assert np.array_equal(picture(["中→ ×"]), picture(["?? ×"]))
        assert picture(["×"]).max() == 255
