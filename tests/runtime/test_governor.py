"""The governor: the right rung for each cause within two frames, and the climb back without oscillation."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.errors import InputError
from avatar3d.resources import config_path
from avatar3d.runtime.governor import (
    BAKED,
    BLENDSHAPE,
    LIVE,
    REDUCED,
    RUNGS,
    GovernorState,
    Observation,
    read_config,
    start,
    step,
)

CONFIG = replace(read_config(), settle_frames=0)
PERIOD_MS = 1000 / 72
ALL = (True, True, True, True)
CHEAP = (4.0, 3.0, 2.0, 1.0)


def _started(costs=CHEAP, available=ALL, time_s=0.0) -> GovernorState:
    return start(available, costs, PERIOD_MS, time_s, CONFIG)


def _run(state, seconds, from_s, draw_ms=None, config=CONFIG, **seen):
    """Frames at 72 Hz; draw_ms: by rung, or None for CHEAP. Returns (state, every state on the way)."""
    states = []
    for index in range(round(seconds * 72)):
        cost = (draw_ms or CHEAP)[state.rung]
        late = seen.get("late", cost > PERIOD_MS)
        rest = {key: value for key, value in seen.items() if key != "late"}
        state = step(state, Observation(from_s + index / 72, cost, PERIOD_MS, late, **rest), config)
        states.append(state)
    return state, states


def test_live_needs_a_measurement_that_fits():
    assert _started().rung == LIVE
    assert _started((None, 3.0, 2.0, 1.0)).rung == BAKED
    assert _started((60.0, 12.0, 9.0, 1.0)).rung == REDUCED
    assert _started((60.0, 50.0, 40.0, 30.0)).rung == BLENDSHAPE


def test_an_avatar_without_a_field_has_only_the_last_rung():
    state = _started((None, None, None, 1.0), (False, False, False, True))
    state, _ = _run(state, 5, 0.0)
    assert state.rung == BLENDSHAPE


def test_two_late_frames_in_a_row_lead_to_the_last_rung_and_one_does_not():
    state = _started()
    once = step(state, Observation(1.0, 4.0, PERIOD_MS, late=True), CONFIG)
    assert once.rung == LIVE
    spared = step(once, Observation(1.014, 4.0, PERIOD_MS), CONFIG)
    assert step(spared, Observation(1.028, 4.0, PERIOD_MS, late=True), CONFIG).rung == LIVE
    twice = step(once, Observation(1.014, 4.0, PERIOD_MS, late=True), CONFIG)
    assert twice.rung == BLENDSHAPE
    assert (twice.change.source, twice.change.target, twice.change.cause) == ("live", "blendshape", "late")


@pytest.mark.parametrize("heat", [{"temperature_c": 45.5}, {"thermal_notice": True}])
def test_heat_leads_to_reduced_in_one_frame_and_back_when_cool(heat):
    state = _started()
    state, states = _run(state, 3, 0.0, **heat)
    assert states[0].rung == REDUCED and states[0].change.cause == "hot"
    assert all(entry.rung == REDUCED for entry in states)
    # Just under the limit it is not cool yet.
    state, states = _run(state, 3, 3.0, temperature_c=44.0)
    assert state.rung == REDUCED
    state, states = _run(state, 4, 6.0, temperature_c=40.0)
    assert state.rung == LIVE


def test_a_slow_gpu_is_left_within_two_frames_and_the_climb_is_one_rung_at_a_time():
    state, _ = _run(_started(), 2, 0.0)
    state, states = _run(state, 2 / 72, 2.0, draw_ms=(40.0, 3.0, 2.0, 1.0))
    assert state.rung > LIVE
    state, states = _run(state, 30, 2.1)
    rungs = [entry.rung for entry in states]
    assert rungs[-1] == LIVE
    assert all(after >= before - 1 for before, after in itertools.pairwise(rungs))


def test_a_forecast_over_the_budget_goes_one_rung_down_before_any_frame_is_late():
    slow = (PERIOD_MS * 0.9, 3.0, 2.0, 1.0)
    _state, states = _run(_started(), 1.0, 0.0, draw_ms=slow, late=False)
    change = next(entry.change for entry in states if entry.change)
    assert (change.target, change.cause) == ("baked", "forecast")


def test_one_slow_frame_is_not_the_rungs_and_two_are():
    state, _ = _run(_started(), 1, 0.0)
    spike = Observation(1.0, PERIOD_MS * 2, PERIOD_MS)
    state = step(state, spike, CONFIG)
    assert state.rung == LIVE
    calm, _ = _run(state, 1, 1.014)
    assert calm.rung == LIVE
    again = step(state, replace(spike, time_s=1.014), CONFIG)
    assert again.rung == BAKED and again.change.cause == "forecast"


def test_the_first_frames_of_a_session_are_not_the_rungs():
    config = replace(CONFIG, settle_frames=4)
    state = start(ALL, CHEAP, PERIOD_MS, 0.0, config)
    state, states = _run(state, 4 / 72, 0.0, draw_ms=(60.0,) * 4, config=config)
    assert all(entry.rung == LIVE for entry in states)
    assert step(state, Observation(1.0, 60.0, PERIOD_MS, temperature_c=50.0), config).rung == REDUCED
    state, _ = _run(state, 2 / 72, 1.0, draw_ms=(60.0,) * 4, config=config)
    assert state.rung == BLENDSHAPE


def test_a_rung_that_is_tried_again_is_not_judged_by_its_first_frame():
    dear = (200.0, 100.0, 50.0, 1.0)
    state, states = _run(_started(dear), 9, 0.0, draw_ms=dear)
    at_s = 9.0
    while state.rung == BLENDSHAPE:
        state, at_s = step(state, Observation(at_s, 1.0, PERIOD_MS), CONFIG), at_s + 1 / 72
    assert state.change.cause == "steady"
    tried = step(state, Observation(at_s, 30.0, PERIOD_MS), CONFIG)
    assert tried.rung == state.rung
    assert step(tried, Observation(at_s + 1 / 72, 30.0, PERIOD_MS), CONFIG).rung > state.rung


def test_a_silent_source_is_told_and_changes_no_rung():
    state, _ = _run(_started(), 1, 0.0, source_age_s=0.5)
    assert state.silent and state.rung == LIVE
    state, _ = _run(state, 1, 1.0, source_age_s=0.01)
    assert not state.silent


def test_a_rung_that_is_always_too_dear_is_tried_ever_more_rarely():
    dear = (200.0, 100.0, 50.0, 1.0)
    _state, states = _run(_started(dear), 300, 0.0, draw_ms=dear)
    climbs = [entry.change.time_s for entry in states if entry.change and entry.change.cause == "steady"]
    assert 1 <= len(climbs) <= 12
    gaps = [after - before for before, after in itertools.pairwise(climbs)]
    assert all(after > before - 2 / 72 for before, after in itertools.pairwise(gaps))
    assert sum(entry.rung == BLENDSHAPE for entry in states) > 0.99 * len(states)


def test_rest_is_taken_at_the_end_of_each_minute():
    config = replace(CONFIG, rest=True)
    _state, states = _run(_started(), 120, 0.0, config=config)
    resting = [index / 72 for index, entry in enumerate(states) if entry.rung == BLENDSHAPE]
    assert 2 * config.rest_for_s <= len(resting) / 72 <= 2 * config.rest_for_s + 2.5
    assert min(resting) >= config.rest_every_s - config.rest_for_s - 0.02


observations = st.builds(
    Observation,
    time_s=st.just(0.0),
    draw_ms=st.floats(0.1, 100.0),
    period_ms=st.just(PERIOD_MS),
    late=st.booleans(),
    temperature_c=st.none() | st.floats(10.0, 90.0),
    thermal_notice=st.booleans(),
    source_age_s=st.floats(0.0, 10.0),
)


@settings(max_examples=150)
@given(
    st.lists(observations, min_size=1, max_size=80),
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.just(True)),
    st.floats(0.005, 0.5),
)
def test_on_any_frames_the_ladder_keeps_its_promises(frames, available, spacing):
    state = start(available, (5.0, 4.0, 3.0, 2.0), PERIOD_MS, 0.0, CONFIG)
    late_run = 0
    for index, frame in enumerate(frames):
        before = state
        state = step(state, replace(frame, time_s=index * spacing), CONFIG)
        assert available[state.rung]
        assert (state.change is not None) == (state.rung != before.rung)
        climbed = before.rung - state.rung
        assert climbed <= 0 or not any(available[state.rung + 1 : before.rung])
        if frame.thermal_notice or (frame.temperature_c or 0) > CONFIG.hot_c:
            assert state.rung >= REDUCED
        late_run = late_run + 1 if frame.late else 0
        if late_run >= CONFIG.late_limit and before.rung == state.rung:
            assert state.rung == BLENDSHAPE or state.late_run < CONFIG.late_limit
        if climbed > 0:
            assert state.change.time_s - before.changed_s >= CONFIG.climb_after_s
        if state.change is not None:
            late_run = 0
        assert CONFIG.climb_after_s <= state.climb_after_s <= CONFIG.climb_after_max_s


def test_the_shipped_settings_are_those_of_the_design():
    assert (CONFIG.hot_c, CONFIG.late_limit, CONFIG.climb_after_s) == (45.0, 2, 1.0)
    assert [CONFIG.rungs[name].form for name in RUNGS] == ["live", "baked", "baked", "mesh"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hot_c": "warm"}, "hot_c is 'warm'"),
        ({"hot_c": 40.0}, "cool_c"),
        ({"rest": 1}, "true or false"),
        ({"budget_share": 0.5}, "climb_share"),
        ({"rebake_ms": -1}, "rebake_ms is -1"),
        ({"speed": 1}, "speed"),
        ({"settle_frames": 1.5}, "0, 1, 2"),
        ({"settle_frames": float("nan")}, "settle_frames is nan; expected a number"),
        ({"climb_after_s": float("inf")}, "climb_after_s is inf; expected a number"),
        ({"rungs": {"live": {}}}, "rungs must be"),
        ({"sensors": ["skin"]}, "pairs of a name"),
        ({"sensors": {"skin": "warm"}}, "pairs of a name"),
    ],
)
def test_wrong_settings_are_named(tmp_path, change, words):
    values = yaml.safe_load(config_path("governor.yaml").read_text(encoding="utf-8")) | change
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_config(path)


@pytest.mark.parametrize(
    ("key", "value"), [("form", "painted"), ("scale", 3.0), ("scale", "big"), ("hair_levels", 0), ("hair_levels", 2.5)]
)
def test_wrong_rungs_are_named(tmp_path, key, value):
    values = yaml.safe_load(config_path("governor.yaml").read_text(encoding="utf-8"))
    values["rungs"]["baked"][key] = value
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    with pytest.raises(InputError):
        read_config(path)


def test_a_file_that_is_missing_or_no_yaml_is_said_so(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_config(tmp_path / "none.yaml")
    for content in ("a: [", "[" * 5000):
        (tmp_path / "bad.yaml").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match="not YAML"):
            read_config(tmp_path / "bad.yaml")
