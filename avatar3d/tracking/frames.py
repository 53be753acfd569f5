"""Frames of a video file or a camera through OpenCV: bounded, timed, of square pixels, and large enough for the face networks.

A video's name is only ever a file's: FFmpeg is handed its absolute path behind `file:`, may open files alone, and reads only
containers that hold their pictures themselves; playlists and lists of files (HLS, DASH, concat) name others, or addresses.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from avatar3d.errors import InputError, WorkError
from avatar3d.files import open_regular

MAX_SIDE = 4096  # pixels of a frame; more is refused before a frame is decoded
MAX_FRAMES = 400_000  # two hours at 60 Hz
# The landmark network wants 150 pixels of face, so small clips are doubled.
SMALL_SIDE = 300
DEFAULT_FPS = 30.0
CAMERA_TRIES = 100  # empty reads of a camera before it counts as gone; they come every few milliseconds
MAX_PIXEL_ASPECT = 4.0  # width of a pixel over its height, or the reverse; beyond it the tag is taken for broken
CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,mxf,asf,flv,ogg,nut,ivf,gif,apng,mjpeg,m4v,h264,hevc,av1,obu,dv,"
    "rm,yuv4mpegpipe"
)  # FFmpeg's demuxers that open nothing but the file they are given
_OPTIONS = "OPENCV_FFMPEG_CAPTURE_OPTIONS"  # read by OpenCV whenever it opens a capture; later options win
_opening = threading.Lock()


@dataclass
class FrameSource:
    """An open capture.

    width, height: of the frames as given out, square pixels; scale: 2 where they are doubled for the networks. fps: the mean of a
    recording; each of its frames has a time of its own.
    """

    capture: cv2.VideoCapture
    name: str
    live: bool
    fps: float
    frame_count: int
    width: int
    height: int
    scale: int

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        """(capture time in ns, (H, W, 3) uint8 sRGB) of each frame, times rising; a video's start at 0, a camera's are monotonic.

        A video's times are its frames' own timestamps; where it has none, frames are evenly spaced.
        """
        index = empty = 0
        started_ms, before_ns = 0.0, -1
        while index < MAX_FRAMES:
            good, frame = self.capture.read()
            now = time.monotonic_ns()
            if not good or frame is None:
                empty += 1
                if not self.live or empty > CAMERA_TRIES:
                    break
                continue
            empty = 0
            if frame.ndim != 3 or frame.shape[2] != 3 or max(frame.shape[:2]) > MAX_SIDE:
                raise InputError(f"{self.name} holds a frame of shape {frame.shape}, expected colour of at most {MAX_SIDE} px")
            rgb = cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
            if rgb.shape[1] != self.width or rgb.shape[0] != self.height:
                rgb = cv2.resize(rgb, (self.width, self.height), interpolation=cv2.INTER_CUBIC)
            if self.live:
                now = max(now, before_ns + 1)
            else:
                stamp_ms = self.capture.get(cv2.CAP_PROP_POS_MSEC)
                started_ms = stamp_ms if index == 0 else started_ms
                now = round((stamp_ms - started_ms) * 1e6) if math.isfinite(stamp_ms) else 0
                if now <= before_ns:  # no timestamps, or broken ones
                    now = before_ns + round(1e9 / self.fps)
                now = max(now, 0)
            yield now, rgb
            before_ns = now
            index += 1
        if not self.live and index == 0:
            raise InputError(f"no frame of {self.name} can be decoded; convert it to H.264, or give another video")
        if self.live:
            raise WorkError(f"{self.name} gives no more frames; plug it in again, or close the program that uses it")

    def rewind(self) -> None:
        """Back to the first frame of a recording, by opening it again: seeking is not exact in every container."""
        self.capture.release()
        self.capture = _capture(self.name)

    def close(self) -> None:
        """Free the capture."""
        self.capture.release()


def open_video(path: str | Path) -> FrameSource:
    """Open a video file; raises InputError for what is none, or is too large or too long."""
    open_regular(path, "video").close()
    _hush()
    return _checked(_capture(str(path)), str(path), live=False)


def _capture(name: str) -> cv2.VideoCapture:
    """FFmpeg's capture of a file, whatever its name looks like and its content asks for."""
    with _only_files():
        return cv2.VideoCapture(f"file:{os.path.abspath(name)}", cv2.CAP_FFMPEG)


@contextmanager
def _only_files() -> Iterator[None]:
    """Captures opened within read one file of a known container; options that the user set stay beside ours."""
    with _opening:
        before = os.environ.get(_OPTIONS)
        ours = f"protocol_whitelist;file|format_whitelist;{CONTAINERS}"
        os.environ[_OPTIONS] = f"{before}|{ours}" if before else ours
        try:
            yield
        finally:
            if before is None:
                del os.environ[_OPTIONS]
            else:
                os.environ[_OPTIONS] = before


def open_camera(number: int) -> FrameSource:
    """Open a camera of this machine; raises WorkError when there is none of that number."""
    _hush()
    capture = cv2.VideoCapture(number)
    if not capture.isOpened():
        capture.release()
        raise WorkError(f"there is no camera {number} that can be opened; plug one in, or close the program that uses it")
    return _checked(capture, f"camera {number}", live=True)


def _hush() -> None:
    """Keep what OpenCV and FFmpeg have to say about a file off the user's screen: our own sentence says it once."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # AV_LOG_QUIET; read when FFmpeg is first used
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)


def _checked(capture: cv2.VideoCapture, name: str, live: bool) -> FrameSource:
    if not capture.isOpened():
        capture.release()
        raise InputError(f"{name} is not a video that can be read; expected MP4, WebM, MOV or AVI")
    width, height = (int(capture.get(key)) for key in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
    count = capture.get(cv2.CAP_PROP_FRAME_COUNT)
    fps = capture.get(cv2.CAP_PROP_FPS)
    try:
        if not (16 <= width <= MAX_SIDE and 16 <= height <= MAX_SIDE):
            raise InputError(f"the frames of {name} are {width}×{height}; expected 16 to {MAX_SIDE} pixels a side")
        if not live and count > MAX_FRAMES:
            raise InputError(f"{name} has {count:.0f} frames, more than {MAX_FRAMES}; cut it into parts")
    except InputError:
        capture.release()
        raise
    fps = fps if 1 <= fps <= 1000 else DEFAULT_FPS
    across, down = _pixel_shape(capture)
    scale = 2 if min(width * across, height * down) < SMALL_SIDE else 1
    enlarged = min(scale, MAX_SIDE / (width * across), MAX_SIDE / (height * down))
    width, height = round(width * across * enlarged), round(height * down * enlarged)
    return FrameSource(capture, name, live, fps, max(0, int(count)), width, height, scale)


def _pixel_shape(capture: cv2.VideoCapture) -> tuple[float, float]:
    """How much a frame is to be stretched across and down, 1 or more, so that its pixels become square."""
    across, down = capture.get(cv2.CAP_PROP_SAR_NUM), capture.get(cv2.CAP_PROP_SAR_DEN)
    if not (across > 0 and down > 0 and 1 / MAX_PIXEL_ASPECT <= across / down <= MAX_PIXEL_ASPECT):
        return 1.0, 1.0
    if round(capture.get(cv2.CAP_PROP_ORIENTATION_META)) % 180 == 90 and capture.get(cv2.CAP_PROP_ORIENTATION_AUTO):
        across, down = down, across  # the tag is of the pixels as they are stored
    return max(across / down, 1.0), max(down / across, 1.0)
