"""Reads an avatar out of any glTF with ARKit morph targets, by its core alone: what is left when another program wrote our file.

There is no field, no bake, no motion-driven texture and no light of the photo then: it is drawn as the last rung of the quality ladder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image

from avatar3d.avatar import JOINT_NAMES, LANDMARKS, PART_EYE, PART_LASH, PART_LENS, PART_NAMES, PART_SKIN, Avatar, HairShells
from avatar3d.errors import InputError
from avatar3d.geometry import unit
from avatar3d.glb.accessors import accessor, image, node_places
from avatar3d.glb.budget import MAX_DRAWN_BYTES
from avatar3d.glb.gltf import Json
from avatar3d.glb.gltf_reader import GltfReader
from avatar3d.glb.records import outside
from avatar3d.glb.table import DIMENSIONS, MAX_FACES, PICTURE_ROWS, ROWS
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, LOOK_INDICES, NECK_M, WEIGHT_COUNT

MAX_PRIMITIVES = 256
# Joints of a file that does not name them, head frame, m: where the default head has them.
USUAL_JOINTS = {"neck": NECK_M, "head": NECK_M + [0, 0.1, 0], "jaw": np.array([0, -0.045, -0.07])}
# Light of a file that has none: soft, from above and in front, in avatar3d.rendering.scene's basis.
USUAL_LIGHT = np.zeros((9, 3), np.float32)
USUAL_LIGHT[0], USUAL_LIGHT[2], USUAL_LIGHT[3] = 0.9, 0.12, 0.15
USUAL_SHADING_POWER = 0.7
HAIR_CUT = 128  # opacity under which the base of hair that is no nest of levels is left out
_SAME_PLACE_M, _SAME_NORMAL = 1e-6, 1e-2
_HAIR_NAME = re.compile(r"hair\d*")
_COPY = re.compile(r"\.\d+$")  # what Blender appends to a name that is taken


@dataclass
class _Piece:
    """One primitive in the head's frame. alpha: of COLOR_0. share: of the head's turn. picture: its texture's number, or None."""

    kind: str
    vertices: np.ndarray
    normals: np.ndarray | None
    uv: np.ndarray
    expression: np.ndarray
    faces: np.ndarray
    part: int
    alpha: np.ndarray
    share: np.ndarray
    picture: int | None
    factor: np.ndarray
    shared: tuple[object, ...]


def plain_avatar(reader: GltfReader) -> Avatar:
    """The avatar of a document's core; raises InputError where it has no ARKit morph targets, is too large or damaged."""
    core = _Core(reader)
    pieces = core.pieces()
    if not any(piece.expression.any() for piece in pieces):
        raise InputError(
            f"{reader.path} is a plain glTF without AVATAR3D_neural and without ARKit's morph targets, so there is no avatar in it; "
            "make one from a photo with `avatar3d enroll PHOTO -o FILE.glb`"
        )
    joints = core.joints(pieces)
    middle = (joints["leftEye"] + joints["rightEye"]) / 2
    for piece in pieces:
        piece.vertices = piece.vertices - middle
    joints = {name: (place - middle).astype(np.float32) for name, place in joints.items()}
    pictures = core.pictures({piece.picture for piece in pieces if piece.picture is not None})
    hair = [piece for piece in pieces if piece.kind == "hair"]
    head = [piece for piece in pieces if piece.kind != "hair"]
    shells = _shells(hair, pictures)
    if shells is None and hair:
        head.append(_cut(hair[0], pictures))
    return _put_together(reader, head, pictures, joints, shells)


