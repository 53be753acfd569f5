"""Small pictures kept in tests/golden/, compared on Mesa's software renderer only, so that a changed look is seen.

AVATAR3D_UPDATE_GOLDEN=1 rewrites them; a failing comparison leaves expected | drawn | difference × 8 in out/golden/.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from avatar3d.avatar import Avatar
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from tests.rendering.conftest import view

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
DIFFERENCES = ROOT / "out" / "golden"
SIZE = 128
BACKGROUND = (200, 210, 220)
MAX_MEAN = 0.25  # 8-bit steps; drivers of one Mesa series differ by less
MAX_PIXEL = 12  # 8-bit steps, reached by at most MAX_SHARE of the pixels (edges)
MAX_SHARE = 1e-3
CASES = {
    "front_mesh": (0.0, 0.0, "mesh"),
    "left_baked": (0.8, 0.2, "baked"),
    "right_live": (-0.7, -0.1, "live"),
    "back_baked": (2.9, 0.3, "baked"),
}


@pytest.mark.parametrize("name", CASES)
def test_picture_is_the_golden_one(name: str, avatar: Avatar, moved: MotionCode, realtime: RealtimeRenderer) -> None:
    if "llvmpipe" not in realtime.info["renderer"]:
        pytest.skip(f"golden pictures are compared on llvmpipe; this is {realtime.info['renderer']}")
    yaw, pitch, form = CASES[name]
    frame = realtime.render(avatar, moved, [view(yaw, pitch, SIZE, SIZE)], RenderOptions(form, supersample=2))[0]  # type: ignore[arg-type]
    drawn = frame.to_srgb8(BACKGROUND)
    path = GOLDEN / f"{name}.png"
    if os.environ.get("AVATAR3D_UPDATE_GOLDEN") == "1":
        Image.fromarray(drawn).save(path, optimize=True)
    expected = np.array(Image.open(path).convert("RGB"))
    difference = np.abs(expected.astype(int) - drawn.astype(int))
    off = (difference.max(-1) > MAX_PIXEL).mean()
    if difference.mean() > MAX_MEAN or off > MAX_SHARE:
        DIFFERENCES.mkdir(parents=True, exist_ok=True)
        sheet = np.concatenate([expected, drawn, np.clip(difference * 8, 0, 255).astype(np.uint8)], axis=1)
        Image.fromarray(sheet).save(DIFFERENCES / f"{name}.png")
        pytest.fail(f"mean {difference.mean():.2f}, {off:.2%} of the pixels off; see out/golden/{name}.png")
