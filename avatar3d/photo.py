"""Reading one photo safely into upright 8-bit sRGB, saying what was changed on the way; finds no faces."""

from __future__ import annotations

import io
import math
import re
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageCms, ImageOps, UnidentifiedImageError

from avatar3d.errors import InputError
from avatar3d.extras import install_extra
from avatar3d.files import read_bounded
from avatar3d.progress import quiet_stderr

MAX_MEGAPIXELS = 64.0  # decoded 64 MP take 256 MB as RGBA; no face needs more
MAX_FILE_BYTES = 600_000_000  # 64 MP of 16-bit RGBA, uncompressed, and some
BLOCK_ROWS = 256
MID_GREY = 128  # sRGB value put behind transparent pixels: neither a halo of black nor of white
FULL_FRAME_DIAGONAL_MM = math.hypot(36.0, 24.0)  # EXIF's 35 mm equivalent is defined by the diagonal (CIPA DCG-001)
MAX_ASPECT_CHANGE = 0.02  # beyond it the photo was cropped after it was taken, and its focal length means nothing
FOCAL_RANGE = (0.3, 30.0)  # believable focal length over the photo's longer side: 11 mm to 1,080 mm equivalent

# Only plain raster formats: Pillow's EPS reader, for one, runs another program on the file.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM", "JPEG2000", "AVIF", "HEIF")
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_DECODE_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error)
_MM_PER_UNIT = {2: 25.4, 3: 10.0, 4: 1.0, 5: 0.001}  # EXIF FocalPlaneResolutionUnit: inch, cm, mm, µm


@dataclass(frozen=True)
class Photo:
    """rgb: (H, W, 3) uint8 sRGB, upright. focal_px: from EXIF, pixels of `rgb`, or None. notes: what was done."""

    rgb: np.ndarray
    focal_px: float | None = None
    notes: list[str] = field(default_factory=list)


def load_photo(path: str | Path, max_megapixels: float = MAX_MEGAPIXELS) -> Photo:
    """Read a photo file.

    Applies the EXIF orientation and an embedded colour profile; converts greyscale, palette, CMYK and 16-bit
    pictures; puts mid-grey behind transparency; takes the first picture of an animation. Each is said in
    `notes`. Raises InputError, one sentence, for what cannot be read; a picture of more than `max_megapixels`
    is refused before it is decoded.
    """
    path = Path(path)
    _refuse_unreadable(path)
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about what is refused below or harmless
        try:
            with quiet_stderr(), _opened(path, read_bounded(path, "photo", MAX_FILE_BYTES), max_megapixels) as picture:
                exif = _exif(picture)
                format_name, frames = picture.format, getattr(picture, "n_frames", 1)
                profile = picture.info.get("icc_profile")
                picture.load()
                if frames > 1 and format_name != "MPO":
                    notes.append(f"took the first of {frames} pictures in the file")
                upright = ImageOps.exif_transpose(picture)
                if exif.get(ExifTags.Base.Orientation, 1) != 1:
                    notes.append("turned upright as its EXIF orientation says")
                rgb = _to_rgb(upright, profile, notes, path)
        except InputError:
            raise
        except Exception as error:  # Pillow's decoders raise a dozen kinds on damaged data
            raise InputError(
                f"{path} is damaged and cannot be decoded ({_reason(error)}); copy it again from its source"
            ) from error
    focal_px = _focal_px(exif, rgb.shape[1], rgb.shape[0], notes)
    return Photo(rgb, focal_px, notes)


def _refuse_unreadable(path: Path) -> None:
    if not path.exists():
        raise InputError(f"cannot read {path}: no such file")
    if path.is_dir():
        raise InputError(f"cannot read {path}: it is a folder; name one photo")
    if not path.is_file():
        raise InputError(f"cannot read {path}: it is not a regular file; name one photo")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes); copy it again from its source")


def _opened(path: Path, data: bytes, max_megapixels: float) -> Image.Image:
    """The picture in the file's bytes with only its header read."""
    if data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
        _register_heic(path)
    Image.init()
    try:
        picture = Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in Image.OPEN])
        pixels = picture.width * picture.height
    except Image.DecompressionBombError as error:
        found = re.search(r"\d+", str(error))
        pixels = int(found.group()) if found else 0
        raise _too_large(path, pixels, max_megapixels) from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"{path} is not a picture in a format that is understood; save it as JPEG or PNG"
        ) from error
    if pixels > max_megapixels * 1e6:
        picture.close()
        raise _too_large(path, pixels, max_megapixels)
    return picture


def _too_large(path: Path, pixels: int, max_megapixels: float) -> InputError:
    return InputError(
        f"{path} has {pixels / 1e6:.0f} megapixels, at most {max_megapixels:g} are read; shrink it or crop the face"
    )


def _register_heic(path: Path) -> None:
    try:
        import pillow_heif
    except ImportError as error:
        raise InputError(
            f"{path} is a HEIC photo and its reader is not installed; save it as JPEG, or run: {install_extra('heic')}"
        ) from error
    pillow_heif.register_heif_opener()


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:120] or type(error).__name__


