"""Segmentation of a work picture into person, face and hair, by colour models that start from the face landmarks.

It parses one head only and knows nothing of depth; hats and hoods come out as hair, beards as face.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

from avatar3d.enroll.crop import WorkPicture
from avatar3d.face.landmarks import FACE_OVAL, FaceLandmarks
from avatar3d.face.matte import person_matte

BROWS = (105, 334, 66, 296)
CHIN, FOREHEAD_TOP, NOSE_ROOT, NOSE_TIP = 152, 10, 168, 1
TEMPLES = (234, 454)

WORK_IOD_PX = 88.0  # pixel sizes below are for this distance between the eyes and scale with it
ROUNDS = 3  # of the colour models; a fourth changes under 0.1 % of the pixels
HAIR_COLOURS, SKIN_COLOURS, BACKDROP_COLOURS = 4, 5, 6  # mixture sizes: highlights, two tones and shadow; skin adds lips
MODEL_SAMPLES = 5000  # pixels a mixture is fitted to: enough for six full covariances
# The axis runs from the chin (0) to the top of the face oval (1).
AXIS_HAIR = 1.08  # above it the head is hair unless it is bald
AXIS_LOWEST = -0.05  # below it is neck and clothes
LIGHTNESS_SHARE = 0.35  # of lightness in the distance to the face's colour; chroma and texture count fully
# Texture: the middle height of ripples this fine, which is hair's or a sharp backdrop's. Finer is the sensor's noise, and
# steps of lightness this high are edges.
NOISE_PX, RIPPLE_PX, EDGE_STEP = 0.8, 2.0, 25.0
TEXTURE_PX, TEXTURE_GAIN = 7.0, 24.0  # gain: 8-bit units an octave of 1 + height
SKIN_SPREAD = (10.0, 2.5, 2.5, 4.0)  # least deviation of the face's lightness, chroma and texture
GREY_CHROMA = 2.0  # range of a face's chroma under which its photo is taken for greyscale
GREY_SKIN = (0.72, 1.25)  # a greyscale photo's skin over the lightness of the face's lit part
SKIN_DISTANCE = 2.5  # robust standard deviations from the face's median colour that still pass for skin
FOREHEAD_BAND = 0.1  # of the axis above and below the brows' height
DARK_FRINGE, FRINGE_CLAIM = 0.90, 4.0  # of the forehead's lightness from which on a fringe is darker; weight of that evidence
FEATURES_SHARE = 0.2  # of the face's pixels may belong to brows, eyes, lips and nostrils
TEXTURE_TELLS = 3.0  # hair's texture over the face's, 8-bit scale, below which it says nothing
BALD_SHARE = 0.75  # of the crown in skin colour: no hair
# Hair that hangs below the chin: looked for on a side where this many pixels' width of it pass the chin's height, down to this
# far on the axis, and no further out than this over its reach beside the face.
MIN_HANGING_PX, HANGING_FROM, LOWEST_HANGING, HANGING_SPREAD = 14.0, 0.12, -1.1, 1.2
CLOTHES_PX, CLOTHES = 38.0, (-0.9, -0.3)  # half width and heights of the column below the chin that shows neck and clothes
SPUR_DISC_PX = 27.0
MIN_HAIR_PX = 700  # smaller masks are specks
MIN_CROWN_PX = 50  # of the crown that a part of the mask must hold


@dataclass(frozen=True)
class Segmentation:
    """Masks of a work picture, all (H, W).

    matte: f32 in [0, 1], the person without backdrop seen through the hair's rim. hair_alpha: f32 in [0, 1].
    hair_mask, face_mask: bool. confidence: in [0, 1], how well the hair's colour tells it from skin and backdrop;
    below 0.5 the mask is symmetric and smoothed. notes: sentences for the report.
    """

    matte: np.ndarray
    hair_alpha: np.ndarray
    hair_mask: np.ndarray
    face_mask: np.ndarray
    confidence: float
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Frame:
    """The face's own axes in the picture."""

    height: np.ndarray  # (H, W) 0 at the chin, 1 at the top of the face oval
    lateral: np.ndarray  # (H, W) pixels toward the picture's right of the face's midline
    face: np.ndarray  # (H, W) bool
    inner: np.ndarray  # (H, W) bool, the face without its rim
    brow: float  # height of the brows
    turn: float  # nose tip off the temples' middle over the face's width, positive to the picture's right
    unit: float  # pixels per pixel of the reference scale


