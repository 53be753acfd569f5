"""What the rest needs of pyopenxr: importing it, calling extension functions, and its failures as sentences."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import cast
from typing import Any

from avatar3d.errors import WorkError
from avatar3d.extras import install_extra

_INSTALL = {
    "linux": "install one and start it, such as Monado (Debian and Ubuntu: apt install monado-service libopenxr1-monado) or "
    "SteamVR; to try without a headset run ./tools/headset -- avatar3d xr ...",
    "win32": "install the software of your headset (SteamVR, Meta Quest Link, Windows Mixed Reality) and set it as the OpenXR "
    "runtime in its settings",
    "darwin": "OpenXR headsets are not supported on macOS; use avatar3d render --stereo, or another machine",
}


class RuntimeGone(WorkError):
    """The OpenXR runtime ended, or said that this session is lost; a new session may be made when it is back."""


def install_advice() -> str:
    """What to do on this platform to get an OpenXR runtime."""
    return _INSTALL.get(sys.platform, _INSTALL["linux"])


def load() -> Any:
    """The module `xr` of pyopenxr; raises WorkError saying what to install."""
    # The loader's own messages repeat what our sentences say.
    os.environ.setdefault("XR_LOADER_DEBUG", "none")
    try:
        import xr
    except ModuleNotFoundError as error:
        if error.name != "xr":
            raise
        raise WorkError(f"the headset needs pyopenxr, which is not installed; run: {install_extra('xr')}") from error
    except (ImportError, OSError, AttributeError, NotImplementedError) as error:
        raise WorkError(f"pyopenxr cannot be loaded here ({error}); {install_advice()}") from error
    return xr


def instance_function(instance: Any, name: str, prototype: Any) -> Any:
    """An extension's function, called as in C; its result is an int, see `check`."""
    xr = load()
    return cast(xr.get_instance_proc_addr(instance, name), prototype)


def check(result: int) -> None:
    """Raise the exception of an OpenXR result code that tells of a failure."""
    xr = load()
    outcome = xr.check_result(xr.Result(result))
    if outcome.is_exception():
        raise outcome


@contextmanager
def failures_as_sentences(doing: str) -> Iterator[None]:
    """Turn pyopenxr's exceptions into RuntimeGone where the runtime ended, else into WorkError: what was done, what it said."""
    xr = load()
    try:
        yield
    except (xr.exception.InstanceLostError, xr.exception.SessionLostError, xr.exception.SessionLossPending) as error:
        raise RuntimeGone(f"the OpenXR runtime ended while {doing}; start it again") from error
    except xr.exception.RuntimeUnavailableError as error:
        raise WorkError(f"no OpenXR runtime was found; {install_advice()}") from error
    except xr.exception.RuntimeFailureError as error:
        raise WorkError(
            f"the OpenXR runtime failed while {doing}; start its service or application (Monado: monado-service) and try again"
        ) from error
    except xr.exception.FormFactorUnavailableError as error:
        raise WorkError("the OpenXR runtime has no headset now; connect it, switch it on and try again") from error
    except xr.exception.XrException as error:
        name = type(error).__name__.removesuffix("Error")
        raise WorkError(f"the OpenXR runtime failed while {doing}: {name}") from error
