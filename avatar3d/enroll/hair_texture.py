"""The hair's colour and opacity: the photo's own where it is seen, elsewhere strands with the photo's statistics and flow."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.ndimage import distance_transform_edt

from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.enroll.crop import WorkPicture
from avatar3d.enroll.hair_grid import Harmonic, blur, cell_centres, enlarge, mirrored, ray_directions
from avatar3d.enroll.hair_shape import BARE_FACING, COLUMNS, ROWS, HairShape, look_up
from avatar3d.enroll.hair_strands import NOMINAL_RADIUS_M, flow_step, grain, smear, texel_m, uniform
from avatar3d.enroll.segment import Segmentation
from avatar3d.geometry import smoothstep
from avatar3d.render.scene import shade_of

COLOR_ROWS, COLOR_COLUMNS = 576, 1024  # about 0.6 mm a texel, the photo's own at the work scale
OPACITY_ROWS, OPACITY_COLUMNS = 432, 768
LEVELS = np.array([0.0, 0.28, 0.50, 0.70, 0.88, 1.08], np.float32)  # an opaque base, five layers of strands
OCCLUSION = np.array([0.80, 0.86, 0.91, 0.96, 1.0, 1.0], np.float32)  # hair inside lies in the shade of the hair around it
# Share of each level that strands fill. It falls evenly: a step between two levels would show as a contour at the outline.
COVER = np.array([1.0, 0.94, 0.78, 0.56, 0.34, 0.13], np.float32)
STRAND_SOFTNESS = 0.55  # of the strands' own range, over which one passes into the gap beside it
MAX_LEVEL_ALPHA = 0.97
BANDS_TEXELS = (0.9, 1.8, 3.6, 7.2, 14.4, 28.8)  # blurs between which the detail's bands lie; above the last is the base tone
FINE_FACING, COARSE_FACING = (0.45, 0.70), (0.30, 0.56)  # cosine to the photo's camera over which a band comes from the photo
TONE_OFFSET = 0.02  # linear; tones are log(albedo + offset), so that the noise of deep shadow does not pass for contrast
SCALP_SHADE = 0.45  # of the hair's albedo: skin seen between its roots
PALE_FROM = 0.2  # linear albedo from which on hair is pale
MIN_STRAND_M, MAX_STRAND_M = 0.003, 0.045
STRAND_PER_COHERENCE_M = 0.16  # cropped curls measure 0.35 and long straight hair 0.6 on the scale of the structure tensor,
NOISE_COHERENCE = 0.33  # where noise measures this
NARROW_SHARE = 0.6  # the same where only a rim of hair is seen, whose contrast is mostly rim light
HUE_RANGE = 0.8  # robust deviations of hue to which the photo's hair is held
HUE_TOLERANCE = 3.0  # robust deviations of hue that still are hair
SHARES = np.linspace(0.005, 0.995, 65)  # at which distributions are matched
USUAL_DEVIATION = 0.05  # of a band's tone where the photo shows too little hair to measure it
MIN_SURE_TEXELS = 1500  # of well seen hair; statistics of fewer mean nothing
COARSE_SHARE = 0.6  # of the photo's coarse contrast is kept where it is made up: part of it is the cut and parting seen there
# Hair that no photo shows gets what any head has: a sheen about the crown, shade at its lower edge, broad uneven tones.
SHEEN_TONE, SHEEN_AT_RAD, SHEEN_WIDTH_RAD = 0.22, 0.80, 0.30
HEM_TONE_LONG, HEM_TONE_CROPPED, HEM_REACH_M = -0.40, -0.12, 0.018
BROAD_SHARE, MAX_BROAD_TONE = 0.55, 0.22
RAGGED_LONG_M, RAGGED_CROPPED_M = 0.0055, 0.0016  # how unevenly strands end at the hairline
TAPER_LONG_M, TAPER_CROPPED_M = 0.007, 0.005  # over which a strand thins out at its tip
BASE_BEHIND_LONG_M, BASE_BEHIND_CROPPED_M = 0.0045, 0.0036  # the opaque base ends this far inside, where strands hide its cut
WHORL_RAD, WHORL_REACH_RAD = 0.85, 0.55  # hair turns out of the meridians at the crown, and how far from it it still does


@dataclass(frozen=True)
class HairTexture:
    """color: (COLOR_ROWS, COLOR_COLUMNS, 3) u8 sRGB albedo. opacity: (K, OPACITY_ROWS, OPACITY_COLUMNS) u8.

    inside_m: (OPACITY_ROWS, OPACITY_COLUMNS) f32 distance to the hairline, positive under hair. scalp_srgb: (3,) in [0, 1].
    """

    color: np.ndarray
    opacity: np.ndarray
    inside_m: np.ndarray
    scalp_srgb: np.ndarray


def build_texture(
    work: WorkPicture, seg: Segmentation, shape: HairShape, normals: np.ndarray, light: np.ndarray, shading_power: float
) -> HairTexture:
    """Colour and opacity of the hair.

    normals: (ROWS, COLUMNS, 3) of its surface. light: (9, 3) irradiance, shading_power: see avatar3d.render.scene.
    """
    seen = _look_at_photo(work, seg, shape, normals, light, shading_power)
    angle, strand_m = _flow(work, seg, shape)
    inside_m = _hairline_distance(seen.coverage)
    strands = _Strands(angle, strand_m)
    color, base = _paint(seen, strands, inside_m, shape.covered)
    opacity = _opacity(seen, strands, inside_m, shape)
    under = enlarge(inside_m, *base.shape[:2]) > 0.004
    scalp = SCALP_SHADE * np.clip(np.exp(np.median(base[under] if under.any() else base.reshape(-1, 3), 0)) - TONE_OFFSET, 0, 1)
    # Between pale hairs the skin itself shows.
    face = srgb_to_linear(np.median(work.rgb[seg.face_mask], 0).astype(np.uint8)) if seg.face_mask.any() else scalp
    pale = np.clip((scalp.mean() / SCALP_SHADE - PALE_FROM) / (1 - PALE_FROM) * 2, 0, 0.9)
    return HairTexture(to_u8(linear_to_srgb(color)), opacity, inside_m, linear_to_srgb(scalp * (1 - pale) + face * pale))


@dataclass(frozen=True)
class _Seen:
    """The photo on the texture's grid."""

    tone: np.ndarray  # (H, W, 3) natural log of linear albedo + TONE_OFFSET
    solid: np.ndarray  # (H, W) in [0, 1], the pixel is hair and nothing else
    facing: np.ndarray  # (H, W)
    coverage: np.ndarray  # (H, W) in [0, 1]

    def weight(self, facing: tuple[float, float]) -> np.ndarray:
        return smoothstep(*facing, self.facing) * self.solid


