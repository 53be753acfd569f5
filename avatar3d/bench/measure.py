"""Times frames: wall clock and processor time of whole frames, interleaved with the control, and shares of their stages."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.bench.control import PlainMesh
from avatar3d.camera import HEAD_VIEW_HEIGHT_M, Camera, stereo_pair
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.culling.screen_region import ScreenRegion
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.opengl.autotune import Choice, choose, is_software
from avatar3d.rendering.opengl.context import create_context
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.foveation import Foveation, read_foveation
from avatar3d.rendering.opengl.layers import LayeredTarget
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.rendering.opengl.stereo import Stereo
from avatar3d.runtime.stage import outline_points
from avatar3d.runtime.views import cropped

CONTROL = "plain mesh"
# Not HEAD_MIDDLE_M: what is drawn must stay what it was when the table of speeds was measured, a centimetre lower and nearer.
TARGET_M = (0.0, -0.03, -0.05)
YAW_RAD = 0.2
ROUNDS = 4  # every case is visited in each, so that a busy moment hits all cases alike
MIN_FRAMES = 3  # of a case in a round
WARM_FRAMES = 1  # untimed at each visit: they meet the caches that the case before left


@dataclass(frozen=True)
class Case:
    """What is drawn: a rung's name with its options, or the control (options None); pixels of one eye; eyes.

    way: "passes", "layers" or "sides" (avatar3d.rendering.opengl.stereo), or "foveated": coarser away from the optical axes.
    """

    name: str
    options: RenderOptions | None
    width: int
    height: int
    eyes: int
    way: str = "passes"


@dataclass
class Timing:
    """Milliseconds of each frame: wall clock with a finished picture, and processor time over all threads."""

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """p50, p95, p99 and maximum of the wall time, median processor time."""
        wall = np.array(self.wall_ms)
        p50, p95, p99 = np.percentile(wall, [50, 95, 99])
        values = {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": wall.max(), "cpu_ms": np.median(self.cpu_ms)}
        return {name: round(float(value), 3) for name, value in values.items()} | {"frames": len(wall)}


def talking(count: int = 60) -> list[MotionCode]:
    """Motion codes of a head that talks, smiles, blinks and turns: a dozen active weights, two seconds at 30 Hz."""
    phase = 2 * np.pi * np.arange(count) / count
    codes = []
    for index, angle in enumerate(phase):
        wave = 0.5 + 0.5 * np.sin(angle * np.array([5, 1, 1, 3, 2, 4]))
        names = ("jawOpen", "mouthSmileLeft", "mouthSmileRight", "mouthFunnel", "browInnerUp", "mouthPressLeft")
        blink = float(index % 30 < 4)
        weights = dict(zip(names, wave * [0.5, 0.6, 0.6, 0.3, 0.5, 0.3], strict=True))
        code = MotionCode.from_expression({**weights, "eyeBlinkLeft": blink, "eyeBlinkRight": blink, "cheekSquintLeft": 0.2})
        turned = np.array([0.03 * np.sin(2 * angle), 0.08 * np.sin(angle), 0.0, 1.0])
        codes.append(MotionCode(weights=code.weights, rotation=turned, gaze=np.full((2, 2), 0.1 * np.sin(angle))))
    return codes


def eye_cameras(width: int, height: int, eyes: int, yaw_rad: float = YAW_RAD) -> list[Camera]:
    """One camera before the head, or the two of a viewer there."""
    center = Camera.orbit(yaw_rad, width=width, height=height, view_height_m=HEAD_VIEW_HEIGHT_M, target=TARGET_M)
    return list(stereo_pair(center)) if eyes == 2 else [center]


class Stand:
    """A renderer with an avatar, the control beside it, and a framebuffer for each size; frees all on `close`.

    Its context is current from the start to the end: leave other contexts alone meanwhile. `choices` holds how each size of
    picture is drawn, see `tune`.
    """

    def __init__(self, avatar: Avatar, options: Sequence[RenderOptions]) -> None:
        self.context = create_context()
        self.context.__enter__()
        self.renderer = RealtimeRenderer(self.context)
        self.renderer.load(avatar, list(options))
        self._options = list(options)
        self.choices: dict[tuple[int, int], Choice] = {}
        self.motions = talking()
        self._framebuffers: dict[tuple[int, int], Any] = {}
        self._layers: dict[tuple[int, int], LayeredTarget] = {}
        self.foveation = Foveation(self.context, read_foveation())
        self.control = PlainMesh(self.context, avatar, avatar.faces)

    def tune(self, width: int, height: int, mode: str, quiet: bool) -> Choice:
        """Choose how two eyes of this size are drawn from now on (avatar3d.rendering.opengl.autotune), and load that."""
        choice = self.choices[width, height] = choose(self.context, self.renderer.avatar, width, height, 2, mode, quiet)
        self.renderer.strategy = choice.strategy
        self.renderer.load(self.renderer.avatar, self._options)
        return choice

    def framebuffer(self, width: int, height: int) -> Any:
        """An 8-bit framebuffer, kept."""
        if (width, height) not in self._framebuffers:
            context = self.context
            color, depth = context.texture((width, height), 4), context.depth_texture((width, height))
            self._framebuffers[width, height] = context.framebuffer([color], depth)
            self.renderer.warm(self._framebuffers[width, height])
        return self._framebuffers[width, height]

    def frame(self, case: Case, index: int) -> None:
        """Pose, upload, draw, and wait for the picture."""
        cameras = eye_cameras(case.width, case.height, case.eyes)
        areas = [(eye * case.width, 0, case.width, case.height) for eye in range(case.eyes)]
        motion = self.motions[index % len(self.motions)]
        framebuffer = self.framebuffer(case.width * case.eyes, case.height)
        chosen = self.choices.get((case.width, case.height))
        self.renderer.strategy = chosen.strategy if chosen is not None else DrawStrategy()
        if case.options is None:
            self.control.draw(self.renderer.pose(motion), cameras, framebuffer, areas)
        elif case.way == "foveated":
            self._draw_foveated(case.options, motion, cameras, framebuffer, areas)
        elif case.way == "layers":
            layers = self._layered(case.width, case.height)
            self.renderer.draw(motion, cameras, [layers], case.options, viewports=areas[:1], stereo="layers")
        elif case.way == "sides":
            self.renderer.draw(motion, cameras, [framebuffer], case.options, stereo="sides")
        else:
            self.renderer.draw(motion, cameras, [framebuffer] * case.eyes, case.options, viewports=areas)
        self.context.finish()

    def _layered(self, width: int, height: int) -> Any:
        """A framebuffer of two layers, kept."""
        if (width, height) not in self._layers:
            self._layers[width, height] = LayeredTarget(self.context, width, height)
        return self._layers[width, height].framebuffer

    def _draw_foveated(
        self,
        options: RenderOptions,
        motion: MotionCode,
        cameras: Sequence[Camera],
        framebuffer: Any,
        areas: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """As the runtime does it: only what holds the head is joined from a coarse and a sharp picture."""
        scene = self.renderer.prepare(motion)
        parts, places = [], []
        for camera, (x, y, width, height) in zip(cameras, areas, strict=True):
            framebuffer.clear(viewport=(x, y, width, height))
            part = cropped(camera, outline_points(scene)) or camera
            left, top = np.rint(camera.intrinsics[:2, 2] - part.intrinsics[:2, 2]).astype(int).tolist()
            parts.append(part)
            places.append((x + left, y + height - top - part.height, part.width, part.height))

        def draw_views(
            seen: Sequence[Camera],
            targets: Sequence[Any],
            viewports: Sequence[tuple[int, int, int, int]],
            hidden: Sequence[np.ndarray | None],
            inside: Sequence[ScreenRegion | None],
            coarse: bool,
        ) -> None:
            own = self.foveation.settings.coarse_options(options) if coarse else options
            self.renderer.draw(scene, seen, targets, own, viewports=viewports, hidden=hidden, regions=inside)

        self.foveation.draw(draw_views, parts, [framebuffer] * len(parts), places)

    def load(self, case: Case) -> None:
        """Compile what a case draws with."""
        if case.options is None:
            return
        ways: dict[str, Sequence[Stereo]] = {"layers": ("layers",), "sides": ("sides",)}
        own = [case.options, self.foveation.settings.coarse_options(case.options)] if case.way == "foveated" else [case.options]
        self.renderer.load(self.renderer.avatar, own, ways.get(case.way, ("passes",)))

    def close(self) -> None:
        """Free the renderer and the context, which takes the rest along."""
        self.foveation.release()
        self.renderer.close()
        self.context.__exit__(None, None, None)
        self.context.release()


@contextmanager
def steady() -> Iterator[None]:
    """Keep the garbage collector out of the frames, as the runtime does: what was loaded is frozen."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def time_cases(
    stand: Stand,
    cases: Sequence[Case],
    seconds_a_case: float,
    progress: Callable[[float, str], None] = lambda share, text: None,
) -> dict[Case, Timing]:
    """Time every case for about so many seconds, in ROUNDS rounds; give the control of each size among the cases."""
    timings = {case: Timing() for case in cases}
    with steady():
        for visit in range(ROUNDS):
            for number, case in enumerate(cases):
                progress((visit * len(cases) + number) / (ROUNDS * len(cases)), f"{case.name} {case.width}×{case.height}")
                _visit(stand, case, timings[case], seconds_a_case / ROUNDS)
    return timings


