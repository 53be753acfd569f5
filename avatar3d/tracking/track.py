"""A whole video, or a camera until it is stopped, tracked to motion codes of each face, with what was seen along the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.motion.code import MotionCode
from avatar3d.motion.door import Door
from avatar3d.progress import ProgressCallback, silent
from avatar3d.tracking.follow import FaceFollower
from avatar3d.tracking.frames import FrameSource, open_video
from avatar3d.tracking.pose import FaceMotion


@dataclass(frozen=True)
class TrackedFrame:
    """One frame: time, picture, and of each identity its landmarks, code and pose fit."""

    time_ns: int
    rgb: np.ndarray
    landmarks: dict[int, FaceLandmarks]
    codes: dict[int, MotionCode]
    motions: dict[int, FaceMotion]


@dataclass
class Track:
    """The codes of each identity in order, and figures: frames read, frames with a face, milliseconds a frame."""

    codes: dict[int, list[MotionCode]] = field(default_factory=dict)
    frames: int = 0
    tracked: int = 0
    milliseconds: list[float] = field(default_factory=list)
    detections: int = 0

    def longest(self) -> int | None:
        """The identity that was seen in most frames, the first of equals."""
        return max(self.codes, key=lambda identity: (len(self.codes[identity]), -identity), default=None)

    def ms_per_frame_p50(self) -> float:
        """Median milliseconds of tracking a frame, decoding left out; 0 without a frame."""
        return round(float(np.median(self.milliseconds)), 3) if self.milliseconds else 0.0


class VideoTracker:
    """The state of tracking one capture: the follower, and a pose, a door and a sequence for each identity."""

    def __init__(self, width: int, height: int, faces: int = 1, threads: int = 2, focal_px: float | None = None) -> None:
        self._size, self._focal_px = (width, height), focal_px
        self.follower = FaceFollower(faces, threads)
        self._motions: dict[int, FaceMotion] = {}
        self._doors: dict[int, Door] = {}

    def step(self, time_ns: int, rgb: np.ndarray) -> TrackedFrame:
        """Track one (H, W, 3) uint8 sRGB frame."""
        found = self.follower.step(rgb)
        codes: dict[int, MotionCode] = {}
        for identity, landmarks in found.items():
            motion = self._motions.setdefault(identity, FaceMotion(*self._size, self._focal_px))
            door = self._doors.setdefault(identity, Door())
            weights = self.follower.blendshapes(landmarks)
            raw = motion.code(landmarks, weights, time_ns, 0)
            code = door.admit(
                raw.weights, raw.rotation, raw.translation, raw.gaze, raw.confidence, time_ns,
            )  # fmt: skip
            if code is not None:
                codes[identity] = code
        return TrackedFrame(time_ns, rgb, found, codes, self._motions)


def track(
    source: FrameSource,
    faces: int = 1,
    threads: int = 2,
    limit: int | None = None,
    progress: ProgressCallback = silent,
    each: Callable[[TrackedFrame], None] | None = None,
) -> Track:
    """Track a capture to its end, to `limit` frames, or until KeyboardInterrupt on a camera.

    faces: how many to follow. each: called with every frame. Raises InputError when the video cannot be decoded, WorkError when
    the camera is gone.
    """
    tracker = VideoTracker(source.width, source.height, faces, threads)
    result = Track()
    total = min(source.frame_count or limit or 1, limit or source.frame_count or 1)
    try:
        for time_ns, rgb in source:
            start = time.perf_counter()
            frame = tracker.step(time_ns, rgb)
            result.milliseconds.append((time.perf_counter() - start) * 1e3)
            result.frames += 1
            result.tracked += bool(frame.codes)
            for identity, code in frame.codes.items():
                result.codes.setdefault(identity, []).append(code)
            if each is not None:
                each(frame)
            progress(result.frames / total, "tracking")
            if limit is not None and result.frames >= limit:
                break
    except KeyboardInterrupt:
        if not source.live:
            raise
    result.detections = tracker.follower.detections
    return result


def track_codes(path: str | Path, threads: int = 1) -> list[MotionCode]:
    """The codes of the face that a video shows longest, in its frames' order."""
    source = open_video(path)
    try:
        result = track(source, threads=threads)
    finally:
        source.close()
    longest = result.longest()
    return [] if longest is None else result.codes[longest]
