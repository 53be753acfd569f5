"""The avatar's file: a valid glTF 2.0 binary that any viewer shows, with the neural parts in the extension AVATAR3D_neural.

Core glTF holds the mesh by parts, the 52 ARKit morph targets (sparse), a skin that bends the neck, eye and jaw nodes, the
base colour and a few hair layers. The extension, an object at the document's root, adds the rest and names the core's
buffer views where the data is there already. Its version 2, with A = {bufferView, type: u8 u16 u32 f16 f32, shape} and
P = {bufferView, mimeType, width, height}; a P with a step for each channel, or an A of u8 with one for each first index, holds
values (byte - 128) * step; T = {step, levels [P]}:

    version, light [9][3], shadingPower, validYawDeg [2], provenance {}, photoCamera {}, photoMotion {}
    mesh     vertices uv weld headWeight vertexAlpha fieldWeight landmarkTriangles landmarkBarycentric: A
             joints {name: [3]}; primitives [{mesh, primitive, part, firstVertex, vertexCount}]: the core's, whose
             indices count from firstVertex; faceRuns [[primitive, faces]]: the original order of the faces
    texture  baseColor confidence: P; deltas [{name, row: A, bias, logRatio: P + step}]
    hair     base extent uv weld faces levels occlusion: A; color: P (its rgb); opacity [P]: grey, or the alpha of rgba
    field    boxMin boxMax tables motionProjection: A; resolutions []; layers [{weight: A, bias: A}]; colorBound alphaBound
    baked    skinQ0 hairQ0: T; weights: A; psnrSkinDb psnrHairDb psnrMovedSkinDb psnrMovedHairDb (null: not measured);
             motion [{row: A, limits [2], skin hair: T, where it changes them}]

Version 1, which is read as well, has a view term in textures of its own, skinQ1 hairQ1: T, and no motion.
Losses of one write and read: field tables to 16-bit floats, or with `byte_field=True` tables and weights to 8 bits; texture
deltas, baked textures and how they move to 8 bits of each channel (off by its largest magnitude / 253 at most, or how a texture
moves by MOTION_STEP); with `jpeg=True` the base colour to JPEG of quality 95. The rest is exact. Nothing in the file is executable.
"""

from __future__ import annotations

import itertools
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import avatar3d
from avatar3d.avatar import (
    JOINT_NAMES,
    MAX_SHELLS,
    PART_EYE,
    PART_LASH,
    PART_MOUTH,
    PART_NAMES,
    PART_SKIN,
    PART_TEETH,
    PART_TONGUE,
    Avatar,
    BakedField,
    BakedMotion,
    FieldParams,
    HairShells,
    TextureDelta,
)
from avatar3d.camera import Camera
from avatar3d.errors import InputError, WorkError
from avatar3d.files import write_bytes
from avatar3d.geometry import smooth_normals
from avatar3d.gltf import ARRAY_BUFFER, ELEMENT_ARRAY_BUFFER, GltfReader, GltfWriter, Json, plain
from avatar3d.int8 import Bytes
from avatar3d.motion.code import ARKIT_NAMES, MotionCode

EXTENSION = "AVATAR3D_neural"
EXTENSION_VERSION = 2

BASE_COLOR_JPEG_QUALITY = 95  # without chroma subsampling: about 1/255 rms on skin
CORE_HAIR_LAYERS = 3  # blended layers a plain viewer gets; more cost it fill rate
MAX_VERTICES = 200_000
MAX_DELTAS = 64
MAX_FIELD_LEVELS = 32
MAX_MLP_LAYERS = 8
MAX_MOTION = 16  # directions of a bake
MAX_BYTE_STEP = 1e6  # of a field in 8 bits; a trained one's are under 1
MOTION_STEP = 2.5e-4  # linear residual: a tenth of an 8-bit step of sRGB on dark hair
# Perceptual roughness and sidedness of each part for plain viewers.
_MATERIALS = {
    PART_SKIN: (0.6, False),
    PART_EYE: (0.15, False),
    PART_TEETH: (0.35, False),
    PART_TONGUE: (0.4, False),
    PART_LASH: (0.9, True),
    PART_MOUTH: (0.6, False),
}
_HAIR_ROUGHNESS = 0.8
MEAN_FACING = 2 / 3  # mean cosine between a surface and the eyes that see it, in proportion to the area they see
_LINEAR, _LINEAR_MIPMAP_LINEAR, _CLAMP = 9729, 9987, 33071
_IDENTITY = np.eye(4, dtype=np.float32)


