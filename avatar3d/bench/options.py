"""What `bench` measures; imports nothing heavy, so that the command line is made from it."""

from dataclasses import dataclass
from typing import Annotated

from avatar3d.choices import TUNING, TuningMode
from avatar3d.settings import Option, Within, check


@dataclass(frozen=True)
class BenchOptions:
    """What is measured and for how long. Raises InputError, naming the field, on what cannot be.

    quick: one size, and parity over few views; thorough: over many. parity: with the reference, which needs torch. seconds: for each
    case. tuning: see avatar3d.rendering.opengl.autotune.choose.
    """

    quick: Annotated[bool, Option("one size, 512×512, and a small parity check")] = False
    thorough: Annotated[bool, Option("parity over 12 views × 6 expressions")] = False
    growth: Annotated[bool, Option("cost against hair levels, resolution and number of heads")] = False
    parity: Annotated[bool, Option("skip the comparison with the reference (which needs torch)")] = True
    seconds: Annotated[float, Within(0.05, 600), Option("time for each case")] = 1.5
    tuning: Annotated[TuningMode, TUNING] = "never"

    def __post_init__(self) -> None:
        check(self, "the bench")
