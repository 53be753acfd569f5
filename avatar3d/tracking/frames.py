"""Frames of a video file or a camera through OpenCV: bounded, timed, and large enough for the face networks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from avatar3d.errors import InputError, WorkError

MAX_SIDE = 4096  # pixels of a frame; more is refused before a frame is decoded
MAX_FRAMES = 400_000  # two hours at 60 Hz
# The landmark network wants 150 pixels of face, so small clips are doubled.
SMALL_SIDE = 300
DEFAULT_FPS = 30.0
CAMERA_TRIES = 100  # empty reads of a camera before it counts as gone; they come every few milliseconds


@dataclass
class FrameSource:
    """An open capture. width, height: of the frames as given out, pixels; scale: how much larger than they were captured."""

    capture: cv2.VideoCapture
    name: str
    live: bool
    fps: float
    frame_count: int
    width: int
    height: int
    scale: int

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        """(capture time in ns, (H, W, 3) uint8 sRGB) of each frame; a video's times start at 0, a camera's are monotonic."""
        index = empty = 0
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
            yield now if self.live else round(index * 1e9 / self.fps), rgb
            index += 1
        if not self.live and index == 0:
            raise InputError(f"no frame of {self.name} can be decoded; convert it to H.264, or give another video")
        if self.live:
            raise WorkError(f"{self.name} gives no more frames; plug it in again, or close the program that uses it")

    def rewind(self) -> None:
        """Back to the first frame of a recording, by opening it again: seeking is not exact in every container."""
        self.capture.release()
        self.capture = cv2.VideoCapture(self.name, cv2.CAP_FFMPEG)

    def close(self) -> None:
        """Free the capture."""
        self.capture.release()


def open_video(path: str | Path) -> FrameSource:
    """Open a video file; raises InputError for what is none, or is too large or too long."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"cannot read the video {path}: {'it is a folder' if path.is_dir() else 'no such file'}")
    _hush()
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    return _checked(capture, str(path), live=False)


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
    scale = 2 if min(width, height) < SMALL_SIDE else 1
    return FrameSource(capture, name, live, fps, max(0, int(count)), width * scale, height * scale, scale)
