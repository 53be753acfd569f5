"""A head model that is not the default one: other vertices in another order, shapes, regions, names, parts and landmarks.

Made of the default head, so that nothing is fetched, but handed over as bare arrays, as a person's own model would be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import JOINT_NAMES
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import EYE_LOOPS, LIPS_INNER, LIPS_OUTER, MESH_POINTS, STABLE
from avatar3d.head.model import EYES, MOUTH_BAG, SKIN, EyeUV
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, MotionCode

KEPT_PARTS = (SKIN, EYES, MOUTH_BAG)  # no teeth, no tongue, no lashes, as most models from scans
BUST_CUT_M = -0.175  # and less of a bust
LARGER = 1.06
ATLAS_AT, ATLAS_SIZE = 0.05, 0.9  # of the default texture in its own
IDENTITIES = 36
REGIONS = ("face", "ears", "lips", "inner_mouth", "eyelids", "eye_contour", "neck", "bust")
# Its own expressions: each moves what several ARKit weights ask for.
EXPRESSIONS: tuple[dict[str, float], ...] = (
    {"jawOpen": 1.0}, {"mouthSmileLeft": 1.0, "mouthSmileRight": 1.0}, {"eyeBlinkLeft": 1.0}, {"eyeBlinkRight": 1.0},
    {"browInnerUp": 1.0, "browOuterUpLeft": 0.6, "browOuterUpRight": 0.6}, {"browDownLeft": 1.0, "browDownRight": 1.0},
    {"mouthPucker": 1.0, "mouthFunnel": 0.5}, {"mouthFrownLeft": 1.0, "mouthFrownRight": 1.0},
    {"mouthUpperUpLeft": 1.0, "mouthUpperUpRight": 1.0}, {"mouthLowerDownLeft": 1.0, "mouthLowerDownRight": 1.0},
    {"mouthClose": 1.0},
)  # fmt: skip


@dataclass
class OtherHead:
    """Fulfils avatar3d.head.protocol.MorphableModel with arrays alone."""

    vertices: np.ndarray
    faces: np.ndarray
    part: np.ndarray
    uv: np.ndarray
    identity: np.ndarray
    identity_lower: np.ndarray
    identity_upper: np.ndarray
    identity_mean: np.ndarray
    identity_sigma: np.ndarray
    expression: np.ndarray
    regions: dict[str, np.ndarray]
    head_weight: np.ndarray
    joint_names: list[str]
    joint_regressor: np.ndarray
    landmark_ids: np.ndarray
    landmark_tri: np.ndarray
    landmark_bary: np.ndarray
    landmark_confidence: np.ndarray
    eye_uv: list[EyeUV]
    iris_radius: float

    def rig(self, motion: MotionCode) -> np.ndarray:
        """One coefficient for each of EXPRESSIONS: the mean of the weights that it answers."""
        return np.array([np.mean([motion.weights[ARKIT_INDEX[name]] for name in mixed]) for mixed in EXPRESSIONS])


def other_head(parts: tuple[int, ...] = KEPT_PARTS, bust_cut_m: float = BUST_CUT_M) -> OtherHead:
    """About 5,000 vertices, 36 identity shapes, 11 expressions, 8 regions and some 140 landmarks."""
    default = fitting_head()
    rng = np.random.default_rng(5)
    kept = np.isin(default.part, parts) & (default.vertices[default.faces][..., 1].max(1) > bust_cut_m)
    used = np.unique(default.faces[kept])
    order = rng.permutation(used)
    number = np.full(len(default.vertices), -1)
    number[order] = np.arange(len(order))
    faces = rng.permutation(np.flatnonzero(kept))
    modes = [k for k, name in enumerate(default.identity_names) if name.startswith("ict/")]
    modes += [k for k, name in enumerate(default.identity_names) if name.startswith("ears/") and "scale" in name]
    modes = modes[:IDENTITIES]
    known = sorted({*STABLE, *LIPS_OUTER, *LIPS_INNER, *EYE_LOOPS[0], *EYE_LOOPS[1]})
    known = [k for k in rng.permutation(known) if (number[default.landmark_tri[k]] >= 0).all()]
    regressor = default.joint_regressor.toarray()[:, order]
    regressor /= regressor.sum(1, keepdims=True)
    mean = sum(0.4 * default.identity[k] for k in modes[:2])  # another average
    template = (default.vertices + mean)[order]
    expression = [sum(share * default.expression[ARKIT_INDEX[name]] for name, share in mixed.items()) for mixed in EXPRESSIONS]
    joints = rng.permutation(len(JOINT_NAMES))
    centre = regressor[[default.joint_names.index(name) for name in ("leftEye", "rightEye")]] @ template
    return OtherHead(
        vertices=LARGER * (template - centre.mean(0)), faces=number[default.faces[faces]], part=default.part[faces],
        uv=(ATLAS_AT + ATLAS_SIZE * default.uv[order]).astype(np.float32),
        eye_uv=[EyeUV(ATLAS_AT + ATLAS_SIZE * eye.centre, ATLAS_SIZE * eye.radius) for eye in default.eye_uv],
        iris_radius=LARGER * default.iris_radius, identity=LARGER * default.identity[modes][:, order],
        identity_lower=default.identity_lower[modes], identity_upper=default.identity_upper[modes],
        identity_mean=default.identity_mean[modes], identity_sigma=default.identity_sigma[modes],
        expression=LARGER * np.stack(expression)[:, order],
        regions={name: default.regions[name][order] for name in rng.permutation(REGIONS)},
        head_weight=default.head_weight[order], joint_names=[default.joint_names[k] for k in joints],
        joint_regressor=regressor[joints], landmark_ids=np.array(known), landmark_tri=number[default.landmark_tri[known]],
        landmark_bary=default.landmark_bary[known], landmark_confidence=default.landmark_confidence[known],
    )  # fmt: skip


def counts(head: OtherHead) -> dict[str, tuple[int, int]]:
    """{what: (of this head, of the default one)}."""
    default = fitting_head()
    return {
        "vertices": (len(head.vertices), len(default.vertices)),
        "faces": (len(head.faces), len(default.faces)),
        "identity": (len(head.identity), len(default.control_identity)),
        "expression": (len(head.expression), len(ARKIT_NAMES)),
        "regions": (len(head.regions), len(default.regions)),
        "landmarks": (len(head.landmark_ids), MESH_POINTS),
    }
