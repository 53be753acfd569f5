"""`avatar3d glb`: its arguments, and running it; called by the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from avatar3d.cli.flags import within

_quality = within(1, 100, whole=True)


def add_storage_flags(parser: argparse.ArgumentParser) -> None:
    """How an avatar's file stores what takes most of it."""
    parser.add_argument(
        "--jpeg", type=_quality, metavar="QUALITY",
        help="store the base colour as JPEG of this quality, 1 to 100, such as 95: smaller, off by about 1/255 rms",
    )  # fmt: skip
    parser.add_argument("--byte-field", action="store_true", help="store the field in 8 bits: a quarter of a megabyte less")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything `avatar3d glb` takes but --json and --quiet; imports nothing heavy."""
    parser.add_argument("action", choices=("optimise",), help="write the avatar in fewer bytes, the neural parts kept")
    parser.add_argument("avatar", type=Path, help="what enroll wrote (.glb)")
    parser.add_argument("out", type=Path, help="the file to write (.glb); may be the same")
    add_storage_flags(parser)


def run(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d.glb.optimise import optimise

    done = optimise(arguments.avatar, arguments.out, arguments.jpeg, arguments.byte_field)
    share = 100 * done.bytes_after / done.bytes_before
    loss = ", ".join(f"{name} by {off:.3g} at most" for name, off in done.changed.items())
    lines = [
        f"{arguments.out}: {done.bytes_before / 1e6:.2f} MB before, {done.bytes_after / 1e6:.2f} MB now ({share:.0f} %)",
        f"changed: {loss}; the rest is the same to the bit" if loss else "the same avatar to the bit",
    ]
    result = {
        "avatar": str(arguments.out), "bytes_before": done.bytes_before, "bytes_after": done.bytes_after,
        "lossless": not done.changed, "changed": done.changed,
    }  # fmt: skip
    return result, lines
