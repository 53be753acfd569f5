"""How near each rung's picture is to the reference's: at the rung's own settings, and to the whole head at its best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.color import psnr_db
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import Frame, RenderOptions
from avatar3d.rendering.opengl.renderer import RealtimeRenderer

SIZE_PX = 256
EXPRESSIONS: tuple[dict[str, float], ...] = (
    {},
    {"jawOpen": 0.6},
    {"mouthSmileLeft": 0.8, "mouthSmileRight": 0.8, "cheekSquintLeft": 0.5, "cheekSquintRight": 0.5},
    {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0},
    {"mouthPucker": 0.9},
    {"browInnerUp": 1.0, "eyeWideLeft": 0.6, "eyeWideRight": 0.6},
)


def views(count: int) -> list[Camera]:
    """`count` cameras about the head, from a little below to a little above."""
    yaws = 2 * np.pi * np.arange(count) / count
    return [
        Camera.orbit(
            float(yaw),
            0.25 * float(np.sin(2 * yaw)),
            width=SIZE_PX,
            height=SIZE_PX,
            view_height_m=0.38,
            target=(0, -0.03, -0.05),
        )
        for yaw in yaws
    ]


def pictures_psnr_db(expected: list[Frame], drawn: list[Frame]) -> float:
    """PSNR over the pixels that either covers, 8-bit sRGB over black."""
    total, count = 0.0, 0
    for a, b in zip(expected, drawn, strict=True):
        covered = (a.rgba[..., 3] > 0) | (b.rgba[..., 3] > 0)
        difference = a.to_srgb8((0, 0, 0)).astype(float) - b.to_srgb8((0, 0, 0)).astype(float)
        total += float((difference[covered] ** 2).sum())
        count += 3 * int(covered.sum())
    return round(psnr_db(total / max(count, 1) / 255**2), 2)


def parity(
    avatar: Avatar, rungs: Mapping[str, RenderOptions], renderer: RealtimeRenderer, view_count: int, expression_count: int
) -> tuple[dict[str, float], dict[str, float]]:
    """({rung: dB against the reference at the rung's settings}, {rung: dB against the live reference with all hair levels}).

    Both without antialiasing, which the reference does not have.
    """
    from avatar3d.rendering.reference.renderer import ReferenceRenderer

    reference = ReferenceRenderer()
    cameras = views(view_count)
    motions = [MotionCode.from_expression(expression) for expression in EXPRESSIONS[:expression_count]]
    best = [frame for motion in motions for frame in reference.render(avatar, motion, cameras, RenderOptions("live"))]
    same: dict[str, float] = {}
    whole: dict[str, float] = {}
    for name, own in rungs.items():
        options = replace(own, antialias=False)
        drawn = [frame for motion in motions for frame in renderer.render(avatar, motion, cameras, options)]
        expected = [frame for motion in motions for frame in reference.render(avatar, motion, cameras, options)]
        same[name], whole[name] = pictures_psnr_db(expected, drawn), pictures_psnr_db(best, drawn)
    return same, whole
