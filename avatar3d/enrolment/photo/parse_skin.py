"""What is skin, beard, neck, ear, hand, hat and clothes in a work picture: by landmarks, the face's own colour and the matte.

What the photo does not show comes out empty. The hair network is asked for beards; everything else knows only the picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.enrolment.photo.masks import closed, distance_to, grown, large_parts, opened, parts_with, polygon, shrunk
from avatar3d.enrolment.photo.parse_frame import FaceFrame, headroom
from avatar3d.face.hair import SURE
from avatar3d.head.mediapipe import (
    CHIN_POINTS,
    JAW_POINTS,
    LEFT_EYE,
    LIPS_OUTER,
    MOUSTACHE_POINTS,
    NOSE_ROOT,
    RIGHT_EYE,
    TEMPLES,
)

# Sizes in pixels are for WORK_IOD_PX; heights are the face's own: 0 the chin, 1 the top of the face oval.
# The chin under the lip, the strip between nose and lip, and the jaw's two sides: where beards are looked for.
LIGHTNESS_SHARE = 0.35  # of lightness in the distance to the face's colour: light changes it, and hardly the chroma
SKIN_SPREAD = (10.0, 2.5, 2.5)  # least deviation of the face's Lab, 8-bit scale
SKIN_DISTANCE = 3.0  # robust deviations from the face's median that still pass for skin
DARKEST_SKIN = 0.3  # of the face's median lightness
GREY_CHROMA = 2.0  # range of a face's chroma under which its photo is taken for greyscale
GREY_SKIN = (0.72, 1.25)  # a greyscale photo's skin over the lightness of the face's lit part
SMOOTH_PX = 2.0  # of colours before they are compared
# Beards lie under this height; from this much of the chin or the lip under hair on there is one.
BEARD_TOP, BEARD_SHARE = 0.44, 0.4
BEARD_STRENGTH = 0.95  # of the face's chroma over lightness: shade keeps or raises it, hair lowers it
DARKER_BY, DARK_SHARE = 46.0, 0.25  # 8-bit lightness under the cheeks'; of the chin and of both jaws
BEARD_BELOW_CHIN, BEARD_HALF = -0.9, 0.45  # how far a beard hangs, and its half width there over the face's
EAR_HEIGHTS, EAR_BACK_PX = (0.24, 0.86), 34.0  # where ears lie beside the face
EAR_AREA_PX = 1700.0  # of an ear seen from in front, all of it
MIN_EAR_PX = 120.0
FAR_TURN = 0.09  # nose off the temples' middle over the face's width: the ear that it points to is hidden
FOREHEAD = (0.7, 1.3)  # heights of skin that is face beyond the oval: to the hairline
NECK_HALF, SHOULDERS = 0.75, -0.3  # half a neck's room over the face's width; under this height bare shoulders lie beside it
# The throat, where it is looked at, and how it may differ from the face: shade over light, hue in radians, chroma over lightness.
THROAT_LOW, THROAT_HALF, THROAT_LIGHT, THROAT_HUE, THROAT_STRENGTH = -0.16, 0.16, (0.4, 1.15), 0.22, 0.75
# Skin of the neck in shade, as far down as this: lightness and chroma over the face's, hue off it in radians. Shade takes lightness
# and, lit by what is around, turns the hue toward yellow, while the chroma stays; no cloth of another colour keeps all three.
SHADE_LOW, SHADE_HALF, SHADE_LIGHT, SHADE_CHROMA, SHADE_HUE = -0.3, 0.55, (0.38, 1.1), (0.6, 1.45), 0.42
MIN_PART_PX = 250.0  # smaller parts of a label are specks
MIN_HAND_PX = 900.0
HAND_OFF_PX = 10.0  # a hand beside the face passes further out than an ear or a cheek
HAT_FROM, HAT_TOP, HAT_SHARE = 0.95, 1.75, 0.2  # heights; of the head between them that is neither hair nor skin
# Off the middle and width, over the face's; share of its colours that the backdrop beside it has too.
HAT_ASIDE, HAT_WIDTH, HAT_LIKE_BACKDROP = 0.2, 0.5, 0.75
SCARF_LOW = -0.1  # height down to which a scarf is told from clothes
HAT_CHROMA = 12.0  # 8-bit Lab
HAT_ENDS, HAT_ENDS_PX = 0.7, 61.0  # lowest height of a hat's ends over the ears; how far beside what was found they lie
# Bands of a hat may have the skin's colour; above this height no skin lies between them
HAT_BANDS_PX, FOREHEAD_TOP_HAT = 27.0, 1.05
HAT_OPEN_PX, MIN_HAT_PX, HAT_BRIM_PX = 11.0, 1200.0, 15.0
# Of a plain hat, away from its rim, three quarters are under this to the hair network (of 14 .008 at most); hair that it misses,
# blurred or before a bright sky, it still doubts (.033 and .15 of two that passed for hats). Knitting of hair's colour it doubts too
# (.08 to .3 of three in ten): that becomes hair, which is the commoner of the two.
HAT_CORE_PX, HAT_DOUBT = 9.0, 0.016
BIN = 12  # of the 8-bit Lab in which colours of backdrop and hat are compared


@dataclass(frozen=True)
class SkinColour:
    """Which pixels have the colour of one face's skin.

    like: (H, W) bool. grey: True where the photo has no chroma to go by. lab: (H, W, 3) f32, smoothed, 8-bit scale. centre:
    (3,), its median on the lit part of the face.
    """

    like: np.ndarray
    grey: bool
    lab: np.ndarray
    centre: np.ndarray

    @property
    def lightness(self) -> np.ndarray:
        """(H, W) f32, 8-bit scale."""
        return self.lab[..., 0]

    @property
    def cheeks(self) -> float:
        """Lightness of the lit cheeks, 8-bit scale."""
        return float(self.centre[0])


def skin_colour(rgb: np.ndarray, frame: FaceFrame, landmarks_px: np.ndarray) -> SkinColour:
    """The face's colour from its middle, without eyes, brows, lips and what is darkest."""
    smooth = cv2.GaussianBlur(rgb, (0, 0), SMOOTH_PX * frame.unit)
    lab = cv2.cvtColor(smooth, cv2.COLOR_RGB2LAB).astype(np.float32)
    core = shrunk(frame.face, 31 * frame.unit) & (frame.height < frame.brow)
    for part in (LIPS_OUTER, RIGHT_EYE, LEFT_EYE):
        core &= ~grown(polygon(landmarks_px[list(part)], core.shape), 9 * frame.unit)
    if core.sum() < MIN_PART_PX * frame.unit**2:
        core = frame.inner
    upper = core & (frame.height > BEARD_TOP)
    face = lab[upper if upper.sum() > 0.3 * core.sum() else core]
    lit = face[face[:, 0] >= np.quantile(face[:, 0], 0.4)]
    centre = np.median(lit, 0)
    spread = np.maximum(1.48 * np.median(np.abs(lit - centre), 0), SKIN_SPREAD)
    off = (lab - centre) / spread
    off[..., 0] *= LIGHTNESS_SHARE
    like = ((off**2).sum(-1) < SKIN_DISTANCE**2) & (lab[..., 0] > DARKEST_SKIN * centre[0])
    grey = bool(np.ptp(np.percentile(face[:, 1:], (5, 95), axis=0), axis=0).max() < GREY_CHROMA)
    if grey:
        brightness = lab[..., 0] / centre[0]
        like &= (brightness > GREY_SKIN[0]) & (brightness < GREY_SKIN[1])
    return SkinColour(like, grey, lab, centre)


