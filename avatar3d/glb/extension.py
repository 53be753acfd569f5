"""Writes the extension AVATAR3D_neural: what only avatar3d reads, beside the core glTF that it names data of."""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import JOINT_NAMES, Avatar, BakedField, BakedMotion, FieldParams, HairShells
from avatar3d.errors import WorkError
from avatar3d.glb.core import Core, translation
from avatar3d.glb.gltf import Json, plain
from avatar3d.glb.gltf_writer import GltfWriter
from avatar3d.glb.records import Writing

EXTENSION = "AVATAR3D_neural"
EXTENSION_VERSION = 2
MOTION_STEP = 2.5e-4  # linear residual: a tenth of an 8-bit step of sRGB on dark hair


def extension(writer: GltfWriter, avatar: Avatar, core: Core, byte_field: bool) -> Json:
    """The extension's object, as avatar3d.glb describes it; the core has been written before. Raises WorkError naming a number
    outside its range."""
    out = Writing(writer)
    out.number("version", EXTENSION_VERSION)
    _write_mesh(out.part("mesh"), avatar, core)
    texture = out.part("texture")
    texture.content["baseColor"] = core.base_color
    texture.content["confidence"] = writer.picture(avatar.confidence)
    texture.content["deltas"] = []
    for delta in avatar.texture_deltas:
        entry = texture.entry("deltas")
        entry.content["name"] = delta.name
        entry.array("row", delta.row)
        entry.number("bias", delta.bias)
        entry.stepped("logRatio", delta.log_ratio)
    out.numbers("light", avatar.light.astype(np.float32))
    out.number("shadingPower", avatar.shading_power)
    out.numbers("validYawDeg", [float(value) for value in avatar.valid_yaw_deg])
    out.content["provenance"] = plain(avatar.provenance)
    if avatar.hair is not None:
        _write_hair(out.part("hair"), writer, avatar.hair, core)
    if avatar.neural_field is not None:
        _write_field(out.part("field"), avatar.neural_field, byte_field)
    if avatar.baked is not None:
        _write_baked(out.part("baked"), avatar.baked)
    if avatar.photo_camera is not None:
        camera = avatar.photo_camera
        part = out.part("photoCamera")
        part.content["name"] = camera.name
        for key, number in (("width", camera.width), ("height", camera.height)):
            part.number(key, number)
        for key, values in (("K", camera.intrinsics), ("R", camera.rotation), ("t", camera.translation)):
            part.numbers(key, values)
        part.number("near", camera.near_m)
        part.number("far", camera.far_m)
    if avatar.photo_motion is not None:
        part = out.part("photoMotion")
        for key in ("weights", "rotation", "translation", "gaze", "confidence"):
            part.numbers(key, getattr(avatar.photo_motion, key))
    if avatar.reach is not None:
        part = out.part("reach")
        for key in ("rest", "full", "answers", "corrections"):
            part.numbers(key, np.asarray(getattr(avatar.reach, key), np.float64))
    return out.content


def _write_mesh(part: Writing, avatar: Avatar, core: Core) -> None:
    part.array("vertices", avatar.vertices)
    part.array("uv", avatar.uv)
    part.array("weld", avatar.weld)
    part.array("headWeight", avatar.head_weight)
    part.array("vertexAlpha", avatar.vertex_alpha)
    part.array("fieldWeight", avatar.field_weight)
    joints = part.part("joints")
    for name in JOINT_NAMES:
        joints.numbers(name, translation(avatar.joints[name]))
    part.check("targets", avatar.expression)
    part.content["primitives"] = core.primitives
    part.content["faceRuns"] = core.runs
    part.array("landmarkTriangles", avatar.landmark_triangles)
    part.array("landmarkBarycentric", avatar.landmark_barycentric)


def _write_hair(part: Writing, writer: GltfWriter, hair: HairShells, core: Core) -> None:
    part.array("base", hair.base)
    part.array("extent", hair.extent)
    part.array("uv", hair.uv)
    part.array("weld", hair.weld)
    part.array("faces", hair.faces)
    part.array("levels", hair.levels)
    part.array("occlusion", hair.occlusion)
    part.content["color"] = core.hair_pictures[0]
    part.content["opacity"] = []
    for level, alpha in enumerate(hair.opacity):
        shown = core.hair_pictures.get(level) if level else None  # level 0 is stored at the colour's size there
        part.content["opacity"].append(shown if shown is not None else writer.picture(alpha))


def _write_field(part: Writing, field: FieldParams, in_bytes: bool) -> None:
    if not in_bytes and not np.abs(field.tables).max() <= np.finfo(np.float16).max:
        raise WorkError("the field's tables hold numbers that 16-bit floats cannot; train the field again")
    part.array("boxMin", field.box_min)
    part.array("boxMax", field.box_max)
    part.values("resolutions", field.resolutions)
    (part.bytes if in_bytes else part.array)("tables", field.tables)
    part.array("motionProjection", field.motion_projection)
    for weight, bias in zip(field.weights, field.biases, strict=True):
        layer = part.entry("layers")
        (layer.bytes if in_bytes else layer.array)("weight", weight)
        layer.array("bias", bias)
    part.number("colorBound", field.color_bound)
    part.number("alphaBound", field.alpha_bound)


def _write_baked(part: Writing, baked: BakedField) -> None:
    part.planes("skinQ0", baked.skin_q0[None])
    part.array("weights", baked.weights)
    part.number("psnrSkinDb", baked.psnr_skin_db)
    part.number("psnrHairDb", baked.psnr_hair_db)
    part.number("psnrMovedSkinDb", baked.psnr_moved_skin_db)
    part.number("psnrMovedHairDb", baked.psnr_moved_hair_db)
    if baked.hair_q0 is not None:
        part.planes("hairQ0", baked.hair_q0)
    for direction in baked.motion:
        _write_motion(part.entry("motion"), direction)


def _write_motion(part: Writing, direction: BakedMotion) -> None:
    """A direction, what it changes in steps that are worth MOTION_STEP at its limits or the finest that 8 bits hold."""
    part.array("row", direction.row)
    part.numbers("limits", [float(direction.low), float(direction.high)])
    least = MOTION_STEP / max(abs(direction.low), abs(direction.high), 1e-6)
    if direction.skin is not None:
        part.planes("skin", direction.skin[None], least)
    if direction.hair is not None:
        part.planes("hair", direction.hair, least)
