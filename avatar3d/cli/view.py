"""`avatar3d view`: heads in a window."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from avatar3d.cli.command import Result, command
from avatar3d.cli.shared import Heads, Ladder
from avatar3d.settings import Option
from avatar3d.view import HELP
from avatar3d.view.options import ViewOptions


@dataclass(frozen=True)
class View:
    """What `avatar3d view` takes."""

    avatar: Annotated[tuple[Path, ...], Option("one or more heads, side by side", positional=True)]
    heads: Heads = field(default_factory=Heads)
    view: ViewOptions = field(default_factory=ViewOptions)
    ladder: Ladder = field(default_factory=Ladder)


def run(options: View, quiet: bool) -> Result:
    """Show the heads until the window is closed; (what --json prints, lines for a person). Raises InputError and WorkError."""
    from avatar3d.glb import read_glb
    from avatar3d.media import check_suffix
    from avatar3d.runtime.cast import open_cast
    from avatar3d.runtime.governor import read_config
    from avatar3d.view import show
    from avatar3d.view.window import open_window

    if options.view.screenshot is not None:
        check_suffix(options.view.screenshot, moving=False)
    config = read_config(options.ladder.governor, options.ladder.scale)
    avatars = [read_glb(path) for path in options.avatar]
    title = "avatar3d: " + ", ".join(path.stem for path in options.avatar)
    heads = options.heads
    with open_window(*options.view.size, title) as window:
        cast = open_cast(avatars, heads.motions, config.silent_s, heads.look_at_viewer, heads.mirror)
        try:
            result = show.View(window, cast, config, replace(options.view, quiet=quiet)).run()
        finally:
            cast.close()
    return result, _summary(result)


def _summary(result: dict[str, Any]) -> list[str]:
    from avatar3d.motion.validation import unknown_lines

    rungs = ", ".join(f"{name} {count}" for name, count in result["rungs"].items() if count)
    line = f"{result['rendered']} frames at {result['fps']:.1f} fps, {result['late']} late; {rungs}"
    return [line, *unknown_lines(result["motion_codes"]["not_understood"])]


COMMAND = command("view", "show the head live in a window", View, run, epilog=" · ".join(HELP))
