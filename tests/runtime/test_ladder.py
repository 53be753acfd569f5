"""The ladder at work: each cause, through the interface that sensors use, leads to its rung within two frames; then it climbs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from avatar3d.errors import InputError
from avatar3d.runtime.governor import RUNGS, read_config
from avatar3d.runtime.ladder import Ladder
from avatar3d.runtime.sensors import Reading

CONFIG = read_config().at_scale(1.0)  # rungs alone: one level each
PERIOD_MS = 1000 / 72
FITS_MS = 4.0
MEASURED_MS = (4.0, 3.5, 3.0, 2.5)
ALL = (True, True, True, True)


class Played:
    """A ladder over a simulated machine: `draw_ms` a rung, a `celsius` sensor, and how old the source is."""

    def __init__(self, monkeypatch, **changes):
        monkeypatch.setattr("avatar3d.runtime.ladder.SENSOR_EVERY_S", 0.0)
        self.celsius: float | None = 30.0
        self.draw_ms = dict.fromkeys(RUNGS, FITS_MS)
        self.source_age_s, self.notice, self.time_s = 0.0, False, 100.0
        self.ladder = Ladder(replace(CONFIG, **changes), read_sensors=self._read)
        self.ladder.begin(ALL, MEASURED_MS, PERIOD_MS, self.time_s)

    def _read(self):
        return None if self.celsius is None else Reading("skin", self.celsius, 0.0)

    def frames(self, count):
        """The rung after each of `count` frames."""
        rungs = []
        for _ in range(count):
            draw_ms = self.draw_ms[RUNGS[self.ladder.rung]]
            self.ladder.count()
            self.time_s += max(PERIOD_MS, draw_ms) / 1e3
            late = draw_ms > PERIOD_MS
            self.ladder.observe(self.time_s, draw_ms, PERIOD_MS, late, self.source_age_s, lambda: self.notice)
            rungs.append(RUNGS[self.ladder.rung])
        return rungs

    def seconds(self, seconds):
        return self.frames(round(seconds * 1000 / PERIOD_MS))


@pytest.fixture
def played(monkeypatch):
    played = Played(monkeypatch)
    assert set(played.frames(20)) == {"live"}
    return played


def test_a_hot_sensor_leads_to_reduced_and_back_when_it_has_cooled(played):
    played.celsius = 45.5
    assert played.frames(2)[-1] == "reduced"
    played.celsius = 44.0  # between cool_c and hot_c nothing changes
    assert set(played.seconds(5)) == {"reduced"}
    played.celsius = 42.0
    assert played.frames(2)[-1] == "baked"  # the steady second is over long since
    assert played.seconds(1.2)[-1] == "live"
    assert [change.cause for change in played.ladder.changes] == ["hot", "steady", "steady"]


def test_the_runtimes_notice_counts_as_heat(played):
    played.notice = True
    assert played.frames(2)[-1] == "reduced"
    played.notice = False
    assert played.seconds(3)[-1] == "live"


def test_a_sensor_that_is_pulled_out_does_not_keep_the_heat(played):
    played.celsius = 50.0
    played.frames(2)
    played.celsius = None
    assert played.seconds(3)[-1] == "live"


def test_a_gpu_that_stalls_leads_to_the_last_rung_in_two_frames_and_climbs_one_rung_at_a_time(played):
    played.draw_ms = dict.fromkeys(RUNGS, 3 * PERIOD_MS)
    assert played.frames(2)[-1] == "blendshape"
    assert set(played.frames(10)) == {"blendshape"}
    played.draw_ms = dict.fromkeys(RUNGS, FITS_MS)
    climbed = played.seconds(30)
    order = [rung for rung, before in zip(climbed, ["blendshape", *climbed], strict=False) if rung != before]
    assert order == ["reduced", "baked", "live"]


def test_a_gpu_that_grows_slow_at_the_best_rung_only_loses_that_rung(played):
    played.draw_ms["live"] = 0.9 * PERIOD_MS
    after = played.seconds(1)
    assert after[-1] == "baked" and "blendshape" not in after
    assert played.ladder.changes[-1].cause == "forecast"


def test_a_stalled_source_changes_no_rung_and_is_told(played):
    played.source_age_s = 2.0
    assert set(played.seconds(2)) == {"live"}
    assert played.ladder.state.silent
    played.source_age_s = 0.0
    played.frames(1)
    assert not played.ladder.state.silent


def test_rest_is_taken_and_ended(monkeypatch):
    played = Played(monkeypatch, rest=True, rest_every_s=10.0, rest_for_s=2.0)
    assert "blendshape" not in played.seconds(7.5)
    assert played.seconds(1)[-1] == "blendshape"
    assert played.seconds(6)[-1] == "live"


def test_the_account_adds_up(played):
    played.celsius = 46.0
    played.frames(5)
    told = played.ladder.report()
    assert told["scales"] == {"live": {"1": 21}, "baked": {}, "reduced": {"1": 4}, "blendshape": {}}
    assert sum(told["rungs"].values()) == 25 and told["rungs"]["reduced"] == 4
    assert told["rung_changes"] == {"hot": 1} and told["trace"][0]["target"] == "reduced"
    assert (told["temperature_c"], told["sensor"]) == (46.0, "skin")


def test_a_pinned_rung_must_be_there():
    with pytest.raises(InputError, match="lacks the rung live"):
        Ladder(CONFIG, "live").begin((False, True, True, True), (None,) * 4, PERIOD_MS)
    with pytest.raises(InputError, match="unknown rung"):
        Ladder(CONFIG, "best")