def segment(work: WorkPicture, matte: np.ndarray | None = None) -> Segmentation:
    """Person, face and hair of a work picture.

    matte: (H, W) f32 person matte of the same picture, otherwise the matting network is run. Raises InputError when
    the network's file is missing.
    """
    rgb, landmarks = work.rgb, np.asarray(work.landmarks_px, dtype=np.float64)
    if matte is None:
        points = landmarks if landmarks.shape[1] == 3 else np.c_[landmarks, np.zeros(len(landmarks))]
        matte = person_matte(rgb, FaceLandmarks(points, 1.0))
    frame = _face_frame(landmarks[:, :2], rgb.shape[:2])
    rows, columns = _region(matte, frame)
    view = np.s_[rows, columns]
    part = _Frame(frame.height[view], frame.lateral[view], frame.face[view], frame.inner[view], frame.brow, frame.turn,
                  frame.unit)  # fmt: skip
    look = _features(rgb[view], frame.unit)
    mask, cut_matte, alpha, confidence, notes = _parse(rgb[view], look, matte[view].astype(np.float32), part)

    full_matte = matte.astype(np.float32).copy()
    full_matte[view] = cut_matte
    hair_mask = np.zeros(matte.shape, bool)
    hair_mask[view] = mask
    hair_alpha = np.zeros(matte.shape, np.float32)
    hair_alpha[view] = alpha
    if hair_mask.any():
        hanging = _hanging(rgb, matte, hair_mask, frame)
        hair_mask |= hanging
        soft = guided_filter(rgb / 255.0, hanging.astype(np.float32), max(2, round(4 * frame.unit)), 1e-3) if hanging.any() else 0.0
        hair_alpha = np.maximum(hair_alpha, soft * np.clip(full_matte * 1.2, 0.0, 1.0))
    return Segmentation(full_matte, hair_alpha, hair_mask, frame.face & (matte > 0.5) & ~hair_mask, confidence, notes)


def guided_filter(guide: np.ndarray, values: np.ndarray, radius: int, epsilon: float) -> np.ndarray:
    """(H, W) f32 in [0, 1]: `values` smoothed along the edges of `guide` (H, W, 3) in [0, 1].

    He et al., Guided Image Filtering, section 3.4; the 3×3 systems are solved by cofactors.
    """
    size = (2 * radius + 1, 2 * radius + 1)

    def mean(picture: np.ndarray) -> np.ndarray:
        return cv2.blur(picture, size)

    guide = guide.astype(np.float32)
    values = values.astype(np.float32)
    mu, value_mean = mean(guide), mean(values)
    cross = mean(guide * values[..., None]) - mu * value_mean[..., None]
    rr, rg, rb, gg, gb, bb = (
        mean(guide[..., i] * guide[..., j]) - mu[..., i] * mu[..., j] + (epsilon if i == j else 0.0)
        for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    )
    c00, c01, c02 = gg * bb - gb * gb, rb * gb - rg * bb, rg * gb - rb * gg
    c11, c12, c22 = rr * bb - rb * rb, rg * rb - rr * gb, rr * gg - rg * rg
    determinant = np.maximum(rr * c00 + rg * c01 + rb * c02, epsilon**3)
    x, y, z = cross[..., 0], cross[..., 1], cross[..., 2]
    slope = np.stack([c00 * x + c01 * y + c02 * z, c01 * x + c11 * y + c12 * z, c02 * x + c12 * y + c22 * z], -1)
    slope /= determinant[..., None]
    offset = value_mean - (slope * mu).sum(-1)
    return np.clip((mean(slope) * guide).sum(-1) + mean(offset), 0.0, 1.0)


def _face_frame(landmarks: np.ndarray, shape: tuple[int, int]) -> _Frame:
    face = np.zeros(shape, np.uint8)
    cv2.fillPoly(face, [np.round(landmarks[list(FACE_OVAL)]).astype(np.int32)], 1)
    unit = float(np.linalg.norm(landmarks[468] - landmarks[473]) / WORK_IOD_PX)
    inner = cv2.erode(face, _disc(9 * unit))
    up = landmarks[FOREHEAD_TOP] - landmarks[CHIN]
    length = np.linalg.norm(up)
    up = up / length
    right = np.array([-up[1], up[0]])
    grid = np.stack(np.meshgrid(np.arange(shape[1]) + 0.5, np.arange(shape[0]) + 0.5), -1)
    height = ((grid - landmarks[CHIN]) @ up / length).astype(np.float32)
    brow = float(((landmarks[list(BROWS)] - landmarks[CHIN]) @ up).max() / length)
    temples = landmarks[list(TEMPLES)]
    turn = float((landmarks[NOSE_TIP] - temples.mean(0)) @ right / np.linalg.norm(temples[0] - temples[1]))
    lateral = ((grid - landmarks[NOSE_ROOT]) @ right).astype(np.float32)
    return _Frame(height, lateral, face > 0, inner > 0, brow, turn, unit)


