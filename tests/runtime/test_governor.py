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

SHIPPED = replace(read_config(), settle_frames=0)
CONFIG = SHIPPED.at_scale(1.0)  # rungs alone: one level each
PERIOD_MS = 1000 / 72
ALL = (True, True, True, True)
CHEAP = (4.0, 3.0, 2.0, 1.0)


def _started(costs=CHEAP, available=ALL, time_s=0.0) -> GovernorState:
    return start(available, costs, PERIOD_MS, time_s, CONFIG)


def _run(state, seconds, from_s, draw_ms=None, config=CONFIG, **seen):
    """Frames at 72 Hz; draw_ms: by rung, or None for CHEAP. Returns (state, every state on the way)."""
    states = []
    for index in range(round(seconds * 72)):
        cost = (draw_ms or CHEAP)[state.level]
        late = seen.get("late", cost > PERIOD_MS)
        rest = {key: value for key, value in seen.items() if key != "late"}
        state = step(state, Observation(from_s + index / 72, cost, PERIOD_MS, late, **rest), config)
        states.append(state)
    return state, states


def test_live_needs_a_measurement_that_fits():
    assert _started().rung == LIVE
    assert _started((None, 3.0, 2.0, 1.0)).rung == BAKED
    assert _started((60.0, 13.0, 9.0, 1.0)).rung == REDUCED
    assert _started((60.0, 50.0, 40.0, 30.0)).rung == BLENDSHAPE


def test_an_avatar_without_a_field_has_only_the_last_rung():
    state = _started((None, None, None, 1.0), (False, False, False, True))
    state, _ = _run(state, 5, 0.0)
    assert state.rung == BLENDSHAPE


def _late(state, count, draw_ms, at_s=1.0, config=CONFIG):
    for index in range(count):
        state = step(state, Observation(at_s + index / 72, draw_ms, PERIOD_MS, late=True), config)
    return state


def test_two_late_frames_in_a_row_lead_to_the_best_rung_that_fits_and_one_does_not():
    state = _started((8.0, 7.0, 4.0, 1.0))
    once = _late(state, 1, 20.0)
    assert once.rung == LIVE
    spared = step(once, Observation(1.014, 8.0, PERIOD_MS), CONFIG)
    assert _late(spared, 1, 20.0, 1.028).rung == LIVE
    # Live took 20 ms instead of 8: baked will take 17.5 now, reduced 10, which fits 0.8 of 13.9.
    twice = _late(state, 2, 20.0)
    assert twice.rung == REDUCED
    assert (twice.change.source, twice.change.target, twice.change.cause) == ("live", "reduced", "late")


def test_where_no_rung_fits_two_late_frames_lead_to_the_last():
    assert _late(_started((8.0, 7.0, 6.0, 4.0)), 2, 60.0).rung == BLENDSHAPE


def test_four_late_frames_in_a_row_lead_to_the_last_rung_whatever_was_measured():
    state = _late(_started((8.0, 7.0, 4.0, 1.0)), 2, 20.0)
    state = _late(state, 1, 9.0, 1.1)
    assert state.rung == REDUCED
    state = _late(state, 1, 9.0, 1.2)
    assert state.rung == BLENDSHAPE and state.change.cause == "late"


def test_late_frames_that_drawing_less_would_not_help_change_no_rung_at_first():
    """Drawing is quick, or the rungs below cost the same: somebody else holds the frames up."""
    for costs in ((4.0, 3.0, 2.0, 1.0), (10.4, 10.3, 10.2, 10.1)):
        state, _ = _run(_started(costs), 1, 0.0, draw_ms=costs)
        assert _late(state, 3, costs[0]).rung == LIVE


def test_a_lower_rung_that_costs_the_same_is_not_the_better_one_where_none_fits():
    assert _started((20.0, 12.2, 12.0, 11.9)).rung == BAKED
    assert _started((20.0, 14.0, 13.0, 11.9)).rung == BLENDSHAPE


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
    slow = (PERIOD_MS * 0.95, 3.0, 2.0, 1.0)
    _state, states = _run(_started(), 1.0, 0.0, draw_ms=slow, late=False)
    change = next(entry.change for entry in states if entry.change)
    assert (change.target, change.cause) == ("baked", "forecast")


