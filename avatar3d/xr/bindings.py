"""Which GL context fits an OpenXR runtime: one module for each graphics binding, tried in the order of what they need."""

from __future__ import annotations

import sys

from avatar3d.errors import WorkError
from avatar3d.xr import egl, glx, win32
from avatar3d.xr.graphics import Graphics


def open_graphics(offered: set[str]) -> Graphics:
    """A context for one of the graphics bindings that the runtime offers (names of its extensions), the best first.

    Raises WorkError where the runtime takes none that can be made here.
    """
    modules = (win32,) if sys.platform == "win32" else (egl, glx)
    problems = []
    for module in modules:
        if module.EXTENSION not in offered:
            problems.append(f"the runtime does not offer {module.EXTENSION}")
            continue
        try:
            return module.create()
        except WorkError as error:
            problems.append(str(error))
    raise WorkError(f"no OpenGL context fits this OpenXR runtime: {'; '.join(problems)}")
