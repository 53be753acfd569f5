"""What a photo's file says of its colours (ICC profile, PNG's chunks, HEIF's and AVIF's nclx, EXIF), and its pixels in sRGB.

What a profile says counts, never what it is called. What cannot be converted is said.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageCms

from avatar3d.color import linear_to_srgb, to_u8
from avatar3d.colorimetry import (
    ADOBE_GAMMA,
    ADOBE_RGB,
    PRIMARIES,
    Encoding,
    from_chromaticities,
    from_cicp,
    from_xyz,
    gamma,
    srgb_curve,
    to_srgb8,
)
from avatar3d.icc import Curve, IccProfile, read_icc

ADOBE_COLOR_SPACE, ADOBE_INTEROPERABILITY = 2, "R03"  # EXIF's ColorSpace as cameras write it; DCF 2.0's index
SRGB_GAMMA, GAMMA_TOLERANCE = 0.45455, 0.003  # what PNG's gAMA holds for sRGB, which is no power
GAMMA_RANGE = (0.1, 10.0)
SAME = 2  # of 255: a profile of tables that changes no colour by more is sRGB's
MAX_CHUNKS = 1000
MAX_BOXES = 2000
# What marks a picture for ordinary screens that carries the map to its HDR version: Adobe's and Google's, ISO 21496-1, Apple's.
GAIN_MAPS = (b"hdrgm:Version", b"urn:iso:std:iso:ts:21496:-1", b"urn:com:apple:photo:2020:aux:hdrgainmap")
PROFILE_IGNORED = "its colour profile could not be used and was ignored"
_LCMS_ERRORS = (ImageCms.PyCMSError, OSError, SyntaxError, ValueError, KeyError, TypeError)


class PhotoColors:
    """What a file says of its colours. notes: what was converted and what was not, added to as pictures are."""

    def __init__(self, data: bytes, picture: Image.Image, notes: list[str]) -> None:
        self.notes = notes
        self._profile: bytes | None = picture.info.get("icc_profile")
        self._icc: IccProfile | None = None
        self._encoding: Encoding | None = None
        self._name = ""
        if picture.format == "PNG":
            self._read_png(data, picture)
        elif picture.format in ("HEIF", "AVIF") and not self._profile:
            codes = picture.info.get("nclx_profile") or {}
            self._read_cicp((codes["color_primaries"], codes["transfer_characteristics"]) if codes else nclx_of(data))
        if self._profile:
            self._icc = read_icc(self._profile)
            self._name = _description(self._profile)
            if self._icc is not None and self._icc.cicp is not None and self._icc.space == "RGB":
                self._encoding = from_cicp(*self._icc.cicp)
        elif self._encoding is None and _is_adobe_rgb(picture):
            self._encoding = from_chromaticities("Adobe RGB", ADOBE_RGB, gamma(ADOBE_GAMMA))
        if any(mark in data for mark in GAIN_MAPS) or (picture.format in ("HEIF", "AVIF") and _has_tone_map(data)):
            notes.append("its HDR gain map was left out: it is taken as ordinary screens show it")

    def _read_png(self, data: bytes, picture: Image.Image) -> None:
        """cICP before iCCP, sRGB, and gAMA with cHRM (PNG, third edition, 4.3)."""
        chunks = {name: content for name, content in png_chunks(data) if name in (b"cICP", b"sRGB")}
        if len(chunks.get(b"cICP", b"")) == 4:
            self._profile = None
            self._read_cicp((chunks[b"cICP"][0], chunks[b"cICP"][1]))
        elif not self._profile and b"sRGB" not in chunks:
            self._read_gamma(picture.info.get("gamma"), picture.info.get("chromaticity"))

    def _read_cicp(self, codes: tuple[int, int] | None) -> None:
        if codes is None:
            return
        self._encoding = from_cicp(*codes)
        if self._encoding is None:
            self.notes.append(
                f"its colours (primaries {codes[0]}, curve {codes[1]} of ITU-T H.273) are not understood and were taken for sRGB"
            )

    def _read_gamma(self, exponent: float | None, chromaticity: tuple[float, ...] | None) -> None:
        curve: Curve = srgb_curve
        if exponent is not None and abs(exponent - SRGB_GAMMA) > GAMMA_TOLERANCE:
            if not GAMMA_RANGE[0] <= exponent <= GAMMA_RANGE[1]:
                self.notes.append(f"its gamma ({exponent:g}) makes no sense and was ignored")
                return
            curve = gamma(1 / exponent)
        corners = PRIMARIES[1]
        if chromaticity is not None and len(chromaticity) == 8:
            x, y = chromaticity[0::2], chromaticity[1::2]  # white, red, green, blue
            corners = tuple((x[place], y[place]) for place in (1, 2, 3, 0))
        elif exponent is None:
            return
        self._encoding = from_chromaticities("its gamma and primaries", corners, curve)
        if self._encoding is None:
            self.notes.append("its primaries make no sense and were ignored")

    def applied(self, picture: Image.Image) -> Image.Image:
        """The picture, of mode 1, L, RGB, CMYK or LAB, in sRGB; of mode RGB where it was converted."""
        if picture.mode == "LAB":
            return self._by_tables(picture, None, "CIE Lab")
        if self._icc is not None and self._icc.curves and self._encoding is None:
            if self._icc.to_xyz is not None and picture.mode in ("RGB", "L"):
                self._encoding = from_xyz(self._name, self._icc.curves, self._icc.to_xyz)  # type: ignore[arg-type]
            elif self._icc.space == "GRAY" and picture.mode == "L":
                return self._grey(picture, self._icc)
        if self._encoding is not None and picture.mode in ("RGB", "L"):
            return self._encoded(picture, self._encoding)
        if self._profile:
            return self._by_tables(picture, self._profile, self._name)
        return picture

    def _encoded(self, picture: Image.Image, encoding: Encoding) -> Image.Image:
        if encoding.is_srgb():
            return picture
        rgb = np.asarray(picture.convert("RGB"))
        self.notes.append(f"converted from {_named(self._name) if self._profile else encoding.name} to sRGB")
        if encoding.hdr:
            self.notes.append("it is HDR: what is brighter than white paper was toned down")
        return Image.fromarray(to_srgb8(rgb, encoding))

    def _grey(self, picture: Image.Image, profile: IccProfile) -> Image.Image:
        table = _grey_table(profile.curves[0], profile.lightness, 256)
        if np.abs(table.astype(int) - np.arange(256)).max() <= SAME:
            return picture
        self.notes.append(f"converted from {_named(self._name)} to sRGB")
        return Image.fromarray(table[np.asarray(picture)])

    def deep_grey(self, values: np.ndarray) -> np.ndarray:
        """(H, W) u8 sRGB of 16-bit grey numbers (H, W)."""
        curve, lightness = None, False
        if self._icc is not None and self._icc.curves:
            curve, lightness = self._icc.curves[len(self._icc.curves) // 2], self._icc.lightness
        elif self._profile:
            self.notes.append(PROFILE_IGNORED)
        elif self._encoding is not None and not self._encoding.hdr:
            curve = self._encoding.curves[1]
        table = np.rint(np.arange(65536) / 257.0).astype(np.uint8)
        if curve is not None:
            meant = _grey_table(curve, lightness, 65536)
            if np.abs(meant.astype(int) - table).max() > SAME:
                table = meant
                named = _named(self._name) if self._encoding is None else self._encoding.name
                self.notes.append(f"converted from {named} to sRGB")
        return table[values]

    def _by_tables(self, picture: Image.Image, profile: bytes | None, name: str) -> Image.Image:
        """Through LittleCMS, which knows tables; profile None: of CIE Lab."""
        try:
            source: Any = ImageCms.createProfile("LAB") if profile is None else ImageCms.getOpenProfile(io.BytesIO(profile))
            target = ImageCms.createProfile("sRGB")
            transform = ImageCms.buildTransform(source, target, picture.mode, "RGB")
            if picture.mode == "RGB":
                steps = np.arange(0, 256, 17, dtype=np.uint8)
                cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
                seen = np.asarray(ImageCms.applyTransform(Image.fromarray(cube), transform))
                if np.abs(seen.astype(int) - cube).max() <= SAME:
                    return picture
            converted = ImageCms.applyTransform(picture, transform)
        except _LCMS_ERRORS:
            self.notes.append(PROFILE_IGNORED)
            return picture
        self.notes.append(f"converted from {name if profile is None else _named(name)} to sRGB")
        return converted if converted is not None else picture


def _grey_table(curve: Curve, lightness: bool, count: int) -> np.ndarray:
    """(count,) u8 sRGB of grey numbers that run from black to white."""
    light = curve(np.linspace(0.0, 1.0, count))
    if lightness:  # CIE 1976 L*
        root = (100 * light + 16) / 116
        light = np.where(root > 6 / 29, root**3, 3 * (6 / 29) ** 2 * (root - 4 / 29))
    return to_u8(linear_to_srgb(np.asarray(light)))


def _named(profile: str) -> str:
    return f"its colour profile ({profile or 'unnamed'})"


def _description(profile: bytes) -> str:
    try:
        return ImageCms.getProfileDescription(ImageCms.getOpenProfile(io.BytesIO(profile))).strip()
    except _LCMS_ERRORS:
        return ""


def _is_adobe_rgb(picture: Image.Image) -> bool:
    try:
        exif = picture.getexif()
        if exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.ColorSpace) == ADOBE_COLOR_SPACE:
            return True
        index = exif.get_ifd(ExifTags.IFD.Interop).get(1, "")
    except Exception:  # Pillow raises a dozen kinds on damaged EXIF, and a picture is of use without it
        return False
    text = index.decode("latin1") if isinstance(index, bytes) else str(index)
    return text.strip("\0 ") == ADOBE_INTEROPERABILITY


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(name, content) of a PNG's chunks before its pixels."""
    place = 8
    for _ in range(MAX_CHUNKS):
        if place + 8 > len(data):
            return
        length, name = struct.unpack_from(">I4s", data, place)
        if name == b"IDAT":
            return
        yield name, data[place + 8 : place + 8 + length]
        place += 12 + length


