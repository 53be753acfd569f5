"""Progress of long work: a bar on a terminal's stderr, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

ProgressCallback = Callable[[float, str], None]


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
            self._bar.set_description(label, refresh=False)
            self._bar.update(max(0.0, min(fraction, 1.0) - self._bar.n))
