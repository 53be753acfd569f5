"""Reading one photo safely into upright 8-bit sRGB, saying what was changed on the way; finds no faces."""

from __future__ import annotations

import hashlib
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
from PIL import ExifTags, Image, ImageOps, TiffImagePlugin, UnidentifiedImageError

from avatar3d.errors import InputError
from avatar3d.extras import install_extra
from avatar3d.files import open_regular, read_bounded
from avatar3d.photo_color import PhotoColors
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
MAX_PAGES = 64  # of a TIFF, and of the pictures within its first page, that are looked at
MAX_TRIES = 4  # of the pictures within it: each takes a copy of the file
MIN_PREVIEW_SHARE = 0.25  # of a raw photo's pixels: a smaller picture in its file is its thumbnail
_MM_PER_UNIT = {2: 25.4, 3: 10.0, 4: 1.0, 5: 0.001}  # EXIF FocalPlaneResolutionUnit: inch, cm, mm, µm


@dataclass(frozen=True)
class Photo:
    """rgb: (H, W, 3) uint8 sRGB, upright. focal_px: from EXIF, pixels of `rgb`, or None. notes: what was done."""

    rgb: np.ndarray
    focal_px: float | None = None
    notes: list[str] = field(default_factory=list)


def load_photo(path: str | Path, max_megapixels: float = MAX_MEGAPIXELS) -> Photo:
    """Read a photo file.

    Applies the EXIF orientation; converts to sRGB what the file says is in other colours, and greyscale, palette, CMYK and
    16-bit pictures; puts mid-grey behind transparency; takes the first picture of an animation and the largest page of a TIFF.
    Each is said in `notes`. Raises InputError, one sentence, for what cannot be read; a picture of more than `max_megapixels`
    is refused before it is decoded.
    """
    path = Path(path)
    _refuse_unreadable(path)
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about what is refused below or harmless
        try:
            data = read_bounded(path, "photo", MAX_FILE_BYTES)
            with quiet_stderr(), _opened(path, data, max_megapixels) as picture:
                if picture.format == "TIFF":
                    picture = _largest_page(path, data, picture, max_megapixels, notes)
                exif = _exif(picture)
                format_name, frames = picture.format, getattr(picture, "n_frames", 1)
                picture.load()
                if frames > 1 and format_name not in ("MPO", "TIFF"):
                    notes.append(f"took the first of {frames} pictures in the file")
                colors = PhotoColors(data, picture, notes)
                upright = ImageOps.exif_transpose(picture)
                if exif.get(ExifTags.Base.Orientation, 1) != 1:
                    notes.append("turned upright as its EXIF orientation says")
                rgb = _to_rgb(upright, colors, notes, path)
        except InputError:
            raise
        except MemoryError:
            raise
        except Exception as error:  # Pillow's decoders raise a dozen kinds on damaged data
            raise InputError(
                f"{path} is damaged and cannot be decoded ({_reason(error)}); copy it again from its source"
            ) from error
    focal_px = _focal_px(exif, rgb.shape[1], rgb.shape[0], notes)
    return Photo(rgb, focal_px, notes)


def given_photo(photo: str | Path | Image.Image | np.ndarray) -> tuple[Photo, str, str]:
    """(the photo, what errors call it, the SHA-256 of its file or else of its pixels) of a file, a picture or an array.

    A Pillow picture is turned upright as its EXIF says and taken for sRGB, an array is (H, W, 3) uint8 sRGB. Raises InputError for
    anything else, and as `load_photo` does.
    """
    if isinstance(photo, str | Path):
        loaded = load_photo(photo)
        return loaded, Path(photo).name, hashlib.sha256(Path(photo).read_bytes()).hexdigest()
    name = "the picture"
    if isinstance(photo, Image.Image):
        rgb = np.asarray(ImageOps.exif_transpose(photo).convert("RGB"))
    elif isinstance(photo, np.ndarray) and photo.dtype == np.uint8 and photo.ndim == 3 and photo.shape[2] == 3 and photo.size:
        rgb = photo
    else:
        kind = (
            f"an array {photo.dtype} of shape {photo.shape}" if isinstance(photo, np.ndarray) else f"a {type(photo).__name__}"
        )
        raise InputError(f"a photo was given as {kind}; expected a file, a Pillow image, or an (H, W, 3) uint8 array in sRGB")
    if rgb.shape[0] * rgb.shape[1] > MAX_MEGAPIXELS * 1e6:
        raise InputError(f"the picture has {rgb.shape[1]}×{rgb.shape[0]} pixels, more than {MAX_MEGAPIXELS:g} megapixels")
    rgb = np.ascontiguousarray(rgb)
    return Photo(rgb), name, hashlib.sha256(rgb.tobytes()).hexdigest()


def _refuse_unreadable(path: Path) -> None:
    with open_regular(path, "photo") as stream:
        if not stream.read(1):
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
        raise InputError(f"{path} is not a picture in a format that is understood; save it as JPEG or PNG") from error
    if pixels > max_megapixels * 1e6:
        picture.close()
        raise _too_large(path, pixels, max_megapixels)
    return picture


