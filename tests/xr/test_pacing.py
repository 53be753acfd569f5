"""The wait that begins ahead: it runs while its caller is busy, hands over values and errors, and cannot hang its end."""

from __future__ import annotations

import threading

import pytest

from avatar3d.xr import pacing
from avatar3d.xr.pacing import Prefetch

SOON_S = 10.0


def test_the_call_runs_while_nobody_takes_its_value():
    ran = threading.Event()
    ahead = Prefetch(lambda: ran.set() or 7, "wait")
    ahead.begin()
    assert ran.wait(SOON_S) and ahead.pending
    assert ahead.take() == 7 and not ahead.pending
    ahead.close()


def test_a_value_is_taken_without_a_beginning_and_each_is_of_its_own_call():
    calls = iter(range(10))
    ahead = Prefetch(lambda: next(calls), "wait")
    assert ahead.take() == 0
    ahead.begin()
    assert [ahead.take(), ahead.take()] == [1, 2]
    ahead.close()


def test_an_error_is_raised_where_the_value_is_taken():
    def fail():
        raise KeyError("gone")

    ahead = Prefetch(fail, "wait")
    ahead.begin()
    with pytest.raises(KeyError, match="gone"):
        ahead.take()
    assert not ahead.pending
    ahead.close()


def test_a_call_that_hangs_does_not_hold_the_end_up(monkeypatch):
    monkeypatch.setattr(pacing, "GONE_WITHIN_S", 0.01)
    never = threading.Event()
    ahead = Prefetch(never.wait, "wait")
    ahead.begin()
    ahead.close()
    assert not ahead.pending and not never.is_set()
    never.set()
