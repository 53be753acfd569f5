"""Make assets/landmarks.npz: move the landmark embedding to where the network puts its points on photos of real people.

    tools/calibrate_landmarks.py PHOTO [PHOTO ...] [--person NAME=PHOTO,PHOTO] [-o assets/landmarks.npz]

Every photo is fitted, what the model's shapes leave over is averaged over people for each point, made symmetric, and the points
slide by it on the skin; a few rounds settle. FILM@N is a film's frame N. Only the 468 places and their confidence are stored:
nothing of a photo.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from avatar3d.camera import Camera
from avatar3d.face import FaceTracker
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.files import replacing
from avatar3d.fitting.fit import fit_face
from avatar3d.head.landmarks import nearest_on_skin, with_landmarks
from avatar3d.head.mediapipe import INNER_LIP_LOWER, INNER_LIP_UPPER, INNER_LIPS, MESH_POINTS, MOUTH_ENDS
from avatar3d.head.model import SKIN, HeadModel
from avatar3d.motion.code import ARKIT_INDEX
from avatar3d.rendering.reference.raster import nearest, rasterise

ROUNDS = 14
STEP = 0.8  # of the mean residual: the fit follows each move
FACING = 0.25  # points turned away further are guesses of the network
SPREAD_M = 0.0015  # residual between people at which a point is half trusted
CONFIDENCE_FLOOR = 0.15

# The inner lip's ring is put on the model's own edges and stays there: photos could not tell a rolled lip from misplaced
# points.
LOOK_M, LOOK_PX = 0.08, 800  # a frontal look at the mouth: 0.1 mm a pixel

Face = tuple[FaceLandmarks, np.ndarray, int, int]


def calibrate(faces: dict[str, list[Face]], head: HeadModel) -> tuple[np.ndarray, np.ndarray]:
    """Points (468, 3) metres on the template and confidence (468,) from {person: faces}."""
    points = head.landmark_points(head.vertices).astype(np.float64)
    confidence = np.ones(len(points))
    mirror = _mirror(points)
    pinned = lip_ring(head)
    points[list(pinned)] = list(pinned.values())
    for _ in range(ROUNDS):
        current = with_landmarks(head, points, confidence)
        people = [_mean([_residual(face, current) for face in photos]) for photos in faces.values()]
        stack = np.stack(people)
        mean = np.nan_to_num(_mean(list(stack)))
        mean = (mean + mean[mirror] * (-1, 1, 1)) / 2
        mean[list(pinned)] = 0
        points = points + STEP * mean
        triangle, barycentric, _ = nearest_on_skin(head, points)
        points = (head.vertices[triangle] * barycentric[..., None]).sum(1)
        spread = np.sqrt(np.mean((np.nan_to_num(stack - mean) ** 2).sum(-1), axis=0))
        spread = (spread + spread[mirror]) / 2
        confidence = np.clip(1 / (1 + (spread / SPREAD_M) ** 2), CONFIDENCE_FLOOR, 1)
    return points, confidence


def lip_ring(head: HeadModel) -> dict[int, np.ndarray]:
    """{landmark: point (3,) metres} of the inner lips' ring on the template: where the closed lips meet, seen from in front."""
    points = head.landmark_points(head.vertices)
    middle = points[list(INNER_LIPS)].mean(0)
    camera = Camera.orbit(0.0, 0.0, 2.0, LOOK_PX, LOOK_PX, LOOK_M, middle)
    skin = np.flatnonzero((head.part == SKIN) & (head.regions["lips"][head.faces].mean(1) > 0.3))
    drawn = nearest(rasterise(head.vertices, head.faces[skin], camera, np.zeros(len(skin), bool)))
    place = (head.vertices[head.faces[skin][drawn.face]] * drawn.barycentric[..., None]).sum(1)
    opening = -head.expression[ARKIT_INDEX["jawOpen"]][:, 1]
    lower = opening[head.faces[skin][drawn.face]].mean(1) > 0.4 * opening[head.regions["lips"] > 0.5].max()
    row, column = np.divmod(drawn.pixel, LOOK_PX)
    ends = [abs(points[index, 0]) for index in MOUTH_ENDS]
    ring = {}
    for landmarks, is_lower in ((INNER_LIP_UPPER, False), (INNER_LIP_LOWER, True)):
        for index in landmarks:
            here = np.flatnonzero((lower == is_lower) & (column == int(camera.project(points[index])[0][0])))
            edge = here[row[here].argmin() if is_lower else row[here].argmax()]
            ring[index] = place[edge]
    for index, reach in zip(MOUTH_ENDS, ends, strict=True):
        side = np.sign(points[index, 0])
        nearby = [i for i in ring if np.sign(points[i, 0]) == side]
        outermost = sorted(nearby, key=lambda i: -abs(points[i, 0]))[:2]
        ring[index] = np.mean([ring[i] for i in outermost], axis=0)
        ring[index][0] = side * max(reach, abs(ring[index][0]))
    return ring


