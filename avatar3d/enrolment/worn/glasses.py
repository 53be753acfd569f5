"""Glasses in a photo: whether there are any, where their rims and bridge lie, and the photo without them; knows no mesh.

The eyes' part of the photo is turned upright and to one scale. About each eye the closed curve along which the picture is darkest
or brightest against both its sides is found by dynamic programming; it is a rim where it stands out all along below the eye and
beside the nose, and where a line crosses the nose's root between the two. Dark lenses are found by their own outline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import gaussian_filter1d

from avatar3d.color import LUMA_BT709, srgb_to_linear
from avatar3d.head.mediapipe import EYE_LOOPS, IRIS_CENTRES

IRISES = IRIS_CENTRES[::-1]  # the subject's right eye's, which a photo shows on its left, before the left one's
IOD_PX, WIDTH_PX, HEIGHT_PX, MIDDLE_PX = 120.0, 384, 240, (192.0, 100.0)  # of the upright picture; MIDDLE lies between the eyes
MIN_PHOTO_IOD_PX = 40.0  # a rim is then a pixel wide
ANGLES = 72  # about each eye, from the temple down to the nose
HALF_WIDTH, HALF_HEIGHT = 0.36, 0.27  # of a usual lens over the distance between the eyes
REACH = np.linspace(0.62, 1.8, 60)  # over that: no lid and no brow's end lies on so large an oval
SIDES_PX = (3.0, 5.0, 8.0)  # on both sides of a rim, where it is compared
BRIGHT_SHARE = 0.8  # of a bright line's contrast, which skin shows more often
MOST_GAIN, UPPER_WEIGHT, BEND, BEND_COST = 0.8, 0.35, 2, 0.02  # brows lie above: they count less. Of the path: steps an angle
LOG_FLOOR = 0.02  # linear luminance: below it nothing stands out
# A frame: log contrast that three quarters of the rims below the eyes and half of them beside the nose have on the mean of both,
# and the bridge. Ten bare faces, at their own size and at 42 pixels between the eyes, reach one or two of these, and never all.
LEAST_BELOW, LEAST_NASAL, LEAST_BRIDGE = 0.10, 0.08, 0.18
LEAST_OF_WEAKER = 0.03  # below the eye that shows less of it: two rims, not one
BRIDGE_HALF_PX, BRIDGE_ROWS_PX = 9, (-40, 30)
DARK_LENS = 0.28  # of the cheeks' luminance, under both eyes
TINTED_LENS_ALPHA = 0.9
SHADOW_PX, MARGIN_PX = 2.0, 2.0  # a rim's shadow below it; what is blurred of it
INPAINT_PX = 5
REFLECTION_LOG, REFLECTION_CHROMA, MOST_REFLECTION = 0.45, 0.35, 0.35  # brighter than the cheeks, and paler; share of a lens


@dataclass(frozen=True)
class Glasses:
    """rims: (2, ANGLES, 2) photo pixels of the right and the left one, from the temple's side down to the nose and up again.

    trust: (2,) how much each stands out. thickness_px: of the rims, photo pixels. bridge: (2,) photo pixels, its middle.
    color_srgb: (3,) of the frame, in [0, 1]. dark: sunglasses; lens_srgb: (3,) their lenses'.
    """

    rims: np.ndarray
    trust: np.ndarray
    thickness_px: float
    bridge: np.ndarray
    color_srgb: np.ndarray
    dark: bool
    lens_srgb: np.ndarray

    def notes(self, removed: bool) -> list[str]:
        """Sentences for the report; removed: the avatar is to go without them."""
        if not self.dark:
            return []
        if removed:
            return ["sunglasses hide the eyes, so taking them off shows made-up ones; use a photo without sunglasses"]
        return ["sunglasses hide the eyes; the avatar wears them, and what is behind them is made up"]


@dataclass(frozen=True)
class _Upright:
    """rgb: (HEIGHT_PX, WIDTH_PX, 3). matrix: (2, 3) photo pixels to its own. points: (478, 2). log: (H, W) log luminance."""

    rgb: np.ndarray
    matrix: np.ndarray
    points: np.ndarray
    log: np.ndarray

    @property
    def scale(self) -> float:
        """Its pixels per photo pixel."""
        return float(np.linalg.norm(self.matrix[:, 0]))

    def in_photo(self, pixels: np.ndarray) -> np.ndarray:
        return (pixels - self.matrix[:, 2]) @ np.linalg.inv(self.matrix[:, :2]).T


def find_glasses(rgb: np.ndarray, landmarks_px: np.ndarray) -> Glasses | None:
    """The glasses that a (H, W, 3) u8 photo shows on the face with these (478, 2 or 3) landmarks, None without any."""
    points = np.asarray(landmarks_px, np.float64)[:, :2]
    if np.linalg.norm(points[IRISES[1]] - points[IRISES[0]]) < MIN_PHOTO_IOD_PX:
        return None
    upright = _upright(rgb, points)
    luminance = np.exp(upright.log)
    eyes = points[list(IRISES)] @ upright.matrix[:, :2].T + upright.matrix[:, 2]
    cheeks = float(np.median(luminance[int(MIDDLE_PX[1] + 70) :, 60:-60]))
    under = [float(np.median(luminance[int(y + 14) : int(y + 24), int(x - 18) : int(x + 18)])) for x, y in eyes]
    dark = max(under) < DARK_LENS * cheeks
    found = [_rim(upright.log, eye, side, dark) for eye, side in zip(eyes, (-1.0, 1.0), strict=True)]
    strength, row = _bridge(upright.log)
    below, nasal = (np.array([getattr(rim, name) for rim in found]) for name in ("below", "nasal"))
    both = below.mean() >= LEAST_BELOW and below.min() >= LEAST_OF_WEAKER and (nasal.mean() >= LEAST_NASAL or dark)
    if strength < LEAST_BRIDGE or not both:
        return None
    thickness = float(np.median([rim.thickness for rim in found]))
    color = np.median(np.concatenate([_sampled(upright.rgb, rim.points) for rim in found]), axis=0) / 255
    lens = np.median(
        np.concatenate([_sampled(upright.rgb, _within(rim.points, eye)) for rim, eye in zip(found, eyes, strict=True)]), 0
    )
    return Glasses(
        rims=np.stack([upright.in_photo(rim.points) for rim in found]),
        trust=np.array([rim.below for rim in found]),
        thickness_px=thickness / upright.scale,
        bridge=upright.in_photo(np.array([MIDDLE_PX[0], MIDDLE_PX[1] + row])),
        color_srgb=color, dark=dark, lens_srgb=lens / 255,
    )  # fmt: skip


def _upright(rgb: np.ndarray, points: np.ndarray) -> _Upright:
    right, left = points[list(IRISES)]
    across = (left - right) / np.linalg.norm(left - right)
    scale = IOD_PX / np.linalg.norm(left - right)
    turn = scale * np.array([[across[0], across[1]], [-across[1], across[0]]])
    matrix = np.c_[turn, np.array(MIDDLE_PX) - turn @ (left + right) / 2]
    shrink = min(1.0, float(1.5 * scale))
    height, width = rgb.shape[:2]
    small = (max(1, round(width * shrink)), max(1, round(height * shrink)))
    source = rgb if shrink == 1 else cv2.resize(rgb, small, interpolation=cv2.INTER_AREA)
    own = np.c_[matrix[:, :2] * (width / small[0], height / small[1]), matrix[:, 2]]
    picture = cv2.warpAffine(source, own, (WIDTH_PX, HEIGHT_PX), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    log = np.log(srgb_to_linear(picture) @ LUMA_BT709 + LOG_FLOOR).astype(np.float32)
    return _Upright(picture, matrix, points @ matrix[:, :2].T + matrix[:, 2], cv2.GaussianBlur(log, (0, 0), 1.0))


@dataclass(frozen=True)
class _Rim:
    points: np.ndarray
    below: float
    nasal: float
    thickness: float


def _rim(log: np.ndarray, eye: np.ndarray, side: float, dark: bool) -> _Rim:
    """The rim about one eye; side: −1 where the temple lies to the left."""
    angle = np.arange(ANGLES) / ANGLES * 2 * np.pi
    oval = np.stack([side * HALF_WIDTH * np.cos(angle), HALF_HEIGHT * np.sin(angle)], -1) * IOD_PX
    places = eye + REACH[:, None] * oval[:, None]
    outward = (oval / np.linalg.norm(oval, axis=1, keepdims=True))[:, None]

    def at(step_px: float) -> np.ndarray:
        x, y = np.moveaxis((places + step_px * outward).astype(np.float32), -1, 0)
        return cv2.remap(log, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)

    if dark:
        response = np.maximum(at(4.0) - at(-4.0), 0)
    else:
        middle, response = at(0.0), np.zeros(places.shape[:2], np.float32)
        for step in SIDES_PX:
            inner, outer = at(-step), at(step)
            response = np.maximum(response, np.minimum(inner, outer) - middle)
            response = np.maximum(response, BRIGHT_SHARE * (middle - np.maximum(inner, outer)))
    degrees = np.degrees(angle)
    weight = np.where((degrees > 215) & (degrees < 325), UPPER_WEIGHT, 1.0)
    path = _closed_path(np.minimum(response, MOST_GAIN) * weight[:, None])
    along = response[np.arange(ANGLES), path]
    reach = gaussian_filter1d(REACH[path], 0.8, mode="wrap")
    thickness = 2.0 if dark else _thickness(at, path)
    below = float(np.percentile(along[(degrees > 15) & (degrees < 165)], 25))
    nasal = float(np.median(along[(degrees >= 165) & (degrees < 215)]))
    return _Rim(eye + reach[:, None] * oval, below, nasal, thickness)


def _closed_path(gain: np.ndarray) -> np.ndarray:
    """(T,) place of the path of most gain (T, K) that goes around, BEND places an angle at most: three rounds, of which the middle."""
    rounds = np.concatenate([gain] * 3)
    count = gain.shape[1]
    best, came = rounds[0].astype(np.float64), np.zeros(rounds.shape, np.int64)
    for row in range(1, len(rounds)):
        wide = np.pad(best, BEND, constant_values=-np.inf)
        options = np.stack([wide[k : k + count] - BEND_COST * abs(k - BEND) for k in range(2 * BEND + 1)])
        choice = options.argmax(0)
        came[row] = np.arange(count) + choice - BEND
        best = options.max(0) + rounds[row]
    path = [int(best.argmax())]
    for row in range(len(rounds) - 1, 0, -1):
        path.append(int(came[row, path[-1]]))
    return np.array(path[::-1])[len(gain) : 2 * len(gain)]


def _thickness(at: Callable[[float], np.ndarray], path: np.ndarray) -> float:
    """Of a rim, pixels: how far it stays over half of its contrast."""
    rows = np.arange(ANGLES)
    steps = np.arange(-12, 13)
    profile = np.stack([at(float(step))[rows, path] for step in steps], 1)
    base = (profile[:, 0] + profile[:, -1]) / 2
    off = np.abs(profile - base[:, None])
    over = off > 0.5 * off[:, 10:15].max(1, keepdims=True)
    right, left = (np.logical_and.accumulate(part, axis=1).sum(1) for part in (over[:, 12:], over[:, 12::-1]))
    return float(np.median(np.maximum(right + left - 1, 1)))


def _bridge(log: np.ndarray) -> tuple[float, int]:
    """(how much a line across the nose's root stands out, its row below the eyes' middle)."""
    middle, half = int(MIDDLE_PX[0]), BRIDGE_HALF_PX
    strip = log[:, middle - half : middle + half + 1]
    best, at = 0.0, 0
    for row in range(int(MIDDLE_PX[1]) + BRIDGE_ROWS_PX[0], int(MIDDLE_PX[1]) + BRIDGE_ROWS_PX[1]):
        for step in (3, 5, 8, 11):
            above, below = strip[row - step], strip[row + step]
            darker = np.percentile(np.minimum(above, below) - strip[row], 30)
            brighter = BRIGHT_SHARE * np.percentile(strip[row] - np.maximum(above, below), 30)
            if max(darker, brighter) > best:
                best, at = float(max(darker, brighter)), row - int(MIDDLE_PX[1])
    return best, at


def _sampled(rgb: np.ndarray, points: np.ndarray) -> np.ndarray:
    at = np.clip(np.rint(points).astype(int), 0, (rgb.shape[1] - 1, rgb.shape[0] - 1))
    return rgb[at[:, 1], at[:, 0]].astype(np.float64)


def _within(rim: np.ndarray, eye: np.ndarray) -> np.ndarray:
    return np.concatenate([eye + share * (rim - eye) for share in (0.5, 0.65, 0.8)])


def glasses_mask(rgb: np.ndarray, landmarks_px: np.ndarray) -> np.ndarray:
    """(H, W) bool of a (H, W, 3) u8 picture: rims, bridge and dark lenses; empty where the face wears none."""
    mask = np.zeros(rgb.shape[:2], np.uint8)
    glasses = find_glasses(rgb, landmarks_px)
    if glasses is None:
        return mask > 0
    _draw_frame(mask, glasses, max(1, round(glasses.thickness_px)), 0.0)
    if glasses.dark:
        cv2.fillPoly(mask, [np.round(rim * 8).astype(np.int32) for rim in glasses.rims], 1, cv2.LINE_8, 3)
    return mask > 0


def _draw_frame(mask: np.ndarray, glasses: Glasses, width: int, shadow_px: float, more: Sequence[np.ndarray] = ()) -> None:
    for line in [*(np.concatenate([rim, rim[:1]]) for rim in glasses.rims), bridge_line(glasses), *more]:
        for down in np.linspace(0, shadow_px, 3 if shadow_px else 1):
            cv2.polylines(mask, [np.round((line + (0, down)) * 8).astype(np.int32)], False, 1, width, cv2.LINE_8, 3)


def without_glasses(
    rgb: np.ndarray, landmarks_px: np.ndarray, glasses: Glasses, temples: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(the photo with the skin under the frame filled in from around it and the lenses without reflections, (H, W) bool what changed).

    temples: lines (K, 2) of photo pixels along the frame's sides. Behind dark lenses nothing is known: they are left.
    """
    mask = np.zeros(rgb.shape[:2], np.uint8)
    scale = float(np.linalg.norm(landmarks_px[IRISES[1], :2] - landmarks_px[IRISES[0], :2])) / IOD_PX
    width = max(1, round(glasses.thickness_px + 2 * MARGIN_PX * scale))
    _draw_frame(mask, glasses, width, SHADOW_PX * scale, temples)
    if not glasses.dark:
        mask |= _reflections(rgb, landmarks_px, glasses)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    pad = 4 * INPAINT_PX
    window = np.s_[max(rows[0] - pad, 0) : rows[-1] + pad, max(columns[0] - pad, 0) : columns[-1] + pad]
    out = rgb.copy()
    out[window] = cv2.inpaint(np.ascontiguousarray(rgb[window]), mask[window], INPAINT_PX, cv2.INPAINT_TELEA)
    return out, mask > 0


