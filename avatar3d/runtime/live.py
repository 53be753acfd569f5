"""Live heads, whatever shows them: what a window and a headset share of setting the stage, of a frame, and of the report.

Whoever shows them owns the loop: it asks `pose` for the heads at a display time, draws them with the stage, and tells `drawn` how
long that took.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from avatar3d.motion.code import MotionCode
from avatar3d.rendering.opengl.autotune import Choice, choose
from avatar3d.rendering.opengl.draw_strategy import DrawStrategy
from avatar3d.rendering.opengl.foveation import FoveationSettings
from avatar3d.rendering.scene import Scene
from avatar3d.runtime.cast import Cast
from avatar3d.runtime.governor import GovernorConfig, Level
from avatar3d.runtime.ladder import Ladder
from avatar3d.runtime.sensors import resident_mb
from avatar3d.runtime.stage import EYES, Stage
from avatar3d.runtime.statistics import FrameStatistics, measured_ms


@dataclass(frozen=True)
class StageSettings:
    """How heads are shown.

    width, height: pixels of an eye's picture. eyes: one or two. background: linear, premultiplied. distance_m: of the viewer.
    tuning, quiet: see autotune.choose. stereo: of STEREO_CHOICES in avatar3d.choices. layers: whether the pictures of both eyes lie in
    layers that can be drawn at once. foveation, keeps_depth: see Stage.
    """

    width: int
    height: int
    eyes: int
    background: tuple[float, float, float, float]
    distance_m: float
    tuning: str = "never"
    quiet: bool = True
    stereo: str = "auto"
    layers: bool = False
    foveation: FoveationSettings | None = None
    keeps_depth: bool = False


@dataclass(frozen=True)
class Posed:
    """Heads that were posed for one frame, and sent to the GPU.

    motions: as shown. captured_ns: of the first head's newest measurement, None where there is none. display_ns: when they are seen.
    asked_ns, started_s, prepared_s: when posing began (monotonic clock and time.perf_counter) and ended.
    """

    scenes: list[Scene]
    motions: list[MotionCode]
    captured_ns: int | None
    display_ns: int
    asked_ns: int
    started_s: float
    prepared_s: float

    @property
    def prepare_ms(self) -> float:
        """What posing took."""
        return (self.prepared_s - self.started_s) * 1e3

    @property
    def expression_ms(self) -> float | None:
        """From the capture to the display."""
        return None if self.captured_ns is None else (self.display_ns - self.captured_ns) / 1e6

    @property
    def source_age_ms(self) -> float | None:
        """How old the capture was when it was asked for."""
        return None if self.captured_ns is None else (self.asked_ns - self.captured_ns) / 1e6


class LiveHeads:
    """A cast, the stage it stands on once that is set, the quality ladder, and what is counted.

    rung: keep to it, None: governed. layered: whether both eyes are drawn at once.
    """

    def __init__(self, cast: Cast, config: GovernorConfig, rung: str | None = None) -> None:
        self.cast, self.config = cast, config
        self.statistics, self.ladder = FrameStatistics(), Ladder(config, rung)
        self.choice = Choice(DrawStrategy(), "default")
        self.costs: tuple[float | None, ...] = (None,) * len(config.levels)
        self.layered = False
        self._stage: Stage | None = None

    @property
    def stage(self) -> Stage:
        """What was set with `set_stage`."""
        assert self._stage is not None
        return self._stage

    @property
    def is_set(self) -> bool:
        """Whether the stage is set."""
        return self._stage is not None

    def set_stage(
        self,
        context: Any,
        settings: StageSettings,
        measuring: Callable[[], None] = lambda: None,
        loading: Callable[[], None] = lambda: None,
        between: Callable[[], None] = lambda: None,
    ) -> Stage:
        """Measure which way to draw is fastest in a current moderngl context, load the heads, and measure how long each level takes.

        measuring, loading: called where that begins. between: between two programs or trial frames; may end it by raising.
        """
        size = settings.width, settings.height
        self.choice = choose(
            context, self.cast.avatars[0], *size, settings.eyes, settings.tuning, settings.quiet, measuring, between
        )
        between()
        loading()
        strategy = self.choice.strategy
        if settings.stereo != "auto":
            strategy = replace(strategy, stereo=settings.stereo)
        self._stage = Stage(
            self.cast.avatars,
            context,
            self.config,
            settings.background,
            settings.distance_m,
            strategy,
            foveation=settings.foveation,
            keeps_depth=settings.keeps_depth,
            layers=settings.layers and settings.eyes == len(EYES) and strategy.stereo == "layers",
            between=between,
        )
        self.layered = self._stage.layers
        between()
        self.costs = self._stage.measure(*size, eyes=settings.eyes, between=between)
        gc.collect()
        gc.freeze()  # a full collection would walk the avatars and cost a frame or more
        return self._stage

    def begin(self, period_ms: float) -> None:
        """Take the ladder's first level, for frames of a display's period."""
        self.ladder.begin(self.stage.available, self.costs, period_ms)

    @property
    def level(self) -> Level:
        """Drawn next."""
        return self.ladder.level

    def pose(
        self,
        display_ns: int,
        viewer_m: np.ndarray | None,
        overlay: bool,
        change: Callable[[MotionCode], MotionCode] = lambda code: code,
        rebake: bool = False,
    ) -> Posed:
        """Pose the heads for a display time and send them; write the panel anew where it is time to.

        viewer_m: (3,) between the viewer's eyes, in the room, None: not known. overlay: show figures on the panel. change: what is done
        to each head's motion. rebake: let baked textures follow now, see Stage.rebake; else the caller does when there is time.
        """
        stage, started_s, asked_ns = self.stage, time.perf_counter(), time.monotonic_ns()
        told = [
            role.motion(display_ns, None if viewer_m is None else stage.viewer_in_head(index, viewer_m))
            for index, role in enumerate(self.cast.roles)
        ]
        motions = [change(code) for code, _ in told]
        scenes = stage.prepare(motions)
        if rebake:
            stage.rebake(scenes, self.level)
        lines = self.statistics.lines(self.ladder, self.cast, overlay)
        stage.lines = stage.lines if lines is None else lines
        return Posed(scenes, motions, told[0][1], display_ns, asked_ns, started_s, time.perf_counter())

    def drawn(self, posed: Posed, draw_ms: float, time_s: float, head_ms: float | None = None) -> None:
        """A frame was drawn and shown at a monotonic time; head_ms: the latency of the viewer's own movement, where it is known."""
        self.ladder.count()
        self.statistics.drawn(time_s, draw_ms, posed.prepare_ms, posed.expression_ms, head_ms, posed.source_age_ms)

    def observe(
        self, time_s: float, draw_ms: float, period_ms: float, late: bool, too_hot: Callable[[], bool] = lambda: False
    ) -> None:
        """Tell the ladder how the last frame went; see Ladder.observe."""
        self.statistics.late += late
        age_s = self.cast.source_age_s(time.monotonic_ns())
        self.ladder.observe(time_s, draw_ms, period_ms, late, age_s, too_hot)

    def report(self) -> dict[str, Any]:
        """What `--json` prints of heads that were shown, whatever showed them."""
        return {
            **self.statistics.figures(),
            **self.ladder.report(),
            "drawing": self.choice.to_json(),
            "layered": self.layered,
            "measured_ms": measured_ms(self.config, self.costs),
            "heads": len(self.cast.roles),
            "rss_mb": round(resident_mb(), 1),
        }

    def close(self) -> None:
        """Free the GL objects; the cast stays."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None
