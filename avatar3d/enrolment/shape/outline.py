"""The skin's outline, ears and cheeks and jaw, moved onto the person's in the photo where skin and not hair forms it.

Landmarks fix the face; between them and the outline the fit has only its prior. What is left is taken up here by a smooth
displacement parallel to the picture, which dies out toward the features of the face.
"""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from scipy.spatial import cKDTree

from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import coloured_like, look_up
from avatar3d.enrolment.photo.metrics import face_height
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.enrolment.skin.projection import posed_as_photographed
from avatar3d.fitting.fit import FaceFit
from avatar3d.geometry import smoothstep
from avatar3d.head.mediapipe import BROWS, LEFT_EYE, LIPS_OUTER, NOSE, RIGHT_EYE
from avatar3d.head.model import SKIN, HeadModel

# Reach of the displacement's kernel, round by round: first the whole flank, then what an ear's rim lacks.
KERNELS_M = (0.020, 0.014, 0.010, 0.007, 0.007)
EVIDENCE = 0.35  # pull back to no displacement, against the kernel weights of the outline's vertices
MAX_STEP_M, MAX_MOVE_M = 0.012, 0.008  # how far an outline is looked for, and how far anything moves in all
# Over the brows bone is under the skin, which the scans' shapes know: there what lies farther out is a hand, a hat, a lock.
MAX_SKULL_MOVE_M, SKULL_FROM_M = 0.004, (0.015, 0.045)  # heights over the eyes over which that limit sets in
RIM_PX = 1.2  # vertices this near to the drawn outline form it
STEP_PX = 0.5
# What fits and landmarks leave over at an outline is a few millimetres. More is believed only where the outline found is of the
# face's colour (an ear was pulled to a neighbour's, temples to a tuft of hair), and where its neighbours say so too.
NEAR_STEP_M = 0.004
AGREE_REACH_M, AGREE_M = 0.020, 0.004
LOWEST = 0.05  # on the face's axis (0 chin, 1 top of the forehead): below it come collars
PLAIN_FROM = 0.35  # under this height the outline must be of the face's colour too: a beard of another's, a collar
HAIR_NEAR_PX, HAIR_FROM = 4.0, 0.3  # an outline with hair, a hat or a hand this near is theirs
FEATURES_M = (0.010, 0.026)  # distance to eyes, brows, nose and lips from which on skin moves, and moves freely
MATTE_LEVEL = 0.5


