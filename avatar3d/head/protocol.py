"""What a head model is to everything else: the contract that the default head fulfils and that yours may (docs/head-model.md).

Enrolment and tracking take any object with these members; `avatar3d.head.given.adopted` checks it and says in one sentence
what it lacks. How many vertices, shapes and landmarks there are is the model's own affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from avatar3d.motion.code import MotionCode

# Soft regions (V,) of the skin in [0, 1] that enrolment asks for by name, and where each lies; more may be there.
REGIONS: dict[str, str] = {
    "face": "from the hairline to the chin and before the ears, lips and lids with it",
    "ears": "both ears, fading out around them",
    "lips": "the red of the lips",
    "inner_mouth": "from where the lips meet inward, and the mouth bag",
    "eyelids": "upper and lower lids, to the brow and to the cheek",
    "eye_contour": "around each eye, where lashes grow and lids fold",
    "neck": "from the jaw down to the bust",
    "bust": "below the neck",
}
LASH_REGION = "lashes"  # of a model that has lashes: how opaque they are, 0 at their tips; 1 where it is left out


class EyeDisc(Protocol):
    """Where an eyeball lies in the texture: the iris in the middle of a disc, the back of the ball at its rim (head.model.EyeUV)."""

    @property
    def centre(self) -> np.ndarray: ...

    @property
    def radius(self) -> float: ...


class MorphableModel(Protocol):
    """A linear head in metres: +Y up, +Z out of the face, +X the subject's left, the origin midway between the eyeballs.

    Template: vertices (V, 3), an average adult at rest with closed lips and open eyes; faces (F, 3), counter-clockwise from
    outside; part (F,), of avatar3d.head.model.HEAD_PARTS, of which skin and eyes are needed and no vertex belongs to two; uv
    (V, 2), glTF's convention, vertices split at seams; eye_uv, of the [left, right] eyeball; iris_radius, metres.
    Identity: (I, V, 3) metres a unit; bounds identity_lower, identity_upper (I,), and the prior: identity_mean and
    identity_sigma (I,), such that Σ residual_mm² + ((w − mean) / sigma)² over landmarks and coefficients is what a fit costs. A
    principal mode in standard deviations has sigma 0.45 in the default head, an artist's slider of 0 to 1 about 0.08.
    Expression: (E, V, 3) metres a unit, which leave the eyeballs alone; `rig` turns them by the gaze instead.
    Regions: (V,) in [0, 1] by the names of REGIONS. head_weight (V,): share of the head's turn about the neck, 1 on the face.
    Joints: joint_names, among them avatar3d.avatar.JOINT_NAMES, and joint_regressor (J, V), array or scipy matrix, which makes them
    of the vertices.
    Landmarks: L of MediaPipe's points by their numbers landmark_ids (L,), each at landmark_bary (L, 3) of the triangle of
    vertices landmark_tri (L, 3), landmark_confidence (L,) in [0, 1]. What of MediaPipe's mesh is not among them is guessed.
    """

    @property
    def vertices(self) -> np.ndarray: ...

    @property
    def faces(self) -> np.ndarray: ...

    @property
    def part(self) -> np.ndarray: ...

    @property
    def uv(self) -> np.ndarray: ...

    @property
    def identity(self) -> np.ndarray: ...

    @property
    def identity_lower(self) -> np.ndarray: ...

    @property
    def identity_upper(self) -> np.ndarray: ...

    @property
    def identity_mean(self) -> np.ndarray: ...

    @property
    def identity_sigma(self) -> np.ndarray: ...

    @property
    def expression(self) -> np.ndarray: ...

    def rig(self, motion: MotionCode) -> np.ndarray:
        """Expression coefficients (E,), linear in the code's weights: an avatar holds one shape for each weight."""
        ...

    @property
    def regions(self) -> Mapping[str, np.ndarray]: ...

    @property
    def head_weight(self) -> np.ndarray: ...

    @property
    def joint_names(self) -> Sequence[str]: ...

    @property
    def joint_regressor(self) -> Any: ...

    @property
    def landmark_ids(self) -> np.ndarray: ...

    @property
    def landmark_tri(self) -> np.ndarray: ...

    @property
    def landmark_bary(self) -> np.ndarray: ...

    @property
    def landmark_confidence(self) -> np.ndarray: ...

    @property
    def eye_uv(self) -> Sequence[EyeDisc]: ...

    @property
    def iris_radius(self) -> float: ...
