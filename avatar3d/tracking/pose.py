"""From one face's landmarks to a motion code: head pose in metres by PnP with the head model, gaze from the irises."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import cv2
import numpy as np

from avatar3d.camera import FILM_FOCAL
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.solver import pose_rows
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import EYE_CORNERS, FACE_OVAL, MESH_POINTS, STABLE
from avatar3d.head.model import HeadModel
from avatar3d.motion.code import NECK_M, MotionCode, look_angles
from avatar3d.motion.rotation import matrix_quaternion
from avatar3d.tracking.gaze import CV_TO_WORLD, EyePlaces, Eyes, Pinhole, looking

# Points that move with speech or slide on the outline say little of the pose: weights of the pose fit by landmark group.
STABLE_WEIGHT, OTHER_WEIGHT, OUTLINE_WEIGHT = 1.0, 0.35, 0.08
ROBUST_PX_PER_IOD = 0.03  # residual, in distances between the eyes, at which a point's weight starts to fall
POSE_STEPS = 4  # Gauss-Newton steps from the last frame's pose, at most; a fifth changes it by less than 1e-4 rad
SETTLED = 2e-4  # radians and metres: a step this small is the last, a tenth of what the landmarks' noise moves the pose by
RIDGE = np.diag([1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0])  # keeps a step finite where the points say nothing; 1e-6 of what they say
# How fast the landmarks of the person at hand replace those of the average head, and how many frames are wanted first.
SHAPE_FRAMES = 60
SHAPE_MIN_COSINE = 0.9  # only frames nearer the front than this teach the shape


@dataclass(frozen=True)
class LandmarkBasis:
    """The 468 landmarks of the average head (468, 3), metres, and their displacements (52, 468, 3) by expression."""

    template: np.ndarray
    shapes: np.ndarray
    eye_centres: np.ndarray
    eye_radius: float

    @cached_property
    def eye_places(self) -> EyePlaces:
        """For measuring the gaze."""
        return EyePlaces(
            self.eye_centres, np.stack([self.template[list(pair)].mean(axis=0) for pair in EYE_CORNERS]), self.eye_radius
        )


@lru_cache(maxsize=4)
def landmark_basis(model: HeadModel | None = None) -> LandmarkBasis:
    """A head model's landmarks, by default the default head's where the network puts them on people; computed once."""
    head = model or fitting_head()
    still = head.landmark_points(head.vertices)
    shapes = np.stack([head.landmark_points(offset) for offset in head.expression])
    return LandmarkBasis(
        still.astype(np.float64),
        shapes.astype(np.float64),
        head.eye_centres(head.vertices).astype(np.float64),
        float(head.eye_radii(head.vertices).mean()),
    )


@dataclass
class FaceMotion:
    """What is known of one person over a video: the last pose, the landmarks' own shape, the rest position.

    width, height: the frame, pixels. Pose: rotation to a world whose axes are the picture's (x right, y up, z toward the
    camera), so a face that looks into the camera has the identity; translation is how far the neck joint moved since the first
    frame, metres, at the scale of an average head. model: that head, the default one where None.
    """

    width: int
    height: int
    focal_px: float | None = None
    model: HeadModel | None = None
    _rotation: np.ndarray = field(default_factory=lambda: CV_TO_WORLD.copy())
    _posed: bool = False
    _translation: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 0.6]))
    _rest: np.ndarray | None = None
    _shape: np.ndarray = field(default_factory=lambda: np.zeros((MESH_POINTS, 3)))
    _shape_count: int = 0
    _eyes: Eyes = field(default_factory=Eyes)
    residual_iod: float = 0.0

    def __post_init__(self) -> None:
        focal = self.focal_px or FILM_FOCAL * max(self.width, self.height)
        self.intrinsics = np.array([[focal, 0, self.width / 2], [0, focal, self.height / 2], [0, 0, 1.0]])
        self._weight = np.full(MESH_POINTS, OTHER_WEIGHT)
        self._weight[list(STABLE)] = STABLE_WEIGHT
        self._weight[list(FACE_OVAL)] = OUTLINE_WEIGHT

    def code(self, landmarks: FaceLandmarks, weights: np.ndarray, time_ns: int, sequence: int) -> MotionCode:
        """The motion code of this frame. weights: (52,) from the blendshape network."""
        basis = landmark_basis(self.model)
        points = landmarks.points_px[:MESH_POINTS, :2]
        model = basis.template + self._shape + np.tensordot(weights, basis.shapes, 1)
        self._solve(model, points, landmarks.iod_px)
        self._learn_shape(model, points)
        rotation = CV_TO_WORLD @ self._rotation
        place = CV_TO_WORLD @ self._translation + rotation @ NECK_M
        if self._rest is None:
            self._rest = place
        eyes_sure = self._eyes.measure(landmarks.points_px, weights, basis.eye_places, self.head)
        # The irises are seen; the network's look weights are guesses that stand at a half for level eyes, and would lower lids.
        weights = looking(weights, self._eyes.angles)
        seen = landmarks.presence, eyes_sure
        return code_of(weights, rotation, place - self._rest, self._eyes.angles, seen, time_ns, sequence)

    @property
    def head(self) -> Pinhole:
        """Where the head was in the last frame."""
        return Pinhole(self._rotation, self._translation, self.intrinsics)

    def _solve(self, model: np.ndarray, points: np.ndarray, iod_px: float) -> None:
        if not self._posed:
            self._posed = True
            _, turn, shift = cv2.solvePnP(model, np.ascontiguousarray(points), self.intrinsics, None, flags=cv2.SOLVEPNP_SQPNP)
            self._rotation, self._translation = cv2.Rodrigues(turn)[0], shift.ravel()
            if not self._translation[2] > 0:
                self._rotation, self._translation = CV_TO_WORLD.copy(), np.array([0.0, 0.0, 0.6])
        focal, centre = self.intrinsics[0, 0], self.intrinsics[:2, 2]
        scale = ROBUST_PX_PER_IOD * iod_px
        for _ in range(POSE_STEPS):
            turned = model @ self._rotation.T
            local = turned + self._translation
            depth = np.maximum(local[:, 2:], 0.05)
            residual = points - (local[:, :2] / depth * focal + centre)
            distance = np.linalg.norm(residual, axis=1)
            weight = np.sqrt(self._weight / np.sqrt(1 + (distance / scale) ** 2))
            rows = (pose_rows(turned, local[:, :2] / depth, focal / depth) * weight[:, None, None]).reshape(-1, 6)
            step = np.linalg.solve(rows.T @ rows + RIDGE, rows.T @ (residual * weight[:, None]).ravel())
            self._rotation = cv2.Rodrigues(step[:3])[0] @ self._rotation
            self._translation = self._translation + step[3:]
            if np.abs(step).max() < SETTLED:
                break
        self.residual_iod = float(np.average(distance, weights=self._weight) / max(iod_px, 1e-6))

    def _learn_shape(self, model: np.ndarray, points: np.ndarray) -> None:
        """Move the landmarks toward where this person has them, a running mean over the first frames that face the camera.

        Only along the picture plane: depth cannot be seen. The mean shift and size stay the average head's, so that pose and
        shape cannot trade places.
        """
        if self._shape_count >= SHAPE_FRAMES or (CV_TO_WORLD @ self._rotation)[2, 2] < SHAPE_MIN_COSINE:
            return
        local = model @ self._rotation.T + self._translation
        wanted = (points - self.intrinsics[:2, 2]) / self.intrinsics[0, 0] * local[:, 2:]
        shift = np.column_stack([wanted - local[:, :2], np.zeros(len(model))]) @ self._rotation
        base = landmark_basis(self.model).template
        middle = (shift * self._weight[:, None]).sum(0) / self._weight.sum()
        spread = base - (base * self._weight[:, None]).sum(0) / self._weight.sum()
        shift = shift - middle
        size = (self._weight[:, None] * shift * spread).sum() / (self._weight[:, None] * spread * spread).sum()
        self._shape_count += 1
        self._shape = self._shape + (shift - size * spread) / (self._shape_count + 1)


def code_of(
    weights: np.ndarray,
    rotation: np.ndarray,
    translation: np.ndarray,
    eyes: np.ndarray,
    seen: tuple[float, float],
    time_ns: int,
    sequence: int,
) -> MotionCode:
    """The motion code of a tracked face: a tongue is never seen, and a face that is turned away is seen less.

    weights (52,), the eyeLook weights among them those of the gaze. rotation (3, 3) and translation (3,) m to the world. eyes
    (2, 2): the lines of sight. seen: how sure it is that there is a face, and how much of its eyes shows, both 0 to 1.
    """
    presence, eyes_sure = seen
    sure = presence * float(np.clip(rotation[2, 2], 0, 1))
    return MotionCode(
        weights=weights,
        rotation=matrix_quaternion(rotation),
        translation=translation,
        gaze=eyes - look_angles(weights),
        confidence=np.array([sure, sure * eyes_sure, sure, 0.0, presence]),
        time_ns=time_ns,
        sequence=sequence,
    )
