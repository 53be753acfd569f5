"""The fit: camera, identity, expression and gaze of one face from its landmarks, with a neutral head that is truly neutral.

Knows nothing of pictures. Lengths inside the solver are millimetres, so that the head model's prior (HeadModel.identity_sigma)
and the residuals share one unit; what comes out is metres.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np
import scipy.sparse as sp

from avatar3d.camera import PHOTO_FOCAL, Camera
from avatar3d.errors import InputError
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.neutral import (
    lower_teeth_edge,
    motion_weights,
    neutral_head,
    relaxed_mouth,
)  # fmt: skip
from avatar3d.fitting.offsets import offset_field
from avatar3d.fitting.own_shapes import own_shapes, shut_lids
from avatar3d.fitting.solver import descend, pose_rows
from avatar3d.fitting.weights import most_weights, opposed_penalty
from avatar3d.head.mediapipe import (
    FACE_OVAL,
    INNER_LIP_LOWER,
    INNER_LIP_MIDDLES,
    INNER_LIP_UPPER,
    IRIS_CENTRES,
    LEFT_EYE,
    LIPS_INNER,
    LIPS_OUTER,
    MOUTH_CORNERS,
    RIGHT_EYE,
)
from avatar3d.head.model import EYES, KAPPA_RAD, HeadModel
from avatar3d.head.rig import GAZE_MAX_RAD, gaze_angles
from avatar3d.motion.code import MotionCode

if TYPE_CHECKING:
    from avatar3d.fitting.size import HeadSize

# Range of the focal length over the assumed one: selfies at 28 mm to portraits at 105 mm. EXIF rounds, and says nothing of a crop.
FOCAL_ASSUMED, FOCAL_KNOWN = (0.5, 1.5), (0.95, 1.05)
ROUNDS = 10  # of linearisation; the residual is still from the 7th on
SWEEPS = 60  # of coordinate descent in a round; each costs a few tenths of a millisecond
EXPRESSION_SIGMA = 0.5  # of a weight about the blendshape network's answer, against residuals in mm
DEPTH_WEIGHT = 0.1  # of the network's z against its x and y: it errs by 1.4 mm from face to face; the modes know depth better
OFFSET_NOISE_MM = 0.25  # of a landmark in the picture, where the model's shapes are done
# Of what the shapes leave over, so much of the part that differs from side to side is taken for the face's own; the rest is the
# network's guess at the side that is turned away. The shapes themselves are as crooked as scanned people.
CROOKED_SHARE = 0.5
DEPTH_SCALE = 1.03  # the network's z in its own pixels over true depth, measured against a real scan (tools/measure_fit.py)
OUTLINE_WEIGHT = 0.6  # outline points slide on the silhouette
FEATURE_WEIGHT = 1.6  # of eyes and lips: there a millimetre is seen
ROBUST_MM = 3.0  # residual at which a point's weight starts to fall (pseudo-Huber)
# Identity alone must have a closed, unsmiling mouth, or the photo's expression leaks into it.
LIP_GAP_WEIGHT, CORNER_WEIGHT = 1.5, 0.6
# Shapes can add up to a face turned up within its skull: a nod belongs to the pose, or noses droop to make up for it.
NOD_SIGMA_DEG = 0.4

MM = 1000.0


@dataclass(frozen=True)
class FaceFit:
    """What one photo says about a head.

    camera: the photo's, head frame, photo size. identity (I,), expression (52,): coefficients of the head model as fitted.
    vertices (V,3): identity as fitted, metres. neutral_vertices (V,3): the same with the mouth closed and the eyes at rest,
    what an avatar stores; expression_shapes (52,V,3): the person's own, metres. motion: the photo's expression and gaze over
    neutral_vertices by expression_shapes, head pose identity (the camera has it).
    projected_px (468,2) and residual_px (468,): the fitted landmarks in the photo and their distance to the network's.
    residual_iod_pct: mean residual, % of the distance between the eyes. seconds: spent.
    size: how its scale was found, None while it has the template's (avatar3d.fitting.size). focal_range_px: focal lengths that
    explain the photo about as well.
    """

    camera: Camera
    identity: np.ndarray
    expression: np.ndarray
    motion: MotionCode
    vertices: np.ndarray
    neutral_vertices: np.ndarray
    expression_shapes: np.ndarray
    projected_px: np.ndarray
    residual_px: np.ndarray
    residual_iod_pct: float
    iod_px: float
    seconds: float
    focal_range_px: tuple[float, float] | None = None
    size: HeadSize | None = None

    @property
    def size_by_iris(self) -> float | None:
        """Relative size error by the photo's irises, negative for a head too small; None where none was measured."""
        return None if self.size is None else self.size.size_by_iris


