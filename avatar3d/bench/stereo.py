"""What drawing both eyes at once gains, and what foveation gains and costs in fidelity, beside the baked rung in two passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from avatar3d.bench.measure import Case, Stand, Timing, eye_cameras
from avatar3d.color import linear_to_srgb, psnr_db
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.opengl.foveation import Inset
from avatar3d.rendering.opengl.layers import offered
from avatar3d.rendering.opengl.stereo import EYES, STEREO

FOVEATED_RUNGS = ("live", "baked")
LOOKED_AT = 5  # frame of the motion whose pictures are compared


def chosen_way(stand: Stand, size: tuple[int, int], eyes: int) -> str:
    """How both eyes of a size are drawn here, as measured: "layers" as in a headset where that is faster, else "passes"."""
    layers = eyes == EYES and stand.choices[size].strategy.stereo == "layers" and "layers" in offered(stand.context)
    return "layers" if layers else "passes"


def stereo_cases(stand: Stand, options: RenderOptions, size: tuple[int, int]) -> list[Case]:
    """The ways of drawing both eyes that this driver has, loaded."""
    cases = [Case(f"baked, {way}", options, *size, EYES, way) for way in offered(stand.context)]
    for case in cases:
        stand.load(case)
    return cases


def stereo_result(cases: list[Case], timings: dict[Case, Timing]) -> dict[str, Any]:
    """{way: processor milliseconds and their ratio to those of two passes}; None where the driver lacks it."""
    cpu_ms = {case.way: timings[case].summary()["cpu_ms"] for case in cases}
    return {
        way: {"cpu_ms": cpu_ms[way], "over_passes": round(cpu_ms[way] / cpu_ms["passes"], 3)} if way in cpu_ms else None
        for way in STEREO
    }


def foveated_cases(stand: Stand, rungs: dict[str, RenderOptions], sizes: list[tuple[int, int]]) -> list[Case]:
    """FOVEATED_RUNGS, foveated, for two eyes, loaded."""
    cases = [Case(f"{name}, foveated", rungs[name], *size, EYES, "foveated") for name in FOVEATED_RUNGS for size in sizes]
    for case in cases:
        stand.load(case)
    return cases


def foveated_row(stand: Stand, case: Case, timing: Timing, whole: dict[str, Any], plain_mesh: dict[str, Any]) -> dict[str, Any]:
    """A case's times, over those of the whole picture and of the plain mesh at the size of the ratios, and its fidelity."""
    summary = timing.summary()
    inset, everything = fidelity(stand, case)
    return {
        "rung": case.name.partition(",")[0],
        "width": case.width,
        "height": case.height,
        "eyes": case.eyes,
        **summary,
        "cpu_over_whole": round(summary["cpu_ms"] / whole["cpu_ms"], 3),
        "cpu_over_mesh_512": round(summary["cpu_ms"] / plain_mesh["cpu_ms"], 3),
        "p50_over_mesh_512": round(summary["p50_ms"] / plain_mesh["p50_ms"], 3),
        "psnr_inset_db": inset,
        "psnr_whole_db": everything,
    }


def fidelity(stand: Stand, case: Case) -> tuple[float, float]:
    """dB of a foveated case against the whole picture, over the pixels that hold the head: inside of the insets, and all."""
    pictures = []
    for way in ("passes", "foveated"):
        stand.frame(Case(case.name, case.options, case.width, case.height, case.eyes, way), LOOKED_AT)
        framebuffer = stand.framebuffer(case.width * case.eyes, case.height)
        pixels = np.frombuffer(framebuffer.read(components=4), np.uint8).reshape(case.height, case.width * case.eyes, 4)
        pictures.append(pixels)
    covered = (pictures[0][..., 3] > 0) | (pictures[1][..., 3] > 0)
    inset = np.zeros(covered.shape, bool)
    for eye, camera in enumerate(eye_cameras(case.width, case.height, case.eyes)):
        left, bottom, right, top = np.maximum(Inset.of(camera, stand.foveation.settings).sharp, 0).tolist()
        right = min(right, case.width)
        inset[bottom:top, eye * case.width + left : eye * case.width + right] = True
    whole, foveated = (linear_to_srgb(picture[..., :3] / np.float32(255)) for picture in pictures)
    error = np.square(whole.astype(np.float64) - foveated).mean(-1)
    within, everywhere = (psnr_db(float(error[covered & where].mean())) for where in (inset, np.ones_like(inset)))
    return round(within, 2), round(everywhere, 2)
