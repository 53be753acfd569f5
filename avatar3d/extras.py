"""How to install what is missing: a pip command that is right in a checkout, from a wheel and from an index alike.

It names the packages themselves with the versions that this avatar3d asks for, and the Python that runs now; of an extra only what is
not installed yet.
"""

from __future__ import annotations

import re
import shlex
import sys

# What modules that commands import without asking first are part of: the extras that have them, smallest first. A command that needs
# the larger one says so itself or is in COMMAND_EXTRAS.
MODULE_EXTRAS = {
    "torch": ("train",),
    "cv2": ("eval", "track", "train"),
    "scipy": ("track", "train"),
    "numba": ("track", "train"),
    "ai_edge_litert": ("track", "train"),
    "matplotlib": ("eval",),
    "jinja2": ("eval",),
}
COMMAND_EXTRAS = {"enroll": ("train",), "bench": ("train", "eval"), "evaluate": ("eval", "train"), "render": ("train",)}
OTHERS = ("track", "train")  # of commands whose motion comes from a film or a camera


def pip_install(*requirements: str) -> str:
    """The command that installs `requirements` where this Python finds them."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *requirements])


def install_extra(extra: str) -> str:
    """The command that installs what is missing of avatar3d's extra (train, track, identity, eval, heic, motion, net, view, xr).

    All of it where nothing is missing, as where a package is there but broken or too old.
    """
    from importlib import metadata

    try:
        declared = metadata.requires("avatar3d") or []
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return pip_install(f"avatar3d[{extra}]")
    marker = re.compile(rf"""\s*;\s*extra == ['"]{re.escape(extra)}['"]$""")
    wanted = [marker.sub("", text) for text in declared if marker.search(text)]
    if not wanted:  # another version's metadata, as in a checkout that was updated
        return pip_install(f"avatar3d[{extra}]")
    return pip_install(*([text for text in wanted if not _installed(text)] or wanted))


def install_module(module: str, command: str) -> str | None:
    """The command that installs what `command` needs where it found no `module`; None for a module of no extra."""
    extras = MODULE_EXTRAS.get(module.split(".")[0])
    if extras is None:
        return None
    wanted = COMMAND_EXTRAS.get(command, OTHERS)
    return install_extra(next((extra for extra in wanted if extra in extras), extras[0]))


def _installed(requirement: str) -> bool:
    from importlib import metadata

    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    if name is None:
        return False
    try:
        metadata.distribution(name.group())
    except metadata.PackageNotFoundError:
        return False
    return True
