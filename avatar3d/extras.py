"""How to install what is missing: a pip command that is right in a checkout, from a wheel and from an index alike.

It names the packages themselves with the versions that this avatar3d asks for, and the Python that runs now.
"""

from __future__ import annotations

import re
import shlex
import sys


def pip_install(*requirements: str) -> str:
    """The command that installs `requirements` where this Python finds them."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *requirements])


def install_extra(extra: str) -> str:
    """The command that installs what avatar3d's extra (train, identity, eval, heic, motion, net, view, xr) asks for."""
    from importlib import metadata

    try:
        declared = metadata.requires("avatar3d") or []
    except metadata.PackageNotFoundError:  # run from a source tree that was never installed
        return pip_install(f"avatar3d[{extra}]")
    marker = re.compile(rf"""\s*;\s*extra == ['"]{re.escape(extra)}['"]$""")
    return pip_install(*(marker.sub("", text) for text in declared if marker.search(text)))
