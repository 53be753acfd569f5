"""One frame's expression and pose, solved from the landmarks on the tracked person's own head; knows nothing of pictures.

The blendshape network says how a face looks to it, and that differs from person to person: lips follow the truth with
correlation −.02 to .99 and half its size. On the person's own head the landmarks themselves say how far lids and lips are open; the
network's answer is left as the prior, for what landmarks do not show.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.fitting.fit import ROBUST_MM, FaceFit
from avatar3d.fitting.solver import descend
from avatar3d.fitting.weights import most_weights, opposed_penalty
from avatar3d.head.mediapipe import (
    BROWS,
    EYE_CORNERS,
    FACE_OVAL,
    INNER_LIPS,
    LEFT_EYE,
    LID_PAIRS,
    LIP_PAIRS,
    LIPS_OUTER,
    MESH_POINTS,
    MOUTH_CORNERS,
    MOUTH_ENDS,
    RIGHT_EYE,
    STABLE,
)
from avatar3d.head.model import HeadModel
from avatar3d.jit import njit
from avatar3d.motion.code import LOOK_INDICES
from avatar3d.tracking.gaze import EyePlaces

MM = 1000.0
ROUNDS = 1  # of linearisation from the last frame's answer; a second changes the openings by less than 0.1 %
FIRST_ROUNDS = 40  # from rest, at most: until no weight and no turn changes by more than STILL
STILL = 1e-3  # of a weight, and radians
SWEEPS = 40  # of descent in a round at most; it starts at the last answer, and with 12 weakly told weights lag by 0.1 for some frames
PRIOR_SIGMA = 0.5  # of a weight about the network's moved answer, against residuals in mm
POSE_RIDGE = np.array([1e-2] * 3 + [1e-6] * 3)  # keeps the pose's normal matrix regular; 1e-6 of what the landmarks say
OUTLINE_WEIGHT = 0.3  # outline points slide on the silhouette
LIP_WEIGHT, LID_WEIGHT, BROW_WEIGHT, CORNER_WEIGHT = 2.5, 2.5, 1.6, 2.0
LID_GAP_WEIGHT, LIP_GAP_WEIGHT = 12.0, 2.0
# The points that a frame is solved by: all that say where lids, lips and brows are, those that hold still, and of the rest, which
# lie close together, every fourth with the weight of four. A frame takes half the time, its openings change by less than 0.1 %.
LIDS, LIPS = (*RIGHT_EYE, *LEFT_EYE), (*LIPS_OUTER, *INNER_LIPS, *MOUTH_ENDS)
TOLD = sorted({*LIDS, *LIPS, *BROWS, *STABLE, *FACE_OVAL})
OTHERS = [place for place in range(MESH_POINTS) if place not in TOLD][::4]
PLACES = np.array(sorted([*TOLD, *OTHERS]))
LOOKS = tuple(place for eye in LOOK_INDICES for place in eye)


@dataclass(frozen=True)
class PersonHead:
    """What a frame is solved on: one person's landmarks, those of PLACES, at rest and how far each weight moves them.

    rest (P, 3), shapes (52, P, 3): mm, head frame. upper (52,): the weights' bounds; the lower ones are zero.
    network, weights (52,): what the blendshape network said of the frame that taught the head, and what is true of it there, so
    that the network's answers can be moved. eyes: for measuring the gaze.
    """

    rest: np.ndarray
    shapes: np.ndarray
    upper: np.ndarray
    point_weight: np.ndarray
    network: np.ndarray
    weights: np.ndarray
    eyes: EyePlaces

    def moved(self, network: np.ndarray) -> np.ndarray:
        """(52,) the network's answer, moved so that it is right in the frame that taught the head."""
        return np.clip(network - self.network + self.weights, 0.0, self.upper)


def person_head(head: HeadModel, fit: FaceFit, points_px: np.ndarray, network: np.ndarray) -> PersonHead:
    """The head of a fit to one frame. points_px: (478, 3) its landmarks; network: (52,) the network's answer to it.

    What the head's rest and the fit's weights leave unexplained of that frame is the person's own: where the network puts the
    points of this face. It goes into the landmarks at rest, so lids and lips are as open as they were in that frame.
    """
    rest = head.landmark_points(fit.neutral_vertices).astype(np.float64) * MM
    shapes = np.stack([head.landmark_points(shape) for shape in fit.expression_shapes]).astype(np.float64) * MM
    weights = np.asarray(fit.motion.weights, np.float64)
    camera = fit.camera
    posed = rest + np.tensordot(weights, shapes, 1)
    local = posed @ camera.rotation.T + camera.translation * MM
    focal = np.diag(camera.intrinsics)[:2]
    wanted = (points_px[: len(rest), :2] - camera.intrinsics[:2, 2]) / focal * local[:, 2:]
    rest = rest + np.column_stack([wanted - local[:, :2], np.zeros(len(rest))]) @ camera.rotation
    weight = np.sqrt(np.clip(np.asarray(head.landmark_confidence, np.float64), 0.1, 1.0))
    for places, factor in (
        (FACE_OVAL, OUTLINE_WEIGHT), (LIDS, LID_WEIGHT), (BROWS, BROW_WEIGHT), (MOUTH_CORNERS, CORNER_WEIGHT),
        (INNER_LIPS, LIP_WEIGHT),
    ):  # fmt: skip
        weight[list(places)] *= factor
    weight[OTHERS] *= 2
    return PersonHead(
        rest[PLACES],
        np.ascontiguousarray(shapes[:, PLACES]),
        most_weights(),
        weight[PLACES],
        np.asarray(network, np.float64),
        weights,
        EyePlaces(
            head.eye_centres(fit.neutral_vertices).astype(np.float64),
            np.stack([posed[list(pair)].mean(axis=0) for pair in EYE_CORNERS]) / MM,
            float(head.eye_radii(fit.neutral_vertices).mean()),
        ),
    )


