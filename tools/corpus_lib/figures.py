"""All figures of one photo: enrols it and measures what came out; a refusal is a row as well."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avatar3d import models
from avatar3d.avatar import Avatar
from avatar3d.enrolment.pipeline import EnrollOptions, enroll
from avatar3d.errors import Avatar3dError
from avatar3d.face.identity import MODEL, IdentityEncoder, distance
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.tracker import FaceTracker
from avatar3d.fitting.size import IRIS_MM
from avatar3d.glb import read_glb, write_glb
from avatar3d.head.mediapipe import EYE_CORNERS, IRIS_EDGES, LID_MIDDLES
from avatar3d.motion.code import MotionCode
from avatar3d.photo import load_photo
from avatar3d.rendering import Renderer

from . import drawn
from .manifest import Corpus, Entry, photo_file
from .views import Drawer, Seen, seen

SIDE_DEG = 30.0
LIDS = tuple((*corners, *lids) for corners, lids in zip(EYE_CORNERS, LID_MIDDLES, strict=True))  # of each eye
COPIED = ("landmark_error_iod_pct", "photo_psnr_db", "photo_psnr_db_texture_only", "silhouette_error_mm", "silhouette_iou",
          "hair", "warnings", "quality")  # fmt: skip


@dataclass(frozen=True)
class Enrolled:
    """A row of the table, and what the sheet is drawn from: None where enrolment refused."""

    row: dict[str, Any]
    seen: Seen | None = None
    avatar: Avatar | None = None


class Bench:
    """What measuring photo after photo needs: the corpus, a folder for its files, options, and the networks kept loaded."""

    def __init__(self, corpus: Corpus, folder: Path, renderer: Renderer, options: dict[str, Any]) -> None:
        self.corpus, self.folder, self.renderer, self._options = corpus, folder, renderer, options
        models.pull(MODEL)
        self._tracker = FaceTracker()
        self._encoder = IdentityEncoder(self._tracker)

    def enrol(self, entry: Entry) -> dict[str, Any]:
        """The row as far as enrolment's own report goes; the avatar is left in avatars/. A refusal or crash is in `error`."""
        row: dict[str, Any] = {"id": entry.id, "person": entry.person, "half": entry.half, "made": entry.made}
        file = self.avatar_file(entry.id)
        started = time.perf_counter()
        try:
            avatar, report = enroll(self._photo(entry), EnrollOptions(face_box=entry.box, **self._options))
            seconds = time.perf_counter() - started
            file.parent.mkdir(parents=True, exist_ok=True)
            write_glb(avatar, file)
        except Avatar3dError as error:
            return {**row, "error": str(error), "exit_code": error.exit_code, "expected": entry.refused}
        except Exception as error:  # a crash is what the table is to show, and the other photos go on
            return {**row, "error": f"{type(error).__name__}: {error}", "exit_code": 1, "expected": False}
        row |= {"error": None, "exit_code": 0, **{key: report[key] for key in COPIED if key in report}}
        return {**row, "seconds": report["seconds"], "seconds_total": round(seconds, 2), "bytes": file.stat().st_size}

    def measure(self, entry: Entry, row: dict[str, Any]) -> Enrolled:
        """The row of `enrol` with what is measured on the avatar added."""
        if row["error"] is not None:
            return Enrolled(row)
        avatar = read_glb(self.avatar_file(entry.id))
        rgb = load_photo(self._photo(entry)).rgb
        shown = seen(rgb, self._tracker.track(rgb, face_box=entry.box), avatar)
        drawer = Drawer(self.renderer, avatar)
        row = {**row, **self._identity(entry, shown, drawer), **size_by_iris(avatar, shown.face.landmarks)}
        mask = drawn.mask_of(entry)
        if mask is not None:
            row |= drawn.agreement(mask, entry, shown, drawer)
        return Enrolled(row, shown, avatar)

    def avatar_file(self, id_: str) -> Path:
        """Where an entry's avatar lies."""
        return self.folder / "avatars" / f"{id_}.glb"

    def _photo(self, entry: Entry) -> Path:
        return photo_file(self.corpus, entry, self.folder / "photos")

    def _identity(self, entry: Entry, shown: Seen, drawer: Drawer) -> dict[str, float | None]:
        """Distances to the photo, of a made case to the one it was made from: what was lost is not the person's."""
        rgb, landmarks = shown.rgb, shown.face.landmarks
        if entry.base is not None:
            rgb = load_photo(self._photo(self.corpus.entry(entry.base))).rgb
            landmarks = self._tracker.track(rgb).landmarks
        photo = self._encoder.encode(rgb, landmarks)

        def apart(yaw_deg: float, motion: MotionCode | None) -> float | None:
            value = distance(self._encoder.encode(drawer.orbit(yaw_deg, motion=motion)), photo)
            return None if value is None else round(value, 3)

        own = drawer.avatar.photo_motion
        sides = [value for yaw in (-SIDE_DEG, SIDE_DEG) if (value := apart(yaw, own)) is not None]
        return {
            "identity_front": apart(0, own),
            "identity_30": round(sum(sides) / len(sides), 3) if sides else None,
            "identity_neutral": apart(0, None),
        }


def size_by_iris(avatar: Avatar, landmarks: FaceLandmarks) -> dict[str, float]:
    """{iod_mm, iris_mm, size_by_iris_pct}: the head's scale judged by the photo's irises.

    The mean of both axes of both irises in the photo, put at the depth of that eye's lids, should come to IRIS_MM: the network's
    irises are a tenth too wide and as much too low, but their mean gives the scanned head `james` its eye distance within 3 %.
    Of one person it is a guess (closed lids, make-up, a turned head); the corpus' median is what counts. Negative: the head is
    too small.
    """
    assert avatar.photo_camera is not None
    camera, points = avatar.photo_camera, landmarks.points_px[:, :2]
    motion = avatar.photo_motion or MotionCode()
    moved = avatar.vertices + np.tensordot(motion.weights.astype(np.float32), avatar.expression, 1)
    diameters = []
    for (right, left, top, bottom), lids in zip(IRIS_EDGES, LIDS, strict=True):
        place = (
            (moved[avatar.landmark_triangles[list(lids)]] * avatar.landmark_barycentric[list(lids)][..., None]).sum(1).mean(0)
        )
        depth = float(camera.to_camera(place)[2])
        across = (np.linalg.norm(points[right] - points[left]) + np.linalg.norm(points[top] - points[bottom])) / 2
        diameters.append(1000 * float(across) * depth / float(camera.intrinsics[0, 0]))
    iris = float(np.mean(diameters))
    eyes = np.linalg.norm(np.asarray(avatar.joints["leftEye"]) - np.asarray(avatar.joints["rightEye"]))
    return {
        "iod_mm": round(1000 * float(eyes), 1),
        "iris_mm": round(iris, 2),
        "size_by_iris_pct": round(100 * (iris / IRIS_MM - 1), 1),
    }
