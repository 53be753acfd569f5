"""Many frames with everything changing at once: no GL error, no bad pixel, nothing that grows."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from avatar3d.camera import stereo_pair
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.runtime.sensors import resident_mb
from tests.make_avatar import synthetic_avatar
from tests.rendering.conftest import view

ROOT = Path(__file__).resolve().parents[2]
FRAMES = int(os.environ.get("AVATAR3D_SOAK_FRAMES", "600"))
WARM_FRAMES = 100
MAX_GROWTH_MB = 24
SIZES = ((64, 64), (96, 80), (128, 128), (200, 150))
RUNGS = (
    RenderOptions("live", antialias=True),
    RenderOptions("baked", hair_levels=3, antialias=True),
    RenderOptions("baked", hair_levels=2, precision="byte"),
    RenderOptions("mesh", hair_levels=1, precision="byte"),
)


def random_motion(rng: np.random.Generator) -> MotionCode:
    return MotionCode(
        weights=rng.random(52) * (rng.random(52) < 0.3),
        rotation=np.append(rng.normal(0, 0.2, 3), 1.0),
        translation=rng.normal(0, 0.03, 3),
        gaze=rng.normal(0, 0.3, (2, 2)),
    )


def soak(frames: int) -> dict[str, object]:
    """Draw; returns what the test judges."""
    rng = np.random.default_rng(0)
    renderer = RealtimeRenderer()
    renderer.load(synthetic_avatar(), list(RUNGS))
    with renderer.context as context:
        targets = {
            size: context.framebuffer([context.texture(size, 4, dtype="f2")], context.depth_texture(size)) for size in SIZES
        }
    resident, objects, gl_errors, bad_frames = [], [], set(), 0
    for index in range(frames):
        size = SIZES[rng.integers(len(SIZES))]
        options = replace(RUNGS[rng.integers(len(RUNGS))], hair=bool(rng.random() < 0.9))
        camera = view(float(rng.uniform(-3, 3)), float(rng.uniform(-0.5, 0.8)), *size)
        eye = stereo_pair(camera)[index % 2]
        renderer.draw(random_motion(rng), [eye], [targets[size]], options)
        with renderer.context as context:
            pixels = np.frombuffer(targets[size].read(components=4, dtype="f2"), np.float16).astype(np.float32)
            gl_errors.add(context.error)
        bad_frames += not (np.isfinite(pixels).all() and pixels.min() >= 0)
        if index in (WARM_FRAMES, frames - 1):
            gc.collect()
            resident.append(resident_mb())
            objects.append(renderer.gl_objects)
    return {"resident_mb": resident, "objects": objects, "gl_errors": sorted(gl_errors), "bad_frames": bad_frames}


@pytest.mark.slow
def test_nothing_grows_and_no_pixel_is_bad(realtime: RealtimeRenderer) -> None:
    """In a fresh process: in a long one, memory that was freed before would hide what grows. (`realtime`: skips without GL.)"""
    script = f"import json; from tests.rendering.test_soak import soak; print(json.dumps(soak({FRAMES})))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["gl_errors"] == ["GL_NO_ERROR"] and told["bad_frames"] == 0
    assert told["objects"][0] == told["objects"][1] > 0
    assert told["resident_mb"][1] - told["resident_mb"][0] < MAX_GROWTH_MB
