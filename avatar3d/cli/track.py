"""`avatar3d track`: its arguments, and running it; called by the command line."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from avatar3d.choices import DIALECTS
from avatar3d.cli.flags import add_expressions_flag, within
from avatar3d.errors import InputError, WorkError
from avatar3d.progress import ProgressBar
from avatar3d.text import whole_number
from avatar3d.tracking import MAX_CAMERA, MAX_FACES

if TYPE_CHECKING:
    from avatar3d.motion.code import MotionCode
    from avatar3d.motion.filter import FilterState

OUTPUT_SUFFIXES = (".csv", ".jsonl")
DEFAULT_CALIBRATION_S = 3.0
CAMERA_FPS = 30.0  # of the preview and the timecodes of a camera


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything `avatar3d track` takes but --json and --quiet; imports nothing heavy."""
    parser.add_argument("source", help="a video file, or camera:N")
    parser.add_argument("-o", "--out", type=Path, help="motion codes: .csv in Live Link Face columns, or .jsonl")
    parser.add_argument("--faces", type=int, default=1, metavar="N", help="how many faces to follow (1 to 8)")
    parser.add_argument("--face", type=int, metavar="N", help="which of them to write: 0 appeared first; default: seen longest")
    add_expressions_flag(parser, "solve them on the person's own head, or take the blendshape network's answers as they are")
    parser.add_argument("--smooth", action="store_true", help="write the codes behind the One-Euro filter")
    parser.add_argument("--preview", type=Path, metavar="FILE.mp4", help="film of the landmarks beside the driven head")
    parser.add_argument("--avatar", type=Path, metavar="FILE.glb", help="whose head the preview drives (default: average)")
    parser.add_argument(
        "--calibrate", type=Path, metavar="FILE.json",
        help="write the person's calibration from --seconds of a face at rest, instead of codes",
    )  # fmt: skip
    calibration_s = within(0, 60, "seconds")
    parser.add_argument(
        "--seconds", type=calibration_s, default=DEFAULT_CALIBRATION_S, help="length of the calibration (default 3)"
    )
    parser.add_argument("--calibration", type=Path, metavar="FILE.json", help="apply a calibration written before")
    parser.add_argument("--limit", type=int, metavar="FRAMES", help="stop after so many frames; a camera stops at Ctrl-C too")


def run(arguments: argparse.Namespace) -> tuple[dict[str, object], list[str]]:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    _check(arguments)
    from avatar3d.motion.calibrate import calibrate, read_calibration, write_calibration
    from avatar3d.tracking.frames import open_camera, open_video
    from avatar3d.tracking.track import TrackedFrame, track

    calibration = None if arguments.calibration is None else read_calibration(arguments.calibration)
    scheme, _, number = arguments.source.partition(":")
    source = (
        open_camera(_camera_number(arguments.source, number))
        if scheme == "camera"
        else open_video(arguments.source.removeprefix("video:"))
    )
    fps = CAMERA_FPS if source.live else source.fps
    limit = arguments.limit
    if arguments.calibrate is not None:
        limit = min(limit or 10**9, max(1, round(arguments.seconds * fps)))
    with ExitStack() as stack:
        stack.callback(source.close)
        progress = stack.enter_context(ProgressBar(not arguments.quiet))
        each = None
        if arguments.preview is not None:
            from avatar3d.media import film
            from avatar3d.tracking import preview

            draw, close = preview.clay_drawer() if arguments.avatar is None else preview.avatar_drawer(arguments.avatar)
            stack.callback(close)
            width = max(2, round(source.width * preview.HEIGHT_PX / source.height)) + preview.HEIGHT_PX
            add = preview.paced(stack.enter_context(film(arguments.preview, (preview.HEIGHT_PX, width), fps)), fps)
            drive = _Drive(arguments, calibration)

            def each(frame: TrackedFrame) -> None:
                add(frame.time_ns, preview.compose(frame, drive(frame), draw))

        solved = arguments.expressions == DIALECTS[0]
        teacher = None if calibration is None else calibration.teacher
        known = None if teacher is None else (arguments.face or 0, teacher)
        result = track(source, arguments.faces, limit=limit, progress=progress, each=each, solved=solved, known=known)
        identity = arguments.face if arguments.face is not None else result.longest()
        codes = result.codes.get(identity, []) if identity is not None else []
        if not codes:  # raised in here, so that no film is left
            seen = f"faces 0 to {len(result.codes) - 1} were" if result.codes else "no face was"
            what = f"{seen} seen in {result.frames} frames of {arguments.source}"
            raise WorkError(f"nothing to write: {what}; check the light and --face")
    output = arguments.calibrate or arguments.out or arguments.preview
    if arguments.calibrate is not None:
        write_calibration(arguments.calibrate, replace(calibrate(codes), teacher=result.teachers.get(identity or 0)))
    elif arguments.out is not None:
        _write(arguments.out, _finished(codes, arguments.smooth, calibration), fps, None if source.live else 0)
    report: dict[str, object] = {
        "frames": result.frames,
        "tracked": result.tracked,
        "ms_per_frame_p50": result.ms_per_frame_p50(),
        "output": str(output),
        "faces": len(result.codes),
        "detections": result.detections,
    }
    if arguments.preview is not None:
        report["preview"] = str(arguments.preview)
    lines = [
        f"{output}: a face in {result.tracked} of {result.frames} frames, {report['ms_per_frame_p50']:.1f} ms each (median),"
        f" detector run {result.detections} times"
    ]
    return report, lines


