"""Parts that are worn: what makes a mesh of its own with a picture of its own a part of an avatar, in its mesh and its atlas.

They take no expression and no field. Their pictures lie in a strip that the atlas grows by below, whatever is worn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from avatar3d.avatar import Avatar, BakedField, TextureDelta

STRIP_UNITS = 16  # the strip's height is a multiple of the atlas' width over this, so that every map can be halved as before
GUTTER_TEXELS = 4  # around each picture


@dataclass(frozen=True)
class WornPart:
    """part: PART_*. vertices: (N, 3) metres, neutral head frame. faces: (M, 3) counter-clockwise. uv: (N, 2) in its own picture,
    0 and 1 at its borders. weld: (N,) first vertex at the same place. head_weight, alpha: (N,) f32. picture: (h, w, 3) u8 sRGB
    albedo, confidence: (h, w) f32 in [0, 1], how far the photo shows it."""

    part: int
    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray
    weld: np.ndarray
    head_weight: np.ndarray
    alpha: np.ndarray
    picture: np.ndarray
    confidence: np.ndarray


def put_on(avatar: Avatar, parts: Sequence[WornPart], hidden: np.ndarray | None = None) -> Avatar:
    """The avatar with parts put on, each in a row of the strip. hidden: (F,) bool, faces that nothing shows any more.

    The avatar's own vertices keep their numbers. Raises ValueError for a picture that is wider than the atlas.
    """
    if not parts:
        return avatar
    width = avatar.base_color.shape[1]
    canvases = [_framed(part.picture, width) for part in parts]
    masks = [_framed(np.rint(255 * part.confidence).astype(np.uint8), width) for part in parts]
    unit = width // STRIP_UNITS
    used = sum(len(canvas) for canvas in canvases)
    strip = -(-used // unit) * unit
    avatar = _with_strip(avatar, np.vstack(canvases), np.vstack(masks), strip)
    height = avatar.base_color.shape[0]
    top, first = height - strip, len(avatar.vertices)
    vertices, uv, weld, faces, numbers, weights, alphas = [], [], [], [], [], [], []
    for part, canvas in zip(parts, canvases, strict=True):
        h, w = part.picture.shape[:2]
        places = (part.uv * (w, h) + (GUTTER_TEXELS, GUTTER_TEXELS + top)) / (width, height)
        vertices.append(part.vertices)
        uv.append(places)
        weld.append(part.weld + first)
        faces.append(part.faces + first)
        numbers.append(np.full(len(part.faces), part.part, np.uint8))
        weights.append(part.head_weight)
        alphas.append(part.alpha)
        first += len(part.vertices)
        top += len(canvas)
    added = first - len(avatar.vertices)
    kept = np.ones(len(avatar.faces), bool) if hidden is None else ~hidden

    def more(own: np.ndarray, new: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([own, *(np.asarray(each, own.dtype) for each in new)])

    return replace(
        avatar,
        vertices=more(avatar.vertices, vertices), uv=more(avatar.uv, uv), weld=more(avatar.weld, weld),
        faces=more(avatar.faces[kept], faces), part=more(avatar.part[kept], numbers),
        expression=np.concatenate([avatar.expression, np.zeros((len(avatar.expression), added, 3), np.float32)], axis=1),
        head_weight=more(avatar.head_weight, weights), vertex_alpha=more(avatar.vertex_alpha, alphas),
        field_weight=more(avatar.field_weight, [np.zeros(added)]),
    )  # fmt: skip


def _framed(picture: np.ndarray, width: int) -> np.ndarray:
    """A picture with its gutter, in a row as wide as the atlas."""
    side = GUTTER_TEXELS
    rest = width - picture.shape[1] - 2 * side
    if rest < 0:
        raise ValueError(f"a picture {picture.shape[1]} texels wide does not fit an atlas of {width}")
    return cv2.copyMakeBorder(picture, side, side, side, side + rest, cv2.BORDER_REPLICATE)


def _with_strip(avatar: Avatar, color: np.ndarray, confidence: np.ndarray, strip: int) -> Avatar:
    """The avatar with `strip` more rows of atlas below, in every map over it."""
    height = avatar.base_color.shape[0]
    fill = strip - len(color)
    color = cv2.copyMakeBorder(color, 0, fill, 0, 0, cv2.BORDER_REPLICATE)
    confidence = cv2.copyMakeBorder(confidence, 0, fill, 0, 0, cv2.BORDER_CONSTANT, value=0)
    share = height / (height + strip)

    def longer(values: np.ndarray) -> np.ndarray:
        rows = round(values.shape[0] * strip / height)
        return np.concatenate([values, np.zeros((rows, *values.shape[1:]), values.dtype)])

    small = avatar.confidence.shape
    rows = round(small[0] * strip / height)
    shrunk = cv2.resize(confidence, (small[1], rows), interpolation=cv2.INTER_AREA) if rows else confidence[:0]
    baked = avatar.baked
    return replace(
        avatar,
        uv=(avatar.uv * (1, share)).astype(np.float32),
        base_color=np.concatenate([avatar.base_color, color]),
        confidence=np.concatenate([avatar.confidence, shrunk.reshape(rows, small[1])]),
        texture_deltas=[_longer_delta(delta, longer(delta.log_ratio)) for delta in avatar.texture_deltas],
        baked=None if baked is None else _longer_bake(baked, longer),
    )


def _longer_delta(delta: TextureDelta, log_ratio: np.ndarray) -> TextureDelta:
    return replace(delta, log_ratio=log_ratio)


def _longer_bake(baked: BakedField, longer: Callable[[np.ndarray], np.ndarray]) -> BakedField:
    motion = [step if step.skin is None else replace(step, skin=longer(step.skin)) for step in baked.motion]
    return replace(baked, skin_q0=longer(baked.skin_q0), motion=motion)
