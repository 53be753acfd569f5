"""`video:FILE?face=N` and `camera:N?face=N` as motion sources: each read captures and tracks the next frame."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from avatar3d.choices import DIALECTS
from avatar3d.errors import InputError
from avatar3d.head.protocol import MorphableModel
from avatar3d.head.registry import head_of
from avatar3d.motion.calibrate import Calibration, read_calibration
from avatar3d.motion.code import MotionCode
from avatar3d.motion.retarget import HEAD, NETWORK
from avatar3d.motion.sources.base import SourceBase, Spec
from avatar3d.text import whole_number
from avatar3d.tracking import MAX_CAMERA, MAX_FACES, frames
from avatar3d.tracking.frames import FrameSource
from avatar3d.tracking.track import tracker_of


class CaptureSource(SourceBase):
    """The codes of one face of a capture. face: which identity, in order of appearance. solved, head: see VideoTracker."""

    def __init__(
        self,
        capture: FrameSource,
        face: int,
        calibration: Calibration | None,
        solved: bool = True,
        head: MorphableModel | None = None,
    ) -> None:
        super().__init__()
        self.live = capture.live
        self.dialect = HEAD if solved or calibration is not None else NETWORK
        self._capture, self._face, self._calibration = capture, face, calibration
        self._tracker = tracker_of(
            capture, face + 1, solved=solved, head=head,
            known=None if calibration is None or calibration.teacher is None else (face, calibration.teacher),
        )  # fmt: skip
        self._frames: Iterator[tuple[int, np.ndarray]] = iter(capture)

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        """The next code; a camera without a face in sight gives None for each frame, a video goes on to the next face."""
        while not self._closed:
            item = next(self._frames, None)
            if item is None:
                self._closed = True
                return None
            code = self._tracker.step(*item).codes.get(self._face)
            if code is not None:
                self.validator.admitted += 1
                return code if self._calibration is None else self._calibration.apply(code)
            if self.live:
                return None
        return None

    def close(self) -> None:
        super().close()
        self._capture.close()


def _options(spec: Spec) -> tuple[int, Calibration | None, bool, MorphableModel | None]:
    spec.only("face", "calibration", "expressions", "head")
    expressions = spec.options.get("expressions", HEAD)
    if expressions not in DIALECTS:
        raise InputError(f"{spec.text!r}: expressions={expressions} is not one of {', '.join(DIALECTS)}")
    face = spec.integer("face", 0, 0, MAX_FACES - 1)
    path, head = spec.options.get("calibration"), spec.options.get("head")
    return (
        face,
        None if path is None else read_calibration(Path(path)),
        expressions == HEAD,
        None if head is None else head_of(head),
    )


def open_video(spec: Spec) -> CaptureSource:
    """The face of a video file."""
    options = _options(spec)
    return CaptureSource(frames.open_video(spec.target), *options)


def open_camera(spec: Spec) -> CaptureSource:
    """The face before a camera."""
    options = _options(spec)
    number = whole_number(spec.target or "0", 0, MAX_CAMERA)
    if number is None:
        raise InputError(f"{spec.text!r}: {spec.target!r} is not a camera's number, such as camera:0")
    return CaptureSource(frames.open_camera(number), *options)
