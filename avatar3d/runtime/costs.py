"""What drawing costs: a running mean and variance of frames' times, and the forecast that the governor goes by; pure functions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Running mean and variance of a level's drawing time, ms and ms², when it was last drawn and how long that took, ms; frames:
    how often it was drawn in the session, 0 for what was measured before."""

    mean: float
    variance: float
    time_s: float
    last: float
    frames: int = 0


def forecast_ms(cost: Cost | None, spread: float) -> float:
    """Drawing time to expect, ms: so many standard deviations over the mean; 0 where nothing is known."""
    return 0.0 if cost is None else cost.mean + spread * cost.variance**0.5


def is_known(cost: Cost | None, time_s: float, forget_s: float) -> bool:
    """Whether a cost was drawn or measured lately: less than `forget_s` ago."""
    return cost is not None and time_s - cost.time_s < forget_s


def is_drawn(cost: Cost | None, time_s: float, forget_s: float) -> bool:
    """Whether a cost is told by frames of this session that were drawn lately."""
    return cost is not None and cost.frames > 0 and is_known(cost, time_s, forget_s)


def updated(cost: Cost | None, draw_ms: float, time_s: float, memory: float, spread: float) -> Cost:
    """Exponentially weighted mean and variance (West 1979) after a frame; cost: None where none is known of frames drawn lately.

    memory: the newest frame's weight. Of the first two frames the quicker one counts: what is drawn for the first time touches new
    memory. Later what is over the forecast counts as far as the frame before was, too: one slow frame is the machine's doing and says
    nothing of the level.
    """
    if cost is None:
        return Cost(draw_ms, 0.0, time_s, draw_ms, 1)
    if cost.frames == 1:
        return Cost(min(cost.mean, draw_ms), 0.0, time_s, draw_ms, 2)
    counted = draw_ms
    if counted > forecast_ms(cost, spread):
        counted = min(counted, max(cost.last, forecast_ms(cost, spread)))
    off = counted - cost.mean
    variance = (1 - memory) * (cost.variance + memory * off * off)
    return Cost(cost.mean + memory * off, variance, time_s, draw_ms, cost.frames + 1)
