"""Ways to damage bytes, JSON texts, PNG chunks and arrays of numbers, each from a seeded `random.Random`."""

from __future__ import annotations

import json
import re
import struct
import zlib
from random import Random

# What a careless or a hostile writer puts in a value's place, as JSON has it or nearly so.
ODD_TOKENS = (
    "null", "true", "-1", "0", "1", "2", "3", "52", "255", "65535", "65536", "2147483648", "4294967296", "9223372036854775808",
    "1" + "0" * 40, "1" + "0" * 400, "9" * 5000, "-1000000000000", "0.5", "-0.0", "1e-320", "1e30", "1e300", "1e400", "-1e400",
    "NaN", "Infinity", '""', '"x"', '"POSITION"', '"image/png"', '"image/jpeg"', '"f16"', '"u32"', '"u8"', "[]", "[[]]", "[1,2,3]",
    "{}", '{"bufferView":0}', "[1000000000,3]", '["a"]', '"\\u0000"', '"\\ud800"', '"../x"', '"' + "y" * 2000 + '"', "[" * 400,
    "[" * 300 + "]" * 300, "[" * 100_000, '{"a":' * 300 + "1" + "}" * 300, "", "x", "'",
)  # fmt: skip
ODD_NUMBERS = b"".join(
    (
        *(
            struct.pack("<f", value)
            for value in (0.0, -0.0, 1.0, -1.0, 1e-40, 3e38, -3e38, float("nan"), float("inf"), 65504.0)
        ),
        *(struct.pack("<I", value) for value in (1, 255, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 0x7F800001, 0x7C007C00)),
    )
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^,\]}\s]+')


