"""The ears, which no landmark sees: turned out and scaled until their outline meets the person's in the photo."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import cv2
import numpy as np

from avatar3d.camera import Camera
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import closed, coloured_like, grown
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.enrolment.shape.outline import drawn
from avatar3d.enrolment.skin.surface import depth_map
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.model import SKIN, HeadModel

FLARES_RAD = np.radians([-8.0, 0.0, 8.0, 16.0, 24.0])  # about the vertical through the ear's root, outward
SCALES = (0.8, 0.9, 1.0, 1.1, 1.2)  # adults' ears are 63 ± 5 mm long
RISES_M = (-0.009, -0.006, -0.003, 0.0, 0.003, 0.006)  # of the whole ear along the head's vertical
OWN_PENALTY = 0.010  # share of the pixels looked at, for a step of turn or rise: outlines that say nothing leave ears alone
# Half as much for an ear one deviation larger or smaller than the head foretells, growing with the square: hair behind an
# ear, which no mask knows, makes ears of 80 mm.
SIZE_PENALTY, SIZE_SPREAD = 0.005, 0.08
ROOT = (0.05, 0.5)  # of the region's weight: where an ear grows out of the head
MARGIN_M = 0.012  # about the ears within which outlines are compared
BELOW_M = 0.006  # and this far under the lobe
MIN_FREE_SHARE = 0.7  # of a side's pixels that hair leaves free; an ear under more hair is not judged
MATTE_LEVEL = 0.5
# An ear is there to be met where this share of it, as the model lays it, has the face's colour: hair beside the face that no
# mask knows, a scarf, a neighbour are no ear.
BARE_SHARE = 0.5
# An ear that the cheek hides says nothing by its outline: of its surface this share at least lies before everything else.
MIN_SEEN, OCCLUSION_M = 0.2, 0.004
# What of the person is an ear's skin: the face's colour, or redder; hollows narrower than this are filled. A collar is none.
# And its rim, whose colour is mixed with what lies behind.
HOLLOW_PX, RIM_PX = 9.0, 5.0


def fit_ears(fit: FaceFit, head: HeadModel, work: WorkPicture, segmentation: Segmentation) -> FaceFit:
    """The fit with both ears turned and scaled alike, as the outline of the sides that the photo shows asks for."""
    sides = [side for side in (_Side.of(sign, fit, head, work, segmentation) for sign in (-1, 1)) if side is not None]
    if not sides:
        return fit

    def cost(flare: float, scale: float, rise: float) -> float:
        offset = ear_offsets(fit.vertices, head, flare, scale, rise)
        seen = float(np.mean([side.mismatch(fit.vertices + offset) for side in sides]))
        steps = abs(flare) / FLARES_RAD[2] + abs(rise) / RISES_M[-2]
        return seen + OWN_PENALTY * steps + SIZE_PENALTY * ((scale - 1) / SIZE_SPREAD) ** 2

    best = min(product(FLARES_RAD.tolist(), SCALES, (0.0,)), key=lambda ear: cost(*ear))
    best = min(product((best[0],), SCALES, RISES_M), key=lambda ear: cost(*ear))
    best = min(product(FLARES_RAD.tolist(), (best[1],), (best[2],)), key=lambda ear: cost(*ear))
    offset = ear_offsets(fit.vertices, head, *best)
    return replace(fit, vertices=fit.vertices + offset, neutral_vertices=fit.neutral_vertices + offset)


def ear_offsets(vertices: np.ndarray, head: HeadModel, flare_rad: float, scale: float, rise_m: float = 0.0) -> np.ndarray:
    """(V, 3) f32 metres: both ears of (V, 3) vertices turned out by flare_rad and scaled, each about its root, and raised."""
    weight = head.regions["ears"]
    offset = np.zeros(vertices.shape)
    for sign in (-1, 1):
        ear = (weight > 0) & (np.sign(vertices[:, 0]) == sign)
        root = vertices[ear & (weight > ROOT[0]) & (weight < ROOT[1])].mean(0)
        cosine, sine = np.cos(flare_rad), np.sin(flare_rad) * sign
        turn = np.array([[cosine, 0, -sine], [0, 1, 0], [sine, 0, cosine]])
        moved = (vertices[ear] - root) @ (scale * turn).T + root + (0, rise_m, 0)
        offset[ear] = weight[ear, None] * (moved - vertices[ear])
    return offset.astype(np.float32)


class _Side:
    """One side's box in the work picture: the person there, and which pixels are compared."""

    def __init__(self, faces: np.ndarray, work: WorkPicture, person: np.ndarray, judged: np.ndarray) -> None:
        self._faces, self._camera = faces, work.camera
        self._person, self._judged = person, judged

    @classmethod
    def of(cls, sign: int, fit: FaceFit, head: HeadModel, work: WorkPicture, segmentation: Segmentation) -> _Side | None:
        """None where the photo hides the ear, or hair lies over it."""
        ear = (head.regions["ears"] > 0.5) & (np.sign(fit.vertices[:, 0]) == sign)
        pixels, depth = work.camera.project(fit.vertices[ear].astype(np.float64))
        margin = MARGIN_M * work.camera.intrinsics[0, 0] / float(depth.mean())
        low, high = pixels.min(0), pixels.max(0)
        # Below the lobe come the collar and the neck, inside of the ear the face: neither says anything.
        columns = np.arange(work.camera.width) + 0.5
        rows = np.arange(work.camera.height)[:, None] + 0.5
        box = (columns > low[0] - margin) & (columns < high[0] + margin) & work.inside
        box &= (rows > low[1]) & (rows < high[1] + BELOW_M / MARGIN_M * margin)
        over = (segmentation.hair_alpha > 0.3) | segmentation.labels.hand | segmentation.labels.hat
        hair = cv2.dilate(over.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
        if not box.any() or (box & hair).sum() > (1 - MIN_FREE_SHARE) * box.sum():
            return None
        middle = float(fit.vertices[head.vertex_part == SKIN, 2].mean())
        toward = work.camera.center - np.array([0, 0, middle])
        if sign * np.arctan2(toward[0], toward[2]) < -np.radians(20.0):
            return None  # the head is turned, and this ear lies behind the cheek
        near = np.sign(fit.vertices[:, 0]) == sign
        lobe = head.faces[(head.part == SKIN) & ear[head.faces].all(1)]
        model = drawn(work.camera.project(fit.vertices.astype(np.float64))[0][lobe], box.shape) & box & ~hair
        bare = coloured_like(work.rgb, segmentation.face_mask, redder=True)
        if not model.any() or bare[model].mean() < BARE_SHARE or _seen_share(fit, head, work.camera, ear) < MIN_SEEN:
            return None
        faces = head.faces[(head.part == SKIN) & near[head.faces].all(1)]
        return cls(faces, work, (segmentation.matte > MATTE_LEVEL) & closed(grown(bare, RIM_PX), HOLLOW_PX), box & ~hair)

    def mismatch(self, vertices: np.ndarray) -> float:
        """Share of the judged pixels that only one of model and photo covers."""
        pixels = self._camera.project(vertices.astype(np.float64))[0]
        corners = pixels[self._faces]
        ys, xs = np.nonzero(self._judged)
        within = (corners[..., 0].max(1) > xs.min()) & (corners[..., 0].min(1) < xs.max())
        within &= (corners[..., 1].max(1) > ys.min()) & (corners[..., 1].min(1) < ys.max())
        return float((drawn(corners[within], self._judged.shape) ^ self._person)[self._judged].mean())


def _seen_share(fit: FaceFit, head: HeadModel, camera: Camera, ear: np.ndarray) -> float:
    """Share of the vertices (V,) bool that nothing of the head hides from the camera."""
    surface = depth_map(fit.vertices.astype(np.float64), head.faces[head.part == SKIN], camera)
    pixels, depth = camera.project(fit.vertices[ear].astype(np.float64))
    column, row = (np.clip(pixels.astype(int), 0, (camera.width - 1, camera.height - 1))).T
    return float((depth < surface[row, column] + OCCLUSION_M).mean())
