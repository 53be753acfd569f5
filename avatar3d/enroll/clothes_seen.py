"""What a photo shows of clothes: its picture about head and shoulders, what of it is cloth, and how far it shows points of a bust."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.color import srgb_to_linear
from avatar3d.enroll.bust import grid_normals
from avatar3d.enroll.crop import WorkPicture, between, crop
from avatar3d.enroll.masks import guided_filter
from avatar3d.enroll.seen import posed_as_photographed, sample
from avatar3d.enroll.segment import Segmentation
from avatar3d.enroll.surface import depth_map
from avatar3d.face.landmarks import FACE_OVAL, FaceLandmarks
from avatar3d.face.matte import person_matte
from avatar3d.fitting.fit import FaceFit
from avatar3d.geometry import smoothstep
from avatar3d.head.model import HeadModel

VIEW_M = 0.72  # side of the picture that clothes are read from, about the head
IOD_PX = (40.0, 80.0)  # of that picture: a texel of the bust is 1.1 mm, a pixel 0.8
SHRINK = 2  # what is what about the shoulders needs no finer picture than half of that
FACING_FROM, FACING_FULL = 0.12, 0.40  # cosine to the viewing ray: below, pixels are stretched
OCCLUSION_M = 0.008  # behind the head by more than this is hidden
SKIN_TOLERANCE = 3.2  # robust deviations of the face's hue
SHADE_RANGE = (0.22, 1.35)  # of the face's lightness: darker is cloth or hair, brighter is cloth
LEAST_HUE_SPREAD, LEAST_LIGHT = 0.045, 0.01  # log ratio of channels; linear


@dataclass(frozen=True)
class Photo:
    """picture: about head and shoulders; small: the same SHRINK times smaller, and of its pixels (h, w) each: matte, cloth, hair in
    [0, 1], cloth: what of the person is neither skin nor hair; depth: metres to the head."""

    picture: WorkPicture
    small: WorkPicture
    matte: np.ndarray
    cloth: np.ndarray
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
    hair = between(segmentation.hair_alpha, coarse, small)
    cloth = find_cloth(small, matte, hair)
    posed = posed_as_photographed(fit, head)
    over = (head.regions["bust"] == 0)[head.faces].all(1)
    return Photo(picture, small, matte, cloth, hair, depth_map(posed, head.faces[over], small.camera))


def find_cloth(picture: WorkPicture, matte: np.ndarray, hair: np.ndarray) -> np.ndarray:
    """(H, W) f32 in [0, 1]: the person below the chin that has not the hue of the face's skin, nor is hair."""
    size = picture.rgb.shape[:2]
    face = np.zeros(size, np.uint8)
    cv2.fillPoly(face, [np.round(picture.landmarks_px[list(FACE_OVAL), :2]).astype(np.int32)], 1)
    unit = float(np.linalg.norm(picture.landmarks_px[468, :2] - picture.landmarks_px[473, :2]))
    core = cv2.erode(face, np.ones((2 * round(0.1 * unit) + 1,) * 2, np.uint8)) > 0
    rows = np.arange(size[0])[:, None]
    core &= (rows > picture.landmarks_px[[468, 473], 1].mean()) & (hair < 0.1)
    linear = np.maximum(srgb_to_linear(cv2.GaussianBlur(picture.rgb, (0, 0), max(0.3, 0.02 * unit))), LEAST_LIGHT)
    log = np.log(linear)
    hue = np.stack([log[..., 0] - log[..., 1], log[..., 1] - log[..., 2]], -1)
    light = log.mean(-1)
    middle, usual_light = np.median(hue[core], axis=0), float(np.median(light[core]))
    spread = np.maximum(1.48 * np.median(np.abs(hue[core] - middle), axis=0), LEAST_HUE_SPREAD)
    off = np.sqrt((((hue - middle) / spread) ** 2).sum(-1)) / SKIN_TOLERANCE
    low, high = (usual_light + np.log(share) for share in SHADE_RANGE)
    off = np.maximum(off, 1 + np.maximum(low - light, light - high) / 0.15)
    chin = picture.landmarks_px[152, 1]
    cloth = np.clip(2 * (off - 0.75), 0, 1) * (rows > chin)
    cloth = guided_filter(picture.rgb / np.float32(255), cloth.astype(np.float32), max(2, round(0.06 * unit)), 1e-3)
    return (cloth * (1 - face) * np.clip(matte * 1.2, 0, 1) * (1 - np.clip(2 * hair, 0, 1))).astype(np.float32)


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
    at = np.clip(pixels.astype(int), 0, camera.width - 1)
    near = cv2.erode(np.where(np.isfinite(photo.depth), photo.depth, 1e3).astype(np.float32), side)
    trust *= depth < near[at[:, 1], at[:, 0]] + OCCLUSION_M
    return Seen(SHRINK * pixels.reshape(*points.shape[:2], 2), trust.reshape(points.shape[:2]))
