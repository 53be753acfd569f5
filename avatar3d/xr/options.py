"""What a headset shows and for how long; imports nothing heavy, so that the command line is made from it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from avatar3d.choices import (
    DEFAULT_DISTANCE_M,
    MAX_DISTANCE_M,
    MIN_DISTANCE_M,
    TUNING,
    FoveationKind,
    Rung,
    StereoChoice,
    TuningMode,
)  # fmt: skip
from avatar3d.runtime.trace import Trace
from avatar3d.settings import Option, Within, check


@dataclass(frozen=True)
class SessionOptions:
    """hz: refresh rate to ask for, None for the runtime's own. passthrough: show the real room around the head.

    depth_layer: give the compositor our depth, so that it can move the picture with the viewer. face: read the wearer's face
    and eyes, which needs the wearer's consent.
    """

    hz: Annotated[float | None, Within(1, 1000, "times a second"), Option("refresh rate to ask the headset for")] = None
    passthrough: Annotated[bool, Option("show the head in the real room")] = False
    depth_layer: bool = True
    face: bool = False
    gaze: bool = False
    space_warp: Annotated[bool, Option("let the headset make every other frame from our motion, where it can")] = False


@dataclass(frozen=True)
class ShowOptions:
    """What to show and for how long. Raises InputError, naming the field, on what cannot be.

    frames: to show, None until the session ends. distance_m, height_m: of the head's eyes from the viewer's. rung: keep to
    this rung, None for the governor. reconnect_s: how long to wait for a runtime that ended. keep_views: folder for the last
    pictures of both eyes and their cameras. overlay: show figures on a panel. trace: takes spans of each frame.
    tuning, quiet: see avatar3d.rendering.opengl.autotune.choose.
    """

    session: SessionOptions = field(default_factory=SessionOptions)
    frames: Annotated[
        int | None, Within(1, 1e9), Option("end after N frames (default: until the session ends)", metavar="N")
    ] = None
    distance_m: Annotated[
        float,
        Within(MIN_DISTANCE_M, MAX_DISTANCE_M, "metres"),
        Option("metres between the eyes of viewer and head", ("--distance",)),
    ] = DEFAULT_DISTANCE_M
    height_m: Annotated[
        float, Within(-100, 100, "metres"), Option("metres that the head stands above the viewer's eyes", ("--height",))
    ] = 0.0
    rung: Annotated[Rung | None, Option("keep to one quality", none="auto")] = None
    reconnect_s: Annotated[
        float, Within(0, 86_400, "seconds"), Option("wait for a runtime that ended", ("--reconnect",), metavar="SECONDS")
    ] = 20.0
    keep_views: Annotated[Path | None, Option("with --frames: keep both eyes' last pictures", metavar="FOLDER")] = None
    overlay: Annotated[bool, Option("show quality, rate and latencies on a panel in the scene")] = False
    trace: Trace | None = None
    foveation: Annotated[
        FoveationKind,
        Option(
            "draw coarser away from what lies straight ahead (fixed) or from where you look (gaze, with consent, else as fixed)"
        ),
    ] = "none"
    stereo: Annotated[StereoChoice, Option("both eyes in two passes or in the layers of one (default: the faster)")] = "auto"
    tuning: Annotated[TuningMode, TUNING] = "never"
    quiet: bool = True

    def __post_init__(self) -> None:
        check(self, "the show")