def _features(rgb: np.ndarray, unit: float) -> np.ndarray:
    """(H, W, 4) f32 that tell hair, skin and backdrop apart: smoothed Lab (8-bit scale) and how finely the picture ripples.

    Hair that has the backdrop's or, in a greyscale photo, the skin's colour has its ripples still.
    """
    lab = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)
    lightness = lab[..., 0].astype(np.float32)
    fine = cv2.GaussianBlur(lightness, (0, 0), NOISE_PX * unit)
    ripples = np.abs(fine - cv2.bilateralFilter(fine, -1, EDGE_STEP, RIPPLE_PX * unit))
    size = max(3, 2 * round((TEXTURE_PX * unit - 1) / 2) + 1)
    height = cv2.medianBlur(np.clip(ripples * 8, 0, 255).astype(np.uint8), size) / np.float32(8)
    texture = TEXTURE_GAIN * np.log2(1 + cv2.GaussianBlur(height, (0, 0), 1.5 * unit))
    return np.dstack([cv2.bilateralFilter(lab, 7, 25, 5).astype(np.float32), texture])


def _region(matte: np.ndarray, frame: _Frame) -> tuple[slice, slice]:
    """Box about the head's part of the matte with room for the backdrop ring."""
    wanted = ((matte > 0.05) & (frame.height > AXIS_LOWEST - 0.1) & (np.abs(frame.lateral) < 230 * frame.unit)) | frame.face
    ys, xs = np.nonzero(wanted.any(1))[0], np.nonzero(wanted.any(0))[0]
    margin = round(24 * frame.unit)
    return (
        slice(max(0, ys[0] - margin), min(matte.shape[0], ys[-1] + margin)),
        slice(max(0, xs[0] - margin), min(matte.shape[1], xs[-1] + margin)),
    )


def _parse(
    rgb: np.ndarray, look: np.ndarray, matte: np.ndarray, frame: _Frame
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, list[str]]:
    """(hair mask, matte, hair alpha, confidence, notes) of the head's box."""
    notes: list[str] = []
    guide = np.ascontiguousarray(look[..., :3]) / np.float32(255)
    inside = (matte > 0.3) & (frame.height > AXIS_LOWEST)
    depth = cv2.distanceTransform((matte > 0.5).astype(np.uint8), cv2.DIST_L2, 5)
    crown = (frame.height > AXIS_HAIR) & (matte > 0.7) & (depth > 4 * frame.unit) & (np.abs(frame.lateral) < 110 * frame.unit)
    skin = frame.inner & (frame.height < frame.brow + 0.02)
    empty = np.zeros(matte.shape, bool)
    if crown.sum() < MIN_HAIR_PX / 4 or skin.sum() < MIN_HAIR_PX:
        return empty, matte, empty.astype(np.float32), 0.3, ["the top of the head is not in the photo; no hair was made"]

    if np.median(look[crown, 3]) < np.median(look[skin, 3]) + TEXTURE_TELLS:
        look = look * np.array([1, 1, 1, 0], np.float32)  # smooth or blackened hair: colour alone must tell
    bare = crown & _skin_coloured(look, skin)
    if bare.sum() > BALD_SHARE * crown.sum():
        return empty, matte, empty.astype(np.float32), 0.6, ["the head looks bald or shaved; no hair was made"]

    covered = crown & ~bare
    crown &= ~cv2.dilate(bare.astype(np.uint8), _disc(5 * frame.unit)).astype(bool)
    probability, separation = _colour_rounds(look, guide, inside, crown, skin, frame)
    mask = _joined((probability > 0.5) & inside, crown, frame)
    mask, matte = _cut_backdrop(look, guide, rgb, mask, matte, depth, crown, frame)
    mask = _tidy(mask, crown & mask, covered, skin, matte, frame)
    confidence = float(np.clip((separation - 2.0) / 16.0, 0.0, 1.0))
    if mask.sum() < MIN_HAIR_PX:
        return empty, matte, empty.astype(np.float32), 0.4, ["too little hair was seen to model it; no hair was made"]
    if confidence < 0.5:
        mask = _symmetric_cap(mask, matte, frame, skin)
        notes.append("the hair is hard to tell from skin or backdrop; its outline was made symmetric and smooth")
        confidence = min(confidence, 0.45)
    alpha = guided_filter(rgb / 255.0, mask.astype(np.float32), max(2, round(4 * frame.unit)), 1e-3)
    alpha *= np.clip(matte * 1.2, 0.0, 1.0)
    return mask, matte, alpha.astype(np.float32), confidence, notes


