"""Reads an avatar out of an opened GLB with the extension AVATAR3D_neural, everything checked on the way."""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import (
    JOINT_NAMES,
    MAX_SHELLS,
    PART_NAMES,
    Avatar,
    BakedField,
    BakedMotion,
    FieldParams,
    HairShells,
    TextureDelta,
)
from avatar3d.camera import Camera
from avatar3d.gltf import GltfReader, Json
from avatar3d.int8 import Bytes
from avatar3d.motion.code import ARKIT_NAMES, MotionCode
from avatar3d.motion.retarget import MAX_SAMPLES, Reach

MAX_VERTICES = 200_000
MAX_DELTAS = 64
MAX_LEVEL = 2.0  # of hair, in its extent; the writer's outermost lies at 1.2
MAX_FIELD_LEVELS = 32
MAX_MLP_LAYERS = 8
MAX_MOTION = 16  # directions of a bake
MAX_BYTE_STEP = 1e6  # of a field in 8 bits; a trained one's are under 1
MEAN_FACING = 2 / 3  # mean cosine between a surface and the eyes that see it, in proportion to the area they see


def avatar_of(reader: GltfReader, content: Json, version: int) -> Avatar:
    """The avatar of an extension's object; raises InputError on what is missing, damaged or too large."""
    mesh = reader.member(content, "mesh")
    vertices = reader.array(mesh, "vertices", "f32", (None, 3))
    count = len(vertices)
    if not 3 <= count <= MAX_VERTICES:
        raise reader.damaged(f"{count} vertices, expected 3 to {MAX_VERTICES}")
    faces, part, expression = _read_surface(reader, mesh, count)
    joints = reader.member(mesh, "joints")
    texture = reader.member(content, "texture")
    low_yaw, high_yaw = reader.numbers(content, "validYawDeg", (2,)).tolist()
    hair = _read_hair(reader, reader.member(content, "hair")) if "hair" in content else None
    return Avatar(
        vertices=vertices,
        faces=faces,
        part=part,
        uv=reader.array(mesh, "uv", "f32", (count, 2)),
        weld=_indices(reader, mesh, "weld", (count,)),
        expression=expression,
        head_weight=reader.array(mesh, "headWeight", "f32", (count,)),
        vertex_alpha=reader.array(mesh, "vertexAlpha", "f32", (count,)),
        field_weight=reader.array(mesh, "fieldWeight", "f32", (count,)),
        joints={name: reader.numbers(joints, name, (3,)).astype(np.float32) for name in JOINT_NAMES},
        base_color=reader.picture(texture, "baseColor", ("RGB",)),
        confidence=reader.picture(texture, "confidence", ("L",)),
        light=reader.numbers(content, "light", (9, 3)).astype(np.float32),
        shading_power=reader.number(content, "shadingPower"),
        landmark_triangles=_indices(reader, mesh, "landmarkTriangles", (468, 3)),
        landmark_barycentric=reader.array(mesh, "landmarkBarycentric", "f32", (468, 3)),
        hair=hair,
        texture_deltas=_read_deltas(reader, texture),
        neural_field=_read_field(reader, reader.member(content, "field")) if "field" in content else None,
        baked=_read_baked(reader, reader.member(content, "baked"), version, hair) if "baked" in content else None,
        photo_camera=_read_camera(reader, content) if "photoCamera" in content else None,
        photo_motion=_read_motion(reader, content) if "photoMotion" in content else None,
        reach=_read_reach(reader, content) if "reach" in content else None,
        valid_yaw_deg=(low_yaw, high_yaw),
        provenance=reader.member(content, "provenance"),
    )


def _indices(reader: GltfReader, parent: Json, key: str, shape: tuple[int | None, ...]) -> np.ndarray:
    return reader.array(parent, key, ("u16", "u32"), shape)