def _look_at_photo(
    work: WorkPicture, seg: Segmentation, shape: HairShape, normals: np.ndarray, light: np.ndarray, power: float
) -> _Seen:
    size = (COLOR_ROWS, COLOR_COLUMNS)
    radius = enlarge(shape.radius, *size)
    directions = ray_directions(*cell_centres(*size))
    pixels, _ = work.camera.project(shape.centre + directions * radius[..., None])
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
    near *= 1 - enlarge(shape.hangs, *size)  # where hanging hair ends is the shape's business: the photo may show it over clothes
    coverage = _main_patch((coarse * (1 - near) + alpha * near) * (1 - bare))
    shade = enlarge(shade_of(normals, light, power), *size)
    tone = np.log(linear / shade + TONE_OFFSET)
    tone, hair_hued = hold_hue(tone, solid * smoothstep(*FINE_FACING, facing))
    return _Seen(tone, solid * hair_hued, facing, coverage.astype(np.float32))


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


def _flow(work: WorkPicture, seg: Segmentation, shape: HairShape) -> tuple[np.ndarray, float]:
    """((COLOR_ROWS, COLOR_COLUMNS) angle of the hair from the meridian, length of its strands, metres).

    Orientation from the photo's structure tensor (Bigün and Granlund 1987), laid onto the surface and spread harmonically
    in the double angle, as a strand has no sign; unseen hair falls along the meridians.
    """
    grey = cv2.GaussianBlur(cv2.cvtColor(work.rgb, cv2.COLOR_RGB2GRAY).astype(np.float32), (0, 0), 0.8)
    dx, dy = cv2.Scharr(grey, cv2.CV_32F, 1, 0), cv2.Scharr(grey, cv2.CV_32F, 0, 1)
    xx, yy, xy = (cv2.GaussianBlur(a, (0, 0), 3.5) for a in (dx * dx, dy * dy, dx * dy))
    strength = np.hypot(xx - yy, 2 * xy)
    coherence = strength / np.maximum(xx + yy, 1e-6)
    # The tensor's main axis crosses the strands; its double angle turned by π runs along them.
    double_cos, double_sin = -(xx - yy) / np.maximum(strength, 1e-6), -2 * xy / np.maximum(strength, 1e-6)

    radius = shape.radius
    pixels, _ = work.camera.project(shape.points(radius))
    along = np.gradient(pixels, axis=0)
    around = (np.roll(pixels, -1, 1) - np.roll(pixels, 1, 1)) / 2
    _, colatitude = cell_centres(ROWS, COLUMNS)
    along /= (radius * np.radians(158.0) / ROWS)[..., None]
    around /= (radius * np.maximum(np.sin(colatitude), 0.05) * 2 * np.pi / COLUMNS)[..., None]
    image_angle = 0.5 * np.arctan2(look_up(double_sin, pixels), look_up(double_cos, pixels))
    ox, oy = np.cos(image_angle), np.sin(image_angle)
    # Cramer's rule for [around along] t = o.
    t_around = ox * along[..., 1] - oy * along[..., 0]
    t_along = around[..., 0] * oy - around[..., 1] * ox
    angle = np.arctan2(t_around, t_along)
    core = cv2.erode(seg.hair_mask.astype(np.float32), np.ones((9, 9), np.uint8))
    trust = look_up(coherence, pixels) ** 2 * look_up(core, pixels) * smoothstep(0.35, 0.65, shape.facing)
    harmonic = Harmonic(ROWS, COLUMNS)
    whorl = WHORL_RAD * np.exp(-((colatitude / WHORL_REACH_RAD) ** 2))
    cos2 = harmonic.fill(np.cos(2 * angle), trust, 0.006, np.cos(2 * whorl))
    sin2 = harmonic.fill(np.sin(2 * angle), trust, 0.006, np.sin(2 * whorl))
    inner = core > 0.5
    mean_coherence = float(np.average(coherence[inner])) if inner.any() else 0.4
    strand = float(np.clip(STRAND_PER_COHERENCE_M * (mean_coherence - NOISE_COHERENCE), MIN_STRAND_M, MAX_STRAND_M))
    size = (COLOR_ROWS, COLOR_COLUMNS)
    return 0.5 * np.arctan2(enlarge(sin2, *size), enlarge(cos2, *size)), strand