@dataclass
class Solution:
    """weights (52,), rotation (3, 3) and translation (3,) mm to the camera, OpenCV axes: where the last frame ended."""

    weights: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray


_UPPER, _LOWER = np.searchsorted(PLACES, np.array([*LID_PAIRS, *LIP_PAIRS])).T
_GAP_WEIGHT = np.repeat([LID_GAP_WEIGHT, LIP_GAP_WEIGHT], [len(LID_PAIRS), len(LIP_PAIRS)])

_OPPOSED = opposed_penalty()


def solve(
    head: PersonHead,
    points_px: np.ndarray,
    network: np.ndarray,
    looks: np.ndarray,
    intrinsics: np.ndarray,
    before: Solution,
    rounds: int = ROUNDS,
) -> Solution:
    """The weights and pose that bring a person's landmarks onto points_px (468+, 2+), pixels.

    network: (52,) the blendshape network's answer. looks: (8,) the eyeLook weights, LOOKS' order, measured from the irises and
    not solved for. before: the last frame's solution, or the first pose. Variable projection over the pose (Golub and Pereyra
    1973) and descent within the weights' box, linearised `rounds` times or until nothing changes any more.
    """
    mean = head.moved(network)
    weights = before.weights.copy()
    lower, upper = np.zeros(len(head.upper)), head.upper.copy()
    places = list(LOOKS)
    weights[places] = lower[places] = upper[places] = mean[places] = looks
    rotation, translation = before.rotation, before.translation
    focal, centre = np.diag(intrinsics)[:2], intrinsics[:2, 2]
    points = points_px[PLACES, :2]
    for _ in range(rounds):
        turned = (head.rest + np.tensordot(weights, head.shapes, 1)) @ rotation.T
        local = turned + translation
        depth = local[:, 2:]
        slope = local[:, :2] / depth
        scale = float(depth.mean()) / focal
        residual = (points - slope * focal - centre) * scale
        weight = head.point_weight / np.sqrt(np.sqrt(1 + (residual * residual).sum(1) / ROBUST_MM**2))
        near = depth.mean() / depth
        picture = (rotation[:2] - slope[..., None] * rotation[2]) * near[..., None]
        rows = _shape_rows(head.shapes, picture, weight, _UPPER, _LOWER, _GAP_WEIGHT)
        pose = _with_gaps(np.moveaxis(_pose_rows(turned, slope) * near[..., None], -1, 0), weight).reshape(6, -1).T
        target = _with_gaps(residual, weight).ravel()
        cross = rows @ pose
        inner = np.linalg.inv(pose.T @ pose + np.diag(POSE_RIDGE))
        pull = pose.T @ target
        gram = rows @ rows.T - cross @ inner @ cross.T + _OPPOSED
        gram[np.diag_indices(len(mean))] += 1 / PRIOR_SIGMA**2
        gradient = rows @ target - cross @ (inner @ pull)
        linear = gradient + gram @ weights - _OPPOSED @ weights + (mean - weights) / PRIOR_SIGMA**2
        new = weights.copy()
        descend(gram, linear, new, lower, upper, SWEEPS)
        step = inner @ (pull - cross.T @ (new - weights))
        still = max(np.abs(new - weights).max(), np.abs(step[:3]).max()) < STILL
        weights = new
        rotation = cv2.Rodrigues(step[:3])[0] @ rotation
        translation = translation + step[3:]
        if still:
            break
    return Solution(weights, rotation, translation)


@njit()
def _shape_rows(
    shapes: np.ndarray, picture: np.ndarray, weight: np.ndarray, upper: np.ndarray, lower: np.ndarray, gap_weight: np.ndarray
) -> np.ndarray:
    """`_with_gaps` of shapes (52, N, 3) seen through each point's picture (N, 2, 3), (52, 2 · (N + G)): most of a frame's time."""
    count, points, gaps = len(shapes), len(weight), len(upper)
    rows = np.empty((count, 2 * (points + gaps)))
    for k in range(count):
        for i in range(points):
            x, y, z = shapes[k, i, 0], shapes[k, i, 1], shapes[k, i, 2]
            for c in range(2):
                rows[k, 2 * i + c] = picture[i, c, 0] * x + picture[i, c, 1] * y + picture[i, c, 2] * z
        for g in range(gaps):
            for c in range(2):
                apart = rows[k, 2 * upper[g] + c] - rows[k, 2 * lower[g] + c]
                rows[k, 2 * (points + g) + c] = apart * gap_weight[g]
        for i in range(points):
            rows[k, 2 * i] *= weight[i]
            rows[k, 2 * i + 1] *= weight[i]
    return rows


def _with_gaps(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(..., N + G, 2) weighted rows of the points, then of the differences of those that open."""
    gaps = (rows[..., _UPPER, :] - rows[..., _LOWER, :]) * _GAP_WEIGHT[:, None]
    return np.concatenate([rows * weight[:, None], gaps], axis=-2)


def _pose_rows(turned: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(N, 2, 6) derivative of picture places, mm at the head, by a small turn (left of the rotation) and a shift."""
    rows = np.zeros((len(turned), 2, 6))
    x, y, z = turned.T
    u, v = slope.T
    rows[:, 0, 0], rows[:, 0, 1], rows[:, 0, 2] = -u * y, z + u * x, -y
    rows[:, 1, 0], rows[:, 1, 1], rows[:, 1, 2] = -z - v * y, v * x, x
    rows[:, 0, 3] = rows[:, 1, 4] = 1
    rows[:, :, 5] = -slope
    return rows
