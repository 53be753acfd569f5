"""Options that several commands share, as annotated types and small dataclasses; imports nothing heavy."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from avatar3d.choices import Dialect
from avatar3d.cli.options import number
from avatar3d.errors import InputError
from avatar3d.settings import Option, Within

if TYPE_CHECKING:
    from avatar3d.avatar import Avatar
    from avatar3d.motion.code import MotionCode

A_YEAR_S = 31_557_600  # nothing here runs longer
CODE_SUFFIXES = (".csv", ".jsonl")  # of files of motion codes

AvatarFile = Annotated[Path, Option("what enroll wrote (.glb)", positional=True)]
RendererName = Annotated[Literal["realtime", "reference"], Option("OpenGL, or its slow definition in torch")]


def within(low: float, high: float, unit: str = "", whole: bool = False) -> Callable[[str], float]:
    """An argument's type: a number in [low, high], with `whole` one without a fraction."""
    return number(Within(low, high, unit), whole)


seed = within(0, 2**32 - 1, whole=True)


def expression_weights(text: str) -> dict[str, float]:
    """{ARKit name: weight} of NAME=WEIGHT,...; a name alone is 1. Raises InputError."""
    pairs: dict[str, float] = {}
    for item in filter(None, text.split(",")):
        name, separator, value = item.partition("=")
        try:
            pairs[name.strip()] = float(value) if separator else 1.0
        except ValueError:
            raise InputError(f"{item!r} is not NAME=WEIGHT, such as jawOpen=0.8") from None
    return pairs


@dataclass(frozen=True)
class Heads:
    """What moves the heads of a live show, and how they look at the viewer."""

    motion: Annotated[
        tuple[str, ...],
        Option("what moves the head, such as csv:FILE, video:FILE, livelink:PORT or idle; given again, the next head",
               metavar="SOURCE"),
    ] = ()  # fmt: skip
    listen: Annotated[
        tuple[str, ...],
        Option(
            "show a head that `avatar3d stream` sends: short for --motion net:LINK, after the other sources", metavar="LINK"
        ),
    ] = ()
    look_at_viewer: Annotated[bool, Option("the heads seek eye contact")] = False
    mirror: Annotated[bool, Option("show motion as a mirror does: to see yourself")] = False

    @property
    def motions(self) -> list[str]:
        """Specifications of all sources, in the order of the heads."""
        return [*self.motion, *(f"net:{link}" for link in self.listen)]


@dataclass(frozen=True)
class Ladder:
    """Settings of the quality ladder."""

    scale: Annotated[
        float | None,
        Within(0, 1),
        Option(
            "draw this share of the pixels along each axis, such as 0.7 (default: as the governor chooses)", metavar="SHARE"
        ),
    ] = None
    governor: Annotated[Path | None, Option("settings instead of configs/governor.yaml", metavar="YAML")] = None


@dataclass(frozen=True)
class Posed:
    """An avatar's file and how its head is posed: by weights, or by a file of codes."""

    avatar: AvatarFile
    expression: Annotated[
        dict[str, float] | None,
        Option("ARKit weights, such as jawOpen=0.4", metavar="NAME=WEIGHT,...", parse=expression_weights),
    ] = None
    motion: Annotated[Path | None, Option("motion codes in Live Link Face columns, as track writes", metavar="CSV")] = None
    expressions: Annotated[
        Dialect, Option("what --motion's weights are: solved, as track writes them, or a network's answers as they are")
    ] = "solved"


@dataclass(frozen=True)
class Secret:
    """What both ends of a stream share."""

    token: Annotated[str | None, Option("the secret both ends share (others see it in the process list; a file is better)")] = (
        None
    )
    token_file: Annotated[
        Path | None, Option("the same from a file; else AVATAR3D_TOKEN; else one is made", metavar="FILE")
    ] = None
    plain: Annotated[bool, Option("without encryption: whoever is on the way sees the face")] = False


def posed(options: Posed) -> "tuple[Avatar, list[MotionCode]]":
    """The avatar, and the codes that pose it. Raises InputError."""
    from avatar3d.glb import read_glb
    from avatar3d.motion.code import MotionCode

    avatar = read_glb(options.avatar)
    if options.motion is None:
        return avatar, [MotionCode.from_expression(options.expression or {})]
    if options.expression:
        raise InputError("--motion and --expression were both given; expected one of them")
    from avatar3d.motion.csv import read_motion_csv
    from avatar3d.motion.retarget import retargeted

    return avatar, [retargeted(code, options.expressions, avatar.reach) for code in read_motion_csv(options.motion)]


def check_codes_file(path: Path) -> None:
    """Raise InputError where motion codes cannot be written to a file."""
    from avatar3d.files import check_writable

    if path.suffix.lower() not in CODE_SUFFIXES:
        raise InputError(f"cannot write motion codes as {path.name}: expected a name that ends in .csv or .jsonl")
    check_writable(path)
