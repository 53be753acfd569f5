"""Pictures and films as files: stills, stereo pairs, grids, GIF and MP4; draws nothing itself."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from avatar3d.choices import FPS_RANGE
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.errors import InputError, WorkError
from avatar3d.extras import pip_install
from avatar3d.files import replacing

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
MOVIE_SUFFIXES = (".mp4", ".gif")
_OPAQUE_SUFFIXES = (".jpg", ".jpeg", ".mp4", ".gif")  # formats without partial transparency
JPEG_QUALITY = 95  # with full-resolution chroma: no loss that is seen at 1:1
MP4_CRF = 17  # x264 constant rate factor; 18 is called visually lossless
# faststart puts the index first, so that a browser plays while it loads; the colour tags say what the bytes are.
_MP4_OPTIONS = (
    f"-crf {MP4_CRF} -movflags +faststart -vf scale=out_color_matrix=bt709:out_range=tv"
    " -colorspace bt709 -color_primaries bt709 -color_trc iec61966-2-1 -color_range tv"
)
MAX_FFMPEG_WORDS = 1 << 16  # bytes of its messages that are read
GIF_TICK_MS = 10  # the format counts frame durations in hundredths of a second
# Least-squares red-cyan anaglyph, rows = output r, g, b; columns = left rgb, right rgb, in linear light.
# E. Dubois, "A projection method to generate anaglyph stereo images", ICASSP 2001; coefficients as in his 2009 table.
DUBOIS_RED_CYAN = np.array(
    [
        [0.437, 0.449, 0.164, -0.011, -0.032, -0.007],
        [-0.062, -0.062, -0.024, 0.377, 0.761, 0.009],
        [-0.048, -0.050, -0.017, -0.026, -0.093, 1.234],
    ],
    np.float32,
)


def check_suffix(path: str | Path, moving: bool) -> str:
    """The lower-case suffix of `path`; raises InputError unless a still (or, if `moving`, a film or grid) can be written so."""
    suffix = Path(path).suffix.lower()
    known = MOVIE_SUFFIXES + PICTURE_SUFFIXES if moving else PICTURE_SUFFIXES
    if suffix not in known:
        what = "a film, or a grid of pictures," if moving else "a picture"
        hint = "" if suffix not in MOVIE_SUFFIXES else "; a film needs --turntable or --motion"
        raise InputError(f"cannot write {what} as {Path(path).name}: expected a name that ends in {', '.join(known)}{hint}")
    return suffix


def check_fps(fps: float) -> None:
    """Raise InputError for a film's rate outside FPS_RANGE."""
    if not FPS_RANGE[0] <= fps <= FPS_RANGE[1]:
        raise InputError(f"{fps:g} frames a second is outside {FPS_RANGE[0]:g}..{FPS_RANGE[1]:g}")


def save_picture(path: str | Path, picture: np.ndarray) -> None:
    """Write (H, W, 3) or (H, W, 4) u8 sRGB (straight alpha) in the format the suffix names.

    Raises InputError for an unknown suffix, and for transparency in a format that has none.
    """
    suffix = check_suffix(path, moving=False)
    image = _image(_without_spare_alpha(picture, suffix, path))
    with replacing(path) as temporary:
        _save_still(image, temporary, suffix)


def save_sequence(path: str | Path, pictures: Iterable[np.ndarray], fps: float = 30.0) -> None:
    """Write pictures of one size, u8 sRGB: .mp4 (H.264) or .gif as a film, picture formats as one grid.

    A film takes its pictures one by one, so that a generator need not be held in memory. An MP4 of odd size gets its last row or
    column doubled, which 4:2:0 needs. Raises InputError for an unknown suffix, no or unequal pictures, an fps outside FPS_RANGE, or
    transparency in a format that has none; WorkError when ffmpeg fails.
    """
    suffix = check_suffix(path, moving=True)
    check_fps(fps)
    frames = _alike((_without_spare_alpha(picture, suffix, path) for picture in pictures), path)
    first = next(frames, None)
    if first is None:
        raise InputError(f"cannot write {path}: there is no picture to put in it")
    if suffix in PICTURE_SUFFIXES:
        save_picture(path, grid([first, *frames]))
        return
    with replacing(path) as temporary:
        if suffix == ".gif":
            _write_gif(temporary, chain([first], frames), fps)
        else:
            with _encoder(temporary, first.shape, fps) as write:
                for frame in chain([first], frames):
                    write(frame)


def _alike(pictures: Iterable[np.ndarray], path: str | Path) -> Iterator[np.ndarray]:
    """The pictures, as long as they are of one size."""
    shape = None
    for picture in pictures:
        if shape not in (None, picture.shape):
            raise InputError(f"cannot write {path}: its pictures differ in size; draw all of them at one size")
        shape = picture.shape
        yield picture


