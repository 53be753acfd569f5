"""Capture and motion threads of a live head, joined by mailboxes to the thread that draws; nothing here draws.

capture: reads the source → motion: filters and observes → whoever draws asks `at` for the code at the time it will be seen.
While the source is silent, or where there is none, the head idles.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from avatar3d.motion.code import MotionCode
from avatar3d.motion.filter import FilterState, smooth
from avatar3d.motion.predict import PredictState, observe, predict
from avatar3d.runtime.idle import NOTICE_AFTER_S, SILENT_S, Passage, pass_over
from avatar3d.runtime.mailbox import Mailbox
from avatar3d.runtime.trace import Trace

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
    """motion: the code for the asked time. captured_ns: capture time of the newest measurement, None before the first."""

    motion: MotionCode
    captured_ns: int | None


class Pipeline:
    """Owns the two threads and the source. An exception of a thread is raised by the next `at`.

    silent_s: after which a source that says nothing is left for idle motion. seed: of that motion. clock_ns: for tests.
    trace: takes a span of each code from its capture until it was handed over, and of its filtering; name: of the head in it.
    """

    def __init__(
        self,
        source: Source | None,
        silent_s: float = SILENT_S,
        seed: int = 0,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        trace: Trace | None = None,
        name: str = "",
    ) -> None:
        self._trace, self._name = trace, name
        self._source, self._silent_s, self._seed, self._clock_ns = source, silent_s, seed, clock_ns
        self._passage: Passage | None = None
        self._codes: Mailbox[MotionCode] = Mailbox()
        self._closing = threading.Event()
        self._state: PredictState | None = None  # replaced as a whole, so that a reader needs no lock
        self._error: BaseException | None = None
        self._opened_ns = clock_ns()
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
        """The motion for a time on the monotonic clock, ns: foretold from the source, idle where it is silent.

        Ask for times that rise, from one thread: the way into idle motion and back starts from what was asked for last.
        """
        if self._error is not None:
            raise self._error
        state = self._state
        silent = state is None or self.source_age_s(self._clock_ns()) > self._silent_s
        live = None if state is None or silent else predict(state, time_ns).code
        self._passage = pass_over(self._passage, live, time_ns / 1e9, self._seed)
        return Moment(self._passage.shown, None if state is None else state.codes[-1].time_ns)

    @property
    def idling(self) -> bool:
        """Whether the last motion was, or was on its way to, idle motion."""
        return self._passage is None or self._passage.idling

    def notice(self, now_ns: int) -> str | None:
        """What the viewer should be told about a source that has been silent for long, or None."""
        age_s = self.source_age_s(now_ns)
        return f"no motion for {age_s:.0f} s: the head idles" if age_s > NOTICE_AFTER_S else None

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
                if self._trace is not None:  # before it is handed over: the other thread may be done with it at once
                    now = time.monotonic_ns()
                    self._trace.add(f"capture {self._name}".strip(), "capture", code.time_ns, now, sequence=code.sequence)
                self._codes.put(code)

    def _follow(self) -> None:
        filtered: FilterState | None = None
        while not self._closing.is_set():
            code = self._codes.take(READ_TIMEOUT_S)
            if code is None:
                continue
            started_ns = time.monotonic_ns()
            filtered = smooth(filtered, code)
            self._state = observe(self._state, filtered.smooth, code)
            if self._trace is not None:
                now = time.monotonic_ns()
                self._trace.add(
                    f"motion {self._name}".strip(), "filter", started_ns, now,
                    sequence=code.sequence, age_ms=(now - code.time_ns) / 1e6,
                )  # fmt: skip
