"""Films: how far lips and lids open when the product's tracker drives the product's avatar, against the film itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from avatar3d import models
from avatar3d.avatar import Avatar
from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.head.mediapipe import EYE_CORNERS, INNER_LIP_MIDDLES, LID_MIDDLES, MESH_POINTS
from avatar3d.head.rig import pose_vertices
from avatar3d.motion.code import MotionCode
from avatar3d.tracking.frames import open_video
from avatar3d.tracking.track import TrackedFrame, track

from .manifest import Film
from .views import DISTANCE_M, Drawer

MIN_PRESENCE = 0.8  # a face surer than this is truth
MIN_SPREAD_PCT = 0.5  # openings that vary less have no slope
SHOWN, SHOWN_SHARES = 6, (0.03, 0.95)  # frames on the sheet, and between which shares of the film they lie
HEAD_HEIGHTS = 2.2  # of the face: what the sheet shows of a frame


@dataclass
class Driven:
    """What one film gave: (N, 2) openings of lips and lids, true and the avatar's, and some frames as pairs of pictures."""

    true: list[np.ndarray] = field(default_factory=list)
    ours: list[np.ndarray] = field(default_factory=list)
    pairs: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)


def openings(points: np.ndarray) -> np.ndarray:
    """(2,) lips in per cent of the distance between the eyes, lids in per cent of an eye's width, of (468+, 2) points."""
    eyes = [points[list(corners)].mean(axis=0) for corners in EYE_CORNERS]
    width = np.mean([np.linalg.norm(points[a] - points[b]) for a, b in EYE_CORNERS])
    lips = np.linalg.norm(points[INNER_LIP_MIDDLES[0]] - points[INNER_LIP_MIDDLES[1]]) / np.linalg.norm(eyes[0] - eyes[1])
    lids = np.mean([np.linalg.norm(points[a] - points[b]) for a, b in LID_MIDDLES]) / width
    return 100 * np.array([lips, lids])


def avatar_points(avatar: Avatar, motion: MotionCode) -> np.ndarray:
    """(468, 2) landmarks of the avatar as a motion code poses it, metres, seen from far in front."""
    vertices = pose_vertices(avatar.vertices, avatar.expression, motion, avatar.head_weight, avatar.joints, avatar.vertex_part)
    points = (vertices[avatar.landmark_triangles] * avatar.landmark_barycentric[..., None]).sum(1)
    return points[:, :2]


def drive(film: Film, avatar: Avatar, drawer: Drawer, step: int) -> Driven:
    """Track a film through every frame and compare every `step`-th."""
    source = open_video(models.sample(film.file))
    result, numbers = Driven(), count()
    shares = list(np.linspace(*SHOWN_SHARES, SHOWN))

    def each(frame: TrackedFrame) -> None:
        number = next(numbers)
        answer = _surest(frame)
        if number % step or answer is None:
            return
        landmarks, code = answer
        result.true.append(openings(landmarks.points_px[:MESH_POINTS, :2]))
        result.ours.append(openings(avatar_points(avatar, code)))
        if shares and number >= shares[0] * source.frame_count:
            while shares and number >= shares[0] * source.frame_count:
                shares.pop(0)
            result.pairs.append((_about_face(frame.rgb, landmarks), _drawn(drawer, code)))

    try:
        track(source, each=each)
    finally:
        source.close()
    return result


def figures(film: Film, driven: Driven) -> dict[str, Any]:
    """The film's row: frames compared and, of lips and lids, means, slope, correlation and mean error."""
    row: dict[str, Any] = {"id": film.id, "person": film.person, "half": film.half, "frames": len(driven.true)}
    if driven.true:
        true, ours = np.array(driven.true), np.array(driven.ours)
        for column, name in enumerate(("lips", "lids")):
            row[name] = follow(true[:, column], ours[:, column])
    return row


def follow(true: np.ndarray, ours: np.ndarray) -> dict[str, float | None]:
    """{true, ours, slope, correlation, error} of two (N,) rows of openings: means, least-squares slope, Pearson's r."""
    moves = len(true) > 2 and true.std() > MIN_SPREAD_PCT
    still = not moves or ours.std() < 1e-9
    return {
        "true": round(float(true.mean()), 2),
        "ours": round(float(ours.mean()), 2),
        "slope": round(float(np.polyfit(true, ours, 1)[0]), 3) if moves else None,
        "correlation": None if still else round(float(np.corrcoef(true, ours)[0, 1]), 3),
        "error": round(float((ours - true).mean()), 2),
    }


def _surest(frame: TrackedFrame) -> tuple[FaceLandmarks, MotionCode] | None:
    for identity, code in frame.codes.items():
        if frame.landmarks[identity].presence >= MIN_PRESENCE:
            return frame.landmarks[identity], code
    return None


def _about_face(rgb: np.ndarray, landmarks: FaceLandmarks) -> np.ndarray:
    x0, y0, x1, y1 = landmarks.box_px
    half = HEAD_HEIGHTS * (y1 - y0) / 2
    x, y = (x0 + x1) / 2, (y0 + y1) / 2 - 0.1 * half
    top, left = max(0, round(y - half)), max(0, round(x - half))
    return rgb[top : max(top + 2, round(y + half)), left : max(left + 2, round(x + half))]


def _drawn(drawer: Drawer, code: MotionCode) -> np.ndarray:
    still = MotionCode(weights=code.weights, rotation=code.rotation, gaze=code.gaze)
    return drawer.through(Camera.orbit(0.0, 0.0, DISTANCE_M, 512, 512, HEAD_VIEW_HEIGHT_M, HEAD_MIDDLE_M), still)
