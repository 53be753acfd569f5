"""One frame in a headset: what is known of it once it was begun, what its eyes are shown, and how it is recorded."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from avatar3d.camera import Camera
from avatar3d.choices import RUNGS
from avatar3d.files import write_bytes
from avatar3d.media import save_picture
from avatar3d.runtime.governor import Level
from avatar3d.runtime.live import LiveHeads, Posed
from avatar3d.runtime.trace import Trace
from avatar3d.runtime.views import EyeView
from avatar3d.xr.timing import FrameTiming


@dataclass(frozen=True)
class BegunFrame:
    """A frame that was begun, with the heads posed for it and the eyes located. size: pixels an eye, as the level draws them.
    acquired_s: when its images were there (time.perf_counter); located_ns: when the eyes were (monotonic clock)."""

    timing: FrameTiming
    level: Level
    size: tuple[int, int]
    posed: Posed
    framebuffers: list[Any]
    views: list[EyeView]
    acquired_s: float
    located_ns: int


@dataclass(frozen=True)
class FramePictures:
    """What each eye is shown. cameras: of the scene's frame, None where an eye sees nothing; the others are of those that see.
    toward: see Foveation.draw, None without one."""

    cameras: list[Camera | None]
    shown: list[Camera]
    targets: list[Any]
    hidden: list[np.ndarray | None]
    toward: list[tuple[float, float]] | None


def trace_frame(trace: Trace, begun: BegunFrame, done_s: float) -> None:
    """Record the spans of a frame's parts; done_s: when it was drawn (time.perf_counter)."""
    posed, timing = begun.posed, begun.timing
    ended_ns = time.monotonic_ns()
    offset_ns = ended_ns - round(time.perf_counter() * 1e9)
    parts = {
        "prepare": (posed.started_s, posed.prepared_s),
        "wait": (posed.prepared_s, begun.acquired_s),
        "draw": (begun.acquired_s, done_s),
    }
    figures = {"display_ms": (timing.display_ns - ended_ns) / 1e6, "head_ms": (timing.display_ns - begun.located_ns) / 1e6}
    figures |= {"rung": begun.level.rung, "scale": begun.level.scale}
    if posed.expression_ms is not None and posed.source_age_ms is not None:
        figures |= {"expression_ms": posed.expression_ms, "source_age_ms": posed.source_age_ms}
    for name, (start, end) in parts.items():
        start_ns, end_ns = (round(at * 1e9) + offset_ns for at in (start, end))
        trace.add("render", name, start_ns, end_ns, **figures)


def keep_views(folder: Path, begun: BegunFrame, pictures: FramePictures, live: LiveHeads) -> None:
    """Write what each eye was given as PNG, and views.json with the cameras (avatar frame), motion and level of it."""
    folder.mkdir(parents=True, exist_ok=True)
    level, cameras = begun.level, [live.stage.places[0].camera(camera) for camera in pictures.shown]
    for camera, framebuffer in zip(cameras, pictures.targets, strict=True):
        area = (0, 0, camera.width, camera.height)
        pixels = np.frombuffer(framebuffer.read(viewport=area, components=3, alignment=1), np.uint8)
        save_picture(folder / f"{camera.name}.png", pixels.reshape(camera.height, camera.width, 3)[::-1])
    facts = {
        **asdict(live.config.rungs[RUNGS[level.rung]]),
        "rung": RUNGS[level.rung],
        "scale": level.scale,
        "motion": begun.posed.motions[0].to_json(),
        "cameras": [{**camera.to_json(), "near": camera.near_m, "far": camera.far_m} for camera in cameras],
    }
    write_bytes(folder / "views.json", json.dumps(facts).encode())
