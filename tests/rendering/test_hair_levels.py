"""Merged hair levels keep the look, and the faces left out show nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.culling.bounds import face_bounds
from avatar3d.rendering.lod.hair_levels import merge_levels, visible_faces
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from tests.rendering.conftest import view


def with_opacity(avatar: Avatar, opacity: np.ndarray) -> Avatar:
    assert avatar.hair is not None
    count = len(opacity)
    hair = replace(
        avatar.hair,
        levels=np.linspace(0, 1, count, dtype=np.float32),
        occlusion=np.linspace(0.8, 1, count, dtype=np.float32),
        opacity=opacity,
    )
    return replace(avatar, hair=hair, baked=None)


def test_merging_keeps_base_and_number(avatar: Avatar) -> None:
    assert avatar.hair is not None
    count = len(avatar.hair.levels)
    assert merge_levels(avatar, None) is avatar
    assert merge_levels(avatar, count) is avatar
    for at_most in range(1, count):
        merged = merge_levels(avatar, at_most)
        assert merged.hair is not None and merged.baked is not None and merged.baked.hair_q0 is not None
        assert len(merged.hair.levels) == len(merged.baked.hair_q0) == at_most
        assert np.array_equal(merged.hair.opacity[0], avatar.hair.opacity[0])
        assert (np.diff(merged.hair.levels) > 0).all()


def test_a_merged_level_stops_as_much_light_as_its_group(avatar: Avatar) -> None:
    rng = np.random.default_rng(3)
    opacity = rng.integers(0, 256, (4, 8, 8)).astype(np.uint8)
    merged = merge_levels(with_opacity(avatar, opacity), 2).hair
    assert merged is not None
    passed = np.prod(1 - opacity[1:] / 255, axis=0)
    np.testing.assert_allclose(merged.opacity[1] / 255, 1 - passed, atol=0.5 / 255 + 1e-6)
    assert 0 < merged.levels[1] < 1
    assert 0.8 < merged.occlusion[1] < 1


def test_a_level_that_hides_the_others_lends_its_place_and_shade(avatar: Avatar) -> None:
    opacity = np.full((4, 4, 4), 255, np.uint8)
    merged = merge_levels(with_opacity(avatar, opacity), 2).hair
    assert merged is not None
    assert merged.levels[1] == pytest.approx(1.0, abs=1e-4)
    assert merged.occlusion[1] == pytest.approx(1.0, abs=1e-4)


def test_bounds_hold_every_sample(avatar: Avatar) -> None:
    import torch

    from avatar3d.rendering.reference.shading import sample

    hair = avatar.hair
    assert hair is not None
    rng = np.random.default_rng(2)
    texture = rng.random((37, 53)).astype(np.float32)
    low, high = face_bounds(texture, hair.uv, hair.faces)
    weights = rng.dirichlet(np.ones(3), len(hair.faces)).astype(np.float32)
    uv = (hair.uv[hair.faces] * weights[..., None]).sum(1)
    seen = sample(torch.from_numpy(texture[..., None]), torch.from_numpy(uv))[:, 0].numpy()
    assert (low - 1e-5 <= seen).all() and (seen <= high + 1e-5).all()
    assert (high - low).mean() < 0.999


def test_only_faces_that_show_nothing_are_left_out(avatar: Avatar, reference: ReferenceRenderer) -> None:
    hair = avatar.hair
    assert hair is not None
    opacity = np.zeros((2, 16, 16), np.uint8)
    opacity[:, 4:12, 4:12] = 255
    # Under even light normals do not matter, which the faces left out would change along the rim.
    even = np.zeros((9, 3), np.float32)
    even[0] = 1
    patched = replace(with_opacity(avatar, opacity), light=even)
    assert patched.hair is not None
    kept = visible_faces(patched.hair)
    assert 0 < len(kept.solid) < len(hair.faces)
    assert len(kept.solid) + len(kept.cut) < len(hair.faces)
    shown = replace(patched, hair=replace(patched.hair, faces=np.concatenate([kept.solid, kept.cut])))
    pictures = [
        reference.render(one, MotionCode(), [view(2.0, 0.3)], RenderOptions("mesh", hair_levels=1))[0].rgba
        for one in (patched, shown)
    ]
    assert np.array_equal(*pictures)


def test_what_the_field_uncovers_is_kept(avatar: Avatar) -> None:
    hair = avatar.hair
    assert hair is not None
    empty = replace(hair, opacity=np.zeros_like(hair.opacity))
    change = np.full((len(hair.levels), 8, 8), 0.3, np.float32)
    assert [len(faces) for faces in visible_faces(empty).outer] == [0] * (len(hair.levels) - 1)
    assert [len(faces) for faces in visible_faces(empty, change).outer] == [len(hair.faces)] * (len(hair.levels) - 1)
