"""`avatar3d export`: the posed mesh, for other programs."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from avatar3d.cli.command import Result, command
from avatar3d.cli.shared import Posed, posed
from avatar3d.settings import Option
from avatar3d.text import printable


@dataclass(frozen=True)
class Export:
    """What `avatar3d export` takes."""

    posed: Posed
    out: Annotated[Path, Option("mesh.ply or mesh.obj", ("-o", "--out"))]
    hair: Annotated[bool, Option("the head alone")] = True


def run(options: Export, quiet: bool) -> Result:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d.interop.mesh import export_mesh

    avatar, motions = posed(options.posed)
    if len(motions) > 1:
        what = f"{options.posed.motion} holds {len(motions)} motion codes; the first is exported"
        print(printable(f"avatar3d: {what}"), file=sys.stderr)
    export_mesh(avatar, motions[0], options.out, hair=options.hair)
    return {"files": [str(options.out)]}, [str(options.out)]


COMMAND = command("export", "write the posed mesh as PLY or OBJ, metres", Export, run)
