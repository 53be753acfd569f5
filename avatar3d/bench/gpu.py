"""What tools/bench_gpu runs: parity, every way to draw, bench and a short field training on the GPU, into one JSON file.

Each stage stands by itself, and the file is written after each: a driver that takes the process down loses that stage alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from avatar3d.errors import Avatar3dError, InputError, WorkError
from avatar3d.motion.code import WEIGHT_COUNT

TRAINING_POINTS, TRAINING_STEPS = 32_768, 200
DRY_POINTS, DRY_STEPS = 1024, 5  # where only the script is tried out
TRAINING_RATE = 1e-2
SECONDS_A_CASE = 1.0
SECONDS_A_VARIANT = 0.5  # for each choice and size
VARIANT_SIZES = ((512, 512), (1680, 1760))
DRY_SIZES = ((128, 128),)


def training(avatar: Any, device: str) -> dict[str, object]:
    """Fit a fresh field to the avatar's own one at random points, on a device with torch's back end: losses and ms a step."""
    import numpy as np
    import torch

    from avatar3d.field.definition import new_field
    from avatar3d.field.network import NeuralField

    teacher_params = avatar.neural_field
    if teacher_params is None:
        raise InputError("this avatar has no neural field to learn; enrol it with field training")
    fresh = new_field(seed=1, box_min=teacher_params.box_min, box_max=teacher_params.box_max)
    teacher = NeuralField(teacher_params, implementation="torch").to(device)
    student = NeuralField(fresh, implementation="torch").to(device)
    generator = torch.Generator(device=device).manual_seed(0)
    low, high = (torch.from_numpy(np.asarray(edge)).to(device) for edge in (fresh.box_min, fresh.box_max))
    weights = torch.zeros(WEIGHT_COUNT, device=device)
    points, steps = (TRAINING_POINTS, TRAINING_STEPS) if device == "cuda" else (DRY_POINTS, DRY_STEPS)
    optimiser = torch.optim.Adam(student.parameters(), lr=TRAINING_RATE)
    losses: list[torch.Tensor] = []
    started = time.perf_counter()
    for _ in range(steps):
        positions = low + (high - low) * torch.rand((points, 3), generator=generator, device=device)
        d = torch.nn.functional.normalize(torch.randn((points, 3), generator=generator, device=device), dim=1)
        with torch.no_grad():
            wanted = teacher(positions, d, weights)
        given = student(positions, d, weights)
        loss = sum(((a - b).square().mean() for a, b in zip(given, wanted, strict=True)), torch.zeros((), device=device))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    first, last = float(losses[0]), float(losses[-1])
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "steps": steps,
        "points": points,
        "ms_a_step": round(1e3 * (time.perf_counter() - started) / steps, 3),
        "loss_first": first,
        "loss_last": last,
    }


def measure(path: Path, device: str, keep: Callable[[dict[str, object]], None]) -> dict[str, object]:
    """Every stage's result, or {"error": reason}; told to `keep` after each stage."""
    # torch first: a CUDA build imported after a GL context was made may crash.
    import torch

    from avatar3d.bench import whole
    from avatar3d.bench.options import BenchOptions
    from avatar3d.bench.parity import parity
    from avatar3d.bench.variants import variants
    from avatar3d.glb import read_glb
    from avatar3d.rendering.opengl.autotune import is_software
    from avatar3d.rendering.opengl.context import create_context
    from avatar3d.rendering.opengl.renderer import RealtimeRenderer
    from avatar3d.runtime.governor import read_config

    avatar = read_glb(path)
    found: dict[str, object] = {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }

    def check_parity() -> dict[str, object]:
        renderer = RealtimeRenderer()
        try:
            rungs = {name: settings.options(1.0) for name, settings in read_config().rungs.items()}
            same, whole = parity(avatar, rungs, renderer, view_count=3, expression_count=2)
            return {"renderer": renderer.info, "parity_psnr_db": same, "fidelity_psnr_db": whole}
        finally:
            renderer.close()

    def bench() -> dict[str, object]:
        if device == "cuda":
            return whole.bench(avatar, BenchOptions(parity=False, seconds=SECONDS_A_CASE, tuning="again"), {})
        return whole.bench(avatar, BenchOptions(parity=False, seconds=0.05, quick=True), {})

    def opengl() -> dict[str, object]:
        context = create_context()
        try:
            names = {name: str(context.info[f"GL_{name.upper()}"]) for name in ("vendor", "renderer", "version")}
        finally:
            context.release()
        if device == "cuda" and is_software(names["renderer"]):
            raise WorkError(
                f"OpenGL draws on the processor ({names['renderer']}): name the GPU's EGL device, GLCONTEXT_DEVICE_INDEX=0, 1, ..., "
                "or its driver, __EGL_VENDOR_LIBRARY_FILENAMES=.../10_nvidia.json"
            )
        return dict(names)

    def every_way() -> dict[str, object]:
        context = create_context()
        try:
            with context:
                sizes = VARIANT_SIZES if device == "cuda" else DRY_SIZES
                return variants(context, avatar, sizes, SECONDS_A_VARIANT, lambda name: print(f"  {name}", file=sys.stderr))
        finally:
            context.release()

    stages: dict[str, Callable[[], dict[str, object]]] = {
        "training": lambda: training(avatar, device),
        "opengl": opengl,
        "parity": check_parity,
        "variants": every_way,
        "bench": bench,
    }
    run_stages(stages, found, keep)
    return found


def run_stages(
    stages: Mapping[str, Callable[[], dict[str, object]]],
    found: dict[str, object],
    keep: Callable[[dict[str, object]], None],
) -> None:
    """Add each stage's result, or {"error": reason}, with its seconds to `found`, which `keep` is given after each."""
    for name, stage in stages.items():
        print(f"bench_gpu: {name}", file=sys.stderr)
        started = time.perf_counter()
        try:
            result = stage()
        except Exception as error:  # whatever a driver or a CUDA library raises; the other stages are worth having
            result = {"error": f"{type(error).__name__}: {error}"}
        found[name] = {**result, "seconds": round(time.perf_counter() - started, 1)}
        keep(found)


def main(words: list[str] | None = None) -> int:
    """Run all stages; exit code 0, or 1 where one failed, or 2 on a wrong argument."""
    parser = argparse.ArgumentParser(prog="bench_gpu", description=__doc__)
    parser.add_argument("avatar", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the script out, and measures nothing new"
    )
    arguments = parser.parse_args(words)
    from avatar3d.files import check_writable, write_bytes

    try:
        check_writable(arguments.out)
        found = measure(
            arguments.avatar,
            arguments.device,
            lambda result: write_bytes(arguments.out, (json.dumps(result, indent=1) + "\n").encode()),
        )
    except Avatar3dError as error:
        print(f"bench_gpu: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(found))
    return int(any("error" in result for result in found.values() if isinstance(result, dict)))


if __name__ == "__main__":
    sys.exit(main())