def bridge_line(glasses: Glasses) -> np.ndarray:
    """(3, 2) photo pixels from rim to rim over the bridge."""
    ends = [rim[np.argmin(np.linalg.norm(rim - glasses.bridge, axis=1))] for rim in glasses.rims]
    return np.stack([ends[0], glasses.bridge, ends[1]])


def _reflections(rgb: np.ndarray, landmarks_px: np.ndarray, glasses: Glasses) -> np.ndarray:
    """(H, W) u8, 1 where a lens mirrors a lamp or a window: brighter and paler than the face, off the open eye."""
    lens = np.zeros(rgb.shape[:2], np.uint8)
    for rim in glasses.rims:
        cv2.fillPoly(lens, [np.round(rim * 8).astype(np.int32)], 1, cv2.LINE_8, 3)
    scale = float(np.linalg.norm(landmarks_px[IRISES[1], :2] - landmarks_px[IRISES[0], :2])) / IOD_PX
    eyes = np.zeros_like(lens)
    for corners in EYE_LOOPS:
        cv2.fillPoly(eyes, [np.round(landmarks_px[list(corners), :2] * 8).astype(np.int32)], 1, cv2.LINE_8, 3)
    side = 2 * max(1, round(3 * scale)) + 1
    eyes = cv2.dilate(eyes, np.ones((side, side), np.uint8))
    linear = srgb_to_linear(rgb)
    luminance = linear @ LUMA_BT709
    face = np.median(luminance[lens > 0]) if lens.any() else 1.0
    chroma = np.ptp(linear, axis=-1) / np.maximum(linear.max(-1), 1e-3)
    bright = (lens > 0) & (eyes == 0) & (luminance > face * np.exp(REFLECTION_LOG)) & (chroma < REFLECTION_CHROMA)
    if bright.sum() > MOST_REFLECTION * lens.sum():
        return np.zeros_like(lens)  # pale skin, not a mirror
    return cv2.dilate(bright.astype(np.uint8), np.ones((side, side), np.uint8)) & lens & ~eyes
