"""Waiting for the next frame while this one is drawn: a thread that calls what blocks, so that an overrun costs no whole period.

xrWaitFrame may be called from another thread than the rest, and returns once the frame before has begun (OpenXR 1.0, 10.4).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")
GONE_WITHIN_S = 1.0  # how long a call may still take when nobody wants its value any more


class Prefetch(Generic[Value]):
    """Calls `work` in a thread of its own, one call at a time: `begin` starts one, `take` gives its value or raises its error."""

    def __init__(self, work: Callable[[], Value], name: str) -> None:
        self._work = work
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Value | None, BaseException | None]] = queue.SimpleQueue()
        self.pending = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while self._asked.get():
            try:
                self._done.put((self._work(), None))
            except BaseException as error:
                self._done.put((None, error))

    def begin(self) -> None:
        """Start a call; the one before must have been taken."""
        assert not self.pending
        self.pending = True
        self._asked.put(True)

    def take(self) -> Value:
        """The value of the call that was begun, or of one made now; raises what the call raised."""
        if not self.pending:
            self.begin()
        value, error = self._done.get()
        self.pending = False
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # None only with an error

    def close(self) -> None:
        """Let a call that is under way come to its end, unless it hangs, and end the thread."""
        if self.pending:
            with contextlib.suppress(queue.Empty):
                self._done.get(timeout=GONE_WITHIN_S)
            self.pending = False
        self._asked.put(False)