class _Core:
    """What a document's nodes show."""

    def __init__(self, reader: GltfReader) -> None:
        self._reader = reader
        self._places, self._names = node_places(reader)
        self._faces = 0

    def pieces(self) -> list[_Piece]:
        """Of every node that shows a mesh, in the document's order."""
        nodes = self._reader.entries(self._reader.document, "nodes")
        found: list[_Piece] = []
        for index in sorted(self._places):
            if "mesh" in nodes[index]:
                mesh = self._reader.pick("meshes", nodes[index]["mesh"])
                for primitive in self._reader.entries(mesh, "primitives", MAX_PRIMITIVES):
                    if isinstance(primitive, dict) and primitive.get("mode", 4) == 4:
                        found.append(self._piece(index, nodes[index], mesh, primitive))
                if len(found) > MAX_PRIMITIVES:
                    raise self._reader.damaged(f"it has more than {MAX_PRIMITIVES} primitives")
        if not found:
            raise self._reader.damaged("it shows no triangles")
        return found

    def _piece(self, index: int, node: Json, mesh: Json, primitive: Json) -> _Piece:
        reader = self._reader
        attributes = reader.member(primitive, "attributes")
        most = DIMENSIONS["V"][0]
        vertices = accessor(reader, attributes.get("POSITION"), 3, most, "POSITION")
        count = len(vertices)

        def optional(name: str, width: int) -> np.ndarray | None:
            if name not in attributes:
                return None
            values = accessor(reader, attributes[name], width, most, name)
            if len(values) != count:
                raise reader.damaged(f"{name} has {len(values)} elements, POSITION {count}")
            return values

        matrix = self._places[index][None]
        share = np.ones(count)
        if "skin" in node:
            bones, weights = optional("JOINTS_0", 4), optional("WEIGHTS_0", 4)
            if bones is not None and weights is not None:
                matrix, share = self._skinned(node["skin"], bones, weights)
        linear = matrix[:, :3, :3]
        normals = optional("NORMAL", 3)
        material = reader.pick("materials", primitive["material"]) if "material" in primitive else {}
        texture, factor = self._texture(material)
        name = _COPY.sub("", str(material.get("name", "")))
        above = self._names[index]
        kind = "hair" if _HAIR_NAME.fullmatch(name) else "head"
        eye = "leftEye" in above or "rightEye" in above
        part = PART_NAMES.index(name) if name in PART_NAMES else PART_EYE if eye else PART_SKIN
        color = self._alpha(attributes, count) if part in (PART_LASH, PART_LENS) else np.ones(count)
        faces = self._corners(primitive, count)
        moved = (vertices[:, None] @ linear.swapaxes(1, 2))[:, 0] + matrix[:, :3, 3]
        return _Piece(
            kind=kind,
            vertices=self._within("mesh.vertices", moved).astype(np.float32),
            normals=None if normals is None else unit((normals[:, None] @ linear.swapaxes(1, 2))[:, 0]),
            uv=np.zeros((count, 2)) if (uv := optional("TEXCOORD_0", 2)) is None else uv.clip(0, 1),
            expression=self._targets(mesh, primitive, count, linear, part),
            faces=faces,
            part=part,
            alpha=color,
            share=share,
            picture=texture,
            factor=factor,
            shared=(index, *(attributes.get(key) for key in ("POSITION", "TEXCOORD_0", "NORMAL", "COLOR_0")), texture),
        )

    def _skinned(self, skin: object, bones: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """((n, 4, 4) of each vertex as it rests, (n,) share of the head's turn)."""
        reader = self._reader
        item = reader.pick("skins", skin)
        joints = reader.entries(item, "joints", 1024)
        known = all(type(joint) is int and joint in self._places for joint in joints)
        if not joints or not known or bones.min() < 0 or bones.max() >= len(joints):
            raise reader.damaged("a skin's joints are out of range")
        bones = bones.astype(int)
        inverse = np.repeat(np.eye(4)[None], len(joints), 0)
        if "inverseBindMatrices" in item:
            given = accessor(reader, item["inverseBindMatrices"], 16, 1024, "inverseBindMatrices")
            if len(given) != len(joints):
                raise reader.damaged("a skin has not one inverse matrix for each joint")
            inverse = given.reshape(-1, 4, 4).swapaxes(1, 2)
        matrices = np.stack([self._places[joint] for joint in joints]) @ inverse
        total = weights.sum(1, keepdims=True)
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1), [1.0, 0, 0, 0])
        turning = np.array([bool({"neck", "head", "Neck", "Head"} & set(self._names[joint])) for joint in joints])
        reader.spend(128 * 4 * len(bones))
        share = (weights * turning[bones]).sum(1) if turning.any() else np.ones(len(bones))
        return (weights[..., None, None] * matrices[bones]).sum(1), share.clip(0, 1)

    def _targets(self, mesh: Json, primitive: Json, count: int, linear: np.ndarray, part: int) -> np.ndarray:
        """(52, count, 3) f32 offsets by ARKit's names; an eye's looks are left to its node."""
        reader = self._reader
        reader.spend(WEIGHT_COUNT * count * 12)
        expression = np.zeros((WEIGHT_COUNT, count, 3), np.float32)
        targets = reader.entries(primitive, "targets", 1024)
        extras = mesh.get("extras")
        names = extras.get("targetNames") if isinstance(extras, dict) else None
        if not isinstance(names, list) or len(names) != len(targets):
            names = list(ARKIT_NAMES) if len(targets) == len(ARKIT_NAMES) else [""] * len(targets)
        looks = {place for eye in LOOK_INDICES for place in eye} if part == PART_EYE else set()
        for name, target in zip(names, targets, strict=True):
            place = ARKIT_INDEX.get(name) if isinstance(name, str) else None
            if place is None or place in looks or not isinstance(target, dict) or "POSITION" not in target:
                continue
            offsets = accessor(reader, target["POSITION"], 3, DIMENSIONS["V"][0], f"the target {name}")
            if len(offsets) != count:
                raise reader.damaged(f"the target {name} has {len(offsets)} elements, POSITION {count}")
            expression[place] = self._within("mesh.targets", (offsets[:, None] @ linear.swapaxes(1, 2))[:, 0])
        return expression

    def _within(self, path: str, values: np.ndarray) -> np.ndarray:
        wrong = outside(values, ROWS[path], {})
        if wrong is not None:
            row = ROWS[path]
            raise self._reader.damaged(f"its core's {path} holds {wrong:.6g}, outside {row.low:g} to {row.high:g} {row.unit}")
        return values

    def _corners(self, primitive: Json, count: int) -> np.ndarray:
        if "indices" in primitive:
            corners = accessor(self._reader, primitive["indices"], 1, 3 * MAX_FACES, "a primitive's indices")[:, 0]
            if len(corners) % 3 or corners.min() < 0 or corners.max() >= count or (corners % 1).any():
                raise self._reader.damaged("a primitive's indices are out of range")
            faces = corners.astype(np.int32).reshape(-1, 3)
        else:
            faces = np.arange(count - count % 3, dtype=np.int32).reshape(-1, 3)
        self._faces += len(faces)
        if self._faces > MAX_FACES:
            raise self._reader.damaged(f"it has more than {MAX_FACES} triangles")
        return faces

    def _alpha(self, attributes: Json, count: int) -> np.ndarray:
        """(count,) cover of a vertex colour, 1 without."""
        if "COLOR_0" not in attributes:
            return np.ones(count)
        item = self._reader.pick("accessors", attributes["COLOR_0"])
        if item.get("type") != "VEC4":
            return np.ones(count)
        found = accessor(self._reader, attributes["COLOR_0"], 4, DIMENSIONS["V"][0], "COLOR_0")[:, 3]
        return found.clip(0, 1) if len(found) == count else np.ones(count)

    def _texture(self, material: Json) -> tuple[int | None, np.ndarray]:
        """(number of a material's base colour texture, its factor (4,))."""
        look = material.get("pbrMetallicRoughness")
        look = look if isinstance(look, dict) else {}
        factor = self._reader.numbers(look, "baseColorFactor", (4,)) if "baseColorFactor" in look else np.ones(4)
        named = look.get("baseColorTexture")
        index = named.get("index") if isinstance(named, dict) else None
        return index if type(index) is int else None, factor.clip(0, 1)

    def pictures(self, textures: set[int]) -> dict[int, np.ndarray]:
        """{texture: (H, W, 4) u8}."""
        left = MAX_DRAWN_BYTES // PICTURE_ROWS["texture.baseColor"].drawn_bytes
        found = {}
        for texture in sorted(textures):
            found[texture] = image(self._reader, texture, left)
            left -= found[texture].shape[0] * found[texture].shape[1]
        return found

    def joints(self, pieces: list[_Piece]) -> dict[str, np.ndarray]:
        """{joint: (3,)}, of nodes of these names, else as a head has them."""
        named = {names[-1]: self._places[index][:3, 3] for index, names in self._names.items() if names[-1] in JOINT_NAMES}
        faces = np.concatenate([piece.vertices for piece in pieces if piece.kind == "head"] or [pieces[0].vertices])
        joints: dict[str, np.ndarray] = {}
        for name, side in (("leftEye", 1), ("rightEye", -1)):
            balls = [
                p.vertices for p in pieces if p.part == PART_EYE and side * (p.vertices[:, 0].mean() - faces[:, 0].mean()) > 0
            ]
            usual = balls[0].mean(0) if balls else np.array([0.0315 * side, faces[:, 1].max() - 0.11, faces[:, 2].max() - 0.03])
            joints[name] = np.asarray(named.get(name, usual), float)
        middle = (joints["leftEye"] + joints["rightEye"]) / 2
        return {**joints, **{name: np.asarray(named.get(name, middle + place), float) for name, place in USUAL_JOINTS.items()}}


