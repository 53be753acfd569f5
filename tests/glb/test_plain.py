"""A file that another program wrote, without the extension, is still an avatar: drawn and driven by its core, said in a sentence."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from avatar3d.avatar import PART_EYE, PART_TEETH, Avatar
from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.glb import EXTENSION, parse_glb, write_glb
from avatar3d.glb.plain import USUAL_LIGHT, USUAL_SHADING_POWER
from avatar3d.head.rig import pose_vertices
from avatar3d.motion.code import ARKIT_NAMES, MotionCode
from avatar3d.rendering import RenderOptions, make_renderer
from tests.fuzzing.numbers import pack, unpack
from tests.make_avatar import synthetic_avatar


@pytest.fixture(scope="module")
def own() -> Avatar:
    return synthetic_avatar(field=False, baked=False)


@pytest.fixture(scope="module")
def whole(own: Avatar, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("plain") / "a.glb"
    write_glb(own, path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def plain(whole: bytes) -> bytes:
    document, body = unpack(whole)
    del document["extensions"], document["extensionsUsed"]
    return pack(document, body)


def _interleaved(data: bytes) -> bytes:
    """The file with the attributes of each vertex beside each other, in a view with a stride, as gltf-transform writes them."""
    document, body = unpack(data)
    done: dict[tuple[int, ...], dict[str, int]] = {}
    for mesh in document["meshes"]:
        for primitive in mesh["primitives"]:
            names = ("POSITION", "NORMAL", "TEXCOORD_0")
            key = tuple(primitive["attributes"][name] for name in names)
            if key not in done:
                columns = []
                for name in names:
                    item = document["accessors"][primitive["attributes"][name]]
                    view = document["bufferViews"][item["bufferView"]]
                    start = view["byteOffset"] + item.get("byteOffset", 0)
                    width = 2 if item["type"] == "VEC2" else 3
                    columns.append(np.frombuffer(body, "<f4", item["count"] * width, start).reshape(-1, width))
                packed = np.concatenate(columns, 1).tobytes()
                view = {"buffer": 0, "byteOffset": len(body), "byteLength": len(packed), "byteStride": 32, "target": 34962}
                document["bufferViews"].append(view)
                body += packed
                done[key] = {}
                for name, offset in zip(names, (0, 12, 24), strict=True):
                    item = document["accessors"][primitive["attributes"][name]]
                    document["accessors"].append({**item, "bufferView": len(document["bufferViews"]) - 1, "byteOffset": offset})
                    done[key][name] = len(document["accessors"]) - 1
            primitive["attributes"] |= done[key]
    document["buffers"][0]["byteLength"] = len(body)
    return pack(document, body)


def _moved(data: bytes) -> bytes:
    """The file under a node that another program put above: turned, scaled and shifted there, and back in the vertices' favour."""
    document, body = unpack(data)
    document["nodes"].append({"name": "Armature", "children": document["scenes"][0]["nodes"], "translation": [0.0, 1.0, 0.25]})
    document["scenes"][0]["nodes"] = [len(document["nodes"]) - 1]
    return pack(document, body)


@pytest.mark.parametrize("change", [lambda data: data, _interleaved, _moved], ids=["as it is", "interleaved", "under a node"])
def test_it_moves_as_the_avatar_that_was_written(change: Any, own: Avatar, plain: bytes) -> None:
    found = parse_glb(change(plain), "other.glb")
    assert len(found.faces) == len(own.faces) and found.hair is not None and own.hair is not None
    assert np.bincount(found.part).tolist() == np.bincount(own.part).tolist()
    code = MotionCode.from_expression({"jawOpen": 0.7, "eyeLookOutLeft": 0.6, "browInnerUp": 1.0})
    for name in ("leftEye", "rightEye", "neck", "head"):
        assert np.allclose(found.joints[name], own.joints[name], atol=1e-5)

    def corners(avatar: Avatar) -> np.ndarray:
        posed = pose_vertices(avatar.vertices, avatar.expression, code, avatar.head_weight, avatar.joints, avatar.vertex_part)
        order = np.argsort(avatar.part, kind="stable")
        places = posed[avatar.faces[order]]
        return places[np.lexsort(np.round(places.mean(1).T, 4))]

    assert np.abs(corners(found).mean(1) - corners(own).mean(1)).max() < 2e-4
    assert np.allclose(found.hair.base, own.hair.base, atol=1e-6)
    assert found.hair.levels[-1] == 1 and np.allclose(found.hair.extent, own.hair.levels[-1] * own.hair.extent, atol=1e-6)


