"""Avatar: everything one enrolled head holds, as plain arrays checked at construction; knows no file format and no renderer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.motion.code import WEIGHT_COUNT, MotionCode
from avatar3d.motion.retarget import Reach

PART_SKIN, PART_EYE, PART_TEETH, PART_TONGUE, PART_LASH, PART_MOUTH, PART_CLOTHES, PART_GLASSES, PART_LENS = range(9)
PART_NAMES = ("skin", "eyes", "teeth", "tongue", "lashes", "mouth", "clothes", "glasses", "lenses")
LANDMARKS = 468  # of the face's surface, in MediaPipe's numbering (avatar3d.head.mediapipe)
MAX_SHELLS = 12  # hair levels; more cost fill rate and add nothing that is seen
JOINT_NAMES = ("neck", "head", "jaw", "leftEye", "rightEye")


def _check(ok: bool, sentence: str) -> None:
    if not ok:
        raise InputError(f"this avatar is damaged: {sentence}; enrol it again")


def _in_range(indices: np.ndarray, count: int) -> bool:
    return indices.size == 0 or bool(indices.min() >= 0 and indices.max() < count)


@dataclass
class HairShells:
    """Hair as K nested surfaces over one grid: vertex k of level l lies at base + levels[l] * extent.

    base, extent: (N, 3) f32 metres, head frame. uv: (N, 2) f32. weld: (N,) i32 first vertex at the same place.
    faces: (F, 3) i32, counter-clockwise from outside. levels: (K,) f32 rising in [0, 1.2]; level 0 is the opaque base,
    drawn two-sided and cut where its opacity is under one half, the others are blended from inside out.
    color: (H, W, 3) u8 sRGB albedo. opacity: (K, h, w) u8. occlusion: (K,) f32 linear multiplier of the colour.
    Raises InputError where the arrays do not fit each other.
    """

    base: np.ndarray
    extent: np.ndarray
    uv: np.ndarray
    weld: np.ndarray
    faces: np.ndarray
    levels: np.ndarray
    color: np.ndarray
    opacity: np.ndarray
    occlusion: np.ndarray

    def __post_init__(self) -> None:
        count = len(self.base)
        _check(self.base.shape == (count, 3) and self.extent.shape == (count, 3), "hair vertices are not (N, 3)")
        _check(self.uv.shape == (count, 2) and self.weld.shape == (count,), "hair attributes differ in length")
        _check(self.faces.ndim == 2 and self.faces.shape[1] == 3, "hair faces are not triangles")
        _check(_in_range(self.faces, count), "a hair face is out of range")
        _check(_in_range(self.weld, count), "a hair weld is out of range")
        shells = len(self.levels)
        _check(1 <= shells <= MAX_SHELLS, f"{shells} hair levels, expected 1 to {MAX_SHELLS}")
        _check(self.opacity.ndim == 3 and len(self.opacity) == shells, "hair opacity differs from the number of levels")
        _check(self.occlusion.shape == (shells,), "hair occlusion differs from the number of levels")
        _check(self.color.ndim == 3 and self.color.shape[2] == 3, "hair colour is not (H, W, 3)")
        _check(bool(np.isfinite(self.base).all() and np.isfinite(self.extent).all()), "a hair vertex is not finite")


@dataclass
class TextureDelta:
    """One motion-driven change of the base colour: color · exp(activation · log_ratio).

    activation = clip(row · weights + bias, 0, 1).
    row: (52,) f32. bias: f32. log_ratio: (h, w, 3) f32 natural log of the linear colour ratio, over the whole atlas.
    """

    name: str
    row: np.ndarray
    bias: float
    log_ratio: np.ndarray

    def activation(self, weights: np.ndarray) -> float:
        """Activation in [0, 1] for (52,) ARKit weights."""
        return float(np.clip(self.row @ weights + self.bias, 0.0, 1.0))


@dataclass
class FieldParams:
    """The neural field's numbers (Müller et al. 2022, section 3), as avatar3d.field evaluates them.

    box_min, box_max: (3,) metres in the neutral head frame. resolutions: (L,) grid cells a side. tables: (L, T, F) f32, T a
    power of two. motion_projection: (52, M) f32. weights: [(out, in)] f32 and biases of the MLP, whose input is
    [L·F features, 8 spherical harmonics of degree 1 and 2, M motion], whose output is rgb residual and opacity change before
    the soft bound y / (1 + |y|). color_bound and alpha_bound scale it (linear colour, opacity). Raises InputError where tables
    and MLP do not fit each other.
    """

    box_min: np.ndarray
    box_max: np.ndarray
    resolutions: np.ndarray
    tables: np.ndarray
    motion_projection: np.ndarray
    weights: list[np.ndarray]
    biases: list[np.ndarray]
    color_bound: float = 0.25
    alpha_bound: float = 0.5

    def __post_init__(self) -> None:
        _check(self.tables.ndim == 3 and len(self.tables) == len(self.resolutions), "the field's tables differ from its levels")
        size = self.tables.shape[1]
        _check(size > 0 and size & (size - 1) == 0, "the field's table size is not a power of two")
        _check(
            self.motion_projection.ndim == 2 and len(self.motion_projection) == WEIGHT_COUNT,
            "the motion projection is not (52, M)",
        )
        width = self.tables.shape[0] * self.tables.shape[2] + 8 + self.motion_projection.shape[1]
        _check(len(self.weights) == len(self.biases) and len(self.weights) >= 1, "the field's MLP has no layers")
        for weight, bias in zip(self.weights, self.biases, strict=True):
            chains = weight.ndim == 2 and weight.shape[1] == width and bias.shape == (weight.shape[0],)
            _check(chains, "the field's MLP does not chain")
            width = weight.shape[0]
        _check(width == 4, "the field's MLP does not end in rgb + opacity")


@dataclass
class BakedMotion:
    """One principal direction in which the motion code changes a bake's textures: `amount` times these is added.

    amount = clip(row · (weights − the bake's weights), low, high). row: (52,) f32. skin: (h, w, 3), hair: (K, h, w, 3) f32, shaped
    like the bake's colours, or None where the change would not be seen.
    """

    row: np.ndarray
    low: float
    high: float
    skin: np.ndarray | None = None
    hair: np.ndarray | None = None


@dataclass
class BakedField:
    """The field's mean over the eyes that see a surface, in textures of each shell.

    A renderer draws the field at the vertices, interpolated, with the view and the motion code in full, and adds what these
    textures hold beyond the vertices' own mean (avatar3d.rendering.lod.fold). skin_q0: (h, w, 3) f32 colour residual over the atlas;
    hair_q0: (K, h, w, 4) f32 over the hair's uv, its last channel the change of opacity, or None. weights: (52,) ARKit weights
    that they were made for; motion: how others change what is added.
    psnr_skin_db, psnr_hair_db: what is drawn against the live form at `weights`; psnr_moved_skin_db, psnr_moved_hair_db: over
    motion codes that the directions were not made from; NaN where not measured. Raises InputError where shapes do not fit.
    """

    skin_q0: np.ndarray
    hair_q0: np.ndarray | None
    weights: np.ndarray
    psnr_skin_db: float
    psnr_hair_db: float
    psnr_moved_skin_db: float = float("nan")
    psnr_moved_hair_db: float = float("nan")
    motion: list[BakedMotion] = field(default_factory=list)

    def __post_init__(self) -> None:
        _check(self.skin_q0.ndim == 3 and self.skin_q0.shape[2] == 3, "the baked skin is not (h, w, 3)")
        hair = None if self.hair_q0 is None else self.hair_q0.shape
        _check(hair is None or (len(hair) == 4 and hair[3] == 4), "the baked hair is not (K, h, w, 4)")
        for direction in self.motion:
            _check(direction.row.shape == (WEIGHT_COUNT,), "a baked motion's row is not (52,)")
            _check(direction.low <= direction.high, "a baked motion's limits are not in order")
            _check(
                direction.skin is None or direction.skin.shape == self.skin_q0.shape, "a baked motion differs from the skin's"
            )
            same = direction.hair is None or (hair is not None and direction.hair.shape == (*hair[:3], 3))
            _check(same, "a baked motion differs from the hair's")

    def amounts(self, weights: np.ndarray) -> np.ndarray:
        """(D,) f32: how far (52,) ARKit weights go in each direction of `motion`."""
        moved = np.asarray(weights, np.float32) - self.weights
        values = [np.clip(direction.row @ moved, direction.low, direction.high) for direction in self.motion]
        return np.array(values, np.float32)


@dataclass
class Avatar:
    """One head: plain arrays that fit each other.

    Attributes
    ----------
    vertices
        (V, 3) f32 at rest, metres, head frame: origin midway between the eyeballs' centres, +Y up, +Z out of the face.
    faces, part
        (F, 3) i32, counter-clockwise from outside, and (F,) u8, PART_* of each.
    uv, weld
        (V, 2) f32, glTF's convention, and (V,) i32, the first vertex at the same place.
    expression
        (52, V, 3) f32 metres that a whole weight moves, in the order of ARKIT_NAMES.
    head_weight
        (V,) f32, share of the head's rotation about the neck.
    vertex_alpha
        (V,) f32, cover: the bust fades out at its lower edge.
    field_weight
        (V,) f32, where the field acts.
    joints
        {name: (3,) metres} for JOINT_NAMES.
    base_color
        (H, W, 3) u8 sRGB, albedo.
    confidence
        (h, w) u8, 255 where the photo shows the skin.
    light
        (9, 3) f32 irradiance in the basis that avatar3d.rendering.scene documents, world frame, its mean on the face 1.
    shading_power
        Exponent of the shade that the texture was freed of.
    landmark_triangles, landmark_barycentric
        (468, 3) i32 vertices of the triangle that each of MediaPipe's points lies in, and (468, 3) f32 its place there.
    hair, neural_field, baked
        None where it has none.
    texture_deltas
        Changes of the base colour that come with the expression.
    photo_camera, photo_motion
        Whence and in what expression the photo shows it, None where that is not known.
    reach
        What a tracking network's answers mean on it, None where that is not known.
    valid_yaw_deg
        Yaw from and to which the photo supports the look.
    provenance
        How it was made, JSON-able.

    Raises
    ------
    avatar3d.errors.InputError
        The arrays do not fit each other, or hold what is not finite.
    """

    vertices: np.ndarray
    faces: np.ndarray
    part: np.ndarray
    uv: np.ndarray
    weld: np.ndarray
    expression: np.ndarray
    head_weight: np.ndarray
    vertex_alpha: np.ndarray
    field_weight: np.ndarray
    joints: dict[str, np.ndarray]
    base_color: np.ndarray
    confidence: np.ndarray
    light: np.ndarray
    shading_power: float
    landmark_triangles: np.ndarray
    landmark_barycentric: np.ndarray
    hair: HairShells | None = None
    texture_deltas: list[TextureDelta] = field(default_factory=list)
    neural_field: FieldParams | None = None
    baked: BakedField | None = None
    photo_camera: Camera | None = None
    photo_motion: MotionCode | None = None
    reach: Reach | None = None
    valid_yaw_deg: tuple[float, float] = (-40.0, 40.0)
    provenance: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count, triangles = len(self.vertices), len(self.faces)
        _check(self.vertices.shape == (count, 3) and count >= 3, "vertices are not (V, 3)")
        _check(bool(np.isfinite(self.vertices).all()), "a vertex is not finite")
        _check(self.faces.shape == (triangles, 3) and triangles > 0, "faces are not (F, 3)")
        _check(_in_range(self.faces, count), "a face is out of range")
        _check(self.part.shape == (triangles,) and bool(self.part.max() < len(PART_NAMES)), "parts differ from the faces")
        for name in ("weld", "head_weight", "vertex_alpha", "field_weight"):
            _check(getattr(self, name).shape == (count,), f"{name} differs from the vertices")
        _check(_in_range(self.weld, count), "a weld is out of range")
        _check(self.uv.shape == (count, 2), "uv differs from the vertices")
        _check(self.expression.shape == (WEIGHT_COUNT, count, 3), "the expression basis is not (52, V, 3)")
        _check(bool(np.isfinite(self.expression).all()), "an expression offset is not finite")
        _check(set(self.joints) == set(JOINT_NAMES), f"joints are not {', '.join(JOINT_NAMES)}")
        _check(self.base_color.ndim == 3 and self.base_color.shape[2] == 3, "the base colour is not (H, W, 3)")
        _check(self.light.shape == (9, 3), "the light is not (9, 3)")
        _check(self.landmark_triangles.shape == (LANDMARKS, 3), f"the landmark embedding is not ({LANDMARKS}, 3)")
        _check(_in_range(self.landmark_triangles, count), "a landmark is out of range")

    @property
    def landmarks(self) -> np.ndarray:
        """(468, 3) f32 places of MediaPipe's face points on the resting head, head frame, metres; 1 is the nose's tip."""
        corners = self.vertices[self.landmark_triangles]
        return (corners * self.landmark_barycentric[..., None]).sum(1).astype(np.float32)

    @property
    def vertex_part(self) -> np.ndarray:
        """(V,) u8 part of each vertex (a vertex on the lip line takes the smaller number, skin)."""
        part = np.full(len(self.vertices), 255, np.uint8)
        for corner in range(3):
            np.minimum.at(part, self.faces[:, corner], self.part)
        return part