def _resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    if picture.shape[:2] == (height, width):
        return picture
    return np.array(Image.fromarray(picture).resize((width, height), Image.Resampling.BOX))


def _shells(layers: list[_Piece], pictures: dict[int, np.ndarray]) -> HairShells | None:
    """Nested levels of hair, from the base outward; None where the layers are not that."""
    if not layers or any(layer.picture is None or len(layer.vertices) != len(layers[0].vertices) for layer in layers):
        return None
    base = layers[0]
    if any(not np.array_equal(layer.faces, base.faces) for layer in layers):
        return None
    distances = [float(np.linalg.norm(layer.vertices - base.vertices, axis=1).mean()) for layer in layers]
    if any(after <= before for before, after in pairwise(distances)):
        return None
    maps = [pictures[layer.picture] for layer in layers if layer.picture is not None]
    height, width = maps[-1].shape[:2]
    reach = max(distances[-1], 1e-9)
    return HairShells(
        base=base.vertices,
        extent=(layers[-1].vertices - base.vertices).astype(np.float32),
        uv=base.uv.astype(np.float32),
        weld=_welded(base.vertices, base.normals, np.zeros(len(base.vertices))),
        faces=base.faces,
        levels=np.array([distance / reach for distance in distances], np.float32),
        color=np.ascontiguousarray(maps[0][..., :3]),
        opacity=np.stack([_resized(pixels, height, width)[..., 3] for pixels in maps]),
        occlusion=np.array([layer.factor[:3].mean() for layer in layers], np.float32),
    )


