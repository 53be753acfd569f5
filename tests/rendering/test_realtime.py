"""The realtime renderer's own interface: loading, drawing into framebuffers, limits, errors, light imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.bench.parity import pictures_psnr_db
from avatar3d.camera import Camera, stereo_pair
from avatar3d.errors import InputError, WorkError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.opengl.raw_gl import GL_SRGB8_ALPHA8
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.scene import MAX_DELTAS
from tests.make_avatar import synthetic_avatar
from tests.rendering.conftest import view

SIZE = 128


@pytest.fixture
def framebuffer(realtime: RealtimeRenderer) -> Callable[..., Any]:
    def make(width: int, height: int, **color: object) -> Any:
        with realtime.context as context:
            return context.framebuffer([context.texture((width, height), 4, **color)], context.depth_texture((width, height)))

    return make


def pixels(realtime: RealtimeRenderer, framebuffer: Any, dtype: str) -> np.ndarray:
    """(H, W, 4) of a framebuffer, row 0 at the top."""
    width, height = framebuffer.size
    with realtime.context:
        data = framebuffer.read(components=4, dtype=dtype)
    kind = {"f1": np.uint8, "f2": np.float16}[dtype]
    return np.frombuffer(data, kind).reshape(height, width, 4)[::-1]


@pytest.mark.parametrize("form", ["mesh", "baked", "live"])
def test_draw_gives_the_pixels_of_render(
    form: str, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer, framebuffer: Callable[..., Any]
) -> None:
    eyes = stereo_pair(view(0.2, 0.1, SIZE, SIZE), inward_tangent=0.1)
    options = RenderOptions(form)  # type: ignore[arg-type]
    frames = realtime.render(avatar, moved, eyes, options)
    targets = [framebuffer(SIZE, SIZE, dtype="f2") for _ in eyes]
    realtime.load(avatar, ("live", "baked", "mesh"))
    for _ in range(2):  # the second frame meets the state that the first one left
        realtime.draw(moved, eyes, targets, options)
    for frame, target in zip(frames, targets, strict=True):
        assert np.array_equal(pixels(realtime, target, "f2").astype(np.float32), frame.rgba)


def test_both_eyes_fit_side_by_side_in_one_framebuffer(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer, framebuffer: Callable[..., Any]
) -> None:
    eyes = stereo_pair(view(0.2, 0.1, SIZE, SIZE))
    frames = realtime.render(avatar, moved, eyes, RenderOptions("baked"))
    wide = framebuffer(2 * SIZE, SIZE, dtype="f2")
    areas = [(0, 0, SIZE, SIZE), (SIZE, 0, SIZE, SIZE)]
    realtime.draw(moved, eyes, [wide, wide], RenderOptions("baked"), viewports=areas)
    both = pixels(realtime, wide, "f2").astype(np.float32)
    assert np.array_equal(both[:, :SIZE], frames[0].rgba)
    # The right half's window coordinates are larger numbers and round differently: one step of a half float.
    np.testing.assert_allclose(both[:, SIZE:], frames[1].rgba, atol=1e-3)


def test_srgb_targets_are_encoded_over_the_background(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer, framebuffer: Callable[..., Any]
) -> None:
    camera = view(0.2, 0.1, SIZE, SIZE)
    frame = realtime.render(avatar, moved, [camera], RenderOptions("mesh"))[0]
    target = framebuffer(SIZE, SIZE, internal_format=GL_SRGB8_ALPHA8)
    realtime.draw(moved, [camera], [target], RenderOptions("mesh"), background=(0.5, 0.5, 0.5, 1.0))
    shown = pixels(realtime, target, "f1")[..., :3].astype(int)
    expected = frame.to_srgb8((188, 188, 188)).astype(int)
    assert np.abs(shown - expected).max() <= 2
    assert np.abs(shown - expected).mean() < 0.5


def test_draw_says_what_it_lacks(avatar: Avatar, realtime: RealtimeRenderer, framebuffer: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match=r"no avatar is loaded; call load\(avatar, forms\) before draw"):
        RealtimeRenderer().draw(MotionCode(), [], [])
    realtime.load(avatar)
    with pytest.raises(InputError, match="1 cameras, 0 framebuffers and 0 viewports were given; expected as many of each"):
        realtime.draw(MotionCode(), [view(0.0)], [])


def test_renderers_and_avatars_do_not_disturb_each_other(avatar: Avatar, realtime: RealtimeRenderer) -> None:
    camera, options = view(0.1, 0.0, SIZE, SIZE), RenderOptions("baked")
    other_avatar = synthetic_avatar(seed=5)
    first = realtime.render(avatar, MotionCode(), [camera], options)[0]
    second = RealtimeRenderer()
    other = second.render(other_avatar, MotionCode(), [camera], options)[0]
    assert np.array_equal(realtime.render(avatar, MotionCode(), [camera], options)[0].rgba, first.rgba)
    assert np.array_equal(realtime.render(other_avatar, MotionCode(), [camera], options)[0].rgba, other.rgba)
    assert np.array_equal(realtime.render(avatar, MotionCode(), [camera], options)[0].rgba, first.rgba)
    second.close()
    second.close()
    assert np.array_equal(second.render(avatar, MotionCode(), [camera], options)[0].rgba, first.rgba)
    second.close()


@pytest.mark.parametrize("count", [0, 1, MAX_DELTAS, MAX_DELTAS + 2])
def test_any_number_of_texture_deltas_agrees_with_the_reference(
    count: int, avatar: Avatar, reference: Any, realtime: RealtimeRenderer
) -> None:
    rng = np.random.default_rng(count)
    delta = avatar.texture_deltas[0]
    deltas = [
        replace(
            delta,
            row=np.zeros(52, np.float32),
            bias=0.2 + 0.1 * index,
            log_ratio=rng.normal(0, 0.3, (8, 8, 3)).astype(np.float32),
        )
        for index in range(count)
    ]
    many = replace(avatar, texture_deltas=deltas)
    camera, options = view(0.0, 0.0, SIZE, SIZE), RenderOptions("mesh", hair=False)
    expected, drawn = (renderer.render(many, MotionCode(), [camera], options)[0] for renderer in (reference, realtime))
    difference = np.abs(expected.to_srgb8((0, 0, 0)).astype(int) - drawn.to_srgb8((0, 0, 0)).astype(int))
    assert np.percentile(difference, 99.9) <= 1


@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_fields_of_any_width_are_drawn_live(features: int, avatar: Avatar, reference: Any, realtime: RealtimeRenderer) -> None:
    rng = np.random.default_rng(features)
    field = avatar.neural_field
    assert field is not None
    levels, width = 3, 3 * features + 8 + 4
    wide = replace(
        avatar,
        neural_field=replace(
            field,
            resolutions=np.array([3, 9, 21]),
            tables=rng.normal(0, 0.5, (levels, 128, features)).astype(np.float32),
            weights=[rng.normal(0, 0.5, shape).astype(np.float32) for shape in ((6, width), (10, 6), (4, 10))],
            biases=[rng.normal(0, 0.1, size).astype(np.float32) for size in (6, 10, 4)],
        ),
    )
    motion = MotionCode.from_expression({"jawOpen": 0.7, "browInnerUp": 0.4})
    camera, options = view(0.0, 0.0, SIZE, SIZE), RenderOptions("live", hair=False)
    expected, drawn = (renderer.render(wide, motion, [camera], options)[0] for renderer in (reference, realtime))
    assert pictures_psnr_db([expected], [drawn]) >= 50


def test_a_field_wider_than_a_texture_is_refused(avatar: Avatar, realtime: RealtimeRenderer) -> None:
    field = avatar.neural_field
    assert field is not None
    wide = replace(
        field,
        tables=np.zeros((4, 256, 5), np.float32),
        weights=[np.zeros((4, 4 * 5 + 8 + 4), np.float32)],
        biases=[np.zeros(4, np.float32)],
    )
    with pytest.raises(InputError, match="the field has 5 features a grid vertex, the realtime renderer draws up to 4 live"):
        realtime.render(replace(avatar, neural_field=wide), MotionCode(), [view(0.0)], RenderOptions("live"))


def test_a_picture_beyond_the_driver_is_refused(avatar: Avatar, realtime: RealtimeRenderer) -> None:
    camera = Camera.orbit(0.0, width=16384, height=8192)
    with pytest.raises(InputError, match="a 16384×8192 picture with supersample 8 is over this driver's limit"):
        realtime.render(avatar, MotionCode(), [camera], RenderOptions("mesh", supersample=8))


def test_a_machine_without_opengl_is_told_what_to_install(avatar: Avatar, monkeypatch: pytest.MonkeyPatch) -> None:
    import moderngl

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("libEGL.so.1: cannot open shared object file")

    monkeypatch.setattr(moderngl, "create_context", fail)
    with pytest.raises(
        WorkError, match=r"no OpenGL context could be made \(libEGL.so.1.*apt install libegl1 libgl1 libgl1-mesa-dri"
    ):
        RealtimeRenderer().render(avatar, MotionCode(), [view(0.0)])


def test_the_driver_is_named(realtime: RealtimeRenderer) -> None:
    assert set(realtime.info) == {"vendor", "renderer", "version"}
    assert all(realtime.info.values())


def test_a_viewer_needs_neither_torch_nor_numba() -> None:
    code = (
        "import sys; import avatar3d.rendering.opengl.renderer; from avatar3d.rendering import make_renderer; "
        "make_renderer('realtime');"
        "print(sorted({'torch', 'numba', 'cv2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_warming_leaves_what_is_drawn_alone(
    avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer, framebuffer: Callable[..., Any]
) -> None:
    camera, options = view(0.2, 0.1, SIZE, SIZE), RenderOptions("baked", antialias=True)
    realtime.load(avatar, [options, "mesh"])
    target = framebuffer(SIZE, SIZE)
    pictures = []
    for warmed in (False, True):
        if warmed:
            realtime.warm(target)
        realtime.draw(moved, [camera], [target], options)
        pictures.append(pixels(realtime, target, "f1"))
    assert np.array_equal(*pictures)
    with pytest.raises(InputError, match="no avatar is loaded"):
        RealtimeRenderer().warm(target)
