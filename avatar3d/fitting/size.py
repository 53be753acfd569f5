"""How large the head is: a photo shows shapes, not millimetres, but an iris is as wide in everyone, and so nearly are a face's parts.

The fit's own scale is the template's. Here it is judged by the irises of the photo and by how far adults' eyes stand apart, and
the head, its camera and its shapes are brought to that size together, so that the photo is met as before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.mediapipe import IRIS_EDGES, LID_MIDDLES
from avatar3d.head.model import HeadModel

# Visible iris, white to white: 11.68 ± 0.42 mm in adults (Hashemi et al. 2005), and 5 % less in children of two years.
IRIS_MM, IRIS_SPREAD = 11.7, 0.04
# The network draws irises a tenth too wide and as much too low; the mean of both diameters is nearer the truth.
# Of a measured diameter: the network's own (7 % small on the scanned `james`; 10.9, 10.9 and 9.5 mm on three photos of one man), and
# what a small picture adds. Half of what the two eyes differ by is added, which a turned or lowered head makes large.
IRIS_NOISE, IRIS_NOISE_PX = 0.035, 0.6
# Half-closed lids hide an iris: under this share of its diameter between them (lids at rest show 0.8 of it) it is a guess.
LEAST_OPENING = 0.45
# Pupils of adults stand 63 ± 3.6 mm apart (Dodgson 2004); children's 50 mm at five years, which only --pd can tell.
PUPILS_MM = 63.0
# The whole face varies less than the eyes' distance: its size, as the template's is at PUPILS_MM, counts as much again.
FACE_SPREAD = 0.045
PD_RANGE_MM = (40.0, 80.0)  # from an infant's to the widest adult's
EYE_DEPTH_M = 0.013  # of an eyeball's centre behind its iris
SCALE_RANGE = (0.8, 1.35)  # of the template; beyond it the irises were not what was measured
IRIS_RADIUS_RANGE_M = (0.0053, 0.0065)


@dataclass(frozen=True)
class HeadSize:
    """scale: of the template. iris_mm: mean diameter of the photo's irises on the head at that scale, None where none is seen.

    pupil_distance_mm: between the eyes' centres at that scale. size_by_iris: relative size error by the irises, negative for a head
    too small, None as iris_mm. given: whether the user gave the pupils' distance.
    """

    scale: float
    pupil_distance_mm: float
    iris_mm: float | None
    size_by_iris: float | None
    given: bool


def head_size(fit: FaceFit, landmarks: FaceLandmarks, head: HeadModel, pupil_distance_mm: float | None = None) -> HeadSize:
    """The size that irises and face statistics give the fitted head, or that a known pupil distance gives it.

    Raises InputError for a pupil distance that no person has.
    """
    check_pupil_distance(pupil_distance_mm)
    eyes = head.eye_centres(fit.neutral_vertices)
    pupils = 1000 * float(np.linalg.norm(eyes[0] - eyes[1]))
    iris, spread = _iris(fit, landmarks, eyes)
    if pupil_distance_mm is not None:
        scale = pupil_distance_mm / pupils
    else:
        # Both in logarithms, each as sure as it varies between people and in the measuring.
        votes = [((np.log(PUPILS_MM / pupils) + _by_face(fit, head)) / 2, FACE_SPREAD)]
        if iris is not None:
            votes.append((np.log(IRIS_MM / iris), spread))
        value, weight = np.array([(vote, 1 / deviation**2) for vote, deviation in votes]).T
        scale = float(np.clip(np.exp((value * weight).sum() / weight.sum()), *SCALE_RANGE))
    return HeadSize(
        scale, scale * pupils, None if iris is None else scale * iris, None if iris is None else scale * iris / IRIS_MM - 1,
        pupil_distance_mm is not None,
    )  # fmt: skip


def check_pupil_distance(pupil_distance_mm: float | None) -> None:
    """Raise InputError for a pupil distance that no person has; None is none given."""
    if pupil_distance_mm is not None and not PD_RANGE_MM[0] <= pupil_distance_mm <= PD_RANGE_MM[1]:
        raise InputError(
            f"a pupil distance of {pupil_distance_mm:g} mm was given, expected {PD_RANGE_MM[0]:g} to {PD_RANGE_MM[1]:g}; "
            "measure from the middle of one pupil to that of the other"
        )


def _iris(fit: FaceFit, landmarks: FaceLandmarks, eyes: np.ndarray) -> tuple[float | None, float]:
    """Mean diameter, mm, of the irises at their eyes' depth, and its relative deviation; None where lids hide both."""
    points = landmarks.points_px[:, :2]
    focal = float(np.diag(fit.camera.intrinsics)[:2].mean())
    diameters, pixels = [], []
    for (right, left, top, bottom), (upper, lower), eye in zip(IRIS_EDGES, LID_MIDDLES, eyes, strict=True):
        across = float(np.linalg.norm(points[right] - points[left]) + np.linalg.norm(points[top] - points[bottom])) / 2
        if np.linalg.norm(points[upper] - points[lower]) < LEAST_OPENING * across:
            continue
        depth = float(fit.camera.to_camera(eye)[2]) - EYE_DEPTH_M
        diameters.append(1000 * across * depth / focal)
        pixels.append(across)
    if not diameters:
        return None, np.inf
    unlike = np.ptp(diameters) / np.mean(diameters) / 2
    spread = np.linalg.norm([IRIS_SPREAD, IRIS_NOISE, IRIS_NOISE_PX / np.mean(pixels), unlike])
    return float(np.mean(diameters)), float(spread)


def _by_face(fit: FaceFit, head: HeadModel) -> float:
    """Logarithm of the scale that makes the face as large as the average adult's."""
    faces = (head.landmark_points(vertices) for vertices in (head.vertices, fit.neutral_vertices))
    average, own = (float(np.sqrt(np.var(points, axis=0).sum())) for points in faces)
    eyes = head.eye_centres(head.vertices)
    return float(np.log(PUPILS_MM / 1000 / np.linalg.norm(eyes[0] - eyes[1]) * average / own))


def to_size(fit: FaceFit, head: HeadModel, size: HeadSize) -> tuple[FaceFit, HeadModel]:
    """Fit and head model at the found size; the model's irises are the photo's."""
    scale = size.scale
    camera = fit.camera
    grown = replace(
        fit,
        camera=Camera(
            camera.width, camera.height, camera.intrinsics, camera.rotation, camera.translation * scale, name=camera.name
        ),
        vertices=fit.vertices * np.float32(scale),
        neutral_vertices=fit.neutral_vertices * np.float32(scale),
        expression_shapes=fit.expression_shapes * np.float32(scale),
        size=size,
    )
    radius = IRIS_MM / 2000 if size.iris_mm is None else size.iris_mm / 2000
    return grown, replace(head.scaled(scale), iris_radius=float(np.clip(radius, *IRIS_RADIUS_RANGE_M)))
