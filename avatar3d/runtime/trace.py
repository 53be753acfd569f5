"""A recording of what each thread did when, written as a Chrome trace: open it in chrome://tracing or ui.perfetto.dev.

Format: Trace Event Format (Google, 2016), complete events ("ph": "X") in microseconds on the monotonic clock.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

from avatar3d.files import write_bytes

MAX_EVENTS = 400_000  # the newest are kept: over ten minutes of a headset at 90 Hz


class Trace:
    """Spans of named threads; `add` may be called from any of them."""

    def __init__(self) -> None:
        self._spans: deque[tuple[str, str, int, int, dict[str, float]]] = deque(maxlen=MAX_EVENTS)

    def add(self, thread: str, name: str, start_ns: int, end_ns: int, **figures: float) -> None:
        """One span, monotonic ns, with figures that belong to it."""
        self._spans.append((thread, name, start_ns, max(start_ns, end_ns), figures))

    def to_json(self) -> dict[str, object]:
        """The trace as the format has it, spans in the order of their start, a row a thread."""
        spans = sorted(self._spans, key=lambda span: span[2])
        rows = {thread: number for number, thread in enumerate(dict.fromkeys(span[0] for span in spans), start=1)}
        names = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": thread}} for thread, row in rows.items()
        ]
        events = [
            {
                "ph": "X", "name": name, "pid": 1, "tid": rows[thread], "ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3,
                "args": figures,
            }
            for thread, name, start_ns, end_ns, figures in spans
        ]  # fmt: skip
        return {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}

    def write(self, path: str | Path) -> None:
        """Write the JSON file; raises InputError when it cannot be written."""
        write_bytes(path, json.dumps(self.to_json()).encode())
