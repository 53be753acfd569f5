"""The quality ladder: which rung is drawn next, as a pure function of what was observed; reads no sensor and no clock.

Rungs, best first: live, baked, reduced, blendshape; a rung may be drawn at several scales before it is left, which makes the
levels of the ladder. A level that is forecast to be late, was late twice in a row or is late too often is left for the best one
whose measured cost fits, where none fits for the last; four late frames in a row lead to the last whatever was measured. Heat keeps
the ladder at `reduced` or below. It climbs one rung at a time after a steady wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

from avatar3d.choices import RUNGS, Form
from avatar3d.errors import InputError
from avatar3d.rendering.frame import Detail, Precision, RenderOptions
from avatar3d.resources import config_path
from avatar3d.runtime.costs import Cost, forecast_ms, is_drawn, is_known, updated
from avatar3d.settings import Within, check, read_settings

LIVE, BAKED, REDUCED, BLENDSHAPE = range(len(RUNGS))
MAX_CONFIG_BYTES = 100_000
MIN_SCALE = 0.25  # a picture coarser than a quarter is of no use to an eye


class Level(NamedTuple):
    """One way to draw: a rung (place in RUNGS), and drawn pixels along each axis as a share of what the headset asks for."""

    rung: int
    scale: float


@dataclass(frozen=True)
class RungSettings:
    """What a rung draws (see RenderOptions), and its scales (see Level), largest first.

    antialias: of the full scale alone; a coarser picture is softened when it is enlarged, for less.
    """

    form: Form
    hair_levels: int | None
    scales: tuple[Annotated[float, Within(MIN_SCALE, 1)], ...]
    precision: Precision = "half"
    antialias: bool = False
    detail: Detail = "full"

    def __post_init__(self) -> None:
        _ = self.options(1.0)  # raises where the renderer has no such drawing
        check(self, "a rung")
        if not self.scales or sorted(set(self.scales), reverse=True) != list(self.scales):
            raise InputError(f"scales is {list(self.scales)}; expected different numbers, the largest first")

    def options(self, scale: float) -> RenderOptions:
        """How the renderer draws this rung at a scale."""
        soft = self.antialias and scale == 1
        return RenderOptions(
            self.form, hair_levels=self.hair_levels, precision=self.precision, antialias=soft, detail=self.detail
        )


@dataclass(frozen=True)
class GovernorConfig:
    """The settings of configs/governor.yaml, where each is explained."""

    budget_share: Annotated[float, Within(0, 1, open=True)]
    climb_share: Annotated[float, Within(0, 1, open=True)]
    trial_share: Annotated[float, Within(0)]
    forecast_memory: Annotated[float, Within(0, 1, open=True)]
    forecast_spread: Annotated[float, Within(0)]
    forget_s: Annotated[float, Within(0)]
    settle_frames: Annotated[int, Within(0)]
    late_limit: Annotated[int, Within(1)]
    late_memory: Annotated[float, Within(0, 1, open=True)]
    late_share: Annotated[float, Within(0, open=True)]
    same_cost: Annotated[float, Within(0, 0.99)]
    climb_after_s: Annotated[float, Within(0, open=True)]
    climb_growth: Annotated[float, Within(1)]
    climb_after_max_s: Annotated[float, Within(0, open=True)]
    failed_within_s: Annotated[float, Within(0)]
    hot_c: float
    cool_c: float
    sensors: dict[str, float]
    silent_s: Annotated[float, Within(0)]
    rebake_ms: Annotated[float, Within(0)]
    rest: bool
    rest_every_s: Annotated[float, Within(0, open=True)]
    rest_for_s: Annotated[float, Within(0, open=True)]
    rungs: dict[str, RungSettings]

    @property
    def levels(self) -> tuple[Level, ...]:
        """Of the ladder, best first."""
        return tuple(Level(rung, scale) for rung, name in enumerate(RUNGS) for scale in self.rungs[name].scales)

    def at_scale(self, scale: float) -> GovernorConfig:
        """The same with every rung drawn at one scale. Raises InputError for a scale that makes no sense."""
        return replace(self, rungs={name: replace(rung, scales=(scale,)) for name, rung in self.rungs.items()})

    def __post_init__(self) -> None:
        check(self, "the governor")
        if not self.climb_share < self.budget_share:
            raise InputError("climb_share must be less than budget_share, or the ladder would be climbed and left without end")
        if not self.cool_c < self.hot_c:
            raise InputError(f"cool_c ({self.cool_c:g} °C) must lie under hot_c ({self.hot_c:g} °C)")
        if not self.rest_for_s < self.rest_every_s:
            raise InputError("rest_for_s must be shorter than rest_every_s")
        if list(self.rungs) != list(RUNGS):
            raise InputError(f"rungs must be {', '.join(RUNGS)}, in this order")


def read_config(path: str | Path | None = None, scale: float | None = None) -> GovernorConfig:
    """The settings of a YAML file, by default configs/governor.yaml; raises InputError naming what is missing or wrong.

    scale: for every rung instead of its own.
    """
    source = config_path("governor.yaml") if path is None else path
    config = read_settings(GovernorConfig, source, "governor settings", MAX_CONFIG_BYTES)
    return config if scale is None else config.at_scale(scale)


@dataclass(frozen=True)
class Observation:
    """What one frame told.

    time_s: when. draw_ms: what drawing it took at the current rung. period_ms: the display's. late: it missed its display
    time. temperature_c: of the hottest sensor, None where there is none. thermal_notice: the runtime says that it is too hot.
    source_age_s: since the motion source last spoke.
    """

    time_s: float
    draw_ms: float
    period_ms: float
    late: bool = False
    temperature_c: float | None = None
    thermal_notice: bool = False
    source_age_s: float = 0.0


@dataclass(frozen=True)
class Change:
    """One step on the ladder: from rung to rung and from scale to scale, at what time, for what cause (late, forecast, hot, rest,
    steady)."""

    time_s: float
    source: str
    target: str
    cause: str
    source_scale: float = 1.0
    target_scale: float = 1.0


@dataclass(frozen=True)
class GovernorState:
    """Where the ladder stands. level: place in `levels`, whose entries `available`, `measured` (ms before the session, None: not
    known; a lower level's is never above a higher one's) and `costs` (as drawn, None: never) have, too. settling: frames that are
    still the first ones, in which memory is touched for the first time: how long they take says nothing. change: the step just
    made, or None."""

    level: int
    levels: tuple[Level, ...]
    available: tuple[bool, ...]
    measured: tuple[float | None, ...]
    costs: tuple[Cost | None, ...]
    started_s: float
    steady_since_s: float
    changed_s: float
    climb_after_s: float
    settling: int = 0
    climbed: bool = False  # whether the last change was a climb
    late_run: int = 0
    late_share: float = 0.0  # running mean of the late frames since the last change
    hot: bool = False
    silent: bool = False
    change: Change | None = None

    @property
    def rung(self) -> int:
        """Place in RUNGS of what is drawn now."""
        return self.levels[self.level].rung

    @property
    def scale(self) -> float:
        """At which it is drawn."""
        return self.levels[self.level].scale


def start(
    available: tuple[bool, ...],
    measured_ms: tuple[float | None, ...],
    period_ms: float,
    time_s: float,
    config: GovernorConfig,
) -> GovernorState:
    """The first state: the best available level whose measured drawing time fits the budget; `live` only when measured to fit.

    available: one entry a rung, the last always True. measured_ms: one entry a level of the configuration. Raises ValueError when
    they are not.
    """
    levels = config.levels
    if len(available) != len(RUNGS) or len(measured_ms) != len(levels) or not available[BLENDSHAPE]:
        raise ValueError(f"expected {len(RUNGS)} rungs, the last one available, and {len(levels)} measured levels")
    there = tuple(available[level.rung] for level in levels)
    measured: list[float | None] = []
    least = float("inf")
    for cost in measured_ms:  # what is drawn of a lower level is less: where it took longer, something else was measured
        least = least if cost is None else min(least, cost)
        measured.append(None if cost is None else least)
    costs = tuple(None if cost is None else Cost(cost, 0.0, time_s, cost) for cost in measured_ms)
    state = GovernorState(
        0, levels, there, tuple(measured), costs, time_s, time_s, time_s, config.climb_after_s, config.settle_frames
    )
    usable = [level for level in _usable(state, -1) if levels[level].rung != LIVE or measured[level] is not None]
    estimates = {level: measured[level] or 0.0 for level in usable}
    return replace(state, level=_best_of(estimates, config.budget_share * period_ms, config))


def step(state: GovernorState, seen: Observation, config: GovernorConfig) -> GovernorState:
    """The state for the next frame after what the last one told; at most one change a call."""
    if state.settling:
        seen = replace(seen, late=False)
    costs = list(state.costs)
    before = costs[state.level]
    known = is_drawn(before, seen.time_s, config.forget_s)
    if not state.settling:
        costs[state.level] = updated(
            before if known else None, seen.draw_ms, seen.time_s, config.forecast_memory, config.forecast_spread
        )
    hot = seen.thermal_notice or _is_hot(state.hot, seen.temperature_c, config)
    late_run = state.late_run + 1 if seen.late else 0
    late_share = state.late_share + config.late_memory * (seen.late - state.late_share)
    state = replace(
        state,
        costs=tuple(costs),
        hot=hot,
        settling=max(0, state.settling - 1),
        silent=seen.source_age_s > config.silent_s,
        late_run=late_run,
        late_share=late_share,
        steady_since_s=seen.time_s if late_run >= config.late_limit else state.steady_since_s,
        climb_after_s=config.climb_after_s if state.climbed and not _soon(state, seen, config) else state.climb_after_s,
        change=None,
    )
    budget_ms, climb_ms, last = (
        config.budget_share * seen.period_ms,
        config.climb_share * seen.period_ms,
        _usable(state, -1)[-1],
    )
    if _resting(state, config, seen.time_s) and state.level != last:
        return _move(state, last, "rest", seen, config)
    if _resting(state, config, seen.time_s):
        return state
    best = _usable(state, -1)[0]
    if state.level < best:
        return _move(state, best, "hot", seen, config)
    below = _usable(state, state.level)
    if below and late_run >= 2 * config.late_limit:
        return _move(state, last, "late", seen, config)
    cost = state.costs[state.level]
    late = late_run >= config.late_limit or (seen.late and late_share > config.late_share)
    dear = known and forecast_ms(cost, config.forecast_spread) > budget_ms
    if below and before is not None and cost is not None and (late or dear):
        # Two frames in a row say more than those before them.
        now_ms = max(cost.mean, min(before.last, seen.draw_ms))
        saves_ms = now_ms * (1 - config.same_cost)
        enough_ms = max(saves_ms, budget_ms) if dear or now_ms > budget_ms else saves_ms
        estimates = {level: _estimate(state, level, now_ms, seen, config) for level in below}
        cheaper = {level: cost for level, cost in estimates.items() if cost <= enough_ms}
        # Late though it was drawn quickly: somebody else's doing, which drawing less would not help.
        if cheaper and now_ms > climb_ms:
            return _move(state, _best_of(cheaper, budget_ms, config), "late" if late else "forecast", seen, config)
    steady_s = seen.time_s - state.steady_since_s
    above = [level for level in _usable(state, -1) if level < state.level and state.levels[level].rung >= _rung_up(state)]
    if not above or steady_s < state.climb_after_s:
        return state
    expected = {level: _estimate(state, level, forecast_ms(cost, config.forecast_spread), seen, config) for level in above}
    fits = [level for level in above if expected[level] <= climb_ms]
    if not fits and steady_s >= config.forget_s and not is_known(state.costs[above[-1]], seen.time_s, config.forget_s):
        fits = [level for level in above[-1:] if expected[level] <= config.trial_share * seen.period_ms]
    return _move(state, fits[0], "steady", seen, config) if fits else state


def _is_hot(was_hot: bool, temperature_c: float | None, config: GovernorConfig) -> bool:
    if temperature_c is None:
        return False
    return temperature_c > config.hot_c or (was_hot and temperature_c > config.cool_c)


def _resting(state: GovernorState, config: GovernorConfig, time_s: float) -> bool:
    """Whether this is the rest at the end of each interval."""
    return config.rest and (time_s - state.started_s) % config.rest_every_s >= config.rest_every_s - config.rest_for_s


def _usable(state: GovernorState, below: int) -> list[int]:
    """The available levels below one (−1: all) that heat allows, best first; never empty for all."""
    there = [level for level, available in enumerate(state.available) if available]
    allowed = [level for level in there if not state.hot or state.levels[level].rung >= REDUCED] or there[-1:]
    return [level for level in allowed if level > below]


def _rung_up(state: GovernorState) -> int:
    """The next better rung that is available, or the current one."""
    return max(
        (state.levels[level].rung for level in _usable(state, -1) if state.levels[level].rung < state.rung), default=state.rung
    )


def _best_of(costs_ms: dict[int, float], budget_ms: float, config: GovernorConfig) -> int:
    """The best level whose cost fits the budget; where none does, the cheapest, or a better one that costs the same."""
    fits = [level for level, cost in costs_ms.items() if cost <= budget_ms]
    least = min(costs_ms.values())
    return min(fits) if fits else min(level for level, cost in costs_ms.items() if cost * (1 - config.same_cost) <= least)


def _soon(state: GovernorState, seen: Observation, config: GovernorConfig) -> bool:
    """Whether the last change is so fresh that a level which is left now has failed: the longer its climb waited, the longer it
    must hold, or a stall now and then would send the ladder up and down for ever."""
    return seen.time_s - state.changed_s < config.failed_within_s * state.climb_after_s / config.climb_after_s


def _estimate(state: GovernorState, level: int, now_ms: float, seen: Observation, config: GovernorConfig) -> float:
    """Drawing time to expect of another level, ms: as it was drawn lately, else as measured before the session, by as much more or
    less as the current level takes now (`now_ms`) against what was measured of it. 0 where nothing is known."""
    measured, own = state.measured[level], state.measured[state.level]
    if is_drawn(state.costs[level], seen.time_s, config.forget_s) or measured is None or not own:
        return forecast_ms(state.costs[level], config.forecast_spread)
    return measured * now_ms / own


def _move(state: GovernorState, target: int, cause: str, seen: Observation, config: GovernorConfig) -> GovernorState:
    down = target > state.level
    failed = down and state.climbed and cause in ("late", "forecast") and _soon(state, seen, config)
    wait = min(state.climb_after_s * config.climb_growth, config.climb_after_max_s) if failed else state.climb_after_s
    old, new = state.levels[state.level], state.levels[target]
    return replace(
        state,
        level=target,
        steady_since_s=seen.time_s,
        changed_s=seen.time_s,
        climb_after_s=wait,
        climbed=not down,
        late_share=0.0,
        late_run=state.late_run if down and target < len(state.levels) - 1 else 0,  # late at two levels in a row is late twice
        change=Change(seen.time_s, RUNGS[old.rung], RUNGS[new.rung], cause, old.scale, new.scale),
    )
