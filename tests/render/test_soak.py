"""Many frames with everything changing at once: no GL error, no bad pixel, nothing that grows."""

from __future__ import annotations

import gc
import os
import resource
from dataclasses import replace

import numpy as np
import pytest

from avatar3d.avatar import Avatar
from avatar3d.camera import stereo_pair
from avatar3d.motion.code import MotionCode
from avatar3d.render import RenderOptions
from avatar3d.render.realtime import RealtimeRenderer
from tests.render.conftest import view

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


@pytest.mark.slow
def test_nothing_grows_and_no_pixel_is_bad(avatar: Avatar, realtime: RealtimeRenderer) -> None:
    rng = np.random.default_rng(0)
    realtime.load(avatar, list(RUNGS))
    with realtime.context as context:
        targets = {
            size: context.framebuffer([context.texture(size, 4, dtype="f2")], context.depth_texture(size)) for size in SIZES
        }
    peak_mb = objects = 0.0
    for index in range(FRAMES):
        size = SIZES[rng.integers(len(SIZES))]
        options = replace(RUNGS[rng.integers(len(RUNGS))], hair=bool(rng.random() < 0.9))
        camera = view(float(rng.uniform(-3, 3)), float(rng.uniform(-0.5, 0.8)), *size)
        eye = stereo_pair(camera)[index % 2]
        realtime.draw(random_motion(rng), [eye], [targets[size]], options)
        with realtime.context as context:
            pixels = np.frombuffer(targets[size].read(components=4, dtype="f2"), np.float16).astype(np.float32)
            assert context.error == "GL_NO_ERROR"
        assert np.isfinite(pixels).all() and pixels.min() >= 0
        if index == WARM_FRAMES:
            gc.collect()
            peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            objects = len(realtime._loaded.scope) if realtime._loaded else 0
    assert realtime._loaded is not None and len(realtime._loaded.scope) == objects
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - peak_mb < MAX_GROWTH_MB
