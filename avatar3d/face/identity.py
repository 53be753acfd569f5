"""Whose face it is: a face embedding whose distance between two pictures says whether they show one person.

It judges avatars and never makes one. The network is optional: dlib's 128 numbers (King 2017, `dlib_face_recognition_resnet_model_v1`,
CC0), through the package dlib-bin and the model file of that name.
"""

from __future__ import annotations

import numpy as np

from avatar3d import models
from avatar3d.errors import InputError, WorkError
from avatar3d.extras import install_extra
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.tracker import FaceTracker
from avatar3d.head.mediapipe import FIVE_POINTS

MODEL = "dlib_face_recognition_resnet_model_v1.dat"
SAME_PERSON, OTHER_PERSON = 0.43, 0.8  # distances that pictures of one person reach, and that those of two people start at


def identity_missing() -> str | None:
    """What keeps the embedding from running here, as a sentence that says how to mend it; None when all is there."""
    try:
        import dlib  # noqa: F401
    except ImportError:  # missing, or without the library it wraps
        return f"likeness is not measured without dlib; run: {install_extra('identity')}"
    try:
        models.path(MODEL)
    except InputError as error:
        return f"likeness is not measured: {error}"
    return None


class IdentityEncoder:
    """(128,) f32 embeddings of faces; the distance of two is their norm's. Raises WorkError when a piece is missing here."""

    def __init__(self, tracker: FaceTracker | None = None) -> None:
        missing = identity_missing()
        if missing is not None:
            raise WorkError(missing)
        import dlib

        self._dlib = dlib
        self._network = dlib.face_recognition_model_v1(str(models.path(MODEL)))
        self._tracker = tracker or FaceTracker()

    def encode(self, rgb: np.ndarray, landmarks: FaceLandmarks | None = None) -> np.ndarray | None:
        """The face of a (H, W, 3) uint8 sRGB picture: the one at `landmarks`, else the largest found; None where there is none."""
        if landmarks is None:
            try:
                landmarks = self._tracker.track(rgb).landmarks
            except InputError:
                return None
        points = landmarks.points_px[list(FIVE_POINTS), :2]
        corners = [self._dlib.point(round(x), round(y)) for x, y in points]
        low, high = points.min(axis=0), points.max(axis=0)
        box = self._dlib.rectangle(int(low[0]), int(low[1]), int(high[0]), int(high[1]))
        shape = self._dlib.full_object_detection(box, corners)
        return np.array(self._network.compute_face_descriptor(np.ascontiguousarray(rgb), shape), np.float32)


def distance(first: np.ndarray | None, second: np.ndarray | None) -> float | None:
    """How far two embeddings lie apart; None where one is missing."""
    return None if first is None or second is None else float(np.linalg.norm(first - second))
