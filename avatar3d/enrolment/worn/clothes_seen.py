"""What a photo shows of clothes: its picture about head and shoulders, what of it is cloth, and how far it shows points of a bust."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.enrolment.photo.crop import WorkPicture, between, crop
from avatar3d.enrolment.photo.masks import guided_filter
from avatar3d.enrolment.photo.parse_frame import face_frame
from avatar3d.enrolment.photo.parse_skin import find_clothes, find_hands, find_neck, skin_colour
from avatar3d.enrolment.photo.segment import PERSON, Segmentation
from avatar3d.enrolment.skin.projection import posed_as_photographed, sample
from avatar3d.enrolment.skin.surface import depth_map
from avatar3d.enrolment.worn.bust import grid_normals
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.matte import person_matte
from avatar3d.fitting.fit import FaceFit
from avatar3d.geometry import smoothstep
from avatar3d.head.model import HeadModel

VIEW_M = 0.72  # side of the picture that clothes are read from, about the head
IOD_PX = (40.0, 80.0)  # of that picture: a texel of the bust is 1.1 mm, a pixel 0.8
SHRINK = 2  # what is what about the shoulders needs no finer picture than half of that
FACING_FROM, FACING_FULL = 0.12, 0.40  # cosine to the viewing ray: below, pixels are stretched
OCCLUSION_M = 0.008  # behind the head by more than this is hidden
HAIR = 0.3  # alpha from which on hair, or a beard, hides what is behind it
EDGE_PX = 5.0  # for the segmentation's distance between the eyes: reach of the soft edge


@dataclass(frozen=True)
class Photo:
    """picture: about head and shoulders; small: the same SHRINK times smaller. Of its pixels (h, w): matte, cloth, skin, hair in
    [0, 1]: the person, what the segmentation calls clothes, bare skin below the face, hair and beards; depth: metres to the head.
    """

    picture: WorkPicture
    small: WorkPicture
    matte: np.ndarray
    cloth: np.ndarray
    skin: np.ndarray
    hair: np.ndarray
    depth: np.ndarray

    def at(self, values: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """Samples of (h, w) values at the picture's pixels (..., 2)."""
        return sample(values, pixels.reshape(-1, 2) / SHRINK).reshape(pixels.shape[:-1])


def look_at_clothes(
    rgb: np.ndarray, landmarks_px: np.ndarray, fit: FaceFit, head: HeadModel, coarse: WorkPicture, segmentation: Segmentation
) -> Photo:
    """What a (H, W, 3) u8 photo shows of head and shoulders; coarse, segmentation: of its head."""
    iod = float(np.clip(fit.iod_px, *IOD_PX))
    metres = float(np.linalg.norm(np.diff(head.eye_centres(fit.neutral_vertices), axis=0)))
    picture = crop(rgb, fit.camera, landmarks_px, iod, 16 * round(iod * VIEW_M / metres / 16))
    small = crop(rgb, fit.camera, landmarks_px, iod / SHRINK, picture.camera.width // SHRINK)
    matte = person_matte(small.rgb, FaceLandmarks(small.landmarks_px, 1.0))
    beard = between(segmentation.labels.beard.astype(np.float32), coarse, small)
    hair = np.maximum(between(segmentation.hair_alpha, coarse, small), beard)
    cloth, skin = _clothes_and_skin(small, matte, hair > HAIR)
    posed = posed_as_photographed(fit, head)
    over = (head.regions["bust"] == 0)[head.faces].all(1)
    return Photo(picture, small, matte, cloth, skin, hair, depth_map(posed, head.faces[over], small.camera))


def _clothes_and_skin(picture: WorkPicture, matte: np.ndarray, hair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(h, w) in [0, 1] each, soft along the picture's edges: clothes and bare skin below the face, as the segmentation tells them,
    whose own picture ends above the hem."""
    points = np.asarray(picture.landmarks_px, np.float64)[:, :2]
    frame = face_frame(points, matte.shape)
    colour = skin_colour(picture.rgb, frame, points)
    person = (matte > PERSON) & picture.inside
    taken = hair | (frame.face & person)
    neck = find_neck(colour, person, taken, frame)
    taken |= neck
    taken |= find_hands(colour, person, taken, frame)
    guide, radius = picture.rgb / np.float32(255), max(2, round(EDGE_PX * frame.unit))
    cloth, skin = (
        guided_filter(guide, part.astype(np.float32), radius, 1e-3) * np.clip(1.2 * matte, 0, 1)
        for part in (find_clothes(person, taken, frame), neck)
    )
    return cloth, skin


@dataclass(frozen=True)
class Seen:
    """pixels: (..., 2). trust: (...) in [0, 1], how far the photo shows the point."""

    pixels: np.ndarray
    trust: np.ndarray


def seen_on(photo: Photo, points: np.ndarray) -> Seen:
    """What the photo shows of a grid of points (R, C, 3)."""
    camera = photo.small.camera
    pixels, depth = camera.project(points.reshape(-1, 3))
    toward = camera.center - points
    facing = (grid_normals(points) * toward).sum(-1) / np.linalg.norm(toward, axis=-1)
    trust = smoothstep(FACING_FROM, FACING_FULL, facing).ravel()
    trust = trust * ((pixels > 1) & (pixels < camera.width - 1)).all(1)
    trust *= sample(photo.small.inside.astype(np.float32), pixels) > 0.99
    side = np.ones((3, 3), np.uint8)
    trust *= smoothstep(0.6, 0.9, sample(cv2.erode(photo.matte, np.ones((5, 5), np.uint8)), pixels))
    trust *= 1 - smoothstep(0.15, 0.4, sample(cv2.dilate(photo.hair, side), pixels))
    trust *= smoothstep(0.3, 0.6, sample(photo.cloth + photo.skin, pixels))
    at = np.clip(pixels.astype(int), 0, camera.width - 1)
    near = cv2.erode(np.where(np.isfinite(photo.depth), photo.depth, 1e3).astype(np.float32), side)
    trust *= depth < near[at[:, 1], at[:, 0]] + OCCLUSION_M
    return Seen(SHRINK * pixels.reshape(*points.shape[:2], 2), trust.reshape(points.shape[:2]))
