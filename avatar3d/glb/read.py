"""Reads an avatar out of an opened GLB with the extension AVATAR3D_neural, everything checked on the way."""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import (
    JOINT_NAMES,
    PART_NAMES,
    Avatar,
    BakedField,
    BakedMotion,
    FieldParams,
    HairShells,
    TextureDelta,
)
from avatar3d.camera import Camera
from avatar3d.glb.budget import check_budget
from avatar3d.glb.gltf import Json
from avatar3d.glb.gltf_reader import GltfReader
from avatar3d.glb.records import Reading
from avatar3d.motion.code import ARKIT_NAMES, WEIGHT_COUNT, MotionCode
from avatar3d.motion.retarget import Reach

MAX_DELTAS = 64
MAX_MLP_LAYERS = 8
MAX_MOTION = 16  # directions of a bake
MEAN_FACING = 2 / 3  # mean cosine between a surface and the eyes that see it, in proportion to the area they see


def avatar_of(reader: GltfReader, content: Json) -> Avatar:
    """The avatar of an extension's object; raises InputError on what is missing, damaged, out of its range or too large."""
    check_budget(reader, content)
    whole = Reading(reader, content)
    version = whole.integer("version")
    mesh = whole.part("mesh")
    vertices = mesh.array("vertices")
    count = len(vertices)
    if count < 3:
        raise reader.damaged(f"{count} vertices, expected 3 at least")
    faces, part, expression = _read_surface(reader, mesh, count)
    joints = mesh.part("joints")
    texture = whole.part("texture")
    low_yaw, high_yaw = whole.numbers("validYawDeg").tolist()
    hair = _read_hair(whole.part("hair")) if "hair" in whole else None
    return Avatar(
        vertices=vertices,
        faces=faces,
        part=part,
        uv=mesh.array("uv"),
        weld=mesh.array("weld"),
        expression=expression,
        head_weight=mesh.array("headWeight"),
        vertex_alpha=mesh.array("vertexAlpha"),
        field_weight=mesh.array("fieldWeight"),
        joints={name: joints.numbers(name).astype(np.float32) for name in JOINT_NAMES},
        base_color=texture.picture("baseColor"),
        confidence=texture.picture("confidence"),
        light=whole.numbers("light").astype(np.float32),
        shading_power=whole.number("shadingPower"),
        landmark_triangles=mesh.array("landmarkTriangles"),
        landmark_barycentric=mesh.array("landmarkBarycentric"),
        hair=hair,
        texture_deltas=[
            TextureDelta(
                name=entry.text("name"), row=entry.array("row"), bias=entry.number("bias"), log_ratio=entry.stepped("logRatio")
            )
            for entry in texture.parts("deltas", MAX_DELTAS)
        ],
        neural_field=_read_field(whole.part("field")) if "field" in whole else None,
        baked=_read_baked(whole.part("baked"), version, hair) if "baked" in whole else None,
        photo_camera=_read_camera(whole.part("photoCamera")) if "photoCamera" in whole else None,
        photo_motion=_read_motion(whole.part("photoMotion")) if "photoMotion" in whole else None,
        reach=_read_reach(whole.part("reach")) if "reach" in whole else None,
        valid_yaw_deg=(low_yaw, high_yaw),
        provenance=whole.part("provenance").raw,
    )


