"""Where enrolment writes: an avatar's file, a folder of its stages' pictures; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from avatar3d.files import check_suffix, check_writable
from avatar3d.folder import FilledFolder

LISTING = "stages.json"
STAGES_FOLDER = FilledFolder("the stages", LISTING, frozenset({"stages"}))


@dataclass(frozen=True)
class Target:
    """A GLB file to write. jpeg: the base colour as JPEG of this quality, 1 to 100, True for 95; byte_field: the field in 8 bits."""

    path: Path
    jpeg: bool | int = False
    byte_field: bool = False

    def check(self) -> None:
        """Raise InputError where writing it would, before long work starts."""
        check_suffix(self.path, ".glb", "an avatar")
        check_writable(self.path)