@dataclass(frozen=True)
class _Basis:
    """Landmarks of a head model in mm: template (468,3), displacement of each coefficient (n,468,3), prior and box."""

    template: np.ndarray
    shapes: np.ndarray
    identity_count: int
    lower: np.ndarray
    upper: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    weight: np.ndarray
    depth_weight: np.ndarray


def photo_intrinsics(width: int, height: int, focal_px: float | None) -> np.ndarray:
    """(3,3) pinhole intrinsics centred in the picture, with the prior focal length when the photo states none."""
    focal = focal_px if focal_px else PHOTO_FOCAL * max(width, height)
    return np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1.0]])


def focal_range(focal_px: float, known: bool) -> tuple[float, float]:
    """(2,) pixels between which the focal length lies in two of three photos, where it is known (EXIF, calibration) or assumed."""
    least, most = FOCAL_KNOWN if known else FOCAL_ASSUMED
    return round(focal_px * least, 1), round(focal_px * most, 1)


def fit_face(
    landmarks: FaceLandmarks,
    blendshapes: np.ndarray,
    width: int,
    height: int,
    focal_px: float | None,
    head: HeadModel,
    intrinsics: np.ndarray | None = None,
) -> FaceFit:
    """Fit the head model to one face.

    landmarks: in the photo's pixels. blendshapes: (52,) the network's ARKit weights, the expression's prior. focal_px: from
    EXIF, or None. intrinsics: (3,3), overrides it (a calibrated camera).
    Raises InputError when no head pose explains the landmarks.
    """
    start = time.perf_counter()
    points = np.asarray(landmarks.points_px, dtype=np.float64)
    known = intrinsics is not None or bool(focal_px)
    intrinsics = photo_intrinsics(width, height, focal_px) if intrinsics is None else np.asarray(intrinsics, np.float64)
    basis = _landmark_basis(head, np.asarray(blendshapes, np.float64))
    coefficients, rotation, translation = _solve(basis, points[: len(head.landmark_tri)], intrinsics)
    count = basis.identity_count
    identity, expression = coefficients[:count], coefficients[count:]
    camera = Camera(width, height, intrinsics, rotation, translation / MM, name="photo")
    vertices = head.shape(identity)
    vertices = vertices + _unexplained(head, basis, vertices + head.expression_offsets(expression), points, camera)
    photo = vertices + head.expression_offsets(expression)

    neutral_vertices, rest = neutral_head(head, relaxed_mouth(head, vertices, expression), expression)
    projected, _ = camera.project(head.landmark_points(photo))
    residual = np.linalg.norm(projected - points[: len(projected), :2], axis=1)
    weights = motion_weights(head, vertices, neutral_vertices, expression, rest)
    neutral_vertices = lower_teeth_edge(head, neutral_vertices, weights)
    shapes = own_shapes(head, neutral_vertices, weights, photo)
    shapes, weights = shut_lids(head, neutral_vertices, shapes, weights)
    gaze = _gaze(head, neutral_vertices, points, camera) - gaze_angles(MotionCode(weights=weights))
    iod = landmarks.iod_px
    return FaceFit(
        camera=camera, identity=identity, expression=expression, motion=MotionCode(weights=weights, gaze=gaze),
        vertices=vertices, neutral_vertices=neutral_vertices,
        expression_shapes=shapes, projected_px=projected, residual_px=residual,
        residual_iod_pct=float(100 * residual.mean() / iod), iod_px=iod, seconds=time.perf_counter() - start,
        focal_range_px=focal_range(float(intrinsics[0, 0]), known),
    )  # fmt: skip


