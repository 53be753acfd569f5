"""The linear head model: template, identity and expression bases, joints, regions, landmarks; holds no avatar's state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import read_npz
from avatar3d.geometry import smooth_normals
from avatar3d.resources import asset_path

if TYPE_CHECKING:
    import scipy.sparse as sp  # an avatar is shown without it; only the model itself needs it

PART_NAMES = ("skin", "eyes", "teeth", "tongue", "lashes", "mouth_bag")
SKIN, EYES, TEETH, TONGUE, LASHES, MOUTH_BAG = range(6)
MAX_HEAD_BYTES = 128 * 2**20  # of a head asset's arrays; the default head has 15
# Kinds of numpy type and shape of what a head asset holds; a letter is a side that is as long everywhere: vertices V, faces F,
# controls C, their entries B, identity shapes I, regions R, joints J, their entries W.
_ASSET_ARRAYS: dict[str, tuple[str, tuple[int | str, ...]]] = {
    "vertices": ("f", ("V", 3)), "faces": ("u", ("F", 3)), "part": ("u", ("V",)), "face_part": ("u", ("F",)), "uv": ("f", ("V", 2)),
    "weld": ("u", ("V",)), "mirror": ("u", ("V",)), "head_weight": ("f", ("V",)), "bind_indptr": ("i", ("V+1",)),
    "bind_indices": ("u", ("B",)), "bind_data": ("f", ("B",)), "control_count": ("i", ()),
    "identity_quantised": ("i", ("I", "C", 3)), "identity_scale": ("f", ("I",)), "identity_names": ("U", ("I",)),
    "identity_lower": ("f", ("I",)), "identity_upper": ("f", ("I",)), "identity_mean": ("f", ("I",)), "identity_sigma": ("f", ("I",)),
    "expression_quantised": ("i", (52, "C", 3)), "expression_scale": ("f", (52,)), "expression_names": ("U", (52,)),
    "region_names": ("U", ("R",)), "region_values": ("u", ("R", "V")), "joint_names": ("U", ("J",)), "joint_parents": ("i", ("J",)),
    "joint_offsets": ("i", ("J+1",)), "joint_indices": ("u", ("W",)), "joint_weights": ("f", ("W",)),
    "eye_uv_left": ("f", (3,)), "eye_uv_right": ("f", (3,)), "iris_radius": ("f", ()),
    "landmark_tri": ("u", (468, 3)), "landmark_bary": ("f", (468, 3)), "landmark_confidence": ("f", (468,)),
}  # fmt: skip
_ASSET_INDICES = {"faces": "V", "weld": "V", "mirror": "V", "landmark_tri": "V"}
LANDMARKS = 468
EXPRESSIONS = 52
# The axis of an eyeball, on which iris and pupil lie, points outward of the line of sight (angle kappa: 5.5° ± 1.3°, Hashemi et al.
# 2010): eyes whose axes meet at what they look at are seen as crossed. Seven faces of photos and a clip measured 4° to 8°.
KAPPA_RAD = 0.087

# An eyeball's texture disc: what a gaze can show takes most of the radius, the back of the ball the outer ring.
EYE_DISC_POLAR_RAD = np.radians([0.0, 80.0, 180.0])
EYE_DISC_RADIUS = np.array([0.0, 0.92, 1.0])


@dataclass(frozen=True)
class EyeUV:
    """Where an eyeball's polar disc lies in the atlas: centre (2,) and radius in UV; the iris is in the middle."""

    centre: np.ndarray
    radius: float

    def polar(self, uv: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Polar angle from the optical axis and azimuth (0 toward +X, π/2 up), radians, of texture places (...,2)."""
        offset = (np.asarray(uv) - self.centre) / self.radius
        polar = np.interp(np.linalg.norm(offset, axis=-1), EYE_DISC_RADIUS, EYE_DISC_POLAR_RAD)
        return polar, np.arctan2(-offset[..., 1], offset[..., 0])

    def place(self, polar: np.ndarray, azimuth: np.ndarray) -> np.ndarray:
        """Texture places (...,2) of polar angles and azimuths; the inverse of `polar`."""
        reach = self.radius * np.interp(polar, EYE_DISC_POLAR_RAD, EYE_DISC_RADIUS)
        return self.centre + np.stack([reach * np.cos(azimuth), -reach * np.sin(azimuth)], -1)


@dataclass(frozen=True, eq=False, repr=False)
class HeadModel:
    """A morphable head in the head frame (metres, +Y up, +Z out of the face, +X the subject's left, origin between the eyes).

    vertices (V,3) f32: average adult, neutral. faces (F,3) int32: counter-clockwise from outside; part (F,) uint8: see
    PART_NAMES. uv (V,2) f32: glTF convention; vertices are split at texture seams, vertex_part (V,) uint8 is the part of each.
    weld (V,): first vertex at the same point of the same surface (skin and mouth bag are one surface).
    mirror (V,): the vertex on the other side. head_weight (V,) f32: share of the head's rotation about the neck joint.
    control_identity (I,C,3) f32, control_expression (52,C,3) f32: displacements of C control points, metres, which
    `bind` (V,C) spreads to the vertices; `identity` and `expression` are the spread bases.
    identity_lower, identity_upper (I,): bounds of coefficients; zero is the average. identity_mean, identity_sigma (I,): prior,
    sigma scaled so that Σ residual_mm² + ((w - mean) / sigma)² is the fit's cost.
    landmark_tri (468,3), landmark_bary (468,3), landmark_confidence (468,): MediaPipe's points on the skin.
    """

    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray
    part: np.ndarray
    vertex_part: np.ndarray
    weld: np.ndarray
    mirror: np.ndarray
    head_weight: np.ndarray
    bind: sp.csr_matrix
    control_identity: np.ndarray
    control_expression: np.ndarray
    identity_names: tuple[str, ...]
    identity_lower: np.ndarray
    identity_upper: np.ndarray
    identity_mean: np.ndarray
    identity_sigma: np.ndarray
    expression_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    joint_parents: np.ndarray
    joint_regressor: sp.csr_matrix
    regions: dict[str, np.ndarray]
    landmark_tri: np.ndarray
    landmark_bary: np.ndarray
    landmark_confidence: np.ndarray
    eye_uv: tuple[EyeUV, EyeUV]
    iris_radius: float

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> HeadModel:
        """The head that ships with the package, read once; raises WorkError when the installation lacks it."""
        return load_head(asset_path("head.npz"))

    @cached_property
    def identity(self) -> np.ndarray:
        """Identity basis (I,V,3) f32, metres."""
        return self._spread(self.control_identity)

    @cached_property
    def expression(self) -> np.ndarray:
        """Expression basis (52,V,3) f32, metres, in ARKit's order; zero on the eyeballs, which turn instead."""
        return self._spread(self.control_expression)

    def _spread(self, controls: np.ndarray) -> np.ndarray:
        count = len(controls)
        flat = np.moveaxis(controls, 0, 1).reshape(controls.shape[1], count * 3)
        spread = (self.bind @ flat).reshape(len(self.vertices), count, 3)
        return np.ascontiguousarray(np.moveaxis(spread, 0, 1), dtype=np.float32)

    def shape(self, identity: np.ndarray) -> np.ndarray:
        """Neutral vertices (V,3) f32 of identity coefficients (I,); raises InputError on another length."""
        return self.vertices + self._offsets(self.control_identity, identity, "identity coefficients")

    def expression_offsets(self, weights: np.ndarray) -> np.ndarray:
        """Displacements (V,3) f32 of the 52 weights in ARKit's order; raises InputError on another length."""
        return self._offsets(self.control_expression, weights, "expression weights")

    def _offsets(self, controls: np.ndarray, weights: np.ndarray, what: str) -> np.ndarray:
        weights = np.asarray(weights, np.float32)
        if weights.shape != (len(controls),):
            raise InputError(f"{what} of shape {weights.shape} were given, expected ({len(controls)},)")
        active = np.flatnonzero(weights)
        moved = np.tensordot(weights[active], controls[active], 1)
        return np.asarray(self.bind @ moved, np.float32)

    def normals(self, vertices: np.ndarray) -> np.ndarray:
        """Unit normals (V,3) f32, area-weighted and smooth across texture seams."""
        return smooth_normals(vertices, self.faces, self.weld)

    def landmark_points(self, vertices: np.ndarray) -> np.ndarray:
        """MediaPipe's 468 points (468,3) on a head of this model."""
        return (vertices[self.landmark_tri] * self.landmark_bary[..., None]).sum(1)

    def joint_positions(self, vertices: np.ndarray) -> np.ndarray:
        """Joints (J,3), metres, in the order of `joint_names`, of a neutral head's vertices (V,3)."""
        return self.joint_regressor @ vertices

    def eye_centres(self, vertices: np.ndarray) -> np.ndarray:
        """Centres (2,3) of the left and right eyeball."""
        return self.joint_positions(vertices)[[self.joint_names.index("leftEye"), self.joint_names.index("rightEye")]]

    def joints(self, vertices: np.ndarray) -> dict[str, np.ndarray]:
        """Joint positions {name: (3,)} of a neutral head's vertices (V,3), as an Avatar keeps them."""
        return dict(zip(self.joint_names, self.joint_positions(vertices), strict=True))

    @cached_property
    def eye_vertices(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertex indices of the left and right eyeball."""
        eyes = np.flatnonzero(self.vertex_part == EYES)
        return eyes[self.vertices[eyes, 0] > 0], eyes[self.vertices[eyes, 0] < 0]

    def eye_radii(self, vertices: np.ndarray) -> np.ndarray:
        """Radii (2,) of the left and right eyeball, metres; of the ball, before which the cornea stands."""
        centres = self.eye_centres(vertices)
        return np.array(
            [
                np.median(np.linalg.norm(vertices[index] - centre, axis=1))
                for index, centre in zip(self.eye_vertices, centres, strict=True)
            ]
        )

    def scaled(self, scale: float) -> HeadModel:
        """The same head `scale` times as large in all its lengths; coefficients and weights keep their meaning."""
        return replace(
            self, vertices=self.vertices * np.float32(scale), control_identity=self.control_identity * np.float32(scale),
            control_expression=self.control_expression * np.float32(scale), iris_radius=self.iris_radius * scale,
        )  # fmt: skip

    def subdivided(self, levels: int, parts: tuple[int, ...] = (SKIN, MOUTH_BAG)) -> Subdivision:
        """Loop subdivision (Loop 1987) of the chosen parts across texture seams; boundaries follow their own curve.

        Raises InputError for fewer than 0 or more than 3 levels.
        """
        if not 0 <= levels <= 3:
            raise InputError(f"{levels} subdivision levels were asked for, expected 0 to 3")
        return _subdivide(self, levels, parts)


@dataclass(frozen=True)
class Subdivision:
    """A finer surface: `matrix` (N,V) csr makes its vertices from the model's; faces, uv, part and weld as in HeadModel."""

    matrix: sp.csr_matrix
    faces: np.ndarray
    uv: np.ndarray
    part: np.ndarray
    weld: np.ndarray


def load_head(path: str | Path) -> HeadModel:
    """Read a head asset (.npz, no pickle); raises InputError when it is not one."""
    arrays = read_npz(path, "head asset", MAX_HEAD_BYTES)
    try:
        _check_arrays(arrays)
        return head_from_arrays(arrays)
    except ValueError as error:
        raise InputError(f"{path} is not a head asset: {error}; rebuild it with tools/build_head.py") from error


def _check_arrays(a: dict[str, np.ndarray]) -> None:
    """Raise ValueError where one of an asset's arrays is missing, or they do not fit each other."""
    sides: dict[str, int] = {}
    for name, (kinds, shape) in _ASSET_ARRAYS.items():
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
        iris_radius=float(a["iris_radius"]),
    )  # fmt: skip


def _subdivide(model: HeadModel, levels: int, parts: tuple[int, ...]) -> Subdivision:
    import scipy.sparse as sp

    chosen = np.isin(model.part, parts)
    used, inverse = np.unique(model.faces[chosen], return_inverse=True)
    faces = inverse.reshape(-1, 3)
    matrix = sp.csr_matrix((np.ones(len(used)), (np.arange(len(used)), used)), (len(used), len(model.vertices)))
    uv, part = model.uv[used].astype(np.float64), model.part[chosen]
    _, weld = np.unique(model.weld[used], return_inverse=True)
    first = np.full(weld.max() + 1, len(used))
    np.minimum.at(first, weld, np.arange(len(used)))
    weld = first[weld]
    for _ in range(levels):
        step, split, faces, weld = _loop_step(faces, weld)
        matrix = (step @ matrix).tocsr()
        uv = split @ uv
        part = np.tile(part, 4)
    return Subdivision(matrix, faces, uv.astype(np.float32), part, weld)


def _loop_step(faces: np.ndarray, weld: np.ndarray) -> tuple[sp.csr_matrix, sp.csr_matrix, np.ndarray, np.ndarray]:
    """One step: smooth rule over welded vertices, midpoint rule for texture, new faces, new weld."""
    import scipy.sparse as sp

    count = len(weld)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    low, high = np.sort(edges, 1).T
    unique, which = np.unique(low.astype(np.int64) * count + high, return_inverse=True)
    a, b = unique // count, unique % count
    middle = count + np.arange(len(unique))
    split = sp.csr_matrix(
        (
            np.r_[np.ones(count), np.full(2 * len(unique), 0.5)],
            (np.r_[np.arange(count), np.repeat(middle, 2)], np.r_[np.arange(count), np.stack([a, b], 1).ravel()]),
        ),
        (count + len(unique), count),
    )
    # Welded edges: every copy of an edge shares its opposite corners.
    wf = weld[faces]
    wa, wb = np.sort(weld[np.stack([a, b], 1)], 1).T
    welded, edge_of = np.unique(wa.astype(np.int64) * count + wb, return_inverse=True)
    ea, eb = welded // count, welded % count
    opposite = np.concatenate([wf[:, 2], wf[:, 0], wf[:, 1]])
    face_edge = edge_of[which]
    uses = np.bincount(face_edge, minlength=len(welded))
    border = uses != 2
    rows = np.arange(len(welded))
    end_weight = np.where(border, 0.5, 0.375)
    opposite_weight = np.where(border[face_edge], 0.0, 0.125)
    edge_rule = sp.csr_matrix(
        (np.r_[end_weight, end_weight, opposite_weight], (np.r_[rows, rows, face_edge], np.r_[ea, eb, opposite])),
        (len(welded), count),
    )
    adjacency = sp.csr_matrix((np.ones(2 * len(ea)), (np.r_[ea, eb], np.r_[eb, ea])), (count, count))
    along = sp.csr_matrix(
        (np.ones(2 * border.sum()), (np.r_[ea[border], eb[border]], np.r_[eb[border], ea[border]])), (count, count)
    )
    valence = np.asarray(adjacency.sum(1)).ravel()
    border_valence = np.asarray(along.sum(1)).ravel()
    on_border = border_valence > 0
    beta = np.where(valence == 3, 3 / 16, 3 / (8 * np.maximum(valence, 1)))
    smooth = sp.diags(np.where(on_border, 0.75, 1 - valence * beta)) + sp.diags(np.where(on_border, 0, beta)) @ adjacency
    smooth = smooth + sp.diags(np.where(on_border, 0.25 / np.maximum(border_valence, 1), 0)) @ along
    step = sp.vstack([smooth.tocsr()[weld], edge_rule[edge_of]]).tocsr()
    m = (which + count).reshape(3, -1)
    f = faces.T
    new_faces = np.concatenate(
        [np.stack(t, 1) for t in ((f[0], m[0], m[2]), (f[1], m[1], m[0]), (f[2], m[2], m[1]), (m[0], m[1], m[2]))]
    )
    first = np.full(len(welded), count + len(unique))
    np.minimum.at(first, edge_of, middle)
    return step, split, new_faces, np.r_[weld, first[edge_of]]