def write_glb(avatar: Avatar, path: str | Path, jpeg: bool = False, byte_field: bool = False) -> None:
    """Write the avatar; the same avatar gives the same bytes.

    jpeg: store the base colour as JPEG, a quarter of the size of the exact PNG. byte_field: store the field's tables and weights in
    8 bits (avatar3d.int8), a quarter of a megabyte less. Raises InputError when `path` cannot be
    written, WorkError when the avatar holds numbers that the file cannot (not finite, or tables over 65504).
    """
    _require_finite(avatar, "avatar")
    writer = GltfWriter(f"avatar3d {avatar3d.__version__}")
    core = _Core(writer, avatar, jpeg)
    core.write()
    writer.document["extensionsUsed"] = [EXTENSION]
    writer.document["extensions"] = {EXTENSION: _extension(writer, avatar, core, byte_field)}
    write_bytes(path, writer.to_bytes())


def read_glb(path: str | Path) -> Avatar:
    """The avatar in a file that `write_glb` made.

    Raises InputError, one sentence, when the file is not a GLB, is truncated, damaged or too large, is a plain glTF
    without the extension, or was written by a newer version.
    """
    reader = GltfReader(path)
    extensions = reader.document.get("extensions")
    content = extensions.get(EXTENSION) if isinstance(extensions, dict) else None
    if not isinstance(content, dict):
        raise InputError(
            f"{reader.path} is a plain glTF without {EXTENSION}, so there is no neural avatar in it; "
            "make one from a photo with `avatar3d enroll PHOTO -o FILE.glb`"
        )
    version = reader.integer(content, "version", 1, 2**31)
    if version > EXTENSION_VERSION:
        raise InputError(
            f"{reader.path} was written by a newer avatar3d ({EXTENSION} version {version}, this one reads "
            f"{EXTENSION_VERSION}); update avatar3d"
        )
    try:
        return _read_avatar(reader, content, version)
    except InputError as error:
        if str(reader.path) in str(error):
            raise
        raise InputError(f"{reader.path}: {error}") from error


