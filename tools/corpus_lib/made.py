"""Hard photos made from good ones: cut by the frame, tilted, lit from a side, grey, small, blurred, compressed; repeatable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.tracker import FaceTracker
from avatar3d.files import replacing

CHIN, FOREHEAD_TOP, SIDE_RIGHT = 152, 10, 234  # MediaPipe's points; the side is the subject's right ear's root
CUT_HAIR = 0.06  # of the face's height above the forehead's top that is left
CUT_CHIN = 0.04  # of the face's height that is cut off the chin: as much as enrolment still takes
TILT_DEG = 30.0
DARK_SIDE = 0.12  # linear light that is left on the side turned away
LIGHT_RAMP = 0.5  # of the eye distance: half the width of the change from light to dark
SMALL_IOD_PX = 30.0
BLUR_IOD = 0.045  # standard deviation over the eye distance
JPEG_QUALITY = 30

Picture = np.ndarray


def _height(face: FaceLandmarks) -> float:
    return float(face.points_px[CHIN, 1] - face.points_px[FOREHEAD_TOP, 1])


def cut_hair(rgb: Picture, face: FaceLandmarks) -> Picture:
    """The hair cut off by the upper edge."""
    return rgb[max(0, round(face.points_px[FOREHEAD_TOP, 1] - CUT_HAIR * _height(face))) :]


def cut_chin(rgb: Picture, face: FaceLandmarks) -> Picture:
    """The tip of the chin, and all below it, cut off by the lower edge."""
    return rgb[: round(face.points_px[CHIN, 1] - CUT_CHIN * _height(face))]


def cut_ear(rgb: Picture, face: FaceLandmarks) -> Picture:
    """The ear on the picture's left cut off by that edge."""
    return rgb[:, max(0, round(face.points_px[SIDE_RIGHT, 0])) :]


def _tilt(rgb: Picture, face: FaceLandmarks, degrees: float) -> Picture:
    x, y = face.points_px[:468, :2].mean(axis=0)
    matrix = cv2.getRotationMatrix2D((float(x) - 0.5, float(y) - 0.5), degrees, 1.0)
    size = (rgb.shape[1], rgb.shape[0])
    return cv2.warpAffine(rgb, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


def side_light(rgb: Picture, face: FaceLandmarks) -> Picture:
    """The picture's right half darkened, across the nose, in linear light."""
    centre = float(face.points_px[:468, 0].mean())
    x = np.arange(rgb.shape[1]) + 0.5
    share = np.clip((x - centre) / (2 * LIGHT_RAMP * face.iod_px) + 0.5, 0, 1)
    gain = 1 + (DARK_SIDE - 1) * share * share * (3 - 2 * share)
    return to_u8(linear_to_srgb((srgb_to_linear(rgb) * gain[None, :, None]).astype(np.float32)))


def grey(rgb: Picture, face: FaceLandmarks) -> Picture:
    """Without colour."""
    return np.repeat(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2)


def small(rgb: Picture, face: FaceLandmarks) -> Picture:
    """So small that the eyes are SMALL_IOD_PX apart."""
    scale = SMALL_IOD_PX / face.iod_px
    return cv2.resize(rgb, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


def blur(rgb: Picture, face: FaceLandmarks) -> Picture:
    """Out of focus."""
    return cv2.GaussianBlur(rgb, (0, 0), BLUR_IOD * face.iod_px)


MADE: dict[str, Callable[[Picture, FaceLandmarks], Picture]] = {
    "cut-hair": cut_hair,
    "cut-chin": cut_chin,
    "cut-ear": cut_ear,
    "tilt-left": lambda rgb, face: _tilt(rgb, face, TILT_DEG),
    "tilt-right": lambda rgb, face: _tilt(rgb, face, -TILT_DEG),
    "side-light": side_light,
    "grey": grey,
    "small": small,
    "blur": blur,
    "jpeg": lambda rgb, face: rgb,  # the file is what is made
}


def make(name: str, rgb: Picture, path: Path) -> None:
    """Write the (H, W, 3) u8 photo changed by a transform of MADE: JPEG of JPEG_QUALITY where `path` ends so, else PNG."""
    picture = MADE[name](rgb, FaceTracker().track(rgb).landmarks)
    with replacing(path) as temporary:
        format_, options = ("JPEG", {"quality": JPEG_QUALITY}) if path.suffix == ".jpg" else ("PNG", {})
        Image.fromarray(np.ascontiguousarray(picture)).save(temporary, format=format_, **options)
