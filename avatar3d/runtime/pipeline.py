"""Capture and motion threads of a live head, joined by mailboxes to the thread that draws; nothing here draws.

capture: reads the source → motion: filters and observes → whoever draws asks `at` for the code at the time it will be seen.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Protocol

from avatar3d.motion.code import MotionCode
from avatar3d.motion.filter import FilterState, smooth
from avatar3d.motion.predict import PredictState, observe, predict
from avatar3d.runtime.mailbox import Mailbox

READ_TIMEOUT_S = 0.1  # how soon the threads see that the pipeline is closed
JOIN_TIMEOUT_S = 2.0


class Source(Protocol):
    """What the capture thread reads (avatar3d.motion.sources.MotionSource, Replay)."""

    @property
    def ended(self) -> bool: ...

    def read(self, timeout_s: float = 1.0) -> MotionCode | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Moment:
    """motion: the code for the asked time. captured_ns: capture time of the newest measurement in it, None before the first."""

    motion: MotionCode
    captured_ns: int | None


class Pipeline:
    """Owns the two threads and the source. Without a source the head rests in its neutral pose.

    An exception of a thread is raised by the next `at`.
    """

    def __init__(self, source: Source | None) -> None:
        self._source = source
        self._codes: Mailbox[MotionCode] = Mailbox()
        self._closing = threading.Event()
        self._state: PredictState | None = None  # replaced as a whole, so that a reader needs no lock
        self._error: BaseException | None = None
        self._opened_ns = time.monotonic_ns()
        self._threads = []
        if source is not None:
            self._threads = [
                threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
                for name, work in (("capture", self._capture), ("motion", self._follow))
            ]
        for thread in self._threads:
            thread.start()

    @property
    def received(self) -> int:
        """Codes that the source gave."""
        return self._codes.put_count

    @property
    def dropped(self) -> int:
        """Codes that were overtaken by a newer one before the motion thread took them."""
        return self._codes.dropped

    def at(self, time_ns: int) -> Moment:
        """The motion foretold for a time on the monotonic clock, ns."""
        if self._error is not None:
            raise self._error
        state = self._state
        if state is None:
            return Moment(MotionCode(time_ns=time_ns), None)
        return Moment(predict(state, time_ns).code, state.codes[-1].time_ns)

    def source_age_s(self, now_ns: int) -> float:
        """Seconds since the newest capture, or since the start; 0 where there is no source to wait for."""
        if self._source is None:
            return 0.0
        newest = self._opened_ns if self._state is None else self._state.codes[-1].time_ns
        return max(0.0, (now_ns - newest) / 1e9)

    def close(self) -> None:
        """Stop the threads and close the source."""
        self._closing.set()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
        if self._source is not None:
            self._source.close()

    def _guarded(self, work) -> None:  # type: ignore[no-untyped-def]
        try:
            work()
        except Exception as error:
            self._error = error

    def _capture(self) -> None:
        assert self._source is not None
        while not self._closing.is_set() and not self._source.ended:
            code = self._source.read(READ_TIMEOUT_S)
            if code is not None:
                self._codes.put(code)

    def _follow(self) -> None:
        filtered: FilterState | None = None
        while not self._closing.is_set():
            code = self._codes.take(READ_TIMEOUT_S)
            if code is None:
                continue
            filtered = smooth(filtered, code)
            self._state = observe(self._state, filtered.smooth)
