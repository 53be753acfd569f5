"""A head model from outside, made into the one that everything here works on: checked, driven by ARKit's weights, whole at seams."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from avatar3d.avatar import JOINT_NAMES
from avatar3d.errors import InputError
from avatar3d.head.mediapipe import MESH_POINTS
from avatar3d.head.model import EYES, HEAD_PARTS, LASHES, MOUTH_BAG, SKIN, EyeUV, HeadModel
from avatar3d.head.protocol import LASH_REGION, REGIONS, EyeDisc, MorphableModel
from avatar3d.motion.code import ARKIT_NAMES, WEIGHT_COUNT, MotionCode

LEAST_LANDMARKS = 40  # that a face can be fitted by; the 51 inner ones of the usual 68 are enough
EYES_APART_M = (0.045, 0.080)  # between the eyeballs' centres of a template in metres; adults have 0.063
OFF_CENTRE_M = 0.01  # the middle between the eyeballs may lie this far from the origin
EYEBALL_MOVED_M = 0.001  # by a unit of an expression
SAME_PLACE_M = 1e-6
RIG_ERROR = 1e-4  # of a coefficient, by which a rig may miss being linear
MEMBERS = tuple(name for name in vars(MorphableModel) if not name.startswith("_"))


def adopted(model: MorphableModel) -> HeadModel:
    """The model with one expression shape for each ARKit weight, in ARKit's order; a HeadModel that has these is given back as it is.

    Raises InputError that names what the model lacks or what does not fit.
    """
    check_members(model)
    head = model if isinstance(model, HeadModel) else _linear(model)
    _check_head(head)
    return _driven(head, model)


def check_members(model: object) -> None:
    """Raise InputError for an object that lacks one of the contract's members."""
    lacking = [name for name in MEMBERS if not hasattr(model, name)]
    if lacking:
        some = ", no ".join(lacking[:4]) + (f" and {len(lacking) - 4} more" if len(lacking) > 4 else "")
        raise InputError(f"a {type(model).__name__} is no head model: it has no {some}; docs/head-model.md says what one holds")


def _refuse(what: str) -> InputError:
    return InputError(f"this head model cannot be used: {what}; docs/head-model.md says what one holds")


def _linear(model: Any) -> HeadModel:
    """A HeadModel of the arrays of any object with the contract's members; seams and the mirror are found."""
    import scipy.sparse as sp

    vertices = np.asarray(model.vertices, np.float32)
    count, faces, part = len(vertices), np.asarray(model.faces, np.int64), np.asarray(model.part)
    identity, expression = (np.asarray(getattr(model, name), np.float32) for name in ("identity", "expression"))
    if len(model.eye_uv) != 2:
        raise _refuse(f"eye_uv holds {len(model.eye_uv)} discs, expected the left and the right eyeball's")
    if vertices.shape != (count, 3) or faces.ndim != 2 or faces.shape[1] != 3 or not _indices(faces, count):
        raise _refuse(f"vertices {vertices.shape} and faces {faces.shape} are not (V, 3) and (F, 3) of indices under V")
    if part.shape != (len(faces),) or not _indices(part, len(HEAD_PARTS)):
        raise _refuse(f"part {part.shape} is not (F,) of codes under {len(HEAD_PARTS)}: {', '.join(HEAD_PARTS)}")
    vertex_part = np.zeros(count, np.uint8)
    vertex_part[faces] = part[:, None]
    if (vertex_part[faces] != part[:, None]).any():
        raise _refuse(f"vertex {faces[vertex_part[faces] != part[:, None]][0]} belongs to two parts; split it")
    for name, shapes in (("identity", identity), ("expression", expression)):
        if shapes.ndim != 3 or shapes.shape[1:] != (count, 3):
            raise _refuse(f"{name} {shapes.shape} is not (shapes, {count}, 3)")
    tri = np.asarray(model.landmark_tri, np.int64)
    if tri.ndim != 2 or tri.shape[1] != 3 or not _indices(tri, count):
        raise _refuse(f"landmark_tri {tri.shape} is not (L, 3) of indices under {count}")
    regions = {name: np.asarray(value, np.float32) for name, value in model.regions.items()}
    if (vertex_part == LASHES).any():
        regions.setdefault(LASH_REGION, (vertex_part == LASHES).astype(np.float32))
    return HeadModel(
        vertices=vertices, faces=faces.astype(np.int32), uv=np.asarray(model.uv, np.float32), part=part.astype(np.uint8),
        vertex_part=vertex_part, weld=_weld(vertices, vertex_part), mirror=_mirror(vertices, vertex_part),
        head_weight=np.asarray(model.head_weight, np.float32), bind=sp.identity(count, np.float32, "csr"),
        control_identity=identity, control_expression=expression,
        identity_names=tuple(f"identity/{k}" for k in range(len(identity))),
        identity_lower=np.asarray(model.identity_lower, np.float32), identity_upper=np.asarray(model.identity_upper, np.float32),
        identity_mean=np.asarray(model.identity_mean, np.float32), identity_sigma=np.asarray(model.identity_sigma, np.float32),
        expression_names=tuple(f"expression/{k}" for k in range(len(expression))),
        joint_names=tuple(model.joint_names), joint_parents=np.full(len(model.joint_names), -1),
        joint_regressor=sp.csr_matrix(model.joint_regressor, dtype=np.float32), regions=regions,
        landmark_tri=tri.astype(np.int32), landmark_bary=np.asarray(model.landmark_bary, np.float32),
        landmark_confidence=np.asarray(model.landmark_confidence, np.float32),
        eye_uv=(_disc(model.eye_uv[0]), _disc(model.eye_uv[1])),
        iris_radius=float(model.iris_radius), rig_matrix=np.zeros((len(expression), WEIGHT_COUNT)),
        landmark_ids=np.asarray(model.landmark_ids, np.int64),
    )  # fmt: skip


