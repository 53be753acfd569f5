"""Worn parts: what is put on comes through file, coarser forms and both renderers, and leaves the head as it was."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import trimesh

from avatar3d.avatar import PART_CLOTHES, PART_SKIN, Avatar
from avatar3d.bench.parity import pictures_psnr_db
from avatar3d.camera import Camera
from avatar3d.enrolment.worn.attach import WornPart, put_on
from avatar3d.geometry import sample_bilinear
from avatar3d.glb import read_glb, write_glb
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions, make_renderer
from avatar3d.rendering.lod.level import COARSEST_LOD, LodChain
from tests.make_avatar import synthetic_avatar

RED = (200, 30, 20)


def collar(columns: int = 24) -> WornPart:
    """A red ring that stands off the synthetic head's neck."""
    angle = np.linspace(0, 2 * np.pi, columns + 1)
    ring = np.stack([np.sin(angle), np.zeros_like(angle), np.cos(angle)], 1)
    ring[-1] = ring[0]
    points = np.concatenate([[0, y, -0.093] + 0.09 * ring for y in (-0.13, -0.16)])
    index = np.arange(2 * (columns + 1)).reshape(2, -1)
    a, b, c, d = index[0, :-1], index[0, 1:], index[1, 1:], index[1, :-1]
    weld = index.copy()
    weld[:, -1] = index[:, 0]
    uv = np.stack(np.meshgrid(np.linspace(0, 1, columns + 1), [0.0, 1.0]), -1).reshape(-1, 2)
    count = len(points)
    return WornPart(
        PART_CLOTHES, points.astype(np.float32), np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)]).astype(np.int32),
        uv, weld.ravel().astype(np.int32), np.full(count, 0.25, np.float32), np.ones(count, np.float32),
        np.full((4, 40, 3), RED, np.uint8), np.ones((4, 40), np.float32),
    )  # fmt: skip


@pytest.fixture(scope="module")
def bare() -> Avatar:
    return synthetic_avatar()


@pytest.fixture(scope="module")
def worn(bare: Avatar) -> Avatar:
    return put_on(bare, [collar()])


def view(yaw_deg: float = 0.0) -> Camera:
    return Camera.orbit(np.radians(yaw_deg), 0.1, 0.8, 200, 200, 0.5, target=(0, -0.08, -0.06))


def test_the_head_keeps_its_vertices_its_colours_and_its_field(bare, worn):
    count = len(bare.vertices)
    assert np.array_equal(worn.vertices[:count], bare.vertices)
    assert np.array_equal(worn.faces[: len(bare.faces)], bare.faces)
    assert not worn.expression[:, count:].any() and not worn.field_weight[count:].any()
    size = np.array(bare.base_color.shape[1::-1])
    inner = (bare.uv[:, 1] * size[1] < size[1] - 1).nonzero()[0]
    before = sample_bilinear(bare.base_color.astype(np.float32), bare.uv[inner] * size)
    after = sample_bilinear(worn.base_color.astype(np.float32), worn.uv[:count][inner] * worn.base_color.shape[1::-1])
    assert np.abs(before - after).max() < 0.1
    share = [value.shape[0] / worn.base_color.shape[0] for value in (worn.texture_deltas[0].log_ratio, worn.confidence)]
    assert share == [value.shape[0] / bare.base_color.shape[0] for value in (bare.texture_deltas[0].log_ratio, bare.confidence)]


def test_it_comes_back_from_its_file_and_foreign_readers_load_it(worn, tmp_path):
    path = tmp_path / "worn.glb"
    write_glb(worn, path)
    again = read_glb(path)
    for name in ("vertices", "faces", "part", "uv", "weld", "head_weight", "vertex_alpha", "expression"):
        assert np.array_equal(getattr(again, name), getattr(worn, name)), name
    materials = {mesh.visual.material.name for mesh in trimesh.load(path).geometry.values()}
    assert "clothes" in materials


def test_both_renderers_draw_it_alike_and_coarser_forms_keep_it(worn):
    views = [view(yaw) for yaw in (0, 70, 180)]
    turned = MotionCode.from_expression({"jawOpen": 0.5})
    with closing(make_renderer("reference")) as reference, closing(make_renderer("realtime")) as realtime:
        for form in ("mesh", "baked", "live"):
            options = RenderOptions(form)
            expected, drawn = (renderer.render(worn, turned, views, options) for renderer in (reference, realtime))
            for a, b in zip(expected, drawn, strict=True):
                assert pictures_psnr_db([a], [b]) >= 50
        lods = LodChain(worn)
        for lod in range(COARSEST_LOD + 1):
            assert (lods[lod].part == PART_CLOTHES).any()
            (frame,) = reference.render(lods[lod], MotionCode(), [view()], RenderOptions("mesh"))
            picture = frame.to_srgb8((255, 255, 255)).astype(int)
            assert (picture[..., 0] > 2 * picture[..., 1] + 20).sum() > 300, "the red collar"


def test_faces_that_are_hidden_leave_and_the_wide_picture_is_refused(bare):
    hidden = (bare.part == PART_SKIN) & (bare.vertices[bare.faces][..., 1].max(1) < -0.2)
    assert len(put_on(bare, [collar()], hidden).faces) == len(bare.faces) - hidden.sum() + len(collar().faces)
    wide = collar()
    with pytest.raises(ValueError, match="does not fit"):
        put_on(bare, [WornPart(**{**vars(wide), "picture": np.zeros((4, 4000, 3), np.uint8)})])
