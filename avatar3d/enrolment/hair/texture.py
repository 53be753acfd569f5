"""The hair's colour and opacity: the photo's own where it is seen, elsewhere strands with the photo's statistics and flow."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import distance_transform_edt

from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.enrolment.hair.flow import hair_flow
from avatar3d.enrolment.hair.grid import blur, cell_centres, enlarge, mirrored
from avatar3d.enrolment.hair.growth import LUMA, MIN_SURE_TEXELS, SEEN_FACING, TONE_OFFSET, HairGrowth, dress, grow
from avatar3d.enrolment.hair.shape import BARE_FACING, HairShape
from avatar3d.enrolment.hair.strands import NOMINAL_RADIUS_M, texel_m, uniform
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.geometry import smoothstep
from avatar3d.rendering.scene import shade_of

COLOR_ROWS, COLOR_COLUMNS = 576, 1024  # about 0.6 mm a texel, the photo's own at the work scale
OPACITY_ROWS, OPACITY_COLUMNS = 432, 768
LEVELS = np.array([0.0, 0.28, 0.50, 0.70, 0.88, 1.08], np.float32)  # an opaque base, five layers of strands
OCCLUSION = np.array([0.80, 0.86, 0.91, 0.96, 1.0, 1.0], np.float32)  # hair inside lies in the shade of the hair around it
# Share of each level that strands fill. It falls evenly: a step between two levels would show as a contour at the outline.
COVER = np.array([1.0, 0.94, 0.78, 0.56, 0.34, 0.13], np.float32)
STRAND_SOFTNESS = 0.45  # of the strands' own range, over which one passes into the gap beside it
MAX_LEVEL_ALPHA = 0.97
SCALP_SHADE = 0.45  # of the hair's albedo: skin seen between its roots
PALE_FROM = 0.2  # linear albedo from which on hair is pale
HUE_RANGE = 0.8  # robust deviations of hue to which the photo's hair is held
HUE_TOLERANCE = 3.0  # robust deviations of hue that still are hair
RAGGED_LONG_M, RAGGED_CROPPED_M = 0.0055, 0.0016  # how unevenly strands end at the hairline
TAPER_LONG_M, TAPER_CROPPED_M = 0.007, 0.005  # over which a strand thins out at its tip
BASE_BEHIND_LONG_M, BASE_BEHIND_CROPPED_M = 0.0045, 0.0036  # the opaque base ends this far inside, where strands hide its cut


@dataclass(frozen=True)
class HairTexture:
    """color: (COLOR_ROWS, COLOR_COLUMNS, 3) u8 sRGB albedo. opacity: (K, OPACITY_ROWS, OPACITY_COLUMNS) u8.

    inside_m: (OPACITY_ROWS, OPACITY_COLUMNS) f32 distance to the hairline, positive under hair. scalp_srgb: (3,) in [0, 1].
    growth: the locks that the colours and opacities show.
    """

    color: np.ndarray
    opacity: np.ndarray
    inside_m: np.ndarray
    scalp_srgb: np.ndarray
    growth: HairGrowth


def build_texture(
    work: WorkPicture,
    seg: Segmentation,
    shape: HairShape,
    normals: np.ndarray,
    surface: np.ndarray,
    light: np.ndarray,
    shading_power: float,
) -> HairTexture:
    """Colour and opacity of the hair.

    normals: (ROWS, COLUMNS, 3) of its surface. surface: (COLOR_ROWS, COLOR_COLUMNS, 3) its points, as drawn.
    light: (9, 3) irradiance, shading_power: see avatar3d.rendering.scene.
    """
    seen = _look_at_photo(work, seg, shape, normals, surface, light, shading_power)
    inside_m = _hairline_distance(seen.coverage)
    growth = grow(hair_flow(work, seg, shape), seen.facing, seen.solid, seen.coverage, seen.shade, inside_m, shape.covered)
    color = dress(np.clip(np.exp(seen.tone) - TONE_OFFSET, 0, 1), growth)
    opacity = _opacity(seen, growth, inside_m, shape)
    under = color[enlarge(inside_m, *color.shape[:2]) > 0.004]
    under = np.log((under if len(under) else color.reshape(-1, 3)) + TONE_OFFSET)
    scalp = SCALP_SHADE * np.clip(np.exp(np.median(under, 0)) - TONE_OFFSET, 0, 1)
    # Between pale hairs the skin itself shows.
    face = srgb_to_linear(np.median(work.rgb[seg.face_mask], 0).astype(np.uint8)) if seg.face_mask.any() else scalp
    pale = np.clip((scalp.mean() / SCALP_SHADE - PALE_FROM) / (1 - PALE_FROM) * 2, 0, 0.9)
    scalp_srgb = linear_to_srgb(scalp * (1 - pale) + face * pale)
    return HairTexture(to_u8(linear_to_srgb(color)), opacity, inside_m, scalp_srgb, growth)


@dataclass(frozen=True)
class _Seen:
    """The photo on the texture's grid."""

    tone: np.ndarray  # (H, W, 3) natural log of linear albedo + TONE_OFFSET
    solid: np.ndarray  # (H, W) in [0, 1], the pixel is hair and nothing else
    facing: np.ndarray  # (H, W)
    coverage: np.ndarray  # (H, W) in [0, 1]
    shade: np.ndarray  # (H, W, 3) by which the light multiplies albedo