def _visit(stand: Stand, case: Case, timing: Timing, seconds: float) -> None:
    for index in range(WARM_FRAMES):
        stand.frame(case, index)
    until = time.perf_counter() + seconds
    done = 0
    while done < MIN_FRAMES or time.perf_counter() < until:
        wall, cpu = time.perf_counter(), time.process_time()
        stand.frame(case, len(timing.wall_ms))
        timing.wall_ms.append((time.perf_counter() - wall) * 1e3)
        timing.cpu_ms.append((time.process_time() - cpu) * 1e3)
        done += 1


def stage_shares(stand: Stand, case: Case, frames: int = 12) -> dict[str, float]:
    """Share of each stage; they sum to one. Posing with its upload by the wall clock, what is drawn by GL timer queries.

    A software driver draws tile by tile after the last command, so that its queries all span the whole picture: there each
    stage is finished before the next begins, and timed by the processor time of all threads.
    """
    assert case.options is not None
    renderer = stand.renderer
    software = is_software(renderer.info["renderer"])
    clock = time.process_time if software else time.perf_counter
    totals: dict[str, float] = {"pose": 0.0}
    queries: list[tuple[str, Any]] = []

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        if software:
            stand.context.finish()
            started = clock()
            yield
            stand.context.finish()
            totals[name] = totals.get(name, 0.0) + clock() - started
            return
        query = stand.context.query(time=True)
        queries.append((name, query))
        with query:
            yield

    stand.frame(case, 0)  # compiles what the framebuffer's kind needs
    for index in range(frames):
        started = clock()
        renderer.prepare(stand.motions[index % len(stand.motions)])
        totals["pose"] += clock() - started
    renderer.stage = timed
    try:
        for index in range(frames):
            stand.frame(case, index)
    finally:
        renderer.stage = nullcontext
    for name, query in queries:
        totals[name] = totals.get(name, 0.0) + query.elapsed * 1e-9
    total = sum(totals.values())
    return {name: round(value / total, 4) for name, value in totals.items()}