def _hanging(rgb: np.ndarray, matte: np.ndarray, mask: np.ndarray, frame: _Frame) -> np.ndarray:
    """(H, W) bool: hair below the chin that goes on from the mask; by colour, against the face and the clothes under it."""
    unit, height = frame.unit, frame.height
    passing = mask & ~frame.face & (height > AXIS_LOWEST) & (height < HANGING_FROM)
    beside = mask & (height > AXIS_LOWEST) & (height < HANGING_FROM + 0.25)
    axis_px = 1 / max(float(np.abs(np.diff(height, axis=0)).mean()), 1e-6)
    allowed = np.zeros(mask.shape, bool)
    for side in (-1, 1):
        here = frame.lateral * side > 0
        if (passing & here).sum() > MIN_HANGING_PX * unit * (HANGING_FROM - AXIS_LOWEST) * axis_px:
            reach = HANGING_SPREAD * float(np.quantile(np.abs(frame.lateral[beside & here]), 0.98))
            allowed |= here & (np.abs(frame.lateral) < reach)
    allowed &= (height < HANGING_FROM) & (height > LOWEST_HANGING) & (matte > 0.5) & ~frame.face
    clothes = (np.abs(frame.lateral) < CLOTHES_PX * unit) & (height > CLOTHES[0]) & (height < CLOTHES[1]) & (matte > 0.5)
    skin = frame.inner & (height < frame.brow)
    if not allowed.any() or clothes.sum() < MIN_HAIR_PX or skin.sum() < MIN_HAIR_PX:
        return np.zeros(mask.shape, bool)
    look = _features(rgb, unit)
    ratio = np.full(mask.shape, -6.0, np.float32)
    values = look[allowed]
    other = [_Mixture.fit(look[where], SKIN_COLOURS).log_density(values) for where in (skin, clothes)]
    ratio[allowed] = _Mixture.fit(look[mask], BACKDROP_COLOURS).log_density(values) - np.maximum(*other)
    probability = (1.0 / (1.0 + np.exp(-np.clip(ratio, -6.0, 6.0)))).astype(np.float32)
    probability = guided_filter(rgb / np.float32(255), probability, max(2, round(5 * unit)), 4e-4)
    hair = cv2.morphologyEx(((probability > 0.5) & allowed).astype(np.uint8), cv2.MORPH_OPEN, _disc(9 * unit)) > 0
    _, labels = cv2.connectedComponents((hair | mask).astype(np.uint8))
    hair &= np.isin(labels, np.unique(labels[passing]))
    return cv2.morphologyEx(hair.astype(np.uint8), cv2.MORPH_CLOSE, _disc(9 * unit)) > 0


def _skin_coloured(look: np.ndarray, skin: np.ndarray) -> np.ndarray:
    """(H, W) bool: the face's own chroma and texture, whatever the light (a highlit forehead is brighter than any cheek).

    Without chroma to go by, what is far darker or brighter than the face's lit part is no skin either.
    """
    face = look[skin]
    lit = face[face[:, 0] >= np.median(face[:, 0])]
    smooth = lit[lit[:, 3] <= np.median(lit[:, 3])]  # brows, eyes and lips ripple too
    centre, spread = (np.r_[of_face[:3], of_plain[3]] for of_face, of_plain in zip(_middle(face), _middle(smooth), strict=True))
    off = (look - centre) / np.maximum(spread, SKIN_SPREAD)
    off[..., 0] *= LIGHTNESS_SHARE
    off[..., 3] = np.maximum(off[..., 3], 0)
    skin_like = (off**2).sum(-1) < SKIN_DISTANCE**2
    if np.ptp(np.percentile(face[:, 1:3], (5, 95), axis=0), axis=0).max() < GREY_CHROMA:
        brightness = look[..., 0] / np.median(smooth[:, 0])
        skin_like &= (brightness > GREY_SKIN[0]) & (brightness < GREY_SKIN[1])
    return skin_like


