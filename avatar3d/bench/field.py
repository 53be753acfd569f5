"""What one query of the field costs: in the shader, in the compiled kernels, and in training, against nerfstudio's where measured."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from avatar3d.avatar import FieldParams
from avatar3d.bench.measure import Stand, eye_cameras, steady
from avatar3d.motion.code import WEIGHT_COUNT
from avatar3d.rendering.frame import RenderOptions

POINTS = 65_536  # of a query, as nerfstudio was measured
SIDE_PX = 512
REPEATS = 7


def best_cpu_ms(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Least processor time of a call after one that warms it."""
    work()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times) * 1e3


def shader_ms(stand: Stand) -> float | None:
    """Processor milliseconds of POINTS field queries in the fragment shader: a bald head drawn live less drawn as a mesh."""
    avatar = stand.renderer.avatar
    if avatar.neural_field is None:
        return None
    live, mesh = RenderOptions("live", hair=False), RenderOptions("mesh", hair=False)
    stand.renderer.load(avatar, [live, mesh])
    cameras = eye_cameras(SIDE_PX, SIDE_PX, 2)
    areas = [(0, 0, SIDE_PX, SIDE_PX), (SIDE_PX, 0, SIDE_PX, SIDE_PX)]
    framebuffer = stand.framebuffer(2 * SIDE_PX, SIDE_PX)
    scene = stand.renderer.prepare(stand.motions[0])

    def draw(options: RenderOptions) -> None:
        stand.renderer.draw(scene, cameras, [framebuffer] * 2, options, viewports=areas)
        stand.context.finish()

    with steady():
        extra = best_cpu_ms(lambda: draw(live)) - best_cpu_ms(lambda: draw(mesh))
    covered = 0
    for camera in cameras:
        frame = stand.renderer.render(avatar, stand.motions[0], [camera], mesh)[0]
        covered += int(np.isfinite(frame.depth).sum())
    return max(extra, 0.0) / covered * POINTS


def training_ms(params: FieldParams, points: int = POINTS) -> tuple[float, float]:
    """Processor milliseconds of (a forward, a forward with backward) pass over so many points on one thread; needs torch."""
    import torch

    from avatar3d.field.network import NeuralField

    field = NeuralField(params)
    generator = torch.Generator().manual_seed(0)
    low, high = torch.from_numpy(params.box_min), torch.from_numpy(params.box_max)
    positions = low + (high - low) * torch.rand((points, 3), generator=generator)
    d = torch.nn.functional.normalize(torch.randn((points, 3), generator=generator), dim=1)
    weights = torch.zeros(WEIGHT_COUNT)

    def forward() -> torch.Tensor:
        color, alpha = field(positions, d, weights)
        return color.square().mean() + alpha.square().mean()

    def backward() -> None:
        field.zero_grad(set_to_none=True)
        forward().backward()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            ahead = best_cpu_ms(forward, 3)
        return ahead, best_cpu_ms(backward, 3)
    finally:
        torch.set_num_threads(threads)