def _require_finite(value: object, name: str) -> None:
    """Raise WorkError when a float array anywhere in the avatar is not finite."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise WorkError(f"cannot write {name}: it holds a value that is not finite; enrol the photo again")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _require_finite(item, f"{name}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            _require_finite(item, f"{name}.{key}")
    elif is_dataclass(value):
        for part in fields(value):
            _require_finite(getattr(value, part.name), f"{name}.{part.name}")


def _translation(vector: np.ndarray) -> list[float]:
    return [float(value) for value in np.asarray(vector, np.float32)]


class _Core:
    """Writes the part that every glTF viewer reads, and keeps the indices that the extension names.

    Faces are sorted into `slots`: one for each part, the eyes one for each side. Slots whose vertex ranges overlap share a
    `group`, a contiguous range of vertices with its own accessors into the common buffer views; the eyes do not, because
    they hang unskinned under their own nodes.
    """

    def __init__(self, writer: GltfWriter, avatar: Avatar, jpeg: bool) -> None:
        self.writer = writer
        self.avatar = avatar
        sampler = {
            "magFilter": _LINEAR,
            "minFilter": _LINEAR_MIPMAP_LINEAR,
            "wrapS": _CLAMP,
            "wrapT": _CLAMP,
        }
        self.sampler = writer.add("samplers", sampler)
        color = avatar.base_color
        self.base_color = writer.jpeg(color, BASE_COLOR_JPEG_QUALITY) if jpeg else writer.picture(color)
        self.primitives: list[Json] = []
        self.runs: list[list[int]] = []
        self.hair_pictures: dict[int, Json] = {}
        self._made: dict[tuple[int, int, bool, bool], tuple[dict[str, int], list[Json]]] = {}

    def write(self) -> None:
        writer, avatar = self.writer, self.avatar
        writer.document["scene"] = 0
        nodes = self._joint_nodes()
        texture = writer.texture(self.base_color, "baseColor", self.sampler)
        materials: dict[int, int] = {}
        slots = self._slots()
        groups = self._groups(slots)
        views = self._vertex_views()
        meshes: dict[str, Json] = {}
        for (part, side), faces in slots.items():
            if part not in materials:
                roughness, two_sided = _MATERIALS[part]
                mode: Json | None = {"alphaMode": "BLEND"} if part == PART_LASH else None
                materials[part] = self._material(PART_NAMES[part], texture, roughness, two_sided, mode=mode)
            first, count = groups[part, side]
            moved = part != PART_EYE or bool(avatar.expression[:, np.unique(faces)].any())
            attributes, targets = self._group_accessors(first, count, views, part != PART_EYE, moved)
            if part == PART_LASH:
                # Core glTF's only per-vertex cover is the vertex colour's alpha.
                cover = np.full((count, 4), 255, np.uint8)
                cover[:, 3] = np.round(255 * avatar.vertex_alpha[first : first + count])
                view = writer.view(cover.tobytes(), ARRAY_BUFFER)
                attributes = {**attributes, "COLOR_0": writer.accessor(view, cover, normalized=True)}
            dtype = np.uint16 if count < 2**16 else np.uint32
            local = (faces - first).astype(dtype).ravel()
            view = writer.view(local.tobytes(), ELEMENT_ARRAY_BUFFER)
            primitive: Json = {
                "attributes": attributes,
                "indices": writer.accessor(view, local),
                "material": materials[part],
            }
            if targets:
                primitive["targets"] = targets
            name = side or "head"
            mesh = meshes.setdefault(name, {"name": name, "primitives": []})
            mesh["primitives"].append(primitive)
            self.primitives.append(
                {
                    "mesh": list(meshes).index(name),
                    "primitive": len(mesh["primitives"]) - 1,
                    "part": part,
                    "firstVertex": first,
                    "vertexCount": count,
                }
            )
        for mesh in meshes.values():
            if "targets" in mesh["primitives"][0]:
                mesh["extras"] = {"targetNames": list(ARKIT_NAMES)}
            writer.add("meshes", mesh)
        roots = [nodes["avatar"]]
        for index, name in enumerate(meshes):
            if name == "head":
                node = {"name": "headMesh", "mesh": index, "skin": self._skin(nodes)}
                roots.append(writer.add("nodes", node))
            else:
                node = {"name": f"{name}Mesh", "mesh": index, "translation": _translation(-avatar.joints[name])}
                self._attach(nodes[name], writer.add("nodes", node))
        if avatar.hair is not None:
            node = {"name": "hair", "mesh": self._hair_mesh(avatar.hair)}
            node["translation"] = _translation(-avatar.joints["head"])
            self._attach(nodes["head"], writer.add("nodes", node))
        writer.add("scenes", {"name": "avatar", "nodes": roots})

    def _attach(self, parent: int, child: int) -> None:
        self.writer.document["nodes"][parent].setdefault("children", []).append(child)

    def _joint_nodes(self) -> dict[str, int]:
        """Nodes avatar → neck → head → jaw, leftEye, rightEye, unrotated, each at its joint."""
        joints = self.avatar.joints
        nodes = {"avatar": self.writer.add("nodes", {"name": "avatar"})}
        for name in JOINT_NAMES:
            parent = {"neck": "avatar", "head": "neck"}.get(name, "head")
            origin = np.zeros(3) if parent == "avatar" else np.asarray(joints[parent])
            node = {"name": name, "translation": _translation(np.asarray(joints[name]) - origin)}
            nodes[name] = self.writer.add("nodes", node)
            self._attach(nodes[parent], nodes[name])
        return nodes

    def _skin(self, nodes: dict[str, int]) -> int:
        inverse = np.repeat(_IDENTITY[None], 3, axis=0)
        inverse[1, 3, :3] = -np.asarray(self.avatar.joints["neck"])  # matrices are stored by columns
        inverse[2, 3, :3] = -np.asarray(self.avatar.joints["head"])
        matrices = inverse.reshape(3, 16)
        accessor = self.writer.accessor(self.writer.view(matrices.tobytes()), matrices)
        joints = [nodes["avatar"], nodes["neck"], nodes["head"]]
        return self.writer.add(
            "skins", {"name": "neck", "joints": joints, "inverseBindMatrices": accessor, "skeleton": joints[0]}
        )

    def _material(
        self, name: str, texture: int, roughness: float, two_sided: bool, shade: float = 1.0, mode: Json | None = None
    ) -> int:
        """Index of a material; shade: linear multiplier of the colour; mode: alpha members, opaque without."""
        item: Json = {
            "name": name,
            "pbrMetallicRoughness": {
                "baseColorFactor": [shade, shade, shade, 1.0],
                "baseColorTexture": {"index": texture},
                "metallicFactor": 0.0,
                "roughnessFactor": roughness,
            },
            **(mode or {}),
        }
        if two_sided:
            item["doubleSided"] = True
        return self.writer.add("materials", item)

    def _slots(self) -> dict[tuple[int, str], np.ndarray]:
        """Faces by (part, eye side or ""); also fills `runs`, the original order as [slot, number of faces]."""
        avatar = self.avatar
        middle = (avatar.joints["leftEye"][0] + avatar.joints["rightEye"][0]) / 2
        left = avatar.vertices[avatar.faces, 0].mean(1) > middle
        key = avatar.part.astype(int) * 2 + ((avatar.part == PART_EYE) & left)
        present = np.unique(key)
        slots = {}
        for value in present.tolist():
            part, is_left = divmod(value, 2)
            side = ("leftEye" if is_left else "rightEye") if part == PART_EYE else ""
            slots[part, side] = avatar.faces[key == value]
        slot = np.searchsorted(present, key)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(slot)) + 1, [len(slot)]])
        self.runs = [[int(slot[a]), int(b - a)] for a, b in itertools.pairwise(starts)]
        return slots

    def _groups(self, slots: dict[tuple[int, str], np.ndarray]) -> dict[tuple[int, str], tuple[int, int]]:
        """(first, count) of the vertex range of each slot.

        Those of the eyes are tight. The others are equal or apart and together cover every vertex, so that no
        expression offset is left out.
        """
        bounds = {slot: (int(faces.min()), int(faces.max()) + 1) for slot, faces in slots.items()}
        ranges: list[list[int]] = []
        for low, high in sorted(span for (part, _), span in bounds.items() if part != PART_EYE):
            if ranges and low < ranges[-1][1]:
                ranges[-1][1] = max(ranges[-1][1], high)
            else:
                ranges.append([low, high])
        firsts = [0, *(low for low, _ in ranges[1:])]
        ends = [*firsts[1:], len(self.avatar.vertices)]
        groups = {}
        for slot, (low, high) in bounds.items():
            index = int(np.searchsorted(firsts, low, side="right")) - 1
            first, end = (low, high) if slot[0] == PART_EYE else (firsts[index], ends[index])
            groups[slot] = (first, end - first)
        return groups

    def _vertex_views(self) -> dict[str, tuple[int, np.ndarray, bool]]:
        """Attribute → (view, values, normalised) over all vertices.

        The neck node turns a vertex by head_weight, the head node alone by its square, so either bends the neck softly.
        """
        avatar = self.avatar
        share = np.clip(avatar.head_weight.astype(np.float64), 0, 1)
        weights = np.zeros((len(share), 4), np.uint8)
        weights[:, 2] = np.round(255 * share**2)
        weights[:, 1] = np.round(255 * share) - weights[:, 2]
        weights[:, 0] = 255 - weights[:, 1] - weights[:, 2]
        bones = np.tile(np.array([0, 1, 2, 0], np.uint8), (len(share), 1)) * (weights > 0)
        values = {
            "POSITION": avatar.vertices.astype("<f4"),
            "NORMAL": smooth_normals(avatar.vertices, avatar.faces, avatar.weld),
            "TEXCOORD_0": avatar.uv.astype("<f4"),
            "JOINTS_0": bones,
            "WEIGHTS_0": weights,
        }
        return {name: (self.writer.vertex_view(array), array, name == "WEIGHTS_0") for name, array in values.items()}

    def _group_accessors(
        self,
        first: int,
        count: int,
        views: dict[str, tuple[int, np.ndarray, bool]],
        skinned: bool,
        moved: bool,
    ) -> tuple[dict[str, int], list[Json]]:
        """Attributes, and morph targets where `moved`, of a vertex range; made once for slots that share it."""
        key = (first, count, skinned, moved)
        if key not in self._made:
            attributes = {}
            for name, (view, values, normalized) in views.items():
                if skinned or name not in ("JOINTS_0", "WEIGHTS_0"):
                    part = values[first : first + count]
                    offset = first * values.strides[0]
                    attributes[name] = self.writer.accessor(
                        view, part, offset, bounds=name == "POSITION", normalized=normalized
                    )
            targets = self._targets(self.avatar.expression[:, first : first + count]) if moved else []
            self._made[key] = attributes, targets
        return self._made[key]

    def _targets(self, offsets: np.ndarray) -> list[Json]:
        """Sparse morph targets of (52, n, 3) offsets; targets that move nothing share one accessor."""
        dtype = np.dtype("<u2") if offsets.shape[1] < 2**16 else np.dtype("<u4")
        rows = [np.flatnonzero(target.any(1)).astype(dtype) for target in offsets]
        packed = np.concatenate(rows)
        view = self.writer.view(packed.tobytes()) if len(packed) else 0
        start = 0
        still: int | None = None
        targets = []
        unsigned_zeros = offsets.astype("<f4") + np.float32(0)  # -0.0 would not survive the sparse form
        for target, moved in zip(unsigned_zeros, rows, strict=True):
            if len(moved):
                values = self.writer.view(np.ascontiguousarray(target[moved]).tobytes())
                index = self.writer.sparse_accessor(target, view, start, moved, values)
                start += moved.nbytes
            else:
                if still is None:
                    still = self.writer.sparse_accessor(target, 0, 0, moved, 0)
                index = still
            targets.append({"POSITION": index})
        return targets

    def _hair_mesh(self, hair: HairShells) -> int:
        """Mesh of the base, cut at half opacity, and some blended layers from inside out."""
        writer = self.writer
        normals = smooth_normals(hair.base, hair.faces, hair.weld)
        shared = {
            name: writer.accessor(writer.vertex_view(values), values)
            for name, values in (("NORMAL", normals), ("TEXCOORD_0", hair.uv.astype("<f4")))
        }
        dtype = np.uint16 if len(hair.base) < 2**16 else np.uint32
        faces = hair.faces.astype(dtype).ravel()
        indices = writer.accessor(writer.view(faces.tobytes(), ELEMENT_ARRAY_BUFFER), faces)
        outer = np.unique(np.round(np.linspace(1, len(hair.levels) - 1, CORE_HAIR_LAYERS)).astype(int))
        primitives = []
        for level in [0, *outer[outer > 0].tolist()]:
            places = (hair.base + hair.levels[level] * hair.extent).astype("<f4")
            position = writer.accessor(writer.vertex_view(places), places, bounds=True)
            alpha = hair.opacity[level]
            if level == 0:
                pixels = np.dstack([hair.color, _resized(alpha, hair.color.shape[:2])])
            else:
                pixels = np.dstack([_bleed(_resized(hair.color, alpha.shape), alpha), alpha])
            self.hair_pictures[level] = writer.picture(pixels)
            name = f"hair{level}"
            mode: Json = {"alphaMode": "BLEND"} if level else {"alphaMode": "MASK", "alphaCutoff": 0.5}
            shade = float(np.clip(hair.occlusion[level], 0, 1))
            material = self._material(
                name,
                writer.texture(self.hair_pictures[level], name, self.sampler),
                _HAIR_ROUGHNESS,
                two_sided=level == 0,
                shade=shade,
                mode=mode,
            )
            primitives.append({"attributes": {"POSITION": position, **shared}, "indices": indices, "material": material})
        return writer.add("meshes", {"name": "hair", "primitives": primitives})


def _resized(picture: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Picture (H, W) or (H, W, 3) u8 at (height, width), box filtered or bilinear by Pillow."""
    if picture.shape[:2] == tuple(size[:2]):
        return picture
    smaller = size[0] < picture.shape[0]
    method = Image.Resampling.BOX if smaller else Image.Resampling.BILINEAR
    return np.array(Image.fromarray(picture).resize((size[1], size[0]), method))


