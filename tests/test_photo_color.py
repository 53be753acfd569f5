"""Photos in other colours than sRGB, made here from known colours: what comes out is the same colour in sRGB, or is said not to be."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from color_profiles import power_curve, profile
from PIL import Image, ImageCms

from avatar3d.color import linear_to_srgb, srgb_to_linear
from avatar3d.colorimetry import ADOBE_GAMMA, ADOBE_RGB, PRIMARIES, from_cicp, matrix_to_srgb, rgb_to_xyz
from avatar3d.errors import InputError
from avatar3d.photo import load_photo

# Skin, hair, cloth and greys in sRGB, none so strong that another space of this file cannot hold it.
COLORS = np.array(
    [[224, 172, 150], [198, 134, 110], [120, 78, 60], [60, 40, 34], [40, 60, 90], [90, 120, 80], [20, 20, 20], [128, 128, 128],
     [235, 235, 235], [180, 60, 60]], np.uint8,
)  # fmt: skip
# 8-bit numbers of another curve and back: half a step of 255 each way, steeper where the other curve is flatter.
ROUNDING = 2


def patches(numbers: np.ndarray) -> Image.Image:
    """A picture with a patch of 16 × 16 pixels of each (N, 3) colour, u8; blocks of JPEG and HEVC hold one colour each."""
    return Image.fromarray(np.repeat(np.repeat(numbers[None].astype(np.uint8), 16, axis=0), 16, axis=1))


def middles(rgb: np.ndarray) -> np.ndarray:
    return rgb[8, 8::16].astype(int)


def encoded(primaries: tuple[tuple[float, float], ...], curve) -> np.ndarray:
    """(N, 3) in [0, 1]: COLORS' numbers in another space; curve: from linear light."""
    light = srgb_to_linear(COLORS).astype(np.float64) @ np.linalg.inv(matrix_to_srgb(primaries)).T
    return curve(np.clip(light, 0, None))


def u8(values: np.ndarray) -> np.ndarray:
    return np.rint(255 * np.clip(values, 0, 1)).astype(np.uint8)


def pq(light: np.ndarray) -> np.ndarray:
    """SMPTE ST 2084's inverse EOTF of light in units of 203 nits."""
    m1, m2, c1, c2, c3 = 0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875
    power = np.power(light * 203 / 10_000, m1)
    return np.power((c1 + c2 * power) / (1 + c3 * power), m2)


def hlg(light: np.ndarray) -> np.ndarray:
    """BT.2100's OETF after the inverse OOTF, of light in units of 203 of the screen's 1,000 nits."""
    shown = light * 0.203
    luma = np.maximum(shown @ [0.2627, 0.6780, 0.0593], 1e-9)[:, None]
    scene = shown * luma ** (1 / 1.2 - 1)
    return np.where(
        scene <= 1 / 12, np.sqrt(3 * scene), 0.17883277 * np.log(np.maximum(12 * scene - 0.28466892, 1e-9)) + 0.55991073
    )


def png(image: Image.Image, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG with chunks put behind its header."""
    stream = io.BytesIO()
    image.save(stream, "PNG")
    data = stream.getvalue()
    extra = b"".join(struct.pack(">I", len(c)) + name + c + struct.pack(">I", zlib.crc32(name + c)) for name, c in chunks)
    return data[:33] + extra + data[33:]


def cicp(primaries: int, transfer: int) -> tuple[bytes, bytes]:
    return b"cICP", bytes([primaries, transfer, 0, 1])


def chrm(corners) -> tuple[bytes, bytes]:
    red, green, blue, white = corners
    return b"cHRM", struct.pack(">8I", *(round(100_000 * value) for corner in (white, red, green, blue) for value in corner))


def gama(exponent: float) -> tuple[bytes, bytes]:
    return b"gAMA", struct.pack(">I", round(100_000 * exponent))


P3, BT2020 = PRIMARIES[12], PRIMARIES[9]


def test_the_spaces_are_the_standards():
    """Display P3's matrix as CSS Color 4 gives it, Adobe RGB's red by Bruce Lindbloom's, PQ and HLG at their anchors."""
    css = [[1.2249401, -0.2249402, 0], [-0.0420569, 1.0420571, 0], [-0.0196376, -0.0786361, 1.0982735]]
    assert matrix_to_srgb(P3) == pytest.approx(np.array(css), abs=2e-4)
    assert rgb_to_xyz(ADOBE_RGB)[:, 0] == pytest.approx([0.5767309, 0.2973769, 0.0270343], abs=2e-4)
    for transfer, number in ((16, 0.5807), (18, 0.75)):  # of paper white (BT.2408 table 1)
        curve = from_cicp(9, transfer).curves[0]
        light = float(curve(np.array([number]))[0])
        assert (light if transfer == 16 else 1000 / 203 * light**1.2) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("primaries", "curve", "tag", "rounding"),
    [
        (PRIMARIES[1], lambda light: light, power_curve(1.0), 24),  # 8 bits of linear light are coarse in the dark
        (P3, linear_to_srgb, None, ROUNDING),
        (ADOBE_RGB, lambda light: light ** (1 / ADOBE_GAMMA), power_curve(ADOBE_GAMMA), ROUNDING + 1),
        (BT2020, lambda light: light ** (1 / 1.8), b"curv\0\0\0\0" + struct.pack(">IH", 1, round(1.8 * 256)), ROUNDING + 3),
    ],
)
def test_a_profile_counts_by_what_it_says_whatever_its_name(tmp_path, primaries, curve, tag, rounding):
    if tag is None:  # sRGB's own curve, as a table
        steps = srgb_to_linear(np.arange(1024) / 1023)
        tag = b"curv\0\0\0\0" + struct.pack(">I1024H", 1024, *(round(65535 * float(value)) for value in steps))
    patches(u8(encoded(primaries, curve))).save(tmp_path / "a.png", icc_profile=profile(primaries, tag))
    photo = load_photo(tmp_path / "a.png")
    off = np.abs(middles(photo.rgb) - COLORS)
    bright = COLORS.min(axis=1) > 50
    assert off[bright].max() <= min(rounding, 4) and off.max() <= rounding
    assert photo.notes == ["converted from its colour profile (sRGB, or so it says) to sRGB"]