def _look_at_photo(
    work: WorkPicture,
    seg: Segmentation,
    shape: HairShape,
    normals: np.ndarray,
    surface: np.ndarray,
    light: np.ndarray,
    power: float,
) -> _Seen:
    size = (COLOR_ROWS, COLOR_COLUMNS)
    pixels, _ = work.camera.project(surface)
    facing = enlarge(shape.facing, *size)
    centre = work.camera.project(shape.centre[None])[0][0]
    # At the outline half a hair's pixel is backdrop: look a little further in.
    inward = 1 - 0.05 * np.clip(1 - facing / 0.6, 0, 1)
    pixels = centre + (pixels - centre) * inward[..., None]
    xs, ys = (np.ascontiguousarray(pixels[..., axis] - 0.5, dtype=np.float32) for axis in (0, 1))
    linear = cv2.remap(srgb_to_linear(work.rgb), xs, ys, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    core = cv2.erode(seg.hair_alpha * np.clip(seg.matte * 1.5 - 0.5, 0, 1), np.ones((3, 3), np.uint8))
    solid = smoothstep(0.65, 0.95, cv2.remap(core, xs, ys, cv2.INTER_LINEAR)) * (facing > 0)
    solid *= smoothstep(0.35, 0.8, blur(solid, 3.0))
    alpha = np.where(facing > 0.12, cv2.remap(seg.hair_alpha, xs, ys, cv2.INTER_LINEAR), 0)
    coarse = enlarge(blur(shape.coverage, 1.2), *size)  # a hairline that was guessed has no corners
    # On a turned head the far temple is seen edge-on: there the shape's mirror image of the near one is better.
    this_side = 1 - smoothstep(0.05, 0.25, mirrored(facing) - facing)
    near = smoothstep(0.25, 0.5, facing) * this_side
    bare = cv2.remap(shape.bare, xs, ys, cv2.INTER_LINEAR) * (facing > BARE_FACING) * this_side
    near *= 1 - enlarge(
        shape.hangs, *size
    )  # where hanging hair ends is the shape's business: the photo may show it over clothes
    coverage = _main_patch((coarse * (1 - near) + alpha * near) * (1 - bare))
    shade = enlarge(shade_of(normals, light, power), *size)
    tone = np.log(linear / shade + TONE_OFFSET)
    tone, hair_hued = hold_hue(tone, solid * smoothstep(*SEEN_FACING, facing))
    return _Seen(tone, solid * hair_hued, facing, coverage.astype(np.float32), shade)


def _main_patch(coverage: np.ndarray) -> np.ndarray:
    """The coverage without patches cut off from the largest one, such as a far temple that looks past the face at hair."""
    hair = (coverage > 0.4).astype(np.uint8)
    double = np.concatenate([hair, hair], 1)  # so that a patch across the back is one
    count, labels, stats, _ = cv2.connectedComponentsWithStats(double)
    if count <= 2:
        return coverage
    main = labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())
    columns = hair.shape[1]
    main = main[:, :columns] | main[:, columns:]
    main = cv2.dilate(main.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    return np.where(main, coverage, 0.0)


def hold_hue(tone: np.ndarray, sure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(tone whose local hue stays within the hair's own range, share in [0, 1] of what is hair by its hue).

    Toward the outline backdrop and rim light tint the hair; further off, skin or backdrop shines through.
    """
    core = sure > 0.5
    if core.sum() < MIN_SURE_TEXELS:
        return tone, np.ones(sure.shape, np.float32)
    hue = cv2.GaussianBlur(np.stack([tone[..., 0] - tone[..., 1], tone[..., 1] - tone[..., 2]], -1), (0, 0), 2.0)
    centre = np.median(hue[core], 0)
    spread = 1.48 * np.median(np.abs(hue[core] - centre), 0) + 0.02
    off = (hue - centre) / spread
    excess = (off - np.clip(off, -HUE_RANGE, HUE_RANGE)) * spread
    held = tone - np.stack([excess[..., 0], np.zeros(sure.shape), -excess[..., 1]], -1)
    share = np.exp(-0.5 * np.clip((off**2).sum(-1) / HUE_TOLERANCE**2 - 1, 0, None)).astype(np.float32)
    return held.astype(np.float32), blur(share, 4.0)


def _hairline_distance(coverage: np.ndarray) -> np.ndarray:
    """(OPACITY_ROWS, OPACITY_COLUMNS) signed distance to the hairline in metres, positive under hair."""
    rows, columns = OPACITY_ROWS, OPACITY_COLUMNS
    pad = columns // 4
    small = cv2.resize(coverage, (columns, rows), interpolation=cv2.INTER_AREA)
    wide = np.concatenate([small[:, -pad:], small, small[:, :pad]], 1)
    hair = wide > 0.5
    spacing = (texel_m(rows), 2 * np.pi * NOMINAL_RADIUS_M * 0.85 / columns)
    signed = distance_transform_edt(hair, sampling=spacing) - distance_transform_edt(~hair, sampling=spacing)
    return cv2.GaussianBlur(signed[:, pad:-pad].astype(np.float32), (0, 0), 0.7)


def _opacity(seen: _Seen, growth: HairGrowth, inside_m: np.ndarray, shape: HairShape) -> np.ndarray:
    """(K, OPACITY_ROWS, OPACITY_COLUMNS) u8."""
    size = (OPACITY_ROWS, OPACITY_COLUMNS)
    long = shape.covered

    def small(values: np.ndarray) -> np.ndarray:
        return cv2.resize(values.astype(np.float32), size[::-1], interpolation=cv2.INTER_AREA)

    reach = small(_height(seen, growth))
    tip = small(growth.strands + 2.0 * (growth.height - 0.5) + 0.5 * growth.lock_tone)
    tip /= tip.std()
    near = small(smoothstep(0.25, 0.5, seen.facing))
    guessed = (RAGGED_LONG_M if long else RAGGED_CROPPED_M) * (1 - near)
    edge = inside_m + guessed * np.clip(tip, -2.2, 2.2)
    taper = TAPER_LONG_M if long else TAPER_CROPPED_M
    # Where the photo shows the hairline its own soft edge holds.
    wanted = (1 - near) * smoothstep(-0.5 * taper, 0.5 * taper, edge) + near * small(seen.coverage)
    _, colatitude = cell_centres(*size)
    crown = 1 - smoothstep(0.05, 0.16, colatitude)  # strands of the texture are wedges there
    behind = BASE_BEHIND_LONG_M if long else BASE_BEHIND_CROPPED_M
    # All levels together let through 1 - wanted: their optical depths are scaled alike.
    full_depth = -np.log1p(-np.minimum(COVER[1:], MAX_LEVEL_ALPHA)).sum()
    thinned = np.clip(-np.log1p(-np.clip(wanted, 0, 0.9995)) / full_depth, 0, 1)
    base_edge = inside_m + 0.35 * guessed * np.clip(tip, -2.2, 2.2)  # as ragged as the strands it would show through them
    levels = [np.clip((base_edge - behind) / 0.0012 + 0.5, 0, 1)]
    for cover in COVER[1:]:
        alpha = np.clip((reach - (1 - cover)) / STRAND_SOFTNESS + 0.5, 0, MAX_LEVEL_ALPHA)
        alpha = alpha * (1 - crown) + min(cover, MAX_LEVEL_ALPHA) * crown
        levels.append(1 - (1 - alpha) ** thinned)
    return np.stack([np.rint(alpha * 255).astype(np.uint8) for alpha in levels])


def _height(seen: _Seen, growth: HairGrowth) -> np.ndarray:
    """(H, W) in [0, 1], how far out the strand of a texel lies: the grown locks', and where the photo shows its own what is
    brighter lies over what is darker."""
    luma = seen.tone @ LUMA
    weight = growth.toned + 1e-4
    relief = blur(luma, 0.7) - blur(luma * weight, 6.0) / np.maximum(blur(weight, 6.0), 1e-6)
    shown = growth.photo > 0.5
    return growth.height + growth.photo * ((uniform(relief, shown) if shown.any() else 0.5) - growth.height)