def _middle(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and robust deviation of each column."""
    centre = np.median(values, 0)
    return centre, 1.48 * np.median(np.abs(values - centre), 0)


def _colour_rounds(
    look: np.ndarray, guide: np.ndarray, inside: np.ndarray, crown: np.ndarray, skin: np.ndarray, frame: _Frame
) -> tuple[np.ndarray, float]:
    """((H, W) probability of hair, separation of the two colour models as a median log ratio)."""
    height, face = frame.height, frame.face
    # A fringe may reach down to the brows: toward them the face's own claim grows step by step.
    prior = np.where(frame.inner, -3.0 * np.clip((frame.brow + 0.10 - height) / 0.10, 0.0, 1.0), 0.0) + np.where(
        face, -0.7, 0.0
    )
    prior += np.clip((height - 1.05) * 8.0, 0.0, 1.5) + np.where((height < 0.3) & ~face, -2.0, 0.0)
    # A fringe is darker than the forehead below it, which its colour alone, in its own shade, often does not tell.
    lit = skin & (height > frame.brow - FOREHEAD_BAND) & (look[..., 0] > np.median(look[skin, 0]))
    if lit.sum() > MIN_HAIR_PX / 4:
        forehead = float(np.median(look[lit, 0]))
        dark = np.clip((DARK_FRINGE * forehead - look[..., 0]) / (0.1 * forehead), 0.0, 1.0)
        prior += np.where(frame.inner & (height > frame.brow), FRINGE_CLAIM * dark, 0.0)
    radius = max(2, round(5 * frame.unit))
    # Brows, eyes, lips and nostrils have hair's colours: the skin's model starts without the face's darkest part.
    hair, other = crown, skin & (look[..., 0] > np.quantile(look[skin, 0], FEATURES_SHARE))
    for step in range(ROUNDS):
        ratio = np.zeros(inside.shape, np.float32)
        hair_model = _Mixture.fit(look[hair], HAIR_COLOURS)
        skin_model = _Mixture.fit(look[other], SKIN_COLOURS)
        values = look[inside]
        ratio[inside] = hair_model.log_density(values) - skin_model.log_density(values)
        evidence = np.clip(ratio, -6.0, 6.0) + prior
        evidence[skin | ~inside] = -9.0
        if step == 0:
            evidence[crown] += 1.0
        probability = (1.0 / (1.0 + np.exp(-evidence))).astype(np.float32)
        for _ in range(2):
            probability = guided_filter(guide, probability, radius, 4e-4)
        hair = (probability > 0.8) & inside
        other = ((probability < 0.2) & inside & (height > 0.3)) | skin
        if hair.sum() < MIN_HAIR_PX / 4:
            return probability, 0.0
    separation = float(np.median(ratio[hair]) - np.median(ratio[skin]))
    return probability, separation


def _cut_backdrop(
    look: np.ndarray,
    guide: np.ndarray,
    rgb: np.ndarray,
    mask: np.ndarray,
    matte: np.ndarray,
    depth: np.ndarray,
    crown: np.ndarray,
    frame: _Frame,
) -> tuple[np.ndarray, np.ndarray]:
    """Take backdrop seen through the matte's soft rim out of the hair mask and the matte."""
    unit = frame.unit
    near = cv2.dilate((matte > 0.3).astype(np.uint8), _disc(41 * unit)) > 0
    ring = (matte < 0.08) & near & (frame.height > 0.5)
    core = cv2.erode((mask & (matte > 0.9)).astype(np.uint8), _disc(15 * unit)) > 0
    core |= crown & mask
    if core.sum() < 300:
        core = mask & (matte > 0.95)
    if ring.sum() < 300 or core.sum() < 300:
        return mask, matte
    rim = (matte > 0.02) & (depth < 20 * unit) & (frame.height > 0.5)
    ratio = np.full(mask.shape, 8.0, np.float32)
    values = look[rim]
    ratio[rim] = _Mixture.fit(look[core], HAIR_COLOURS).log_density(values)
    ratio[rim] -= _Mixture.fit(look[ring], BACKDROP_COLOURS).log_density(values)
    evidence = np.clip(ratio, -8.0, 8.0) + (depth / unit - 7.0) * 0.45 + 2.0 * (matte - 0.8)
    hair = (1.0 / (1.0 + np.exp(-evidence))).astype(np.float32)
    for _ in range(2):
        hair = guided_filter(guide, hair, max(2, round(4 * unit)), 4e-4)
    cut = (hair < 0.5) & mask & (frame.height > 0.75) & (depth < 16 * unit)
    kept = _joined(mask & ~cut, crown, frame)
    cut = mask & ~kept
    softened = guided_filter(rgb / 255.0, np.where(cut, 0.0, matte), max(2, round(3 * unit)), 1e-3)
    return kept, np.minimum(matte, softened)


def _joined(mask: np.ndarray, crown: np.ndarray, frame: _Frame) -> np.ndarray:
    """The parts of a mask that reach the crown: not a neighbour's suit or hair."""
    _, labels = cv2.connectedComponents(mask.astype(np.uint8))
    shared = np.bincount(labels[mask & crown], minlength=labels.max() + 1)
    return mask & (shared > MIN_CROWN_PX * frame.unit**2)[labels]


def _tidy(
    mask: np.ndarray, crown: np.ndarray, covered: np.ndarray, skin: np.ndarray, matte: np.ndarray, frame: _Frame
) -> np.ndarray:
    """One blob that reaches the crown, without thin spurs beside the face, without holes; covered: the crown where no skin is."""
    unit = frame.unit
    keep = _largest(cv2.morphologyEx(_joined(mask, crown, frame).astype(np.uint8), cv2.MORPH_OPEN, _disc(7 * unit)) > 0)
    wide = cv2.morphologyEx(keep.astype(np.uint8), cv2.MORPH_OPEN, _disc(15 * unit))
    keep &= (cv2.dilate(wide, _disc(5 * unit)) > 0) | (frame.height >= 0.75)
    # Backdrop caught at the outline makes spurs narrower than any tuft.
    person = (matte > 0.5) | frame.face
    head = cv2.morphologyEx(person.astype(np.uint8), cv2.MORPH_OPEN, _disc(SPUR_DISC_PX * unit))
    keep &= cv2.dilate(head, _disc(5 * unit)) > 0
    keep = _level_far_side(keep, frame)
    keep |= _bright_locks(keep, covered & (matte > 0.9), skin, matte, unit)
    keep = cv2.morphologyEx(keep.astype(np.uint8), cv2.MORPH_CLOSE, _disc(7 * unit))
    outlines, _ = cv2.findContours(keep, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = cv2.drawContours(np.zeros_like(keep), outlines, -1, 1, -1) > 0
    return filled & ~skin


def _level_far_side(mask: np.ndarray, frame: _Frame) -> np.ndarray:
    """On a turned head, end the far side's hair where the near side's ends: what is below it there is backdrop."""
    if abs(frame.turn) < 0.015:
        return mask
    far = np.sign(frame.turn)
    near_side = mask & (frame.lateral * far < 0)
    lowest = float(frame.height[near_side].min()) if near_side.any() else 1.0
    return mask & ~((frame.lateral * far > 0) & (frame.height < lowest))


def _symmetric_cap(mask: np.ndarray, matte: np.ndarray, frame: _Frame, skin: np.ndarray) -> np.ndarray:
    """The mask averaged with its mirror image in polar coordinates about the brow's middle, smoothed and filled.

    Each direction keeps an inner (hairline) and an outer radius; the outer one is the matte's, as skin and hair share it.
    """
    angles = 180
    lateral, up = frame.lateral, frame.height
    scale = float(np.abs(np.diff(lateral, axis=1)).mean()) / max(float(np.abs(np.diff(up, axis=0)).mean()), 1e-6)
    vertical = (up - frame.brow) * scale
    azimuth = np.arctan2(lateral, vertical)
    radius = np.hypot(lateral, vertical)
    bins = np.clip(((azimuth / np.pi + 1) / 2 * angles).astype(int), 0, angles - 1)
    inner = np.full(angles, np.nan)
    for index in range(angles):
        here = mask & (bins == index)
        if here.sum() >= 4:
            inner[index] = np.percentile(radius[here], 3)
    inner = np.fmin(np.where(np.isnan(inner), np.inf, inner), np.inf)
    both = np.where(np.isfinite(inner) & np.isfinite(inner[::-1]), (inner + inner[::-1]) / 2, np.fmin(inner, inner[::-1]))
    seen = np.isfinite(both)
    if not seen.any():
        return mask
    ticks = np.arange(angles)
    both = np.interp(ticks, ticks[seen], both[seen])
    both = cv2.GaussianBlur(np.r_[both[::-1], both, both[::-1]].astype(np.float32)[None], (0, 0), 4)[0, angles:-angles]
    limit = max(np.abs(azimuth[mask & (frame.height > 0.6)]).max(), 1.2)
    cap = (radius > both[bins]) & (np.abs(azimuth) < limit) & (matte > 0.5) & (frame.height > 0.55)
    return _largest(cap & ~skin)


def _bright_locks(mask: np.ndarray, allowed: np.ndarray, skin: np.ndarray, matte: np.ndarray, unit: float) -> np.ndarray:
    """(H, W) bool: gaps within the mask's hull that lie at the outline, where a lit lock may have the backdrop's colour.

    Gaps that border on what belongs to the face are forehead.
    """
    gap = _hull(mask) & allowed & ~mask
    inside = cv2.erode((matte > 0.5).astype(np.uint8), _disc(13 * unit)) > 0
    _, labels = cv2.connectedComponents((inside & ~mask & ~gap).astype(np.uint8))
    of_face = np.bincount(labels[skin], minlength=labels.max() + 1) > 0
    of_face[0] = False
    face = cv2.dilate(of_face[labels].astype(np.uint8), _disc(5 * unit)) > 0
    _, labels = cv2.connectedComponents(gap.astype(np.uint8))
    return gap & (np.bincount(labels[gap & face], minlength=labels.max() + 1) == 0)[labels]


def _hull(mask: np.ndarray) -> np.ndarray:
    """(H, W) bool: the convex hull of a mask."""
    points = np.argwhere(mask)[:, ::-1].astype(np.int32)
    filled = np.zeros(mask.shape, np.uint8)
    if len(points):
        cv2.fillConvexPoly(filled, cv2.convexHull(points), 1)
    return filled > 0


def _largest(mask: np.ndarray) -> np.ndarray:
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    return labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax()) if count > 1 else mask.astype(bool)


def _disc(diameter: float) -> np.ndarray:
    size = max(3, 2 * round((diameter - 1) / 2) + 1)
    return cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))


