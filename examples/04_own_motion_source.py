"""Write a motion source of your own: a head that nods.

    python examples/04_own_motion_source.py photo.jpg out/

Takes out/me.glb where the first example left it. Writes out/nod.mp4. Where the class lies in a package that names `open_nod` as an
entry point (docs/extending.md), every command takes it by its name: `avatar3d view me.glb --motion nod:` and `--motion nod:2`.
"""

import sys
import time
from dataclasses import replace
from math import radians, sin, tau
from pathlib import Path

import avatar3d
from avatar3d.media import save_sequence
from avatar3d.motion.sources import SourceBase, Spec
from avatar3d.rendering import make_renderer

FPS = 30


class Nod(SourceBase):
    """Nods for ever: each `read` gives the code of its moment, FPS times a second, as a camera would."""

    def __init__(self, nods_per_s: float = 0.5) -> None:
        self.nods_per_s = nods_per_s

    def read(self, timeout_s: float = 1.0) -> avatar3d.MotionCode:
        time.sleep(1 / FPS)
        now_ns = time.monotonic_ns()
        pitch_rad = radians(12) * sin(tau * self.nods_per_s * now_ns / 1e9)
        return replace(avatar3d.MotionCode().turned(pitch_rad=pitch_rad), time_ns=now_ns)


def open_nod(spec: Spec) -> Nod:
    """What an entry point names: `nod:` nods every two seconds, `nod:2` twice a second."""
    spec.only()  # no options: `nod:2?fast=1` is refused in a sentence
    return Nod(spec.number(0.5, low=0.1, high=10))  # so is `nod:fast`


if __name__ == "__main__":
    photo, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    saved = out / "me.glb"
    avatar = avatar3d.load(saved) if saved.exists() else avatar3d.enroll(photo, field=False)

    camera = avatar3d.Camera.orbit(yaw_rad=0.4, width=320, height=320)
    with avatar3d.open_motion(Nod()) as source:
        codes = [source.read() for _ in range(2 * FPS)]
    renderer = make_renderer()  # kept for all frames; without one each call of `render` would make its own
    frames = [avatar3d.render(avatar, camera, code, renderer=renderer) for code in codes]
    renderer.close()
    save_sequence(out / "nod.mp4", (frame.to_srgb8((245, 245, 245)) for frame in frames), FPS)
