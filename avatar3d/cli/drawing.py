"""`avatar3d render` and `avatar3d export`: their arguments, and running them; called by the command line."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from avatar3d.choices import FPS_RANGE
from avatar3d.cli.flags import add_expressions_flag, add_renderer_flag, degrees, distance, ipd, picture_size, within
from avatar3d.errors import InputError
from avatar3d.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from avatar3d.avatar import Avatar
    from avatar3d.camera import Camera
    from avatar3d.motion.code import MotionCode

FILM_FPS = 30.0
VIEW_HEIGHT_M = (0.001, 100.0)  # that a picture covers: from a pore to a hall


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


def add_arguments_render(parser: argparse.ArgumentParser) -> None:
    """Everything `avatar3d render` takes but --json and --quiet; imports nothing heavy."""
    _add_view_arguments(parser)
    parser.add_argument("-o", "--out", type=Path, required=True, help="picture or video; with --cameras a folder")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--stereo", choices=("side-by-side", "anaglyph"), help="both eyes' views in one picture")
    views = within(2, 720, "views", whole=True)
    what.add_argument("--turntable", type=views, metavar="N", help="N views about the head: .mp4, .gif or a .png grid")
    what.add_argument("--cameras", type=Path, metavar="FILE", help="JSON list of {name, width, height, K, R, t}")
    what.add_argument("--photo-view", action="store_true", help="the photo's camera and expression, framed about the head")
    what.add_argument("--photo-frame", action="store_true", help="the same in the photo's whole frame, to lay over it")
    parser.add_argument(
        "--size", type=picture_size, default=(512, 512), metavar="WxH", help="pixels of each view (default 512x512)"
    )
    parser.add_argument("--yaw", type=degrees, default=0.0, help="degrees, positive toward the subject's left")
    parser.add_argument("--pitch", type=degrees, default=0.0, help="degrees, positive from above")
    parser.add_argument("--distance", type=distance, default=0.6, help="metres from the eyes to the camera (default 0.6)")
    parser.add_argument(
        "--view-height", type=within(*VIEW_HEIGHT_M, "metres"), metavar="M",
        help="metres the picture covers at the head (default 0.36, or what --motion needs)",
    )  # fmt: skip
    parser.add_argument("--ipd", type=ipd, default=63.0, help="millimetres between the viewer's eyes (default 63)")
    parser.add_argument(
        "--form", choices=("live", "baked", "mesh"), default="baked", help="how the field is evaluated (default baked)"
    )
    add_renderer_flag(parser)
    parser.add_argument(
        "--supersample", type=int, default=2, choices=(1, 2, 3, 4), help="samples along each side of a pixel (default 2)"
    )
    parser.add_argument(
        "--background", type=_background, default=_background("#f5f5f5"), metavar="COLOUR",
        help="#rrggbb, or transparent (default #f5f5f5)",
    )  # fmt: skip
    parser.add_argument(
        "--fps", type=within(*FPS_RANGE, "frames a second"), help="of a film (default: the motion's own rate, else 30)"
    )


def add_arguments_export(parser: argparse.ArgumentParser) -> None:
    """Everything `avatar3d export` takes but --json and --quiet; imports nothing heavy."""
    _add_view_arguments(parser)
    parser.add_argument("-o", "--out", type=Path, required=True, help="mesh.ply or mesh.obj")
    parser.add_argument("--no-hair", action="store_true", help="the head alone")


def _add_view_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("avatar", type=Path, help="what enroll wrote (.glb)")
    command.add_argument(
        "--expression", type=_expression, default={}, metavar="NAME=WEIGHT,...", help="ARKit weights, such as jawOpen=0.4"
    )
    command.add_argument("--motion", type=Path, metavar="CSV", help="motion codes in Live Link Face columns, as track writes")
    add_expressions_flag(
        command, "what --motion's weights are: solved, as track writes them, or a network's answers as they are"
    )


def _load(arguments: argparse.Namespace) -> tuple[Avatar, list[MotionCode]]:
    from avatar3d.glb import read_glb
    from avatar3d.motion.code import MotionCode

    avatar = read_glb(arguments.avatar)
    if arguments.motion is not None:
        if arguments.expression:
            raise InputError("--motion and --expression were both given; expected one of them")
        from avatar3d.motion.csv import read_motion_csv
        from avatar3d.motion.retarget import retargeted

        codes = read_motion_csv(arguments.motion)
        return avatar, [retargeted(code, arguments.expressions, avatar.reach) for code in codes]
    return avatar, [MotionCode.from_expression(arguments.expression)]


def run_render(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d import media
    from avatar3d.files import check_writable
    from avatar3d.motion.timing import frames_at
    from avatar3d.progress import ProgressBar
    from avatar3d.rendering import RenderOptions, make_renderer

    started = time.perf_counter()
    avatar, motions = _load(arguments)
    if arguments.fps is None:
        arguments.fps = _own_fps(motions)
    if len(motions) > 1 and arguments.out.suffix.lower() in media.MOVIE_SUFFIXES:
        motions = frames_at(motions, arguments.fps)
    views, expressions = _views(arguments, avatar, motions)
    if arguments.cameras is None:
        check_writable(arguments.out)
        media.check_suffix(arguments.out, moving=len(motions) > 1 or arguments.turntable is not None)
    options = RenderOptions(form=arguments.form, supersample=arguments.supersample)
    with ProgressBar(not arguments.quiet) as progress, closing(make_renderer(arguments.renderer)) as renderer:

        def draw() -> Iterator[list[np.ndarray]]:
            for index, (cameras, motion) in enumerate(zip(views, expressions, strict=True)):
                frames = renderer.render(avatar, motion, cameras, options)
                yield [frame.to_srgb8(arguments.background) for frame in frames]
                progress((index + 1) / len(views), "drawing")

        files = _write_pictures(arguments, views, draw())
    seconds = round(time.perf_counter() - started, 3)
    return {"files": files, "renderer": arguments.renderer, "seconds": seconds}, files


def _views(
    arguments: argparse.Namespace, avatar: Avatar, motions: list[MotionCode]
) -> tuple[list[list[Camera]], list[MotionCode]]:
    """Cameras drawn together (a stereo pair is two) and the motion code of each such group."""
    import numpy as np

    from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera, read_cameras, stereo_pair

    width, height = arguments.size

    def orbit(
        yaw_deg: float,
        target: np.ndarray | tuple[float, float, float] = HEAD_MIDDLE_M,
        view_height: float | None = arguments.view_height,
    ) -> Camera:
        return Camera.orbit(
            np.radians(yaw_deg), np.radians(arguments.pitch), arguments.distance, width, height, view_height or HEAD_VIEW_HEIGHT_M,
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
            camera = camera.framed(np.array(HEAD_MIDDLE_M), width, height, arguments.view_height or HEAD_VIEW_HEIGHT_M)
        chosen = motions if arguments.motion is not None or arguments.expression else [avatar.photo_motion]
        return [[camera]] * len(chosen), chosen
    if arguments.turntable is not None:
        count = arguments.turntable
        angles = [arguments.yaw + 360.0 * index / count for index in range(count)]
        return [[orbit(angle)] for angle in angles], [motions[index % len(motions)] for index in range(count)]
    group = [orbit(arguments.yaw)]
    if arguments.motion is not None and arguments.view_height is None:
        from avatar3d.rendering.framing import frame

        def look(target: np.ndarray, view_height: float) -> Camera:
            return orbit(arguments.yaw, target, view_height)

        group = [frame(avatar, motions, look, HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M)]
    if arguments.stereo is not None:
        # Frusta that meet at the head: it lies in the plane of the screen, where both eyes can rest on it.
        ipd_m = arguments.ipd / 1000
        group = list(stereo_pair(group[0], ipd_m, inward_tangent=ipd_m / 2 / arguments.distance))
    return [group] * len(motions), motions


def _own_fps(motions: list[MotionCode]) -> float:
    """Frames a second at which a film of the codes plays at their own speed; FILM_FPS for a single one."""
    from avatar3d.motion.timing import own_fps

    fps = own_fps(motions)
    return FILM_FPS if fps is None else min(max(round(fps, 3), FPS_RANGE[0]), FPS_RANGE[1])


def _write_pictures(
    arguments: argparse.Namespace, views: list[list[Camera]], pictures: Iterator[list[np.ndarray]]
) -> list[str]:
    """Write pictures as they are drawn: a film is never whole in memory."""
    from avatar3d import media
    from avatar3d.files import make_folder

    if arguments.cameras is not None:
        make_folder(arguments.out)
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


def run_export(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d.interop.mesh import export_mesh

    avatar, motions = _load(arguments)
    if len(motions) > 1:
        print(
            printable(f"avatar3d: {arguments.motion} holds {len(motions)} motion codes; the first is exported"), file=sys.stderr
        )
    export_mesh(avatar, motions[0], arguments.out, hair=not arguments.no_hair)
    return {"files": [str(arguments.out)]}, [str(arguments.out)]