def _exif(picture: Image.Image) -> dict[int, Any]:
    """The main and the camera's EXIF tags in one dictionary; empty when they cannot be read."""
    try:
        tags = picture.getexif()
        return {**tags, **tags.get_ifd(ExifTags.IFD.Exif)}
    except Exception:  # as above; a picture is of use without them
        return {}


def _to_rgb(picture: Image.Image, profile: bytes | None, notes: list[str], path: Path) -> np.ndarray:
    """(H, W, 3) uint8 sRGB of a decoded picture of any mode."""
    if picture.mode.startswith("I") or picture.mode == "F":
        return _deep_grey_to_rgb(picture, notes, path)
    alpha = None
    if picture.has_transparency_data:
        with_alpha = picture.convert("RGBA")
        alpha = np.asarray(with_alpha.getchannel("A"))
        picture = picture.convert("L") if picture.mode in ("LA", "La") else with_alpha.convert("RGB")
    if picture.mode in ("1", "L"):
        notes.append("it is greyscale, so the avatar has no colour")
    elif picture.mode == "P":
        picture = picture.convert("RGB")
    if picture.mode == "CMYK":
        notes.append("converted from CMYK to RGB")
    picture = _apply_profile(picture, profile, notes)
    rgb = np.array(picture.convert("RGB"))
    if alpha is not None and alpha.min() < 255:
        notes.append("put mid-grey behind its transparent parts")
        for rows in _blocks(rgb):
            share = alpha[rows, :, None].astype(np.float32) / 255.0
            rgb[rows] = np.rint(rgb[rows] * share + MID_GREY * (1.0 - share)).astype(np.uint8)
    return rgb


def _deep_grey_to_rgb(picture: Image.Image, notes: list[str], path: Path) -> np.ndarray:
    """(H, W, 3) uint8 of a greyscale picture with more than 8 bits a pixel."""
    values = np.asarray(picture)
    if picture.mode == "F" or values.min() < 0 or values.max() > 65535:
        raise InputError(f"{path} does not hold 8-bit or 16-bit pixels; save it as JPEG or PNG")
    notes.append("reduced from 16 to 8 bits")
    notes.append("it is greyscale, so the avatar has no colour")
    grey = np.empty(values.shape, np.uint8)
    for rows in _blocks(values):
        grey[rows] = np.rint(values[rows] / 257.0).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def _blocks(picture: np.ndarray) -> Iterator[slice]:
    """Rows of a picture some at a time: a large one has no room for itself in floats."""
    for first in range(0, len(picture), BLOCK_ROWS):
        yield slice(first, first + BLOCK_ROWS)


def _apply_profile(picture: Image.Image, profile: bytes | None, notes: list[str]) -> Image.Image:
    """The picture in sRGB, if its colour profile says that it is not already."""
    if not profile:
        return picture
    try:
        source = ImageCms.getOpenProfile(io.BytesIO(profile))
        description = ImageCms.getProfileDescription(source).strip()
        if "sRGB" in description:
            return picture
        converted = ImageCms.profileToProfile(picture, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, *_DECODE_ERRORS):
        notes.append("its colour profile could not be used and was ignored")
        return picture
    notes.append(f"converted from its colour profile ({description or 'unnamed'}) to sRGB")
    return converted if converted is not None else picture


def _number(exif: dict[int, Any], tag: int) -> float:
    """A positive EXIF number, or 0 when it is absent or makes no sense."""
    try:
        value = float(exif.get(tag, 0))
    except (TypeError, ValueError, ZeroDivisionError):
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


def _focal_px(exif: dict[int, Any], width: int, height: int, notes: list[str]) -> float | None:
    """Focal length in pixels of the photo as it is now, or None when EXIF does not tell it."""
    tags = ExifTags.Base
    equivalent_mm = _number(exif, tags.FocalLengthIn35mmFilm)
    focal_mm = _number(exif, tags.FocalLength)
    density = _number(exif, tags.FocalPlaneXResolution)
    unit_mm = _MM_PER_UNIT.get(int(_number(exif, tags.FocalPlaneResolutionUnit)) or 2, 0.0)
    # Editors rewrite one of the two recorded sizes when they shrink or crop; the larger is the camera's.
    recorded = [
        sorted((_number(exif, across), _number(exif, down)))
        for across, down in (
            (tags.ImageWidth, tags.ImageLength),
            (tags.ExifImageWidth, tags.ExifImageHeight),
        )
    ]
    recorded = [size for size in recorded if size[0]]
    now = sorted((width, height))
    if any(abs(size[0] / size[1] / (now[0] / now[1]) - 1.0) > MAX_ASPECT_CHANGE for size in recorded):
        if equivalent_mm or (focal_mm and density):
            notes.append("left its EXIF focal length unused, because the photo was cropped")
        return None
    if equivalent_mm:
        focal = equivalent_mm * math.hypot(width, height) / FULL_FRAME_DIAGONAL_MM
    elif focal_mm and density and unit_mm and recorded:
        focal = focal_mm * density / unit_mm * now[1] / max(size[1] for size in recorded)
    else:
        return None
    if not FOCAL_RANGE[0] <= focal / now[1] <= FOCAL_RANGE[1]:
        return None
    notes.append(f"focal length {focal:.0f} pixels, from EXIF")
    return focal