@dataclass(frozen=True)
class _Mixture:
    """A Gaussian mixture of features whose components are k-means cells."""

    log_weight: np.ndarray  # (K,) log of share over the square root of the covariance's determinant
    mean: np.ndarray  # (K, C)
    whitening: np.ndarray  # (K, C, C) inverse Cholesky factors

    @classmethod
    def fit(cls, samples: np.ndarray, size: int) -> _Mixture:
        """Mixture of `size` cells over (N, C) samples (8-bit scale); the same samples give the same mixture."""
        samples = samples[:: max(1, len(samples) // MODEL_SAMPLES)].astype(np.float32)
        size = max(1, min(size, len(samples) // 8))
        cv2.setRNGSeed(0)
        _, labels, _ = cv2.kmeans(samples, size, None, (3, 20, 0.5), 2, cv2.KMEANS_PP_CENTERS)
        weights, means, whitenings = [], [], []
        for index in range(size):
            cell = samples[labels.ravel() == index]
            if len(cell) < 20 and size > 1:
                continue
            covariance = np.cov(cell.T) + np.eye(samples.shape[1]) * 16.0
            weights.append(np.log(len(cell) / len(samples)) - 0.5 * np.log(np.linalg.det(covariance)))
            means.append(cell.mean(0))
            whitenings.append(np.linalg.inv(np.linalg.cholesky(covariance)))
        return cls(np.array(weights, np.float32), np.array(means, np.float32), np.array(whitenings, np.float32))

    def log_density(self, samples: np.ndarray) -> np.ndarray:
        """(N,) log density up to a constant common to all mixtures, floored so that one pixel cannot decide alone."""
        total = np.full(len(samples), 1e-12, np.float32)
        for weight, mean, whitening in zip(self.log_weight, self.mean, self.whitening, strict=True):
            offset = (samples - mean) @ whitening.T
            total += np.exp(weight - 0.5 * (offset * offset).sum(1))
        return np.log(total)