class _Drive:
    """Which code the preview's head follows, smoothed and calibrated as the output is."""

    def __init__(self, arguments: argparse.Namespace, calibration: object) -> None:
        self._face, self._smooth, self._calibration = arguments.face, arguments.smooth, calibration
        self._state: FilterState | None = None

    def __call__(self, frame: object) -> MotionCode | None:
        from avatar3d.motion.filter import smooth

        codes = frame.codes  # type: ignore[attr-defined]
        identity = self._face if self._face is not None else min(codes, default=None)
        code = codes.get(identity)
        if code is not None and self._smooth:
            self._state = smooth(self._state, code)
            code = self._state.smooth
        if code is not None and self._calibration is not None:
            code = self._calibration.apply(code)  # type: ignore[attr-defined]
        return code


def _finished(codes: list[MotionCode], smooth: bool, calibration: object) -> list[MotionCode]:
    from avatar3d.motion.filter import smoothed

    codes = smoothed(codes) if smooth else codes
    return codes if calibration is None else [calibration.apply(code) for code in codes]  # type: ignore[attr-defined]


def _write(path: Path, codes: list[MotionCode], fps: float, started_ns: int | None) -> None:
    if path.suffix.lower() == ".csv":
        from avatar3d.motion.csv import DEFAULT_FPS, write_motion_csv
        from avatar3d.motion.timing import keeps_beat

        # A variable rate is written in the frames that are counted where nothing else tells.
        write_motion_csv(path, codes, fps if keeps_beat(codes, fps) else DEFAULT_FPS, started_ns)
    else:
        from avatar3d.motion.jsonl import write_motion_jsonl

        write_motion_jsonl(path, codes)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse arguments before any work starts."""
    from avatar3d.files import check_writable

    if arguments.out is None and arguments.preview is None and arguments.calibrate is None:
        raise InputError("track was told to write nothing; pass -o codes.csv, --preview film.mp4 or --calibrate me.json")
    if arguments.out is not None and arguments.out.suffix.lower() not in OUTPUT_SUFFIXES:
        raise InputError(f"cannot write motion codes as {arguments.out.name}: expected a name that ends in .csv or .jsonl")
    if arguments.calibrate is not None and (arguments.out is not None or arguments.calibration is not None):
        raise InputError("--calibrate writes a calibration only; leave out -o and --calibration")
    if arguments.calibrate is not None and not 0.5 <= arguments.seconds <= 60:
        raise InputError(f"--seconds {arguments.seconds:g} is outside 0.5..60")
    if not 1 <= arguments.faces <= MAX_FACES:
        raise InputError(f"--faces {arguments.faces} is outside 1..{MAX_FACES}")
    if arguments.face is not None and not 0 <= arguments.face < 1000:
        raise InputError(f"--face {arguments.face} is no face's number; 0 is the first that appeared")
    if arguments.limit is not None and arguments.limit < 1:
        raise InputError(f"--limit {arguments.limit} is not a number of frames")
    if arguments.avatar is not None and arguments.preview is None:
        raise InputError("--avatar was given without --preview; it says whose head the preview drives")
    for path in (arguments.out, arguments.preview, arguments.calibrate):
        if path is not None:
            check_writable(path)


def _camera_number(source: str, number: str) -> int:
    found = whole_number(number or "0", 0, MAX_CAMERA)
    if found is None:
        raise InputError(f"{source!r} is not a camera; expected camera:N, such as camera:0")
    return found
