"""Make the README's picture from what ./tools/demo left in out/demo: the photo beside views of the head enrolled from it."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

import numpy as np
from PIL import Image

from avatar3d import models
from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.files import replacing
from avatar3d.glb import read_glb
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import Renderer, RenderOptions, make_renderer

TILE_PX = 300
JPEG_QUALITY = 85
BACKGROUND = (245, 245, 245)
PHOTO_CROP = (110, 0, 340, 230)  # the head in the 512-pixel astronaut
GRIN = {"mouthSmileLeft": 0.7, "mouthSmileRight": 0.7, "mouthUpperUpLeft": 0.35, "mouthUpperUpRight": 0.35,
        "mouthLowerDownLeft": 0.3, "mouthLowerDownRight": 0.3, "cheekSquintLeft": 0.3, "cheekSquintRight": 0.3}  # fmt: skip
TURNS_DEG = (0, 40, 80, 180, -80)
FACES: tuple[dict[str, float], ...] = (
    {"jawOpen": 0.6},
    GRIN,
    {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0},
    {"browInnerUp": 0.8, "browOuterUpLeft": 0.6, "browOuterUpRight": 0.6, "eyeWideLeft": 0.5, "eyeWideRight": 0.5},
    {"eyeLookOutLeft": 0.8, "eyeLookInRight": 0.8, "mouthLeft": 0.3},
)


def _draw(renderer: Renderer, avatar: Avatar, motion: MotionCode, yaw_deg: float, height_m: float) -> np.ndarray:
    camera = Camera.orbit(np.radians(yaw_deg), 0.0, 0.8, TILE_PX, TILE_PX, height_m, (0, -0.02, -0.05))
    (frame,) = renderer.render(avatar, motion, [camera], RenderOptions(supersample=3))
    return frame.to_srgb8(BACKGROUND)


def main() -> None:
    """Write assets/readme/astronaut.jpg."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--avatar", type=Path, default=Path("out/demo/astronaut.glb"))
    parser.add_argument("--out", type=Path, default=Path("assets/readme/astronaut.jpg"))
    arguments = parser.parse_args()
    avatar = read_glb(arguments.avatar)
    assert avatar.photo_motion is not None
    photo = Image.open(models.sample("astronaut.png")).convert("RGB").crop(PHOTO_CROP)
    tile = np.asarray(photo.resize((TILE_PX, TILE_PX), Image.Resampling.LANCZOS))
    with closing(make_renderer("realtime")) as renderer:
        top = [tile, *(_draw(renderer, avatar, avatar.photo_motion, yaw, 0.38) for yaw in TURNS_DEG)]
        low = [_draw(renderer, avatar, MotionCode.from_expression(face), 15, 0.26) for face in FACES]
        low.insert(0, _draw(renderer, avatar, MotionCode(), 0, 0.26))
    sheet = np.concatenate([np.concatenate(row, axis=1) for row in (top, low)])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(arguments.out) as temporary:
        Image.fromarray(sheet).save(temporary, "JPEG", quality=JPEG_QUALITY, optimize=True)


if __name__ == "__main__":
    main()
