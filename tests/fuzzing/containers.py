"""Damaged words about colours in whole pictures, and places that are no files, for the readers of files."""

from __future__ import annotations

import io
import os
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
from color_profiles import power_curve, profile
from fuzzing.mutate import ODD_NUMBERS, damaged, numbers_changed, png_chunks, png_of
from PIL import Image, features

from avatar3d.colorimetry import ADOBE_RGB, PRIMARIES
from avatar3d.errors import InputError
from avatar3d.evaluation.report import check_folder
from avatar3d.files import check_writable, open_regular
from avatar3d.motion.csv import read_motion_csv
from avatar3d.photo import load_photo
from avatar3d.tracking.frames import open_video

_TABLE = b"curv\0\0\0\0" + struct.pack(">I16H", 16, *(4369 * step for step in range(16)))
_PARAMETERS = b"para\0\0\0\0" + struct.pack(">Hxx7i", 4, *(round(65536 * v) for v in (2.4, 0.948, 0.052, 0.077, 0.04, 0, 0)))


def colors() -> Callable[[Random], bytes]:
    """What makes a picture whose profile, chunks, boxes or tags say something odd of its colours."""
    random = np.random.default_rng(4)
    rgb = Image.fromarray(random.integers(0, 255, (6, 7, 3), np.uint8).astype(np.uint8))
    pictures = [
        rgb,
        rgb.convert("L"),
        Image.fromarray(random.integers(0, 65535, (6, 7)).astype(np.uint16)),
        rgb.convert("CMYK"),
    ]
    profiles = [
        profile(ADOBE_RGB, power_curve(2.2)), profile(PRIMARIES[12], _TABLE), profile(PRIMARIES[9], _PARAMETERS),
        profile(PRIMARIES[1], _TABLE, "Grey", b"GRAY"),
    ]  # fmt: skip
    pngs = [png_chunks(_saved(picture, "PNG")) for picture in pictures[:3]]
    exif = Image.Exif()
    exif.get_ifd(0x8769).update({0xA001: 2, 0xA005: {1: "R03"}})
    jpeg, tiff = _saved(rgb, "JPEG", exif=exif), _saved(rgb, "TIFF", save_all=True, append_images=[pictures[1]])
    avif = _saved(rgb, "AVIF") if features.check("avif") else b""
    first = struct.unpack_from("<I", tiff, 4)[0]

    def make(random: Random) -> bytes:
        kind = random.random()
        if kind < 0.35:
            said = random.choice(profiles)
            said = numbers_changed(random, said) if random.random() < 0.5 else damaged(random, said)
            if random.random() < 0.2:
                return _saved(random.choice((pictures[0], pictures[1], pictures[3])), "JPEG", icc_profile=said)
            chunks = list(random.choice(pngs))
            chunks.insert(1, (b"iCCP", b"k\0\0" + zlib.compress(said, 1)))
            return png_of(chunks)
        if kind < 0.5:
            chunks = list(random.choice(pngs))
            for _ in range(random.randrange(1, 4)):
                name, size = random.choice(((b"cICP", 4), (b"gAMA", 4), (b"cHRM", 32), (b"sRGB", 1)))
                said = random.randbytes(size) if random.random() < 0.6 else struct.pack(">I", random.randrange(200_000)) * 8
                chunks.insert(1, (name, said[: size + random.choice((0, 0, 0, 1, -1))]))
            return png_of(chunks)
        if kind < 0.52 and avif:  # before its pixels, where its boxes are
            out = bytearray(avif)
            for _ in range(random.randrange(1, 6)):
                out[random.randrange(16, out.index(b"mdat"))] = random.choice(
                    (0, 1, 2, 9, 12, 16, 18, 255, random.randrange(256))
                )
            return bytes(out)
        if kind < 0.65:
            out = bytearray(jpeg)
            for _ in range(random.randrange(1, 4)):
                out[random.randrange(6, 200)] = random.choice((0, 1, 2, 255, random.randrange(256)))
            return bytes(out)
        out = bytearray(tiff)
        for _ in range(random.randrange(1, 4)):  # an entry of the first page becomes a list of pages within it, or anything
            place = first + 2 + 12 * random.randrange(struct.unpack_from("<H", tiff, first)[0])
            tag, count = random.choice((330, 256, 257, 273, 258, random.randrange(65536))), random.choice((1, 1, 2, 64, 2**31))
            value = random.choice(
                (first, 0, 8, len(tiff), random.randrange(len(tiff)), struct.unpack("<I", random.choice(_WORDS))[0])
            )
            out[place : place + 12] = struct.pack("<HHII", tag, random.choice((3, 4, 13)), count, value)
        return bytes(out)

    return make


_WORDS = [ODD_NUMBERS[place : place + 4] for place in range(0, len(ODD_NUMBERS), 4)]


def _saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    picture.copy().save(stream, kind, **options)  # saving as JPEG leaves something behind in a picture
    return stream.getvalue()


_ODD = ("x", "é", "\u202e", "\x1b[31m", "\n", "\0", " ", "%d", "%s", ":", "\\", "~", "-", "\udc80", ".", "..", "*", "?")
_PLACES = ("fifo", "loop", "nowhere", "socket", "folder", "null", "zero", "file", "file", "file", "file/x", "folder/", "locked",
    "locked/x")  # fmt: skip


def place(random: Random) -> bytes:
    """A name, relative to the folder that `Places` fills: one of its places, or letters of all kinds, few or very many."""
    if random.random() < 0.5:
        return random.choice(_PLACES).encode()
    # Names of thousands of parts take a hundred times as long to try as the others: few of them.
    count = 2000 if random.random() < 0.002 else random.choice((1, 1, 2, 5))
    parts = ["".join(random.choices(_ODD, k=random.choice((1, 2, 3, 9, 60, 260)))) for _ in range(count)]
    return "/".join(parts)[:100_000].encode("utf-8", "surrogateescape")


def _opened(path: Path) -> None:
    open_regular(path, "file").close()


class Places:
    """Tries every way in and every way out at a name in a folder where there are files, pipes, sockets, devices and dead ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "places"
        self._folder.mkdir(exist_ok=True)
        (self._folder / "file").write_text("nothing that a reader knows")
        (self._folder / "folder").mkdir(exist_ok=True)
        (self._folder / "locked").mkdir(mode=0, exist_ok=True)
        if not os.path.lexists(self._folder / "fifo"):
            os.mkfifo(self._folder / "fifo")
            with socket.socket(socket.AF_UNIX) as server:
                before = os.getcwd()
                os.chdir(self._folder)  # a socket's path has at most a hundred characters
                server.bind("socket")
                os.chdir(before)
            for name, target in (("loop", "loop"), ("nowhere", "none/none"), ("null", "/dev/null"), ("zero", "/dev/zero")):
                (self._folder / name).symlink_to(target)

    def tried(self, data: bytes) -> object:
        """None where there is a file to open, else its InputError. Whatever is tried leaves nothing."""
        name = data.decode("utf-8", "surrogateescape")
        there = self._folder / name
        if ".." in there.parts:
            there = self._folder / name.replace("..", ".")
        refused: InputError | None = None
        ways = (load_photo, open_video, read_motion_csv, check_writable, check_folder, _opened)
        for way in ways:
            try:
                way(there)
            except InputError as error:
                assert "\n" not in str(error), str(error)
                refused = error if way is _opened else None
        assert len(list(self._folder.iterdir())) == 9
        if refused is not None:
            raise refused
        return None