def _boxes(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start, end) of the content of each box (ISO/IEC 14496-12, 4.2) that lies from start to end."""
    for _ in range(MAX_BOXES):
        if start + 8 > end:
            return
        size, kind = struct.unpack_from(">I4s", data, start)
        head = 8
        if size == 1 and start + 16 <= end:
            size, head = struct.unpack_from(">Q", data, start + 8)[0], 16
        elif size == 0:
            size = end - start
        if size < head or start + size > end:
            return
        yield kind, start + head, start + size
        start += size


def _box(data: bytes, kind: bytes, start: int, end: int) -> tuple[int, int] | None:
    return next(((first, last) for found, first, last in _boxes(data, start, end) if found == kind), None)


def nclx_of(data: bytes) -> tuple[int, int] | None:
    """(primaries, transfer) that the first picture of a HEIF or AVIF file states in an nclx box, or None.

    Of several (thumbnails and maps have their own) that of the primary item, by ISO/IEC 23008-12's item properties.
    """
    try:
        meta = _box(data, b"meta", 0, len(data))
        if meta is None:
            return None
        start, end = meta[0] + 4, meta[1]
        properties = _box(data, b"iprp", start, end)
        container = None if properties is None else _box(data, b"ipco", *properties)
        if properties is None or container is None:
            return None
        colours = {}
        for number, (kind, first, last) in enumerate(_boxes(data, *container), start=1):
            if kind == b"colr" and data[first : first + 4] == b"nclx" and last - first >= 8:
                colours[number] = struct.unpack_from(">HH", data, first + 4)
        if len(colours) > 1 and (primary := _box(data, b"pitm", start, end)) is not None:
            own = _properties_of(data, _item(data, primary[0]), properties)
            colours = {number: codes for number, codes in colours.items() if number in own} or colours
        return next(iter(colours.values()), None)
    except (struct.error, IndexError):
        return None


def _item(data: bytes, start: int) -> int:
    return struct.unpack_from(">I" if data[start] else ">H", data, start + 4)[0]


def _properties_of(data: bytes, item: int, within: tuple[int, int]) -> set[int]:
    """The numbers of an item's properties (ItemPropertyAssociationBox)."""
    own = set()
    for kind, first, _ in _boxes(data, *within):
        if kind != b"ipma":
            continue
        version, wide = data[first], data[first + 3] & 1
        place = first + 8
        for _ in range(min(struct.unpack_from(">I", data, first + 4)[0], MAX_BOXES)):
            number = struct.unpack_from(">H" if version < 1 else ">I", data, place)[0]
            place += 2 if version < 1 else 4
            count = data[place]
            numbers = struct.unpack_from(f">{count}{'H' if wide else 'B'}", data, place + 1)
            if number == item:
                own |= {value & (0x7FFF if wide else 0x7F) for value in numbers}
            place += 1 + count * (2 if wide else 1)
    return own


def _has_tone_map(data: bytes) -> bool:
    """Whether a HEIF or AVIF file holds an item that derives its HDR picture (`tmap`, ISO/IEC 23008-12)."""
    try:
        meta = _box(data, b"meta", 0, len(data))
        infos = None if meta is None else _box(data, b"iinf", meta[0] + 4, meta[1])
    except struct.error:
        return False
    return infos is not None and b"tmap" in data[slice(*infos)]