def find_beard(probability: np.ndarray, colour: SkinColour, frame: FaceFrame, landmarks_px: np.ndarray) -> np.ndarray:
    """(H, W) bool: moustache, beard and what of the sideburns lies under the ears' lower half; (H, W) hair probability given.

    The network knows most beards. Short dark ones are told by their colour, when it lies on both sides: a shadow lies on one.
    """
    shape, unit = probability.shape, frame.unit

    def about(indices: tuple[int, ...]) -> np.ndarray:
        return polygon(cv2.convexHull(landmarks_px[list(indices)].astype(np.float32))[:, 0], shape)

    lips = grown(polygon(landmarks_px[list(LIPS_OUTER)], shape), 3 * unit)
    hairy = (probability > SURE) & ~lips
    chin, lip = about(CHIN_POINTS) & ~lips, about(MOUSTACHE_POINTS) & ~lips
    jaws = [about(points) & ~lips for points in JAW_POINTS]
    dark = frame.face & (frame.height < BEARD_TOP) & (colour.lightness < colour.cheeks - DARKER_BY) & ~colour.like & ~lips
    chroma = np.hypot(colour.lab[..., 1] - 128, colour.lab[..., 2] - 128)
    strength = float(np.hypot(*(colour.centre[1:] - 128))) / colour.cheeks
    dark &= chroma < BEARD_STRENGTH * strength * np.maximum(colour.lightness, 1)
    if min(_share(dark, part) for part in (chin, *jaws)) < DARK_SHARE:
        dark &= False
    evidence = hairy | dark
    shares = [_share(evidence, part) for part in (chin, lip, *jaws)]
    if shares[0] < BEARD_SHARE and shares[1] < BEARD_SHARE:
        return np.zeros(shape, bool)
    zone = (frame.height < BEARD_TOP) & grown(frame.face, 19 * unit)
    if shares[0] > BEARD_SHARE:
        zone |= (frame.height <= 0.05) & (frame.height > BEARD_BELOW_CHIN) & (np.abs(frame.lateral) < BEARD_HALF * frame.width)
    found = closed(opened(evidence & zone, 3 * unit), 7 * unit) & ~lips & zone
    return parts_with(found, chin | lip, MIN_PART_PX / 4 * unit**2)


