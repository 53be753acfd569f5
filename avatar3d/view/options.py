"""What a window shows and for how long; imports nothing heavy, so that the command line is made from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from avatar3d.choices import (
    DEFAULT_DISTANCE_M,
    DEFAULT_IPD_M,
    MAX_DISTANCE_M,
    MIN_DISTANCE_M,
    TUNING,
    Rung,
    TuningMode,
    picture_size,
)  # fmt: skip
from avatar3d.errors import InputError
from avatar3d.settings import Option, Within, check

MIN_SIDE_PX, MAX_SIDE_PX = 64, 8192


@dataclass(frozen=True)
class ViewOptions:
    """What to show. Raises InputError, naming the field, on what cannot be.

    size: of the window, (width, height) pixels. yaw_deg, pitch_deg, distance_m: of the viewer at first; without a distance as far off
    as all heads need. rung: None for the governor. frames: until the window is closed where None. screenshot: file for the last of the
    frames. tuning, quiet: see avatar3d.rendering.opengl.autotune.choose.
    """

    stereo: Annotated[bool, Option("both eyes side by side, for the parallel gaze")] = False
    ipd_m: Annotated[
        float,
        Within(0, 0.2, "metres"),
        Option("millimetres between the viewer's eyes", ("--ipd",), scale=1000, unit="millimetres"),
    ] = DEFAULT_IPD_M
    size: Annotated[tuple[int, int], Option("of the window, pixels (default 960x720)", metavar="WxH", parse=picture_size)] = (
        960,
        720,
    )
    # Ten turns: more is a slip.
    yaw_deg: Annotated[
        float, Within(-3600, 3600, "degrees"), Option("degrees, positive toward the subject's left", ("--yaw",))
    ] = 0.0
    pitch_deg: Annotated[float, Within(-3600, 3600, "degrees"), Option("degrees, positive from above", ("--pitch",))] = 0.0
    distance_m: Annotated[
        float | None,
        Within(MIN_DISTANCE_M, MAX_DISTANCE_M, "metres"),
        Option(
            f"metres between the eyes of viewer and head (default {DEFAULT_DISTANCE_M}, for more heads more)", ("--distance",)
        ),
    ] = None
    overlay: Annotated[bool, Option("show quality, rate and latencies on a panel in the scene")] = False
    rung: Annotated[Rung | None, Option("keep to one quality", none="auto")] = None
    frames: Annotated[
        int | None, Within(1, 1e9), Option("end after N frames (default: until the window is closed)", metavar="N")
    ] = None
    screenshot: Annotated[Path | None, Option("with --frames: keep the last picture", metavar="FILE")] = None
    tuning: Annotated[TuningMode, TUNING] = "never"
    quiet: bool = True

    def __post_init__(self) -> None:
        check(self, "the view")
        if not all(MIN_SIDE_PX <= side <= MAX_SIDE_PX for side in self.size):
            width, height = self.size
            raise InputError(f"a window of {width}×{height} is outside {MIN_SIDE_PX} to {MAX_SIDE_PX} pixels a side")
        if self.screenshot is not None and self.frames is None:
            raise InputError("--screenshot keeps the last frame of --frames N; give both")
