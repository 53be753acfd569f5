"""What the governor and the report read from the machine: the hottest temperature sensor, and this process's memory."""

from __future__ import annotations

import sys
from pathlib import Path

PLAUSIBLE_C = (-20.0, 130.0)  # sensors that are not connected report 0 K, -128 or 255


def hottest_c(names: tuple[str, ...] = ()) -> float | None:
    """Degrees Celsius of the hottest sensor whose chip or label holds one of `names` (any sensor without names).

    None where the machine tells none (psutil knows sensors on Linux and FreeBSD) or psutil is not installed.
    """
    try:
        import psutil

        chips = psutil.sensors_temperatures()
    except (ImportError, AttributeError, OSError):
        return None
    found = [
        entry.current
        for chip, entries in chips.items()
        for entry in entries
        if entry.current is not None
        and PLAUSIBLE_C[0] < entry.current < PLAUSIBLE_C[1]
        and (not names or any(name.lower() in f"{chip} {entry.label}".lower() for name in names))
    ]
    return max(found, default=None)


def resident_mb() -> float:
    """This process's resident memory, MB; its peak where the system tells only that."""
    try:
        import os

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        import psutil

        return float(psutil.Process().memory_info().rss) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
