"""Fusing a physiological score with a face: off by default, bounded, and blind to a stream that died."""

import numpy as np
import pytest

from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.sources.base import Recording
from avatar3d.motion.sources.lsl import DEFAULT_BOUND, Baseline, LeaningSource, lean

BROW = ARKIT_INDEX["browDownLeft"]


def test_no_score_leans_beyond_the_bound():
    code = MotionCode(np.full(52, 0.5))
    for score in (-1e9, -1, 0, 1, 1e9):
        leaned = lean(code, score, {"browDownLeft": 1.0}, 0.15)
        assert abs(leaned.weights[BROW] - 0.5) <= 0.15 + 1e-12
        assert np.delete(leaned.weights, BROW) == pytest.approx(np.delete(code.weights, BROW))
    assert lean(MotionCode(np.ones(52)), 1, {"browDownLeft": 1.0}, 0.15).weights.max() == 1


def test_the_baseline_is_the_persons_own():
    random, baseline = np.random.default_rng(1), Baseline()
    for value in random.normal(40.0, 5.0, 2000):
        baseline = baseline.after(float(value), 0.1)
    assert baseline.mean == pytest.approx(40, abs=1.5) and baseline.variance**0.5 == pytest.approx(5, abs=1)
    assert baseline.squeeze(40 + 10) == pytest.approx(np.tanh(1), abs=0.15)
    assert Baseline().squeeze(1e6) == 0


def test_a_score_leans_the_codes_of_another_source():
    samples = [(index * 0.1, float(value)) for index, value in enumerate(np.random.default_rng(2).normal(0, 1, 200))]
    batches = [samples, [(20.0, 8.0)], []]
    take = lambda: batches.pop(0) if batches else []  # noqa: E731
    codes = [MotionCode(np.full(52, 0.2), time_ns=k) for k in range(3)]
    with LeaningSource(Recording(codes), take, {"browDownLeft": 0.1}, DEFAULT_BOUND) as source:
        quiet, aroused, after = list(source)
    assert aroused.weights[BROW] == pytest.approx(0.3, abs=0.01) == after.weights[BROW]
    assert abs(quiet.weights[BROW] - 0.2) < 0.1


def test_a_stream_that_died_leans_nothing():
    class Stale:
        def __init__(self):
            self.first = True

        def __call__(self):
            batch = [(k * 0.1, float(k % 7)) for k in range(100)] if self.first else []
            self.first = False
            return batch

        def now(self):
            return 60.0

    with LeaningSource(Recording([MotionCode(np.full(52, 0.2))]), Stale(), {"browDownLeft": 1.0}, 0.3) as source:
        assert source.read().weights[BROW] == 0.2


@pytest.mark.slow
def test_a_real_stream_is_found_and_read(monkeypatch):
    """Through the library itself, over loopback; skipped where it is not installed or multicast is not allowed."""
    pylsl = pytest.importorskip("pylsl")
    import time
    import uuid

    from avatar3d.motion.sources import lsl

    monkeypatch.setattr(lsl, "FIND_S", 60.0)  # as long as a busy machine may take to answer itself
    name = f"avatar3d-test-{uuid.uuid4().hex}"  # of no other run within reach of multicast
    outlet = pylsl.StreamOutlet(pylsl.StreamInfo(name, "EEG", 2, 100, "float32", name))
    if not pylsl.resolve_byprop("name", name, 1, 3):
        pytest.skip("no multicast on this machine")
    inlet = lsl._Inlet(name, 1)
    values: list[float] = []
    deadline, sent = time.monotonic() + 60, 0
    while len(values) < 20 and time.monotonic() < deadline:  # what is sent before the inlet has joined does not come
        outlet.push_sample([0.0, float(sent)])
        sent += 1
        time.sleep(0.005)
        values += [value for _, value in inlet()]
    inlet.close()
    assert len(values) >= 20 and set(values) <= set(range(sent)) and values == sorted(values)
