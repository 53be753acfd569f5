"""An avatar in other people's viewers beside our own picture of the last rung: one sheet, and how far they differ.

Run: python tools/viewers/compare.py AVATAR.glb -o FOLDER [--modules node_modules] [three babylon model-viewer]. The modules are
those of tests/viewer, which have three.js; for the others: npm install @babylonjs/core @babylonjs/loaders @google/model-viewer
playwright-core (150 MB) in a folder of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from avatar3d.avatar import Avatar  # noqa: E402
from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera  # noqa: E402
from avatar3d.color import srgb_to_linear  # noqa: E402
from avatar3d.glb import read_glb  # noqa: E402
from avatar3d.motion.code import MotionCode  # noqa: E402
from avatar3d.rendering import RenderOptions, make_renderer  # noqa: E402

VIEWERS = ("three", "babylon", "model-viewer")
SIDE_PX = 512
CHROMIUM = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
EXPRESSIONS = {
    "neutral": {}, "blink": {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0}, "jaw": {"jawOpen": 0.8},
    "left": {"eyeLookOutLeft": 0.9, "eyeLookInRight": 0.9}, "right": {"eyeLookInLeft": 0.9, "eyeLookOutRight": 0.9},
    "smile": {"mouthSmileLeft": 0.9, "mouthSmileRight": 0.9},
}  # fmt: skip
# Light that every viewer can have: even, and as strong again from straight ahead, in shares of white.
AMBIENT, FRONT = 0.6, 0.4
VIEW = {
    "distance": 0.6,
    "height": HEAD_VIEW_HEIGHT_M,
    "target": list(HEAD_MIDDLE_M),
}  # as `avatar3d render` frames a head, metres
BACKGROUND = (245, 245, 245)
OFF_BACKGROUND = 12  # sum of the channels' steps


def shoot(avatar: Path, viewer: str, folder: Path, modules: Path) -> list[str]:
    """Write FOLDER/name.png of each expression in a viewer; returns what the browser complained about."""
    views = {name: {"weights": weights, **VIEW} for name, weights in EXPRESSIONS.items()}
    job = json.dumps({"light": {"ambient": AMBIENT, "front": FRONT}, "views": views})
    words = ["node", HERE / "shoot.mjs", avatar, folder, str(CHROMIUM), HERE / f"{viewer}.html", modules, job]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise RuntimeError(f"{viewer}: {done.stderr}")
    found: list[str] = json.loads(done.stdout)["complaints"]
    return found


def ours(avatar: Avatar) -> dict[str, np.ndarray]:
    """{expression: (SIDE_PX, SIDE_PX, 3) u8} of the last rung, in the viewers' light."""
    light = np.zeros((9, 3), np.float32)
    light[0], light[3] = AMBIENT, FRONT
    avatar = replace(avatar, light=light, shading_power=1.0)
    camera = Camera.orbit(0.0, 0.0, VIEW["distance"], SIDE_PX, SIDE_PX, VIEW["height"], target=VIEW["target"])
    renderer = make_renderer("realtime")
    try:
        options = RenderOptions(form="mesh", supersample=2)
        return {
            name: renderer.render(avatar, MotionCode.from_expression(weights), [camera], options)[0].to_srgb8(BACKGROUND)
            for name, weights in EXPRESSIONS.items()
        }
    finally:
        renderer.close()


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65 of (..., 3) u8 sRGB (CIE 15, section 8.2.1)."""
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
    share = srgb_to_linear(rgb).astype(float) @ to_xyz.T / [0.95047, 1.0, 1.08883]
    f = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], axis=-1)


def difference(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """(overlap of the outlines, mean of ΔE*ab within both) of two pictures over a plain background."""
    inside = [np.abs(picture.astype(int) - picture[2, 2]).sum(2) > OFF_BACKGROUND for picture in (first, second)]
    both = inside[0] & inside[1]
    return float(both.sum() / (inside[0] | inside[1]).sum()), float(
        np.linalg.norm(lab(first) - lab(second), axis=2)[both].mean()
    )


def main() -> None:
    """Draw the sheet and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("avatar", type=Path)
    parser.add_argument("viewers", nargs="*", default=["three"], help=f"of {', '.join(VIEWERS)}")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--modules", type=Path, default=ROOT / "tests" / "viewer" / "node_modules")
    arguments = parser.parse_intermixed_args()
    rows = [ours(read_glb(arguments.avatar))]
    for viewer in arguments.viewers:
        folder = arguments.out / viewer
        folder.mkdir(parents=True, exist_ok=True)
        complaints = shoot(arguments.avatar.resolve(), viewer, folder.resolve(), arguments.modules.resolve())
        rows.append({name: np.array(Image.open(folder / f"{name}.png").convert("RGB")) for name in EXPRESSIONS})
        found = {name: difference(rows[0][name], rows[-1][name]) for name in EXPRESSIONS}
        words = ", ".join(f"{name} {overlap:.4f} {off:.2f}" for name, (overlap, off) in found.items())
        print(f"{viewer}: overlap and mean ΔE: {words}; {len(complaints)} complaints {complaints[:3]}")
    Image.fromarray(np.concatenate([np.concatenate(list(row.values()), 1) for row in rows])).save(arguments.out / "sheet.png")


if __name__ == "__main__":
    main()
