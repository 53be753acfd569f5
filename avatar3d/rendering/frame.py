"""Frame and RenderOptions: what every renderer takes and gives, and the box filter between them; knows no renderer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from avatar3d.choices import FORMS, Form
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.errors import InputError

Precision = Literal["half", "byte"]
PRECISIONS: tuple[Precision, ...] = ("half", "byte")
Detail = Literal["full", "seen"]
DETAILS: tuple[Detail, ...] = ("full", "seen")
SURFACE_NONE, SURFACE_HEAD, SURFACE_HAIR = -1, 0, 1
MAX_SUPERSAMPLE = 8  # 64 samples a pixel; more is only slower
# Samples of one pixel belong to one surface when their depths differ by less than this, metres (a nostril's lip is deeper).
SAME_SURFACE_M = 0.005


@dataclass(frozen=True)
class RenderOptions:
    """How to draw.

    form: "live" evaluates the field for each pixel, "baked" takes it from textures, "mesh" leaves it out; an avatar without
    the asked form is drawn as "mesh". supersample: samples per pixel along each axis, box-filtered in linear premultiplied
    colour. hair: draw the hair. hair_levels: at most so many of its levels, the rest merged into them
    (avatar3d.rendering.lod.hair_levels); None for all. precision: of the realtime renderer's textures, 16-bit floats, or 8-bit
    numbers with all that a hair level shows folded into one texture at the resting head's light; the reference has 32-bit
    floats. antialias: the realtime renderer softens the outline of the head's skin, at every depth, by a strip of one pixel.
    detail: "full" draws every face and texel, "seen" as many as the picture shows (avatar3d.rendering.lod.level). Raises InputError on
    an unknown form, precision or detail, a supersample outside 1..8 or less than one hair level.
    """

    form: Form = "baked"
    supersample: int = 1
    hair: bool = True
    hair_levels: int | None = None
    precision: Precision = "half"
    antialias: bool = False
    detail: Detail = "full"

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InputError(f"unknown form {self.form!r}; expected one of {', '.join(FORMS)}")
        if self.precision not in PRECISIONS:
            raise InputError(f"unknown precision {self.precision!r}; expected one of {', '.join(PRECISIONS)}")
        if self.detail not in DETAILS:
            raise InputError(f"unknown detail {self.detail!r}; expected one of {', '.join(DETAILS)}")
        if not 1 <= self.supersample <= MAX_SUPERSAMPLE:
            raise InputError(f"supersample {self.supersample} is outside 1..{MAX_SUPERSAMPLE}")
        if self.hair_levels is not None and self.hair_levels < 1:
            raise InputError(f"{self.hair_levels} hair levels cannot be drawn; expected at least 1, or hair switched off")


@dataclass(frozen=True)
class Frame:
    """One picture, row 0 at the top.

    Attributes
    ----------
    rgba
        (H, W, 4) f32, linear light, premultiplied by alpha.
    depth
        (H, W) f32, metres along the optical axis of what wrote depth (head and opaque hair), inf where empty.
    surface
        (H, W) i8, SURFACE_NONE, SURFACE_HEAD or SURFACE_HAIR.
    """

    rgba: np.ndarray
    depth: np.ndarray
    surface: np.ndarray

    def to_srgb8(self, background_srgb: tuple[int, int, int] | None = None) -> np.ndarray:
        """(H, W, 3) u8 over a background of 8-bit sRGB, blended in linear light; without one (H, W, 4) u8 of straight alpha."""
        alpha = self.rgba[..., 3:]
        if background_srgb is None:
            straight = self.rgba[..., :3] / np.maximum(alpha, 1e-6)
            picture = np.concatenate([linear_to_srgb(straight), np.clip(alpha, 0, 1)], axis=-1)
        else:
            background = srgb_to_linear(np.asarray(background_srgb, dtype=np.uint8))
            picture = linear_to_srgb(self.rgba[..., :3] + (1 - alpha) * background)
        return to_u8(picture)


def box_filter(frame: Frame, factor: int) -> Frame:
    """Reduce a frame drawn `factor` times too large, along each axis, to its pixels.

    Colour is the mean. Where at least half of the samples wrote depth, depth is the harmonic mean of those within
    SAME_SURFACE_M of the nearest: exact at the pixel's centre on a plane, since 1/depth is linear on the screen.
    """
    if factor == 1:
        return frame
    height, width = frame.depth.shape[0] // factor, frame.depth.shape[1] // factor

    def samples(image: np.ndarray) -> np.ndarray:
        blocks = image.reshape(height, factor, width, factor, *image.shape[2:]).swapaxes(1, 2)
        return blocks.reshape(height, width, factor * factor, *image.shape[2:])

    rgba = samples(frame.rgba).mean(axis=2)
    depth, surface = samples(frame.depth), samples(frame.surface)
    nearest = depth.argmin(axis=2)[..., None]
    near_depth = np.take_along_axis(depth, nearest, 2)
    same = depth <= near_depth + SAME_SURFACE_M
    inverse = np.where(same, 1 / depth, 0).sum(axis=2)
    hit = np.isfinite(depth).sum(axis=2) * 2 >= factor * factor
    with np.errstate(divide="ignore"):
        mean_depth = np.where(hit, same.sum(axis=2) / np.where(hit, inverse, 1), np.inf)
    chosen = np.where(hit, np.take_along_axis(surface, nearest, 2)[..., 0], SURFACE_NONE)
    return Frame(rgba.astype(np.float32), mean_depth.astype(np.float32), chosen.astype(np.int8))