def _share(mask: np.ndarray, part: np.ndarray) -> float:
    return float(mask[part].mean()) if part.any() else 0.0


def find_ears(
    colour: SkinColour, person: np.ndarray, hair: np.ndarray, frame: FaceFrame, landmarks_px: np.ndarray
) -> dict[int, tuple[np.ndarray, float]]:
    """By side of the picture (-1 left, 1 right): ((H, W) bool of the ear, share of a whole one that is seen)."""
    unit = frame.unit
    root = landmarks_px[NOSE_ROOT]
    heights = (frame.height > EAR_HEIGHTS[0]) & (frame.height < EAR_HEIGHTS[1])
    skin = colour.like & person & ~hair & ~shrunk(frame.face, 5 * unit) & heights
    ears = {}
    for side in (-1, 1):
        if side * frame.turn > FAR_TURN:  # the head hides it
            ears[side] = (np.zeros(person.shape, bool), 0.0)
            continue
        edge = min((float(side * (landmarks_px[index] - root) @ _right(frame)) for index in TEMPLES), key=lambda x: -x)
        across = side * frame.lateral
        beside = skin & (across > edge - 8 * unit) & (across < edge + EAR_BACK_PX * unit)
        ear = large_parts(opened(beside, 5 * unit), MIN_EAR_PX * unit**2)
        ears[side] = (ear, float(min(ear.sum() / (EAR_AREA_PX * unit**2), 1.0)))
    return ears


def ears_outside(inside: np.ndarray, frame: FaceFrame, landmarks_px: np.ndarray) -> int:
    """How many ears that this view would show lie outside the photo: where most of an ear's place is not `inside`, (H, W) bool."""
    heights = (frame.height > EAR_HEIGHTS[0]) & (frame.height < EAR_HEIGHTS[1])
    count = 0
    for side, temple in zip((-1, 1), TEMPLES, strict=True):
        root = float(side * (landmarks_px[temple] - landmarks_px[NOSE_ROOT]) @ _right(frame))
        across = side * frame.lateral
        place = heights & (across > root) & (across < root + EAR_BACK_PX * frame.unit)
        beyond = not place.any() or inside[place].mean() < 0.5
        count += beyond and side * frame.turn <= FAR_TURN
    return count


def _right(frame: FaceFrame) -> np.ndarray:
    axis = frame.top - frame.chin
    return np.array([-axis[1], axis[0]]) / np.linalg.norm(axis)