def _largest_page(path: Path, data: bytes, first: Image.Image, max_megapixels: float, notes: list[str]) -> Image.Image:
    """The largest page of a TIFF, of those within its first one too: cameras and scanners put a thumbnail first.

    Raises InputError where only a small one of a raw photo can be read.
    """
    pages = min(getattr(first, "n_frames", 1), MAX_PAGES)
    sizes = []
    for page in range(pages):
        first.seek(page)
        sizes.append(first.width * first.height)
    first.seek(0)
    within = _pages_within(data, first)
    best: Image.Image | None = None
    for pixels, offset in sorted(within, reverse=True)[:MAX_TRIES]:
        if pixels <= max(sizes):
            break
        if pixels > max_megapixels * 1e6:
            raise _too_large(path, pixels, max_megapixels)
        try:
            # The same file, with that picture for its first page.
            start = struct.pack("<I" if data[:1] == b"I" else ">I", offset)
            best = Image.open(io.BytesIO(data[:4] + start + data[8:]), formats=["TIFF"])
            best.load()
            break
        except Exception:  # a camera's mosaic, or whatever else Pillow's decoder does not take
            best = None
    chosen = max(sizes) if best is None else best.width * best.height
    if chosen < MIN_PREVIEW_SHARE * max((pixels for pixels, _ in within), default=0):
        raise InputError(f"{path} is a raw photo of which only a thumbnail can be read; develop it and save it as JPEG")
    if best is None:
        first.seek(int(np.argmax(sizes)))
        if first.width * first.height > max_megapixels * 1e6:
            raise _too_large(path, first.width * first.height, max_megapixels)
        best = first
    if pages + len(within) > 1:
        notes.append(f"took the largest of {pages + len(within)} pictures in the file")
    return best


def _pages_within(data: bytes, first: Image.Image) -> list[tuple[int, int]]:
    """(pixels, offset) of the pictures that the first page of a TIFF names as within it (SubIFDs)."""
    offsets = first.tag_v2.get(ExifTags.Base.SubIFDs, ()) if isinstance(first, TiffImagePlugin.TiffImageFile) else ()
    order = "<" if data[:1] == b"I" else ">"
    found = []
    for offset in (offsets if isinstance(offsets, tuple) else (offsets,))[:MAX_PAGES]:
        sides = {}
        try:
            count = struct.unpack_from(f"{order}H", data, offset)[0]
            for entry in range(count):
                tag, kind, _, value = struct.unpack_from(f"{order}HHII", data, offset + 2 + 12 * entry)
                if tag in (ExifTags.Base.ImageWidth, ExifTags.Base.ImageLength):
                    sides[tag] = value >> 16 if kind == 3 and order == ">" else value & 0xFFFF if kind == 3 else value
        except (struct.error, TypeError):
            continue
        found.append((sides.get(ExifTags.Base.ImageWidth, 0) * sides.get(ExifTags.Base.ImageLength, 0), offset))
    return found


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


def _to_rgb(picture: Image.Image, colors: PhotoColors, notes: list[str], path: Path) -> np.ndarray:
    """(H, W, 3) uint8 sRGB of a decoded picture of any mode."""
    if picture.mode.startswith("I") or picture.mode == "F":
        return _deep_grey_to_rgb(picture, colors, notes, path)
    alpha = None
    if picture.has_transparency_data:
        with_alpha = picture.convert("RGBA")
        alpha = np.asarray(with_alpha.getchannel("A"))
        picture = picture.convert("L") if picture.mode in ("LA", "La") else with_alpha.convert("RGB")
    if picture.mode in ("1", "L"):
        notes.append("it is greyscale, so the avatar has no colour")
    elif picture.mode not in ("RGB", "CMYK", "LAB"):
        picture = picture.convert("RGB")
    if picture.mode == "CMYK":
        notes.append("converted from CMYK to RGB")
    rgb = np.array(colors.applied(picture).convert("RGB"))
    if alpha is not None and alpha.min() < 255:
        notes.append("put mid-grey behind its transparent parts")
        for rows in _blocks(rgb):
            share = alpha[rows, :, None].astype(np.float32) / 255.0
            rgb[rows] = np.rint(rgb[rows] * share + MID_GREY * (1.0 - share)).astype(np.uint8)
    return rgb


def _deep_grey_to_rgb(picture: Image.Image, colors: PhotoColors, notes: list[str], path: Path) -> np.ndarray:
    """(H, W, 3) uint8 of a greyscale picture with more than 8 bits a pixel."""
    values = np.asarray(picture)
    if picture.mode == "F" or values.min() < 0 or values.max() > 65535:
        raise InputError(f"{path} does not hold 8-bit or 16-bit pixels; save it as JPEG or PNG")
    notes.append("reduced from 16 to 8 bits")
    notes.append("it is greyscale, so the avatar has no colour")
    return np.repeat(colors.deep_grey(values)[..., None], 3, axis=2)


def _blocks(picture: np.ndarray) -> Iterator[slice]:
    """Rows of a picture some at a time: a large one has no room for itself in floats."""
    for first in range(0, len(picture), BLOCK_ROWS):
        yield slice(first, first + BLOCK_ROWS)


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
