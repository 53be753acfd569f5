"""Every way to compute a picture gives the same one: pixel for pixel where the arithmetic is the same, else within rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.bench.parity import pictures_psnr_db
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.render.build import VALUES, Build, possible
from avatar3d.render.frame import Form, Frame, RenderOptions
from avatar3d.render.realtime import RealtimeRenderer
from tests.render.conftest import view

SIZE = 128
ROUNDED_DB = 50.0


def drawn(
    realtime: RealtimeRenderer, avatar: Avatar, motion: MotionCode, build: Build, options: RenderOptions
) -> list[Frame]:
    realtime.build = build
    try:
        return realtime.render(avatar, motion, [view(0.3, 0.1, SIZE, SIZE), view(-1.2, -0.2, SIZE, SIZE)], options)
    finally:
        realtime.build = Build()


def same(first: list[Frame], second: list[Frame]) -> bool:
    return all(
        np.array_equal(a.rgba, b.rgba) and np.array_equal(a.depth, b.depth) and np.array_equal(a.surface, b.surface)
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("table", VALUES["table"][1:])
def test_where_the_tables_lie_changes_no_pixel(
    table: str, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    if table not in possible("table", realtime.context.version_code):
        pytest.skip("this driver has no storage buffers")
    options = RenderOptions("live", antialias=True)
    equal = same(drawn(realtime, avatar, moved, Build(), options), drawn(realtime, avatar, moved, Build(table=table), options))
    assert equal


def test_weights_that_are_not_folded_round_otherwise(avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer) -> None:
    options = RenderOptions("live", hair=False)
    literals = drawn(realtime, avatar, moved, Build(), options)
    uniforms = drawn(realtime, avatar, moved, Build(network="uniforms"), options)
    assert pictures_psnr_db(literals, uniforms) >= ROUNDED_DB
    assert max(float(np.abs(a.rgba - b.rgba).max()) for a, b in zip(literals, uniforms, strict=True)) < 4e-3


@pytest.mark.parametrize("table", VALUES["table"])
@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_half_floats_in_the_tables_round_the_features(
    table: str, features: int, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    if table not in possible("table", realtime.context.version_code):
        pytest.skip("this driver has no storage buffers")
    rng = np.random.default_rng(features)
    assert avatar.neural_field is not None
    field = replace(
        avatar.neural_field,
        resolutions=np.array([3, 9, 21]),
        tables=rng.normal(0, 0.5, (3, 128, features)).astype(np.float32),
        weights=[rng.normal(0, 0.5, shape).astype(np.float32) for shape in ((6, 3 * features + 12), (4, 6))],
        biases=[rng.normal(0, 0.1, size).astype(np.float32) for size in (6, 4)],
    )
    wide = replace(avatar, neural_field=field, hair=None)
    options = RenderOptions("live")
    exact = drawn(realtime, wide, moved, Build(), options)
    equal = same(exact, drawn(realtime, wide, moved, Build(table=table), options))
    assert equal
    rounded = drawn(realtime, wide, moved, Build(table=table, numbers="half"), options)
    assert any((a.rgba != b.rgba).any() for a, b in zip(exact, rounded, strict=True))
    assert pictures_psnr_db(exact, rounded) >= ROUNDED_DB


@pytest.mark.parametrize("form", ["mesh", "baked"])
def test_colours_that_the_driver_decodes_are_those_decoded_ahead(
    form: Form, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions(form)
    ahead = drawn(realtime, avatar, moved, Build(), options)
    decoded = drawn(realtime, avatar, moved, Build(colors="srgb"), options)
    assert pictures_psnr_db(ahead, decoded) >= ROUNDED_DB
    for a, b in zip(ahead, decoded, strict=True):
        assert np.array_equal(a.surface, b.surface) and np.array_equal(a.depth, b.depth)


@pytest.mark.parametrize("antialias", [False, True])
def test_deferred_shading_rounds_what_it_keeps(
    antialias: bool, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions("live", antialias=antialias)
    forward = drawn(realtime, avatar, moved, Build(), options)
    deferred = drawn(realtime, avatar, moved, Build(shading="deferred"), options)
    assert pictures_psnr_db(forward, deferred) >= ROUNDED_DB
    for a, b in zip(forward, deferred, strict=True):
        assert np.array_equal(a.surface, b.surface)
        found = np.isfinite(a.depth)
        assert np.abs(a.depth[found] - b.depth[found]).max() < 1e-5


def test_deferred_shading_keeps_to_its_viewport_and_to_sizes_that_change(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions("live", antialias=True)
    realtime.build = Build(shading="deferred")
    try:
        realtime.load(avatar, [options])
        with realtime.context as context:
            target = context.framebuffer([context.texture((400, 300), 4, dtype="f2")], context.depth_texture((400, 300)))
        for width, height in ((64, 64), (200, 180), (96, 150)):
            camera = view(0.3, 0.1, width, height)
            (expected,) = realtime.render(avatar, moved, [camera], options)
            with realtime.context:
                target.clear(0.5, 0.5, 0.5, 0.5)
            realtime.draw(moved, [camera], [target], options, viewports=[(130, 90, width, height)])
            with realtime.context:
                content = np.frombuffer(target.read(components=4, dtype="f2"), np.float16)
            whole = content.reshape(300, 400, 4).astype(np.float32)
            inside = whole[90 : 90 + height, 130 : 130 + width][::-1].copy()
            # Window coordinates that are larger numbers round differently: few pixels at edges differ.
            assert (np.abs(inside - expected.rgba) > 4e-3).mean() < 2e-3
            whole[90 : 90 + height, 130 : 130 + width] = 0.5
            assert (whole == 0.5).all()
    finally:
        realtime.build = Build()


def test_an_update_reaches_colours_of_every_kind(avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer) -> None:
    options = RenderOptions("mesh", hair=False)
    patch = np.full((20, 24, 3), (10, 240, 30), np.uint8)
    before = [drawn(realtime, avatar, moved, Build(colors=colors), options) for colors in VALUES["colors"]]
    realtime.update_base_color(patch, left=18, top=12)
    after = [drawn(realtime, avatar, moved, Build(colors=colors), options) for colors in VALUES["colors"]]
    realtime.update_base_color(avatar.base_color)
    assert pictures_psnr_db(before[0], after[0]) < ROUNDED_DB
    assert pictures_psnr_db(*after) >= ROUNDED_DB


def test_choices_of_the_live_field_make_no_program_anew_for_other_forms() -> None:
    live = Build(table="texture", numbers="half", network="uniforms")
    assert live.of_form("live") == live
    assert live.of_form("baked") == Build()


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(InputError, match="unknown table 'list'; expected one of buffer, texture, storage"):
        Build(table="list")