def find_hat(
    rgb: np.ndarray, matte: np.ndarray, probability: np.ndarray, colour: SkinColour, frame: FaceFrame
) -> tuple[np.ndarray, bool]:
    """((H, W) bool: what covers the head over the forehead and is neither sure hair, skin nor backdrop; whether it may be hair after
    all). matte, probability: the networks'.

    Dark parts of it that the network takes for hair, between a part that it does not and the brows, are the hat's as well.
    """
    unit, none = frame.unit, (np.zeros(matte.shape, bool), False)
    head = (matte > 0.5) & (frame.height > HAT_FROM) & (frame.height < HAT_TOP) & (np.abs(frame.lateral) < 0.8 * frame.width)
    free = head & (probability < SURE)
    other = opened(free & ~colour.like, HAT_OPEN_PX * unit)
    other |= opened(closed(other, HAT_BANDS_PX * unit) & free & (frame.height > FOREHEAD_TOP_HAT), HAT_OPEN_PX / 2 * unit)
    other = large_parts(other, MIN_HAT_PX * unit**2)
    if other.sum() < HAT_SHARE * head.sum() or not head.any():
        return none
    tops = [float(np.quantile(frame.height[part], 0.98)) for part in (other, head)]
    lateral = frame.lateral[other] / frame.width
    aside = abs(float(lateral.mean())) > HAT_ASIDE or np.ptp(lateral) < HAT_WIDTH
    if aside or tops[0] < tops[1] - 0.05 or _like_backdrop(rgb, matte, other, frame) > HAT_LIKE_BACKDROP:
        return none
    columns = np.abs(frame.lateral - frame.lateral[other].mean()) < np.ptp(frame.lateral[other]) / 2 + HAT_BRIM_PX * unit
    dark = (probability > SURE) & columns & (frame.height > HAT_FROM - 0.1) & ~(shrunk(frame.face, 5 * unit) & ~columns)
    hat = parts_with(closed(other | dark, 9 * unit), other)
    # Its ends over the ears, which the network takes for hair too, and a scarf's sides, which it does not: beside it, of its colours.
    lab, hairy = _binned(rgb, frame), probability > SURE
    at = tuple(np.moveaxis(lab, -1, 0))
    ends = hairy & (frame.height > HAT_ENDS) & grown(hat, HAT_ENDS_PX * unit) & _colours(lab, hat & hairy)[at]
    coloured = np.hypot(*np.moveaxis(colour.lab[..., 1:] - 128, -1, 0)) > HAT_CHROMA  # as no hair is, where its hue is a hat's
    sides = np.where(hairy, coloured, matte > 0.5) & (frame.height > SCARF_LOW) & _colours(lab, hat & ~hairy)[at] & ~colour.like
    ends = opened((ends | sides) & ~hat & ~shrunk(frame.face, 5 * unit), 3 * unit)
    middle = shrunk(other, HAT_CORE_PX * unit)
    doubted = bool(middle.any() and np.quantile(probability[middle], 0.75) > HAT_DOUBT)
    return parts_with(closed(hat | ends, 9 * unit), hat), doubted


def _like_backdrop(rgb: np.ndarray, matte: np.ndarray, part: np.ndarray, frame: FaceFrame) -> float:
    """Share of a part of the matte whose colour also lies about the head where no person is: the matte's own error."""
    ring = (matte < 0.1) & grown(part, 81 * frame.unit)
    if ring.sum() < MIN_PART_PX:
        return 0.0
    lab = _binned(rgb, frame)
    return float(_colours(lab, ring)[tuple(lab[part].T)].mean())


def _binned(rgb: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W, 3) i32: a bin of Lab for each pixel."""
    return cv2.cvtColor(cv2.GaussianBlur(rgb, (0, 0), SMOOTH_PX * frame.unit), cv2.COLOR_RGB2LAB).astype(np.int32) // BIN


def _colours(lab: np.ndarray, part: np.ndarray) -> np.ndarray:
    """(bins,) * 3 bool: the colours of a part of a picture (see _binned), and those right beside them."""
    known = np.zeros((256 // BIN + 1,) * 3, bool)
    known[tuple(lab[part].T)] = True
    return cv2.dilate(known.astype(np.uint8).reshape(len(known), -1), np.ones((3, 1), np.uint8)).reshape(known.shape) > 0


def find_forehead(colour: SkinColour, person: np.ndarray, taken: np.ndarray, frame: FaceFrame, bald: bool) -> np.ndarray:
    """(H, W) bool: skin of the head above the face oval, up to the hair, or all of a bald crown."""
    zone = (frame.height > FOREHEAD[0]) & (frame.height < FOREHEAD[1]) & (np.abs(frame.lateral) < 0.6 * frame.width)
    if bald:
        zone |= headroom(frame) & (frame.height > FOREHEAD[0])
    skin = opened(colour.like & person & zone & ~taken, 3 * frame.unit) | (frame.face & zone & person & ~taken)
    return parts_with(skin, frame.face, MIN_PART_PX / 4 * frame.unit**2)


def find_neck(colour: SkinColour, person: np.ndarray, taken: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: bare skin under the chin and the jaw, down to chest and shoulders; taken: hair, beard and face."""
    unit = frame.unit
    zone = (frame.height < 0.12) & ((np.abs(frame.lateral) < NECK_HALF * frame.width) | (frame.height < SHOULDERS))
    like = colour.like | _throat_coloured(colour, person & ~taken, frame) | _shaded(colour, person & ~taken, frame)
    skin = closed(opened(like & person & zone & ~taken, 5 * unit), 5 * unit) & ~taken & person
    under = zone & (frame.height > -0.3) & (np.abs(frame.lateral) < 0.4 * frame.width)
    return parts_with(large_parts(skin, MIN_PART_PX * unit**2), under, MIN_PART_PX / 4 * unit**2)


