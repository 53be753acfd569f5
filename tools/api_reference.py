"""Build the API reference out of the docstrings of what others may import: python -W error tools/api_reference.py OUT.

pdoc reads the modules as they are imported. What it complains of, it says as warnings, so that -W error makes them failures.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pdoc
import pdoc.render

ROOT = Path(__file__).resolve().parent.parent
# The front door, the protocols behind it, and the functions that examples and docs/extending.md use.
PUBLIC = (
    "avatar3d",
    "avatar3d.avatar",
    "avatar3d.camera",
    "avatar3d.enrolment.pipeline",
    "avatar3d.enrolment.stage",
    "avatar3d.enrolment.state",
    "avatar3d.errors",
    "avatar3d.evaluation",
    "avatar3d.generator",
    "avatar3d.glb",
    "avatar3d.head",
    "avatar3d.head.protocol",
    "avatar3d.media",
    "avatar3d.motion.code",
    "avatar3d.motion.csv",
    "avatar3d.motion.sources",
    "avatar3d.rendering",
)


def build(out: Path) -> None:
    """Write the pages into `out`; raises RuntimeError naming a module that cannot be imported."""
    # Submodules are the insides of a package: only those that PUBLIC names have pages.
    inside = [f"!{name}\\.(?!({'|'.join(_children(name)) or '$'})$).*" for name in PUBLIC]
    pdoc.render.configure(docformat="numpy", footer_text="avatar3d", show_source=False)
    pdoc.pdoc(*PUBLIC, *inside, output_directory=out)


def _children(name: str) -> list[str]:
    return [other.removeprefix(f"{name}.") for other in PUBLIC if other.startswith(f"{name}.")]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    build(Path(sys.argv[1]))