def _read_surface(reader: GltfReader, mesh: Json, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Faces in their original order, parts, and expression offsets, out of the core's primitives."""
    reader.spend(52 * count * 12)
    expression = np.zeros((52, count, 3), np.float32)
    pieces: list[np.ndarray] = []
    parts: list[int] = []
    seen: set[tuple[int, int]] = set()
    for entry in reader.entries(mesh, "primitives", 4 * len(PART_NAMES)):
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
    faces, part = _in_order(reader, mesh, pieces, parts)
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


def _read_stepped(reader: GltfReader, parent: Json, key: str, step: np.ndarray) -> np.ndarray:
    """(h, w, C) f32 of a picture that `_stepped` made."""
    mode = "RGB" if len(step) == 3 else "RGBA"
    pixels = reader.picture(parent, key, (mode,), bytes_per_sample=9)  # bytes, and f32 twice while scaling
    return (pixels.astype(np.float32) - 128) * step.astype(np.float32)


def _read_deltas(reader: GltfReader, texture: Json) -> list[TextureDelta]:
    deltas = []
    for entry in reader.entries(texture, "deltas", MAX_DELTAS):
        if not isinstance(entry, dict):
            raise reader.damaged("a texture delta is not an object")
        step = reader.numbers(reader.member(entry, "logRatio"), "step", (3,))
        deltas.append(
            TextureDelta(
                name=reader.text(entry, "name"),
                row=reader.array(entry, "row", "f32", (52,)),
                bias=reader.number(entry, "bias"),
                log_ratio=_read_stepped(reader, entry, "logRatio", step),
            )
        )
    return deltas


def _read_hair(reader: GltfReader, content: Json) -> HairShells:
    base = reader.array(content, "base", "f32", (None, 3))
    count = len(base)
    levels = reader.array(content, "levels", "f32", (None,))
    shells = len(levels)
    if not 1 <= shells <= MAX_SHELLS:
        raise reader.damaged(f"{shells} hair levels, expected 1 to {MAX_SHELLS}")
    if (levels[1:] <= levels[:-1]).any() or levels[0] < 0 or levels[-1] > MAX_LEVEL:
        raise reader.damaged(f"the hair levels do not rise within 0 to {MAX_LEVEL:g}")
    maps = []
    for entry in reader.entries(content, "opacity", MAX_SHELLS):
        pixels = reader.picture({"opacity": entry}, "opacity", ("L", "RGBA"))
        maps.append(pixels if pixels.ndim == 2 else pixels[..., 3])
    if not maps or any(alpha.shape != maps[0].shape for alpha in maps):
        raise reader.damaged("the hair opacity pictures differ in size")
    color = reader.picture(content, "color", ("RGBA",))
    return HairShells(
        base=base,
        extent=reader.array(content, "extent", "f32", (count, 3)),
        uv=reader.array(content, "uv", "f32", (count, 2)),
        weld=_indices(reader, content, "weld", (count,)),
        faces=_indices(reader, content, "faces", (None, 3)),
        levels=levels,
        color=np.ascontiguousarray(color[..., :3]),
        opacity=np.stack(maps),
        occlusion=reader.array(content, "occlusion", "f32", (shells,)),
    )


def _read_floats_or_bytes(
    reader: GltfReader, parent: Json, key: str, kind: str, shape: tuple[int | None, ...]
) -> np.ndarray:
    """f32 of an array of floats, or of what `_byte_array` made."""
    values = reader.array(parent, key, (kind, "u8"), shape)
    if values.dtype != np.uint8:
        return values
    step = reader.numbers(reader.member(parent, key), "step", (len(values),))
    if np.abs(step).max(initial=0) > MAX_BYTE_STEP:
        raise reader.damaged(f"{key} has a step over {MAX_BYTE_STEP:g}")
    return Bytes((values.astype(np.int16) - 128).astype(np.int8), step.astype(np.float32)).values()


def _read_field(reader: GltfReader, content: Json) -> FieldParams:
    resolutions = reader.entries(content, "resolutions", MAX_FIELD_LEVELS)
    if not resolutions or not all(type(value) is int and 1 <= value <= 2**16 for value in resolutions):
        raise reader.damaged("the field's resolutions are not numbers from 1 to 65536")
    layers = reader.entries(content, "layers", MAX_MLP_LAYERS)
    if not layers or not all(isinstance(layer, dict) for layer in layers):
        raise reader.damaged("the field's MLP has no layers")
    box_min, box_max = (reader.array(content, key, "f32", (3,)) for key in ("boxMin", "boxMax"))
    if (box_max <= box_min).any():
        raise reader.damaged("the field's box is empty")
    return FieldParams(
        box_min=box_min,
        box_max=box_max,
        resolutions=np.array(resolutions, np.int32),
        tables=_read_floats_or_bytes(reader, content, "tables", "f16", (len(resolutions), None, None)),
        motion_projection=reader.array(content, "motionProjection", "f32", (52, None)),
        weights=[_read_floats_or_bytes(reader, layer, "weight", "f32", (None, None)) for layer in layers],
        biases=[reader.array(layer, "bias", "f32", (None,)) for layer in layers],
        color_bound=reader.number(content, "colorBound"),
        alpha_bound=reader.number(content, "alphaBound"),
    )


def _read_planes(reader: GltfReader, content: Json, key: str, count: int, channels: int) -> np.ndarray:
    """(count, h, w, channels) f32 of what `_planes` made."""
    stack = reader.member(content, key)
    step = reader.numbers(stack, "step", (channels,))
    levels = [_read_stepped(reader, {key: entry}, key, step) for entry in reader.entries(stack, "levels", MAX_SHELLS)]
    if len(levels) != count or any(level.shape != levels[0].shape for level in levels):
        raise reader.damaged(f"{key} does not hold {count} pictures of one size")
    return np.stack(levels)


def _read_baked(reader: GltfReader, content: Json, version: int, hair: HairShells | None) -> BakedField:
    has_hair = "hairQ0" in content
    if has_hair and hair is None:
        raise reader.damaged("it holds baked hair but no hair")
    shells = 0 if hair is None else len(hair.levels)
    skin_q0 = _read_planes(reader, content, "skinQ0", 1, 3)
    hair_q0 = _read_planes(reader, content, "hairQ0", shells, 4) if has_hair else None
    if version == 1:
        _add_mean_of_view_term(reader, content, "skinQ1", skin_q0)
        if hair_q0 is not None:
            _add_mean_of_view_term(reader, content, "hairQ1", hair_q0)

    def figure(key: str) -> float:
        return reader.number(content, key, missing_as_nan=True) if key in content else float("nan")

    return BakedField(
        skin_q0=skin_q0[0],
        hair_q0=hair_q0,
        weights=reader.array(content, "weights", "f32", (52,)),
        psnr_skin_db=figure("psnrSkinDb"),
        psnr_hair_db=figure("psnrHairDb"),
        psnr_moved_skin_db=figure("psnrMovedSkinDb"),
        psnr_moved_hair_db=figure("psnrMovedHairDb"),
        motion=_read_baked_motion(reader, content, shells if has_hair else 0),
    )


def _add_mean_of_view_term(reader: GltfReader, content: Json, key: str, q0: np.ndarray) -> None:
    """Add to textures (K, h, w, C) the mean over the views of version 1's textures that were multiplied with the view direction."""
    q1 = _read_planes(reader, content, key, len(q0), 3)
    if q1.shape[1:3] != q0.shape[1:3]:
        raise reader.damaged(f"the pictures of {key} differ in size from those they belong to")
    q0[..., :3] += np.float32(MEAN_FACING) * q1[..., 2:]


def _read_baked_motion(reader: GltfReader, content: Json, shells: int) -> list[BakedMotion]:
    directions = []
    for entry in reader.entries(content, "motion", MAX_MOTION) if "motion" in content else []:
        if not isinstance(entry, dict):
            raise reader.damaged("a baked motion is not an object")
        low, high = reader.numbers(entry, "limits", (2,)).tolist()
        directions.append(
            BakedMotion(
                row=reader.array(entry, "row", "f32", (52,)),
                low=low,
                high=high,
                skin=_read_planes(reader, entry, "skin", 1, 3)[0] if "skin" in entry else None,
                hair=_read_planes(reader, entry, "hair", shells, 3) if "hair" in entry else None,
            )
        )
    return directions


def _read_camera(reader: GltfReader, content: Json) -> Camera:
    value = reader.member(content, "photoCamera")
    near, far = reader.number(value, "near"), reader.number(value, "far")
    name = reader.text(value, "name")
    intrinsics, rotation = (reader.numbers(value, key, (3, 3)) for key in ("K", "R"))
    translation = reader.numbers(value, "t", (3,))
    width, height = (reader.integer(value, key, 1, 16384) for key in ("width", "height"))
    return Camera(width, height, intrinsics, rotation, translation, near, far, name)


def _read_reach(reader: GltfReader, content: Json) -> Reach:
    value = reader.member(content, "reach")
    count = len(reader.entries(value, "answers", MAX_SAMPLES))
    rest, full = (reader.numbers(value, key, (52,)) for key in ("rest", "full"))
    answers, corrections = (
        reader.numbers(value, key, (count, 52)) if count else np.zeros((0, 52)) for key in ("answers", "corrections")
    )
    return Reach(rest, full, answers, corrections)


def _read_motion(reader: GltfReader, content: Json) -> MotionCode:
    value = reader.member(content, "photoMotion")
    shapes: dict[str, tuple[int, ...]] = {
        "weights": (52,),
        "rotation": (4,),
        "translation": (3,),
        "gaze": (2, 2),
        "confidence": (5,),
    }
    return MotionCode(**{key: reader.numbers(value, key, shape) for key, shape in shapes.items()})  # type: ignore[arg-type]
