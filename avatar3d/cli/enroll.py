"""`avatar3d enroll`: its arguments, and running it; called by the command line."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from avatar3d.cli.glb import add_storage_flags
from avatar3d.cli.shared import seed, within
from avatar3d.text import printable

MAX_BOX_PX = 1e6  # of a face's box; no picture is as large


def _box(text: str) -> tuple[float, float, float, float]:
    try:
        x, y, width, height = (float(part) for part in text.split(","))
        if not all(abs(value) < MAX_BOX_PX for value in (x, y, width, height)):  # nor NaN
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"face box {text!r} is not x,y,w,h in pixels") from None
    return x, y, width, height


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything `avatar3d enroll` takes but --json and --quiet; imports nothing heavy."""
    parser.add_argument(
        "photo", type=Path, help="JPEG, PNG, WebP, TIFF, HEIC and others, with 24 pixels or more between the eyes"
    )
    parser.add_argument("-o", "--out", type=Path, required=True, help="the avatar file to write (.glb)")
    parser.add_argument(
        "--face", type=within(0, 999, whole=True), metavar="N", help="which face: 0 the largest, 1 the next, ..."
    )
    parser.add_argument("--face-box", type=_box, metavar="X,Y,W,H", help="where the face is, pixels")
    parser.add_argument(
        "--pd",
        type=within(0, 1000, "millimetres"),
        metavar="MM",
        help="distance of the pupils, 40 to 80: sets the head's true size",
    )
    parser.add_argument("--generator", default="photo", help="2D generator that paints the views (default: photo)")
    parser.add_argument("--no-hair", action="store_true", help="do not build a hair volume")
    parser.add_argument("--no-field", action="store_true", help="skip field training: a preview in a few seconds")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where the field is trained (default cpu; cuda: an NVIDIA GPU)"
    )
    parser.add_argument(
        "--field-backend", choices=("numba", "torch", "tcnn"),
        help="what trains it: numba (the CPU's default), torch (slower there, cuda's default) or tcnn (tiny-cuda-nn)",
    )  # fmt: skip
    parser.add_argument("--head", default="default", metavar="HEAD", help="the head model to fit: a name, or its file (.npz)")
    parser.add_argument("--remove-glasses", action="store_true", help="leave off the glasses that the photo shows")
    parser.add_argument("--seed", type=seed, default=0, help="of everything random: equal seeds give equal avatars (default 0)")
    parser.add_argument(
        "--keep-stages", type=Path, metavar="DIR", help="write what each stage came to into this folder, as pictures"
    )
    add_storage_flags(parser)


def run(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """(what --json prints, lines for a person). Raises InputError and WorkError as the parts do."""
    from avatar3d.enrolment.target import STAGES_FOLDER, Target

    target = Target(arguments.out, arguments.jpeg or False, arguments.byte_field)
    target.check()
    if arguments.keep_stages is not None:
        STAGES_FOLDER.check(arguments.keep_stages)
    from avatar3d.enrolment.keep import kept_stages
    from avatar3d.enrolment.pipeline import EnrollOptions
    from avatar3d.enrolment.pipeline import run as enrol
    from avatar3d.enrolment.stage import unwatched
    from avatar3d.head.registry import head_of
    from avatar3d.progress import ProgressBar

    options = EnrollOptions(
        face_index=arguments.face,
        face_box=arguments.face_box,
        generator=arguments.generator,
        hair=not arguments.no_hair,
        field=not arguments.no_field,
        remove_glasses=arguments.remove_glasses,
        seed=arguments.seed,
        pupil_distance_mm=arguments.pd,
        device=arguments.device,
        head=head_of(arguments.head),
        field_backend=arguments.field_backend or ("torch" if arguments.device == "cuda" else "numba"),
    )
    keeping = nullcontext(unwatched) if arguments.keep_stages is None else kept_stages(arguments.keep_stages)
    with ProgressBar(not arguments.quiet) as progress, keeping as after:
        result = enrol(arguments.photo, options, progress, after=after, target=target).report()
    for warning in result["warnings"]:
        print(printable(f"avatar3d: {arguments.photo.name}: {warning}"), file=sys.stderr)
    return result, [
        f"{arguments.out}: {result['bytes'] / 1e6:.1f} MB in {result['seconds']['total']:.1f} s",
        f"landmarks {result['landmark_error_iod_pct']:.2f} % of the interocular distance, photo re-rendered at"
        f" {result['photo_psnr_db']:.1f} dB, silhouette within {result['silhouette_error_px']:.1f} px",
        *_bake_line(result["bake"]),
        result["quality"]["line"],
    ]


def _bake_line(bake: dict[str, Any] | None) -> list[str]:
    if bake is None:
        return []
    moves = f"{bake['motion_directions']} direction{'' if bake['motion_directions'] == 1 else 's'}"
    return [
        f"baked against live: skin {bake['psnr_skin_db']:.1f} dB, hair {bake['psnr_hair_db']:.1f} dB, in motion"
        f" {bake['psnr_moved_skin_db']:.1f} and {bake['psnr_moved_hair_db']:.1f} dB; textures follow it in {moves}"
    ]
