"""Foveation: sharp to the bit where the eye looks, the coarse picture elsewhere, no step between; parts of pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from avatar3d.camera import Camera, stereo_pair
from avatar3d.color import psnr_db
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.culling.screen_region import ScreenRegion, may_show, outcodes
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.foveation import Foveation, FoveationSettings, Inset, coarse_camera, read_foveation
from avatar3d.rendering.opengl.hidden_area import rectangle
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.resources import config_path
from tests.rendering.conftest import view

SIZE = 160
SETTINGS = FoveationSettings(5.0, 2.0, 0.5, 2, "byte")
OPTIONS = RenderOptions("baked", antialias=True)
BACKGROUND = (0.1, 0.2, 0.3, 1.0)


@pytest.fixture
def framebuffer(drawer: RealtimeRenderer) -> Callable[[int, int], Any]:
    def make(width: int, height: int) -> Any:
        context = drawer.context
        return context.framebuffer([context.texture((width, height), 4, dtype="f2")], context.depth_texture((width, height)))

    return make


def color(framebuffer: Any) -> np.ndarray:
    """(H, W, 4), row 0 at the bottom."""
    width, height = framebuffer.size
    return np.frombuffer(framebuffer.read(components=4, dtype="f2"), np.float16).reshape(height, width, 4).astype(np.float32)


def depth(framebuffer: Any) -> np.ndarray:
    width, height = framebuffer.size
    return np.frombuffer(framebuffer.read(components=1, attachment=-1, dtype="f4"), np.float32).reshape(height, width)


def draw_views(drawer: RealtimeRenderer, motion: MotionCode, settings: FoveationSettings = SETTINGS) -> Callable[..., None]:
    scene = drawer.prepare(motion)

    def draw(cameras: Any, framebuffers: Any, viewports: Any, hidden: Any, regions: Any, coarse: bool) -> None:
        options = settings.coarse_options(OPTIONS) if coarse else OPTIONS
        drawer.draw(scene, cameras, framebuffers, options, BACKGROUND, viewports, hidden=hidden, regions=regions)

    return draw


@pytest.fixture(scope="module", autouse=True)
def loaded(drawer: RealtimeRenderer, avatar: Any) -> None:
    drawer.load(avatar, [OPTIONS, SETTINGS.coarse_options(OPTIONS)])


def eyes() -> tuple[Camera, Camera]:
    """The head fills the picture, asymmetric frusta."""
    return stereo_pair(Camera.orbit(0.2, 0.1, width=SIZE, height=SIZE, view_height_m=0.3), inward_tangent=0.05)


def box_of(box: tuple[int, int, int, int]) -> tuple[slice, slice]:
    left, bottom, right, top = (min(max(edge, 0), SIZE) for edge in box)
    return slice(bottom, top), slice(left, right)


def likeness_db(a: np.ndarray, b: np.ndarray) -> float:
    return psnr_db(float(np.mean((a - b) ** 2)))


@pytest.mark.parametrize("toward", [None, [(0.1, -0.05), (0.08, -0.05)]])
def test_the_inset_has_the_bits_of_the_whole_and_the_rest_is_the_coarse_picture(
    toward: Any, drawer: RealtimeRenderer, moved: MotionCode, framebuffer: Callable[[int, int], Any]
) -> None:
    foveation = Foveation(drawer.context, SETTINGS, keeps_depth=True)
    cameras, wide = eyes(), framebuffer(2 * SIZE, SIZE)
    areas = [(0, 0, SIZE, SIZE), (SIZE, 0, SIZE, SIZE)]
    drawer.draw(moved, cameras, [wide, wide], OPTIONS, BACKGROUND, areas)
    whole, whole_depth = color(wide), depth(wide)
    pictures = []
    for _ in range(2):
        foveation.draw(draw_views(drawer, moved), cameras, [wide, wide], areas, toward=toward)
        pictures.append(color(wide))
    assert np.array_equal(*pictures)
    drawn_depth = depth(wide)
    small = framebuffer(SIZE // 2, SIZE // 2)
    for eye, camera in enumerate(cameras):
        inset = Inset.of(camera, SETTINGS, toward[eye] if toward else (0.0, 0.0))
        seen, expected, near, near_expected = (
            picture[:, eye * SIZE : (eye + 1) * SIZE] for picture in (pictures[0], whole, drawn_depth, whole_depth)
        )
        assert np.array_equal(seen[box_of(inset.sharp)], expected[box_of(inset.sharp)])
        assert np.array_equal(near[box_of(inset.drawn)], near_expected[box_of(inset.drawn)])
        drawer.draw(moved, [coarse_camera(camera, 0.5)], [small], SETTINGS.coarse_options(OPTIONS), BACKGROUND)
        enlarged = np.repeat(np.repeat(color(small), 2, 0), 2, 1)
        outside = np.ones((SIZE, SIZE), bool)
        outside[box_of(inset.drawn)] = False
        assert likeness_db(seen[outside], enlarged[outside]) > 30
        assert likeness_db(seen, expected) > 25
        assert (np.abs(near - near_expected)[outside] < 0.02).mean() > 0.95
        # Over the seam the picture lies between the sharp and the coarse one.
        seam = ~outside
        seam[box_of(inset.sharp)] = False
        low, high = np.minimum(expected, enlarged)[seam], np.maximum(expected, enlarged)[seam]
        assert ((seen[seam] > low - 0.1) & (seen[seam] < high + 0.1)).mean() > 0.97
    foveation.release()


def test_both_eyes_keep_the_same_point_sharp() -> None:
    cameras, point = eyes(), np.array([0.01, 0.02, 0.08])
    for camera in cameras:
        x, y, z = camera.to_camera(point)
        left, bottom, right, top = Inset.of(camera, SETTINGS, (x / z, -y / z)).sharp
        (column, row), _ = camera.project(point)
        assert left < column < right and bottom < SIZE - row < top
        # The angle to each side is the setting's.
        low, high = (np.arctan((edge - camera.intrinsics[0, 2]) / camera.intrinsics[0, 0]) for edge in (left, right))
        assert np.degrees(high - low) == pytest.approx(2 * SETTINGS.inset_deg, abs=0.3)


def test_an_inset_that_covers_all_or_nothing(
    drawer: RealtimeRenderer, moved: MotionCode, framebuffer: Callable[[int, int], Any]
) -> None:
    camera, target = eyes()[0], framebuffer(SIZE, SIZE)
    area = [(0, 0, SIZE, SIZE)]
    drawer.draw(moved, [camera], [target], OPTIONS, BACKGROUND)
    whole = color(target)
    foveation = Foveation(drawer.context, replace(SETTINGS, inset_deg=50.0))
    foveation.draw(draw_views(drawer, moved), [camera], [target], area)
    assert np.array_equal(color(target), whole)
    foveation.draw(draw_views(drawer, moved), [camera], [target], area, toward=[(40.0, 0.0)])
    assert 25 < likeness_db(color(target), whole) < 60
    foveation.release()


def test_pictures_of_changing_size_leave_nothing_of_each_other(
    drawer: RealtimeRenderer, moved: MotionCode, framebuffer: Callable[[int, int], Any]
) -> None:
    kept, target = Foveation(drawer.context, SETTINGS), framebuffer(SIZE, SIZE)
    for width, height in ((64, 100), (SIZE, SIZE), (97, 61), (120, 140)):
        camera = Camera.orbit(0.2, 0.1, width=width, height=height, view_height_m=0.3)
        pictures = []
        fresh = Foveation(drawer.context, SETTINGS)
        for foveation in (kept, fresh):
            target.clear()
            foveation.draw(draw_views(drawer, moved), [camera], [target], [(0, 0, width, height)])
            pictures.append(color(target))
        fresh.release()
        # A texture coordinate is rounded by the size of its texture.
        assert np.abs(pictures[0] - pictures[1]).max() < 2e-3 and pictures[0][:height, :width].std() > 0.05
        assert not pictures[0][height:].any() and not pictures[0][:, width:].any()
    kept.release()


def test_what_is_hidden_stays_hidden(
    drawer: RealtimeRenderer, moved: MotionCode, framebuffer: Callable[[int, int], Any]
) -> None:
    camera, target = eyes()[0], framebuffer(SIZE, SIZE)
    left_half = np.array([[-1, -1], [0, -1], [-1, 1], [-1, 1], [0, -1], [0, 1]], np.float32)
    foveation = Foveation(drawer.context, SETTINGS)
    foveation.draw(draw_views(drawer, moved), [camera], [target], [(0, 0, SIZE, SIZE)], hidden=[left_half])
    seen = color(target)
    assert np.abs(seen[:, : SIZE // 2 - 2] - np.array(BACKGROUND)).max() < 2e-3
    assert np.abs(seen[:, SIZE // 2 + 2 :] - np.array(BACKGROUND)).max() > 0.2
    foveation.release()


@pytest.mark.parametrize("options", [OPTIONS, RenderOptions("baked", hair_levels=2, precision="byte")], ids=str)
def test_a_part_holds_the_bits_of_the_whole_and_the_rest_is_left_alone(
    options: RenderOptions, drawer: RealtimeRenderer, moved: MotionCode, framebuffer: Callable[[int, int], Any]
) -> None:
    target, area = framebuffer(SIZE + 9, SIZE + 7), (5, 7, SIZE, SIZE)
    for yaw_rad in (0.0, 1.2, 3.0):
        camera = view(yaw_rad, 0.2, SIZE, SIZE)
        target.clear()
        drawer.draw(moved, [camera], [target], options, BACKGROUND, [area])
        whole = color(target)
        for box in ((40, 50, 100, 90), (70, 20, 120, 150), (3, 3, 9, 8)):
            target.clear(0.5, 0.5, 0.5, 0.5)
            drawer.draw(moved, [camera], [target], options, BACKGROUND, [area], regions=[ScreenRegion(inside=box)])
            part = color(target)
            rows, columns = slice(7 + box[1], 7 + box[3]), slice(5 + box[0], 5 + box[2])
            assert np.array_equal(part[rows, columns], whole[rows, columns])
            part[rows, columns] = 0.5
            assert (part == 0.5).all()
            drawer.draw(moved, [camera], [target], options, BACKGROUND, [area], regions=[ScreenRegion(outside=box)])
            rest = color(target)
            rest[rows, columns] = whole[rows, columns]
            picture = slice(7, 7 + SIZE), slice(5, 5 + SIZE)
            assert np.array_equal(rest[picture], whole[picture])


def test_a_part_and_what_is_hidden_hold_for_deferred_shading_too(
    drawer: RealtimeRenderer, moved: MotionCode, framebuffer: Callable[[int, int], Any]
) -> None:
    camera, target, options = view(0.2, 0.1, SIZE, SIZE), framebuffer(SIZE, SIZE), RenderOptions("live", antialias=True)
    strategy = drawer.strategy
    drawer.strategy = DrawStrategy(shading="deferred")
    drawer.draw(moved, [camera], [target], options, BACKGROUND)
    whole = color(target)
    left, bottom, right, top = box = (50, 60, 100, 110)
    target.clear(0.5, 0.5, 0.5, 0.5)
    drawer.draw(moved, [camera], [target], options, BACKGROUND, regions=[ScreenRegion(inside=box)])
    part = color(target)
    assert np.array_equal(part[bottom:top, left:right], whole[bottom:top, left:right])
    part[bottom:top, left:right] = 0.5
    assert (part == 0.5).all()
    drawer.draw(moved, [camera], [target], options, BACKGROUND, hidden=[rectangle(-1, 0, -1, 1)])
    seen = color(target)
    drawer.strategy = strategy
    assert np.array_equal(seen[:, SIZE // 2 :], whole[:, SIZE // 2 :])
    assert np.abs(seen[:, : SIZE // 2] - np.array(BACKGROUND)).max() < 2e-3


def test_faces_that_cannot_show_are_left_out_and_no_others() -> None:
    camera = view(0.0, 0.0, SIZE, SIZE)
    rng = np.random.default_rng(0)
    centre = rng.normal(0, 0.1, (500, 1, 3))
    points = (centre + rng.normal(0, 0.03, (500, 3, 3))).reshape(-1, 3)
    pixels, _ = camera.project(points)
    low, high = (pixels.reshape(500, 3, 2).min(1), pixels.reshape(500, 3, 2).max(1))
    corners = np.arange(1500).reshape(500, 3).T
    # Columns 60 to 90, rows 30 to 100 from below.
    box = (60, 30, 90, 100)
    meets = (high[:, 0] > 60) & (low[:, 0] < 90) & (SIZE - low[:, 1] > 30) & (SIZE - high[:, 1] < 100)
    lies_in = (low[:, 0] > 60) & (high[:, 0] < 90) & (SIZE - high[:, 1] > 30) & (SIZE - low[:, 1] < 100)
    shown = may_show(outcodes(points, camera, ScreenRegion(inside=box)), corners)
    assert not (meets & ~shown).any() and 50 < shown.sum() < 400
    shown = may_show(outcodes(points, camera, ScreenRegion(outside=box)), corners)
    assert not (~lies_in & ~shown).any() and (~shown).sum() > 5
    behind = np.array([[0.0, 0.0, 5.0], [9.0, 0.0, 5.0], [0.0, 9.0, 5.0]])
    assert may_show(outcodes(behind, camera, ScreenRegion(inside=box)), np.array([[0], [1], [2]])).all()


def test_settings_are_checked(tmp_path: Path) -> None:
    assert read_foveation() == read_foveation(config_path("foveation.yaml"))
    for name, value, words in (
        ("inset_deg", 0.0, "inset_deg is 0.0; expected a number over 0, up to 60 degrees"),
        ("feather_deg", 90.0, "up to 60 degrees"),
        ("periphery_scale", 0.1, "expected a number from 0.2 to 1"),
        ("periphery_precision", "nibble", "unknown precision"),
        ("periphery_hair_levels", 0, "hair levels cannot be drawn"),
    ):
        with pytest.raises(InputError, match=words):
            replace(SETTINGS, **{name: value})
    text = config_path("foveation.yaml").read_text(encoding="utf-8")
    for wrong, words in (
        ("[1]", r"\[1\]; expected inset_deg, "),
        ("inset_deg: 3", "feather_deg, periphery_scale, periphery_hair_levels, periphery_precision are missing"),
        (text.replace("6.0", "wide"), "inset_deg is 'wide'; expected a number"),
        (text.replace("byte #", "8 #"), "periphery_precision is 8; expected one of half, byte"),
        ("a: [", "is not YAML"),
    ):
        (tmp_path / "wrong.yaml").write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError, match=words):
            read_foveation(tmp_path / "wrong.yaml")
    with pytest.raises(InputError, match="cannot read the foveation settings"):
        read_foveation(tmp_path / "none.yaml")
