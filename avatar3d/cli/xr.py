"""`avatar3d xr`: heads in a headset."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from avatar3d.cli.command import Result, command
from avatar3d.cli.shared import Heads, Ladder
from avatar3d.errors import InputError
from avatar3d.settings import Option
from avatar3d.xr.options import ShowOptions

if TYPE_CHECKING:
    from avatar3d.runtime.pipeline import Source

HEADSET = "headset"  # the motion source that is the wearer


@dataclass(frozen=True)
class WornHeads(Heads):
    """Heads of which the wearer may move one."""

    motion: Annotated[
        tuple[str, ...],
        Option(
            "what moves the head, such as csv:FILE, video:FILE, livelink:PORT, idle, or headset for the wearer; given again, "
            "the next head",
            metavar="SOURCE",
        ),
    ] = ()


@dataclass(frozen=True)
class Xr:
    """What `avatar3d xr` takes; its motion sources may be `headset`, the wearer."""

    avatar: Annotated[tuple[Path, ...], Option("one or more heads, side by side", positional=True)]
    heads: WornHeads = field(default_factory=WornHeads)
    consent: Annotated[
        Literal["yes", "no"] | None,
        Option("may the headset read your face (for --motion headset, --foveation gaze); remembered"),
    ] = None
    show: ShowOptions = field(default_factory=ShowOptions)
    ladder: Ladder = field(default_factory=Ladder)
    rest: Annotated[bool, Option("rest at the lowest quality for some seconds in every minute")] = False
    record: Annotated[
        Path | None,
        Option("write what each thread did when, as a Chrome trace", ("--trace",), metavar="OUT.json"),
    ] = None

    @property
    def consents(self) -> bool | None:
        """What was said now, None for nothing."""
        return None if self.consent is None else self.consent == "yes"


def run(options: Xr, quiet: bool) -> Result:
    """Show the heads until the session ends; (what --json prints, lines for a person). Raises InputError and WorkError."""
    from avatar3d.files import check_writable
    from avatar3d.glb import read_glb
    from avatar3d.runtime.cast import open_cast
    from avatar3d.runtime.consent import consented
    from avatar3d.runtime.governor import read_config
    from avatar3d.runtime.replay import open_live
    from avatar3d.runtime.trace import Trace
    from avatar3d.xr import openxr
    from avatar3d.xr.show import Show
    from avatar3d.xr.wearer import Wearer

    if options.show.keep_views is not None and options.show.frames is None:
        raise InputError("--keep-views keeps the last frame of --frames N; give both")
    trace: Trace | None = None
    if options.record is not None:
        check_writable(options.record)
        trace = Trace()
    config = read_config(options.ladder.governor, options.ladder.scale)
    if options.rest:
        config = replace(config, rest=True)
    motions = options.heads.motions
    wearer: Wearer | None = None
    if HEADSET in motions:
        if motions.count(HEADSET) > 1:
            raise InputError("--motion headset was given more than once; the wearer moves one head")
        if consented(options.consents):
            wearer = Wearer()
        else:
            motions[motions.index(HEADSET)] = "idle"
    gaze = options.show.foveation == "gaze" and consented(options.consents)
    session = replace(options.show.session, face=wearer is not None, gaze=gaze)
    shown = replace(options.show, session=session, trace=trace, quiet=quiet)
    avatars = [read_glb(path) for path in options.avatar]
    openxr.load()

    def opener(spec: str) -> "Source":
        return wearer if wearer is not None and spec == HEADSET else open_live(spec)

    heads = options.heads
    cast = open_cast(avatars, motions, config.silent_s, heads.look_at_viewer, heads.mirror, opener, trace)
    try:
        result = Show(cast, config, shown, wearer).run()
    finally:
        cast.close()
        if trace is not None and options.record is not None:
            trace.write(options.record)
    return result, _summary(result)


def _summary(result: dict[str, Any]) -> list[str]:
    from avatar3d.motion.validation import unknown_lines

    rungs = ", ".join(f"{name} {count}" for name, count in result["rungs"].items() if count)
    lines = [f"{result['runtime']}: {result['rendered']} frames at {result['fps']:.1f} fps, {result['late']} late; {rungs}"]
    if result["expression_latency_ms_p95"] is not None:
        lines.append(
            f"latency p95: head {result['head_latency_ms_p95']:.1f} ms, expression {result['expression_latency_ms_p95']:.1f} ms"
        )
    return [*lines, *unknown_lines(result["motion"]["not_understood"])]


COMMAND = command("xr", "show the head in a headset (OpenXR)", Xr, run)
