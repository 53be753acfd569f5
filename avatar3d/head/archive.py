"""A head model's file (.npz, no pickle): what it holds, checked before anything is made of it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import read_npz, write_bytes
from avatar3d.head.mediapipe import MESH_POINTS
from avatar3d.head.model import EyeUV, HeadModel
from avatar3d.motion.code import WEIGHT_COUNT

MAX_HEAD_BYTES = 128 * 2**20  # of a head asset's arrays; the default head has 15
# Kinds of numpy type and shape of what a head asset holds; a letter is a side that is as long everywhere: vertices V, faces F,
# controls C, their entries B, identity shapes I, expressions E, regions R, joints J, their entries W, landmarks L.
_ASSET_ARRAYS: dict[str, tuple[str, tuple[int | str, ...]]] = {
    "vertices": ("f", ("V", 3)), "faces": ("u", ("F", 3)), "part": ("u", ("V",)), "face_part": ("u", ("F",)), "uv": ("f", ("V", 2)),
    "weld": ("u", ("V",)), "mirror": ("u", ("V",)), "head_weight": ("f", ("V",)), "bind_indptr": ("i", ("V+1",)),
    "bind_indices": ("u", ("B",)), "bind_data": ("f", ("B",)), "control_count": ("i", ()),
    "identity_quantised": ("i", ("I", "C", 3)), "identity_scale": ("f", ("I",)), "identity_names": ("U", ("I",)),
    "identity_lower": ("f", ("I",)), "identity_upper": ("f", ("I",)), "identity_mean": ("f", ("I",)), "identity_sigma": ("f", ("I",)),
    "expression_quantised": ("i", ("E", "C", 3)), "expression_scale": ("f", ("E",)), "expression_names": ("U", ("E",)),
    "region_names": ("U", ("R",)), "region_values": ("u", ("R", "V")), "joint_names": ("U", ("J",)), "joint_parents": ("i", ("J",)),
    "joint_offsets": ("i", ("J+1",)), "joint_indices": ("u", ("W",)), "joint_weights": ("f", ("W",)),
    "eye_uv_left": ("f", (3,)), "eye_uv_right": ("f", (3,)), "iris_radius": ("f", ()),
    "landmark_tri": ("u", ("L", 3)), "landmark_bary": ("f", ("L", 3)), "landmark_confidence": ("f", ("L",)),
}  # fmt: skip
# Left out where the expressions have ARKit's names, and where the landmarks are MediaPipe's from the first to the last.
_OPTIONAL_ARRAYS: dict[str, tuple[str, tuple[int | str, ...]]] = {
    "rig": ("f", ("E", WEIGHT_COUNT)), "landmark_ids": ("iu", ("L",)),
}  # fmt: skip
_ASSET_INDICES = {"faces": "V", "weld": "V", "mirror": "V", "landmark_tri": "V"}


def load_head(path: str | Path) -> HeadModel:
    """Read a head model (.npz, no pickle; `write_head` makes one); raises InputError when it is not one."""
    arrays = read_npz(path, "head asset", MAX_HEAD_BYTES)
    try:
        _check_arrays(arrays)
        return head_from_arrays(arrays)
    except ValueError as error:
        raise InputError(
            f"{path} is not a head asset: {error}; write it again with avatar3d.head.archive.write_head"
        ) from error


def _check_arrays(a: dict[str, np.ndarray]) -> None:
    """Raise ValueError where one of an asset's arrays is missing, or they do not fit each other."""
    sides: dict[str, int] = {}
    given = {name: kind for name, kind in _OPTIONAL_ARRAYS.items() if name in a}
    for name, (kinds, shape) in (_ASSET_ARRAYS | given).items():
        if name not in a:
            raise ValueError(f"{name} is missing")
        value = a[name]
        fits = value.dtype.kind in kinds and value.ndim == len(shape)
        if not fits or any(
            size != (sides.setdefault(side, size) if isinstance(side, str) else side)
            for side, size in zip(shape, value.shape, strict=True)
        ):
            raise ValueError(f"{name} is {value.dtype} {value.shape}")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ValueError(f"{name} holds a value that is not finite")
    for name, side in _ASSET_INDICES.items():
        if a[name].size and int(a[name].max()) >= sides[side]:
            raise ValueError(f"{name} holds an index over {sides[side] - 1}")
    ids = a.get("landmark_ids", np.arange(sides["L"]))
    if len(np.unique(ids)) != sides["L"] or (ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < MESH_POINTS):
        raise ValueError(f"landmark_ids are not {sides['L']} different numbers under {MESH_POINTS}")
    if int(a["control_count"]) != sides["C"]:
        raise ValueError("control_count differs from the shapes")


def _eye_uv(disc: np.ndarray) -> EyeUV:
    return EyeUV(disc[:2].astype(np.float64), float(disc[2]))