def _mean(values: list[np.ndarray]) -> np.ndarray:
    """Mean of (468, 3) arrays over those that know a point; NaN where none does."""
    stack = np.stack(values)
    known = np.isfinite(stack)
    with np.errstate(invalid="ignore"):
        return np.where(known, stack, 0).sum(0) / known.sum(0)


def _mirror(points: np.ndarray) -> np.ndarray:
    from scipy.spatial import cKDTree

    return cKDTree(points).query(points * (-1, 1, 1))[1]


def _residual(face: Face, head: HeadModel) -> np.ndarray:
    """(468, 3) metres in the head frame that the shapes leave each point off in the photo's plane; NaN where it is turned away."""
    landmarks, blendshapes, width, height = face
    fit = fit_face(landmarks, blendshapes, width, height, None, head)
    # Without the fit's smooth offsets, which would take up a misplaced point's error.
    posed = head.shape(fit.identity) + head.expression_offsets(fit.expression)
    pixels, depth = fit.camera.project(head.landmark_points(posed))
    shift_px = landmarks.points_px[:MESH_POINTS, :2] - pixels
    in_plane = np.column_stack([shift_px * depth[:, None] / fit.camera.intrinsics[0, 0], np.zeros(len(depth))])
    normal = head.landmark_points(head.normals(posed))
    toward = fit.camera.center - head.landmark_points(posed)
    facing = (normal * toward).sum(1) / np.linalg.norm(toward, axis=1) / np.linalg.norm(normal, axis=1)
    return np.where((facing > FACING)[:, None], in_plane @ fit.camera.rotation, np.nan)


def read_faces(people: dict[str, list[Path]], tracker: FaceTracker) -> dict[str, list[Face]]:
    """{person: faces} of {person: photos}."""
    out: dict[str, list[Face]] = {}
    for person, photos in people.items():
        for photo in photos:
            rgb = read_picture(photo)
            tracked = tracker.track(rgb, name=photo.name)
            out.setdefault(person, []).append((tracked.landmarks, tracked.blendshapes, rgb.shape[1], rgb.shape[0]))
    return out


def read_picture(place: Path) -> np.ndarray:
    """(H, W, 3) u8 of a photo, or of frame N of FILM@N."""
    film, _, frame = str(place).rpartition("@")
    if not frame.isdigit():
        with Image.open(place) as picture:
            return np.array(picture.convert("RGB"))
    reader = cv2.VideoCapture(film)
    found = [reader.read() for _ in range(int(frame) + 1)][-1]
    if not found[0]:
        raise SystemExit(f"{film} has no frame {frame}")
    return np.ascontiguousarray(found[1][..., ::-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="*", type=Path, help="photos of different people")
    parser.add_argument("--person", action="append", default=[], metavar="NAME=PHOTO,PHOTO", help="photos of one person")
    parser.add_argument("--landmarker", type=Path, help="face_landmarker.task, by default the one of `avatar3d models`")
    parser.add_argument("-o", "--out", type=Path, default=Path("assets/landmarks.npz"))
    arguments = parser.parse_args()
    people = {photo.stem: [photo] for photo in arguments.photos}
    for entry in arguments.person:
        name, _, photos = entry.partition("=")
        people[name] = [Path(photo) for photo in photos.split(",")]
    if len(people) < 3:
        parser.error(f"{len(people)} people were given; a mean needs at least 3")
    points, confidence = calibrate(read_faces(people, FaceTracker(arguments.landmarker)), HeadModel.default())
    with replacing(arguments.out) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, points=points.astype(np.float32), confidence=confidence.astype(np.float32))


if __name__ == "__main__":
    main()
