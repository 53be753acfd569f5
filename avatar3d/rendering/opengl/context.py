"""A headless OpenGL context."""

from __future__ import annotations

import sys
from typing import Any

from avatar3d.errors import WorkError
from avatar3d.extras import pip_install

NO_CONTEXT = (
    "no OpenGL context could be made ({reason}); install a driver (Debian and Ubuntu: apt install libegl1 libgl1 "
    "libgl1-mesa-dri), or use the reference renderer"
)


def create_context() -> Any:
    """A headless moderngl context (EGL on Linux); raises WorkError saying what to install."""
    try:
        import moderngl
    except ImportError as error:
        raise WorkError(
            f"the realtime renderer needs moderngl, which is not installed; run: {pip_install('moderngl')}"
        ) from error
    # The versioned names exist without development packages.
    settings: dict[str, Any] = (
        {"backend": "egl", "libgl": "libGL.so.1", "libegl": "libEGL.so.1"} if sys.platform == "linux" else {}
    )
    try:
        return moderngl.create_context(standalone=True, require=330, **settings)
    except Exception as error:
        raise WorkError(NO_CONTEXT.format(reason=str(error).strip() or type(error).__name__)) from error
