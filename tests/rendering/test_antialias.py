"""The softened outline: nearer to a supersampled picture, steadier in motion, the same picture elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.culling.backface import face_planes, heights
from avatar3d.rendering.frame import Frame
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.outline import Outline
from tests.rendering.conftest import view

HARD = RenderOptions("baked", hair=False)
SOFT = replace(HARD, antialias=True)
BACKGROUND = (200, 210, 220)


def turn(avatar: Avatar, realtime: RealtimeRenderer, options: RenderOptions) -> list[Frame]:
    """A slow turn: a tenth of a pixel or so a step."""
    cameras = [view(yaw, 0.1) for yaw in np.linspace(0.3, 0.32, 7)]
    return realtime.render(avatar, MotionCode(), cameras, options)


def edges(frames: list[Frame]) -> np.ndarray:
    covered = np.isfinite(np.stack([frame.depth for frame in frames]))
    return covered.any(0) & ~covered.all(0)


def srgb(frames: list[Frame]) -> np.ndarray:
    return np.stack([frame.to_srgb8(BACKGROUND).astype(float) for frame in frames])


def test_edges_come_nearer_to_supersampled_ones_and_crawl_less(avatar: Avatar, realtime: RealtimeRenderer) -> None:
    hard, soft = (turn(avatar, realtime, options) for options in (HARD, SOFT))
    best = srgb(turn(avatar, realtime, replace(HARD, supersample=4)))
    changing = edges(hard)
    assert changing.sum() > 30
    errors = [np.square(srgb(frames) - best)[:, changing].mean() for frames in (hard, soft)]
    assert errors[1] < 0.7 * errors[0]
    crawl = [np.diff(srgb(frames) - best, axis=0)[:, changing].std() for frames in (hard, soft)]
    assert crawl[1] < 0.7 * crawl[0]


def test_away_from_the_outline_nothing_changes(avatar: Avatar, realtime: RealtimeRenderer) -> None:
    hard, soft = (realtime.render(avatar, MotionCode(), [view(0.0)], options)[0] for options in (HARD, SOFT))
    difference = np.abs(hard.to_srgb8(BACKGROUND).astype(int) - soft.to_srgb8(BACKGROUND)).max(-1)
    assert (difference > 8).mean() < 0.03
    rows, columns = np.nonzero(np.isfinite(hard.depth) != np.isfinite(soft.depth))
    assert len(rows) < 0.02 * hard.depth.size


@pytest.mark.parametrize("form", ["mesh", "live"])
def test_every_form_can_be_softened(form: str, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer) -> None:
    options = RenderOptions(form, antialias=True)  # type: ignore[arg-type]
    soft, hard = (realtime.render(avatar, moved, [view(0.4)], one)[0] for one in (options, replace(options, antialias=False)))
    assert np.isfinite(soft.rgba).all()
    between = (soft.rgba[..., 3] > 0.05) & (soft.rgba[..., 3] < 0.95)
    assert between.sum() > ((hard.rgba[..., 3] > 0.05) & (hard.rgba[..., 3] < 0.95)).sum()


def test_the_outline_of_a_box_is_its_silhouette() -> None:
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], np.float32)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([triangle for a, b, c, d in quads for triangle in ((a, b, c), (a, c, d))])
    outline = Outline.of(faces, np.arange(8))
    assert len(outline.sides) == 18
    planes = face_planes(corners, faces)
    fins = outline.fins(heights(planes, np.array([0.5, 0.5, 9.0])) > 0, planes, corners)
    assert fins.shape == (4, 3)
    assert (corners[fins, 2] == 1).all()  # the seen face is the one at z = 1
    assert len(outline.fins(heights(planes, np.array([9.0, 9.0, 9.0])) > 0, planes, corners)) == 6


@pytest.mark.parametrize(("lift", "edges"), [(-1.0, 3), (1.0, 2)])
def test_an_edge_in_a_hollow_is_no_outline(lift: float, edges: int) -> None:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.3, 0.4, lift]], np.float32)
    faces = np.array([[0, 1, 2], [2, 1, 3]])  # the second falls away behind an edge of the first, or rises before it
    fins = Outline.of(faces, np.arange(4)).fins(np.array([True, False]), face_planes(corners, faces), corners)
    assert len(fins) == edges  # the first face's open edges always count


def test_an_open_border_is_outline_too() -> None:
    outline = Outline.of(np.array([[0, 1, 2]]), np.arange(3))
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    planes = face_planes(corners, np.array([[0, 1, 2]]))
    assert len(outline.fins(np.array([True]), planes, corners)) == 3
    assert len(outline.fins(np.array([False]), planes, corners)) == 0
