"""Hard photos made from good ones: cut by the frame, tilted, lit from a side, grey, small, blurred, compressed, and with a mask,
dark glasses or a hat drawn on; repeatable."""

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
from avatar3d.head.mediapipe import CHIN, FOREHEAD_TOP, IRIS_CENTRES, MESH_POINTS, SURGICAL_MASK, TEMPLE_RIGHT, TEMPLES

CUT_HAIR = 0.06  # of the face's height above the forehead's top that is left
CUT_CHIN = 0.04  # of the face's height that is cut off the chin: as much as enrolment still takes
TILT_DEG = 30.0
DARK_SIDE = 0.12  # linear light that is left on the side turned away
LIGHT_RAMP = 0.5  # of the eye distance: half the width of the change from light to dark
SMALL_IOD_PX = 30.0
BLUR_IOD = 0.045  # standard deviation over the eye distance
JPEG_QUALITY = 30
MASK_SRGB, LENS_SRGB, HAT_SRGB = (120, 175, 215), (22, 22, 24), (120, 30, 40)
LENS_IOD = (0.43, 0.30)  # half a lens' width and height over the eye distance
HAT_HALF, HAT_HEIGHT, HAT_EDGE = 0.66, 0.62, 0.06  # over the face's width and height; its edge below the forehead's top

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
    return rgb[:, max(0, round(face.points_px[TEMPLE_RIGHT, 0])) :]


def _tilt(rgb: Picture, face: FaceLandmarks, degrees: float) -> Picture:
    x, y = face.points_px[:MESH_POINTS, :2].mean(axis=0)
    matrix = cv2.getRotationMatrix2D((float(x) - 0.5, float(y) - 0.5), degrees, 1.0)
    size = (rgb.shape[1], rgb.shape[0])
    return cv2.warpAffine(rgb, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


def side_light(rgb: Picture, face: FaceLandmarks) -> Picture:
    """The picture's right half darkened, across the nose, in linear light."""
    centre = float(face.points_px[:MESH_POINTS, 0].mean())
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


def _painted(rgb: Picture, outlines: list[np.ndarray], colour: tuple[int, int, int], iod_px: float) -> Picture:
    """The picture with (K, 2) outlines filled in one colour, shaded as broadly as what was there."""
    cover = np.zeros(rgb.shape[:2], np.uint8)
    for outline in outlines:  # one by one: where two overlap, one call would leave a hole
        cv2.fillPoly(cover, [np.round(outline).astype(np.int32)], 255)
    light = cv2.GaussianBlur(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), (0, 0), 0.4 * iod_px).astype(np.float32)
    shade = np.clip(light / max(float(np.median(light[cover > 0])), 1.0), 0.6, 1.2)
    share = cv2.GaussianBlur(cover, (0, 0), max(0.012 * iod_px, 0.5))[..., None] / 255
    return np.clip(rgb + share * (np.array(colour) * shade[..., None] - rgb), 0, 255).astype(np.uint8)


def mask(rgb: Picture, face: FaceLandmarks) -> Picture:
    """A surgical mask over nose, mouth and chin."""
    outline = face.points_px[list(SURGICAL_MASK), :2]
    return _painted(rgb, [outline.mean(0) + 1.03 * (outline - outline.mean(0))], MASK_SRGB, face.iod_px)


def dark_glasses(rgb: Picture, face: FaceLandmarks) -> Picture:
    """Sunglasses with rounded lenses, a bridge and temples."""
    eyes = face.points_px[list(IRIS_CENTRES[::-1]), :2]
    across = (eyes[1] - eyes[0]) / np.linalg.norm(eyes[1] - eyes[0])
    down, angle = np.array([-across[1], across[0]]), np.linspace(0, 2 * np.pi, 48, endpoint=False)
    round_off = (np.abs(np.cos(angle)) ** 3 + np.abs(np.sin(angle)) ** 3) ** (-1 / 3)
    half = np.array(LENS_IOD) * face.iod_px
    lens = (half[0] * np.cos(angle) * round_off)[:, None] * across + (half[1] * np.sin(angle) * round_off)[:, None] * down
    bar = 0.03 * face.iod_px * down
    bars = [(eyes[0], eyes[1]), *zip(eyes, face.points_px[list(TEMPLES), :2], strict=True)]
    outlines = [eye + 0.06 * face.iod_px * down + lens for eye in eyes]
    return _painted(rgb, outlines + [np.stack([a - bar, b - bar, b + bar, a + bar]) for a, b in bars], LENS_SRGB, face.iod_px)


def hat(rgb: Picture, face: FaceLandmarks) -> Picture:
    """A woollen hat, down over the forehead's top."""
    chin, top = face.points_px[[CHIN, FOREHEAD_TOP], :2]
    up = (top - chin) / np.linalg.norm(top - chin)
    right, height = np.array([-up[1], up[0]]), float(np.linalg.norm(top - chin))
    width = float(np.linalg.norm(np.subtract(*face.points_px[list(TEMPLES), :2])))
    angle = np.linspace(0, np.pi, 48)[:, None]
    dome = HAT_HALF * width * np.cos(angle) * right + HAT_HEIGHT * height * np.sin(angle) * up
    return _painted(rgb, [top - HAT_EDGE * height * up + dome], HAT_SRGB, face.iod_px)


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
    "mask": mask,
    "dark-glasses": dark_glasses,
    "hat": hat,
    "jpeg": lambda rgb, face: rgb,  # the file is what is made
}


def make(name: str, rgb: Picture, path: Path) -> None:
    """Write the (H, W, 3) u8 photo changed by a transform of MADE: JPEG of JPEG_QUALITY where `path` ends so, else PNG."""
    picture = MADE[name](rgb, FaceTracker().track(rgb).landmarks)
    with replacing(path) as temporary:
        format_, options = ("JPEG", {"quality": JPEG_QUALITY}) if path.suffix == ".jpg" else ("PNG", {})
        Image.fromarray(np.ascontiguousarray(picture)).save(temporary, format=format_, **options)