def _unexplained(head: HeadModel, basis: _Basis, posed: np.ndarray, points: np.ndarray, camera: Camera) -> np.ndarray:
    """(V,3) f32 offsets, metres, toward where the landmarks were seen, parallel to the picture; eyeballs move whole, with their lids.

    Along the line of sight the network's z would be the only evidence, and it knows less than the statistics of faces.
    """
    projected, depth = camera.project(head.landmark_points(posed))
    depth, points = depth * MM, points[: len(projected)]
    plane = (points[:, :2] - projected) / np.diag(camera.intrinsics)[:2] * depth[:, None]
    seen = plane @ camera.rotation[:2]
    seen += (1 - CROOKED_SHARE) / 2 * (seen[_twins(basis.template)] * (-1, 1, 1) - seen)
    # Where on the template, so that lips and lids that meet in the photo are told apart no worse than at rest.
    field = offset_field(basis.template, seen, basis.weight, head.vertices * MM, OFFSET_NOISE_MM)
    for side in (head.vertices[:, 0] > 0, head.vertices[:, 0] <= 0):
        ball = (head.vertex_part == EYES) & side
        field[ball] = field[ball & (head.vertices[:, 2] > np.median(head.vertices[ball, 2]))].mean(0)
    return (field / MM).astype(np.float32)


def _twins(places: np.ndarray) -> np.ndarray:
    """(K,) for each of (K, 3) places on the template the one at its mirror image."""
    return ((places[:, None] * (-1, 1, 1) - places) ** 2).sum(2).argmin(1)


def _landmark_basis(head: HeadModel, blendshapes: np.ndarray) -> _Basis:
    controls = np.concatenate([head.control_identity, head.control_expression]) * MM
    spread = _landmark_spread(head)
    count = len(controls)
    upper = most_weights()
    shapes = (spread @ np.moveaxis(controls, 0, 1).reshape(controls.shape[1], -1)).reshape(-1, count, 3)
    weight = np.sqrt(np.clip(np.asarray(head.landmark_confidence, np.float64), 0.1, 1.0))
    weight[list(FACE_OVAL)] *= OUTLINE_WEIGHT
    weight[[*LEFT_EYE, *RIGHT_EYE, *LIPS_OUTER, *LIPS_INNER]] *= FEATURE_WEIGHT
    expressions = len(head.control_expression)
    return _Basis(
        template=head.landmark_points(head.vertices).astype(np.float64) * MM,
        shapes=np.ascontiguousarray(np.moveaxis(shapes, 1, 0), dtype=np.float64),
        identity_count=len(head.control_identity),
        lower=np.r_[head.identity_lower, np.zeros(expressions)].astype(np.float64),
        upper=np.r_[head.identity_upper, upper].astype(np.float64),
        mean=np.r_[head.identity_mean, np.minimum(blendshapes, upper)].astype(np.float64),
        precision=np.r_[1 / head.identity_sigma**2, np.full(expressions, 1 / EXPRESSION_SIGMA**2)].astype(np.float64),
        weight=weight,
        depth_weight=DEPTH_WEIGHT * weight,
    )


def _landmark_spread(head: HeadModel) -> sp.csr_matrix:
    """(468, C) csr: landmarks' displacements from the control points'."""
    count = len(head.landmark_tri)
    rows = np.repeat(np.arange(count), 3)
    pick = sp.csr_matrix((head.landmark_bary.ravel(), (rows, head.landmark_tri.ravel())), (count, len(head.vertices)))
    return pick @ head.bind


