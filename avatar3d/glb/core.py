"""The core glTF of an avatar's file: what every viewer shows, mesh, morph targets, skin, nodes, materials and hair layers."""

from __future__ import annotations

import itertools

import numpy as np
from PIL import Image

from avatar3d.avatar import (
    JOINT_NAMES,
    PART_CLOTHES,
    PART_EYE,
    PART_GLASSES,
    PART_LASH,
    PART_LENS,
    PART_MOUTH,
    PART_NAMES,
    PART_SKIN,
    PART_TEETH,
    PART_TONGUE,
    Avatar,
    HairShells,
)
from avatar3d.geometry import smooth_normals
from avatar3d.glb.gltf import ARRAY_BUFFER, ELEMENT_ARRAY_BUFFER, Json
from avatar3d.glb.gltf_writer import GltfWriter
from avatar3d.motion.code import ARKIT_NAMES, LOOK_INDICES, look_angles
from avatar3d.motion.rotation import eye_rotation

# Targets carry how normals turn where that is seen: light on moved skin would be as much as 30° off without.
SEEN_NORMAL_CHANGE = 0.02  # 1.1°
CORE_HAIR_LAYERS = 3  # blended layers a plain viewer gets; more cost it fill rate
# Perceptual roughness and sidedness of each part for plain viewers.
_MATERIALS = {
    PART_SKIN: (0.6, False),
    PART_EYE: (0.15, False),
    PART_TEETH: (0.35, False),
    PART_TONGUE: (0.4, False),
    PART_LASH: (0.9, True),
    PART_MOUTH: (0.6, False),
    PART_CLOTHES: (0.9, False),
    PART_GLASSES: (0.3, False),
    PART_LENS: (0.05, False),
}
_HAIR_ROUGHNESS = 0.8
_LINEAR, _LINEAR_MIPMAP_LINEAR, _CLAMP = 9729, 9987, 33071
_IDENTITY = np.eye(4, dtype=np.float32)


def translation(vector: np.ndarray) -> list[float]:
    """A vector (3,) as JSON holds it, rounded to 32 bits."""
    return [float(value) for value in np.asarray(vector, np.float32)]


