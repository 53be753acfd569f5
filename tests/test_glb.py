"""The avatar's file: what goes in comes out, other glTF readers agree with it, and damage ends in one sentence."""

from __future__ import annotations

import copy
import io
import json
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pygltflib
import pytest
import trimesh
from PIL import Image

from avatar3d.avatar import PART_EYE, PART_SKIN, Avatar
from avatar3d.errors import InputError, WorkError
from avatar3d.field.int8 import in_bytes
from avatar3d.geometry import smooth_normals, unit
from avatar3d.glb import EXTENSION, parse_glb, read_glb, write_glb
from avatar3d.motion.code import ARKIT_INDEX, ARKIT_NAMES, LOOK_MAX_RAD
from avatar3d.motion.rotation import eye_rotation
from tests.fuzzing.numbers import pack, unpack
from tests.make_avatar import synthetic_avatar


@pytest.fixture(scope="module")
def avatar() -> Avatar:
    return synthetic_avatar()


@pytest.fixture(scope="module")
def glb(avatar: Avatar, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("glb") / "avatar.glb"
    write_glb(avatar, path)
    return path.read_bytes()


def _read(data: bytes, folder: Path) -> Avatar:
    path = folder / "case.glb"
    path.write_bytes(data)
    return read_glb(path)


def _assert_same(have: object, want: object, where: str, tolerance: dict[str, float]) -> None:
    if isinstance(want, np.ndarray):
        assert isinstance(have, np.ndarray) and have.shape == want.shape, where
        assert have.dtype == want.dtype, where
        allowed = tolerance.get(where, 0.0) * np.abs(want).max()
        assert np.abs(have.astype(float) - want).max() <= allowed, where
    elif is_dataclass(want):
        for part in fields(want):
            _assert_same(getattr(have, part.name), getattr(want, part.name), f"{where}.{part.name}", tolerance)
    elif isinstance(want, list | tuple) and want and not isinstance(want[0], float):
        assert isinstance(have, list | tuple) and len(have) == len(want), where
        for first, second in zip(have, want, strict=True):
            _assert_same(first, second, where, tolerance)
    elif isinstance(want, dict) and where.endswith("joints"):
        for name in want:
            _assert_same(have[name], want[name], where, tolerance)  # type: ignore[index]
    else:
        assert have == want, where


EIGHT_BITS = {
    f"avatar.{name}": 1 / 253
    for name in (
        "texture_deltas.log_ratio",
        "baked.skin_q0",
        "baked.hair_q0",
        "baked.motion.skin",
        "baked.motion.hair",
    )
}


@pytest.mark.parametrize("parts", [(True, True, True), (False, True, True), (True, False, False), (False,) * 3])
def test_round_trip(parts: tuple[bool, bool, bool], tmp_path: Path) -> None:
    hair, field, baked = parts
    avatar = synthetic_avatar(1, hair, field, baked)
    write_glb(avatar, tmp_path / "a.glb")
    _assert_same(read_glb(tmp_path / "a.glb"), avatar, "avatar", EIGHT_BITS)


def test_bytes_are_reproducible_and_stable(avatar: Avatar, glb: bytes, tmp_path: Path) -> None:
    write_glb(synthetic_avatar(), tmp_path / "again.glb")
    assert (tmp_path / "again.glb").read_bytes() == glb
    write_glb(read_glb(tmp_path / "again.glb"), tmp_path / "reread.glb")
    assert (tmp_path / "reread.glb").read_bytes() == glb


def test_least_avatar(avatar: Avatar, tmp_path: Path) -> None:
    least = replace(
        synthetic_avatar(hair=False, field=False, baked=False),
        texture_deltas=[],
        photo_camera=None,
        photo_motion=None,
        reach=None,
        provenance={},
        expression=np.zeros_like(avatar.expression),
    )
    write_glb(least, tmp_path / "a.glb")
    _assert_same(read_glb(tmp_path / "a.glb"), least, "avatar", {})


def test_a_bake_of_version_1_is_read(glb: bytes, tmp_path: Path) -> None:
    document, body = unpack(glb)
    baked = _content(document)["baked"]
    motion = baked.pop("motion")[0]
    _content(document)["version"] = 1
    for key in ("psnrMovedSkinDb", "psnrMovedHairDb"):
        del baked[key]
    baked |= {"skinQ1": motion["skin"], "hairQ1": motion["hair"]}  # any pictures of their sizes do
    new, old = _read(glb, tmp_path).baked, _read(pack(document, body), tmp_path).baked
    assert new is not None and old is not None and new.hair_q0 is not None and old.hair_q0 is not None
    assert not old.motion and np.isnan(old.psnr_moved_skin_db) and old.psnr_skin_db == new.psnr_skin_db
    # It showed q0 + q1 · d along d, of which the mean over the hemisphere that sees a surface is q0 + 2/3 of q1's part along it.
    changes = new.motion[0].skin, new.motion[0].hair
    for before, now, q1 in zip((new.skin_q0, new.hair_q0), (old.skin_q0, old.hair_q0), changes, strict=True):
        assert q1 is not None
        np.testing.assert_allclose(now[..., :3] - before[..., :3], np.repeat(2 / 3 * q1[..., 2:], 3, axis=-1), atol=1e-6)
    np.testing.assert_array_equal(old.hair_q0[..., 3], new.hair_q0[..., 3])
    baked["skinQ1"] = motion["hair"] | {"levels": motion["hair"]["levels"][:1]}
    with pytest.raises(InputError, match="skinQ1 differ in size"):
        _read(pack(document, body), tmp_path)


def test_a_field_in_bytes_is_read_as_what_they_stand_for(avatar: Avatar, tmp_path: Path) -> None:
    assert avatar.neural_field is not None
    write_glb(avatar, tmp_path / "a.glb")
    write_glb(avatar, tmp_path / "small.glb", byte_field=True)
    assert (tmp_path / "small.glb").stat().st_size < (tmp_path / "a.glb").stat().st_size
    read = read_glb(tmp_path / "small.glb")
    _assert_same(read, replace(avatar, neural_field=in_bytes(avatar.neural_field)), "avatar", EIGHT_BITS)
    write_glb(read, tmp_path / "again.glb", byte_field=True)
    assert (tmp_path / "again.glb").read_bytes() == (tmp_path / "small.glb").read_bytes()
    document, body = unpack((tmp_path / "small.glb").read_bytes())
    _content(document)["field"]["tables"]["step"][0] = 1e7
    with pytest.raises(InputError, match=r"field\.tables\.step holds 1e\+07, outside 0 to 7.8"):
        _read(pack(document, body), tmp_path)


def test_what_was_not_measured_stays_unmeasured(avatar: Avatar, tmp_path: Path) -> None:
    assert avatar.baked is not None
    provenance = {"seconds": np.float32(0.5), "fit": {"residual": float("nan")}, "size": (2, np.int64(3))}
    baked = replace(avatar.baked, psnr_hair_db=float("nan"))
    write_glb(replace(avatar, baked=baked, provenance=provenance), tmp_path / "a.glb")
    back = read_glb(tmp_path / "a.glb")
    assert back.baked is not None and np.isnan(back.baked.psnr_hair_db) and back.baked.psnr_skin_db == 45.0
    assert back.provenance == {"seconds": 0.5, "fit": {"residual": None}, "size": [2, 3]}


def test_jpeg_is_smaller_and_close(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    avatar = synthetic_avatar()
    smooth = Image.fromarray(avatar.base_color).resize((256, 256), Image.Resampling.BICUBIC)
    color = np.clip(np.array(smooth) + rng.normal(0, 2, (256, 256, 1)), 0, 255).astype(np.uint8)
    avatar = replace(avatar, base_color=color)
    write_glb(avatar, tmp_path / "png.glb")
    write_glb(avatar, tmp_path / "jpeg.glb", jpeg=True)
    assert (tmp_path / "jpeg.glb").stat().st_size < (tmp_path / "png.glb").stat().st_size - 30_000
    difference = read_glb(tmp_path / "jpeg.glb").base_color.astype(float) - color
    assert np.sqrt((difference**2).mean()) < 2.5


def test_faces_in_any_order_of_parts_come_back(avatar: Avatar, tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(len(avatar.faces))
    shuffled = replace(avatar, faces=avatar.faces[order], part=avatar.part[order])
    write_glb(shuffled, tmp_path / "a.glb")
    back = read_glb(tmp_path / "a.glb")
    assert (back.faces == shuffled.faces).all() and (back.part == shuffled.part).all()


def test_more_vertices_than_16_bits_count(avatar: Avatar, tmp_path: Path) -> None:
    extra = 70_000 - len(avatar.vertices)
    pad = {
        name: np.concatenate([getattr(avatar, name), np.repeat(getattr(avatar, name)[-1:], extra, 0)])
        for name in ("vertices", "uv", "weld", "head_weight", "vertex_alpha", "field_weight")
    }
    last = np.array([[69_997, 69_998, 69_999]], np.int32)
    large = replace(
        avatar,
        **pad,
        faces=np.concatenate([avatar.faces, last]),
        part=np.append(avatar.part, np.uint8(PART_SKIN)),
        expression=np.concatenate([avatar.expression, np.full((52, extra, 3), 0.001, np.float32)], 1),
    )
    write_glb(large, tmp_path / "a.glb")
    _assert_same(read_glb(tmp_path / "a.glb"), large, "avatar", EIGHT_BITS)


def test_numbers_a_file_cannot_hold_are_refused(avatar: Avatar, tmp_path: Path) -> None:
    light = avatar.light.copy()
    light[2, 1] = np.inf
    with pytest.raises(WorkError, match=r"avatar\.light.*not finite"):
        write_glb(replace(avatar, light=light), tmp_path / "a.glb")
    assert avatar.neural_field is not None
    field = replace(avatar.neural_field, tables=avatar.neural_field.tables + 1e6)
    with pytest.raises(WorkError, match="16-bit"):
        write_glb(replace(avatar, neural_field=field), tmp_path / "a.glb")
    assert list(tmp_path.iterdir()) == []


def test_unwritable_places(avatar: Avatar, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        write_glb(avatar, tmp_path / "missing" / "a.glb")
    with pytest.raises(InputError, match="is a folder"):
        write_glb(avatar, tmp_path)


# What other readers see.


def test_trimesh_sees_a_textured_head_in_metres(avatar: Avatar, glb: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.glb").write_bytes(glb)
    scene = trimesh.load(tmp_path / "a.glb", process=False)
    assert avatar.hair is not None
    places = np.concatenate([avatar.vertices, avatar.hair.base + avatar.hair.levels[-1] * avatar.hair.extent])
    assert np.allclose(scene.bounds, [places.min(0), places.max(0)], atol=1e-6)
    heads = [mesh for name, mesh in scene.geometry.items() if name.startswith(("head", "leftEye", "rightEye"))]
    assert sum(len(mesh.faces) for mesh in heads) == len(avatar.faces)
    texture = heads[0].visual.material.baseColorTexture
    assert (np.array(texture.convert("RGB")) == avatar.base_color).all()


def test_nodes_targets_and_materials(avatar: Avatar, glb: bytes) -> None:
    document = pygltflib.GLTF2().load_from_bytes(glb)
    assert document.extensionsUsed == [EXTENSION] and not document.extensionsRequired
    names = {node.name: node for node in document.nodes}
    children = {node.name: {document.nodes[index].name for index in node.children or []} for node in document.nodes}
    assert children["avatar"] == {"neck"} and children["neck"] == {"head"}
    assert children["head"] == {"leftEye", "rightEye", "hair"}
    assert children["leftEye"] == {"leftEyeMesh"} and children["rightEye"] == {"rightEyeMesh"}
    head = document.meshes[names["headMesh"].mesh]
    assert head.extras["targetNames"] == list(ARKIT_NAMES)
    assert all(len(primitive.targets) == 52 for primitive in head.primitives)
    materials = [document.materials[primitive.material].name for primitive in head.primitives]
    assert materials == ["skin", "teeth", "tongue", "lashes", "mouth"]
    hair = document.meshes[names["hair"].mesh]
    modes = [document.materials[primitive.material].alphaMode for primitive in hair.primitives]
    assert modes == ["MASK", "BLEND", "BLEND", "BLEND"]
    # An eye node sits at its joint and its mesh is moved back, so turning the node turns the eye about its centre.
    place = np.zeros(3)
    for name in ("neck", "head", "leftEye"):
        place += names[name].translation
    assert np.allclose(place, avatar.joints["leftEye"], atol=1e-7)
    assert np.allclose(names["leftEyeMesh"].translation, -avatar.joints["leftEye"], atol=1e-7)


def test_sparse_target_decodes_by_hand_to_the_offsets(avatar: Avatar, glb: bytes) -> None:
    document, body = unpack(glb)
    accessor = document["accessors"][_jaw_target(document)]
    sparse = accessor["sparse"]
    offsets = np.zeros((accessor["count"], 3), np.float32)
    views = document["bufferViews"]
    rows = np.frombuffer(
        body,
        "<u2",
        sparse["count"],
        views[sparse["indices"]["bufferView"]]["byteOffset"] + sparse["indices"]["byteOffset"],
    )
    start = views[sparse["values"]["bufferView"]]["byteOffset"]
    offsets[rows] = np.frombuffer(body, "<f4", 3 * sparse["count"], start).reshape(-1, 3)
    assert (offsets == avatar.expression[ARKIT_INDEX["jawOpen"], : len(offsets)]).all()
    assert accessor["min"] == offsets.min(0).tolist() and accessor["max"] == offsets.max(0).tolist()


def _target(document: pygltflib.GLTF2, glb: bytes, mesh: str, name: str, attribute: str) -> tuple[np.ndarray, np.ndarray]:
    """(what an attribute is at rest, what a target adds to it), each (n, 3), of a mesh's first primitive."""
    raw, body = unpack(glb)
    primitive = next(item for item in raw["meshes"] if item["name"] == mesh)["primitives"][0]
    accessor = raw["accessors"][primitive["attributes"][attribute]]
    view = raw["bufferViews"][accessor["bufferView"]]
    start = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
    rest = np.frombuffer(body, "<f4", 3 * accessor["count"], start).reshape(-1, 3)
    item = raw["accessors"][primitive["targets"][ARKIT_INDEX[name]][attribute]]
    added = np.zeros_like(rest)
    if "sparse" in item:
        sparse, views = item["sparse"], raw["bufferViews"]
        at = views[sparse["indices"]["bufferView"]].get("byteOffset", 0) + sparse["indices"].get("byteOffset", 0)
        rows = np.frombuffer(body, "<u2", sparse["count"], at)
        at = views[sparse["values"]["bufferView"]].get("byteOffset", 0)
        added[rows] = np.frombuffer(body, "<f4", 3 * sparse["count"], at).reshape(-1, 3)
    return rest, added


def test_eyeballs_follow_the_look_weights_in_viewers_that_know_no_nodes(avatar: Avatar, glb: bytes) -> None:
    document = pygltflib.GLTF2().load_from_bytes(glb)
    for side, name, yaw, pitch in (
        ("leftEye", "eyeLookOutLeft", 1, 0), ("leftEye", "eyeLookUpLeft", 0, 1), ("rightEye", "eyeLookInRight", 1, 0),
        ("rightEye", "eyeLookDownRight", 0, -1),
    ):  # fmt: skip
        rest, added = _target(document, glb, side, name, "POSITION")
        ball = rest - avatar.joints[side]
        np.testing.assert_allclose(ball + added, ball @ eye_rotation(yaw * LOOK_MAX_RAD, pitch * LOOK_MAX_RAD).T, atol=1e-6)
        assert not _target(document, glb, side, "jawOpen", "POSITION")[1].any()
    mesh = next(mesh for mesh in document.meshes if mesh.name == "leftEye")
    assert mesh.extras["targetNames"] == list(ARKIT_NAMES)


@pytest.mark.parametrize("name", ["jawOpen"])
def test_normals_turn_with_moved_skin(name: str, avatar: Avatar, glb: bytes) -> None:
    document = pygltflib.GLTF2().load_from_bytes(glb)
    rest, added = _target(document, glb, "head", name, "NORMAL")
    moved = avatar.vertices + avatar.expression[ARKIT_INDEX[name]]
    wanted = smooth_normals(moved, avatar.faces, avatar.weld)[: len(rest)]
    cosine = (unit(rest + added) * wanted).sum(1)
    assert np.degrees(np.arccos(np.clip(cosine, -1, 1))).max() < 1.5
    assert np.degrees(np.arccos(np.clip((rest * wanted).sum(1), -1, 1))).max() > 5  # and it was worth it


def test_skin_weights_sum_to_one_and_follow_head_weight(avatar: Avatar, glb: bytes) -> None:
    document, body = unpack(glb)
    accessor = document["accessors"][_head(document)["attributes"]["WEIGHTS_0"]]
    view = document["bufferViews"][accessor["bufferView"]]
    weights = np.frombuffer(body, np.uint8, 4 * len(avatar.vertices), view["byteOffset"]).reshape(-1, 4)
    assert (weights.sum(1, dtype=int) == 255).all()
    assert np.abs((weights[:, 1] + weights[:, 2].astype(int)) / 255 - avatar.head_weight).max() < 0.003


def test_the_extension_repeats_no_vertex_data(glb: bytes) -> None:
    document, body = unpack(glb)
    content = document["extensions"][EXTENSION]
    attributes = _head(document)["attributes"]
    for name, attribute in (("vertices", "POSITION"), ("uv", "TEXCOORD_0")):
        assert content["mesh"][name]["bufferView"] == document["accessors"][attributes[attribute]]["bufferView"]
    assert content["texture"]["baseColor"]["bufferView"] in {image["bufferView"] for image in document["images"]}
    spans = [body[v["byteOffset"] : v["byteOffset"] + v["byteLength"]] for v in document["bufferViews"]]
    large = [span for span in spans if len(span) > 1000]
    assert len(set(large)) == len(large)


# What a user may hand over instead of an avatar.


def _plain_gltf() -> bytes:
    return trimesh.creation.box().export(file_type="glb")


def _with_nan_vertex(document: dict, body: bytes) -> bytes:
    view = document["bufferViews"][document["extensions"][EXTENSION]["mesh"]["vertices"]["bufferView"]]
    start = view["byteOffset"] + 24
    return pack(document, body[:start] + struct.pack("<f", float("nan")) + body[start + 4 :])


def _with_levels_beyond_floats(document: dict, body: bytes) -> bytes:
    view = document["bufferViews"][document["extensions"][EXTENSION]["hair"]["levels"]["bufferView"]]
    start = view["byteOffset"]
    return pack(document, body[:start] + struct.pack("<2f", -3e38, 3e38) + body[start + 8 :])


def _edited(change: Callable[[dict], object]) -> Callable[[dict, bytes], bytes]:
    def edit(document: dict, body: bytes) -> bytes:
        change(document)
        return pack(document, body)

    return edit


def _content(document: dict) -> dict:
    return document["extensions"][EXTENSION]


def _head(document: dict) -> dict:
    """The head mesh's first primitive, the skin."""
    return next(mesh for mesh in document["meshes"] if mesh["name"] == "head")["primitives"][0]


def _jaw_target(document: dict) -> int:
    return _head(document)["targets"][ARKIT_INDEX["jawOpen"]]["POSITION"]


def _damage_base_color(document: dict, body: bytes) -> bytes:
    view = document["bufferViews"][_content(document)["texture"]["baseColor"]["bufferView"]]
    middle = view["byteOffset"] + view["byteLength"] // 2
    return pack(document, body[:middle] + bytes(40) + body[middle + 40 :])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda d, b: b"", "is empty"),
        (lambda d, b: b"\x89PNG\r\n\x1a\n" + bytes(100), "is not a GLB"),
        (lambda d, b: json.dumps(d).encode(), "glTF text file; convert it to binary GLB"),
        (lambda d, b: pack(d, b)[:15], "truncated: 15 bytes"),
        (lambda d, b: pack(d, b)[:-100], "is truncated: .* bytes; copy it again"),
        (lambda d, b: pack(d, b) + b"more", "4 bytes follow its stated end"),
        (lambda d, b: b"glTF" + struct.pack("<I", 1) + pack(d, b)[8:], "glTF version 1"),
        (lambda d, b: _plain_gltf(), f"plain glTF without {EXTENSION}.*avatar3d enroll"),
        (_edited(lambda d: _content(d).update(version=3)), "newer avatar3d .*version 3.*update avatar3d"),
        (_edited(lambda d: _content(d).update(version="1")), "version is not a whole number"),
        (lambda d, b: pack(d, b).replace(b'"asset"', b'"asset?', 1), "its JSON cannot be read"),
        (lambda d, b: pack({**d, "x": float("nan")}, b), "its JSON cannot be read .*NaN"),
        (_edited(lambda d: d["accessors"][_jaw_target(d)].update(count=10**9)), "does not hold .* vectors"),
        (_edited(lambda d: d["accessors"][_jaw_target(d)]["sparse"].update(count=10**9)), "count is not a whole"),
        (_edited(lambda d: d["accessors"][_head(d)["indices"]].update(count=10**8)), "reaches beyond its buffer"),
        (_edited(lambda d: d["accessors"][_head(d)["indices"]].update(componentType=5125)), "beyond|over"),
        (_edited(lambda d: d["bufferViews"][0].update(byteOffset=10**9)), "byteOffset is not a whole number"),
        (_edited(lambda d: d["bufferViews"][1].update(byteLength=10**6)), "byteLength|beyond"),
        (_edited(lambda d: _content(d)["mesh"]["vertices"].update(bufferView=9999)), r"bufferViews\[9999\]"),
        (_edited(lambda d: _content(d)["mesh"]["vertices"].update(shape=[10**8, 3])), "its shape"),
        (_edited(lambda d: _content(d)["mesh"]["faceRuns"].pop()), "faceRuns does not match"),
        (_edited(lambda d: _content(d)["texture"]["baseColor"].update(width=65)), "baseColor is .*stated"),
        (_edited(lambda d: _content(d)["texture"]["baseColor"].update(width=9000)), "width is not a whole number"),
        (_damage_base_color, "the picture texture.baseColor cannot be decoded"),
        (_with_levels_beyond_floats, r"hair\.levels holds .*, outside 0 to 2"),
        (_with_nan_vertex, "vertices holds a value that is not finite"),
        (_edited(lambda d: _content(d)["light"].pop()), "light does not have the shape"),
        (_edited(lambda d: _content(d)["photoCamera"].update(near=20.0)), "expected .* near < far"),
        (_edited(lambda d: _content(d).pop("mesh")), "mesh is not an object"),
        (_edited(lambda d: _content(d)["reach"]["rest"].pop()), "rest does not have the shape"),
        (_edited(lambda d: _content(d)["reach"]["full"].__setitem__(3, 0.0)), "reach .* is out of bounds"),
        (
            _edited(lambda d: _content(d)["reach"]["corrections"][0].__setitem__(3, 1e9)),
            r"reach\.corrections holds 1e\+09, outside",
        ),
        (_edited(lambda d: _content(d)["reach"]["answers"].extend([[0.0] * 52] * 40)), "answers"),
        (_edited(lambda d: _content(d).pop("hair")), "baked hair but no hair"),
        (_edited(lambda d: d["buffers"][0].update(uri="https://example.com/a.bin")), "one buffer of its own"),
    ],
)
def test_what_is_no_avatar_ends_in_a_sentence(make, sentence: str, glb: bytes, tmp_path: Path) -> None:
    document, body = unpack(glb)
    data = make(copy.deepcopy(document), body)
    with pytest.raises(InputError, match=sentence) as error:
        _read(data, tmp_path)
    assert str(tmp_path / "case.glb") in str(error.value), "the sentence does not name the file"
    assert "\n" not in str(error.value)


def test_bytes_are_read_as_a_file_is(avatar: Avatar, glb: bytes) -> None:
    _assert_same(parse_glb(glb, "sent.glb"), avatar, "avatar", EIGHT_BITS)
    with pytest.raises(InputError, match=r"^sent\.glb is truncated"):
        parse_glb(glb[:-100], "sent.glb")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        read_glb(tmp_path / "missing.glb")
    with pytest.raises(InputError, match="is a folder"):
        read_glb(tmp_path)


def test_file_of_absurd_size_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.glb"
    with path.open("wb") as stream:
        stream.truncate(300 * 2**20)  # sparse: takes no room
    with pytest.raises(InputError, match="300 MiB; an avatar is at most"):
        read_glb(path)


def _bomb(document: dict, body: bytes, side: int) -> bytes:
    """The file with a base colour of side², which compresses to next to nothing, and 60 deltas that name it too."""
    picture = io.BytesIO()
    Image.new("RGB", (side, side)).save(picture, "PNG")
    data = picture.getvalue()
    document["bufferViews"].append({"buffer": 0, "byteOffset": len(body), "byteLength": len(data)})
    document["buffers"][0]["byteLength"] = len(body) + len(data)
    reference = {"bufferView": len(document["bufferViews"]) - 1, "mimeType": "image/png", "width": side, "height": side}
    delta = _content(document)["texture"]["deltas"][0]
    delta["logRatio"] = {**reference, "step": [1, 1, 1]}
    _content(document)["texture"]["deltas"] = [delta] * 60
    return pack(document, body + data + bytes(-len(data) % 4))


@pytest.mark.parametrize("side", [2048, 8192])
def test_decompression_bomb_is_refused_before_it_unfolds(side: int, glb: bytes, tmp_path: Path) -> None:
    document, body = unpack(glb)
    path = tmp_path / "case.glb"
    path.write_bytes(_bomb(document, body, side))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="MiB of memory up to texture.* more than 1536 MiB"):
            read_glb(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * 2**30


def test_eye_faces_that_mix_with_skin_still_turn(avatar: Avatar, tmp_path: Path) -> None:
    """Eye vertices in the middle of the skin's range: the eye meshes keep their own ranges and no offset is lost."""
    count = len(avatar.vertices)
    order = np.random.default_rng(0).permutation(count)
    place = np.empty(count, np.int32)
    place[order] = np.arange(count, dtype=np.int32)
    first = np.full(count, count, np.int32)
    np.minimum.at(first, place[avatar.weld], place)
    mixed = replace(
        avatar,
        **{name: getattr(avatar, name)[order] for name in ("vertices", "uv", "head_weight", "vertex_alpha", "field_weight")},
        weld=first[place[avatar.weld]][order],
        expression=avatar.expression[:, order],
        faces=place[avatar.faces],
        landmark_triangles=place[avatar.landmark_triangles],
    )
    write_glb(mixed, tmp_path / "a.glb")
    _assert_same(read_glb(tmp_path / "a.glb"), mixed, "avatar", EIGHT_BITS)
    document, _ = unpack((tmp_path / "a.glb").read_bytes())
    eyes = [mesh for mesh in document["meshes"] if mesh["name"] in ("leftEye", "rightEye")]
    faces = sum(document["accessors"][mesh["primitives"][0]["indices"]]["count"] for mesh in eyes) // 3
    assert faces == (mixed.part == PART_EYE).sum()
    assert all(len(mesh["primitives"][0]["targets"]) == 52 for mesh in eyes)
