"""All that `avatar3d bench` measures, in one run: each rung beside a plain mesh, both eyes, foveation, parity, the field."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import replace
from typing import Any

from avatar3d.avatar import Avatar
from avatar3d.bench import RATIO_SIZE
from avatar3d.bench.field import POINTS, shader_ms, training_ms
from avatar3d.bench.measure import CONTROL, Case, Stand, stage_shares, time_cases
from avatar3d.bench.options import BenchOptions
from avatar3d.bench.stereo import chosen_way, foveated_cases, foveated_row, stereo_cases, stereo_result
from avatar3d.extras import install_extra
from avatar3d.progress import ProgressCallback, silent
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.runtime.governor import read_config

SIZES = ((256, 256), (512, 512), (896, 1007), (1680, 1760))  # the last two: per eye of a simulated and of a real headset
QUICK_SIZES = ((512, 512),)
PEERS_HINT = "not measured; run tools/bench_peers and pass its file with --peers"


def bench(
    avatar: Avatar, options: BenchOptions, peers: dict[str, Any], progress: ProgressCallback = silent, quiet: bool = True
) -> dict[str, object]:
    """What `avatar3d bench --json` prints. peers: what tools/bench_peers wrote, or {}; quiet: the tuner shows no progress."""
    rungs = {name: settings.options(1.0) for name, settings in read_config().rungs.items()}
    stand = Stand(avatar, list(rungs.values()))
    try:
        return _measure(options, stand, rungs, peers, progress, quiet)
    finally:
        stand.close()


def _measure(
    options: BenchOptions,
    stand: Stand,
    rungs: dict[str, RenderOptions],
    peers: dict[str, Any],
    progress: ProgressCallback,
    quiet: bool,
) -> dict[str, object]:
    avatar = stand.renderer.avatar
    sizes = QUICK_SIZES if options.quick else SIZES
    strategies = {f"{width}x{height}": stand.tune(width, height, options.tuning, quiet) for width, height in sizes}
    cases = [
        Case(name, drawn, width, height, eyes, "passes" if drawn is None else chosen_way(stand, (width, height), eyes))
        for width, height in sizes
        for eyes in (1, 2)
        for name, drawn in [(CONTROL, None), *rungs.items()]
    ]
    other_outline = replace(rungs["baked"], antialias=not rungs["baked"].antialias)
    other = Case("baked, other outline", other_outline, *RATIO_SIZE, 2, chosen_way(stand, RATIO_SIZE, 2))
    for case in [*cases, other]:
        stand.load(case)
    at_once = stereo_cases(stand, rungs["baked"], RATIO_SIZE)
    foveated = foveated_cases(stand, rungs, [size for size in sizes if size[0] >= RATIO_SIZE[0]])
    timings = time_cases(stand, [*cases, other, *at_once, *foveated], options.seconds, progress)
    control = {(case.width, case.height, case.eyes): timings[case].summary() for case in cases if case.options is None}
    runs: list[dict[str, Any]] = []
    controls: list[dict[str, Any]] = []
    for case in cases:
        summary, plain = timings[case].summary(), control[case.width, case.height, case.eyes]
        row = {"rung": case.name, "width": case.width, "height": case.height, "eyes": case.eyes, "drawn": case.way, **summary}
        row["over_mesh"] = round(summary["p50_ms"] / plain["p50_ms"], 3)
        row["cpu_over_mesh"] = round(summary["cpu_ms"] / plain["cpu_ms"], 3)
        (controls if case.options is None else runs).append(row)
    at_ratio = {row["rung"]: row for row in runs if (row["width"], row["height"], row["eyes"]) == (*RATIO_SIZE, 2)}
    outline = at_ratio["baked"]["cpu_ms"] - timings[other].summary()["cpu_ms"]
    whole_views = {(f"{row['rung']}, foveated", row["width"], row["height"]): row for row in runs if row["eyes"] == 2}
    plain_mesh = control[*RATIO_SIZE, 2]
    foveation = [
        foveated_row(stand, case, timings[case], whole_views[case.name, case.width, case.height], plain_mesh)
        for case in foveated
    ]
    shares = {name: stage_shares(stand, Case(name, drawn, *RATIO_SIZE, 2)) for name, drawn in rungs.items()}
    same, whole, parity_reason = _parity(options, avatar, rungs, stand.renderer)
    shader = shader_ms(stand)
    forward = backward = None
    if avatar.neural_field is not None and parity_reason is None:
        forward, backward = training_ms(avatar.neural_field)
    in_bytes = None
    if avatar.neural_field is not None:
        from avatar3d.field.bake import losses_in_bytes

        in_bytes = dict(zip(("skin", "hair"), (round(value, 2) for value in losses_in_bytes(avatar)), strict=True))
    theirs = peers.get("nerfstudio")
    speedup = None
    if shader and isinstance(theirs, dict) and theirs.get("forward_cpu_ms"):
        speedup = round(theirs["forward_cpu_ms"] / shader, 2)
    result: dict[str, object] = {
        "runs": runs,
        "plain_mesh": controls,
        "baked_over_mesh": at_ratio["baked"]["over_mesh"],
        "live_over_mesh": at_ratio["live"]["over_mesh"],
        "reduced_over_mesh": at_ratio["reduced"]["over_mesh"],
        "stereo": stereo_result(at_once, timings),
        "foveation": foveation,
        "stage_shares": shares,
        "antialias_cpu_ms": round(outline if rungs["baked"].antialias else -outline, 3),
        "parity_psnr_db": same,
        "fidelity_psnr_db": whole,
        "parity_missing": parity_reason,
        "field": {
            "points": POINTS,
            "in_bytes_psnr_db": in_bytes,
            "shader_cpu_ms": _rounded(shader),
            "kernels_forward_cpu_ms": _rounded(forward),
            "kernels_training_cpu_ms": _rounded(backward),
            "nerfstudio": theirs if theirs is not None else PEERS_HINT,
        },
        "field_speedup_over_nerfstudio": speedup,
        "field_training_speedup_over_nerfstudio": (
            round(theirs["training_cpu_ms"] / backward, 2)
            if backward and isinstance(theirs, dict) and theirs.get("training_cpu_ms")
            else None
        ),
        "peers": peers.get("peers", {}) or {"missing": PEERS_HINT},
        "drawing": {size: choice.to_json() for size, choice in strategies.items()},
        "machine": machine(stand.renderer.info),
    }
    if options.growth:
        from avatar3d.bench.growth import growth

        result["growth"] = growth(stand, options.seconds)
    return result


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _parity(
    options: BenchOptions, avatar: Avatar, rungs: dict[str, RenderOptions], renderer: RealtimeRenderer
) -> tuple[dict[str, float | None], dict[str, float | None], str | None]:
    """Both comparisons of avatar3d.bench.parity, or nothing with the reason."""
    nothing: dict[str, float | None] = dict.fromkeys(rungs)
    if not options.parity:
        return nothing, dict(nothing), "left out with --no-parity"
    from avatar3d.bench.parity import parity

    view_count, expression_count = (12, 6) if options.thorough else (3, 1) if options.quick else (4, 2)
    try:
        same, whole = parity(avatar, rungs, renderer, view_count, expression_count)
    except ModuleNotFoundError as error:
        return nothing, dict(nothing), f"the reference renderer needs {error.name}; run: {install_extra('train')}"
    return dict(same), dict(whole), None


def machine(renderer_info: dict[str, str]) -> dict[str, object]:
    """What the figures were measured on; load1 is the load average before them over the cores, to judge them by."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load1": load,
        "renderer": renderer_info,
        "argv": sys.argv[1:],
    }