def meet_outline(fit: FaceFit, head: HeadModel, work: WorkPicture, segmentation: Segmentation) -> FaceFit:
    """The fit whose skin ends where the person does; what only one side shows is copied to the other, mirrored."""
    skin = np.flatnonzero(head.vertex_part == SKIN)
    posed = posed_as_photographed(fit, head).astype(np.float64)
    faces = head.faces[head.part == SKIN]
    free = _free(posed, head)[skin]
    judge = _Judge(work, segmentation)
    most = MAX_MOVE_M + (MAX_SKULL_MOVE_M - MAX_MOVE_M) * smoothstep(*SKULL_FROM_M, fit.vertices[skin, 1])[:, None]
    move, known = np.zeros((len(skin), 3)), np.zeros(len(skin))
    current = posed.copy()
    for reach in KERNELS_M:
        current[skin] = posed[skin] + move
        rim, step = judge.steps(current, faces, posed)
        if not len(rim):
            break
        kernel = np.exp(-((_distances(current[skin], current[rim]) / reach) ** 2))
        total = kernel.sum(1)
        move += (kernel @ step) / (total + EVIDENCE)[:, None] * free[:, None]
        length = np.linalg.norm(move, axis=1, keepdims=True)
        move *= np.minimum(1.0, most / np.maximum(length, 1e-9))
        known = np.maximum(known, total / (total + EVIDENCE))
    _, twin = cKDTree(head.vertices[skin]).query(head.vertices[skin] * (-1, 1, 1))
    move += ((1 - known) * known[twin])[:, None] * (move[twin] * (-1, 1, 1))
    offset = np.zeros(fit.vertices.shape, np.float32)
    offset[skin] = move
    return replace(fit, vertices=fit.vertices + offset, neutral_vertices=fit.neutral_vertices + offset)


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(N, M) metres between (N, 3) and (M, 3) points."""
    square = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * (a @ b.T)
    return np.sqrt(np.maximum(square, 0.0))


def _free(posed: np.ndarray, head: HeadModel) -> np.ndarray:
    """(V,) in [0, 1]: how freely each vertex may move, 0 at the features of the face that landmarks fix."""
    features = head.landmark_points(posed)[[*RIGHT_EYE, *LEFT_EYE, *BROWS, *LIPS_OUTER, *NOSE]]
    distance, _ = cKDTree(features).query(posed)
    return np.clip((distance - FEATURES_M[0]) / (FEATURES_M[1] - FEATURES_M[0]), 0, 1)


class _Judge:
    """What the photo says about outlines: where the person ends, and where that end is skin."""

    def __init__(self, work: WorkPicture, segmentation: Segmentation) -> None:
        self._camera = work.camera
        self._matte = segmentation.matte
        side = 2 * round(HAIR_NEAR_PX) + 1
        labels = segmentation.labels
        hair = np.maximum(segmentation.hair_alpha, segmentation.hair_mask | labels.hand | labels.hat)
        hairy = cv2.dilate(hair.astype(np.float32), cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)))
        height = face_height(work.landmarks_px, work.rgb.shape)
        plain = coloured_like(work.rgb, segmentation.face_mask)
        usable = work.inside & (height > LOWEST) & ((height > PLAIN_FROM) | plain)
        self._skin = (usable & (hairy < HAIR_FROM)).astype(np.float32)
        self._plain = plain.astype(np.float32)

    def steps(self, vertices: np.ndarray, faces: np.ndarray, fitted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """((M,) vertices on the outline of the (V, 3) drawn faces, (M, 3) metres to the person's outline across it).

        fitted: (V, 3), where they stood before they were moved at all.
        """
        pixels, depth = self._camera.project(vertices)
        covered = drawn(pixels[faces], self._matte.shape).astype(np.uint8)
        inner = cv2.distanceTransform(covered, cv2.DIST_L2, 5)
        rim = np.unique(faces)
        rim = rim[(look_up(inner, pixels[rim]) < RIM_PX)]
        smooth = cv2.GaussianBlur(covered.astype(np.float32), (0, 0), 3.0)
        outward = -np.stack([look_up(cv2.Sobel(smooth, cv2.CV_32F, *axis), pixels[rim]) for axis in ((1, 0), (0, 1))], 1)
        length = np.linalg.norm(outward, axis=1)
        rim, outward = rim[length > 1e-3], (outward / np.maximum(length, 1e-9)[:, None])[length > 1e-3]
        scale = depth[rim] / self._camera.intrinsics[0, 0]  # metres a pixel
        reach = np.arange(-1.0, 1.0 + 1e-9, STEP_PX * float(scale.mean()) / MAX_STEP_M) * MAX_STEP_M
        ray = pixels[rim, None] + outward[:, None] * (reach / scale[:, None])[..., None]
        person = look_up(self._matte, ray)
        leaves = (person[:, :-1] > MATTE_LEVEL) & (person[:, 1:] <= MATTE_LEVEL)
        nearest = np.where(leaves, np.abs(reach[:-1]), np.inf).argmin(1)
        row = np.arange(len(rim))
        inside, outside = person[row, nearest], person[row, nearest + 1]
        share = np.clip((inside - MATTE_LEVEL) / np.maximum(inside - outside, 1e-6), 0, 1)
        step = reach[nearest] + share * (reach[1] - reach[0])
        step -= np.maximum(look_up(inner, pixels[rim]) - 0.5, 0) * scale  # from the drawn outline, not from a vertex inside it
        end = pixels[rim] + outward * (step / scale - 2.0)[:, None]
        found = leaves[row, nearest] & (look_up(self._skin, end) > 0.5) & (look_up(self._skin, pixels[rim]) > 0.5)
        across = np.c_[outward, np.zeros(len(rim))] @ self._camera.rotation  # camera axes to the head's
        moved = across * step[:, None]
        away = np.linalg.norm(vertices[rim] + moved - fitted[rim], axis=1)
        found &= (away < NEAR_STEP_M) | (look_up(self._plain, end) > 0.5)
        found &= _agrees(vertices[rim], step, found)
        return rim[found], moved[found]


def _agrees(places: np.ndarray, step: np.ndarray, found: np.ndarray) -> np.ndarray:
    """(M,) bool: whose step (M,) is near the median of those found within AGREE_REACH_M of its place (M, 3)."""
    near = (_distances(places, places) < AGREE_REACH_M) & found
    middle = np.ma.median(np.ma.masked_array(np.broadcast_to(step, near.shape), ~near), axis=1).filled(0.0)  # type: ignore[no-untyped-call]
    return np.abs(step - middle) < AGREE_M


def drawn(corners_px: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(H, W) bool: pixels under any of (N, 3, 2) triangles."""
    covered = np.zeros(shape, np.uint8)
    for triangle in np.round((corners_px - 0.5) * 16).astype(np.int32):
        cv2.fillConvexPoly(covered, triangle, 1, cv2.LINE_8, 4)
    return covered > 0
