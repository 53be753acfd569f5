"""What a panel in the scene tells of the drawing: rung, rate, latencies, heat, and why the rung changed; lines of text."""

from __future__ import annotations

from dataclasses import dataclass

from avatar3d.choices import RUNGS
from avatar3d.runtime.governor import Change, Level

EVERY_S = 0.25  # text that changes faster cannot be read
RECENT_S = 8.0  # how long the cause of a change is told


@dataclass(frozen=True)
class Status:
    """What the panel tells. Latencies in ms, None where they are not known. change: the last one of the ladder and its age."""

    level: Level
    fps: float
    draw_ms: float
    expression_latency_ms: float | None = None
    head_latency_ms: float | None = None
    celsius: float | None = None
    change: Change | None = None
    change_age_s: float = 0.0

    def lines(self) -> list[str]:
        """At most panel.LINES - 1 lines; the last place is the notice's."""
        drawn = RUNGS[self.level.rung] if self.level.scale == 1 else f"{RUNGS[self.level.rung]} ×{self.level.scale:g}"
        texts = [f"{drawn}  {self.fps:.0f} fps  {self.draw_ms:.1f} ms"]
        latencies = [
            f"{name} {value:.0f} ms"
            for name, value in (("face", self.expression_latency_ms), ("head", self.head_latency_ms))
            if value is not None
        ]
        if self.celsius is not None:
            latencies.append(f"{self.celsius:.0f} °C")
        if latencies:
            texts.append("  ".join(latencies))
        if self.change is not None and self.change_age_s < RECENT_S:
            change = self.change
            target = f"×{change.target_scale:g}" if change.source == change.target else change.target
            texts.append(f"{change.source} to {target}: {change.cause}")
        return texts
