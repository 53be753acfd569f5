"""What the governor and the report read from the machine: the hottest temperature sensor, and this process's memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PLAUSIBLE_C = (-20.0, 130.0)  # sensors that are not connected report 0 K, -128 or 255


@dataclass(frozen=True)
class Reading:
    """name: chip and label. celsius: as read. allowance_c: how much hotter than skin this sensor may be."""

    name: str
    celsius: float
    allowance_c: float

    @property
    def as_skin_c(self) -> float:
        """The temperature that the governor's limits, which are those of what one touches, are held against."""
        return self.celsius - self.allowance_c


def hottest(sensors: Mapping[str, float]) -> Reading | None:
    """The sensor nearest to its limit among those whose chip or label holds a key of `sensors` (the first that fits counts; an
    empty key fits any), whose value is the allowance.

    None where no sensor fits, the machine tells none (psutil knows sensors on Linux and FreeBSD) or psutil is not installed.
    """
    try:
        import psutil

        chips = psutil.sensors_temperatures()
    except (ImportError, AttributeError, OSError):
        return None
    found = []
    for chip, entries in chips.items():
        for entry in entries:
            name = f"{chip} {entry.label}".strip()
            allowance = next((value for part, value in sensors.items() if part.lower() in name.lower()), None)
            if allowance is not None and entry.current is not None and PLAUSIBLE_C[0] < entry.current < PLAUSIBLE_C[1]:
                found.append(Reading(name, float(entry.current), allowance))
    return max(found, key=lambda reading: reading.as_skin_c, default=None)


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
