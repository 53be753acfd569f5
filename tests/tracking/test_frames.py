"""Films as they are meant: their own times and pixel shapes, and nothing opened but the file that was named."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from samples import sample_rgb

from avatar3d.cli.options import parse
from avatar3d.cli.track import Track, run
from avatar3d.errors import InputError
from avatar3d.media import save_sequence
from avatar3d.motion.csv import read_motion_csv
from avatar3d.tracking.frames import open_video


def film(path: Path, *options: str, source: str = "testsrc=s=320x240:r=30:d=2", kind: str = "") -> Path:
    """A film that ffmpeg draws; kind: the container, where the name does not say it."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", "-f", "lavfi", "-i", source, *options]
    subprocess.run([*command, *(("-f", kind) if kind else ()), f"file:{path}"], check=True)
    return path


def times_ms(path: Path) -> list[float]:
    source = open_video(path)
    times = [time_ns / 1e6 for time_ns, _ in source]
    source.rewind()
    assert [time_ns / 1e6 for time_ns, _ in source] == times
    source.close()
    return times


@pytest.fixture
def listener():
    """A server that somebody could be led to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def nobody_came(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return True
    return False


@pytest.mark.parametrize(
    "name", ["http:127.0.0.1:{port}", "tcp:127.0.0.1:{port}", "concat:a.avi|b.avi", "pipe:0", "-i", "%d.avi"]
)
def test_a_name_is_a_file_whatever_it_looks_like(tmp_path, monkeypatch, listener, name):
    monkeypatch.chdir(tmp_path)
    name = name.format(port=listener.getsockname()[1])
    film(tmp_path / name, kind="avi")
    assert len(times_ms(Path(name))) == 60
    assert nobody_came(listener)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match="No such file"):
        open_video(name)
    assert nobody_came(listener)


LISTS = {
    "ffconcat": "ffconcat version 1.0\nfile '{target}'\n",
    "concat without a header": "file '{target}'\n",
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{target}\n#EXT-X-ENDLIST\n",
    "dash": (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT2S"><Period>'
        '<AdaptationSet mimeType="video/mp4"><Representation id="a" bandwidth="1"><BaseURL>{target}</BaseURL></Representation>'
        "</AdaptationSet></Period></MPD>"
    ),
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=a\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
}


@pytest.mark.parametrize("target", ["neighbour.mp4", "http://127.0.0.1:{port}/a.mp4"])
@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("suffix", [".mp4", ".m3u8", ".ffconcat", ".mpd"])
def test_a_list_of_other_files_is_no_video(tmp_path, monkeypatch, listener, kind, suffix, target):
    film(tmp_path / "neighbour.mp4")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"list{suffix}"
    path.write_text(LISTS[kind].format(target=target.format(port=listener.getsockname()[1])))
    with pytest.raises(InputError, match="is not a video that can be read"):
        open_video(path)
    assert nobody_came(listener)


def test_what_the_user_tells_opencv_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENCV_FFMPEG_CAPTURE_OPTIONS", "threads;1|protocol_whitelist;http,tcp")
    assert len(times_ms(film(tmp_path / "a.mp4"))) == 60
    import os

    assert os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] == "threads;1|protocol_whitelist;http,tcp"


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts", "mov", "webm"])
def test_a_frame_has_its_own_time(tmp_path, suffix):
    stalled = film(tmp_path / f"a.{suffix}", "-vf", "select='not(between(n,10,30))'", "-fps_mode", "vfr")
    expected = np.array([n for n in range(60) if not 10 <= n <= 30]) * 1000 / 30
    assert times_ms(stalled) == pytest.approx(expected, abs=0.51)  # Matroska keeps whole milliseconds


def test_frames_without_timestamps_are_evenly_spaced(tmp_path):
    assert np.diff(times_ms(film(tmp_path / "a.h264"))) == pytest.approx(40.0)  # FFmpeg takes 25 a second then


@pytest.mark.parametrize(
    ("options", "size"),
    [
        (("-vf", "setsar=1"), (640, 480)),
        (("-vf", "setsar=4/3"), (853, 480)),
        (("-vf", "setsar=2/3"), (320, 360)),  # large enough as it is, so not doubled
        (("-vf", "setsar=100"), (640, 480)),  # a broken tag
    ],
)
def test_pixels_are_made_square(tmp_path, options, size):
    source = open_video(film(tmp_path / "a.mp4", *options))
    (_, frame), *_ = source
    assert (source.width, source.height) == size and frame.shape == (*size[::-1], 3)
    source.close()


def test_a_film_on_its_side_has_its_pixels_the_other_way(tmp_path):
    upright = film(tmp_path / "a.mp4", "-vf", "setsar=4/3")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-display_rotation", "90", "-i", upright, "-c", "copy"]
    subprocess.run([*command, tmp_path / "b.mp4"], check=True)
    source = open_video(tmp_path / "b.mp4")
    assert (source.width, source.height) == (480, 853)
    source.close()


def test_the_sample_clips_pixels_are_wide(clip):
    source = open_video(clip)
    assert source.width / source.height == pytest.approx(176 / 144 * 128 / 117, abs=0.002)
    source.close()


def test_a_start_without_a_face_and_a_stall_keep_their_length(tmp_path, clip):
    face = np.ascontiguousarray(sample_rgb("astronaut.png")[:320, 60:380])
    save_sequence(tmp_path / "a.mp4", [np.full_like(face, 90)] * 10 + [face] * 30, 10.0)
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-v",
        "error",
        "-i",
        tmp_path / "a.mp4",
        "-vf",
        "select='not(between(n,15,26))'",
    ]
    subprocess.run([*command, "-fps_mode", "vfr", tmp_path / "b.mp4"], check=True)
    words = (tmp_path / "b.mp4", "-o", tmp_path / "b.csv", "--preview", tmp_path / "b_seen.mp4")
    run(parse(Track, [str(word) for word in words]), True)
    codes = read_motion_csv(tmp_path / "b.csv")
    seconds = [0.0, *np.arange(10, 15) / 10, *np.arange(27, 40) / 10]
    assert [code.time_ns / 1e9 for code in codes] == pytest.approx(seconds, abs=0.002)
    assert (codes[0].weights == codes[1].weights).all()  # as it appears, meanwhile
    preview = open_video(tmp_path / "b_seen.mp4")
    shown = times_ms(tmp_path / "b_seen.mp4")
    assert shown[-1] == pytest.approx(3900, abs=1000 / preview.fps)
    preview.close()
