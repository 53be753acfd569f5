"""A painted portrait whose hair, face and camera are known, so that segmentation and hair need no photo and no network."""

from dataclasses import dataclass
from types import SimpleNamespace

import cv2
import numpy as np

from avatar3d.camera import Camera
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.face.hair import HairSeen
from avatar3d.head.model import HeadModel

SIZE, IOD_PX = 640, 88.0
DISTANCE_M, EYES_APART_M = 1.4, 0.062
SKIN, HAIR, BACKDROP = (205, 160, 135), (60, 42, 30), (120, 140, 170)
HAIR_STANDS_M = 0.015


@dataclass
class PaintedHead:
    work: WorkPicture
    matte: np.ndarray
    hair: np.ndarray
    fit: SimpleNamespace
    head: HeadModel

    @property
    def hair_seen(self) -> HairSeen:
        """What the hair network would answer: paint is not what it was trained on."""
        return HairSeen(cv2.GaussianBlur(self.hair.astype(np.float32), (0, 0), 1.5), 1.0)


def paint(hair: tuple[int, int, int] | None = HAIR) -> PaintedHead:
    """The average head, its cranium under a cap of `hair` colour that stands HAIR_STANDS_M off; None leaves it bald."""
    head = HeadModel.default()
    vertices = head.vertices.astype(np.float64)
    focal = IOD_PX * DISTANCE_M / EYES_APART_M
    intrinsics = np.array([[focal, 0, SIZE / 2], [0, focal, SIZE / 2], [0, 0, 1]])
    camera = Camera(SIZE, SIZE, intrinsics, np.diag([1.0, -1.0, -1.0]), np.array([0, 0, DISTANCE_M]))
    eyes = head.eye_centres(vertices)
    points = np.vstack([head.landmark_points(vertices), np.repeat(eyes[[1]], 5, 0), np.repeat(eyes[[0]], 5, 0)])
    pixels, depth = camera.project(points)
    landmarks = np.c_[pixels, (depth - DISTANCE_M) * focal / DISTANCE_M]

    bare = _silhouette(camera, vertices[head.faces[head.part == 0]])
    person, cap = bare, np.zeros_like(bare)
    if hair is not None:
        centre = np.array([0.0, vertices[:, 1].max() - 0.088, vertices[:, 2].mean()])
        grown = vertices + HAIR_STANDS_M * (vertices - centre) / np.linalg.norm(vertices - centre, axis=1, keepdims=True)
        cranium = head.faces[(head.part == 0) & (vertices[head.faces][..., 1].min(1) > 0.035)]
        cap = _silhouette(camera, grown[cranium])
        forehead = camera.project(np.array([[0.0, 0.055, vertices[:, 2].max()]]))[0][0, 1]
        cap &= ~(bare & (np.arange(SIZE)[:, None] > forehead))
        person = bare | cap
    rng = np.random.default_rng(0)
    picture = np.empty((SIZE, SIZE, 3), np.float32)
    picture[:] = BACKDROP
    picture[bare] = SKIN
    picture[cap] = hair if hair is not None else SKIN
    strands = cv2.GaussianBlur(rng.normal(size=(SIZE, SIZE)).astype(np.float32), (0, 0), sigmaX=0.8, sigmaY=6)
    picture += np.where(cap, 8 * strands / strands.std(), 2 * rng.normal(size=(SIZE, SIZE)))[..., None]
    picture = np.clip(cv2.GaussianBlur(picture, (0, 0), 0.8), 0, 255).astype(np.uint8)
    matte = cv2.GaussianBlur(person.astype(np.float32), (0, 0), 1.5)
    work = WorkPicture(picture, camera, landmarks, np.eye(2, 3), np.ones((SIZE, SIZE), bool))
    return PaintedHead(work, matte, cap, SimpleNamespace(vertices=vertices, neutral_vertices=vertices), head)


def _silhouette(camera: Camera, triangles: np.ndarray) -> np.ndarray:
    mask = np.zeros((SIZE, SIZE), np.uint8)
    for triangle in camera.project(triangles)[0]:
        cv2.fillConvexPoly(mask, np.round(triangle * 16).astype(np.int32), 1, shift=4)
    return cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8)) > 0
