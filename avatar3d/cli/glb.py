"""`avatar3d glb`: an avatar's file in fewer bytes."""

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from avatar3d.cli.command import Result, command
from avatar3d.cli.options import add_options
from avatar3d.cli.shared import AvatarFile
from avatar3d.settings import Option, Within


@dataclass(frozen=True)
class Storage:
    """How an avatar's file stores what takes most of it."""

    jpeg: Annotated[
        int | None,
        Within(1, 100),
        Option("store the base colour as JPEG of this quality, 1 to 100, such as 95: smaller, off by about 1/255 rms",
               metavar="QUALITY"),
    ] = None  # fmt: skip
    byte_field: Annotated[bool, Option("store the field in 8 bits: a quarter of a megabyte less")] = False


@dataclass(frozen=True)
class Glb:
    """What `avatar3d glb` takes."""

    action: Annotated[Literal["optimise"], Option("write the avatar in fewer bytes, the neural parts kept", positional=True)]
    avatar: AvatarFile
    out: Annotated[Path, Option("the file to write (.glb); may be the same", positional=True)]
    storage: Storage = field(default_factory=Storage)


def add_storage_flags(parser: argparse.ArgumentParser) -> None:
    """The options of `Storage`."""
    add_options(parser, Storage)


def run(options: Glb, quiet: bool) -> Result:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d.glb.optimise import optimise

    done = optimise(options.avatar, options.out, options.storage.jpeg, options.storage.byte_field)
    share = 100 * done.bytes_after / done.bytes_before
    loss = ", ".join(f"{name} by {off:.3g} at most" for name, off in done.changed.items())
    lines = [
        f"{options.out}: {done.bytes_before / 1e6:.2f} MB before, {done.bytes_after / 1e6:.2f} MB now ({share:.0f} %)",
        f"changed: {loss}; the rest is the same to the bit" if loss else "the same avatar to the bit",
    ]
    result = {
        "avatar": str(options.out), "bytes_before": done.bytes_before, "bytes_after": done.bytes_after,
        "lossless": not done.changed, "changed": done.changed,
    }  # fmt: skip
    return result, lines


COMMAND = command("glb", "make an avatar's file smaller, with or without loss", Glb, run)
