"""Every way to compute a picture gives the same one: pixel for pixel where the arithmetic is the same, else within rounding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.bench.parity import pictures_psnr_db
from avatar3d.camera import stereo_pair
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import PRECISIONS, Form, Frame, RenderOptions
from avatar3d.rendering.opengl.draw_strategy import VALUES, DrawStrategy, possible
from avatar3d.rendering.opengl.gpu_morph import GpuMorph
from avatar3d.rendering.opengl.layers import LayeredTarget, offered
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.opengl.stereo import Stereo
from avatar3d.rendering.scene import build_scene, layout_of
from tests.rendering.conftest import view

SIZE = 128
ROUNDED_DB = 50.0


def drawn(
    realtime: RealtimeRenderer, avatar: Avatar, motion: MotionCode, strategy: DrawStrategy, options: RenderOptions
) -> list[Frame]:
    realtime.strategy = strategy
    try:
        return realtime.render(avatar, motion, [view(0.3, 0.1, SIZE, SIZE), view(-1.2, -0.2, SIZE, SIZE)], options)
    finally:
        realtime.strategy = DrawStrategy()


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
    equal = same(
        drawn(realtime, avatar, moved, DrawStrategy(), options),
        drawn(realtime, avatar, moved, DrawStrategy(table=table), options),
    )
    assert equal


def test_weights_that_are_not_folded_ask_the_field_at_pixels(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions("live", hair=False)
    literals = drawn(realtime, avatar, moved, DrawStrategy(), options)
    uniforms = drawn(realtime, avatar, moved, DrawStrategy(network="uniforms"), options)
    assert pictures_psnr_db(literals, uniforms) >= ROUNDED_DB


def test_weights_of_another_precision_are_not_taken_from_what_was_drawn_before(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    field = avatar.neural_field
    assert field is not None
    strong = replace(field, weights=[3 * weight for weight in field.weights])
    options = {precision: RenderOptions("live", hair=False, precision=precision) for precision in PRECISIONS}
    pictures = []
    for order in (PRECISIONS, PRECISIONS[::-1]):
        own = replace(avatar, neural_field=strong)  # another avatar, loaded anew
        pictures.append({name: drawn(realtime, own, moved, DrawStrategy(network="uniforms"), options[name]) for name in order})
    assert all(same(pictures[0][name], pictures[1][name]) for name in PRECISIONS)


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
    exact = drawn(realtime, wide, moved, DrawStrategy(), options)
    equal = same(exact, drawn(realtime, wide, moved, DrawStrategy(table=table), options))
    assert equal
    rounded = drawn(realtime, wide, moved, DrawStrategy(table=table, numbers="half"), options)
    assert any((a.rgba != b.rgba).any() for a, b in zip(exact, rounded, strict=True))
    assert pictures_psnr_db(exact, rounded) >= ROUNDED_DB


@pytest.mark.parametrize("form", ["mesh", "baked"])
def test_colours_that_the_driver_decodes_are_those_decoded_ahead(
    form: Form, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions(form)
    ahead = drawn(realtime, avatar, moved, DrawStrategy(), options)
    decoded = drawn(realtime, avatar, moved, DrawStrategy(colors="srgb"), options)
    assert pictures_psnr_db(ahead, decoded) >= ROUNDED_DB
    for a, b in zip(ahead, decoded, strict=True):
        assert np.array_equal(a.surface, b.surface) and np.array_equal(a.depth, b.depth)


@pytest.mark.parametrize("antialias", [False, True])
def test_deferred_shading_rounds_what_it_keeps(
    antialias: bool, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions("live", antialias=antialias)
    forward = drawn(realtime, avatar, moved, DrawStrategy(), options)
    deferred = drawn(realtime, avatar, moved, DrawStrategy(shading="deferred"), options)
    assert pictures_psnr_db(forward, deferred) >= ROUNDED_DB
    for a, b in zip(forward, deferred, strict=True):
        assert np.array_equal(a.surface, b.surface)
        found = np.isfinite(a.depth)
        assert np.abs(a.depth[found] - b.depth[found]).max() < 1e-5


def test_deferred_shading_keeps_to_its_viewport_and_to_sizes_that_change(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions("live", antialias=True)
    realtime.strategy = DrawStrategy(shading="deferred")
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
        realtime.strategy = DrawStrategy()


def test_choices_of_the_live_field_make_no_program_anew_for_other_forms() -> None:
    live = DrawStrategy(table="texture", numbers="half", network="uniforms")
    assert live.of_form("live") == live
    assert live.of_form("baked") == DrawStrategy()


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(InputError, match="unknown table 'list'; expected one of buffer, texture, storage"):
        DrawStrategy(table="list")


def test_the_gpu_poses_and_lights_as_the_scene_does(avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer) -> None:
    layout = layout_of(avatar)
    scene = build_scene(avatar, moved, layout)
    assert avatar.hair is not None and scene.hair is not None
    with realtime.context as context:
        moving_buffer, hair_buffer = (
            context.buffer(reserve=size) for size in (36 * len(avatar.vertices), 12 * len(avatar.hair.base))
        )
        morph = GpuMorph(context, avatar, layout, moving_buffer, hair_buffer)
        morph.run(scene)
        moving = np.frombuffer(moving_buffer.read(), np.float32).reshape(-1, 9)
        hair = np.frombuffer(hair_buffer.read(), np.float32).reshape(-1, 3)
        for resource in (morph, moving_buffer, hair_buffer):
            resource.release()
    np.testing.assert_allclose(moving[:, 0:3], scene.vertices, atol=1e-6)
    np.testing.assert_allclose(moving[:, 3:6], scene.normals, atol=2e-4)
    np.testing.assert_allclose(moving[:, 6:9], scene.shade, atol=2e-4)
    np.testing.assert_allclose(hair, scene.hair.shade, atol=1e-5)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("form", ["mesh", "baked", "live"])
def test_a_head_morphed_by_the_gpu_is_the_same(
    form: Form, antialias: bool, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    options = RenderOptions(form, antialias=antialias)
    by_cpu = drawn(realtime, avatar, moved, DrawStrategy(), options)
    by_gpu = drawn(realtime, avatar, moved, DrawStrategy(morph="gpu"), options)
    assert pictures_psnr_db(by_cpu, by_gpu) >= ROUNDED_DB
    for a, b in zip(by_cpu, by_gpu, strict=True):
        assert (a.surface != b.surface).mean() <= 1e-4


def test_what_a_gpu_morphs_needs_nothing_that_another_form_left_bound(avatar: Avatar, moved: MotionCode) -> None:
    options = RenderOptions("live", antialias=True)
    pictures = []
    for morph in VALUES["morph"]:
        fresh = RealtimeRenderer(strategy=DrawStrategy(morph=morph))
        try:
            pictures.append(fresh.render(avatar, moved, [view(0.3, 0.1, SIZE, SIZE)], options))
        finally:
            fresh.close()
    assert pictures_psnr_db(*pictures) >= ROUNDED_DB


def test_a_gpu_that_morphs_asks_for_no_posed_vertex(avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer) -> None:
    options = RenderOptions("baked", antialias=True)
    realtime.strategy = DrawStrategy(morph="gpu")
    try:
        realtime.load(avatar, [options])
        with realtime.context as context:
            target = context.framebuffer([context.texture((SIZE, SIZE), 4)], context.depth_texture((SIZE, SIZE)))
        scene = realtime.prepare(moved)
        realtime.draw(scene, [view(0.3, 0.1, SIZE, SIZE)], [target], options)
    finally:
        realtime.strategy = DrawStrategy()
    assert not {"vertices", "planes", "normals", "shade"} & vars(scene).keys()


@pytest.mark.parametrize("stereo", ["passes", "layers", "sides"])
def test_both_eyes_are_the_same_however_they_are_drawn_and_morphed(
    stereo: Stereo, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer
) -> None:
    eyes = stereo_pair(view(0.2, 0.1, SIZE, SIZE), inward_tangent=0.1)
    options = RenderOptions("baked", antialias=True)
    with realtime.context as context:
        if stereo not in offered(context):
            pytest.skip("this driver has no layers in vertex shaders")
        size = (2 * SIZE, SIZE)
        wide = context.framebuffer([context.texture(size, 4)], context.depth_texture(size))
        layered = LayeredTarget(context, SIZE, SIZE) if stereo == "layers" else None
    pictures = []
    for morph in VALUES["morph"]:
        realtime.strategy = DrawStrategy(morph=morph)
        try:
            realtime.load(avatar, [options], [stereo])
            if layered is not None:
                realtime.draw(moved, eyes, [layered.framebuffer], options, viewports=[(0, 0, SIZE, SIZE)], stereo=stereo)
            elif stereo == "sides":
                realtime.draw(moved, eyes, [wide], options, stereo=stereo)
            else:
                areas = [(eye * SIZE, 0, SIZE, SIZE) for eye in range(2)]
                realtime.draw(moved, eyes, [wide] * 2, options, viewports=areas)
        finally:
            realtime.strategy = DrawStrategy()
        with realtime.context:
            targets, side = ([wide], 2 * SIZE) if layered is None else (layered.eyes, SIZE)
            content = [target.read(viewport=(0, 0, side, SIZE), components=3) for target in targets]
            pictures.append(np.concatenate([np.frombuffer(each, np.uint8) for each in content]))
    difference = np.abs(pictures[0].astype(int) - pictures[1])
    assert (pictures[0] > 0).mean() > 0.1
    assert (difference > 1).mean() < 1e-3 and 10 * np.log10(255**2 / max((difference**2).mean(), 1e-9)) >= ROUNDED_DB
