"""The quality ladder: which rung is drawn next, as a pure function of what was observed; reads no sensor and no clock.

Rungs, best first: live, baked, reduced, blendshape. A rung that is forecast to be late is left for the next, two late frames in
a row lead to the last at once, heat keeps the ladder at `reduced` or below. It climbs one rung at a time after a steady wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from avatar3d.errors import InputError
from avatar3d.files import read_yaml, shown
from avatar3d.render.frame import Form, Precision, RenderOptions
from avatar3d.resources import config_path

RUNGS = ("live", "baked", "reduced", "blendshape")
LIVE, BAKED, REDUCED, BLENDSHAPE = range(len(RUNGS))
MAX_CONFIG_BYTES = 100_000
MIN_SCALE = 0.25  # a picture coarser than a quarter is of no use to an eye


@dataclass(frozen=True)
class RungSettings:
    """What a rung draws (see RenderOptions), and drawn pixels along each axis as a share of what the headset asks for."""

    form: Form
    hair_levels: int | None
    scale: float
    precision: Precision = "half"
    antialias: bool = False

    def __post_init__(self) -> None:
        _ = self.options  # raises where the renderer has no such drawing
        if not MIN_SCALE <= self.scale <= 1:
            raise InputError(f"a rung's scale is {self.scale}; expected {MIN_SCALE} to 1")

    @property
    def options(self) -> RenderOptions:
        """How the renderer draws this rung."""
        return RenderOptions(self.form, hair_levels=self.hair_levels, precision=self.precision, antialias=self.antialias)


@dataclass(frozen=True)
class GovernorConfig:
    """The settings of configs/governor.yaml, where each is explained."""

    budget_share: float
    climb_share: float
    forecast_memory: float
    forecast_spread: float
    forget_s: float
    settle_frames: int
    late_limit: int
    climb_after_s: float
    climb_growth: float
    climb_after_max_s: float
    failed_within_s: float
    hot_c: float
    cool_c: float
    sensors: dict[str, float]
    silent_s: float
    rebake_ms: float
    rest: bool
    rest_every_s: float
    rest_for_s: float
    rungs: dict[str, RungSettings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.climb_share < self.budget_share <= 1:
            raise InputError("the governor needs 0 < climb_share < budget_share ≤ 1, or it would climb and fall without end")
        if not self.cool_c < self.hot_c:
            raise InputError(f"the governor's cool_c ({self.cool_c:g} °C) must lie under its hot_c ({self.hot_c:g} °C)")
        if self.settle_frames < 0 or self.settle_frames != int(self.settle_frames):
            raise InputError(f"the governor's settle_frames is {self.settle_frames:g}; expected 0, 1, 2 and so on")
        if not 0 < self.forecast_memory <= 1 or self.late_limit < 1 or self.climb_growth < 1 or self.climb_after_s <= 0:
            raise InputError(
                "the governor needs forecast_memory in (0, 1], late_limit ≥ 1, climb_growth ≥ 1 and climb_after_s > 0"
            )
        if not 0 <= self.rebake_ms < float("inf"):
            raise InputError(f"the governor's rebake_ms is {self.rebake_ms}; expected milliseconds of a frame, 0 for never")
        if not 0 < self.rest_for_s < self.rest_every_s:
            raise InputError("the governor's rest_for_s must be positive and shorter than rest_every_s")


def read_config(path: str | Path | None = None) -> GovernorConfig:
    """The settings of a YAML file, by default configs/governor.yaml; raises InputError naming what is missing or wrong."""
    source = config_path("governor.yaml") if path is None else Path(path)
    values = read_yaml(source, "governor settings", MAX_CONFIG_BYTES)
    known = {entry.name for entry in fields(GovernorConfig)}
    if not isinstance(values, dict) or set(values) != known:
        given = set(values) if isinstance(values, dict) else set()
        wrong = sorted(map(shown, given ^ known))[:5]
        raise InputError(f"{source} lacks or misspells {', '.join(wrong)}; copy configs/governor.yaml and change its values")
    return _checked(values, source)


def _checked(values: dict[str, Any], source: Path) -> GovernorConfig:
    rungs = values["rungs"]
    if not isinstance(rungs, dict) or list(rungs) != list(RUNGS):
        raise InputError(f"{source}: rungs must be {', '.join(RUNGS)}, in this order")
    for name, value in values.items():
        if name in ("sensors", "rungs"):
            continue
        if isinstance(value, bool) != (name == "rest") or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InputError(f"{source}: {name} is {shown(value)}; expected {'true or false' if name == 'rest' else 'a number'}")
    sensors = values["sensors"]
    if not isinstance(sensors, dict) or not all(
        type(value) in (int, float) and math.isfinite(value) for value in sensors.values()
    ):
        raise InputError(f"{source}: sensors must be pairs of a name and the degrees that it may be hotter, such as skin: 0")
    try:
        settings = {name: RungSettings(**rung) for name, rung in rungs.items()}
        if not all(type(rung.hair_levels) in (int, type(None)) and type(rung.antialias) is bool for rung in settings.values()):
            raise TypeError("a rung's hair_levels or antialias is of another kind")
    except TypeError as error:
        raise InputError(
            f"{source}: a rung needs form, hair_levels (a number or null), scale (a number) and maybe precision"
        ) from error
    return GovernorConfig(
        **{**values, "sensors": {str(name): float(value) for name, value in sensors.items()}, "rungs": settings}
    )


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
    """One step on the ladder: from rung to rung, at what time, for what cause (late, forecast, hot, rest, steady)."""

    time_s: float
    source: str
    target: str
    cause: str


@dataclass(frozen=True)
class Cost:
    """Running mean and variance of a rung's drawing time, ms and ms², when it was last drawn and how long that took, ms."""

    mean: float
    variance: float
    time_s: float
    last: float