def _solve(basis: _Basis, points: np.ndarray, intrinsics: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients, rotation (3,3) and translation (3,) mm that bring the model's landmarks onto (468,3) points."""
    coefficients = basis.mean.copy()
    rest_rows, rest_target = _rest_rows(basis)
    opposed = np.zeros((len(basis.mean), len(basis.mean)))
    opposed[basis.identity_count :, basis.identity_count :] = opposed_penalty()
    focal = np.diag(intrinsics)[:2]
    rotation, translation = _first_pose(basis, coefficients, points, intrinsics)
    for _ in range(ROUNDS):
        shape = basis.template + np.tensordot(coefficients, basis.shapes, 1)
        rotation, translation = _refine_pose(shape, points, basis, intrinsics, rotation, translation)
        local = shape @ rotation.T + translation
        depth = local[:, 2]
        px_per_mm = focal.mean() / depth.mean()
        projected = local[:, :2] / depth[:, None] * focal + intrinsics[:2, 2]
        residual = (points[:, :2] - projected) / px_per_mm
        robust = 1 / np.sqrt(1 + (np.linalg.norm(residual, axis=1) / ROBUST_MM) ** 2)
        weight = basis.weight * np.sqrt(robust)

        moved = basis.shapes @ rotation.T
        plane = (moved[..., :2] - (local[:, :2] / depth[:, None]) * moved[..., 2:]) * (focal / depth[:, None]) / px_per_mm
        pose = _pose_rows(local, rotation, shape, focal) / px_per_mm
        deep = points[:, 2] - points[:, 2].mean()
        axis = _line_of_sight(local)
        along, along_moved = local @ axis, moved @ axis
        deep_residual = basis.depth_weight * (DEPTH_SCALE * deep / px_per_mm - (along - along.mean()))
        deep_moved = basis.depth_weight * (along_moved - along_moved.mean(1, keepdims=True))
        deep_pose = basis.depth_weight[:, None] * _depth_jacobian(shape, rotation, axis)

        count = len(coefficients)
        rows = np.concatenate([(plane * weight[:, None]).reshape(count, -1), deep_moved], 1)
        target = np.r_[(residual * weight[:, None]).ravel(), deep_residual]
        free = np.concatenate([(pose * weight[:, None, None]).reshape(-1, 6), deep_pose])
        # Variable projection (Golub and Pereyra 1973): the pose follows every step of the coefficients exactly.
        basis_of_pose = np.linalg.qr(free)[0]
        rows = rows - (rows @ basis_of_pose) @ basis_of_pose.T
        target = target - basis_of_pose @ (basis_of_pose.T @ target)
        rows = np.concatenate([rows, rest_rows.T], 1)
        target = np.r_[target, rest_target - rest_rows @ coefficients]
        gram = rows @ rows.T + np.diag(basis.precision) + opposed
        linear = rows @ (target + rows.T @ coefficients) + basis.precision * basis.mean
        descend(gram, linear, coefficients, basis.lower, basis.upper, SWEEPS)
    shape = basis.template + np.tensordot(coefficients, basis.shapes, 1)
    rotation, translation = _refine_pose(shape, points, basis, intrinsics, rotation, translation)
    return coefficients, rotation, translation


def _rest_rows(basis: _Basis) -> tuple[np.ndarray, np.ndarray]:
    """(r,n) rows and (r,) targets: identity alone has the template's lip gap, corner height and nod."""
    shapes = np.zeros_like(basis.shapes)
    shapes[: basis.identity_count] = basis.shapes[: basis.identity_count]
    gap = (shapes[:, INNER_LIP_UPPER, 1] - shapes[:, INNER_LIP_LOWER, 1]).T * LIP_GAP_WEIGHT
    corners = (shapes[:, MOUTH_CORNERS, 1] - shapes[:, [INNER_LIP_MIDDLES[0]], 1]).T * CORNER_WEIGHT
    y, z = (basis.template - basis.template.mean(0))[:, 1:].T
    nod = (shapes[..., 2] @ y - shapes[..., 1] @ z) / ((y * y + z * z).sum() * np.radians(NOD_SIGMA_DEG))
    rows = np.concatenate([gap, corners, nod[None]])
    return rows, np.zeros(len(rows))


def _first_pose(
    basis: _Basis, coefficients: np.ndarray, points: np.ndarray, intrinsics: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    shape = basis.template + np.tensordot(coefficients, basis.shapes, 1)
    image = np.ascontiguousarray(points[:, :2])
    if not np.isfinite(image).all():
        raise InputError("the landmarks of this face are not finite numbers; use another photo")
    found, turn, translation = cv2.solvePnP(shape, image, intrinsics, None, flags=cv2.SOLVEPNP_SQPNP)
    if not found or not np.isfinite(translation).all() or translation[2, 0] <= 0:
        raise InputError(
            "no head pose explains the landmarks of this face; use a photo of the whole face from nearer the front"
        )
    return cv2.Rodrigues(turn)[0], translation.ravel()


def _refine_pose(
    shape: np.ndarray, points: np.ndarray, basis: _Basis, intrinsics: np.ndarray, rotation: np.ndarray, translation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted Gauss-Newton over the six pose parameters, landmarks' depth included."""
    focal = np.diag(intrinsics)[:2]
    for _ in range(4):
        local = shape @ rotation.T + translation
        depth = local[:, 2]
        scale = depth.mean() / focal.mean()
        axis = _line_of_sight(local)
        along = local @ axis
        residual = (points[:, :2] - local[:, :2] / depth[:, None] * focal - intrinsics[:2, 2]) * scale
        robust = np.sqrt(1 / np.sqrt(1 + (np.linalg.norm(residual, axis=1) / ROBUST_MM) ** 2)) * basis.weight
        deep = DEPTH_SCALE * (points[:, 2] - points[:, 2].mean()) * scale - (along - along.mean())
        rows = np.concatenate([
            (_pose_rows(local, rotation, shape, focal) * scale * robust[:, None, None]).reshape(-1, 6),
            basis.depth_weight[:, None] * _depth_jacobian(shape, rotation, axis),
        ])  # fmt: skip
        target = np.r_[(residual * robust[:, None]).ravel(), basis.depth_weight * deep]
        step = np.linalg.lstsq(rows, target, rcond=None)[0]
        rotation = cv2.Rodrigues(step[:3])[0] @ rotation
        translation = translation + step[3:]
    return rotation, translation


def _pose_rows(local: np.ndarray, rotation: np.ndarray, shape: np.ndarray, focal: np.ndarray) -> np.ndarray:
    """`pose_rows` of a shape (N, 3) mm that lies at `local` (N, 3) before the camera."""
    return pose_rows(shape @ rotation.T, local[:, :2] / local[:, 2:], focal / local[:, 2:])


def _line_of_sight(local: np.ndarray) -> np.ndarray:
    """(3,) unit vector from the camera to the middle of points (N,3) in its axes.

    The network sees a crop about the face, so its z runs along this line, not along the photo's optical axis: in a portrait
    with the face high in the picture the two differ by ten degrees, which would tip the whole head.
    """
    middle = local.mean(0)
    return middle / np.linalg.norm(middle)


def _depth_jacobian(shape: np.ndarray, rotation: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """(N,6) derivative of depth along `axis` about its mean by the same six parameters."""
    rows = np.column_stack([np.cross(shape @ rotation.T, axis), np.zeros((len(shape), 3))])
    return rows - rows.mean(0)


def _gaze(head: HeadModel, vertices: np.ndarray, points: np.ndarray, camera: Camera) -> np.ndarray:
    """(2,2) yaw toward +X and pitch toward +Y of the lines of sight, radians: where the ray through each iris meets the eyeball,
    less what its axis points outward."""
    gaze = np.zeros((2, 2))
    for eye, (centre, radius) in enumerate(zip(head.eye_centres(vertices), head.eye_radii(vertices), strict=True)):
        pixel = points[IRIS_CENTRES[eye], :2]
        ray = camera.unproject(pixel, np.array(1.0)) - camera.center
        ray /= np.linalg.norm(ray)
        along = (centre - camera.center) @ ray
        off = np.linalg.norm(camera.center + along * ray - centre)
        hit = camera.center + (along - np.sqrt(max(radius**2 - off**2, 0.0))) * ray - centre
        direction = hit / np.linalg.norm(hit)
        outward = KAPPA_RAD if eye == 0 else -KAPPA_RAD
        gaze[eye] = np.arctan2(direction[0], direction[2]) - outward, np.arcsin(np.clip(direction[1], -1, 1))
    return np.clip(gaze, -GAZE_MAX_RAD, GAZE_MAX_RAD)