def _cut(layer: _Piece, pictures: dict[int, np.ndarray]) -> _Piece:
    """A layer of hair as a part of the head, without what its texture leaves out."""
    if layer.picture is not None:
        alpha = pictures[layer.picture][..., 3]
        places = (layer.uv[layer.faces].mean(1) * alpha.shape[1::-1]).astype(int)
        kept = alpha[places[:, 1].clip(0, alpha.shape[0] - 1), places[:, 0].clip(0, alpha.shape[1] - 1)] >= HAIR_CUT
        layer.faces = layer.faces[kept]
    return layer


def _welded(vertices: np.ndarray, normals: np.ndarray | None, group: np.ndarray) -> np.ndarray:
    """(n,) i32 first vertex at the same place with the same normal and group."""
    turned = np.zeros_like(vertices) if normals is None else normals
    key = np.concatenate([np.round(vertices / _SAME_PLACE_M), np.round(turned / _SAME_NORMAL), group[:, None]], axis=1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)].astype(np.int32)


def _atlas(pieces: list[_Piece], pictures: dict[int, np.ndarray]) -> np.ndarray:
    """(H, W, 3) u8 of all textures of the pieces side by side, whose uv follow; a piece without one gets its factor's colour."""
    tiles: list[np.ndarray] = []
    of: dict[object, int] = {}
    for piece in pieces:
        key: object = piece.picture if piece.picture is not None else tuple(piece.factor)
        if key not in of:
            of[key] = len(tiles)
            flat = np.round(
                255 * np.where(piece.factor <= 0.0031308, 12.92 * piece.factor, 1.055 * piece.factor ** (1 / 2.4) - 0.055)
            )
            color = flat[:3].clip(0, 255).astype(np.uint8)
            tiles.append(np.full((8, 8, 3), color) if piece.picture is None else pictures[piece.picture][..., :3])
    if len(tiles) == 1:
        return np.ascontiguousarray(tiles[0])
    height, width = max(tile.shape[0] for tile in tiles), sum(tile.shape[1] for tile in tiles)
    whole, starts, start = np.zeros((height, width, 3), np.uint8), [], 0
    for tile in tiles:
        whole[: tile.shape[0], start : start + tile.shape[1]] = tile
        starts.append(start)
        start += tile.shape[1]
    done: set[int] = set()
    for piece in pieces:
        if id(piece.uv) in done:
            continue
        done.add(id(piece.uv))
        number = of[piece.picture if piece.picture is not None else tuple(piece.factor)]
        tile = tiles[number]
        size = np.array(tile.shape[1::-1])
        piece.uv = ((piece.uv * size).clip(0.5, size - 0.5) + [starts[number], 0]) / [
            width,
            height,
        ]  # off the neighbour's texels
    return whole