def test_it_looks_as_the_avatar_does_on_the_last_rung(own: Avatar, plain: bytes) -> None:
    found = parse_glb(plain, "other.glb")
    same_light = replace(
        own,
        light=USUAL_LIGHT,
        shading_power=USUAL_SHADING_POWER,
        texture_deltas=[],
        vertex_alpha=np.ones_like(own.vertex_alpha),
    )
    cameras = [Camera.orbit(yaw, width=160, height=160) for yaw in (0.0, 0.8)]
    options = RenderOptions(form="mesh", supersample=2, hair=False)
    code = MotionCode.from_expression({"jawOpen": 0.8, "eyeLookInLeft": 0.5, "eyeLookOutRight": 0.5})
    renderer = make_renderer("realtime")
    try:
        pairs = zip(*(renderer.render(avatar, code, cameras, options) for avatar in (same_light, found)), strict=True)
        for ours, theirs in pairs:
            difference = ours.to_srgb8((0, 0, 0)).astype(float) - theirs.to_srgb8((0, 0, 0))
            assert np.sqrt((difference**2).mean()) < 3.0
    finally:
        renderer.close()


def test_the_commands_draw_it_and_say_so(plain: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.glb").write_bytes(plain)
    for name, out, rest in (("render", tmp_path / "a.png", ["--size", "64"]), ("export", tmp_path / "a.ply", [])):
        command = [sys.executable, "-m", "avatar3d.cli", name, str(tmp_path / "a.glb"), "-o", str(out), *rest, "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and out.stat().st_size > 0
        assert f"a.glb has no {EXTENSION}" in done.stderr and "last rung" in done.stderr and done.stderr.count("\n") == 1


def test_targets_without_names_are_arkits_in_their_order(own: Avatar, plain: bytes) -> None:
    document, body = unpack(plain)
    for mesh in document["meshes"]:
        mesh.pop("extras", None)
    assert (parse_glb(pack(document, body), "a.glb").expression.any((1, 2)) == own.expression.any((1, 2))).all()


def test_targets_in_another_order_are_found_by_name(plain: bytes) -> None:
    document, body = unpack(plain)
    expected = parse_glb(plain, "a.glb").expression
    for mesh in document["meshes"]:
        if "extras" in mesh:
            mesh["extras"]["targetNames"] = list(reversed(ARKIT_NAMES))
            for primitive in mesh["primitives"]:
                primitive["targets"] = primitive["targets"][::-1]
    assert np.array_equal(parse_glb(pack(document, body), "a.glb").expression, expected)


def test_a_head_of_several_textures_gets_them_in_one(plain: bytes) -> None:
    """Teeth without a texture take their factor's colour; the rest stays as it was."""
    document, body = unpack(plain)
    teeth = next(material for material in document["materials"] if material["name"] == "teeth")
    teeth["pbrMetallicRoughness"] = {"baseColorFactor": [0.2, 0.5, 0.8, 1.0]}
    before, after = parse_glb(plain, "a.glb"), parse_glb(pack(document, body), "b.glb")

    def colors(avatar: Avatar, part: int) -> np.ndarray:
        uv = avatar.uv[np.unique(avatar.faces[avatar.part == part])]
        size = np.array(avatar.base_color.shape[1::-1])
        column, row = np.clip(uv * size, 0, size - 1).astype(int).T
        return avatar.base_color[row, column].astype(int)

    assert np.abs(colors(after, PART_TEETH) - [124, 188, 231]).max() <= 1
    assert np.abs(colors(after, PART_EYE) - colors(before, PART_EYE)).mean() < 6  # half a texel aside


@pytest.mark.parametrize("name", ["KHR_draco_mesh_compression", "EXT_meshopt_compression"])
def test_a_compressed_file_is_refused_with_what_undoes_it(name: str, plain: bytes) -> None:
    document, body = unpack(plain)
    document |= {"extensionsUsed": [name], "extensionsRequired": [name]}
    with pytest.raises(InputError, match=rf"compressed \({name}\).*npx @gltf-transform/cli copy IN.glb OUT.glb"):
        parse_glb(pack(document, body), "a.glb")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda d: [item.pop("targets", 0) for mesh in d["meshes"] for item in mesh["primitives"]],
            "without ARKit's morph targets",
        ),
        (lambda d: d["nodes"][1].update(children=[0]), "joints are out of range"),
        (lambda d: d["nodes"].append({"children": [0, 0]}), "nodes hold each other"),
        (lambda d: d["nodes"][1].update(translation=[1e20, 0, 0]), "vertices holds .* outside -2 to 2 m"),
        (lambda d: [i.pop("bufferView") for i in d["images"]], "in a file of its own"),
        (lambda d: d["skins"][0].update(joints=[0]), "joints are out of range"),
        (lambda d: d.update(meshes=[]), r"names meshes\[0\]"),
        (lambda d: d["accessors"][0].update(count=10**9), "count is not a whole number"),
        (lambda d: d["accessors"][0].update(componentType=5), "component type"),
    ],
)
def test_a_damaged_core_ends_in_a_sentence(change: Any, sentence: str, plain: bytes) -> None:
    document, body = unpack(plain)
    change(document)
    with pytest.raises(InputError, match=sentence) as refused:
        parse_glb(pack(document, body), "a.glb")
    assert "a.glb" in str(refused.value) and "\n" not in str(refused.value)
