"""The quality ladder at work: feeds the governor with frames and sensors, and keeps the account of rungs and changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from avatar3d.choices import RUNGS
from avatar3d.errors import InputError
from avatar3d.runtime.governor import Change, GovernorConfig, GovernorState, Level, Observation, start, step
from avatar3d.runtime.sensors import Reading, hottest, resident_mb

SENSOR_EVERY_S = 1.0  # temperatures move slowly, and reading them costs a millisecond
KEPT_CHANGES = 50


class Ladder:
    """pinned: keep to this rung, None for the governor. read_sensors: what is the hottest, for tests; the machine by default."""

    def __init__(
        self, config: GovernorConfig, pinned: str | None = None, read_sensors: Callable[[], Reading | None] | None = None
    ) -> None:
        if pinned is not None and pinned not in RUNGS:
            raise InputError(f"unknown rung {pinned!r}; expected one of {', '.join(RUNGS)}")
        self._config, self._pinned = config, pinned
        self._read = read_sensors or (lambda: hottest(config.sensors))
        self._opened_s = time.monotonic()
        self._sensor_s = float("-inf")
        self._too_hot = False
        self.state: GovernorState | None = None
        self.reading: Reading | None = None
        self.frames = dict.fromkeys(RUNGS, 0)
        self.level_frames = dict.fromkeys(config.levels, 0)
        self.changes: list[Change] = []
        self.rss_mb: list[float] = []  # one at each look at the sensors

    def begin(
        self, available: tuple[bool, ...], measured_ms: tuple[float | None, ...], period_ms: float, time_s: float | None = None
    ) -> None:
        """Take the first level (see governor.start), or the first of the pinned rung. Raises InputError where the avatars lack that."""
        now_s = time.monotonic() if time_s is None else time_s
        self.state = start(available, measured_ms, period_ms, now_s, self._config)
        if self._pinned is not None:
            wanted = RUNGS.index(self._pinned)
            if not available[wanted]:
                raise InputError(f"this avatar lacks the rung {self._pinned}; enrol it with its field")
            self.state = replace(self.state, level=[level.rung for level in self.state.levels].index(wanted))

    @property
    def level(self) -> Level:
        """Drawn next; the best before `begin`."""
        return self._config.levels[0 if self.state is None else self.state.level]

    @property
    def rung(self) -> int:
        """Of the level."""
        return self.level.rung

    def count(self) -> None:
        """A frame was drawn at the current level."""
        self.frames[RUNGS[self.rung]] += 1
        self.level_frames[self.level] += 1

    def observe(
        self,
        time_s: float,
        draw_ms: float,
        period_ms: float,
        late: bool = False,
        source_age_s: float = 0.0,
        too_hot: Callable[[], bool] = lambda: False,
    ) -> None:
        """What the last frame told; looks at the sensors and asks the runtime whether it is `too_hot` now and then."""
        assert self.state is not None
        if time_s - self._sensor_s >= SENSOR_EVERY_S:
            self._sensor_s = time_s
            self.reading = self._read()
            self._too_hot = too_hot()
            self.rss_mb.append(resident_mb())
        if self._pinned is not None:
            return
        seen = Observation(
            time_s=time_s,
            draw_ms=draw_ms,
            period_ms=period_ms,
            late=late,
            temperature_c=None if self.reading is None else self.reading.as_skin_c,
            thermal_notice=self._too_hot,
            source_age_s=source_age_s,
        )
        self.state = step(self.state, seen, self._config)
        if self.state.change is not None:
            self.changes.append(self.state.change)

    def report(self) -> dict[str, Any]:
        """The ladder's part of what `--json` prints."""
        causes: dict[str, int] = {}
        for change in self.changes:
            causes[change.cause] = causes.get(change.cause, 0) + 1
        recent = self.changes[-KEPT_CHANGES:]
        return {
            "rungs": self.frames,
            "scales": {
                name: {f"{level.scale:g}": count for level, count in self.level_frames.items() if level.rung == rung and count}
                for rung, name in enumerate(RUNGS)
            },
            "rung_changes": causes,
            "trace": [{**asdict(change), "time_s": round(change.time_s - self._opened_s, 3)} for change in recent],
            "temperature_c": None if self.reading is None else self.reading.celsius,
            "sensor": None if self.reading is None else self.reading.name,
        }