def test_one_slow_frame_is_not_the_rungs_and_two_are():
    state, _ = _run(_started(), 1, 0.0)
    spike = Observation(1.0, PERIOD_MS * 1.05, PERIOD_MS)
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
    assert state.rung > LIVE


def test_a_rung_that_is_tried_again_is_not_judged_by_its_first_frame():
    dear = (200.0, 100.0, 25.0, 1.0)
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
    dear = (200.0, 100.0, 25.0, 1.0)
    _state, states = _run(_started(dear), 300, 0.0, draw_ms=dear)
    climbs = [entry.change.time_s for entry in states if entry.change and entry.change.cause == "steady"]
    assert 1 <= len(climbs) <= 12
    gaps = [after - before for before, after in itertools.pairwise(climbs)]
    assert all(after > before - 2 / 72 for before, after in itertools.pairwise(gaps))
    assert sum(entry.rung == BLENDSHAPE for entry in states) > 0.99 * len(states)
    hopeless = (200.0, 100.0, 50.0, 1.0)
    _state, states = _run(_started(hopeless), 300, 0.0, draw_ms=hopeless)
    assert {entry.rung for entry in states} == {BLENDSHAPE}


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
        if late_run >= 2 * CONFIG.late_limit and before.rung == state.rung:
            assert state.rung == BLENDSHAPE
        if climbed > 0:
            assert state.change.time_s - before.changed_s >= CONFIG.climb_after_s
        assert CONFIG.climb_after_s <= state.climb_after_s <= CONFIG.climb_after_max_s


class Machine:
    """Draws frames at 60 Hz: each level takes `level_ms`, times what all takes longer; ones that take too long are late."""

    def __init__(self, level_ms, config=SHIPPED, measured=None, stall_every=0):
        self.level_ms, self.config, self.slower, self.time_s = list(level_ms), config, 1.0, 0.0
        self.period_ms, self.frames, self.stall_every = 1000 / 60, 0, stall_every
        self.state = start(ALL, tuple(measured or level_ms), self.period_ms, 0.0, config)
        self.changes = []

    def run(self, seconds):
        """Levels of each frame: a rung's name and its scale."""
        seen = []
        for _ in range(round(seconds * 60)):
            self.frames += 1
            self.time_s += 1 / 60
            draw_ms = self.level_ms[self.state.level] * self.slower * (1 + 0.02 * (self.frames % 5 - 2))
            stalled = self.stall_every and self.frames % self.stall_every in (0, 1)
            late = draw_ms > 0.9 * self.period_ms or stalled
            seen.append((RUNGS[self.state.rung], self.state.scale))
            self.state = step(self.state, Observation(self.time_s, draw_ms, self.period_ms, bool(late)), self.config)
            if self.state.change is not None:
                self.changes.append(self.state.change)
        return seen


# As measured on two cores: live, baked at three scales, reduced at three, blendshape.
LEVEL_MS = (35.0, 10.8, 9.4, 8.9, 8.6, 8.4, 8.0, 7.9)


def test_the_ladder_finds_the_best_scale_that_holds_and_stays_there():
    """A compositor beside it makes everything dearer than it was measured."""
    machine = Machine(LEVEL_MS)
    machine.slower = 1.45
    first = machine.run(2)
    assert first[0] == ("baked", 1.0) and first[-1] == ("baked", 0.85)
    later = machine.run(298)
    share = later.count(("baked", 0.85)) / len(later)
    assert share > 0.97 and not {rung for rung, _ in later} - {"baked"}
    assert len(machine.changes) < 20


def test_coarser_pixels_come_before_the_rung_without_a_field():
    machine = Machine(LEVEL_MS)
    machine.slower = 1.75
    assert machine.run(30)[-1] == ("reduced", 0.6)
    machine.slower = 1.0
    assert machine.run(30)[-1] == ("baked", 1.0)
    climbs = [(change.source, change.target) for change in machine.changes if change.cause == "steady"]
    assert ("reduced", "baked") in climbs and ("reduced", "live") not in climbs