@dataclass(frozen=True)
class GovernorState:
    """Where the ladder stands. available, costs: one entry a rung. settling: frames that are still the first ones, in which
    memory is touched for the first time: how long they take says nothing. change: the step just made, or None."""

    rung: int
    available: tuple[bool, ...]
    costs: tuple[Cost | None, ...]
    started_s: float
    steady_since_s: float
    changed_s: float
    climb_after_s: float
    settling: int = 0
    climbed: bool = False  # whether the last change was a climb
    late_run: int = 0
    hot: bool = False
    silent: bool = False
    change: Change | None = None

    @property
    def name(self) -> str:
        """The current rung."""
        return RUNGS[self.rung]


def start(
    available: tuple[bool, ...], costs_ms: tuple[float | None, ...], period_ms: float, time_s: float, config: GovernorConfig
) -> GovernorState:
    """The first state: the best available rung whose measured drawing time fits the budget; `live` only when measured to fit.

    available, costs_ms: one entry a rung; the last rung is always available. Raises ValueError when they are not.
    """
    if len(available) != len(RUNGS) or len(costs_ms) != len(RUNGS) or not available[BLENDSHAPE]:
        raise ValueError(f"expected {len(RUNGS)} entries each, the last rung available")
    costs = tuple(None if cost is None else Cost(cost, 0.0, time_s, cost) for cost in costs_ms)
    rung = next(
        (
            rung
            for rung in range(BLENDSHAPE)
            if available[rung]
            and (rung != LIVE or costs[rung] is not None)
            and _forecast(costs[rung], config) <= config.budget_share * period_ms
        ),
        BLENDSHAPE,
    )
    return GovernorState(rung, available, costs, time_s, time_s, time_s, config.climb_after_s, config.settle_frames)


