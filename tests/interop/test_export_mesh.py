"""Exported still meshes open elsewhere with the right size, pose and colours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh

from avatar3d.avatar import Avatar
from avatar3d.errors import InputError
from avatar3d.head.rig import pose_vertices
from avatar3d.interop.mesh import export_mesh, posed_texture
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from tests.make_avatar import synthetic_avatar

NEUTRAL = MotionCode()
JAW_OPEN = MotionCode.from_expression({"jawOpen": 1.0})


@pytest.fixture(scope="module")
def avatar() -> Avatar:
    return synthetic_avatar()


def test_ply_holds_the_posed_head_in_metres(avatar: Avatar, tmp_path: Path) -> None:
    assert export_mesh(avatar, JAW_OPEN, tmp_path / "a.ply", hair=False) == [tmp_path / "a.ply"]
    mesh = trimesh.load(tmp_path / "a.ply", process=False)
    assert np.allclose(mesh.vertices, avatar.vertices + avatar.expression[ARKIT_INDEX["jawOpen"]], atol=1e-6)
    assert (mesh.faces == avatar.faces).all()
    assert np.allclose(np.linalg.norm(mesh.vertex_normals, axis=1), 1, atol=1e-5)
    lips = mesh.visual.vertex_colors[:, :3].astype(int)
    column, row = (avatar.uv * 64).astype(int).T
    assert (lips == avatar.base_color[row, column]).all()


def test_ply_with_hair_and_pose(avatar: Avatar, tmp_path: Path) -> None:
    turned = MotionCode(rotation=np.array([0, np.sin(0.3), 0, np.cos(0.3)]), translation=np.array([0.1, 0, 0]))
    export_mesh(avatar, turned, tmp_path / "a.ply")
    mesh = trimesh.load(tmp_path / "a.ply", process=False)
    assert avatar.hair is not None
    assert len(mesh.faces) == len(avatar.faces) + len(avatar.hair.faces)
    expected = pose_vertices(avatar.vertices, avatar.expression, turned, avatar.head_weight, avatar.joints, avatar.vertex_part)
    assert np.allclose(mesh.vertices[: len(expected)], expected, atol=1e-6)
    # The hair keeps its distance to the crown, so it turned and moved with the head.
    crown = int(np.argmax(avatar.vertices[:, 1]))
    before = np.linalg.norm(avatar.hair.base - avatar.vertices[crown], axis=1)
    after = np.linalg.norm(mesh.vertices[len(expected) :] - expected[crown], axis=1)
    assert np.allclose(before, after, atol=1e-5)


def test_hair_faces_cut_by_the_opacity_are_left_out(avatar: Avatar, tmp_path: Path) -> None:
    cut = synthetic_avatar()
    assert cut.hair is not None
    cut.hair.opacity[0, :9] = 0
    export_mesh(cut, NEUTRAL, tmp_path / "a.ply")
    faces = len(trimesh.load(tmp_path / "a.ply", process=False).faces) - len(cut.faces)
    assert 0.2 * len(cut.hair.faces) < faces < 0.8 * len(cut.hair.faces)


def test_obj_opens_with_its_textures(avatar: Avatar, tmp_path: Path) -> None:
    files = export_mesh(avatar, NEUTRAL, tmp_path / "me.obj")
    assert [file.name for file in files] == ["me.obj", "me.mtl", "me_head.png", "me_hair.png"]
    scene = trimesh.load(tmp_path / "me.obj", process=False)
    assert set(scene.geometry) == {"head", "hair"}
    head = scene.geometry["head"]
    assert avatar.hair is not None
    places = np.concatenate([avatar.vertices, avatar.hair.base])
    assert np.allclose(scene.bounds, [places.min(0), places.max(0)], atol=2e-6)
    assert len(head.faces) == len(avatar.faces)
    assert (np.array(head.visual.material.image.convert("RGB")) == avatar.base_color).all()
    # trimesh counts v upward, as OBJ does; a corner of every face must land on the texel that it has in the avatar.
    have = np.stack([head.visual.uv[:, 0], 1 - head.visual.uv[:, 1]], 1)[head.faces]
    assert np.allclose(np.sort(have.reshape(-1, 6), 0), np.sort(avatar.uv[avatar.faces].reshape(-1, 6), 0), atol=1e-5)


def test_texture_follows_the_motion(avatar: Avatar) -> None:
    smile = MotionCode.from_expression({"mouthSmileLeft": 1.0, "mouthSmileRight": 1.0})
    assert (posed_texture(avatar, NEUTRAL) == avatar.base_color).all()
    change = posed_texture(avatar, smile).astype(int) - avatar.base_color
    delta = avatar.texture_deltas[0].log_ratio
    clear = np.abs(delta) > 0.1
    assert (np.sign(change[clear]) == np.sign(delta[clear])).mean() > 0.99


def test_unknown_suffix_names_the_known_ones(avatar: Avatar, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"suffix '\.stl' is unknown; name a \.ply or \.obj file"):
        export_mesh(avatar, NEUTRAL, tmp_path / "a.stl")
    with pytest.raises(InputError, match="does not exist"):
        export_mesh(avatar, NEUTRAL, tmp_path / "missing" / "a.ply")
