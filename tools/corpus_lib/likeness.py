"""How alike two faces are: the distance of dlib's 128-number embedding, aligned by our own landmarks; makes no avatar.

King 2017, dlib_face_recognition_resnet_model_v1, public domain. Pictures of one person reach 0.43, of two people 0.8.
"""

from __future__ import annotations

import numpy as np

from avatar3d import models
from avatar3d.errors import InputError
from avatar3d.face.tracker import FaceTracker

EMBEDDING = "dlib_face_recognition_resnet_model_v1.dat"
# dlib's five points as MediaPipe indices: outer and inner corner of the subject's left eye, of the right eye, base of the nose.
FIVE_POINTS = (263, 362, 33, 133, 2)


class Likeness:
    """The face embedding of a picture."""

    def __init__(self) -> None:
        import dlib

        self._dlib = dlib
        models.pull(EMBEDDING)
        self._network = dlib.face_recognition_model_v1(str(models.path(EMBEDDING)))
        self._tracker = FaceTracker()

    def __call__(self, rgb: np.ndarray) -> np.ndarray:
        """(128,) embedding of the largest face of a (H, W, 3) u8 picture; raises InputError where none is found."""
        return self.embed(rgb, self._tracker.track(rgb).landmarks.points_px)

    def embed(self, rgb: np.ndarray, points_px: np.ndarray) -> np.ndarray:
        """(128,) embedding of the face whose (478, 2 or 3) landmarks are given."""
        points = points_px[list(FIVE_POINTS), :2]
        corners = [self._dlib.point(round(x), round(y)) for x, y in points]
        low, high = points.min(axis=0), points.max(axis=0)
        box = self._dlib.rectangle(int(low[0]), int(low[1]), int(high[0]), int(high[1]))
        shape = self._dlib.full_object_detection(box, corners)
        return np.array(self._network.compute_face_descriptor(np.ascontiguousarray(rgb), shape))

    def distance(self, rgb: np.ndarray, embedding: np.ndarray) -> float | None:
        """Distance of the largest face's embedding to another, or None where no face is found in the picture."""
        try:
            return round(float(np.linalg.norm(self(rgb) - embedding)), 3)
        except InputError:
            return None