def test_srgb_by_any_name_changes_nothing(tmp_path):
    steps = srgb_to_linear(np.arange(1024) / 1023)
    tag = b"curv\0\0\0\0" + struct.pack(">I1024H", 1024, *(round(65535 * float(value)) for value in steps))
    patches(COLORS).save(tmp_path / "a.png", icc_profile=profile(PRIMARIES[1], tag, "Adobe RGB (1998)"))
    photo = load_photo(tmp_path / "a.png")
    assert np.array_equal(middles(photo.rgb), COLORS) and photo.notes == []


@pytest.mark.parametrize(
    ("chunks", "primaries", "curve", "note", "rounding"),
    [
        ([cicp(12, 13)], P3, linear_to_srgb, "converted from Display P3 to sRGB", ROUNDING),
        (
            [gama(1 / 2.2 / 0.9), chrm(P3)],
            P3,
            lambda v: v ** (1 / 2.2 / 0.9),
            "converted from its gamma and primaries to sRGB",
            4,
        ),
        ([gama(1.0)], PRIMARIES[1], lambda light: light, "converted from its gamma and primaries to sRGB", 24),
        ([gama(0.45455), chrm(P3)], P3, linear_to_srgb, "converted from its gamma and primaries to sRGB", ROUNDING),
    ],
)
def test_what_png_chunks_say(tmp_path, chunks, primaries, curve, note, rounding):
    (tmp_path / "a.png").write_bytes(png(patches(u8(encoded(primaries, curve))), *chunks))
    photo = load_photo(tmp_path / "a.png")
    assert np.abs(middles(photo.rgb) - COLORS).max() <= rounding and photo.notes == [note]


@pytest.mark.parametrize(
    "chunks",
    [
        [(b"sRGB", b"\0"), gama(1.0)],
        [gama(0.45455)],
        [gama(0.45455), chrm(PRIMARIES[1])],
        [cicp(1, 13), gama(1.0)],
        [cicp(1, 1)],
    ],
)
def test_png_chunks_that_say_srgb_or_lose_to_one(tmp_path, chunks):
    (tmp_path / "a.png").write_bytes(png(patches(COLORS), *chunks))
    photo = load_photo(tmp_path / "a.png")
    assert np.array_equal(middles(photo.rgb), COLORS) and photo.notes == []


@pytest.mark.parametrize(
    ("chunks", "note"),
    [
        ([cicp(10, 13)], "its colours (primaries 10, curve 13 of ITU-T H.273) are not understood and were taken for sRGB"),
        ([gama(100.0)], "its gamma (100) makes no sense and was ignored"),
        ([chrm(((0.3, 0.3),) * 4)], "its primaries make no sense and were ignored"),
        ([chrm(((0.3, 0),) * 4)], "its primaries make no sense and were ignored"),
    ],
)
def test_what_is_not_converted_is_said(tmp_path, chunks, note):
    (tmp_path / "a.png").write_bytes(png(patches(COLORS), *chunks))
    photo = load_photo(tmp_path / "a.png")
    assert np.array_equal(middles(photo.rgb), COLORS) and photo.notes == [note]


