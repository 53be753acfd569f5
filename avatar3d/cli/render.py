"""`avatar3d render`: stills, stereo pairs, turntables and videos."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from avatar3d.choices import DEFAULT_IPD_M, FPS_RANGE, Form, picture_size
from avatar3d.cli.command import Result, command
from avatar3d.cli.shared import Posed, RendererName, posed
from avatar3d.errors import InputError
from avatar3d.settings import Option, Within

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from avatar3d.avatar import Avatar
    from avatar3d.camera import Camera
    from avatar3d.motion.code import MotionCode

FILM_FPS = 30.0


def _background(text: str) -> tuple[int, int, int] | None:
    if text == "transparent":
        return None
    try:
        red, green, blue = bytes.fromhex(text.removeprefix("#"))
    except ValueError:
        raise InputError(f"background {text!r} is neither #rrggbb nor transparent") from None
    return red, green, blue


@dataclass(frozen=True)
class Render:
    """What `avatar3d render` takes."""

    posed: Posed
    out: Annotated[Path, Option("picture or video; with --cameras a folder", ("-o", "--out"))]
    stereo: Annotated[Literal["side-by-side", "anaglyph"] | None, Option("both eyes' views in one picture", one_of="what")] = (
        None
    )
    turntable: Annotated[
        int | None,
        Within(2, 720, "views"),
        Option("N views about the head: .mp4, .gif or a .png grid", metavar="N", one_of="what"),
    ] = None
    cameras: Annotated[Path | None, Option("JSON list of {name, width, height, K, R, t}", metavar="FILE", one_of="what")] = None
    photo_view: Annotated[bool, Option("the photo's camera and expression, framed about the head", one_of="what")] = False
    photo_frame: Annotated[bool, Option("the same in the photo's whole frame, to lay over it", one_of="what")] = False
    size: Annotated[tuple[int, int], Option("pixels of each view (default 512x512)", metavar="WxH", parse=picture_size)] = (
        512,
        512,
    )
    # Ten turns: more is a slip.
    yaw_deg: Annotated[
        float, Within(-3600, 3600, "degrees"), Option("degrees, positive toward the subject's left", ("--yaw",))
    ] = 0.0
    pitch_deg: Annotated[float, Within(-3600, 3600, "degrees"), Option("degrees, positive from above", ("--pitch",))] = 0.0
    # Nearer than a hand's breadth the camera is in the head, farther than a hall the head is a pixel.
    distance_m: Annotated[float, Within(0.1, 100, "metres"), Option("metres from the eyes to the camera", ("--distance",))] = (
        0.6
    )
    view_height_m: Annotated[
        float | None,
        Within(0.001, 100, "metres"),  # from a pore to a hall
        Option("metres the picture covers at the head (default 0.36, or what --motion needs)", ("--view-height",), metavar="M"),
    ] = None
    ipd_m: Annotated[
        float,
        Within(0, 0.2),
        Option("millimetres between the viewer's eyes", ("--ipd",), scale=1000, unit="millimetres"),
    ] = DEFAULT_IPD_M
    form: Annotated[Form, Option("how the field is evaluated")] = "baked"
    renderer: RendererName = "realtime"
    supersample: Annotated[Literal[1, 2, 3, 4], Option("samples along each side of a pixel")] = 2
    background: Annotated[
        tuple[int, int, int] | None,
        Option("#rrggbb, or transparent (default #f5f5f5)", metavar="COLOUR", parse=_background),
    ] = (245, 245, 245)
    fps: Annotated[
        float | None,
        Within(*FPS_RANGE, "frames a second"),
        Option("of a film (default: the motion's own rate, else 30)"),
    ] = None


def run(options: Render, quiet: bool) -> Result:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d import media
    from avatar3d.files import check_writable
    from avatar3d.motion.timing import frames_at
    from avatar3d.progress import ProgressBar
    from avatar3d.rendering import RenderOptions, make_renderer

    started = time.perf_counter()
    avatar, motions = posed(options.posed)
    fps = _own_fps(motions) if options.fps is None else options.fps
    if len(motions) > 1 and options.out.suffix.lower() in media.MOVIE_SUFFIXES:
        motions = frames_at(motions, fps)
    views, expressions = _views(options, avatar, motions)
    if options.cameras is None:
        check_writable(options.out)
        media.check_suffix(options.out, moving=len(motions) > 1 or options.turntable is not None)
    drawing = RenderOptions(form=options.form, supersample=options.supersample)
    with ProgressBar(not quiet) as progress, closing(make_renderer(options.renderer)) as renderer:

        def draw() -> Iterator[list[np.ndarray]]:
            for index, (cameras, motion) in enumerate(zip(views, expressions, strict=True)):
                frames = renderer.render(avatar, motion, cameras, drawing)
                yield [frame.to_srgb8(options.background) for frame in frames]
                progress((index + 1) / len(views), "drawing")

        files = _write_pictures(options, views, draw(), fps)
    seconds = round(time.perf_counter() - started, 3)
    return {"files": files, "renderer": options.renderer, "seconds": seconds}, files


def _views(options: Render, avatar: Avatar, motions: list[MotionCode]) -> tuple[list[list[Camera]], list[MotionCode]]:
    """Cameras drawn together (a stereo pair is two) and the motion code of each such group."""
    import numpy as np

    from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera, read_cameras, stereo_pair

    width, height = options.size

    def orbit(
        yaw_deg: float,
        target: np.ndarray | tuple[float, float, float] = HEAD_MIDDLE_M,
        view_height: float | None = options.view_height_m,
    ) -> Camera:
        return Camera.orbit(
            np.radians(yaw_deg), np.radians(options.pitch_deg), options.distance_m, width, height, view_height or HEAD_VIEW_HEIGHT_M,
            target=target,
        )  # fmt: skip

    if options.cameras is not None:
        cameras = read_cameras(options.cameras)
        return [[camera] for camera in cameras], [motions[0]] * len(cameras)
    if options.photo_view or options.photo_frame:
        if avatar.photo_camera is None or avatar.photo_motion is None:
            raise InputError(f"{options.posed.avatar} does not hold its photo's camera; enrol it again")
        camera = avatar.photo_camera
        if options.photo_frame:
            scale = max(width / camera.width, height / camera.height)
            camera = camera.resized(max(16, round(camera.width * scale)), max(16, round(camera.height * scale)))
        else:
            camera = camera.framed(np.array(HEAD_MIDDLE_M), width, height, options.view_height_m or HEAD_VIEW_HEIGHT_M)
        chosen = motions if options.posed.motion is not None or options.posed.expression else [avatar.photo_motion]
        return [[camera]] * len(chosen), chosen
    if options.turntable is not None:
        count = options.turntable
        angles = [options.yaw_deg + 360.0 * index / count for index in range(count)]
        return [[orbit(angle)] for angle in angles], [motions[index % len(motions)] for index in range(count)]
    group = [orbit(options.yaw_deg)]
    if options.posed.motion is not None and options.view_height_m is None:
        from avatar3d.rendering.framing import frame

        def look(target: np.ndarray, view_height: float) -> Camera:
            return orbit(options.yaw_deg, target, view_height)

        group = [frame(avatar, motions, look, HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M)]
    if options.stereo is not None:
        # Frusta that meet at the head: it lies in the plane of the screen, where both eyes can rest on it.
        ipd_m = options.ipd_m
        group = list(stereo_pair(group[0], ipd_m, inward_tangent=ipd_m / 2 / options.distance_m))
    return [group] * len(motions), motions


def _own_fps(motions: list[MotionCode]) -> float:
    """Frames a second at which a film of the codes plays at their own speed; FILM_FPS for a single one."""
    from avatar3d.motion.timing import own_fps

    fps = own_fps(motions)
    return FILM_FPS if fps is None else min(max(round(fps, 3), FPS_RANGE[0]), FPS_RANGE[1])


def _write_pictures(options: Render, views: list[list[Camera]], pictures: Iterator[list[np.ndarray]], fps: float) -> list[str]:
    """Write pictures as they are drawn: a film is never whole in memory."""
    from avatar3d import media
    from avatar3d.files import make_folder

    if options.cameras is not None:
        make_folder(options.out)
        files = []
        for (camera,), (picture,) in zip(views, pictures, strict=True):
            target = options.out / f"{camera.name}.png"
            media.save_picture(target, picture)
            files.append(str(target))
        return files
    if options.stereo == "anaglyph":
        flat = (media.anaglyph(left, right) for left, right in pictures)
    elif options.stereo == "side-by-side":
        flat = (media.side_by_side(left, right) for left, right in pictures)
    else:
        flat = (picture for (picture,) in pictures)
    if len(views) == 1:
        for picture in flat:
            media.save_picture(options.out, picture)
    else:
        media.save_sequence(options.out, flat, fps)
    return [str(options.out)]


COMMAND = command("render", "draw stills, stereo pairs, turntables and videos", Render, run)
