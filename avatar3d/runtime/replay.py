"""A recording played at its own speed over and over, as a live source."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.motion.retarget import HEAD
from avatar3d.motion.validation import MotionValidator
from avatar3d.runtime.pipeline import Source

MAX_CODES = 400_000  # close to two hours at 60 Hz
DEFAULT_PERIOD_NS = 33_333_333  # between the last code and the first of the next round, where the recording does not tell


class Replay:
    """Codes of a recording as they fall due; capture times are moved to the monotonic clock, from the first `read` on.

    clock_ns, sleep: for tests. validator: of the source it was read from. Raises InputError on an empty recording.
    """

    live = True

    def __init__(
        self,
        codes: Sequence[MotionCode],
        clock_ns: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
        validator: MotionValidator | None = None,
    ) -> None:
        if not codes:
            raise InputError("the recording holds no motion code; record it again")
        self._codes = list(codes)
        self.validator = validator or MotionValidator()
        self._clock_ns, self._sleep = clock_ns, sleep
        self._started_ns: int | None = None
        self._next = 0
        self.dialect = HEAD
        self._closed = False
        span = codes[-1].time_ns - codes[0].time_ns
        period = span // (len(codes) - 1) if len(codes) > 1 and span > 0 else DEFAULT_PERIOD_NS
        self._round_ns = span + period

    @property
    def ended(self) -> bool:
        """Only after `close`."""
        return self._closed

    def read(self, timeout_s: float = 1.0) -> MotionCode | None:
        """The next code when it falls due; None when that is later than `timeout_s` away."""
        if self._closed:
            return None
        now = self._clock_ns()
        if self._started_ns is None:
            self._started_ns = now
        rounds, index = divmod(self._next, len(self._codes))
        code = self._codes[index]
        due = self._started_ns + rounds * self._round_ns + code.time_ns - self._codes[0].time_ns
        wait_s = (due - now) / 1e9
        if wait_s > timeout_s:
            self._sleep(timeout_s)
            return None
        if wait_s > 0:
            self._sleep(wait_s)
        self._next += 1
        return replace(code, time_ns=due, sequence=self._next - 1)

    def close(self) -> None:
        """End it; a `read` that waits returns at the latest after its timeout."""
        self._closed = True


def open_live(text: str) -> Source:
    """The source that a spec names (see avatar3d.motion.sources), a recording played at its own speed.

    Raises InputError for an unknown or unreadable source, WorkError when a port, a camera or a package is missing.
    """
    from avatar3d.motion.sources import open_source

    source = open_source(text)
    if source.live:
        return source
    codes: list[MotionCode] = []
    while len(codes) < MAX_CODES:
        code = source.read()
        if code is None:
            break
        codes.append(code)
    source.close()
    replay = Replay(codes, validator=source.validator)
    replay.dialect = source.dialect
    return replay
