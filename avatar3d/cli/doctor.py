"""`avatar3d doctor`: what works on this machine, and how to mend what does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from avatar3d.cli.command import Result, command

if TYPE_CHECKING:
    from avatar3d.doctor import Check


@dataclass(frozen=True)
class Doctor:
    """What `avatar3d doctor` takes: nothing."""


def _mark(check: Check) -> str:
    """How a check stands: what only some commands ask for is no fault where it is missing."""
    return "ok " if check.ok else "NO " if check.needed else "-- "


def run(options: Doctor, quiet: bool) -> Result:
    """(what --json prints, lines for a person)."""
    from avatar3d.doctor import run_checks

    checks = run_checks()
    lines = [f"{_mark(check)} {check.name}: {check.found}" + (f"; {check.fix}" if check.fix else "") for check in checks]
    return {"checks": [asdict(check) for check in checks]}, lines


COMMAND = command("doctor", "what works on this machine, and how to mend what does not", Doctor, run)
