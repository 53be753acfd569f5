"""What a person sees on stderr meanwhile: a bar of long work on a terminal, nothing in a pipe, no chatter of libraries."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType

from avatar3d.text import printable

TICK_S = 0.5  # between two looks at the clock
BAR_SIGNS = 24
ESTIMATE_AFTER_S, ESTIMATE_AFTER = 2.0, 0.04  # before that the pace is chance
ProgressCallback = Callable[[float, str], None]
_turn = threading.RLock()  # of two at once the later would keep the earlier's sink for the screen


def silent(fraction: float, label: str) -> None:
    """A progress callback that shows nothing."""


class ProgressBar:
    """Context manager whose instance is a callback (fraction in [0, 1], label); draws only when stderr is a terminal.

    One line: what is being done, how much of the work is done, how long it has taken and, once that can be told from the pace so far,
    about how long it will take yet. It goes on counting while a stage says nothing, and leaves the line empty at the end.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._screen = sys.stderr if enabled and sys.stderr is not None and sys.stderr.isatty() else None
        self._began_s = time.monotonic()
        self._fraction, self._label, self._width = 0.0, "", 0
        self._left_s: float | None = None  # by the last estimate, at its time
        self._told_s = 0.0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> ProgressBar:
        if self._screen is not None:
            self._clock = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._clock.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._clock is not None:
            self._clock.join()
        if self._screen is not None:
            self._write("")
            self._screen.write("\r")
            self._screen.flush()

    def __call__(self, fraction: float, label: str) -> None:
        """Show `fraction` of the work done and what is being done."""
        if self._screen is None:
            return
        with self._lock:
            now = time.monotonic()
            taken = now - self._began_s
            self._fraction, self._label = max(self._fraction, min(fraction, 1.0)), printable(label)
            if taken > ESTIMATE_AFTER_S and self._fraction > ESTIMATE_AFTER:
                self._left_s, self._told_s = taken / self._fraction * (1 - self._fraction), now
            self._draw(now)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_S):
            with self._lock:
                self._draw(time.monotonic())

    def _draw(self, now: float) -> None:
        if not self._label:
            return
        done = round(BAR_SIGNS * self._fraction)
        parts = [f"{self._label} |{'#' * done}{' ' * (BAR_SIGNS - done)}| {_clock(now - self._began_s)}"]
        if self._left_s is not None:
            left = self._left_s - (now - self._told_s)
            parts.append(f"about {_clock(left)} left" if left > TICK_S else "nearly done")
        self._write(", ".join(parts))

    def _write(self, line: str) -> None:
        """Write a line over the last one, cut where it would wrap."""
        assert self._screen is not None
        line = line[: shutil.get_terminal_size().columns - 1]
        with suppress(OSError, ValueError):  # a terminal that has gone away ends no work
            self._screen.write(f"\r{line}{' ' * (self._width - len(line))}")
            self._screen.flush()
        self._width = len(line)


def _clock(seconds: float) -> str:
    return f"{round(seconds)} s" if seconds < 59.5 else f"{round(seconds) // 60}:{round(seconds) % 60:02d} min"


def quiet_library(name: str) -> None:
    """Keep what a Python library logs that is no error off the user's screen, such as where it keeps its cache."""
    logging.getLogger(name).setLevel(logging.ERROR)


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Keep what libraries in C write straight to descriptor 2 off the user's screen; threads do so by turns."""
    with _turn, ExitStack() as stack:
        with suppress(OSError):  # closed: nothing reaches a screen
            saved = os.dup(2)
            stack.callback(os.close, saved)
            sink = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, sink)
            stack.callback(os.dup2, saved, 2)
            os.dup2(sink, 2)
        yield
