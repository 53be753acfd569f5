"""Reading photos: every kind that is accepted comes out upright sRGB, every other is refused in one sentence."""

import builtins
import io
import os
import struct
import tracemalloc
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms
from samples import sample

from avatar3d.errors import InputError
from avatar3d.extras import install_extra
from avatar3d.photo import load_photo

GREYSCALE = "it is greyscale, so the avatar has no colour"


def picture(width=32, height=24):
    """A smooth colour picture whose corners differ."""
    y, x = np.mgrid[:height, :width]
    rgb = np.stack([x * 255 // (width - 1), y * 255 // (height - 1), 255 - x * 255 // (width - 1)], axis=-1)
    return Image.fromarray(rgb.astype(np.uint8))


def refusal(path):
    with pytest.raises(InputError) as refused:
        load_photo(path)
    return str(refused.value)


def test_png_comes_out_unchanged_and_unremarked(tmp_path):
    picture().save(tmp_path / "a.png")
    photo = load_photo(tmp_path / "a.png")
    assert photo.rgb.dtype == np.uint8
    assert np.array_equal(photo.rgb, np.asarray(picture()))
    assert photo.notes == [] and photo.focal_px is None


def test_missing_file_and_folder(tmp_path):
    assert refusal(tmp_path / "no.jpg") == f"cannot read the photo {tmp_path / 'no.jpg'}: No such file or directory"
    assert refusal(tmp_path) == f"cannot read the photo {tmp_path}: it is a folder; name a file"


def test_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "p.jpg")
    assert refusal(tmp_path / "p.jpg").endswith("it is a pipe, a socket or a device; name a file")


def test_file_without_permission(tmp_path):
    path = tmp_path / "a.png"
    picture().save(path)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything")
    assert refusal(path) == f"cannot read {path}: Permission denied; check its permissions"


def test_empty_file(tmp_path):
    path = tmp_path / "a.jpg"
    path.touch()
    assert refusal(path) == f"{path} is empty (0 bytes); copy it again from its source"


@pytest.mark.parametrize("data", [b"hello, I am text\n", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\0" * 99])
def test_file_that_is_no_picture(tmp_path, data):
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    assert refusal(path) == f"{path} is not a picture in a format that is understood; save it as JPEG or PNG"


@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "tif", "gif"])
def test_truncated_file(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    noise = np.random.default_rng(1).integers(0, 255, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    sentence = refusal(path)
    assert sentence.startswith(str(path)) and "\n" not in sentence
    assert sentence.endswith(("; copy it again from its source", "; save it as JPEG or PNG"))


def bomb(width, height):
    """A PNG of a few bytes whose header promises width × height pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height", "said"), [(20000, 10000, 200), (9000, 9000, 81), (60000, 60000, 3600)])
def test_bomb_is_refused_before_decoding(tmp_path, width, height, said):
    path = tmp_path / "a.png"
    path.write_bytes(bomb(width, height))
    assert refusal(path) == f"{path} has {said} megapixels, at most 64 are read; shrink it or crop the face"


def test_a_chunk_that_states_gigabytes_is_not_made_room_for(tmp_path):
    stream = io.BytesIO()
    picture(256, 256).save(stream, "PNG")
    data = bytearray(stream.getvalue())
    place = data.index(b"IDAT") - 4
    data[place : place + 4] = b"\x7f\xff\xff\xff"
    (tmp_path / "a.png").write_bytes(data)
    tracemalloc.start()
    try:
        with suppress(InputError):  # what there is of the picture may be whole
            load_photo(tmp_path / "a.png")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10**8


def test_the_decoder_of_a_damaged_tiff_writes_nothing_of_its_own(tmp_path, capfd):
    stream = io.BytesIO()
    picture().save(stream, "TIFF", compression="tiff_adobe_deflate")
    data = bytearray(stream.getvalue())
    data[20:40] = bytes(20)
    (tmp_path / "a.tif").write_bytes(data)
    assert "damaged" in refusal(tmp_path / "a.tif")
    assert capfd.readouterr() == ("", "")


def test_limit_can_be_set(tmp_path):
    path = tmp_path / "a.png"
    picture(200, 100).save(path)
    with pytest.raises(InputError, match=r"at most 0\.01 are read"):
        load_photo(path, max_megapixels=0.01)


def test_greyscale(tmp_path):
    grey = picture().convert("L")
    grey.save(tmp_path / "a.png")
    photo = load_photo(tmp_path / "a.png")
    assert np.array_equal(photo.rgb, np.repeat(np.asarray(grey)[..., None], 3, axis=2))
    assert photo.notes == [GREYSCALE]


def test_sixteen_bit_greyscale_is_scaled(tmp_path):
    values = np.array([[0, 257, 257 * 128, 65535]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    photo = load_photo(tmp_path / "a.png")
    assert photo.rgb[0, :, 0].tolist() == [0, 1, 128, 255]
    assert photo.notes == ["reduced from 16 to 8 bits", GREYSCALE]


def test_float_tiff_is_refused(tmp_path):
    path = tmp_path / "a.tif"
    Image.fromarray(np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)).save(path)
    assert refusal(path) == f"{path} does not hold 8-bit or 16-bit pixels; save it as JPEG or PNG"


def test_cmyk_without_a_profile(tmp_path):
    picture().convert("CMYK").save(tmp_path / "a.tif")
    photo = load_photo(tmp_path / "a.tif")
    assert np.abs(photo.rgb.astype(int) - np.asarray(picture())).max() <= 1
    assert photo.notes == ["converted from CMYK to RGB"]


def test_transparency_becomes_mid_grey(tmp_path):
    rgba = picture().convert("RGBA")
    rgba.putalpha(Image.fromarray(np.repeat(np.linspace(0, 255, 32).astype(np.uint8)[None], 24, axis=0)))
    rgba.save(tmp_path / "a.png")
    photo = load_photo(tmp_path / "a.png")
    assert photo.notes == ["put mid-grey behind its transparent parts"]
    assert (photo.rgb[:, 0] == 128).all()
    assert np.array_equal(photo.rgb[:, -1], np.asarray(picture())[:, -1])


def test_opaque_alpha_is_not_remarked(tmp_path):
    picture().convert("RGBA").save(tmp_path / "a.png")
    photo = load_photo(tmp_path / "a.png")
    assert photo.notes == [] and np.array_equal(photo.rgb, np.asarray(picture()))


def test_palette_with_and_without_transparency(tmp_path):
    palette = picture().quantize(16)
    palette.save(tmp_path / "a.png")
    assert np.array_equal(load_photo(tmp_path / "a.png").rgb, np.asarray(palette.convert("RGB")))
    palette.save(tmp_path / "b.png", transparency=int(np.asarray(palette)[0, 0]))
    photo = load_photo(tmp_path / "b.png")
    assert photo.rgb[0, 0].tolist() == [128, 128, 128]
    assert photo.notes == ["put mid-grey behind its transparent parts"]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, orientation):
    upright = picture(64, 48)
    turned = {
        1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_270,
    }[orientation]  # fmt: skip
    stored = upright.transpose(turned) if turned is not None else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.png", exif=exif)
    photo = load_photo(tmp_path / "a.png")
    assert np.array_equal(photo.rgb, np.asarray(upright))
    assert photo.notes == ([] if orientation == 1 else ["turned upright as its EXIF orientation says"])


@pytest.mark.parametrize("kind", ["gif", "png", "webp"])
def test_animation_gives_its_first_picture(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "lime", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "webp" else {}))
    photo = load_photo(path)
    assert np.abs(photo.rgb.astype(int) - (255, 0, 0)).max() <= 2
    assert photo.notes == ["took the first of 3 pictures in the file"]


def test_heic_with_and_without_its_reader(tmp_path, monkeypatch):
    pillow_heif = pytest.importorskip("pillow_heif")
    path = tmp_path / "a.heic"
    pillow_heif.from_pillow(picture(128, 96)).save(path, quality=90)
    photo = load_photo(path)
    assert photo.rgb.shape == (96, 128, 3)
    assert np.abs(photo.rgb.astype(int) - np.asarray(picture(128, 96))).mean() < 6

    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "pillow_heif":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refusal(path) == (
        f"{path} is a HEIC photo and its reader is not installed; save it as JPEG, or run: {install_extra('heic')}"
    )


def profile_with_red_and_blue_swapped():
    data = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    name, other = "sRGB".encode("utf-16-be"), "Swap".encode("utf-16-be")
    assert name in data
    data = data.replace(name, other)
    for red, blue in ((b"rXYZ", b"bXYZ"), (b"rTRC", b"bTRC")):
        data = data.replace(red, b"####").replace(blue, red).replace(b"####", blue)
    return data


def test_colour_profile_is_converted(tmp_path):
    picture().save(tmp_path / "a.png", icc_profile=profile_with_red_and_blue_swapped())
    photo = load_photo(tmp_path / "a.png")
    assert np.abs(photo.rgb.astype(int) - np.asarray(picture())[..., ::-1]).max() <= 2
    assert photo.notes == ["converted from its colour profile (Swap built-in) to sRGB"]


def test_srgb_profile_changes_nothing(tmp_path):
    data = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture().save(tmp_path / "a.png", icc_profile=data)
    photo = load_photo(tmp_path / "a.png")
    assert photo.notes == [] and np.array_equal(photo.rgb, np.asarray(picture()))


def test_broken_profile_is_ignored_and_said(tmp_path):
    picture().save(tmp_path / "a.png", icc_profile=b"not a profile" * 20)
    photo = load_photo(tmp_path / "a.png")
    assert photo.notes == ["its colour profile could not be used and was ignored"]
    assert np.array_equal(photo.rgb, np.asarray(picture()))


def photo_with_exif(path, size, main=None, camera=None):
    exif = Image.Exif()
    for tag, value in (main or {}).items():
        exif[tag] = value
    for tag, value in (camera or {}).items():
        exif.get_ifd(0x8769)[tag] = value
    picture(*size).save(path, exif=exif)
    return load_photo(path)


def test_focal_length_from_its_equivalent(tmp_path):
    photo = photo_with_exif(tmp_path / "a.jpg", (360, 240), camera={0xA405: 50})
    assert photo.focal_px == pytest.approx(500, rel=1e-6)
    assert photo.notes == ["focal length 500 pixels, from EXIF"]


def test_focal_length_from_the_sensor_follows_a_shrunk_photo(tmp_path):
    camera = {0x920A: 50.0, 0xA20E: 100.0, 0xA210: 4, 0xA002: 3600, 0xA003: 2400}
    assert photo_with_exif(tmp_path / "a.jpg", (360, 240), camera=camera).focal_px == pytest.approx(500)
    camera |= {0xA002: 360, 0xA003: 240}
    main = {0x0100: 3600, 0x0101: 2400}
    assert photo_with_exif(tmp_path / "b.jpg", (360, 240), main, camera).focal_px == pytest.approx(500)


def test_focal_length_of_a_cropped_photo_is_not_used(tmp_path):
    photo = photo_with_exif(tmp_path / "a.jpg", (240, 240), {0x0100: 3600, 0x0101: 2400}, {0xA405: 50})
    assert photo.focal_px is None
    assert photo.notes == ["left its EXIF focal length unused, because the photo was cropped"]


@pytest.mark.parametrize("millimetres", [0, 1, 60000])
def test_absurd_focal_length_is_not_used(tmp_path, millimetres):
    photo = photo_with_exif(tmp_path / "a.jpg", (360, 240), camera={0xA405: millimetres})
    assert photo.focal_px is None and photo.notes == []


def test_real_photo_with_a_camera_focal_length():
    photo = load_photo(sample("obama.jpg"))
    # 85 mm on a full-frame camera with 160 pixels a mm, shrunk from 3356 to 1137 pixels.
    assert photo.focal_px == pytest.approx(85 * 160 * 1137 / 3356)


_SEED_FILES = {}


def seed_file(kind):
    if kind not in _SEED_FILES:
        buffer = io.BytesIO()
        exif = Image.Exif()
        exif[0x0112] = 6
        exif.get_ifd(0x8769)[0xA405] = 50
        picture().save(buffer, kind, **({} if kind in ("GIF", "PPM") else {"exif": exif}))
        _SEED_FILES[kind] = buffer.getvalue()
    return _SEED_FILES[kind]


@settings(max_examples=150)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "WEBP", "TIFF", "GIF", "PPM"]),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=8),
    keep=st.floats(0.3, 1.0),
)
def test_damaged_file_is_read_or_refused_in_one_sentence(tmp_path, kind, changes, keep):
    data = bytearray(seed_file(kind))
    for position, value in changes:
        data[position % len(data)] = value
    path = tmp_path / "a.jpg"
    path.write_bytes(data[: max(1, int(len(data) * keep))])
    try:
        photo = load_photo(path, max_megapixels=1)
    except InputError as refused:
        assert str(refused).startswith((str(path), f"cannot read {path}")) and "\n" not in str(refused)
    else:
        assert photo.rgb.dtype == np.uint8 and photo.rgb.shape[2] == 3
