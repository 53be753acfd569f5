"""How the cost grows with hair levels, resolution and heads, and whether it stays linear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from avatar3d.bench.measure import Case, Stand, Timing, eye_cameras, steady, time_cases
from avatar3d.progress import quiet_library
from avatar3d.rendering.frame import RenderOptions

HEADS = (1, 2, 4, 8)
SIDES_PX = (256, 384, 512, 768, 1024)
HEAD_PX = 256  # side of one head's area among several
HEAD_FRAMES = 8


def growth(stand: Stand, seconds_a_case: float) -> dict[str, Any]:
    """Median processor milliseconds of the baked form against each quantity, with `linear`: whether the last is at most as

    many times the first as the quantity is, within a tenth.
    """
    hair = stand.renderer.avatar.hair
    levels = list(range(1, (len(hair.levels) if hair is not None else 0) + 1))
    options = {count: RenderOptions("baked", hair_levels=count) for count in levels}
    cases = {count: Case(f"{count} levels", options[count], 512, 512, 2) for count in levels}
    sized = {side: Case("baked", RenderOptions("baked", hair_levels=3), side, side, 2) for side in SIDES_PX}
    timings = time_cases(stand, [*cases.values(), *sized.values()], seconds_a_case)
    return {
        "hair_levels": _series(levels, [timings[cases[count]] for count in levels], levels),
        "side_px": _series(list(SIDES_PX), [timings[sized[side]] for side in SIDES_PX], [side * side for side in SIDES_PX]),
        "heads": _series(list(HEADS), [_heads(stand, count) for count in HEADS], list(HEADS)),
    }


def _series(values: list[int], timings: list[Timing], amounts: list[int]) -> dict[str, Any]:
    costs = [round(float(np.median(timing.cpu_ms)), 3) for timing in timings]
    linear = len(costs) < 2 or costs[-1] / costs[0] <= 1.1 * amounts[-1] / amounts[0]
    return {"values": values, "cpu_ms": costs, "linear": bool(linear)}


def _heads(stand: Stand, count: int) -> Timing:
    """Frames of `count` heads, each with its own motion and both eyes, in areas of one framebuffer."""
    import time

    timing = Timing()
    options = RenderOptions("baked", hair_levels=3)
    cameras = eye_cameras(HEAD_PX, HEAD_PX, 2)
    framebuffer = stand.framebuffer(2 * HEAD_PX, max(HEADS) * HEAD_PX)
    with steady():
        for index in range(HEAD_FRAMES + 1):
            started = time.process_time()
            for head in range(count):
                areas = [(eye * HEAD_PX, head * HEAD_PX, HEAD_PX, HEAD_PX) for eye in range(2)]
                motion = stand.motions[(index + 7 * head) % len(stand.motions)]
                stand.renderer.draw(motion, cameras, [framebuffer] * 2, options, viewports=areas)
            stand.context.finish()
            if index:
                timing.cpu_ms.append((time.process_time() - started) * 1e3)
    return timing


def plot(measured: dict[str, Any], path: Path) -> None:
    """Draw the three curves as a PNG; needs matplotlib."""
    quiet_library("matplotlib")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.6))
    labels = {"hair_levels": "hair levels (512², two eyes)", "side_px": "side of an eye, px", "heads": "heads (256², two eyes)"}
    for axis, (name, series) in zip(axes, measured.items(), strict=True):
        axis.plot(series["values"], series["cpu_ms"], "o-")
        axis.set_xlabel(labels[name])
        axis.set_ylabel("processor ms a frame")
        axis.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, dpi=100, format="png")
    pyplot.close(figure)
