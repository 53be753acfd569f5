"""Writes the extension AVATAR3D_neural: what only avatar3d reads, beside the core glTF that it names data of."""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import JOINT_NAMES, Avatar, BakedField, BakedMotion, FieldParams, HairShells, TextureDelta
from avatar3d.errors import WorkError
from avatar3d.glb.core import Core, translation
from avatar3d.gltf import GltfWriter, Json, plain
from avatar3d.int8 import Bytes

EXTENSION = "AVATAR3D_neural"
EXTENSION_VERSION = 2
MOTION_STEP = 2.5e-4  # linear residual: a tenth of an 8-bit step of sRGB on dark hair


def _steps(values: np.ndarray, least: float = 0.0) -> np.ndarray:
    """(C,) size of one of 127 steps that reach each channel's largest magnitude, at least `least`; channels are the last axis.

    Rounded up to 12 bits, so that 127 steps are exact in f32 and a file that is read and written again does not change.
    """
    peaks = np.abs(values).reshape(-1, values.shape[-1]).max(0, initial=0).astype(np.float64)
    mantissa, exponent = np.frexp(np.maximum(peaks / 127, least))
    return np.ldexp(np.ceil(mantissa * 4096) / 4096, exponent)


def _stepped(writer: GltfWriter, values: np.ndarray, step: np.ndarray) -> Json:
    """(h, w, C) f32 as a PNG of bytes round(value / step) + 128; zero is exact."""
    bytes_ = np.round(values.astype(np.float64) / np.where(step > 0, step, 1)) + 128
    return writer.picture(np.clip(bytes_, 1, 255).astype(np.uint8))


def extension(writer: GltfWriter, avatar: Avatar, core: Core, byte_field: bool) -> Json:
    """The extension's object, as avatar3d.glb describes it; the core has been written before."""
    content: Json = {
        "version": EXTENSION_VERSION,
        "mesh": {
            "vertices": writer.array(avatar.vertices, "f32"),
            "uv": writer.array(avatar.uv, "f32"),
            "weld": writer.indices(avatar.weld),
            "headWeight": writer.array(avatar.head_weight, "f32"),
            "vertexAlpha": writer.array(avatar.vertex_alpha, "f32"),
            "fieldWeight": writer.array(avatar.field_weight, "f32"),
            "joints": {name: translation(avatar.joints[name]) for name in JOINT_NAMES},
            "primitives": core.primitives,
            "faceRuns": core.runs,
            "landmarkTriangles": writer.indices(avatar.landmark_triangles),
            "landmarkBarycentric": writer.array(avatar.landmark_barycentric, "f32"),
        },
        "texture": {
            "baseColor": core.base_color,
            "confidence": writer.picture(avatar.confidence),
            "deltas": [_delta_json(writer, delta) for delta in avatar.texture_deltas],
        },
        "light": plain(avatar.light.astype(np.float32)),
        "shadingPower": float(avatar.shading_power),
        "validYawDeg": [float(value) for value in avatar.valid_yaw_deg],
        "provenance": plain(avatar.provenance),
    }
    if avatar.hair is not None:
        content["hair"] = _hair_json(writer, avatar.hair, core)
    if avatar.neural_field is not None:
        content["field"] = _field_json(writer, avatar.neural_field, byte_field)
    if avatar.baked is not None:
        content["baked"] = _baked_json(writer, avatar.baked)
    if avatar.photo_camera is not None:
        camera = avatar.photo_camera
        content["photoCamera"] = {**camera.to_json(), "near": camera.near_m, "far": camera.far_m}
    if avatar.photo_motion is not None:
        motion = avatar.photo_motion
        content["photoMotion"] = {
            "weights": motion.weights.tolist(),
            "rotation": motion.rotation.tolist(),
            "translation": motion.translation.tolist(),
            "gaze": motion.gaze.tolist(),
            "confidence": motion.confidence.tolist(),
        }
    if avatar.reach is not None:
        reach = avatar.reach
        content["reach"] = {
            name: np.asarray(getattr(reach, name), np.float64).tolist()
            for name in ("rest", "full", "answers", "corrections")
        }
    return content


