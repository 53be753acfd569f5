"""Letters of panels and captions: one font for all (assets/text.ttf), and text in signs that it has; no layout."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from PIL import ImageFont

from avatar3d.resources import asset_path

MISSING = "?"  # what stands for a sign that the font lacks
_NO_CHARACTER = "\U0010fffd"  # private: no font of ours has it
_PROBE_PX = 20


@lru_cache(maxsize=8)
def font(size_px: int) -> ImageFont.FreeTypeFont:
    """The font at a size."""
    return ImageFont.truetype(str(asset_path("text.ttf")), size_px)


@lru_cache(maxsize=4096)
def _has(character: str) -> bool:
    face = font(_PROBE_PX)
    return character == " " or bytes(face.getmask(character)) != bytes(face.getmask(_NO_CHARACTER))


@lru_cache(maxsize=4096)
def _sign(character: str) -> str:
    """A character as the font can draw it: itself, without the accents that it lacks, or MISSING."""
    if _has(character):
        return character
    plain = "".join(part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part))
    if plain and plain != character and all(map(_has, plain)):
        return plain
    return "" if unicodedata.category(character)[0] == "M" or not character.isprintable() else MISSING


def drawable(text: str) -> str:
    """The text in signs that the font has: accents it lacks are left out, and a question mark stands for each other sign."""
    return "".join(map(_sign, unicodedata.normalize("NFC", text)))
