"""The GL context an OpenXR session draws with; `bindings` opens the one that fits a runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
