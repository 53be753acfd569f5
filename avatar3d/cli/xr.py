"""`avatar3d xr`: its arguments and its work; the command line plugs it in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from avatar3d.choices import FOVEATION_KINDS, STEREO_CHOICES
from avatar3d.cli.flags import (
    add_listen_flag,
    add_show_flags,
    add_tuning_flags,
    distance,
    frame_count,
    within,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `avatar3d xr`; imports nothing heavy."""
    parser.add_argument("avatar", type=Path, nargs="+", help="one or more heads, side by side")
    parser.add_argument(
        "--motion",
        metavar="SOURCE",
        action="append",
        default=[],
        help="what moves the head, such as csv:FILE, video:FILE, livelink:PORT, idle, or headset for the wearer; given again, "
        "the next head",
    )
    add_listen_flag(parser)
    parser.add_argument(
        "--consent",
        choices=("yes", "no"),
        help="may the headset read your face (for --motion headset, --foveation gaze); remembered",
    )
    add_show_flags(parser)
    parser.add_argument("--frames", type=frame_count, metavar="N", help="end after N frames (default: until the session ends)")
    parser.add_argument("--hz", type=within(1, 1000, "times a second"), help="refresh rate to ask the headset for")
    parser.add_argument(
        "--distance", type=distance, default=0.8, help="metres between the eyes of viewer and head (default 0.8)"
    )
    height = within(-100, 100, "metres")
    parser.add_argument("--height", type=height, default=0.0, help="metres that the head stands above the viewer's eyes")
    parser.add_argument("--passthrough", action="store_true", help="show the head in the real room")
    parser.add_argument(
        "--foveation",
        choices=FOVEATION_KINDS,
        default="none",
        help="draw coarser away from what lies straight ahead (fixed) or from where you look (gaze, with consent, else as fixed)",
    )
    parser.add_argument(
        "--space-warp", action="store_true", help="let the headset make every other frame from our motion, where it can"
    )
    parser.add_argument(
        "--stereo",
        choices=STEREO_CHOICES,
        default="auto",
        help="both eyes in two passes or in the layers of one (default: the faster)",
    )
    parser.add_argument("--rest", action="store_true", help="rest at the lowest quality for some seconds in every minute")
    patience = within(0, 86_400, "seconds")
    parser.add_argument("--reconnect", type=patience, default=20.0, metavar="SECONDS", help="wait for a runtime that ended")
    parser.add_argument("--trace", type=Path, metavar="OUT.json", help="write what each thread did when, as a Chrome trace")
    parser.add_argument("--keep-views", type=Path, metavar="FOLDER", help="with --frames: keep both eyes' last pictures")
    add_tuning_flags(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Show the head; returns what `--json` prints. Raises InputError and WorkError."""
    from dataclasses import replace

    from avatar3d.errors import InputError
    from avatar3d.files import check_writable
    from avatar3d.glb import read_glb
    from avatar3d.runtime.cast import open_cast
    from avatar3d.runtime.consent import consented
    from avatar3d.runtime.governor import read_config
    from avatar3d.runtime.pipeline import Source
    from avatar3d.runtime.replay import open_live
    from avatar3d.runtime.trace import Trace
    from avatar3d.xr import openxr
    from avatar3d.xr.headset import SessionOptions
    from avatar3d.xr.show import Show, ShowOptions
    from avatar3d.xr.wearer import Wearer

    if arguments.keep_views is not None and arguments.frames is None:
        raise InputError("--keep-views keeps the last frame of --frames N; give both")
    trace: Trace | None = None
    if arguments.trace is not None:
        check_writable(arguments.trace)
        trace = Trace()
    config = read_config(arguments.governor, arguments.scale)
    if arguments.rest:
        config = replace(config, rest=True)
    motions = [*arguments.motion, *(f"net:{link}" for link in arguments.listen)]
    wearer: Wearer | None = None
    if "headset" in motions:
        if motions.count("headset") > 1:
            raise InputError("--motion headset was given more than once; the wearer moves one head")
        if consented(None if arguments.consent is None else arguments.consent == "yes"):
            wearer = Wearer()
        else:
            motions[motions.index("headset")] = "idle"
    gaze = arguments.foveation == "gaze" and consented(None if arguments.consent is None else arguments.consent == "yes")
    options = ShowOptions(
        session=SessionOptions(
            hz=arguments.hz,
            passthrough=arguments.passthrough,
            face=wearer is not None,
            gaze=gaze,
            space_warp=arguments.space_warp,
        ),
        frames=arguments.frames,
        distance_m=arguments.distance,
        height_m=arguments.height,
        rung=None if arguments.rung == "auto" else arguments.rung,
        reconnect_s=arguments.reconnect,
        keep_views=arguments.keep_views,
        overlay=arguments.overlay,
        trace=trace,
        foveation=arguments.foveation,
        stereo=arguments.stereo,
        tuning=arguments.tuning,
        quiet=arguments.quiet,
    )
    avatars = [read_glb(path) for path in arguments.avatar]
    openxr.load()

    def opener(spec: str) -> Source:
        return wearer if wearer is not None and spec == "headset" else open_live(spec)

    cast = open_cast(avatars, motions, config.silent_s, arguments.look_at_viewer, arguments.mirror, opener, trace)
    try:
        return Show(cast, config, options, wearer).run()
    finally:
        cast.close()
        if trace is not None:
            trace.write(arguments.trace)


def summary(result: dict[str, Any]) -> list[str]:
    """What is printed without `--json`."""
    from avatar3d.motion.validation import unknown_lines

    rungs = ", ".join(f"{name} {count}" for name, count in result["rungs"].items() if count)
    lines = [f"{result['runtime']}: {result['rendered']} frames at {result['fps']:.1f} fps, {result['late']} late; {rungs}"]
    if result["expression_latency_ms_p95"] is not None:
        lines.append(
            f"latency p95: head {result['head_latency_ms_p95']:.1f} ms, expression {result['expression_latency_ms_p95']:.1f} ms"
        )
    return [*lines, *unknown_lines(result["motion"]["not_understood"])]