def _throat_coloured(colour: SkinColour, free: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: the colour of what lies right under the chin, when it could be the face's in shade."""
    throat = free & (frame.height < -0.02) & (frame.height > THROAT_LOW) & (np.abs(frame.lateral) < THROAT_HALF * frame.width)
    if throat.sum() < MIN_PART_PX * frame.unit**2:
        return np.zeros(free.shape, bool)
    values = colour.lab[throat]
    centre = np.median(values, 0)
    lightness = centre[0] / colour.cheeks
    hue = [np.arctan2(*(item[[2, 1]] - 128)) for item in (centre, colour.centre)]
    away = abs((hue[0] - hue[1] + np.pi) % (2 * np.pi) - np.pi)
    strength = [float(np.hypot(*(item[1:] - 128)) / item[0]) for item in (centre, colour.centre)]
    shaded = THROAT_LIGHT[0] < lightness < THROAT_LIGHT[1] and away < THROAT_HUE and strength[0] > THROAT_STRENGTH * strength[1]
    if colour.grey or not shaded:
        return np.zeros(free.shape, bool)
    spread = np.clip(1.48 * np.median(np.abs(values - centre), 0), SKIN_SPREAD, np.multiply(SKIN_SPREAD, 2))
    off = (colour.lab - centre) / spread
    off[..., 0] *= LIGHTNESS_SHARE
    return (off**2).sum(-1) < SKIN_DISTANCE**2


def _shaded(colour: SkinColour, free: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: the face's skin in shade, where the neck goes on from the chin and the jaw without a gap."""
    if colour.grey:
        return np.zeros(free.shape, bool)
    off = colour.lab[..., 1:] - 128
    own = colour.centre[1:] - 128
    lightness = colour.lightness / colour.cheeks
    chroma = np.hypot(off[..., 0], off[..., 1]) / max(float(np.hypot(*own)), 1.0)
    hue = np.arctan2(off[..., 1], off[..., 0]) - np.arctan2(own[1], own[0])
    like = (lightness > SHADE_LIGHT[0]) & (lightness < SHADE_LIGHT[1]) & (chroma > SHADE_CHROMA[0]) & (chroma < SHADE_CHROMA[1])
    like &= np.abs((hue + np.pi) % (2 * np.pi) - np.pi) < SHADE_HUE
    zone = (frame.height < 0.12) & (frame.height > SHADE_LOW) & (np.abs(frame.lateral) < SHADE_HALF * frame.width)
    shade = opened(like & free & zone, 3 * frame.unit)
    return parts_with(shade, grown(frame.face, 9 * frame.unit) & (frame.height > -0.06), MIN_PART_PX / 4 * frame.unit**2)


def find_hands(colour: SkinColour, person: np.ndarray, taken: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: skin that is neither face nor ear nor neck nor chest (`taken`): hands and arms near the head."""
    unit = frame.unit
    skin = opened(colour.like & person & ~taken & ~frame.face, 9 * unit)
    off = distance_to(taken | frame.face) > HAND_OFF_PX * unit
    return large_parts(parts_with(skin, off, MIN_HAND_PX / 3 * unit**2), MIN_HAND_PX * unit**2)


def find_clothes(person: np.ndarray, taken: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: what of the person below the chin is nothing else."""
    unit = frame.unit
    rest = person & ~taken & (frame.height < 0.05) & ~shrunk(frame.face, 3 * unit)
    return large_parts(opened(rest, 5 * unit), 2 * MIN_HAND_PX * unit**2)
