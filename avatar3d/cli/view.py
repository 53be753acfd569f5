"""`avatar3d view`: its arguments and its work; the command line plugs it in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from avatar3d.cli.flags import (
    add_listen_flag,
    add_show_flags,
    add_tuning_flags,
    degrees,
    distance,
    frame_count,
    ipd,
    picture_size,
)
from avatar3d.view import HELP


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `avatar3d view`; imports nothing heavy."""
    parser.epilog = " · ".join(HELP)
    parser.add_argument("avatar", type=Path, nargs="+", help="one or more heads, side by side")
    parser.add_argument(
        "--motion",
        metavar="SOURCE",
        action="append",
        default=[],
        help="what moves the head, such as csv:FILE, video:FILE, livelink:PORT or idle; given again, the next head",
    )
    add_listen_flag(parser)
    parser.add_argument("--stereo", action="store_true", help="both eyes side by side, for the parallel gaze")
    parser.add_argument("--ipd", type=ipd, default=63.0, help="millimetres between the viewer's eyes")
    parser.add_argument("--size", type=picture_size, default=(960, 720), metavar="WxH", help="of the window, pixels")
    parser.add_argument("--yaw", type=degrees, default=0.0, help="degrees, positive toward the subject's left")
    parser.add_argument("--pitch", type=degrees, default=0.0, help="degrees, positive from above")
    parser.add_argument(
        "--distance", type=distance, help="metres between the eyes of viewer and head (default 0.8, for more heads more)"
    )
    add_show_flags(parser)
    parser.add_argument(
        "--frames", type=frame_count, metavar="N", help="end after N frames (default: until the window is closed)"
    )
    parser.add_argument("--screenshot", type=Path, metavar="FILE", help="with --frames: keep the last picture")
    add_tuning_flags(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Show the heads; returns what `--json` prints. Raises InputError and WorkError."""
    from avatar3d.glb import read_glb
    from avatar3d.media import check_suffix
    from avatar3d.runtime.cast import open_cast
    from avatar3d.runtime.governor import read_config
    from avatar3d.view.show import View, ViewOptions
    from avatar3d.view.window import open_window

    if arguments.screenshot is not None:
        check_suffix(arguments.screenshot, moving=False)
    width, height = arguments.size
    options = ViewOptions(
        width=width,
        height=height,
        stereo=arguments.stereo,
        frames=arguments.frames,
        screenshot=arguments.screenshot,
        rung=None if arguments.rung == "auto" else arguments.rung,
        overlay=arguments.overlay,
        ipd_m=arguments.ipd / 1000,
        yaw_deg=arguments.yaw,
        pitch_deg=arguments.pitch,
        distance_m=arguments.distance,
        tuning=arguments.tuning,
        quiet=arguments.quiet,
    )
    config = read_config(arguments.governor, arguments.scale)
    avatars = [read_glb(path) for path in arguments.avatar]
    motions = [*arguments.motion, *(f"net:{link}" for link in arguments.listen)]
    title = "avatar3d: " + ", ".join(path.stem for path in arguments.avatar)
    with open_window(width, height, title) as window:
        cast = open_cast(avatars, motions, config.silent_s, arguments.look_at_viewer, arguments.mirror)
        try:
            return View(window, cast, config, options).run()
        finally:
            cast.close()


def summary(result: dict[str, Any]) -> list[str]:
    """What is printed without `--json`."""
    from avatar3d.motion.validation import unknown_lines

    rungs = ", ".join(f"{name} {count}" for name, count in result["rungs"].items() if count)
    line = f"{result['rendered']} frames at {result['fps']:.1f} fps, {result['late']} late; {rungs}"
    return [line, *unknown_lines(result["motion_codes"]["not_understood"])]