def test_a_climb_goes_to_the_best_scale_of_the_next_rung_that_fits():
    state = replace(start(ALL, LEVEL_MS, 1000 / 60, 0.0, SHIPPED), level=7)
    for index in range(1, 70):
        state = step(state, Observation(index / 60, 7.9, 1000 / 60), SHIPPED)
        if state.change is not None:
            break
    assert (state.change.source, state.change.target, state.change.target_scale) == ("blendshape", "reduced", 0.8)


@pytest.mark.parametrize("every", [400, 1000, 3000])
def test_stalls_that_are_nobodys_fault_do_not_send_it_up_and_down_for_ever(every):
    """Two late frames now and then, though drawing is quick, change nothing; where it is not, the level goes down to where it is."""
    machine = Machine(LEVEL_MS, stall_every=every)
    assert set(machine.run(300)) == {("baked", 1.0)}
    tight = Machine(LEVEL_MS, stall_every=every)
    tight.slower = 1.18
    seen = tight.run(600)
    assert all(rung == "baked" for rung, _ in seen) and len(tight.changes) <= 2 * 600 * 60 / every


def test_a_level_that_is_late_now_and_then_but_too_often_is_left():
    """One frame in six is late, never two in a row, though the forecast fits: the level is too near the edge."""
    level_ms = (35.0, 16.0, 13.5, 11.0, 9.5, 9.0, 8.5, 8.0)
    machine = Machine(level_ms)
    machine.run(1)
    assert (machine.state.rung, machine.state.scale) == (BAKED, 0.85)
    state, config = machine.state, machine.config
    for index in range(1, 200):
        late = index % 6 == 0
        state = step(state, Observation(1 + index / 60, 13.5, 1000 / 60, late), config)
        if state.change is not None:
            break
    assert index < 100 and (state.change.cause, state.scale, state.late_share) == ("late", 0.7, 0.0)
    seldom = machine.state
    for index in range(1, 400):
        seldom = step(seldom, Observation(1 + index / 60, 13.5, 1000 / 60, index % 40 == 0), config)
        assert seldom.change is None


def test_a_level_that_was_measured_too_dear_is_tried_in_time():
    measured = (35.0, 30.0, 29.0, 28.0, 8.6, 8.4, 8.0, 7.9)
    machine = Machine(LEVEL_MS, measured=measured)
    assert machine.run(5)[0] == ("reduced", 0.8)
    assert machine.run(60)[-1] == ("baked", 1.0)


def test_heat_is_obeyed_at_every_scale():
    state = start(ALL, LEVEL_MS, 1000 / 60, 0.0, SHIPPED)
    hot = step(state, Observation(1.0, 9.0, 1000 / 60, temperature_c=46.0), SHIPPED)
    assert (hot.rung, hot.scale, hot.change.cause) == (REDUCED, 0.8, "hot")
    assert (hot.change.source_scale, hot.change.target_scale) == (1.0, 0.8)


def test_a_pinned_scale_is_every_rungs():
    assert [level.scale for level in SHIPPED.at_scale(0.7).levels] == [0.7] * 4
    with pytest.raises(InputError, match=r"a rung: scales\[0\] is 3\.0; expected a number from 0\.25 to 1"):
        SHIPPED.at_scale(3.0)
    baked = SHIPPED.rungs["baked"]
    assert baked.options(1.0).antialias and not baked.options(0.7).antialias


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
        ({"same_cost": 1.0}, "same_cost is 1"),
        ({"late_share": 0.0}, "late_share is 0.0; expected a number over 0"),
        ({"rebake_ms": -1}, "rebake_ms is -1"),
        ({"speed": 1}, "'speed' is unknown"),
        ({"budget_shar": 1}, "'budget_shar' is unknown; expected budget_share"),
        ({"settle_frames": 1.5}, "expected a whole number of 0 or more"),
        ({"settle_frames": float("nan")}, "settle_frames is nan; expected a whole number"),
        ({"climb_after_s": float("inf")}, "climb_after_s is inf; expected a number"),
        ({"rungs": {"live": {}}}, "form, hair_levels, scales are missing in rungs.live"),
        ({"rungs": {}}, "rungs must be"),
        ({"sensors": ["skin"]}, "expected names, each with a number"),
        ({"sensors": {"skin": "warm"}}, "sensors.skin is 'warm'; expected a number"),
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
