"""What `import avatar3d` offers: enrol, load, save, render, evaluate, and motion; each loads what it needs when it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from avatar3d.avatar import Avatar
from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera
from avatar3d.errors import InputError
from avatar3d.motion.code import MotionCode
from avatar3d.progress import ProgressCallback, silent

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

    from avatar3d.enrolment.stage import Stage
    from avatar3d.enrolment.state import Enrolment, Tuning
    from avatar3d.evaluation import EvaluateOptions
    from avatar3d.generator.protocol import Generator, GeneratorFactory
    from avatar3d.head.protocol import MorphableModel
    from avatar3d.motion.sources.base import MotionSource
    from avatar3d.rendering import Frame, Renderer, RenderOptions


def enroll(
    photo: str | Path | Image | np.ndarray,
    *,
    generator: str | Generator | GeneratorFactory = "photo",
    hair: bool = True,
    field: bool = True,
    face_index: int | None = None,
    face_box: tuple[float, float, float, float] | None = None,
    remove_glasses: bool = False,
    pupil_distance_mm: float | None = None,
    seed: int = 0,
    field_backend: str = "numba",
    device: str = "cpu",
    head: str | Path | MorphableModel = "default",
    tuning: Tuning | None = None,
    stages: Sequence[Stage] | None = None,
    after: Callable[[Stage, Enrolment], None] | None = None,
    progress: ProgressCallback = silent,
    report: dict[str, object] | None = None,
) -> Avatar:
    """Make an avatar of the face in one photo.

    Parameters
    ----------
    photo
        A file, a Pillow image, or an (H, W, 3) uint8 sRGB array, upright. Of a file the colour profile, the orientation and the focal
        length are read.
    generator
        What draws other views: a name (see `generator_names`), a generator, or a class or function that makes one, of the photo's
        evidence where it takes an argument. What your own changes in them is painted into the texture.
    hair, field
        Build hair and train the neural field; without the field it takes half of the time.
    face_index, face_box
        Which face: 0 the largest, 1 the next; or (x, y, width, height) in pixels.
    remove_glasses
        Leave the glasses that the photo shows off.
    pupil_distance_mm
        40 to 80, where the size of the head is known.
    seed
        Of everything random; the same photo and seed give the same avatar.
    field_backend, device
        How the field is trained, see `avatar3d.field.network.check_back_end`.
    head
        The head model that is fitted: a name (`avatar3d.head.registry.HEAD_MODELS`), its file (.npz), or any object that fulfils
        `avatar3d.head.protocol.MorphableModel`, see docs/head-model.md.
    tuning
        Sizes and training, see `avatar3d.enrolment.state.Tuning`.
    stages
        In place of `avatar3d.enrolment.pipeline.STAGES`, such as those with one replaced; they must make an avatar.
    after
        Called with each stage that has run and with all that is known by then.
    progress
        Called with a share in [0, 1] and what is being done.
    report
        A dict that is filled with what `avatar3d enroll --json` prints: figures, `warnings`, and the verdict `quality`.

    Returns
    -------
    Avatar
        To be drawn by `render`, kept by `save`.

    Raises
    ------
    avatar3d.errors.InputError
        The photo cannot be read, or shows no usable face; an argument is out of its range; the head model lacks something.
    avatar3d.errors.WorkError
        Something that this asks for is not installed here.
    """
    from avatar3d.enrolment.pipeline import STAGES, EnrollOptions, Tuning, run
    from avatar3d.enrolment.stage import unwatched
    from avatar3d.head.registry import head_of

    options = EnrollOptions(
        face_index=face_index,
        face_box=face_box,
        generator=generator,
        hair=hair,
        field=field,
        remove_glasses=remove_glasses,
        seed=seed,
        pupil_distance_mm=pupil_distance_mm,
        field_backend=field_backend,
        device=device,
        head=head_of(head),
        tuning=tuning or Tuning(),
    )
    state = run(photo, options, progress, STAGES if stages is None else stages, after or unwatched)
    if report is not None:
        report.update(state.report())
    if state.avatar is None:
        raise InputError(f"these stages make no avatar: {', '.join(state.seconds) or 'none'}; `skin` is the first that has one")
    return state.avatar


def load(path: str | Path) -> Avatar:
    """Read an avatar from a GLB file: ours, or any head with ARKit's morph targets.

    Parameters
    ----------
    path
        The file, at most 256 MiB.

    Returns
    -------
    Avatar

    Raises
    ------
    avatar3d.errors.InputError
        The file cannot be read, is damaged, compressed, or holds no such head.
    """
    from avatar3d.glb import read_glb

    return read_glb(path)


def save(avatar: Avatar, path: str | Path, *, jpeg: bool | int = False, byte_field: bool = False) -> None:
    """Write an avatar as a GLB file, whole or not at all; the same avatar gives the same bytes.

    Parameters
    ----------
    avatar
        What `enroll` or `load` returned.
    path
        A name that ends in .glb.
    jpeg
        Store the base colour as JPEG of this quality (1 to 100), True for 95.
    byte_field
        Store the field's tables and weights in 8 bits.

    Raises
    ------
    avatar3d.errors.InputError
        The name does not end in .glb, or cannot be written.
    avatar3d.errors.WorkError
        The avatar holds numbers that the file cannot hold.
    """
    from avatar3d.files import check_suffix
    from avatar3d.glb import write_glb

    check_suffix(path, ".glb", "an avatar")
    write_glb(avatar, path, jpeg, byte_field)


@overload
def render(
    avatar: Avatar | str | Path, cameras: Camera | None = None, motion: MotionCode | None = None,
    options: RenderOptions | None = None, *, renderer: str | Renderer = "realtime",
) -> Frame: ...  # fmt: skip


@overload
def render(
    avatar: Avatar | str | Path, cameras: Sequence[Camera], motion: MotionCode | None = None,
    options: RenderOptions | None = None, *, renderer: str | Renderer = "realtime",
) -> list[Frame]: ...  # fmt: skip


def render(
    avatar: Avatar | str | Path,
    cameras: Camera | Sequence[Camera] | None = None,
    motion: MotionCode | None = None,
    options: RenderOptions | None = None,
    *,
    renderer: str | Renderer = "realtime",
) -> Frame | list[Frame]:
    """Draw an avatar.

    Parameters
    ----------
    avatar
        An avatar, or the file of one.
    cameras
        One camera, or several that see one scene, such as a `stereo_pair`; by default one before the face, 512 pixels square.
    motion
        Expression, pose and gaze; at rest by default.
    options
        Form, samples a pixel and more; see `avatar3d.rendering.RenderOptions`.
    renderer
        "realtime" (OpenGL) or "reference" (torch), made for this call; or a renderer of `avatar3d.rendering.make_renderer`, for
        many calls in turn.

    Returns
    -------
    Frame or list of Frame
        One for each camera; `to_srgb8(background)` is the picture, `depth` metres.

    Raises
    ------
    avatar3d.errors.InputError
        An unknown renderer, or a picture larger than it draws.
    avatar3d.errors.WorkError
        This machine lacks what the renderer needs.
    """
    from avatar3d.rendering import make_renderer

    subject = avatar if isinstance(avatar, Avatar) else load(avatar)
    if cameras is None:
        cameras = Camera.orbit(0.0, view_height_m=HEAD_VIEW_HEIGHT_M, target=HEAD_MIDDLE_M)
    several = [cameras] if isinstance(cameras, Camera) else list(cameras) if isinstance(cameras, Sequence) else [cameras]
    for camera in several:
        if not isinstance(camera, Camera):
            raise InputError(
                f"a {type(camera).__name__} was given in place of cameras; expected a Camera or several (motion=… moves)"
            )
    drawing = make_renderer(renderer) if isinstance(renderer, str) else renderer
    try:
        frames = drawing.render(subject, motion or MotionCode(), several, options)
    finally:
        if isinstance(renderer, str):
            drawing.close()
    return frames[0] if isinstance(cameras, Camera) else frames


def open_motion(source: str | MotionSource) -> MotionSource:
    """Open what moves a head.

    Parameters
    ----------
    source
        `SCHEME:TARGET?key=value`, such as "csv:talk.csv", "video:clip.mp4" or "livelink:11111"; or an object of your own that has
        `read(timeout_s)`, `close()` and `ended`, such as one derived from `avatar3d.motion.sources.SourceBase`; it is handed back.

    Returns
    -------
    MotionSource
        `read` gives the next MotionCode or None; close it. One opened by name, or derived from SourceBase, closes itself in a
        `with`, and `for code in source` reads it to its end.

    Raises
    ------
    avatar3d.errors.InputError
        An unknown scheme, a wrong option, an unreadable file, or an object that is no source.
    avatar3d.errors.WorkError
        A port, a camera or a package is missing.
    """
    from avatar3d.motion.sources import check_source, open_source

    return open_source(source) if isinstance(source, str) else check_source(source)


def evaluate(
    avatar: Avatar | str | Path,
    out: str | Path,
    options: EvaluateOptions | None = None,
    *,
    renderer: str | Renderer = "realtime",
    progress: ProgressCallback = silent,
) -> dict[str, object]:
    """Measure how consistent an avatar's views are, beside controls that must fail, and write a page about it.

    Parameters
    ----------
    avatar
        An avatar, or the file of one.
    out
        A folder for index.html, report.json and pictures/, made where it is missing.
    options
        Sizes, distances and expressions; see `avatar3d.evaluation.EvaluateOptions`.
    renderer
        As in `render`.
    progress
        Called with a share in [0, 1] and what is being done.

    Returns
    -------
    dict
        What `avatar3d evaluate --json` prints: `stereo`, `controls`, `ranked_correctly`, and more.

    Raises
    ------
    avatar3d.errors.InputError
        The folder cannot be written, or holds something that is no report.
    """
    from avatar3d.evaluation import AVATARS_IN_TURN
    from avatar3d.evaluation import evaluate as run
    from avatar3d.rendering import make_renderer

    subject = avatar if isinstance(avatar, Avatar) else load(avatar)
    drawing = make_renderer(renderer, AVATARS_IN_TURN) if isinstance(renderer, str) else renderer
    try:
        return run(subject, out, drawing, options, progress)
    finally:
        if isinstance(renderer, str):
            drawing.close()
