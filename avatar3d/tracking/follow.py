"""Following several faces from frame to frame with stable identities; the detector runs only while a face is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from avatar3d.face.detector import FaceBox
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.tracker import MIN_PRESENCE, FaceTracker
from avatar3d.head.mediapipe import MESH_POINTS

# Landmarks jump when the network starts to follow something else; a head does not move by half its width in a frame.
MAX_JUMP = 0.5  # of the face's width
SAME_FACE_IOU = 0.4  # boxes overlapping more than this are one face
# The landmark network says where a face is best when its crop lies on the face as the answer has it. From frame to frame it does;
# after a start, a cut or a leap it is looked at again until the answer stays, in widths of the face, and not for ever.
LEAP = 0.06
SETTLED_WIDTHS = 0.0004
MAX_LOOKS = 12
# A lost face that comes back within this many frames and widths of where it was keeps its identity.
REMEMBERED_FRAMES = 90
REMEMBERED_WIDTHS = 1.0
# While fewer faces than wanted are followed the detector looks again every so many frames, not on each: it costs as much as
# following two faces.
SEARCH_EVERY = 10


@dataclass
class Followed:
    """One face over time. identity: counts from 0 in order of appearance. landmarks: of the last frame that showed it."""

    identity: int
    landmarks: FaceLandmarks
    missing_frames: int = 0


@dataclass
class FaceFollower:
    """State of following up to `faces` faces; `step` takes the frames in order. One network thread is enough for a video."""

    faces: int = 1
    threads: int = 2
    landmarker_path: Path | None = None
    detections: int = 0  # how often the detector ran
    _known: list[Followed] = field(default_factory=list)
    _next_identity: int = 0
    _frames_since_search: int = SEARCH_EVERY

    def __post_init__(self) -> None:
        self._tracker = FaceTracker(self.landmarker_path, self.threads)

    def step(self, rgb: np.ndarray) -> dict[int, FaceLandmarks]:
        """{identity: landmarks} of the faces followed in a (H, W, 3) uint8 sRGB frame."""
        for face in self._known:
            if face.missing_frames:
                face.missing_frames += 1
                continue
            found = self._tracker.again(rgb, face.landmarks)
            if found.presence >= MIN_PRESENCE and _shift(face.landmarks, found) > LEAP * _width(face.landmarks):
                found = self._settled(rgb, found)
            if found.presence >= MIN_PRESENCE and not _jumped(face.landmarks, found):
                face.landmarks = found
            else:
                face.missing_frames = 1
        self._drop_doubles()
        self._known = [face for face in self._known if face.missing_frames <= REMEMBERED_FRAMES]
        self._frames_since_search += 1
        lost_now = any(face.missing_frames == 1 for face in self._known)
        present = sum(not face.missing_frames for face in self._known)
        if present < self.faces and (lost_now or present == 0 or self._frames_since_search >= SEARCH_EVERY):
            self._search(rgb)
        return {face.identity: face.landmarks for face in self._known if not face.missing_frames}

    def blendshapes(self, landmarks: FaceLandmarks) -> np.ndarray:
        """(52,) ARKit weights of one face."""
        return self._tracker.blendshapes(landmarks.points_px)

    def _settled(self, rgb: np.ndarray, found: FaceLandmarks) -> FaceLandmarks:
        """Landmarks looked at again, each time from a crop about the last answer, until they stay where they are."""
        for _ in range(MAX_LOOKS):
            if found.presence < MIN_PRESENCE:
                break
            before, found = found, self._tracker.again(rgb, found)
            if _spread(before, found) < SETTLED_WIDTHS * _width(found):
                break
        return found

    def _drop_doubles(self) -> None:
        """Of two identities that ended on one face the younger is forgotten."""
        kept: list[Followed] = []
        for face in sorted(self._known, key=lambda face: face.identity):
            box = face.landmarks.box_px
            seen = [other.landmarks.box_px for other in kept if not other.missing_frames]
            if face.missing_frames or not any(_iou(other, box) > SAME_FACE_IOU for other in seen):
                kept.append(face)
        self._known = kept

    def _search(self, rgb: np.ndarray) -> None:
        """Take up the faces that the detector finds: for one face the first look will do, unless it shows none."""
        self._frames_since_search = 0
        self.detections += 1
        for thorough in (True,) if self.faces > 1 else (False, True):
            self._take_up(rgb, self._tracker.search(rgb, thorough).faces)
            if any(not face.missing_frames for face in self._known):
                return

    def _take_up(self, rgb: np.ndarray, boxes: list[FaceBox]) -> None:
        for box in boxes:
            present = [face for face in self._known if not face.missing_frames]
            if len(present) >= self.faces:
                break
            landmarks = self._landmarks_of_new(rgb, box, present)
            if landmarks is None:
                continue
            lost = [face for face in self._known if face.missing_frames and _near(face.landmarks, landmarks)]
            if lost:
                back = min(lost, key=lambda face: face.missing_frames)
                back.landmarks, back.missing_frames = landmarks, 0
            else:
                self._known.append(Followed(self._next_identity, landmarks))
                self._next_identity += 1

    def _landmarks_of_new(self, rgb: np.ndarray, box: FaceBox, present: list[Followed]) -> FaceLandmarks | None:
        """Landmarks in a detected box, or None where no face is seen there or it is followed already."""
        landmarks = self._settled(rgb, self._tracker.glance(rgb, box))
        if landmarks.presence < MIN_PRESENCE:
            return None
        if any(_iou(face.landmarks.box_px, landmarks.box_px) > SAME_FACE_IOU for face in present):
            return None
        return landmarks


def _width(landmarks: FaceLandmarks) -> float:
    box = landmarks.box_px
    return float(max(box[2] - box[0], box[3] - box[1], 1.0))


def _shift(before: FaceLandmarks, after: FaceLandmarks) -> float:
    return float(
        np.linalg.norm(before.points_px[:MESH_POINTS, :2].mean(axis=0) - after.points_px[:MESH_POINTS, :2].mean(axis=0))
    )


def _spread(before: FaceLandmarks, after: FaceLandmarks) -> float:
    return float(np.linalg.norm(before.points_px[:MESH_POINTS, :2] - after.points_px[:MESH_POINTS, :2], axis=1).mean())


def _jumped(before: FaceLandmarks, after: FaceLandmarks) -> bool:
    ratio = _width(after) / _width(before)
    return _shift(before, after) > MAX_JUMP * _width(before) or not 0.6 < ratio < 1.7


def _near(before: FaceLandmarks, after: FaceLandmarks) -> bool:
    return _shift(before, after) < REMEMBERED_WIDTHS * max(_width(before), _width(after))


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    shared = float(np.prod(np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None)))
    union = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared
    return shared / max(union, 1e-9)