class Core:
    """Writes the part that every glTF viewer reads, and keeps the indices that the extension names.

    Faces are sorted into `slots`: one for each part, the eyes one for each side. Slots whose vertex ranges overlap share a
    `group`, a contiguous range of vertices with its own accessors into the common buffer views; the eyes do not, because
    they hang unskinned under their own nodes.
    """

    def __init__(self, writer: GltfWriter, avatar: Avatar, base_color: Json) -> None:
        self.writer = writer
        self.avatar = avatar
        sampler = {
            "magFilter": _LINEAR,
            "minFilter": _LINEAR_MIPMAP_LINEAR,
            "wrapS": _CLAMP,
            "wrapT": _CLAMP,
        }
        self.sampler = writer.add("samplers", sampler)
        self.base_color = base_color
        self.primitives: list[Json] = []
        self.runs: list[list[int]] = []
        self.hair_pictures: dict[int, Json] = {}
        self._made: dict[tuple[int, int, bool], tuple[dict[str, int], list[Json]]] = {}
        self._still: dict[int, int] = {}  # accessors of so many zeros

    def write(self) -> None:
        """Add everything to the writer; fills the indices."""
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
                mode: Json | None = {"alphaMode": "BLEND"} if part in (PART_LASH, PART_LENS) else None
                materials[part] = self._material(PART_NAMES[part], texture, roughness, two_sided, mode=mode)
            first, count = groups[part, side]
            looks = part == PART_EYE and not avatar.expression[:, np.unique(faces)].any()
            offsets = self._look_offsets(side, first, count) if looks else avatar.expression[:, first : first + count]
            attributes, targets = self._group_accessors(first, count, views, part != PART_EYE, offsets)
            if part in (PART_LASH, PART_LENS):
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
                    # What an eyeball's targets do, its node does here: they are for viewers that drive weights alone.
                    **({"looks": True} if looks else {}),
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
                node = {"name": f"{name}Mesh", "mesh": index, "translation": translation(-avatar.joints[name])}
                self._attach(nodes[name], writer.add("nodes", node))
        if avatar.hair is not None:
            node = {"name": "hair", "mesh": self._hair_mesh(avatar.hair)}
            node["translation"] = translation(-avatar.joints["head"])
            self._attach(nodes["head"], writer.add("nodes", node))
        writer.add("scenes", {"name": "avatar", "nodes": roots})

    def _attach(self, parent: int, child: int) -> None:
        self.writer.document["nodes"][parent].setdefault("children", []).append(child)

    def _joint_nodes(self) -> dict[str, int]:
        """Nodes avatar → neck → head → leftEye, rightEye, unrotated, each at its joint.

        There is none for the jaw: it opens by the target jawOpen, which moves skin, teeth and tongue together.
        """
        joints = self.avatar.joints
        nodes = {"avatar": self.writer.add("nodes", {"name": "avatar"})}
        for name in (name for name in JOINT_NAMES if name != "jaw"):
            parent = {"neck": "avatar", "head": "neck"}.get(name, "head")
            origin = np.zeros(3) if parent == "avatar" else np.asarray(joints[parent])
            node = {"name": name, "translation": translation(np.asarray(joints[name]) - origin)}
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
            "NORMAL": self._normals(avatar.vertices),
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
        offsets: np.ndarray,
    ) -> tuple[dict[str, int], list[Json]]:
        """Attributes and morph targets by offsets (52, count, 3) of a vertex range; made once for slots that share it."""
        key = (first, count, skinned)
        if key not in self._made:
            attributes = {}
            for name, (view, values, normalized) in views.items():
                if skinned or name not in ("JOINTS_0", "WEIGHTS_0"):
                    part = values[first : first + count]
                    offset = first * values.strides[0]
                    attributes[name] = self.writer.accessor(
                        view, part, offset, bounds=name == "POSITION", normalized=normalized
                    )
            moved = np.zeros_like(self.avatar.expression)
            moved[:, first : first + count] = offsets
            normals = views["NORMAL"][1]
            turned = np.zeros_like(offsets)
            for change, target in zip(turned, moved, strict=True):
                if target.any():
                    change[:] = (self._normals(self.avatar.vertices + target) - normals)[first : first + count]
            turned[np.linalg.norm(turned, axis=2) < SEEN_NORMAL_CHANGE] = 0
            self._made[key] = attributes, self._targets(offsets, turned)
        return self._made[key]

    def _normals(self, vertices: np.ndarray) -> np.ndarray:
        return smooth_normals(vertices, self.avatar.faces, self.avatar.weld)

    def _look_offsets(self, side: str, first: int, count: int) -> np.ndarray:
        """(52, count, 3) f32 what turns an eyeball by the eyeLook weights, exact where one of them is 1."""
        ball = self.avatar.vertices[first : first + count] - np.asarray(self.avatar.joints[side], np.float32)
        offsets = np.zeros((len(ARKIT_NAMES), count, 3), np.float32)
        for index in LOOK_INDICES[side == "rightEye"]:
            weights = np.zeros(len(ARKIT_NAMES))
            weights[index] = 1
            yaw, pitch = look_angles(weights)[int(side == "rightEye")]
            offsets[index] = ball @ (eye_rotation(yaw, pitch) - np.eye(3)).T.astype(np.float32)
        return offsets

    def _targets(self, offsets: np.ndarray, turned: np.ndarray) -> list[Json]:
        """Sparse morph targets of (52, n, 3) offsets and changes of normals."""
        pairs = zip(self._sparse(offsets), self._sparse(turned), strict=True)
        return [{"POSITION": position, "NORMAL": normal} for position, normal in pairs]

    def _sparse(self, offsets: np.ndarray) -> list[int]:
        """Sparse accessors of (52, n, 3) values; those that are all zero share one."""
        dtype = np.dtype("<u2") if offsets.shape[1] < 2**16 else np.dtype("<u4")
        rows = [np.flatnonzero(target.any(1)).astype(dtype) for target in offsets]
        packed = np.concatenate(rows)
        view = self.writer.view(packed.tobytes()) if len(packed) else 0
        start = 0
        accessors: list[int] = []
        unsigned_zeros = offsets.astype("<f4") + np.float32(0)  # -0.0 would not survive the sparse form
        for target, moved in zip(unsigned_zeros, rows, strict=True):
            if len(moved):
                values = self.writer.view(np.ascontiguousarray(target[moved]).tobytes())
                index = self.writer.sparse_accessor(target, view, start, moved, values)
                start += moved.nbytes
            else:
                if self._still.get(len(target)) is None:
                    self._still[len(target)] = self.writer.sparse_accessor(target, 0, 0, moved, 0)
                index = self._still[len(target)]
            accessors.append(index)
        return accessors

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
