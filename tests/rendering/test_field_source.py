"""The live form asks its field where that is worth its price: at vertices where they say all, at pixels where they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.bench.parity import pictures_psnr_db
from avatar3d.field import FieldConfig, new_field
from avatar3d.field.bake import shells_of
from avatar3d.field.definition import box_of
from avatar3d.geometry import smooth_normals
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.lod.field_source import SOURCES, FieldSources, LitVertices, choose_sources
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.scene import shade_of
from tests.rendering.conftest import view


def asked(avatar: Avatar, config: FieldConfig, hair: bool = False) -> FieldSources:
    skin, *levels = shells_of(avatar)
    if hair:
        assert avatar.hair is not None
        vertices, faces, weld = avatar.hair.base, avatar.hair.faces, avatar.hair.weld
    else:
        vertices, faces, weld = avatar.vertices, avatar.faces, avatar.weld
    normals = smooth_normals(vertices, faces, weld)
    even = np.ones(len(vertices), np.float32)
    lit = LitVertices(normals, shade_of(normals, avatar.light, avatar.shading_power), even, even)
    return choose_sources(new_field(0, config, *box_of(avatar)), levels if hair else [skin], lit)


@pytest.mark.parametrize("hair", [False, True])
def test_vertices_suffice_for_a_field_that_changes_nothing(hair: bool, avatar: Avatar) -> None:
    for source in asked(avatar, FieldConfig(output_scale=0.0), hair).source:
        assert len(source) and (source == SOURCES.index("vertices")).all()


@pytest.mark.parametrize("hair", [False, True])
def test_cells_smaller_than_faces_are_asked_at_pixels(hair: bool, avatar: Avatar) -> None:
    fine = FieldConfig(levels=2, coarsest=200, finest=400, table_scale=1.0, output_scale=0.5)
    source = np.concatenate(asked(avatar, fine, hair).source)
    assert (source == SOURCES.index("pixels")).mean() > 0.7


def test_coarse_levels_are_left_to_the_vertices(avatar: Avatar) -> None:
    both = FieldConfig(levels=2, coarsest=2, finest=150, table_scale=0.3, output_scale=0.2)
    found = asked(avatar, both)
    assert found.levels == 1
    assert (found.source[0] == SOURCES.index("split")).any()


def test_a_choice_is_the_same_each_time(avatar: Avatar) -> None:
    config = FieldConfig(levels=3, coarsest=4, finest=32, table_scale=0.5, output_scale=0.1)
    first, second = asked(avatar, config, hair=True), asked(avatar, config, hair=True)
    assert first.levels == second.levels
    assert all(np.array_equal(a, b) for a, b in zip(first.source, second.source, strict=True))


def test_a_network_too_wide_to_hand_on_is_asked_at_pixels(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    config = FieldConfig(levels=2, coarsest=4, finest=16, hidden=40, table_scale=0.5, output_scale=0.1)
    wide = replace(avatar, hair=None, neural_field=new_field(0, config, *box_of(avatar)))
    pictures = []
    for network in ("literals", "uniforms"):
        realtime.strategy = DrawStrategy(network=network)
        try:
            pictures.append(realtime.render(wide, moved, [view(0.3, 0.1, 96, 96)], RenderOptions("live")))
        finally:
            realtime.strategy = DrawStrategy()
    assert pictures_psnr_db(*pictures) >= 60
