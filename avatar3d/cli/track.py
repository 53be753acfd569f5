"""`avatar3d track`: a video or a camera in, motion codes out."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from avatar3d.choices import Dialect
from avatar3d.cli.command import Result, command
from avatar3d.cli.shared import check_codes_file
from avatar3d.errors import InputError, WorkError
from avatar3d.progress import ProgressBar
from avatar3d.settings import Option, Within
from avatar3d.text import whole_number
from avatar3d.tracking import MAX_CAMERA, MAX_FACES

if TYPE_CHECKING:
    from avatar3d.motion.code import MotionCode
    from avatar3d.motion.filter import FilterState

CAMERA_FPS = 30.0  # of the preview and the timecodes of a camera


@dataclass(frozen=True)
class Track:
    """What `avatar3d track` takes."""

    source: Annotated[str, Option("a video file, or camera:N", positional=True)]
    out: Annotated[Path | None, Option("motion codes: .csv in Live Link Face columns, or .jsonl", ("-o", "--out"))] = None
    faces: Annotated[int, Within(1, MAX_FACES), Option(f"how many faces to follow (1 to {MAX_FACES})", metavar="N")] = 1
    face: Annotated[
        int | None,
        Within(0, 999),
        Option("which of them to write: 0 appeared first; default: seen longest", metavar="N"),
    ] = None
    expressions: Annotated[
        Dialect,
        Option("solve them on the person's own head, or take the blendshape network's answers as they are"),
    ] = "solved"
    smooth: Annotated[bool, Option("write the codes behind the One-Euro filter")] = False
    preview: Annotated[Path | None, Option("film of the landmarks beside the driven head", metavar="FILE.mp4")] = None
    avatar: Annotated[Path | None, Option("whose head the preview drives (default: average)", metavar="FILE.glb")] = None
    calibrate: Annotated[
        Path | None,
        Option("write the person's calibration from --seconds of a face at rest, instead of codes", metavar="FILE.json"),
    ] = None
    seconds: Annotated[float, Within(0.5, 60, "seconds"), Option("length of the calibration")] = 3.0
    calibration: Annotated[Path | None, Option("apply a calibration written before", metavar="FILE.json")] = None
    limit: Annotated[
        int | None,
        Within(1, 1e9, "frames"),
        Option("stop after so many frames; a camera stops at Ctrl-C too", metavar="FRAMES"),
    ] = None


def run(options: Track, quiet: bool) -> Result:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    _check(options)
    from avatar3d.motion.calibrate import calibrate, read_calibration, write_calibration
    from avatar3d.tracking.frames import open_camera, open_video
    from avatar3d.tracking.track import TrackedFrame, track

    calibration = None if options.calibration is None else read_calibration(options.calibration)
    scheme, _, number = options.source.partition(":")
    source = (
        open_camera(_camera_number(options.source, number))
        if scheme == "camera"
        else open_video(options.source.removeprefix("video:"))
    )
    fps = CAMERA_FPS if source.live else source.fps
    limit = options.limit
    if options.calibrate is not None:
        limit = min(limit or 10**9, max(1, round(options.seconds * fps)))
    with ExitStack() as stack:
        stack.callback(source.close)
        progress = stack.enter_context(ProgressBar(not quiet))
        each = None
        if options.preview is not None:
            from avatar3d.media import film
            from avatar3d.tracking import preview

            draw, close = preview.clay_drawer() if options.avatar is None else preview.avatar_drawer(options.avatar)
            stack.callback(close)
            width = max(2, round(source.width * preview.HEIGHT_PX / source.height)) + preview.HEIGHT_PX
            add = preview.paced(stack.enter_context(film(options.preview, (preview.HEIGHT_PX, width), fps)), fps)
            drive = _Drive(options, calibration)

            def each(frame: TrackedFrame) -> None:
                add(frame.time_ns, preview.compose(frame, drive(frame), draw))

        solved = options.expressions == "solved"
        teacher = None if calibration is None else calibration.teacher
        known = None if teacher is None else (options.face or 0, teacher)
        result = track(source, options.faces, limit=limit, progress=progress, each=each, solved=solved, known=known)
        identity = options.face if options.face is not None else result.longest()
        codes = result.codes.get(identity, []) if identity is not None else []
        if not codes:  # raised in here, so that no film is left
            seen = f"faces 0 to {len(result.codes) - 1} were" if result.codes else "no face was"
            what = f"{seen} seen in {result.frames} frames of {options.source}"
            raise WorkError(f"nothing to write: {what}; check the light and --face")
    output = options.calibrate or options.out or options.preview
    if options.calibrate is not None:
        write_calibration(options.calibrate, replace(calibrate(codes), teacher=result.teachers.get(identity or 0)))
    elif options.out is not None:
        _write(options.out, _finished(codes, options.smooth, calibration), fps, None if source.live else 0)
    report: dict[str, object] = {
        "frames": result.frames,
        "tracked": result.tracked,
        "ms_per_frame_p50": result.ms_per_frame_p50(),
        "output": str(output),
        "faces": len(result.codes),
        "detections": result.detections,
    }
    if options.preview is not None:
        report["preview"] = str(options.preview)
    lines = [
        f"{output}: a face in {result.tracked} of {result.frames} frames, {report['ms_per_frame_p50']:.1f} ms each (median),"
        f" detector run {result.detections} times"
    ]
    return report, lines


class _Drive:
    """Which code the preview's head follows, smoothed and calibrated as the output is."""

    def __init__(self, options: Track, calibration: object) -> None:
        self._face, self._smooth, self._calibration = options.face, options.smooth, calibration
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


def _check(options: Track) -> None:
    """Refuse arguments before any work starts."""
    from avatar3d.files import check_writable

    if options.out is None and options.preview is None and options.calibrate is None:
        raise InputError("track was told to write nothing; pass -o codes.csv, --preview film.mp4 or --calibrate me.json")
    if options.calibrate is not None and (options.out is not None or options.calibration is not None):
        raise InputError("--calibrate writes a calibration only; leave out -o and --calibration")
    if options.avatar is not None and options.preview is None:
        raise InputError("--avatar was given without --preview; it says whose head the preview drives")
    if options.out is not None:
        check_codes_file(options.out)
    for path in (options.preview, options.calibrate):
        if path is not None:
            check_writable(path)


def _camera_number(source: str, number: str) -> int:
    found = whole_number(number or "0", 0, MAX_CAMERA)
    if found is None:
        raise InputError(f"{source!r} is not a camera; expected camera:N, such as camera:0")
    return found


COMMAND = command("track", "turn a video or a camera into motion codes", Track, run, loads_networks=True)