def head_from_arrays(a: dict[str, np.ndarray]) -> HeadModel:
    """The model of a head asset's arrays; raises KeyError for one that is missing, ValueError for a matrix that is none."""
    import scipy.sparse as sp

    count = len(a["vertices"])
    bind = sp.csr_matrix(
        (a["bind_data"], a["bind_indices"].astype(np.int32), a["bind_indptr"]), (count, int(a["control_count"]))
    )
    bind.check_format()
    joint_count = len(a["joint_names"])
    regressor = sp.csr_matrix(
        (a["joint_weights"], a["joint_indices"].astype(np.int32), a["joint_offsets"]), (joint_count, count)
    )
    regressor.check_format()
    return HeadModel(
        vertices=a["vertices"], faces=a["faces"].astype(np.int32), uv=a["uv"], part=a["face_part"],
        vertex_part=a["part"],
        weld=a["weld"].astype(np.int32), mirror=a["mirror"].astype(np.int32), head_weight=a["head_weight"], bind=bind,
        control_identity=a["identity_quantised"] * a["identity_scale"][:, None, None],
        control_expression=a["expression_quantised"] * a["expression_scale"][:, None, None],
        identity_names=tuple(a["identity_names"].tolist()), identity_lower=a["identity_lower"],
        identity_upper=a["identity_upper"], identity_mean=a["identity_mean"], identity_sigma=a["identity_sigma"],
        expression_names=tuple(a["expression_names"].tolist()), joint_names=tuple(a["joint_names"].tolist()),
        joint_parents=a["joint_parents"], joint_regressor=regressor,
        regions=dict(zip(a["region_names"].tolist(), a["region_values"].astype(np.float32) / 255, strict=True)),
        landmark_tri=a["landmark_tri"].astype(np.int32), landmark_bary=a["landmark_bary"].astype(np.float32),
        landmark_confidence=a["landmark_confidence"],
        eye_uv=(_eye_uv(a["eye_uv_left"]), _eye_uv(a["eye_uv_right"])),
        iris_radius=float(a["iris_radius"]), rig_matrix=a.get("rig"),
        landmark_ids=a.get("landmark_ids", np.arange(len(a["landmark_tri"]))).astype(np.int64),
    )  # fmt: skip


def write_head(head: HeadModel, path: str | Path) -> None:
    """Write a head model for `load_head`; shapes are kept in 16 bits each, 1/65,534 of the range of each.

    Raises InputError when the file cannot be written.
    """
    arrays: dict[str, np.ndarray] = {
        "vertices": head.vertices.astype(np.float32), "faces": head.faces.astype(np.uint32), "part": head.vertex_part.astype(np.uint8),
        "face_part": head.part.astype(np.uint8), "uv": head.uv.astype(np.float32), "weld": head.weld.astype(np.uint32),
        "mirror": head.mirror.astype(np.uint32), "head_weight": head.head_weight.astype(np.float32),
        "bind_indptr": head.bind.indptr.astype(np.int32), "bind_indices": head.bind.indices.astype(np.uint32),
        "bind_data": head.bind.data.astype(np.float32), "control_count": np.array(head.bind.shape[1]),
        "identity_names": np.array(head.identity_names), "expression_names": np.array(head.expression_names),
        "region_names": np.array(list(head.regions)), "joint_names": np.array(head.joint_names),
        "region_values": np.round(np.stack(list(head.regions.values())) * 255).astype(np.uint8),
        "joint_parents": np.asarray(head.joint_parents, np.int32), "joint_offsets": head.joint_regressor.indptr.astype(np.int32),
        "joint_indices": head.joint_regressor.indices.astype(np.uint32),
        "joint_weights": head.joint_regressor.data.astype(np.float32), "iris_radius": np.array(head.iris_radius, np.float32),
        "landmark_tri": head.landmark_tri.astype(np.uint32), "landmark_bary": head.landmark_bary.astype(np.float32),
        "landmark_confidence": head.landmark_confidence.astype(np.float32), "landmark_ids": head.landmark_ids.astype(np.int32),
        "rig": head.arkit_matrix.astype(np.float32),
    }  # fmt: skip
    for side, eye in zip(("left", "right"), head.eye_uv, strict=True):
        arrays[f"eye_uv_{side}"] = np.array([*eye.centre, eye.radius], np.float32)
    for name in ("lower", "upper", "mean", "sigma"):
        arrays[f"identity_{name}"] = np.asarray(getattr(head, f"identity_{name}"), np.float32)
    for name, shapes in (("identity", head.control_identity), ("expression", head.control_expression)):
        scale = np.maximum(np.abs(shapes).max(axis=(1, 2), initial=0), 1e-9) / 32767
        arrays[f"{name}_scale"] = scale.astype(np.float32)
        arrays[f"{name}_quantised"] = np.round(shapes / scale[:, None, None]).astype(np.int16)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())