def damaged(random: Random, data: bytes) -> bytes:
    """The bytes flipped, cut, repeated, spliced or drawn anew."""
    kind = random.randrange(8)
    out = bytearray(data)
    if kind == 0:
        return random.randbytes(random.randrange(2 * len(data) + 1))
    if kind == 1:
        return data[: random.randrange(len(data))]
    if kind == 2:
        return data + data[: random.randrange(len(data))]
    if kind == 3:
        start = random.randrange(len(data))
        out[start : start + random.randrange(1, 32)] = random.randbytes(random.randrange(64))
    elif kind == 4:  # numbers at their extremes
        start = random.randrange(len(data))
        out[start : start + 4] = random.choice(
            (b"\xff\xff\xff\xff", b"\x7f\xc0\0\0", b"\x7f\x80\0\0", b"\x80\0\0\0", b"9e99", b"-nan")
        )
    elif kind == 5:  # near the start, where formats keep their sizes
        for _ in range(random.randrange(1, 4)):
            out[random.randrange(min(len(out), 64))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    else:
        for _ in range(random.randrange(1, 24)):
            out[random.randrange(len(out))] = random.randrange(256)
    return bytes(out)


class JsonText:
    """A JSON text with the place of every value, so that one is changed without parsing or writing the rest."""

    def __init__(self, value: object, tokens: tuple[str, ...] = ODD_TOKENS, separators: tuple[str, str] = (",", ":")) -> None:
        self.text = json.dumps(value, separators=separators)
        self.tokens = tokens
        self.values: dict[tuple[str | int, ...], tuple[int, int]] = {}
        self.items: list[tuple[int, int]] = []  # with the key
        self._scan(0, ())
        self.spans = list(self.values.values())

    def _scan(self, start: int, path: tuple[str | int, ...]) -> int:
        """Note the value at `start` and what is in it; returns where it ends."""
        text, place = self.text, start
        if text[start] in "{[":
            place, number = start + 1, 0
            while text[place] not in "}]":
                first, key = place, number
                if text[start] == "{":
                    end = _end(text, place)
                    key = json.loads(text[place:end])
                    place = end + 1 + (text[end + 1] == " ")
                place = self._scan(place, (*path, key))
                self.items.append((first, place))
                number += 1
                while text[place] in ", ":
                    place += 1
            place += 1
        else:
            place = _end(text, start)
        self.values[path] = start, place
        return place

    def within(self, *path: str | int) -> list[tuple[int, int]]:
        """Spans of the values below a path."""
        start, end = self.values[path]
        return [span for span in self.spans if start <= span[0] and span[1] <= end]

    def mutated(self, random: Random, spans: list[tuple[int, int]] | None = None) -> str:
        """The text with one to three values (of `spans`) changed, or items left out or doubled."""
        text = self.text
        chosen = sorted({random.choice(spans or self.spans) for _ in range(random.choice((1, 1, 2, 3)))}, reverse=True)
        before = len(text) + 1
        for start, end in chosen:
            if end > before:  # it holds a place that has been changed
                continue
            before = start
            kind = random.random()
            if kind < 0.1:
                first, last = random.choice(self.items)
                if last > before:
                    continue
                before = first
                again = text[first:last] + "," + text[first:last] if kind < 0.03 else ""
                last += not again and text[last : last + 1] == ","
                text = text[:first] + again + text[last:]
                continue
            text = text[:start] + self._instead(random, self.text[start:end], kind) + text[end:]
        return text

    def _instead(self, random: Random, old: str, kind: float) -> str:
        number = re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", old)
        if number and kind < 0.5:
            value = float(old) if "." in old or "e" in old else int(old)
            return str(random.choice((value + 1, value - 1, -value, value * 2, value * 1000, value // 2)))
        if kind < 0.7:
            first, last = random.choice(self.spans)
            if last - first < 400:
                return self.text[first:last]
        return random.choice(self.tokens)


def _end(text: str, start: int) -> int:
    match = _TOKEN.match(text, start)
    assert match is not None
    return match.end()


def numbers_changed(random: Random, data: bytes) -> bytes:
    """The bytes with some aligned numbers replaced by odd ones, of 32 or 16 bits."""
    out = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        place, width = 4 * random.randrange(max(len(out) // 4, 1)), random.choice((4, 4, 2))
        source = 4 * random.randrange(len(ODD_NUMBERS) // 4)
        out[place : place + width] = ODD_NUMBERS[source : source + width]
    return bytes(out[: len(data)])


def png_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """(kind, content) of a PNG's chunks."""
    chunks, place = [], 8
    while place + 8 <= len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    return chunks


def png_of(chunks: list[tuple[bytes, bytes]]) -> bytes:
    """A PNG of chunks, each with its right checksum."""
    parts = [struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


_PNG_EXTRAS = (
    (b"tRNS", b"\0\1\2\3\4\5"), (b"PLTE", bytes(12)), (b"gAMA", struct.pack(">I", 0)), (b"pHYs", bytes(9)),
    (b"zTXt", b"k\0\0" + zlib.compress(bytes(4_000_000))), (b"iCCP", b"k\0\0" + zlib.compress(bytes(4_000_000))),
    (b"iTXt", b"k\0\1\0\0\0" + zlib.compress(bytes(4_000_000))), (b"tEXt", b"k\0v"), (b"eXIf", b"MM\0*\0\0\0\10\xff\xff"),
    (b"acTL", struct.pack(">II", 2**31 - 1, 0)), (b"fcTL", struct.pack(">IIIIIHHBB", 0, 4, 4, 0, 0, 1, 1, 0, 0)), (b"cHRM", b"\1"),
    (b"sRGB", b""), (b"IEND", b""), (b"abcd", b"x"), (b"ABCD", b"x"), (b"\0\0\0\0", b""),
)  # fmt: skip


def png_changed(random: Random, data: bytes) -> bytes:
    """A PNG that is whole as to its chunks, with something odd inside one, or one too many or too few."""
    chunks = png_chunks(data)
    place = random.randrange(len(chunks))
    kind, body = chunks[place]
    how = random.randrange(6)
    if how == 0:
        chunks.insert(place, random.choice(_PNG_EXTRAS))
    elif how == 1:
        del chunks[place]
    elif how == 2 and kind == b"IDAT":
        rows = bytearray(zlib.decompress(body))
        rows[random.randrange(len(rows))] = random.randrange(256)
        cut = bytes(rows[: random.randrange(len(rows) + 1)]) if random.random() < 0.3 else bytes(rows)
        chunks[place] = kind, zlib.compress(cut, 1)
    elif how == 3:
        header = bytearray(chunks[0][1])
        header[random.randrange(len(header))] = random.choice((0, 1, 2, 3, 4, 6, 8, 16, 255, random.randrange(256)))
        chunks[0] = chunks[0][0], bytes(header)
    elif body:
        chunks[place] = kind, damaged(random, body)
    return png_of(chunks)
