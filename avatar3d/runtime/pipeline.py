"""Capture and motion threads of a live head, joined by mailboxes to the thread that draws; nothing here draws.

capture: reads the source → motion: filters and observes → whoever draws asks `at` for the code at the time it will be seen.
While the source is silent, or where there is none, the head idles. A source that fails is opened again, ever more rarely.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.motion.filter import FilterState, smooth
from avatar3d.motion.predict import PredictState, observe, predict
from avatar3d.runtime.idle import NOTICE_AFTER_S, SILENT_S, IdleTransition, next_transition
from avatar3d.runtime.mailbox import Mailbox
from avatar3d.runtime.trace import Trace

READ_TIMEOUT_S = 0.1  # how soon the threads see that the pipeline is closed
JOIN_TIMEOUT_S = 2.0
RETRY_S, RETRY_MAX_S = 0.5, 10.0  # a plug that was loose is back at once; a camera that is gone should not be hammered


class Source(Protocol):
    """What the capture thread reads: less than a MotionSource, so that a Replay, which counts nothing, is one too."""

    @property
    def ended(self) -> bool: ...

    def read(self, timeout_s: float = 1.0) -> MotionCode | None: ...

    def close(self) -> None: ...


def retry_after_s(tries: int) -> float:
    """How long to wait before a source is opened again that failed `tries` times since it last gave a code."""
    return float(min(RETRY_S * 2.0 ** min(tries - 1, 30), RETRY_MAX_S))


@dataclass(frozen=True)
class Moment:
    """motion: the code for the asked time. captured_ns: capture time of the newest measurement, None before the first."""

    motion: MotionCode
    captured_ns: int | None


class Pipeline:
    """Owns the two threads and the source. What goes wrong in the threads is counted and told by `notice`; the head idles then.

    silent_s: after which a source that says nothing is left for idle motion. seed: of that motion. clock_ns: for tests.
    trace: takes a span of each code from its capture until it was handed over, and of its filtering, and of each failure until
    the next try; name: of the head in it. reopen: opens the source again when it failed or ended; None: it is not tried again.
    """

    def __init__(
        self,
        source: Source | None,
        silent_s: float = SILENT_S,
        seed: int = 0,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        trace: Trace | None = None,
        name: str = "",
        reopen: Callable[[], Source] | None = None,
    ) -> None:
        self._trace, self._name = trace, name
        self._source, self._silent_s, self._seed, self._clock_ns = source, silent_s, seed, clock_ns
        self._reopen = reopen
        self._transition: IdleTransition | None = None
        self._codes: Mailbox[MotionCode] = Mailbox()
        self._closing = threading.Event()
        self._state: PredictState | None = None  # replaced as a whole, so that a reader needs no lock
        self._refusal: InputError | None = None
        # Each of these is written by one thread: capture's, then the motion thread's.
        self.reopened = 0
        self._failures, self._problem = 0, ""
        self._unusable, self._complaint = 0, ""
        self._opened_ns = clock_ns()
        self._threads = []
        if source is not None:
            self._threads = [
                threading.Thread(target=work, name=name, daemon=True)
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

    @property
    def failures(self) -> int:
        """How often the source failed, ended, could not be opened again or gave what cannot be followed."""
        return self._failures + self._unusable

    @property
    def problem(self) -> str | None:
        """What is wrong with the source now, one sentence; None when it works."""
        return self._problem or self._complaint or None

    @property
    def unknown(self) -> Mapping[str, int]:
        """How often the source was sent something under each name that it does not understand."""
        return getattr(getattr(self._source, "validator", None), "unknown", {})

    def at(self, time_ns: int) -> Moment:
        """The motion for a time on the monotonic clock, ns: foretold from the source, idle where it is silent.

        Ask for times that rise, from one thread: the way into idle motion and back starts from what was asked for last.
        Raises InputError of a source that refused what it was asked for before it gave anything.
        """
        if self._refusal is not None:
            raise self._refusal
        state = self._state
        silent = state is None or self.source_age_s(self._clock_ns()) > self._silent_s
        live = None if state is None or silent else predict(state, time_ns).code
        self._transition = next_transition(self._transition, live, time_ns / 1e9, self._seed)
        return Moment(self._transition.shown, None if state is None else state.codes[-1].time_ns)

    @property
    def idling(self) -> bool:
        """Whether the last motion was, or was on its way to, idle motion."""
        return self._transition is None or self._transition.idling

    def notice(self, now_ns: int) -> str | None:
        """What the viewer should be told about a source that failed or has been silent for long, or None."""
        if self.problem is not None:
            return self.problem
        age_s = self.source_age_s(now_ns)
        return f"no motion for {age_s:.0f} s: the head idles" if age_s > NOTICE_AFTER_S else None

    def source_age_s(self, now_ns: int) -> float:
        """Seconds since the newest capture, or since the start; 0 where there is no source to wait for."""
        if not self._threads:
            return 0.0
        state = self._state  # once: the motion thread may begin anew meanwhile
        newest = self._opened_ns if state is None else state.codes[-1].time_ns
        return max(0.0, (now_ns - newest) / 1e9)

    def close(self) -> None:
        """Stop the threads and close the source."""
        self._closing.set()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
        self._drop()

    def _drop(self) -> None:
        """Close the source, however broken it is."""
        source, self._source = self._source, None
        if source is not None:
            with contextlib.suppress(Exception):
                source.close()

    def _capture(self) -> None:
        """Read the source, and open it again as often as it fails."""
        tries = 0
        while not self._closing.is_set():
            before = self.received
            try:
                if self._source is None:
                    assert self._reopen is not None
                    self._source = self._reopen()
                    self.reopened += 1
                self._read(self._source)
                problem = "the motion source ended"
            except Exception as error:  # of a camera's driver, a network, a tracker, a plug-in
                if isinstance(error, InputError) and not self._failures and not self.received:
                    self._refusal = error
                    return
                problem = _sentence(error)
            if self._closing.is_set():
                break
            failed_ns = time.monotonic_ns()
            tries = 1 if self.received > before else tries + 1
            self._problem = problem if self._reopen is None else f"{problem}; trying again"
            self._failures += 1  # after what it was: whoever sees the count finds the reason
            self._drop()
            if self._reopen is None:
                return
            self._closing.wait(retry_after_s(tries))
            if self._trace is not None:
                self._trace.add(self._row("capture"), "failed", failed_ns, time.monotonic_ns(), failures=self._failures)
        self._drop()  # what was opened while the pipeline was closed

    def _read(self, source: Source) -> None:
        """Hand the codes of a source over until it ends."""
        while not self._closing.is_set() and not source.ended:
            code = source.read(READ_TIMEOUT_S)
            if code is not None:
                if not isinstance(code, MotionCode):
                    raise TypeError(f"the motion source gave a {type(code).__name__}; expected a MotionCode")
                self._problem = ""
                if self._trace is not None:  # before it is handed over: the other thread may be done with it at once
                    now = time.monotonic_ns()
                    self._trace.add(self._row("capture"), "capture", code.time_ns, now, sequence=code.sequence)
                self._codes.put(code)

    def _follow(self) -> None:
        filtered: FilterState | None = None
        while not self._closing.is_set():
            code = self._codes.take(READ_TIMEOUT_S)
            if code is None:
                continue
            started_ns = time.monotonic_ns()
            try:
                filtered = smooth(filtered, code)
                self._state = observe(self._state, filtered.smooth, code)
            except Exception as error:  # of numbers that no filter was made for: begin anew with the next
                filtered = self._state = None
                self._complaint = f"the motion source gave what cannot be followed ({_sentence(error)})"
                self._unusable += 1
                continue
            self._complaint = ""
            if self._trace is not None:
                now = time.monotonic_ns()
                self._trace.add(
                    self._row("motion"), "filter", started_ns, now, sequence=code.sequence, age_ms=(now - code.time_ns) / 1e6
                )

    def _row(self, thread: str) -> str:
        """The name of one of our threads in the trace."""
        return f"{thread} {self._name}".strip()


def _sentence(error: Exception) -> str:
    """An exception in one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