@pytest.mark.parametrize(("transfer", "curve", "name"), [(16, pq, "BT.2020 PQ"), (18, hlg, "BT.2020 HLG")])
def test_hdr_is_toned_down_and_what_is_darker_than_paper_stays(tmp_path, transfer, curve, name):
    (tmp_path / "a.png").write_bytes(png(patches(u8(encoded(BT2020, curve))), cicp(9, transfer)))
    photo = load_photo(tmp_path / "a.png")
    dull = COLORS.max(axis=1) < 225  # 0.8 of the light of white
    # 8 bits of PQ run to 10,000 nits: a step is 2.5 % of the light, which is 3 of 255 in the bright, more in the dark.
    assert np.abs(middles(photo.rgb) - COLORS)[dull].max() <= 5
    assert photo.notes == [f"converted from {name} to sRGB", "it is HDR: what is brighter than white paper was toned down"]
    lights = patches(u8(curve(np.repeat([[0.5], [1.0], [2.0], [4.0]], 3, axis=1))))
    (tmp_path / "b.png").write_bytes(png(lights, cicp(9, transfer)))
    greys = middles(load_photo(tmp_path / "b.png").rgb)[:, 1]
    assert (np.diff(greys) > 0).all() and greys[1] > 235 and greys[3] <= 255


@pytest.mark.parametrize(("primaries", "transfer"), [(12, 13), (9, 16), (9, 18)])
@pytest.mark.parametrize("kind", ["heic", "avif"])
def test_what_an_nclx_box_says(tmp_path, kind, primaries, transfer):
    curve = {13: linear_to_srgb, 16: pq, 18: hlg}[transfer]
    image, path = patches(u8(encoded(PRIMARIES[primaries], curve))), tmp_path / f"a.{kind}"
    if kind == "heic":
        pillow_heif = pytest.importorskip("pillow_heif")
        codes = {
            "color_primaries": primaries,
            "transfer_characteristics": transfer,
            "matrix_coefficients": 6,
            "full_range_flag": 1,
        }
        pillow_heif.from_pillow(image).save(path, quality=-1, chroma=444, save_nclx_profile=True, **codes)
    else:
        stream = io.BytesIO()
        try:
            image.save(stream, "AVIF", quality=100, subsampling="4:4:4")
        except (KeyError, OSError):
            pytest.skip("Pillow without AVIF")
        data = bytearray(stream.getvalue())
        struct.pack_into(">HH", data, data.index(b"nclx") + 4, primaries, transfer)
        path.write_bytes(data)
    photo = load_photo(path)
    dull = COLORS.max(axis=1) < 225
    assert np.abs(middles(photo.rgb) - COLORS)[dull].max() <= (4 if transfer == 13 else 8)  # both codecs lose a step or two
    assert photo.notes[0].startswith("converted from ") and ("HDR" in " ".join(photo.notes)) == (transfer != 13)


@pytest.mark.parametrize("tag", ["ColorSpace", "R03"])
def test_adobe_rgb_by_exif(tmp_path, tag):
    exif = Image.Exif()
    if tag == "ColorSpace":
        exif.get_ifd(0x8769)[0xA001] = 2
    else:
        exif.get_ifd(0x8769).update({0xA001: 0xFFFF, 0xA005: {1: "R03"}})
    numbers = u8(encoded(ADOBE_RGB, lambda light: light ** (1 / ADOBE_GAMMA)))
    patches(numbers).save(tmp_path / "a.jpg", quality=100, subsampling=0, exif=exif)
    photo = load_photo(tmp_path / "a.jpg")
    assert np.abs(middles(photo.rgb) - COLORS).max() <= ROUNDING + 3  # JPEG's own steps
    assert photo.notes == ["converted from Adobe RGB to sRGB"]


@pytest.mark.parametrize("deep", [False, True])
def test_grey_with_a_profile(tmp_path, deep):
    greys = np.array([2, 10, 30, 60, 128, 200, 250])
    light = srgb_to_linear(greys / 255.0)
    top, kind = (65535, np.uint16) if deep else (255, np.uint8)
    image = Image.fromarray(np.repeat(np.rint(light ** (1 / 1.8) * top).astype(kind)[None], 4, axis=0))
    image.save(tmp_path / "a.png", icc_profile=profile(PRIMARIES[1], power_curve(1.8), "Dull", b"GRAY"))
    photo = load_photo(tmp_path / "a.png")
    assert np.abs(photo.rgb[1].astype(int) - greys[:, None]).max() <= (1 if deep else 3)
    assert "converted from its colour profile (Dull) to sRGB" in photo.notes


