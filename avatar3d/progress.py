"""What a person sees on stderr meanwhile: a bar of long work on a terminal, nothing in a pipe, no chatter of libraries."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType

from avatar3d.text import printable

ProgressCallback = Callable[[float, str], None]
_turn = threading.RLock()  # of two at once the later would keep the earlier's sink for the screen


def silent(fraction: float, label: str) -> None:
    """A progress callback that shows nothing."""


class ProgressBar:
    """Context manager whose instance is a callback (fraction in [0, 1], label); draws only when stderr is a terminal."""

    def __init__(self, enabled: bool = True) -> None:
        self._bar = None
        if enabled and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=1.0, file=sys.stderr, bar_format="{l_bar}{bar:30}| {elapsed}", leave=False)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, fraction: float, label: str) -> None:
        """Show `fraction` of the work done and what is being done."""
        if self._bar is not None:
            self._bar.set_description(printable(label), refresh=False)
            self._bar.update(max(0.0, min(fraction, 1.0) - self._bar.n))


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
