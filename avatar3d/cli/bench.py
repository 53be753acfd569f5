"""`avatar3d bench`: what each rung costs beside a plain mesh, and how near its picture is to the reference."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from avatar3d.bench import RATIO_SIZE
from avatar3d.cli.flags import add_tuning_flags
from avatar3d.errors import InputError
from avatar3d.extras import install_extra

SIZES = ((256, 256), (512, 512), (896, 1007), (1680, 1760))  # the last two: per eye of a simulated and of a real headset
QUICK_SIZES = ((512, 512),)
DEFAULT_SECONDS = 1.5
PEERS_HINT = "not measured; run tools/bench_peers and pass its file with --peers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("avatar", type=Path)
    parser.add_argument("-o", "--out", type=Path, help="folder for bench.json, and growth.png with --growth")
    parser.add_argument("--quick", action="store_true", help="one size, 512×512, and a small parity check")
    parser.add_argument("--thorough", action="store_true", help="parity over 12 views × 6 expressions")
    parser.add_argument("--growth", action="store_true", help="cost against hair levels, resolution and number of heads")
    parser.add_argument("--no-parity", action="store_true", help="skip the comparison with the reference (which needs torch)")
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="time for each case (default: %(default)s)")
    parser.add_argument("--peers", type=Path, help="what tools/bench_peers wrote")
    add_tuning_flags(parser)


def run(arguments: argparse.Namespace) -> tuple[dict[str, object], list[str]]:
    """Measure; returns the result for --json and the lines of the table. Raises InputError on wrong arguments."""
    from avatar3d.bench.measure import Stand
    from avatar3d.files import make_folder, replacing
    from avatar3d.glb import read_glb
    from avatar3d.progress import ProgressBar
    from avatar3d.runtime.governor import read_config

    if not 0.05 <= arguments.seconds <= 600:
        raise InputError(f"--seconds {arguments.seconds:g} is outside 0.05..600")
    peers = _read_peers(arguments.peers)
    if arguments.out is not None:
        make_folder(arguments.out)
    avatar = read_glb(arguments.avatar)
    rungs = {name: settings.options(1.0) for name, settings in read_config().rungs.items()}
    stand = Stand(avatar, list(rungs.values()))
    try:
        with ProgressBar(not arguments.quiet) as progress:
            result, lines = _measure(arguments, stand, rungs, peers, progress)
    finally:
        stand.close()
    if arguments.out is not None:
        with replacing(arguments.out / "bench.json") as temporary:
            temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        if arguments.growth:
            from avatar3d.bench.growth import plot

            with replacing(arguments.out / "growth.png") as temporary:
                plot(result["growth"], temporary)  # type: ignore[arg-type]
    return result, lines


def _read_peers(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        peers = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} as what tools/bench_peers writes: {error}") from error
    if not isinstance(peers, dict) or not isinstance(peers.get("peers"), dict):
        raise InputError(f"{path} is not what tools/bench_peers writes: it has no peers")
    return peers


def _measure(
    arguments: argparse.Namespace, stand: Any, rungs: dict[str, Any], peers: dict[str, Any], progress: Any
) -> tuple[dict[str, object], list[str]]:
    from avatar3d.bench.field import POINTS, shader_ms, training_ms
    from avatar3d.bench.measure import CONTROL, Case, stage_shares, time_cases
    from avatar3d.bench.stereo import chosen_way, foveated_cases, foveated_row, stereo_cases, stereo_result

    avatar = stand.renderer.avatar
    sizes = QUICK_SIZES if arguments.quick else SIZES
    strategies = {f"{width}x{height}": stand.tune(width, height, arguments.tuning, arguments.quiet) for width, height in sizes}
    cases = [
        Case(name, options, width, height, eyes, "passes" if options is None else chosen_way(stand, (width, height), eyes))
        for width, height in sizes
        for eyes in (1, 2)
        for name, options in [(CONTROL, None), *rungs.items()]
    ]
    other_outline = replace(rungs["baked"], antialias=not rungs["baked"].antialias)
    other = Case("baked, other outline", other_outline, *RATIO_SIZE, 2, chosen_way(stand, RATIO_SIZE, 2))
    for case in [*cases, other]:
        stand.load(case)
    at_once = stereo_cases(stand, rungs["baked"], RATIO_SIZE)
    foveated = foveated_cases(stand, rungs, [size for size in sizes if size[0] >= RATIO_SIZE[0]])
    timings = time_cases(stand, [*cases, other, *at_once, *foveated], arguments.seconds, progress)
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
    shares = {name: stage_shares(stand, Case(name, options, *RATIO_SIZE, 2)) for name, options in rungs.items()}
    same, whole, parity_reason = _parity(arguments, avatar, rungs, stand.renderer)
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
    if arguments.growth:
        from avatar3d.bench.growth import growth

        result["growth"] = growth(stand, arguments.seconds)
    return result, _table(result)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _parity(
    arguments: argparse.Namespace, avatar: Any, rungs: dict[str, Any], renderer: Any
) -> tuple[dict[str, float | None], dict[str, float | None], str | None]:
    """Both comparisons of avatar3d.bench.parity, or nothing with the reason."""
    nothing: dict[str, float | None] = dict.fromkeys(rungs)
    if arguments.no_parity:
        return nothing, dict(nothing), "left out with --no-parity"
    from avatar3d.bench.parity import parity

    view_count, expression_count = (12, 6) if arguments.thorough else (3, 1) if arguments.quick else (4, 2)
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


def _table(result: dict[str, object]) -> list[str]:
    lines = [
        f"{'times in ms':12} {'size':>10} {'eyes':>4} {'p50':>8} {'p95':>8} {'p99':>8} {'max':>8} {'cpu':>8} {'÷ mesh':>7} {'÷ cpu':>6}"
    ]
    for row in [*result["plain_mesh"], *result["runs"]]:  # type: ignore[misc]
        size = f"{row['width']}×{row['height']}"
        numbers = " ".join(f"{row[key]:8.2f}" for key in ("p50_ms", "p95_ms", "p99_ms", "max_ms", "cpu_ms"))
        ratios = f"{row['over_mesh']:7.2f} {row['cpu_over_mesh']:6.2f}"
        lines.append(f"{row['rung']:12} {size:>10} {row['eyes']:>4} {numbers} {ratios}")
    for title, key in (
        ("against the reference, same settings", "parity_psnr_db"),
        ("against the live whole", "fidelity_psnr_db"),
    ):
        values = result[key]
        shown = ", ".join(f"{name} {'-' if value is None else f'{value:.1f} dB'}" for name, value in values.items())  # type: ignore[attr-defined]
        lines.append(f"{title}: {shown}")
    for way, row in result["stereo"].items():  # type: ignore[attr-defined]
        if row is not None and way != "passes":
            lines.append(f"baked, both eyes at once ({way}): {row['over_passes']:.2f} of the processor time of two passes")
    for row in result["foveation"]:  # type: ignore[attr-defined]
        lines.append(
            f"{row['rung']}, foveated, {row['width']}×{row['height']}: p50 {row['p50_ms']:.2f} ms, "
            f"{row['cpu_over_whole']:.2f} of the whole's processor time; {row['psnr_inset_db']:.1f} dB in the inset, "
            f"{row['psnr_whole_db']:.1f} dB in all"
        )
    for size, choice in result["drawing"].items():  # type: ignore[attr-defined]
        lines.append(f"drawn at {size}, {choice['source']}: {', '.join(choice['strategy'].values())}")
    held = result["field"]["in_bytes_psnr_db"]  # type: ignore[index]
    if held is not None:
        lines.append(f"field in 8 bits against itself: skin {held['skin']:.1f} dB, hair {held['hair']:.1f} dB")
    speedup = result["field_speedup_over_nerfstudio"]
    lines.append(f"field query ÷ nerfstudio: {'not measured' if speedup is None else f'{speedup:.1f} times faster'}")
    return lines
