"""A whole video, or a camera until it is stopped, tracked to motion codes of each face, with what was seen along the way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.given import given_head
from avatar3d.head.protocol import MorphableModel
from avatar3d.motion.calibrate import Teacher
from avatar3d.motion.code import MotionCode, quaternion_matrix
from avatar3d.motion.validation import MotionValidator
from avatar3d.progress import ProgressCallback, silent
from avatar3d.tracking.follow import FaceFollower
from avatar3d.tracking.frames import FrameSource, open_video
from avatar3d.tracking.iris import with_irises
from avatar3d.tracking.person import FaceTrack
from avatar3d.tracking.pose import FaceMotion

LOOK_AHEAD = 300  # frames of a recording among which the one that shows a head best is looked for: ten seconds


@dataclass(frozen=True)
class TrackedFrame:
    """One frame: time, picture, and of each identity its landmarks and code."""

    time_ns: int
    rgb: np.ndarray
    landmarks: dict[int, FaceLandmarks]
    codes: dict[int, MotionCode]


@dataclass
class Track:
    """What was tracked: the codes of each identity in order, the frames that taught their heads, and figures.

    frames: read; tracked: with a face; milliseconds: of each frame.
    """

    codes: dict[int, list[MotionCode]] = field(default_factory=dict)
    frames: int = 0
    tracked: int = 0
    milliseconds: list[float] = field(default_factory=list)
    detections: int = 0
    teachers: dict[int, Teacher] = field(default_factory=dict)

    def longest(self) -> int | None:
        """The identity that was seen in most frames, the first of equals."""
        return max(self.codes, key=lambda identity: (len(self.codes[identity]), -identity), default=None)

    def ms_per_frame_p50(self) -> float:
        """Median milliseconds of tracking a frame, decoding left out; 0 without a frame."""
        return round(float(np.median(self.milliseconds)), 3) if self.milliseconds else 0.0


@dataclass(frozen=True)
class _Seen:
    """What the networks said of one frame: {identity: (landmarks, (52,) weights)}, and the milliseconds that took."""

    faces: dict[int, tuple[FaceLandmarks, np.ndarray]]
    milliseconds: float


class VideoTracker:
    """The state of tracking one capture: the follower, and a face's track, a validator and a sequence for each identity.

    solved: expressions are solved on each person's own head; False: the blendshape network's answers as they are. live: frames
    come as they are taken, so heads are fitted beside them. head: the model that is fitted, the default one where None; raises
    InputError where it cannot be. milliseconds: of the last step, what was looked ahead included.
    """

    def __init__(
        self, width: int, height: int, faces: int = 1, threads: int = 2, focal_px: float | None = None, solved: bool = True,
        live: bool = False, head: MorphableModel | None = None,
    ) -> None:  # fmt: skip
        self._model = given_head(head)
        self._new = partial(FaceTrack, width, height, focal_px, solved, live, self._model)
        self._solved = solved
        self.follower = FaceFollower(faces, threads)
        self.milliseconds = 0.0
        self._tracks: dict[int, FaceTrack] = {}
        self._validators: dict[int, MotionValidator] = {}
        self._ahead: deque[_Seen] = deque()

    def know(self, identity: int, teacher: Teacher) -> None:
        """Take the head of a face from a calibration, before its first frame."""
        face = self._tracks.setdefault(identity, self._new())
        if face.solved:
            face.finder.learn(teacher)

    @property
    def teachers(self) -> dict[int, Teacher]:
        """Of each identity whose head is known, the frame that taught it."""
        return {k: face.finder.teacher for k, face in self._tracks.items() if face.finder.teacher is not None}

    def look_ahead(self, frames: Iterable[tuple[int, np.ndarray]]) -> None:
        """Learn whose heads a recording shows from its first frames, which are then to be stepped through from the first on."""
        poses: dict[int, FaceMotion] = {}
        for time_ns, rgb in frames:
            seen = self._look(rgb)
            self._ahead.append(seen)
            for identity, (landmarks, weights) in seen.faces.items():
                face = self._tracks.setdefault(identity, self._new())
                pose = poses.setdefault(identity, FaceMotion(face.width, face.height, face.focal_px, self._model))
                code = pose.code(landmarks, weights, time_ns, 0)
                face.finder.keep(landmarks, weights, float(quaternion_matrix(code.rotation)[2, 2]))
        for face in self._tracks.values():
            if face.finder.head is None:
                face.finder.fit()

    def step(self, time_ns: int, rgb: np.ndarray) -> TrackedFrame:
        """Track one (H, W, 3) uint8 sRGB frame."""
        seen = self._ahead.popleft() if self._ahead else self._look(rgb)
        start = time.perf_counter()
        codes: dict[int, MotionCode] = {}
        for identity, (landmarks, weights) in seen.faces.items():
            raw = self._tracks.setdefault(identity, self._new()).code(landmarks, weights, time_ns)
            validator = self._validators.setdefault(identity, MotionValidator())
            code = validator.admit(
                raw.weights, raw.rotation, raw.translation, raw.gaze, raw.confidence, time_ns,
            )  # fmt: skip
            if code is not None:
                codes[identity] = code
        self.milliseconds = seen.milliseconds + (time.perf_counter() - start) * 1e3
        return TrackedFrame(time_ns, rgb, {identity: landmarks for identity, (landmarks, _) in seen.faces.items()}, codes)

    def _look(self, rgb: np.ndarray) -> _Seen:
        start = time.perf_counter()
        found = {identity: with_irises(rgb, landmarks) for identity, landmarks in self.follower.step(rgb).items()}
        faces = {identity: (landmarks, self.follower.blendshapes(landmarks)) for identity, landmarks in found.items()}
        return _Seen(faces, (time.perf_counter() - start) * 1e3)


def tracker_of(
    source: FrameSource, faces: int = 1, threads: int = 2, solved: bool = True, limit: int | None = None,
    known: tuple[int, Teacher] | None = None, head: MorphableModel | None = None,
) -> VideoTracker:  # fmt: skip
    """The tracker of a capture at its start; of a recording it has learned the heads from the first frames, at most `limit`.

    known: an identity and its calibration's frame. head: see VideoTracker.
    """
    tracker = VideoTracker(source.width, source.height, faces, threads, solved=solved, live=source.live, head=head)
    if known is not None:
        tracker.know(*known)
    if solved and not source.live and (known is None or faces > 1):
        tracker.look_ahead(islice(source, min(LOOK_AHEAD, limit or LOOK_AHEAD)))
        source.rewind()
    return tracker


def track(
    source: FrameSource,
    faces: int = 1,
    threads: int = 2,
    limit: int | None = None,
    progress: ProgressCallback = silent,
    each: Callable[[TrackedFrame], None] | None = None,
    solved: bool = True,
    known: tuple[int, Teacher] | None = None,
    head: MorphableModel | None = None,
) -> Track:
    """Track a capture to its end, to `limit` frames, or until KeyboardInterrupt on a camera.

    faces: how many to follow. each: called with every frame. solved, head: see VideoTracker. Raises InputError when the video cannot be
    decoded, WorkError when the camera is gone.
    """
    tracker = tracker_of(source, faces, threads, solved, limit, known, head)
    result = Track()
    total = min(source.frame_count or limit or 1, limit or source.frame_count or 1)
    try:
        for time_ns, rgb in source:
            frame = tracker.step(time_ns, rgb)
            result.milliseconds.append(tracker.milliseconds)
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
    result.detections, result.teachers = tracker.follower.detections, tracker.teachers
    return result


def track_codes(
    path: str | Path, threads: int = 1, solved: bool = True, head: MorphableModel | None = None
) -> list[MotionCode]:
    """The codes of the face that a video shows longest, in its frames' order. solved, head: see VideoTracker."""
    source = open_video(path)
    try:
        result = track(source, threads=threads, solved=solved, head=head)
    finally:
        source.close()
    longest = result.longest()
    return [] if longest is None else result.codes[longest]