def test_linear_sixteen_bit_grey(tmp_path):
    greys = np.array([1, 5, 20, 128, 250])
    image = Image.fromarray(np.repeat(np.rint(srgb_to_linear(greys / 255.0) * 65535).astype(np.uint16)[None], 4, axis=0))
    (tmp_path / "a.png").write_bytes(png(image, gama(1.0)))
    assert np.abs(load_photo(tmp_path / "a.png").rgb[1].astype(int) - greys[:, None]).max() <= 1


def test_cie_lab_is_converted(tmp_path):
    lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
    ImageCms.applyTransform(patches(COLORS), lab).save(tmp_path / "a.tif")
    photo = load_photo(tmp_path / "a.tif")
    assert np.abs(middles(photo.rgb) - COLORS).max() <= 4 and photo.notes == ["converted from CIE Lab to sRGB"]


@pytest.mark.parametrize(
    "mark", [b'<x hdrgm:Version="1.0"/>', b"urn:iso:std:iso:ts:21496:-1\0", b"urn:com:apple:photo:2020:aux:hdrgainmap"]
)
def test_a_gain_map_is_left_out_and_that_is_said(tmp_path, mark):
    stream = io.BytesIO()
    patches(COLORS).save(stream, "JPEG", quality=100, subsampling=0)
    data = stream.getvalue()
    (tmp_path / "a.jpg").write_bytes(data[:2] + b"\xff\xe1" + struct.pack(">H", len(mark) + 2) + mark + data[2:])
    photo = load_photo(tmp_path / "a.jpg")
    assert np.abs(middles(photo.rgb) - COLORS).max() <= 4
    assert photo.notes == ["its HDR gain map was left out: it is taken as ordinary screens show it"]


def test_the_largest_page_is_the_picture(tmp_path):
    small, large = patches(COLORS[::-1]).resize((40, 4)), patches(COLORS)
    small.save(tmp_path / "a.tif", save_all=True, append_images=[large, small])
    photo = load_photo(tmp_path / "a.tif")
    assert np.array_equal(middles(photo.rgb), COLORS) and photo.notes == ["took the largest of 3 pictures in the file"]


def with_subifd(page: bytes, within: bytes, width: int = 0) -> bytes:
    """A TIFF (little endian) whose first page has another TIFF's first page within it; width: what that states, if not 0."""
    shift = len(page)
    inner = bytearray(within)
    start = struct.unpack_from("<I", within, 4)[0]
    for entry in range(struct.unpack_from("<H", within, start)[0]):
        tag, kind, count, _ = struct.unpack_from("<HHII", within, start + 2 + 12 * entry)
        place = start + 2 + 12 * entry + 8
        size = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8}.get(kind, 4) * count
        if tag == 273 or size > 4:
            inner[place : place + 4] = struct.pack("<I", struct.unpack_from("<I", within, place)[0] + shift)
        if tag == 256 and width:
            inner[place - 6 : place + 4] = struct.pack("<HII", 4, 1, width)
        if tag == 259 and width:  # a compression that nobody knows
            inner[place : place + 4] = struct.pack("<I", 34713)
    outer = bytearray(page)
    first = struct.unpack_from("<I", page, 4)[0]
    count = struct.unpack_from("<H", page, first)[0]
    table = bytearray(struct.pack("<H", count + 1))
    entries = [page[first + 2 + 12 * n :][:12] for n in range(count)] + [struct.pack("<HHII", 330, 4, 1, shift + start)]
    table += b"".join(sorted(entries, key=lambda entry: struct.unpack_from("<H", entry)[0])) + bytes(4)
    outer[4:8] = struct.pack("<I", shift + len(inner))
    return bytes(outer) + bytes(inner) + bytes(table)


def tiff(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "TIFF", compression="raw")
    return stream.getvalue()


def test_a_picture_within_the_first_page_is_found(tmp_path):
    small, large = patches(COLORS[::-1]).resize((40, 4)), patches(COLORS)
    (tmp_path / "a.dng").write_bytes(with_subifd(tiff(small), tiff(large)))
    assert np.array_equal(middles(load_photo(tmp_path / "a.dng").rgb), COLORS)
    (tmp_path / "b.dng").write_bytes(with_subifd(tiff(large), tiff(small)))
    assert np.array_equal(middles(load_photo(tmp_path / "b.dng").rgb), COLORS)


def test_a_raw_photo_of_which_only_the_thumbnail_can_be_read_is_refused(tmp_path):
    (tmp_path / "a.nef").write_bytes(with_subifd(tiff(patches(COLORS).resize((40, 4))), tiff(patches(COLORS)), width=6000))
    with pytest.raises(
        InputError, match="is a raw photo of which only a thumbnail can be read; develop it and save it as JPEG"
    ):
        load_photo(tmp_path / "a.nef")