def _bleed(color: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Colour with a flat mean where nothing within four texels is visible, so that empty areas compress away."""
    near = alpha > 0
    for _ in range(4):
        wide = np.pad(near, 1)
        near = wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:] | near
    mean = color[near].mean(0).round().astype(np.uint8) if near.any() else np.zeros(3, np.uint8)
    return np.where(near[..., None], color, mean)


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


def _extension(writer: GltfWriter, avatar: Avatar, core: _Core, byte_field: bool) -> Json:
    content: Json = {
        "version": EXTENSION_VERSION,
        "mesh": {
            "vertices": writer.array(avatar.vertices, "f32"),
            "uv": writer.array(avatar.uv, "f32"),
            "weld": writer.indices(avatar.weld),
            "headWeight": writer.array(avatar.head_weight, "f32"),
            "vertexAlpha": writer.array(avatar.vertex_alpha, "f32"),
            "fieldWeight": writer.array(avatar.field_weight, "f32"),
            "joints": {name: _translation(avatar.joints[name]) for name in JOINT_NAMES},
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
    return content


def _delta_json(writer: GltfWriter, delta: TextureDelta) -> Json:
    step = _steps(delta.log_ratio)
    return {
        "name": delta.name,
        "row": writer.array(delta.row, "f32"),
        "bias": float(delta.bias),
        "logRatio": {**_stepped(writer, delta.log_ratio, step), "step": step.tolist()},
    }


def _hair_json(writer: GltfWriter, hair: HairShells, core: _Core) -> Json:
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


def _read_avatar(reader: GltfReader, content: Json, version: int) -> Avatar:
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
        targets = reader.entries(primitive, "targets", len(ARKIT_NAMES))
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
    if (np.diff(levels) <= 0).any():
        raise reader.damaged("the hair levels do not rise")
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
