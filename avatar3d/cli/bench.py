"""`avatar3d bench`: what each rung costs beside a plain mesh, and how near its picture is to the reference."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from avatar3d.bench.options import BenchOptions
from avatar3d.cli.command import Result, command
from avatar3d.errors import InputError
from avatar3d.settings import Option


@dataclass(frozen=True)
class Bench:
    """What `avatar3d bench` takes."""

    avatar: Annotated[Path, Option("", positional=True)]
    out: Annotated[Path | None, Option("folder for bench.json, and growth.png with --growth", ("-o", "--out"))] = None
    bench: BenchOptions = field(default_factory=BenchOptions)
    peers: Annotated[Path | None, Option("what tools/bench_peers wrote")] = None


def run(options: Bench, quiet: bool) -> Result:
    """Measure; (what --json prints, the lines of the table). Raises InputError on wrong arguments."""
    from avatar3d.bench.whole import bench
    from avatar3d.files import make_folder, replacing
    from avatar3d.glb import read_glb
    from avatar3d.progress import ProgressBar

    peers = _read_peers(options.peers)
    if options.out is not None:
        make_folder(options.out)
    avatar = read_glb(options.avatar)
    with ProgressBar(not quiet) as progress:
        result = bench(avatar, options.bench, peers, progress, quiet)
    if options.out is not None:
        with replacing(options.out / "bench.json") as temporary:
            temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        if options.bench.growth:
            from avatar3d.bench.growth import plot

            with replacing(options.out / "growth.png") as temporary:
                plot(result["growth"], temporary)  # type: ignore[arg-type]
    return result, _table(result)


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


COMMAND = command("bench", "time every rung, size and stage on this machine, beside a plain mesh", Bench, run)
