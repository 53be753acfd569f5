"""The linear head model: template, identity and expression bases, joints, regions, landmarks; holds no avatar's state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from avatar3d.avatar import (
    PART_CLOTHES,
    PART_EYE,
    PART_LASH,
    PART_MOUTH,
    PART_NAMES,
    PART_SKIN,
    PART_TEETH,
    PART_TONGUE,
)
from avatar3d.errors import InputError
from avatar3d.geometry import smooth_normals
from avatar3d.head.mediapipe import MESH_POINTS
from avatar3d.head.subdivision import Subdivision, subdivide
from avatar3d.motion.code import ARKIT_INDEX, WEIGHT_COUNT, MotionCode
from avatar3d.resources import asset_path

if TYPE_CHECKING:
    import scipy.sparse as sp  # an avatar is shown without it; only the model itself needs it

    from avatar3d.head.protocol import MorphableModel

# A head's parts are the first of an avatar's, under short names; the others are what a person wears.
SKIN, EYES, TEETH, TONGUE, LASHES, MOUTH_BAG = PART_SKIN, PART_EYE, PART_TEETH, PART_TONGUE, PART_LASH, PART_MOUTH
HEAD_PARTS = PART_NAMES[:PART_CLOTHES]
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
    """A linear head, which fulfils avatar3d.head.protocol.MorphableModel; the default one has E = 52 and L = 468.

    Head frame: metres, +Y up, +Z out of the face, +X the subject's left, origin between the eyes.

    vertices (V,3) f32: average adult, neutral. faces (F,3) int32: counter-clockwise from outside; part (F,) uint8: see
    HEAD_PARTS. uv (V,2) f32: glTF convention; vertices are split at texture seams, vertex_part (V,) uint8 is the part of each.
    weld (V,): first vertex at the same point of the same surface (skin and mouth bag are one surface).
    mirror (V,): the vertex on the other side. head_weight (V,) f32: share of the head's rotation about the neck joint.
    control_identity (I,C,3) f32, control_expression (E,C,3) f32: displacements of C control points, metres, which
    `bind` (V,C) spreads to the vertices; `identity` and `expression` are the spread bases.
    identity_lower, identity_upper (I,): bounds of coefficients; zero is the average. identity_mean, identity_sigma (I,): prior,
    sigma scaled so that Σ residual_mm² + ((w - mean) / sigma)² is the fit's cost.
    rig_matrix (E,52): coefficients of the ARKit weights; None: shapes of ARKit's names are moved by the weights of these names.
    landmark_tri (L,3), landmark_bary (L,3), landmark_confidence (L,): MediaPipe's points landmark_ids (L,) on the skin.
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
    rig_matrix: np.ndarray | None = None
    landmark_ids: np.ndarray = field(default_factory=lambda: np.arange(MESH_POINTS))

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> HeadModel:
        """The head that ships with the package, read once; raises WorkError when the installation lacks it."""
        from avatar3d.head.archive import load_head

        return load_head(asset_path("head.npz"))

    @cached_property
    def identity(self) -> np.ndarray:
        """Identity basis (I,V,3) f32, metres."""
        return self._spread(self.control_identity)

    @cached_property
    def expression(self) -> np.ndarray:
        """Expression basis (E,V,3) f32, metres, in the order of `expression_names`; zero on the eyeballs, which turn instead."""
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
        """Displacements (V,3) f32 of expression coefficients (E,); raises InputError on another length."""
        return self._offsets(self.control_expression, weights, "expression coefficients")

    def _offsets(self, controls: np.ndarray, weights: np.ndarray, what: str) -> np.ndarray:
        weights = np.asarray(weights, np.float32)
        if weights.shape != (len(controls),):
            raise InputError(f"{what} of shape {weights.shape} were given, expected ({len(controls)},)")
        active = np.flatnonzero(weights)
        moved = np.tensordot(weights[active], controls[active], 1)
        return np.asarray(self.bind @ moved, np.float32)

    def rig(self, motion: MotionCode) -> np.ndarray:
        """Expression coefficients (E,) f64 of a motion code's weights."""
        return self.arkit_matrix @ motion.weights

    @cached_property
    def arkit_matrix(self) -> np.ndarray:
        """(E,52) f64: what `rig` multiplies the weights by."""
        if self.rig_matrix is not None:
            return np.asarray(self.rig_matrix, np.float64)
        matrix = np.zeros((len(self.expression_names), WEIGHT_COUNT))
        for row, name in enumerate(self.expression_names):
            if name in ARKIT_INDEX:
                matrix[row, ARKIT_INDEX[name]] = 1.0
        return matrix

    def normals(self, vertices: np.ndarray) -> np.ndarray:
        """Unit normals (V,3) f32, area-weighted and smooth across texture seams."""
        return smooth_normals(vertices, self.faces, self.weld)

    def landmark_points(self, vertices: np.ndarray) -> np.ndarray:
        """The landmarks (L,3) on a head of this model."""
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
        return subdivide(self, levels, parts)


if TYPE_CHECKING:
    _: type[MorphableModel] = HeadModel  # the contract is kept
