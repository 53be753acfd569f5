"""FaceTracker: from a picture to one face's landmarks and expression, refusing what the networks cannot judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from avatar3d import models
from avatar3d.errors import InputError
from avatar3d.face import detector
from avatar3d.face.blendshapes import blendshapes_of
from avatar3d.face.crop import Square
from avatar3d.face.detector import Detection, FaceBox
from avatar3d.face.landmarks import (
    CROP_MARGIN,
    FaceLandmarks,
    landmarks_in,
    square_from_box,
    square_from_landmarks,
)
from avatar3d.face.networks import LANDMARKER_FILE, Network, load_network
from avatar3d.head.mediapipe import DETECTOR_POINTS

MIN_PRESENCE = 0.5  # the landmark network's own operating point
SURE_SCORE = 0.8  # a detection this sure is a face even where the landmark network gives up, as in profile
MIN_IOD_PX = 24.0  # below it a landmark's error, about a crop pixel, passes 4 % of the face
MAX_OUTSIDE_SHARE = 0.08  # a chin or an ear may be cut; more leaves the network guessing
SAME_FACE = 0.5  # boxes whose middles lie nearer than this share of a face's size are one face's
MAX_YAW_RAD = math.radians(55.0)  # about 60 true degrees (a scan, turned); beyond, the far half is invention
MAX_UPRIGHT_RAD = math.radians(50.0)  # more is hardly a tilted head but a picture on its side


@dataclass(frozen=True)
class TrackedFace:
    """box: where it was detected. landmarks: in the picture. blendshapes: (52,) ARKit weights, order ARKIT_NAMES.

    faces_found: how many faces the picture holds. notes: sentences for the user about choices that were made.
    """

    box: FaceBox
    landmarks: FaceLandmarks
    blendshapes: np.ndarray
    faces_found: int
    notes: list[str] = field(default_factory=list)


class FaceTracker:
    """The face networks behind one object; each is loaded when first used and shared between trackers.

    landmarker_path: a face_landmarker.task, by default the one `avatar3d models` keeps. threads: for each
    network. The first use raises InputError when the model file is missing or not such a bundle.
    """

    def __init__(self, landmarker_path: Path | None = None, threads: int = 2) -> None:
        self._landmarker_path = landmarker_path
        self._threads = threads
        self._networks: dict[str, Network] = {}

    def _network(self, name: str) -> Network:
        if name not in self._networks:
            path = self._landmarker_path or models.path(LANDMARKER_FILE)
            self._networks[name] = load_network(Path(path), f"{name}.tflite", self._threads)
        return self._networks[name]

    def search(self, rgb: np.ndarray, thorough: bool = True) -> Detection:
        """Faces in a (H, W, 3) uint8 sRGB picture, largest first, with the best score seen; thorough: see `detector.detect`."""
        return detector.detect(self._network("face_detector"), rgb, thorough)

    def detect(self, rgb: np.ndarray) -> list[FaceBox]:
        """Faces in a (H, W, 3) uint8 sRGB picture, largest first."""
        return self.search(rgb).faces

    def again(self, rgb: np.ndarray, before: FaceLandmarks) -> FaceLandmarks:
        """Landmarks of a face in the frame after the one where they were `before`."""
        return landmarks_in(self._network("face_landmarks_detector"), rgb, square_from_landmarks(before))

    def glance(self, rgb: np.ndarray, box: FaceBox) -> FaceLandmarks:
        """Landmarks of a detected face from one look at its box: enough for a video, whose next frame looks again."""
        return landmarks_in(self._network("face_landmarks_detector"), rgb, square_from_box(box))

    def landmarks(self, rgb: np.ndarray, box: FaceBox) -> FaceLandmarks:
        """Landmarks of a detected face, found once from the box and once more from a crop about the first answer."""
        network = self._network("face_landmarks_detector")
        first = landmarks_in(network, rgb, square_from_box(box))
        if first.presence < MIN_PRESENCE:
            return first
        return landmarks_in(network, rgb, square_from_landmarks(first))

    def blendshapes(self, points_px: np.ndarray) -> np.ndarray:
        """(52,) ARKit weights, order ARKIT_NAMES, from (478, 2 or 3) landmarks in pixels."""
        return blendshapes_of(self._network("face_blendshapes"), points_px)

    def follow(self, rgb: np.ndarray, previous: TrackedFace | None = None) -> TrackedFace | None:
        """The next frame of a video: the face where it was, else the largest one found, else None. Never refuses."""
        if previous is not None:
            found = self.again(rgb, previous.landmarks)
            if found.presence >= MIN_PRESENCE:
                return self._measured(previous.box, found, previous.faces_found, [])
        present = self._present_faces(rgb, self.search(rgb).faces, stop_after=1)
        return self._measured(*present[0], 1, []) if present else None

    def track(
        self,
        rgb: np.ndarray,
        face_index: int | None = None,
        face_box: Sequence[float] | None = None,
        name: str = "the picture",
    ) -> TrackedFace:
        """The one face an avatar is made of.

        rgb: (H, W, 3) uint8 sRGB. face_index: which face, 0 being the largest; by default the largest, which
        `notes` says when there are several. face_box: x, y, width, height in pixels about the face, instead
        of detection. name: what the sentences call the picture. Raises InputError when there is no face, or
        it is too small, cut off, or turned too far.
        """
        height, width = rgb.shape[:2]
        notes: list[str] = []
        if face_box is not None:
            box, landmarks, count = *self._face_in_box(rgb, face_box, name), 1
        else:
            search = self.search(rgb)
            present = self._present_faces(rgb, search.faces)
            count = len(present)
            if not count:
                raise InputError(self._no_face_sentence(rgb, name, search))
            index = 0 if face_index is None else face_index
            if not 0 <= index < count:
                raise InputError(
                    f"there is no face {index} in {name}: {_count(count)} found; pass --face 0"
                    + (f" to {count - 1}, 0 being the largest" if count > 1 else "")
                )
            box, landmarks = present[index]
            if count > 1 and face_index is None:
                x, y = (landmarks.box_px[:2] + landmarks.box_px[2:]) / 2
                notes.append(
                    f"{count} faces found in {name}; using the largest, centred at {x:.0f},{y:.0f}. For another pass "
                    f"--face {'1' if count == 2 else f'1 to {count - 1}'}."
                )
        _refuse_unusable(landmarks, width, height, name)
        if abs(landmarks.roll_rad) > MAX_UPRIGHT_RAD:
            notes.append(
                f"the face in {name} is tilted by {math.degrees(abs(landmarks.roll_rad)):.0f}°; if the picture lies on "
                "its side, turn it upright"
            )
        return self._measured(box, landmarks, count, notes)

    def others(self, rgb: np.ndarray, face: TrackedFace) -> list[FaceBox]:
        """The other faces of the picture in which `face` was tracked, largest first; those turned away are found seldom."""
        x0, y0, x1, y1 = face.landmarks.box_px
        centre, reach = np.array([x0 + x1, y0 + y1]) / 2, SAME_FACE * max(x1 - x0, y1 - y0)
        apart = [
            box for box in self.search(rgb).faces if np.linalg.norm((box.box_px[:2] + box.box_px[2:]) / 2 - centre) > reach
        ]
        return [box for box in apart if box.score > SURE_SCORE or self.glance(rgb, box).presence >= MIN_PRESENCE]

    def _measured(self, box: FaceBox, landmarks: FaceLandmarks, faces_found: int, notes: list[str]) -> TrackedFace:
        return TrackedFace(box, landmarks, self.blendshapes(landmarks.points_px), faces_found, notes)

    def _present_faces(
        self, rgb: np.ndarray, boxes: list[FaceBox], stop_after: int | None = None
    ) -> list[tuple[FaceBox, FaceLandmarks]]:
        """The boxes in which the landmark network sees a face too."""
        present = []
        for box in boxes:
            landmarks = self.landmarks(rgb, box)
            if landmarks.presence >= MIN_PRESENCE:
                present.append((box, landmarks))
                if len(present) == stop_after:
                    break
        return present

    def _face_in_box(self, rgb: np.ndarray, face_box: Sequence[float], name: str) -> tuple[FaceBox, FaceLandmarks]:
        height, width = rgb.shape[:2]
        given = ",".join(f"{value:g}" for value in face_box)
        if len(face_box) != 4 or not np.isfinite(face_box).all() or face_box[2] <= 0 or face_box[3] <= 0:
            raise InputError(f"the face box {given} is not a box; pass x,y,w,h in pixels with a positive width and height")
        x, y, box_width, box_height = (float(value) for value in face_box)
        if x >= width or y >= height or x + box_width <= 0 or y + box_height <= 0:
            raise InputError(f"the face box {given} lies outside {name} ({width}×{height}); pass x,y,w,h in its pixels")
        network = self._network("face_landmarks_detector")
        square = Square(x + box_width / 2, y + box_height / 2, max(box_width, box_height) * CROP_MARGIN)
        found = landmarks_in(network, rgb, square)
        # The first answer comes from an upright crop of the user's rough box; two more settle turn and size.
        for _ in range(2):
            if found.presence < MIN_PRESENCE:
                break
            found = landmarks_in(network, rgb, square_from_landmarks(found))
        if found.presence < MIN_PRESENCE:
            raise InputError(
                f"no face found in the box {given} of {name} ({width}×{height}); it scored {found.presence:.2f} of the "
                f"{MIN_PRESENCE:.2f} needed. Give a box from the brows to the chin."
            )
        eyes_to_ears = found.points_px[list(DETECTOR_POINTS), :2]
        return FaceBox(found.presence, np.array([x, y, x + box_width, y + box_height]), eyes_to_ears), found

    def _no_face_sentence(self, rgb: np.ndarray, name: str, search: Detection) -> str:
        height, width = rgb.shape[:2]
        for quarter_turns in (2, 1):  # the detector itself finds faces turned by up to a quarter, either way
            turned = np.ascontiguousarray(np.rot90(rgb, quarter_turns))
            present = self._present_faces(turned, self.search(turned).faces, stop_after=1)
            left = (quarter_turns + round(present[0][1].roll_rad / (math.pi / 2))) % 4 if present else 0
            if left:  # without a turn it would be one that a whole face was not seen in
                needed = ("", "a quarter turn left", "half a turn", "a quarter turn right")[left]
                return (
                    f"no upright face found in {name} ({width}×{height}), but one that needs {needed}; turn the "
                    "picture and try again."
                )
        if any(face.score >= SURE_SCORE for face in search.faces):
            return (
                f"the face in {name} ({width}×{height}) cannot be measured: it is in profile, covered or blurred. Use a "
                "picture from closer to the front."
            )
        if search.faces:
            seen = "what looked like one from afar did not when looked at closely"
        else:
            seen = f"the best candidate scored {search.best_score:.2f} of the {detector.MIN_SCORE:.2f} needed"
        return f"no face found in {name} ({width}×{height}); {seen}. Crop closer, or pass --face-box x,y,w,h."


def _count(faces: int) -> str:
    return "1 face was" if faces == 1 else f"{faces} faces were"


def _refuse_unusable(landmarks: FaceLandmarks, width: int, height: int, name: str) -> None:
    outside = landmarks.outside_share(width, height)
    if outside > MAX_OUTSIDE_SHARE:
        raise InputError(
            f"the face in {name} is cut off by the picture's edge: {outside:.0%} of it lies outside, at most "
            f"{MAX_OUTSIDE_SHARE:.0%} may. Use a picture that shows the whole face."
        )
    yaw = landmarks.yaw_rad
    if abs(yaw) > MAX_YAW_RAD:
        raise InputError(
            f"the face in {name} is turned {math.degrees(abs(yaw)):.0f}° to its {'left' if yaw > 0 else 'right'}, at "
            f"most {math.degrees(MAX_YAW_RAD):.0f}° is understood. Use a picture that is closer to the front."
        )
    if landmarks.iod_px < MIN_IOD_PX:
        raise InputError(
            f"the face in {name} is too small: {landmarks.iod_px:.0f} pixels between the eyes, at least {MIN_IOD_PX:.0f} "
            "are needed. Use a larger picture of it."
        )