def _disc(eye: EyeDisc) -> EyeUV:
    return EyeUV(np.asarray(eye.centre, np.float64), float(eye.radius))


def _indices(values: np.ndarray, count: int) -> bool:
    return values.size > 0 and bool(values.min() >= 0 and values.max() < count)


def _weld(vertices: np.ndarray, vertex_part: np.ndarray) -> np.ndarray:
    """(V,) first vertex at the same place of the same surface; skin and mouth bag are one."""
    surface = np.where(vertex_part == MOUTH_BAG, SKIN, vertex_part)
    keys = np.column_stack([np.round(vertices.astype(np.float64) / SAME_PLACE_M).astype(np.int64), surface])
    _, which = np.unique(keys, axis=0, return_inverse=True)
    first = np.full(int(which.max()) + 1, len(vertices))
    np.minimum.at(first, which.ravel(), np.arange(len(vertices)))
    return first[which.ravel()].astype(np.int32)


def _mirror(vertices: np.ndarray, vertex_part: np.ndarray) -> np.ndarray:
    """(V,) the nearest vertex of the same part to each one's mirror image."""
    from scipy.spatial import cKDTree

    mirror = np.zeros(len(vertices), np.int32)
    for part in np.unique(vertex_part):
        index = np.flatnonzero(vertex_part == part)
        mirror[index] = index[cKDTree(vertices[index]).query(vertices[index] * (-1, 1, 1))[1]]
    return mirror


def _check_head(head: HeadModel) -> None:
    count, landmarks = len(head.vertices), len(head.landmark_tri)
    shapes = {
        "uv": (count, 2), "head_weight": (count,), "landmark_ids": (landmarks,), "landmark_bary": (landmarks, 3),
        "landmark_confidence": (landmarks,),
        **{f"identity_{name}": (len(head.control_identity),) for name in ("lower", "upper", "mean", "sigma")},
    }  # fmt: skip
    for name, shape in shapes.items():
        value = np.asarray(getattr(head, name))
        if value.shape != shape or not np.isfinite(value).all():
            raise _refuse(f"{name} {value.shape} is not {shape} of finite numbers")
    for name in ("vertices", "control_identity", "control_expression"):
        if not np.isfinite(getattr(head, name)).all():
            raise _refuse(f"{name.removeprefix('control_')} holds a value that is not finite")
    for name in REGIONS:
        if name not in head.regions:
            raise _refuse(f"it has no region {name} ({REGIONS[name]})")
        if head.regions[name].shape != (count,):
            raise _refuse(f"region {name} {head.regions[name].shape} is not ({count},)")
    for joint in JOINT_NAMES:
        if joint not in head.joint_names:
            raise _refuse(f"it has no joint {joint}")
    if head.joint_regressor.shape != (len(head.joint_names), count):
        raise _refuse(f"joint_regressor {head.joint_regressor.shape} is not ({len(head.joint_names)}, {count})")
    if not (head.identity_sigma > 0).all() or not (head.identity_lower <= head.identity_upper).all():
        raise _refuse("a sigma of its identity is not above 0, or a lower bound is above the upper one")
    ids = head.landmark_ids
    if len(np.unique(ids)) != landmarks or not _indices(ids, MESH_POINTS):
        raise _refuse(f"landmark_ids are not different numbers under {MESH_POINTS}")
    if landmarks < LEAST_LANDMARKS:
        raise _refuse(f"it places {landmarks} landmarks of the {LEAST_LANDMARKS} that a fit needs")
    if any(len(side) == 0 for side in head.eye_vertices):
        raise _refuse("it has no two eyeballs")
    eyes = head.eye_centres(head.vertices)
    apart = float(np.linalg.norm(eyes[0] - eyes[1]))
    if not EYES_APART_M[0] <= apart <= EYES_APART_M[1] or not eyes[0, 0] > eyes[1, 0]:
        raise _refuse(
            f"its eyes stand {apart:.4g} m apart, the left one at x = {eyes[0, 0]:.4g}; it wants metres and +X to the left"
        )
    if float(np.linalg.norm(eyes.mean(0))) > OFF_CENTRE_M:
        raise _refuse(f"the middle of its eyes lies at {np.round(eyes.mean(0), 3).tolist()} m and not at the origin")


def _driven(head: HeadModel, model: MorphableModel) -> HeadModel:
    """The head with its expressions mixed to ARKit's by the model's rig."""
    if head is model and head.expression_names == ARKIT_NAMES and head.rig_matrix is None:
        return head
    matrix = np.column_stack([np.asarray(model.rig(MotionCode(weights=row)), np.float64) for row in np.eye(WEIGHT_COUNT)])
    if matrix.shape[0] != len(head.control_expression) or not np.isfinite(matrix).all():
        raise _refuse(f"its rig answers {matrix.shape[0]} coefficients for {len(head.control_expression)} expression shapes")
    some = np.linspace(0.1, 0.9, WEIGHT_COUNT)
    if np.abs(np.asarray(model.rig(MotionCode(weights=some))) - matrix @ some).max() > RIG_ERROR * max(np.abs(matrix).max(), 1):
        raise _refuse("its rig is not linear in the weights")
    driven = replace(
        head, control_expression=np.tensordot(matrix.T, head.control_expression, 1).astype(np.float32), expression_names=ARKIT_NAMES,
        rig_matrix=None,
    )  # fmt: skip
    if np.abs(driven.expression[:, driven.vertex_part == EYES]).max() > EYEBALL_MOVED_M:
        raise _refuse("an expression moves its eyeballs, which the gaze turns")
    return driven
