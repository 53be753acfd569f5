"""The GL context an OpenXR session draws with, and which of them fits a runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from avatar3d.errors import WorkError


@dataclass
class Graphics:
    """An open GL context with the way into OpenXR.

    kind: egl, glx or win32. context: moderngl's. extension: the OpenXR extension that takes the binding. binding: makes
    the structure for xrCreateSession.
    """

    kind: str
    context: Any
    extension: str
    binding: Callable[[], Any]

    def close(self) -> None:
        """Release the context."""
        self.context.release()


def open_graphics(offered: set[str]) -> Graphics:
    """A context for one of the graphics bindings that the runtime offers (names of its extensions), the best first.

    Raises WorkError where the runtime takes none that can be made here.
    """
    from avatar3d.xr import egl, glx, win32

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