def _put_together(
    reader: GltfReader,
    pieces: list[_Piece],
    pictures: dict[int, np.ndarray],
    joints: dict[str, np.ndarray],
    shells: HairShells | None,
) -> Avatar:
    base_color = _atlas(pieces, pictures)
    firsts: dict[tuple[object, ...], int] = {}
    own: list[_Piece] = []
    faces, parts, start = [], [], 0
    for piece in pieces:
        if piece.shared not in firsts:
            firsts[piece.shared] = start
            own.append(piece)
            start += len(piece.vertices)
        faces.append(piece.faces + np.int32(firsts[piece.shared]))
        parts.append(np.full(len(piece.faces), piece.part, np.uint8))
    used, index = np.unique(np.concatenate(faces), return_inverse=True)
    if len(used) > DIMENSIONS["V"][0]:
        raise reader.damaged(f"{len(used)} vertices, expected {DIMENSIONS['V'][0]} at most")
    vertices = np.concatenate([piece.vertices for piece in own])[used].astype(np.float32)
    normals = None
    if all(piece.normals is not None for piece in own):
        normals = np.concatenate([piece.normals for piece in own if piece.normals is not None])[used]
    corners = index.reshape(-1, 3).astype(np.int32)
    labels = np.concatenate(parts)
    group = np.zeros(len(used))
    for number in np.unique(labels):
        group[np.unique(corners[labels == number])] = number
    return Avatar(
        vertices=vertices,
        faces=corners,
        part=labels,
        uv=np.concatenate([piece.uv for piece in own])[used].astype(np.float32),
        weld=_welded(vertices, normals, group),
        expression=np.ascontiguousarray(np.concatenate([piece.expression for piece in own], axis=1)[:, used]),
        head_weight=np.concatenate([piece.share for piece in own])[used].astype(np.float32),
        vertex_alpha=np.concatenate([piece.alpha for piece in own])[used].astype(np.float32),
        field_weight=np.zeros(len(used), np.float32),
        joints=joints,
        base_color=base_color,
        confidence=np.full((1, 1), 128, np.uint8),
        light=USUAL_LIGHT.copy(),
        shading_power=USUAL_SHADING_POWER,
        landmark_triangles=np.zeros((LANDMARKS, 3), np.int32),
        landmark_barycentric=np.full((LANDMARKS, 3), 1 / 3, np.float32),
        hair=shells,
        provenance={"read_from": "core glTF"},
    )
