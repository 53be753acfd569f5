"""`avatar3d evaluate`: how consistent an avatar's views are, beside controls that must fail."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from avatar3d.cli.command import Result, command
from avatar3d.cli.shared import AvatarFile, RendererName
from avatar3d.settings import Option


@dataclass(frozen=True)
class Evaluate:
    """What `avatar3d evaluate` takes."""

    avatar: AvatarFile
    out: Annotated[Path, Option("folder for index.html, report.json and pictures", ("-o", "--out"))]
    renderer: RendererName = "realtime"


def run(options: Evaluate, quiet: bool) -> Result:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d.evaluation import AVATARS_IN_TURN, evaluate
    from avatar3d.glb import read_glb
    from avatar3d.progress import ProgressBar
    from avatar3d.rendering import make_renderer

    avatar = read_glb(options.avatar)
    with ProgressBar(not quiet) as progress, closing(make_renderer(options.renderer, keep=AVATARS_IN_TURN)) as renderer:
        result = evaluate(avatar, options.out, renderer, progress=progress)
    stereo = result["stereo"]
    line = (
        f"{result['report']}: colour {stereo['rmse_255']:.2f}/255, disparity p95 {stereo['disparity_error_px_p95']:.3f} px,"
        f" controls ranked {'right' if result['ranked_correctly'] else 'WRONG'}"
    )
    return result, [line]


COMMAND = command("evaluate", "measure view consistency against controls; write a page", Evaluate, run, loads_networks=True)