def step(state: GovernorState, seen: Observation, config: GovernorConfig) -> GovernorState:
    """The state for the next frame after what the last one told; at most one change a call."""
    if state.settling:
        seen = replace(seen, late=False)
    costs = list(state.costs)
    known = _known(costs[state.rung], seen, config)
    if not state.settling:
        costs[state.rung] = _updated(costs[state.rung], seen, config)
    hot = seen.thermal_notice or _is_hot(state.hot, seen.temperature_c, config)
    held = seen.time_s - state.changed_s >= config.failed_within_s
    state = replace(
        state,
        costs=tuple(costs),
        hot=hot,
        settling=max(0, state.settling - 1),
        silent=seen.source_age_s > config.silent_s,
        late_run=state.late_run + 1 if seen.late else 0,
        steady_since_s=seen.time_s if seen.late else state.steady_since_s,
        climb_after_s=config.climb_after_s if state.climbed and held else state.climb_after_s,
        change=None,
    )
    budget_ms = config.budget_share * seen.period_ms
    resting = _resting(state, config, seen.time_s)
    best = BLENDSHAPE if resting else _best(state)
    if state.rung < best:
        return _move(state, best, "rest" if resting else "hot", seen, config)
    if state.rung < BLENDSHAPE and state.late_run >= config.late_limit:
        return _move(state, BLENDSHAPE, "late", seen, config)
    if state.rung < BLENDSHAPE and known and _forecast(state.costs[state.rung], config) > budget_ms:
        return _move(state, _next_down(state), "forecast", seen, config)
    up = _next_up(state)
    if up is not None and up >= best and seen.time_s - state.steady_since_s >= state.climb_after_s:
        cost = state.costs[up]
        if not _known(cost, seen, config) or _forecast(cost, config) <= config.climb_share * seen.period_ms:
            return _move(state, up, "steady", seen, config)
    return state


def _is_hot(was_hot: bool, temperature_c: float | None, config: GovernorConfig) -> bool:
    if temperature_c is None:
        return False
    return temperature_c > config.hot_c or (was_hot and temperature_c > config.cool_c)


def _resting(state: GovernorState, config: GovernorConfig, time_s: float) -> bool:
    """Whether this is the rest at the end of each interval."""
    return config.rest and (time_s - state.started_s) % config.rest_every_s >= config.rest_every_s - config.rest_for_s


def _best(state: GovernorState) -> int:
    """The best available rung that heat allows."""
    return next(rung for rung in range(REDUCED if state.hot else LIVE, len(RUNGS)) if state.available[rung])


def _next_down(state: GovernorState) -> int:
    return next(rung for rung in range(state.rung + 1, len(RUNGS)) if state.available[rung])


def _next_up(state: GovernorState) -> int | None:
    return next((rung for rung in range(state.rung - 1, -1, -1) if state.available[rung]), None)


def _known(cost: Cost | None, seen: Observation, config: GovernorConfig) -> bool:
    """Whether a cost is told by frames that were drawn lately."""
    return cost is not None and seen.time_s - cost.time_s < config.forget_s


def _updated(cost: Cost | None, seen: Observation, config: GovernorConfig) -> Cost:
    """Exponentially weighted mean and variance (West 1979). What is over the forecast counts as far as the frame before was, too:
    one slow frame is the machine's doing and says nothing of the rung."""
    if cost is None or not _known(cost, seen, config):
        return Cost(seen.draw_ms, 0.0, seen.time_s, seen.draw_ms)
    share = config.forecast_memory
    counted = seen.draw_ms
    if counted > _forecast(cost, config):
        counted = min(counted, max(cost.last, _forecast(cost, config)))
    off = counted - cost.mean
    return Cost(cost.mean + share * off, (1 - share) * (cost.variance + share * off * off), seen.time_s, seen.draw_ms)


def _forecast(cost: Cost | None, config: GovernorConfig) -> float:
    """Drawing time to expect, ms; 0 where nothing is known."""
    return 0.0 if cost is None else cost.mean + config.forecast_spread * cost.variance**0.5


def _move(state: GovernorState, target: int, cause: str, seen: Observation, config: GovernorConfig) -> GovernorState:
    down = target > state.rung
    failed = down and state.climbed and cause in ("late", "forecast") and seen.time_s - state.changed_s < config.failed_within_s
    wait = min(state.climb_after_s * config.climb_growth, config.climb_after_max_s) if failed else state.climb_after_s
    return replace(
        state,
        rung=target,
        steady_since_s=seen.time_s,
        changed_s=seen.time_s,
        climb_after_s=wait,
        climbed=not down,
        late_run=state.late_run if down and target < BLENDSHAPE else 0,  # late at two rungs in a row is late twice
        change=Change(seen.time_s, RUNGS[state.rung], RUNGS[target], cause),
    )