def _read_surface(reader: GltfReader, mesh: Reading, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Faces in their original order, parts, and expression offsets, out of the core's primitives."""
    reader.spend(WEIGHT_COUNT * count * 12)
    expression = np.zeros((WEIGHT_COUNT, count, 3), np.float32)
    pieces: list[np.ndarray] = []
    parts: list[int] = []
    seen: set[tuple[int, int]] = set()
    for entry in reader.entries(mesh.raw, "primitives", 4 * len(PART_NAMES)):
        if not isinstance(entry, dict):
            raise reader.damaged("a primitive is not an object")
        first = reader.integer(entry, "firstVertex", 0, count - 1)
        length = reader.integer(entry, "vertexCount", 1, count - first)
        core = reader.pick("meshes", entry.get("mesh"))
        primitives = reader.entries(core, "primitives", 64)
        place = reader.integer(entry, "primitive", 0, max(len(primitives) - 1, 0))
        if place >= len(primitives) or not isinstance(primitives[place], dict):
            raise reader.damaged("a mesh lacks a primitive that the extension names")
        primitive = primitives[place]
        corners = reader.scalars(primitive.get("indices"), length)
        if len(corners) % 3:
            raise reader.damaged("a primitive does not hold whole triangles")
        pieces.append(corners.reshape(-1, 3) + np.int32(first))
        parts.append(reader.integer(entry, "part", 0, len(PART_NAMES) - 1))
        # An eyeball's targets only tell other viewers what its node does here.
        targets = [] if entry.get("looks") is True else reader.entries(primitive, "targets", len(ARKIT_NAMES))
        if targets and (first, length) not in seen:
            seen.add((first, length))
            if len(targets) != len(ARKIT_NAMES) or not all(isinstance(target, dict) for target in targets):
                raise reader.damaged(f"a primitive does not have {len(ARKIT_NAMES)} morph targets")
            for target, into in zip(targets, expression[:, first : first + length], strict=True):
                reader.read_vectors(target.get("POSITION"), into)
    mesh.check("targets", expression)
    faces, part = _in_order(reader, mesh.raw, pieces, parts)
    return faces, part, expression


def _in_order(reader: GltfReader, mesh: Json, pieces: list[np.ndarray], parts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Faces (F, 3) i32 and parts (F,) u8 put together as faceRuns says."""
    used = [0] * len(pieces)
    faces, labels = [], []
    for run in reader.entries(mesh, "faceRuns"):
        pair = reader.numbers({"faceRuns": run}, "faceRuns", (2,))
        slot, length = int(pair[0]), int(pair[1])
        if not (0 <= slot < len(pieces) and 0 < length <= len(pieces[slot]) - used[slot]):
            raise reader.damaged("faceRuns does not match the primitives")
        faces.append(pieces[slot][used[slot] : used[slot] + length])
        labels.append(np.full(length, parts[slot], np.uint8))
        used[slot] += length
    if not faces or used != [len(piece) for piece in pieces]:
        raise reader.damaged("faceRuns does not match the primitives")
    return np.concatenate(faces), np.concatenate(labels)


def _read_hair(part: Reading) -> HairShells:
    base = part.array("base")
    levels = part.array("levels")
    if not len(levels):
        raise part.damaged("0 hair levels, expected one at least")
    if (levels[1:] <= levels[:-1]).any():
        raise part.damaged("the hair levels do not rise")
    maps = [pixels if pixels.ndim == 2 else pixels[..., 3] for pixels in part.pictures("opacity")]
    if not maps or any(alpha.shape != maps[0].shape for alpha in maps):
        raise part.damaged("the hair opacity pictures differ in size")
    return HairShells(
        base=base,
        extent=part.array("extent"),
        uv=part.array("uv"),
        weld=part.array("weld"),
        faces=part.array("faces"),
        levels=levels,
        color=np.ascontiguousarray(part.picture("color")[..., :3]),
        opacity=np.stack(maps),
        occlusion=part.array("occlusion"),
    )


def _read_field(part: Reading) -> FieldParams:
    resolutions = part.values("resolutions")
    layers = part.parts("layers", MAX_MLP_LAYERS)
    if not layers:
        raise part.damaged("the field's MLP has no layers")
    box_min, box_max = part.array("boxMin"), part.array("boxMax")
    if (box_max <= box_min).any():
        raise part.damaged("the field's box is empty")
    return FieldParams(
        box_min=box_min,
        box_max=box_max,
        resolutions=np.array(resolutions, np.int32),
        tables=part.array("tables"),
        motion_projection=part.array("motionProjection"),
        weights=[layer.array("weight") for layer in layers],
        biases=[layer.array("bias") for layer in layers],
        color_bound=part.number("colorBound"),
        alpha_bound=part.number("alphaBound"),
    )


def _read_baked(part: Reading, version: int, hair: HairShells | None) -> BakedField:
    has_hair = "hairQ0" in part
    if has_hair and hair is None:
        raise part.damaged("it holds baked hair but no hair")
    shells = 0 if hair is None else len(hair.levels)
    skin_q0 = part.planes("skinQ0", 1)
    hair_q0 = part.planes("hairQ0", shells) if has_hair else None
    if version == 1:
        _add_mean_of_view_term(part, "skinQ1", skin_q0)
        if hair_q0 is not None:
            _add_mean_of_view_term(part, "hairQ1", hair_q0)
    return BakedField(
        skin_q0=skin_q0[0],
        hair_q0=hair_q0,
        weights=part.array("weights"),
        psnr_skin_db=part.number("psnrSkinDb"),
        psnr_hair_db=part.number("psnrHairDb"),
        psnr_moved_skin_db=part.number("psnrMovedSkinDb"),
        psnr_moved_hair_db=part.number("psnrMovedHairDb"),
        motion=[_read_direction(entry, shells if has_hair else 0) for entry in part.parts("motion", MAX_MOTION)],
    )


def _add_mean_of_view_term(part: Reading, key: str, q0: np.ndarray) -> None:
    """Add to textures (K, h, w, C) the mean over the views of version 1's textures that were multiplied with the view direction."""
    q1 = part.planes(key, len(q0))
    if q1.shape[1:3] != q0.shape[1:3]:
        raise part.damaged(f"the pictures of {key} differ in size from those they belong to")
    q0[..., :3] += np.float32(MEAN_FACING) * q1[..., 2:]


def _read_direction(part: Reading, shells: int) -> BakedMotion:
    low, high = part.numbers("limits").tolist()
    return BakedMotion(
        row=part.array("row"),
        low=low,
        high=high,
        skin=part.planes("skin", 1)[0] if "skin" in part else None,
        hair=part.planes("hair", shells) if "hair" in part else None,
    )


def _read_camera(part: Reading) -> Camera:
    near, far = part.number("near"), part.number("far")
    name = part.text("name")
    intrinsics, rotation, translation = (part.numbers(key) for key in ("K", "R", "t"))
    return Camera(part.integer("width"), part.integer("height"), intrinsics, rotation, translation, near, far, name)


def _read_reach(part: Reading) -> Reach:
    rest, full, answers, corrections = (part.numbers(key) for key in ("rest", "full", "answers", "corrections"))
    return Reach(rest, full, answers, corrections)


def _read_motion(part: Reading) -> MotionCode:
    weights, rotation, translation, gaze, confidence = (
        part.numbers(key) for key in ("weights", "rotation", "translation", "gaze", "confidence")
    )
    return MotionCode(weights, rotation, translation, gaze, confidence)
