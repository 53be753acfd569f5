"""Words and ranges that both the parts and the command line know: what a setting may be. Imports nothing heavy."""

from __future__ import annotations

from typing import Literal, get_args

from avatar3d.errors import InputError
from avatar3d.settings import Option

Form = Literal["live", "baked", "mesh"]  # the field for each pixel; from textures; left out
FORMS: tuple[Form, ...] = get_args(Form)
Rung = Literal["live", "baked", "reduced", "blendshape"]  # of the quality ladder, best first
RUNGS: tuple[Rung, ...] = get_args(Rung)
TuningMode = Literal["cached", "again", "never"]  # measure where nothing is remembered; measure anew; draw as by default
TUNING_MODES: tuple[TuningMode, ...] = get_args(TuningMode)
# Of the command line, which measures; a library user's heads are drawn as by default.
TUNING = Option(
    "",
    switches=(
        (
            "--tune",
            "again",
            "measure anew which way to draw is fastest here (done once for each driver and size, then remembered)",
        ),
        ("--no-tune", "never", "measure nothing and draw as by default"),
    ),
    default="cached",
)
FoveationKind = Literal["none", "fixed", "gaze"]  # sharp everywhere; around what is straight ahead; or where the eyes look
FOVEATION_KINDS: tuple[FoveationKind, ...] = get_args(FoveationKind)
StereoChoice = Literal["auto", "passes", "layers"]  # as measured; one eye after the other; both at once where the driver can
STEREO_CHOICES: tuple[StereoChoice, ...] = get_args(StereoChoice)
# What a motion's weights are: how far a head goes along its own shapes, or what a tracking network said of a face.
Dialect = Literal["solved", "network"]
DIALECTS: tuple[str, ...] = get_args(Dialect)

FPS_RANGE = (1.0, 240.0)  # of a film
MIN_PICTURE_PX, MAX_PICTURE_PX = 16, 8192  # side of a picture
DEFAULT_IPD_M = 0.063  # the adult mean, and what the simulated headset reports
DEFAULT_DISTANCE_M = 0.8  # between the eyes of two who talk; nearer feels too close (Hall 1966: personal distance 0.45 to 1.2)
MIN_DISTANCE_M, MAX_DISTANCE_M = 0.2, 10.0  # at which a head can stand before a viewer


def picture_size(text: str) -> tuple[int, int]:
    """(width, height) of WIDTHxHEIGHT, or of one number for both. Raises InputError."""
    parts = text.lower().replace("×", "x").split("x")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        numbers *= 2
    if len(numbers) != 2 or not all(MIN_PICTURE_PX <= n <= MAX_PICTURE_PX for n in numbers):
        raise InputError(f"size {text!r} is not WIDTHxHEIGHT with both in {MIN_PICTURE_PX}..{MAX_PICTURE_PX}")
    return numbers[0], numbers[1]