class _Strands:
    """Strand fields of unit variance on the colour texture's grid, from single hairs to locks."""

    def __init__(self, angle: np.ndarray, strand_m: float) -> None:
        rows, columns = angle.shape
        wander = 0.06 * grain(rows, columns, 0.012, 11) + 0.16 * grain(rows, columns, 0.045, 12)
        step = flow_step(angle + np.clip(wander, -0.5, 0.5))
        base = np.log2(strand_m / texel_m(rows))

        def field(size_m: float, longer: float, seed: int) -> np.ndarray:
            return smear(grain(rows, columns, size_m, seed), step, max(1, round(base + longer)))

        self.hair = field(0.0007, 0.0, 1)
        self.strand = field(0.0016, 0.6, 2)
        self.lock = field(0.0036, 1.0, 3)
        self.clump = field(0.0085, 1.3, 4)
        self.wave = field(0.02, 1.0, 5)
        self.broad = field(0.045, 0.5, 6)
        self.strand_m = strand_m

    def mixed(self) -> np.ndarray:
        """All of them, finer ones stronger inside some locks than in others."""
        fine = self.hair * np.exp(0.35 * self.lock) + self.strand * np.exp(0.3 * self.clump)
        return (fine + self.lock + self.clump + self.wave).astype(np.float32)


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