def _delta_json(writer: GltfWriter, delta: TextureDelta) -> Json:
    step = _steps(delta.log_ratio)
    return {
        "name": delta.name,
        "row": writer.array(delta.row, "f32"),
        "bias": float(delta.bias),
        "logRatio": {**_stepped(writer, delta.log_ratio, step), "step": step.tolist()},
    }


def _hair_json(writer: GltfWriter, hair: HairShells, core: Core) -> Json:
    opacity = []
    for level, alpha in enumerate(hair.opacity):
        shown = core.hair_pictures.get(level) if level else None  # level 0 is stored at the colour's size there
        opacity.append(shown if shown is not None else writer.picture(alpha))
    return {
        "base": writer.array(hair.base, "f32"),
        "extent": writer.array(hair.extent, "f32"),
        "uv": writer.array(hair.uv, "f32"),
        "weld": writer.indices(hair.weld),
        "faces": writer.indices(hair.faces),
        "levels": writer.array(hair.levels, "f32"),
        "occlusion": writer.array(hair.occlusion, "f32"),
        "color": core.hair_pictures[0],
        "opacity": opacity,
    }


def _byte_array(writer: GltfWriter, values: np.ndarray) -> Json:
    """(N, ...) f32 as bytes with a step for each first index."""
    held = Bytes.of(values)
    return {**writer.array((held.codes + np.int16(128)).astype(np.uint8), "u8"), "step": held.step.tolist()}


def _field_json(writer: GltfWriter, field: FieldParams, in_bytes: bool) -> Json:
    if not in_bytes and not np.abs(field.tables).max() <= np.finfo(np.float16).max:
        raise WorkError("the field's tables hold numbers that 16-bit floats cannot; train the field again")
    return {
        "boxMin": writer.array(field.box_min, "f32"),
        "boxMax": writer.array(field.box_max, "f32"),
        "resolutions": [int(value) for value in field.resolutions],
        "tables": _byte_array(writer, field.tables) if in_bytes else writer.array(field.tables, "f16"),
        "motionProjection": writer.array(field.motion_projection, "f32"),
        "layers": [
            {
                "weight": _byte_array(writer, weight) if in_bytes else writer.array(weight, "f32"),
                "bias": writer.array(bias, "f32"),
            }
            for weight, bias in zip(field.weights, field.biases, strict=True)
        ],
        "colorBound": float(field.color_bound),
        "alphaBound": float(field.alpha_bound),
    }


def _baked_json(writer: GltfWriter, baked: BakedField) -> Json:
    content: Json = {
        "skinQ0": _planes(writer, baked.skin_q0[None]),
        "weights": writer.array(baked.weights, "f32"),
        "psnrSkinDb": plain(float(baked.psnr_skin_db)),
        "psnrHairDb": plain(float(baked.psnr_hair_db)),
        "psnrMovedSkinDb": plain(float(baked.psnr_moved_skin_db)),
        "psnrMovedHairDb": plain(float(baked.psnr_moved_hair_db)),
    }
    if baked.hair_q0 is not None:
        content["hairQ0"] = _planes(writer, baked.hair_q0)
    if baked.motion:
        content["motion"] = [
            {
                "row": writer.array(direction.row, "f32"),
                "limits": [float(direction.low), float(direction.high)],
                **_moved_arrays(writer, direction),
            }
            for direction in baked.motion
        ]
    return content


def _moved_arrays(writer: GltfWriter, direction: BakedMotion) -> Json:
    """What a direction changes, in steps that are worth MOTION_STEP at its limits or the finest that 8 bits hold."""
    least = MOTION_STEP / max(abs(direction.low), abs(direction.high), 1e-6)
    content: Json = {}
    if direction.skin is not None:
        content["skin"] = _planes(writer, direction.skin[None], least)
    if direction.hair is not None:
        content["hair"] = _planes(writer, direction.hair, least)
    return content


def _planes(writer: GltfWriter, values: np.ndarray, least: float = 0.0) -> Json:
    """(K, h, w, C) f32 as pictures with one step a channel, none below `least`."""
    step = _steps(values, least)
    return {"step": step.tolist(), "levels": [_stepped(writer, level, step) for level in values]}
