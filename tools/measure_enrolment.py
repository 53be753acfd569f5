"""Measure enrolment on real photos: residuals, silhouette, likeness of turned and neutral renders, time and size, as JSON.

Run it from a checkout: `.venv/bin/python tools/measure_enrolment.py [NAME ...]`. The photos are the manifest's samples.
Likeness is the distance of dlib's 128-number face embedding (King 2017, dlib_face_recognition_resnet_model_v1, public
domain) between the photo and a render: pictures of one person reach 0.43, of two people 0.8.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
from PIL import Image

from avatar3d import models
from avatar3d.avatar import Avatar
from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera
from avatar3d.enrolment.pipeline import EnrollOptions, enroll
from avatar3d.face.identity import MODEL, IdentityEncoder
from avatar3d.glb import read_glb, write_glb
from avatar3d.motion.code import MotionCode
from avatar3d.photo import load_photo
from avatar3d.rendering import RenderOptions, make_renderer

PHOTOS = ("astronaut.png", "obama.jpg", "obama2.jpg", "obama3.jpg", "biden.jpg", "james-left", "james-right")
YAWS_DEG = (-40, 0, 40)
BACKGROUND = (245, 245, 245)


class Likeness:
    """The face embedding of a picture; its network is fetched where it is missing."""

    def __init__(self) -> None:
        models.pull(MODEL)
        self._encoder = IdentityEncoder()

    def __call__(self, rgb: np.ndarray) -> np.ndarray:
        """(128,) embedding of the largest face of a (H, W, 3) u8 picture; not a number where none is found."""
        found = self._encoder.encode(rgb)
        return np.full(128, np.nan) if found is None else found


def photo_path(name: str, folder: Path) -> Path:
    """The sample photo; james-left and james-right are the halves of one picture that holds two views."""
    if not name.startswith("james-"):
        return models.sample(name)
    picture = Image.open(models.sample("james.jpg")).convert("RGB")
    half = picture.width // 2
    path = folder / f"{name}.png"
    picture.crop((0, 0, half, picture.height) if name == "james-left" else (half, 0, picture.width, picture.height)).save(path)
    return path


def measure(name: str, folder: Path, likeness: Likeness, out: Path | None) -> dict[str, object]:
    """All figures of one photo."""
    path = photo_path(name, folder)
    started = time.perf_counter()
    avatar, report = enroll(path, EnrollOptions())
    seconds = time.perf_counter() - started
    file = folder / "avatar.glb"
    write_glb(avatar, file)
    avatar = read_glb(file)
    photo = likeness(load_photo(path).rgb)
    assert avatar.photo_motion is not None
    result: dict[str, object] = {
        "photo": name,
        **{key: report[key] for key in ("landmark_error_iod_pct", "photo_psnr_db", "photo_psnr_db_texture_only")},
        **{key: report[key] for key in ("silhouette_error_px", "silhouette_error_mm", "warnings")},
        "seconds": round(seconds, 2),
        "bytes": file.stat().st_size,
    }
    with closing(make_renderer("realtime")) as renderer:
        for label, motion in (("photo_expression", avatar.photo_motion), ("neutral", MotionCode())):
            pictures = [_render(renderer, avatar, motion, yaw) for yaw in YAWS_DEG]
            result[f"identity_{label}"] = [round(float(np.linalg.norm(likeness(p) - photo)), 3) for p in pictures]
            if out is not None:
                Image.fromarray(np.concatenate(pictures, axis=1)).save(out / f"{name.split('.')[0]}_{label}.png")
    return result


def _render(renderer, avatar: Avatar, motion: MotionCode, yaw_deg: float) -> np.ndarray:
    camera = Camera.orbit(np.radians(yaw_deg), distance_m=0.9, target=HEAD_MIDDLE_M, view_height_m=HEAD_VIEW_HEIGHT_M)
    (frame,) = renderer.render(avatar, motion, [camera], RenderOptions(form="baked", supersample=2))
    return frame.to_srgb8(BACKGROUND)


def main() -> None:
    """Measure the named samples, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=PHOTOS, metavar="NAME")
    parser.add_argument("-o", "--out", type=Path, help="folder for the rendered pictures")
    arguments = parser.parse_args()
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    likeness = Likeness()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names:
            rows.append(measure(name, Path(folder), likeness, arguments.out))
            print(json.dumps(rows[-1]), file=sys.stderr)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