def _bands(values: np.ndarray, weight: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """(detail bands from fine to coarse, base) of a map by blurs normalised over `weight`."""
    previous, bands = values, []
    for sigma in BANDS_TEXELS:
        norm = np.maximum(blur(weight, sigma), 1e-4)
        now = blur(values * (weight if values.ndim == 2 else weight[..., None]), sigma)
        now = now / (norm if values.ndim == 2 else norm[..., None])
        bands.append(previous - now)
        previous = now
    return bands, previous


def _paint(seen: _Seen, strands: _Strands, inside_m: np.ndarray, covered: bool) -> tuple[np.ndarray, np.ndarray]:
    """((H, W, 3) linear albedo, (H, W, 3) its base tone in log)."""
    size = (COLOR_ROWS, COLOR_COLUMNS)
    coarse_weight = seen.weight(COARSE_FACING)
    luma = seen.tone @ np.array([0.25, 0.6, 0.15], np.float32)
    photo_bands, photo_base = _bands(luma, coarse_weight)
    sure = seen.weight(FINE_FACING)
    narrow = (sure > 0.5).sum() < MIN_SURE_TEXELS
    if narrow:
        sure = coarse_weight
    base = _base_tone(seen.tone, coarse_weight, sure)
    detail = luma - photo_base
    good = sure > 0.5
    measured = good.sum() >= MIN_SURE_TEXELS
    slope = np.ones(3)
    if measured:
        # How much more one channel swings than another: highlights are paler than the hair's own colour.
        swing = np.stack([_weighted_blur(seen.tone[..., c], coarse_weight, BANDS_TEXELS[-1]) for c in range(3)], -1)
        slope = ((seen.tone - swing)[good] * detail[good, None]).sum(0) / max(float((detail[good] ** 2).sum()), 1e-6)
        quantiles = np.quantile(detail[good] / max(float(detail[good].std()), 1e-4), SHARES)

    noise_bands, _ = _bands(strands.mixed(), np.ones(size, np.float32))
    total = np.zeros(size, np.float32)
    spread = np.zeros(size, np.float32)
    shares = np.interp(BANDS_TEXELS, (3.6, 14.4), (1.0, COARSE_SHARE)) * (NARROW_SHARE if narrow else 1.0)
    for band, noise, kept in zip(photo_bands, noise_bands, shares, strict=True):
        deviation = (_local_deviation(band, sure) if measured else np.float32(USUAL_DEVIATION)) * kept
        total += noise / noise.std() * deviation
        spread += deviation**2
    spread = np.sqrt(spread)
    made = total
    if measured:
        # Neighbouring bands are correlated, in the photo as in the noise: match the sum's distribution, not its parts'.
        normal = np.quantile((total / spread)[::4, ::4], SHARES)
        joint = float(detail[good].std()) / float(np.sqrt(sum(np.square(band[good]).mean() for band in photo_bands)))
        made = np.interp(total / spread, normal, quantiles).astype(np.float32) * spread * joint
    made_bands, made_base = _bands(made, np.ones(size, np.float32))

    made_base += _usual_tone(strands, inside_m, covered, float(photo_base[good].std()) if measured else 2 * USUAL_DEVIATION)
    result = np.zeros((*size, 3), np.float32)
    fine_to_coarse = np.linspace(0, 1, len(BANDS_TEXELS))
    color_bands = [_bands(np.ascontiguousarray(seen.tone[..., c]), coarse_weight)[0] for c in range(3)]
    for index, share in enumerate(fine_to_coarse):
        facing = tuple(f * (1 - share) + c * share for f, c in zip(FINE_FACING, COARSE_FACING, strict=True))
        weight = seen.weight(facing)
        rest = np.sqrt(np.maximum(1 - weight**2, 0))
        for c in range(3):
            result[..., c] += weight * color_bands[c][index] + rest * slope[c] * made_bands[index]
    for c in range(3):
        result[..., c] += base[..., c] + (1 - coarse_weight) * slope[c] * made_base
    return np.clip(np.exp(result) - TONE_OFFSET, 0.0, 1.0), base


def _usual_tone(strands: _Strands, inside_m: np.ndarray, covered: bool, photo_deviation: float) -> np.ndarray:
    """(H, W) tone added where the photo shows nothing."""
    size = (COLOR_ROWS, COLOR_COLUMNS)
    _, colatitude = cell_centres(*size)
    sheen = np.exp(-(((colatitude + 0.05 * strands.broad - SHEEN_AT_RAD) / SHEEN_WIDTH_RAD) ** 2))
    sheen *= 0.8 + 0.25 * strands.clump
    hem = np.exp(-np.clip(enlarge(inside_m, *size), 0, None) / HEM_REACH_M)
    broad = min(BROAD_SHARE * photo_deviation, MAX_BROAD_TONE) * np.clip(strands.broad, -2, 2)
    shown = np.cumsum(COVER[::-1] * np.cumprod(np.r_[1.0, 1 - COVER[:0:-1]]) * OCCLUSION[::-1])[-1]
    return SHEEN_TONE * sheen + (HEM_TONE_LONG if covered else HEM_TONE_CROPPED) * hem + broad - np.float32(np.log(shown))


def _weighted_blur(values: np.ndarray, weight: np.ndarray, sigma: float) -> np.ndarray:
    return blur(values * weight, sigma) / np.maximum(blur(weight, sigma), 1e-4)


def _local_deviation(band: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """(H, W) standard deviation of a band about where it is seen, its mean elsewhere."""
    power = np.clip(band, -0.8, 0.8) ** 2
    overall = float((power * sure).sum() / sure.sum())
    small = (band.shape[1] // 8, band.shape[0] // 8)
    energy = cv2.resize(power * sure, small, interpolation=cv2.INTER_AREA)
    weight = cv2.resize(sure, small, interpolation=cv2.INTER_AREA)
    return np.sqrt(enlarge((blur(energy, 5) + 0.15 * overall) / (blur(weight, 5) + 0.15), *band.shape))


def _base_tone(tone: np.ndarray, weight: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """(H, W, 3) tone without detail: the photo's where `weight`, else spread from it over a profile by colatitude.

    `sure` picks what the profile is taken from: toward the outline the photo's hair is mixed with backdrop and rim light.
    """
    size = tone.shape[:2]

    def small(values: np.ndarray) -> np.ndarray:
        return cv2.resize(values, (COLUMNS, ROWS), interpolation=cv2.INTER_AREA)

    grid_weight = small(weight)
    value = small(tone * weight[..., None]) / np.maximum(grid_weight, 1e-3)[..., None]
    anchor = small(sure) + 0.1 * grid_weight + 1e-9
    mean = np.average(value.reshape(-1, 3), axis=0, weights=anchor.ravel())
    deviation = np.sqrt(np.average((value.reshape(-1, 3) - mean) ** 2, axis=0, weights=anchor.ravel())) + 0.05
    unusual = (((value - mean) / deviation) ** 2).mean(-1)
    trust = grid_weight * np.exp(-0.5 * np.clip(unusual - 1, 0, None))
    usable = np.where(grid_weight > 0.15, trust, 0)
    other = mirrored(usable) * 0.25 * (grid_weight < 0.1)
    total = usable + other
    row_weight = (anchor * trust).sum(1)
    harmonic = Harmonic(ROWS, COLUMNS)
    result = np.empty_like(tone)
    for c in range(3):
        profile = ((value[..., c] * anchor * trust).sum(1) + 3.0 * mean[c]) / (row_weight + 3.0)
        profile = cv2.GaussianBlur(profile.astype(np.float32)[:, None], (0, 0), 2.5)
        prior = np.repeat(profile, COLUMNS, 1)
        mixed = (usable * value[..., c] + other * mirrored(value[..., c])) / np.maximum(total, 1e-6)
        filled = enlarge(harmonic.fill(mixed, total * 2.0, 0.008, prior), *size)
        photo = _weighted_blur(tone[..., c], weight, BANDS_TEXELS[-1])
        result[..., c] = filled * (1 - weight) + photo * weight
    return result


def _opacity(seen: _Seen, strands: _Strands, inside_m: np.ndarray, shape: HairShape) -> np.ndarray:
    """(K, OPACITY_ROWS, OPACITY_COLUMNS) u8."""
    size = (OPACITY_ROWS, OPACITY_COLUMNS)
    long = shape.covered

    def small(values: np.ndarray) -> np.ndarray:
        return cv2.resize(values.astype(np.float32), size[::-1], interpolation=cv2.INTER_AREA)

    reach = uniform(small(strands.hair + 0.8 * strands.strand + 0.2 * strands.lock))
    tip = small(strands.strand + 0.8 * strands.lock + 0.4 * strands.clump)
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
