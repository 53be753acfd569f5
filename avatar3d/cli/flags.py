"""Arguments that several commands share; imports nothing heavy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from avatar3d.choices import DIALECTS
from avatar3d.text import whole_number

MIN_PICTURE_PX, MAX_PICTURE_PX = 16, 8192


def within(low: float, high: float, unit: str = "", whole: bool = False) -> Callable[[str], float]:
    """An argument's type: a number in [low, high], with `whole` one without a fraction; anything else is refused in one sentence."""

    def number(text: str) -> float:
        if whole:
            found: float | None = whole_number(text.strip(), int(low), int(high))
        else:
            try:
                found = float(text)
            except ValueError:
                found = None
            if found is not None and not low <= found <= high:  # nor NaN
                found = None
        if found is None:
            known = f"{int(low)} to {int(high)}" if whole else f"{low:g} to {high:g}"
            raise argparse.ArgumentTypeError(
                f"{text[:40]!r} is not a {'whole ' * whole}number from {known}{unit and f' {unit}'}"
            )
        return found

    return number


degrees = within(-3600.0, 3600.0, "degrees")  # ten turns: more is a slip
distance = within(0.1, 100.0, "metres")  # between an eye and a head: nearer it is inside, farther the head is a pixel
ipd = within(0.0, 200.0, "millimetres")
frame_count = within(1, 10**9, whole=True)
seed = within(0, 2**32 - 1, whole=True)


def add_expressions_flag(parser: argparse.ArgumentParser, text: str) -> None:
    """`--expressions solved|network`, the first by default."""
    parser.add_argument("--expressions", choices=DIALECTS, default=DIALECTS[0], help=text)


def picture_size(text: str) -> tuple[int, int]:
    """(width, height) of WIDTHxHEIGHT, or of one number for both; an argument's type."""
    parts = text.lower().replace("×", "x").split("x")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        numbers *= 2
    if len(numbers) != 2 or not all(MIN_PICTURE_PX <= n <= MAX_PICTURE_PX for n in numbers):
        raise argparse.ArgumentTypeError(f"size {text!r} is not WIDTHxHEIGHT with both in {MIN_PICTURE_PX}..{MAX_PICTURE_PX}")
    return numbers[0], numbers[1]


def add_listen_flag(parser: argparse.ArgumentParser) -> None:
    """--listen, as `listen`, a list of links."""
    parser.add_argument(
        "--listen", metavar="LINK", action="append", default=[],
        help="show a head that `avatar3d stream` sends: short for --motion net:LINK, after the other sources",
    )  # fmt: skip


def add_show_flags(parser: argparse.ArgumentParser) -> None:
    """What a window and a headset have in common."""
    parser.add_argument("--look-at-viewer", action="store_true", help="the heads seek eye contact")
    parser.add_argument("--mirror", action="store_true", help="show motion as a mirror does: to see yourself")
    parser.add_argument("--overlay", action="store_true", help="show quality, rate and latencies on a panel in the scene")
    parser.add_argument(
        "--rung", choices=("auto", "live", "baked", "reduced", "blendshape"), default="auto", help="keep to one quality"
    )
    parser.add_argument(
        "--scale",
        type=within(0.0, 1.0),
        metavar="SHARE",
        help="draw this share of the pixels along each axis, such as 0.7 (default: as the governor chooses)",
    )
    parser.add_argument("--governor", type=Path, metavar="YAML", help="settings instead of configs/governor.yaml")


def add_tuning_flags(parser: argparse.ArgumentParser) -> None:
    """--tune and --no-tune, as `tuning` (one of TUNING_MODES)."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--tune", dest="tuning", action="store_const", const="again", default="cached",
        help="measure anew which way to draw is fastest here (done once for each driver and size, then remembered)",
    )  # fmt: skip
    group.add_argument(
        "--no-tune", dest="tuning", action="store_const", const="never", help="measure nothing and draw as by default"
    )


def add_renderer_flag(parser: argparse.ArgumentParser) -> None:
    """Which renderer draws files."""
    parser.add_argument(
        "--renderer", choices=("realtime", "reference"), default="realtime",
        help="OpenGL, or its slow definition in torch (default realtime)",
    )  # fmt: skip
