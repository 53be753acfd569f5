"""Pictures and films: what is written opens again with the right size, count, colour and order."""

from __future__ import annotations

import weakref

import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest

from avatar3d import media
from avatar3d.errors import InputError


def _frames(count: int, height: int = 46, width: int = 64) -> list[np.ndarray]:
    x = np.linspace(0, 1, width)[None, :, None]
    y = np.linspace(0, 1, height)[:, None, None]
    tint = np.array([1.0, 0.6, 0.3])
    return [((0.2 + 0.5 * x + 0.3 * y * index / count) * tint * 255).astype(np.uint8) for index in range(count)]


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".PNG"])
def test_a_still_opens_again_with_its_size_and_colours(tmp_path, suffix):
    picture = _frames(1)[0]
    media.save_picture(tmp_path / f"a{suffix}", picture)
    again = imageio.imread(tmp_path / f"a{suffix}")
    assert again.shape == picture.shape
    assert np.abs(again.astype(int) - picture).mean() < 2
    assert [item.name for item in tmp_path.iterdir()] == [f"a{suffix}"]


def test_transparency_survives_png(tmp_path):
    picture = np.dstack([_frames(1)[0], np.tile(np.arange(64, dtype=np.uint8) * 4, (46, 1))])
    media.save_picture(tmp_path / "a.png", picture)
    np.testing.assert_array_equal(imageio.imread(tmp_path / "a.png"), picture)


@pytest.mark.parametrize("name", ["a.jpg", "a.mp4", "a.gif"])
def test_transparency_in_an_opaque_format_is_refused_and_leaves_nothing(tmp_path, name):
    picture = np.zeros((8, 8, 4), np.uint8)
    with pytest.raises(InputError, match="no transparency"):
        if name == "a.jpg":
            media.save_picture(tmp_path / name, picture)
        else:
            media.save_sequence(tmp_path / name, [picture, picture])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.tiff", "a", "a.mp4"])
def test_an_unknown_suffix_names_the_known_ones(tmp_path, name):
    with pytest.raises(InputError, match=r"\.png.*\.webp"):
        media.save_picture(tmp_path / name, _frames(1)[0])


@pytest.mark.parametrize(("height", "width"), [(46, 64), (45, 63)])
def test_mp4_is_h264_yuv420p_faststart_of_even_size(tmp_path, height, width):
    path = tmp_path / "a.mp4"
    frames = _frames(7, height, width)
    media.save_sequence(path, frames, fps=25)
    with_meta = imageio_ffmpeg.read_frames(str(path))
    meta = next(with_meta)
    with_meta.close()
    decoded = imageio.imread(path, plugin="FFMPEG")
    assert decoded.shape == (7, height + height % 2, width + width % 2, 3)
    assert meta["codec"] == "h264" and meta["pix_fmt"].startswith("yuv420p") and meta["fps"] == 25
    assert np.abs(decoded[:, :height, :width].astype(int) - np.stack(frames)).mean() < 4
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_gif_keeps_its_frames_and_length(tmp_path):
    path = tmp_path / "a.gif"
    frames = _frames(9)
    media.save_sequence(path, frames, fps=30)
    decoded = imageio.imread(path, index=None)
    assert decoded.shape[0] == 9 and decoded.shape[1:3] == (46, 64)
    assert np.abs(decoded[..., :3].astype(int) - np.stack(frames)).mean() < 6
    from PIL import Image

    with Image.open(path) as image:
        length_ms = 0
        for index in range(image.n_frames):
            image.seek(index)
            length_ms += image.info["duration"]
    assert length_ms == 300


def test_a_png_sequence_is_a_grid_in_reading_order(tmp_path):
    media.save_sequence(tmp_path / "a.png", _frames(5))
    sheet = imageio.imread(tmp_path / "a.png")
    assert sheet.shape == (2 * 46, 3 * 64, 3)
    for index, frame in enumerate(_frames(5)):
        row, column = divmod(index, 3)
        np.testing.assert_array_equal(sheet[row * 46 : row * 46 + 46, column * 64 : column * 64 + 64], frame)


@pytest.mark.parametrize("fps", [0.0, -3.0, 1e6, float("nan")])
def test_a_senseless_rate_is_refused(tmp_path, fps):
    with pytest.raises(InputError, match="frames a second"):
        media.save_sequence(tmp_path / "a.gif", _frames(2), fps=fps)


def test_sequences_of_nothing_or_of_unequal_size_are_refused(tmp_path):
    with pytest.raises(InputError, match="no picture"):
        media.save_sequence(tmp_path / "a.gif", [])
    with pytest.raises(InputError, match="differ in size"):
        media.save_sequence(tmp_path / "a.gif", [_frames(1)[0], _frames(1, 20, 20)[0]])


def test_side_by_side_puts_the_left_eye_left():
    left, right = np.zeros((4, 5, 3), np.uint8), np.full((4, 5, 3), 255, np.uint8)
    pair = media.side_by_side(left, right)
    assert pair.shape == (4, 10, 3) and pair[:, :5].max() == 0 and pair[:, 5:].min() == 255


def test_anaglyph_gives_red_to_the_left_eye_and_keeps_grey_grey():
    white, black = np.full((2, 2, 3), 255, np.uint8), np.zeros((2, 2, 3), np.uint8)
    left_only, right_only = media.anaglyph(white, black)[0, 0], media.anaglyph(black, white)[0, 0]
    assert left_only[0] > 250 and left_only[1:].max() < 20
    assert right_only[0] < 20 and right_only[1:].min() > 250
    grey = media.anaglyph(white // 2, white // 2)[0, 0].astype(int)
    assert grey.max() - grey.min() < 12


def test_eyes_of_different_size_are_refused():
    with pytest.raises(InputError, match="differ in size"):
        media.anaglyph(np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8))


def test_a_film_is_never_whole_in_memory(tmp_path):
    alive: list[int] = [0, 0]  # now, at most

    def drawn():
        for value in range(40):
            picture = np.full((32, 32, 3), value, np.uint8)
            alive[0] += 1
            alive[1] = max(alive)
            weakref.finalize(picture, lambda: alive.__setitem__(0, alive[0] - 1))
            yield picture

    media.save_sequence(tmp_path / "a.mp4", drawn(), fps=30)
    assert alive[1] <= 3
    assert len(imageio.imread(tmp_path / "a.mp4")) == 40


FULL_DISK = """
import resource, sys
import numpy as np
from avatar3d import media
from avatar3d.errors import WorkError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
noise = np.random.default_rng(0)
try:
    media.save_sequence(sys.argv[1], (noise.integers(0, 256, (128, 128, 3), np.uint8) for _ in range(60)))
except (WorkError, OSError) as error:
    print(type(error).__name__, error)
    raise SystemExit(1)
"""


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_disk_that_is_full_while_a_film_is_written_keeps_the_old_one(suffix, tmp_path):
    import subprocess
    import sys

    target = tmp_path / f"film{suffix}"
    target.write_bytes(b"the old film")
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(target)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert target.read_bytes() == b"the old film"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_film_whose_name_looks_like_an_address_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    media.save_sequence("http:film.mp4", [np.zeros((32, 32, 3), np.uint8)] * 3)
    assert [path.name for path in tmp_path.iterdir()] == ["http:film.mp4"]
