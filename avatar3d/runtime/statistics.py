"""What is counted while frames are shown, and the lines that the panel shows of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from avatar3d.choices import RUNGS
from avatar3d.rendering.opengl.panel import LINES, wrapped
from avatar3d.runtime.cast import Cast
from avatar3d.runtime.governor import GovernorConfig
from avatar3d.runtime.ladder import Ladder
from avatar3d.runtime.status import EVERY_S, Status

MAX_SAMPLES = 200_000  # of each latency; over half an hour at 90 Hz
RECENT_FRAMES = 30  # that the panel's figures are over


@dataclass
class FrameStatistics:
    """frames: begun. rendered: drawn and shown. late: that missed their time. untracked: while the viewer was not tracked."""

    frames: int = 0
    rendered: int = 0
    late: int = 0
    untracked: int = 0
    reconnects: int = 0
    recentered: int = 0
    head_latency_ms: list[float] = field(default_factory=list)
    expression_latency_ms: list[float] = field(default_factory=list)
    source_age_ms: list[float] = field(default_factory=list)
    draw_ms: list[float] = field(default_factory=list)
    prepare_ms: list[float] = field(default_factory=list)
    shown_s: float = 0.0  # time in which frames were shown, gaps between sessions left out
    timed: int = 0  # frames in that time
    cpu_s: float = 0.0  # of all threads of this process in that time, a software driver's too
    _recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_FRAMES))
    _written_s: float = float("-inf")

    def drawn(
        self,
        time_s: float,
        draw_ms: float,
        prepare_ms: float,
        expression_ms: float | None,
        head_ms: float | None = None,
        source_age_ms: float | None = None,
    ) -> None:
        """A frame was drawn at `time_s`; latencies are to its display, None where they are not known.

        source_age_ms: how old the newest capture was when the frame asked for it: the part of the expression's latency that is the
        source's, which speaks only so often; the rest is drawing, and the display's lead.
        """
        self.rendered += 1
        self._recent_s.append(time_s)
        if len(self.draw_ms) == MAX_SAMPLES:
            return
        self.draw_ms.append(draw_ms)
        self.prepare_ms.append(prepare_ms)
        if head_ms is not None:
            self.head_latency_ms.append(head_ms)
        if expression_ms is not None:
            self.expression_latency_ms.append(expression_ms)
        if source_age_ms is not None:
            self.source_age_ms.append(source_age_ms)

    def lines(self, ladder: Ladder, cast: Cast, wanted: bool) -> list[str] | None:
        """The panel's text when it is time to write it again, else None: the figures if `wanted`, and what must be said."""
        now_s = time.monotonic()
        if now_s - self._written_s < EVERY_S:
            return None
        self._written_s = now_s
        notice = cast.notice(time.monotonic_ns())
        figures = self._status(ladder, now_s).lines() if wanted else []
        return figures if notice is None else figures + wrapped(notice, LINES - len(figures))

    def _status(self, ladder: Ladder, now_s: float) -> Status:
        span = self._recent_s[-1] - self._recent_s[0] if len(self._recent_s) > 1 else 0.0
        change = ladder.changes[-1] if ladder.changes else None
        return Status(
            level=ladder.level,
            fps=(len(self._recent_s) - 1) / span if span > 0 else 0.0,
            draw_ms=_recent_mean(self.draw_ms) or 0.0,
            expression_latency_ms=_recent_mean(self.expression_latency_ms),
            head_latency_ms=_recent_mean(self.head_latency_ms),
            celsius=None if ladder.reading is None else ladder.reading.celsius,
            change=change,
            change_age_s=0.0 if change is None else now_s - change.time_s,
        )

    def figures(self) -> dict[str, Any]:
        """Counts, rate and percentiles, as `--json` prints them."""
        return {
            "frames": self.frames,
            "rendered": self.rendered,
            "late": self.late,
            "fps": round(self.timed / self.shown_s, 2) if self.shown_s > 0 and self.timed > 0 else 0.0,
            "cpu_ms_per_frame": round(self.cpu_s / self.rendered * 1e3, 2) if self.rendered else None,
            "draw_ms_p50": _percentile(self.draw_ms, 50),
            "draw_ms_p95": _percentile(self.draw_ms, 95),
            "prepare_ms_p50": _percentile(self.prepare_ms, 50),
            "expression_latency_ms_p50": _percentile(self.expression_latency_ms, 50),
            "expression_latency_ms_p95": _percentile(self.expression_latency_ms, 95),
            "source_age_ms_p50": _percentile(self.source_age_ms, 50),
            "source_age_ms_p95": _percentile(self.source_age_ms, 95),
        }

    def head_figures(self) -> dict[str, Any]:
        """The latency of the viewer's own movement, where it is measured."""
        return {
            "head_latency_ms_p50": _percentile(self.head_latency_ms, 50),
            "head_latency_ms_p95": _percentile(self.head_latency_ms, 95),
        }


def _recent_mean(values: list[float]) -> float | None:
    return float(np.mean(values[-RECENT_FRAMES:])) if values else None


def _percentile(values: list[float], share: float) -> float | None:
    return round(float(np.percentile(values, share)), 2) if values else None


def measured_ms(config: GovernorConfig, costs: Sequence[float | None]) -> dict[str, dict[str, float | None]]:
    """What each level took before the show, as `--json` prints it: {rung: {scale: ms, None where the avatars lack it}}."""
    told: dict[str, dict[str, float | None]] = {name: {} for name in RUNGS}
    for level, cost in zip(config.levels, costs, strict=True):
        told[RUNGS[level.rung]][f"{level.scale:g}"] = None if cost is None else round(cost, 2)
    return told


def thinned(values: list[float], count: int) -> list[float]:
    """At most `count` of the values, evenly over their course."""
    if len(values) <= count:
        return values
    return [values[int(index)] for index in np.linspace(0, len(values) - 1, count)]
