"""What drawing costs: one slow frame says nothing, two do; what is old is not known."""

from __future__ import annotations

import pytest

from avatar3d.runtime.costs import Cost, forecast_ms, is_drawn, is_known, updated

MEMORY, SPREAD, FORGET_S = 0.2, 2.0, 10.0


def after(*frames_ms: float) -> Cost:
    cost = None
    for index, draw_ms in enumerate(frames_ms):
        cost = updated(cost, draw_ms, index / 60, MEMORY, SPREAD)
    assert cost is not None
    return cost


def test_a_steady_cost_is_forecast_as_it_is() -> None:
    assert forecast_ms(after(*[7.0] * 50), SPREAD) == pytest.approx(7.0)
    assert forecast_ms(None, SPREAD) == 0.0


def test_of_the_first_two_frames_the_quicker_counts() -> None:
    assert after(90.0, 6.0).mean == after(6.0, 90.0).mean == 6.0


def test_one_slow_frame_says_nothing_and_two_do() -> None:
    steady = after(*[7.0] * 30)
    once = updated(steady, 40.0, 1.0, MEMORY, SPREAD)
    twice = updated(once, 40.0, 1.02, MEMORY, SPREAD)
    assert forecast_ms(once, SPREAD) == pytest.approx(7.0)
    assert forecast_ms(twice, SPREAD) > 12.0


def test_what_varies_is_forecast_above_its_mean() -> None:
    cost = after(*[6.0, 8.0, 8.0] * 40)
    assert 6.5 < cost.mean < 8.0 and forecast_ms(cost, SPREAD) > cost.mean + 1


def test_a_cost_is_forgotten_and_one_measured_before_is_not_drawn() -> None:
    cost = after(7.0, 7.0)
    assert is_known(cost, 5.0, FORGET_S) and is_drawn(cost, 5.0, FORGET_S)
    assert not is_known(cost, 20.0, FORGET_S) and not is_drawn(cost, 20.0, FORGET_S)
    before = Cost(7.0, 0.0, 0.0, 7.0)
    assert is_known(before, 5.0, FORGET_S) and not is_drawn(before, 5.0, FORGET_S)
    assert not is_known(None, 0.0, FORGET_S)