def side_by_side(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(H, 2W, C) picture with the left eye's view on the left (parallel viewing, and what headset players expect)."""
    _check_pair(left, right)
    return np.concatenate([left, right], axis=1)


def anaglyph(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(H, W, C) u8 sRGB picture for red-cyan glasses, red on the left eye, by Dubois' least-squares projection."""
    _check_pair(left, right)
    both = np.concatenate([srgb_to_linear(left[..., :3]), srgb_to_linear(right[..., :3])], axis=-1)
    mixed = to_u8(linear_to_srgb(both @ DUBOIS_RED_CYAN.T))
    if left.shape[2] == 3:
        return mixed
    return np.concatenate([mixed, np.maximum(left[..., 3:], right[..., 3:])], axis=-1)


def grid(pictures: Sequence[np.ndarray], columns: int | None = None) -> np.ndarray:
    """Pictures of one size in rows, left to right; `columns` defaults to a nearly square grid, empty cells copy no picture."""
    columns = columns or math.ceil(math.sqrt(len(pictures)))
    height, width, channels = pictures[0].shape
    rows = math.ceil(len(pictures) / columns)
    sheet = np.zeros((rows * height, columns * width, channels), np.uint8)
    if channels == 3:
        sheet[:] = pictures[0][0, 0]  # the background of a drawn picture's corner
    for index, picture in enumerate(pictures):
        top, left = index // columns * height, index % columns * width
        sheet[top : top + height, left : left + width] = picture
    return sheet


def encode_picture(picture: np.ndarray, suffix: str) -> bytes:
    """The bytes of a picture file of that suffix, for embedding in a page."""
    stream = BytesIO()
    _save_still(_image(picture), stream, suffix)
    return stream.getvalue()


def _check_pair(left: np.ndarray, right: np.ndarray) -> None:
    if left.shape != right.shape:
        raise InputError(f"the two eyes' pictures differ in size: {left.shape[:2]} and {right.shape[:2]}")


def _image(picture: np.ndarray) -> Image:
    from PIL import Image

    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] not in (3, 4):
        raise InputError(f"a picture must be (H, W, 3) or (H, W, 4) u8, got {picture.shape} {picture.dtype}")
    return Image.fromarray(np.ascontiguousarray(picture))


def _save_still(image: Image, target: Path | BytesIO, suffix: str) -> None:
    if suffix == ".png":
        image.save(target, format="PNG", compress_level=6)
    elif suffix == ".webp":
        image.save(target, format="WEBP", quality=JPEG_QUALITY)
    else:
        image.save(target, format="JPEG", quality=JPEG_QUALITY, subsampling=0)


def _without_spare_alpha(picture: np.ndarray, suffix: str, path: str | Path) -> np.ndarray:
    """The picture without an alpha channel where its format has none."""
    if suffix not in _OPAQUE_SUFFIXES or picture.shape[-1] != 4:
        return picture
    if (picture[..., 3] < 255).any():
        raise InputError(
            f"cannot write a transparent picture as {Path(path).name}: {suffix} holds no transparency; "
            "name a .png or .webp, or choose a background colour"
        )
    return picture[..., :3]


def _write_gif(path: Path, frames: Iterable[np.ndarray], fps: float) -> None:
    images = [_image(frame).quantize(colors=256) for frame in frames]
    # Durations are whole ticks; rounding the running time keeps the film's length right on average.
    edges = [round(index * 1000 / fps / GIF_TICK_MS) for index in range(len(images) + 1)]
    durations = [max(1, after - before) * GIF_TICK_MS for before, after in pairwise(edges)]
    images[0].save(path, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, disposal=1)


@contextmanager
def film(path: str | Path, shape: tuple[int, int], fps: float) -> Iterator[Callable[[np.ndarray], None]]:
    """Yield a function that adds one (H, W, 3) u8 picture of `shape` to an MP4; the file is there when the block is done.

    For films too long to hold in memory. Raises InputError as `save_sequence` does, WorkError when ffmpeg fails.
    """
    if Path(path).suffix.lower() != ".mp4":
        raise InputError(f"cannot write a film as {Path(path).name}: expected a name that ends in .mp4")
    check_fps(fps)
    with replacing(path) as temporary, _encoder(temporary, shape, fps) as write:
        yield write


@contextmanager
def _encoder(path: Path, shape: tuple[int, ...], fps: float) -> Iterator[Callable[[np.ndarray], None]]:
    try:
        import imageio_ffmpeg
    except ModuleNotFoundError as error:
        raise WorkError(f"writing MP4 needs ffmpeg; run: {pip_install('imageio-ffmpeg')}, or name a .gif") from error

    height, width = shape[:2]
    padding = ((0, height % 2), (0, width % 2), (0, 0))
    source = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width + width % 2}x{height + height % 2}",
        "-r",
        f"{fps:.6f}",
        "-i",
        "-",
    ]
    options = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", *_MP4_OPTIONS.split()]
    with tempfile.TemporaryFile() as said:
        try:
            # The name is a path, whatever it looks like to ffmpeg (a protocol, an option).
            command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-nostdin", *source, *options]
            process = subprocess.Popen([*command, f"file:{path.absolute()}"], stdin=subprocess.PIPE, stderr=said)
        except (OSError, RuntimeError) as error:
            raise _ffmpeg_failed(str(error)) from error
        assert process.stdin is not None
        stream = process.stdin

        def write(frame: np.ndarray) -> None:
            try:
                stream.write(np.ascontiguousarray(np.pad(frame, padding, mode="edge")).data)
            except OSError as error:  # it has ended; what it said is the reason
                process.wait()
                raise _ffmpeg_failed(_last_words(said) or str(error)) from error

        try:
            yield write
            try:
                stream.close()
            except OSError as error:
                process.wait()
                raise _ffmpeg_failed(_last_words(said) or str(error)) from error
            code = process.wait()
        finally:
            process.kill()  # a film that is given up; after its end this does nothing
            process.wait()
            with suppress(OSError):
                stream.close()
        words = _last_words(said)
        # A disk that is full at the end leaves a film that no player opens, and not every ffmpeg then fails.
        if code != 0 or words or not path.stat().st_size:
            raise _ffmpeg_failed(words or f"exit status {code}")


def _last_words(said: IO[bytes]) -> str:
    """The last line that ffmpeg wrote of an error, printable."""
    said.seek(0)
    lines = said.read(MAX_FFMPEG_WORDS).decode("utf-8", "replace").strip().splitlines()
    return "".join(letter for letter in lines[-1] if letter.isprintable()) if lines else ""


def _ffmpeg_failed(reason: str) -> WorkError:
    return WorkError(f"ffmpeg could not write the film ({reason}); is the disk full? Name a .gif, or see avatar3d doctor")
