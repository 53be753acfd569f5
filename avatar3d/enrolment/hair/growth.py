"""Hair grown where no photo shows it: locks laid over the head once, and the colours they take from the hair that is seen."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.enrolment.hair.flow import HairFlow
from avatar3d.enrolment.hair.grid import Harmonic, blur, cell_centres, enlarge
from avatar3d.enrolment.hair.locks import LockMap, paint, trace
from avatar3d.enrolment.hair.shape import COLUMNS, ROWS
from avatar3d.enrolment.hair.strands import along, flow_step, grain, smear, texel_m, uniform
from avatar3d.geometry import smoothstep

TONE_OFFSET = 0.02  # linear; tones are log(albedo + offset), so that the noise of deep shadow does not pass for contrast
LUMA = np.array([0.25, 0.6, 0.15], np.float32)  # weights of a tone's channels
LOCK_POINTS = 13  # of a path
LOCK_PER_STRAND, MIN_LOCK_M, MAX_LOCK_M = 1.6, 0.007, 0.090  # length of a lock over that of the photo's strands
LOCK_HALF_M, LOCK_HALF_SHARE, LOCK_SPREAD = 0.0011, 0.028, 0.35  # half width: at no length, by length; spread of its logarithm
MIN_LOCKS, MAX_LOCKS = 400, 16000  # of a kind
COMB_M, SOFT_M, END_SHARE = 0.0009, 0.0012, 0.5  # see hair_locks.paint
CROSSING_RAD = 0.10  # standard deviation of a lock's direction about the flow
BEND_RAD = 0.25  # standard deviation of a lock's turn over its length
RISE = 0.25  # of the range of heights, from a lock's root to its tip
PURE_INSIDE_M, HAIRLINE_TEXELS = 0.006, 31  # from the hairline to where hair is pure; across it no lock is continued
SOURCES, MIN_SOURCES = 1500, 40  # places tried where the photo shows hair, kept at least
# Cosine to the photo's camera over which single strands come from the photo (further off they are drawn out into smears), and the
# tone beneath them.
SEEN_FACING, TONED_FACING = (0.42, 0.66), (0.25, 0.48)
# What is broader than a few strands comes from the photo further still: drawn out three times it is no streak, and single strands
# that were made lie over it.
BROAD_FACING, BROAD_TEXELS = (0.14, 0.32), 3.6
# Length of the photo's strands from which on hair begins to be straight: curls and stubble are no streaks
STRAIGHT_M = (0.004, 0.030)
BANDS_TEXELS = (0.9, 1.8, 3.6, 7.2, 14.4, 28.8)  # blurs between which the strands' bands lie; above the last is the tone
BAND_GAIN = (0.6, 1.8)  # by which a band of made strands may be changed
JOIN_DOUBLINGS = 3  # 2^n texel steps over which made strands are drawn out
MIN_SURE_TEXELS = 1500  # of well seen hair; statistics of fewer mean nothing
USUAL_DEVIATION = 0.16  # of strands' tone where the photo shows too little hair to measure it
TONE_SCREEN = 0.012  # of the harmonic fill: the photo's tone fades into the usual one over some 9 cells
LIT_SHARE, MIN_SHADE = 0.8, 0.05  # of the light's unevenness that unseen hair does not show
SHEEN_TONE, SHEEN_AT_RAD, SHEEN_WIDTH_RAD = 0.12, 0.80, 0.30  # what any head's hair has: a sheen about the crown,
HEM_TONE_LONG, HEM_TONE_CROPPED, HEM_REACH_M = -0.30, -0.10, 0.018  # shade at its lower edge,
BROAD_SHARE = 0.5  # and, as share of the strands' contrast, uneven tones from lock to lock


@dataclass(frozen=True)
class _Kind:
    """Locks of one size. width: half width over the usual one. layers: how many lie over each other. lowest, highest: of roots.

    pace: length in the photo over length here; the finer, the more evenly coloured from root to tip.
    """

    width: float
    layers: float
    lowest: float
    highest: float
    pace: float


KINDS = (_Kind(2.4, 2.5, 0.0, 0.5, 0.40), _Kind(1.0, 1.6, 0.2, 0.8, 0.25), _Kind(0.3, 1.6, 0.4, 1.0, 0.08))

CONTINUING_WIDTH, CONTINUING_LENGTH, CONTINUING_LAYERS = 0.7, 1.5, 3.0  # over the usual lock's; layers along the border


@dataclass(frozen=True)
class HairGrowth:
    """What was grown, on the colour texture's grid (H, W).

    seen, broad, toned: f32 in [0, 1], share of strands, of what is broader than them, and of tone that come from the photo. photo:
    f32 in [0, 1], seen in the shapes of whole locks. height: f32 in [0, 1], evenly spread. source: (2, H, W, 2) f32 texels (x, y)
    whose strands the two upper locks show; share: f32 in [0, 1] of the first. lock_tone, strands: f32 of about unit variance,
    uneven tones from lock to lock and single hairs. shade: (H, W, 3) f32 logarithm of the light. covered: bool, hair. step: (H, W,
    2) f32 texels along the flow. hem: f32 in [0, 1], near the lower edge. long: hair hides the ears. join: doublings of a texel by
    which strands are drawn out.
    """

    seen: np.ndarray
    broad: np.ndarray
    toned: np.ndarray
    photo: np.ndarray
    height: np.ndarray
    source: np.ndarray
    share: np.ndarray
    lock_tone: np.ndarray
    strands: np.ndarray
    shade: np.ndarray
    covered: np.ndarray
    step: np.ndarray
    hem: np.ndarray
    long: bool
    join: int


def grow(
    flow: HairFlow,
    facing: np.ndarray,
    solid: np.ndarray,
    coverage: np.ndarray,
    shade: np.ndarray,
    inside_m: np.ndarray,
    long: bool,
) -> HairGrowth:
    """Locks over the whole head.

    facing (cosine to the photo's camera), solid (pure hair), coverage: (H, W); shade: (H, W, 3) by which the light multiplies
    albedo. inside_m: (h, w) distance from the hairline. long: hair hides the ears.
    """
    size = (rows, columns) = facing.shape
    seen = smoothstep(*SEEN_FACING, facing) * solid
    rng = np.random.default_rng(7)
    length = float(np.clip(LOCK_PER_STRAND * flow.strand_m, MIN_LOCK_M, MAX_LOCK_M))
    # At the hairline skin shines through.
    inner = seen * (enlarge(inside_m, *size) > PURE_INSIDE_M)
    locks, paths, tone = _locks(flow, coverage, inner, length, rng)

    middle = paths[:, LOCK_POINTS // 2]
    at = np.clip(middle[:, 1].astype(int), 0, rows - 1), middle[:, 0].astype(int) % columns
    of_lock = np.where(locks.lock[0] >= 0, seen[at][locks.lock[0]], 0)
    photo = smoothstep(0.40, 0.60, 0.5 * seen + 0.5 * of_lock)
    photo = np.maximum(photo, smoothstep(0.8, 0.95, seen)) * smoothstep(0.0, 0.2, seen)

    angle = 0.5 * np.arctan2(enlarge(flow.sin2, *size), enlarge(flow.cos2, *size))
    step = flow_step(angle)

    def field(size_m: float, longer: float, seed: int) -> np.ndarray:
        doublings = max(1, round(np.log2(flow.strand_m / texel_m(rows)) + longer))
        return smear(grain(rows, columns, size_m, seed), step, doublings)

    of_lock = np.where(locks.lock >= 0, tone[locks.lock], 0)
    of_lock = locks.share * of_lock[0] + (1 - locks.share) * of_lock[1]
    hem = np.exp(-np.clip(enlarge(inside_m, *size), 0, None) / HEM_REACH_M)
    return HairGrowth(
        seen=seen.astype(np.float32),
        broad=(smoothstep(*BROAD_FACING, facing) * solid).astype(np.float32),
        toned=(smoothstep(*TONED_FACING, facing) * solid).astype(np.float32),
        photo=photo.astype(np.float32),
        height=uniform(locks.height[0], coverage > 0.3),
        source=locks.source,
        share=locks.share,
        lock_tone=(0.35 * of_lock + 0.7 * field(0.012, 1.0, 4) + 0.7 * field(0.03, 0.7, 5)).astype(np.float32),
        strands=field(0.0007, 0.0, 1),
        shade=np.log(np.maximum(shade, MIN_SHADE)).astype(np.float32),
        covered=coverage > 0.6,
        step=step,
        hem=hem.astype(np.float32),
        long=long,
        join=round(JOIN_DOUBLINGS * _straight(flow)),
    )


def _locks(
    flow: HairFlow, coverage: np.ndarray, seen: np.ndarray, length: float, rng: np.random.Generator
) -> tuple[LockMap, np.ndarray, np.ndarray]:
    """(map, paths (N, LOCK_POINTS, 2), tones (N,)) of locks of a length in metres: wide ones beneath, narrow ones over them."""
    rows, columns = coverage.shape
    area = enlarge(flow.column_m * flow.row_m, rows, columns) * (ROWS * COLUMNS / (rows * columns))
    cumulative = np.cumsum((area * (blur(coverage, 6.0) > 0.01)).ravel().astype(np.float64))
    straight = _straight(flow)
    pool = _sources(flow, seen > 0.5, length, rng)
    kinds = []
    for kind in KINDS:
        half = kind.width * (LOCK_HALF_M + LOCK_HALF_SHARE * length)
        count = int(np.clip(kind.layers * cumulative[-1] / (1.5 * half * length), MIN_LOCKS, MAX_LOCKS))
        pick = np.searchsorted(cumulative, (np.arange(count) + rng.random(count)) / count * cumulative[-1])
        pick = np.minimum(pick, rows * columns - 1)
        starts = np.stack([pick % columns + rng.random(count), pick // columns + rng.random(count)], 1)
        turn, bend = CROSSING_RAD * rng.standard_normal(count), BEND_RAD * rng.standard_normal(count) / length
        paths = _centred(flow, rows, columns, starts, turn, bend, length)
        width = half * np.exp(LOCK_SPREAD * rng.standard_normal(count))
        height = kind.lowest + (kind.highest - kind.lowest) * rng.random(count)
        mirror = np.where(rng.random(count) < 0.5, -1.0, 1.0)[:, None].repeat(LOCK_POINTS - 1, 1)
        kinds.append(
            (paths, width, height, _at_pace(pool[rng.integers(0, len(pool), count)], 1 - straight * (1 - kind.pace)), mirror)
        )
    kinds.append(_continuing(flow, seen, coverage, length, rng))
    paths, width, height, sources, mirror = (np.concatenate(part) for part in zip(*kinds, strict=True))
    locks = LockMap.empty(rows, columns)
    paint(paths, sources, mirror, width, height, np.full(len(paths), RISE), flow.column_m, flow.row_m, rows, columns,
          COMB_M, SOFT_M, END_SHARE, locks.height, locks.source, locks.lock, locks.share)  # fmt: skip
    return locks, paths, rng.standard_normal(len(paths)).astype(np.float32)


def _straight(flow: HairFlow) -> float:
    """0 for curls and stubble, 1 for hair whose strands run straight."""
    return float(smoothstep(*STRAIGHT_M, np.array(flow.strand_m)))


def _continuing(
    flow: HairFlow, seen: np.ndarray, coverage: np.ndarray, length: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(paths, half widths, heights, sources, mirror) of locks that lie across the border of the seen hair: on their seen half they
    show themselves, beyond it the same mirrored, so that the photo's streaks run on."""
    rows, columns = seen.shape
    inside = (seen > 0.5).astype(np.uint8)
    amid = cv2.erode((coverage > 0.8).astype(np.uint8), np.ones((HAIRLINE_TEXELS, HAIRLINE_TEXELS), np.uint8)) > 0
    border = np.argwhere((cv2.dilate(inside, np.ones((3, 3), np.uint8)) > inside) & amid)
    half = CONTINUING_WIDTH * (LOCK_HALF_M + LOCK_HALF_SHARE * length)
    count = min(int(CONTINUING_LAYERS * len(border) * texel_m(rows) / (2 * half)), MAX_LOCKS)
    middles = border[rng.integers(0, max(len(border), 1), count), ::-1] + rng.random((count, 2))
    still = np.zeros(count)
    paths = _centred(flow, rows, columns, middles, still, still, CONTINUING_LENGTH * length)
    seen_at = seen[np.clip(paths[..., 1].astype(int), 0, rows - 1), paths[..., 0].astype(int) % columns]
    middle = LOCK_POINTS // 2
    first, last = seen_at[:, :middle].mean(1), seen_at[:, middle + 1 :].mean(1)
    crossing = np.abs(first - last) > 0.4
    paths, from_first = paths[crossing], (first > last)[crossing, None]
    index, steps = np.arange(LOCK_POINTS), np.arange(LOCK_POINTS - 1)
    mirrored = np.where(from_first, index > middle, index < middle)
    sources = np.where(mirrored[..., None], paths[:, ::-1], paths)
    mirror = np.where(np.where(from_first, steps >= middle, steps < middle), -1.0, 1.0)
    width = half * np.exp(LOCK_SPREAD * rng.standard_normal(len(paths)))
    return paths, width, 0.6 + 0.4 * rng.random(len(paths)), sources, mirror


def _at_pace(paths: np.ndarray, pace: float) -> np.ndarray:
    """(N, M, 2) paths of which only a share about the middle is run, in as many steps."""
    middle = (LOCK_POINTS - 1) / 2
    index = middle + (np.arange(LOCK_POINTS) - middle) * pace
    low = np.minimum(index.astype(int), LOCK_POINTS - 2)
    part = (index - low)[:, None].astype(np.float32)
    return paths[:, low] * (1 - part) + paths[:, low + 1] * part


def _centred(
    flow: HairFlow, rows: int, columns: int, middles: np.ndarray, turn: np.ndarray, bend: np.ndarray, length: float
) -> np.ndarray:
    """(N, LOCK_POINTS, 2) paths along the flow of a length in metres about their middles (N, 2)."""
    maps, steps = (flow.cos2, flow.sin2, flow.column_m, flow.row_m, rows, columns), LOCK_POINTS // 2 + 1
    step_m = length / (LOCK_POINTS - 1)
    forward, backward = (trace(*maps, middles, turn, bend, step_m, steps, way) for way in (1.0, -1.0))
    return np.concatenate([backward[:, :0:-1], forward], 1)


def _sources(flow: HairFlow, sure: np.ndarray, length: float, rng: np.random.Generator) -> np.ndarray:
    """(K, LOCK_POINTS, 2) paths of a length in metres through well seen hair; one that leaves it turns back there."""
    rows, columns = sure.shape
    places = np.argwhere(sure if sure.any() else np.ones_like(sure))
    chosen = places[rng.integers(0, len(places), SOURCES)][:, ::-1] + rng.random((SOURCES, 2))
    inner = cv2.erode(sure.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    still = np.zeros(SOURCES)
    paths = _centred(flow, rows, columns, chosen, still, still, length)
    x, y = paths[..., 0].astype(int) % columns, np.clip(paths[..., 1].astype(int), 0, rows - 1)
    first, end = _longest_run(inner[y, x])
    order = np.argsort(first - end, kind="stable")
    keep = order[: max(MIN_SOURCES, int((end - first > LOCK_POINTS // 2).sum()))]
    first, count = first[keep, None], np.maximum(end - first, 2)[keep, None]
    phase = (np.arange(LOCK_POINTS) - first) % (2 * count - 2)
    index = np.clip(first + np.minimum(phase, 2 * count - 2 - phase), 0, LOCK_POINTS - 1)
    return np.take_along_axis(paths[keep], index[..., None], 1)


def _longest_run(inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and end, (N,) each, of the longest run of True in each row of (N, M)."""
    first, end, start = (np.zeros(len(inside), int) for _ in range(3))
    for i in range(inside.shape[1]):
        start = np.where(inside[:, i], start, i + 1)
        longer = i + 1 - start > end - first
        first, end = np.where(longer, start, first), np.where(longer, i + 1, end)
    return first, end


def dress(color: np.ndarray, growth: HairGrowth) -> np.ndarray:
    """(H, W, 3) linear albedo from one that is right where the photo shows hair: its strands on all the other locks, its tone
    carried on."""
    tone = np.log(color + TONE_OFFSET).astype(np.float32)
    seen_tone = _weighted_blur(tone, growth.toned + 1e-5, BANDS_TEXELS[-1])
    detail = tone - seen_tone
    sure = growth.seen > 0.5
    luma = detail @ LUMA
    slope = np.ones(3, np.float32)
    if sure.sum() >= MIN_SURE_TEXELS:
        # How much more one channel swings than another: highlights are paler than the hair's own colour.
        slope = (detail[sure] * luma[sure, None]).sum(0) / max(float((luma[sure] ** 2).sum()), 1e-6)
        # What else the photo shows between hairs is no strand's colour.
        tint = detail - luma[..., None] * slope
        tint = np.clip(tint, *np.quantile(tint[sure], (0.03, 0.97), axis=0))
        bounded = np.clip(luma, *np.quantile(luma[sure], (0.003, 0.997)))[..., None] * slope
        made = _bombed((bounded + tint).astype(np.float32), growth)
        spread = float(luma[sure].std())
        made = made + (BROAD_SHARE * spread * growth.lock_tone)[..., None] * slope
        made = _matched(made, detail, growth)
    else:
        made = (USUAL_DEVIATION * (growth.strands + BROAD_SHARE * growth.lock_tone))[..., None] * slope
    base = _carried_tone(seen_tone, growth, slope)
    photo, own = growth.photo[..., None], growth.toned[..., None]
    base = seen_tone * own + base * (1 - own)
    made = base + made
    made += growth.broad[..., None] * (_weighted_blur(tone, growth.broad + 1e-5, BROAD_TEXELS) - blur(made, BROAD_TEXELS))
    result = photo * (base + detail) + (1 - photo) * made
    return np.clip(np.exp(result) - TONE_OFFSET, 0.0, 1.0)


def _bombed(detail: np.ndarray, growth: HairGrowth) -> np.ndarray:
    """(H, W, 3) the photo's strands as the locks show them, drawn out a little along the flow, which joins what lies in a row."""
    columns = detail.shape[1]
    padded = np.pad(detail, ((0, 0), (2, 2), (0, 0)), mode="wrap")
    upper, lower = (
        cv2.remap(padded, place[..., 0] % columns + 2, place[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        for place in growth.source
    )
    share = growth.share[..., None]
    made = share * upper + (1 - share) * lower
    return along(made, growth.step, growth.join)


def _matched(made: np.ndarray, photo: np.ndarray, growth: HairGrowth) -> np.ndarray:
    """The made strands with the photo's contrast in every band of sizes."""
    sure, where = growth.seen > 0.6, growth.covered & (growth.photo < 0.3)
    if not where.any():
        return made
    result = np.zeros_like(made)
    previous, previous_luma = made, photo @ LUMA
    for sigma in BANDS_TEXELS:
        now, now_luma = blur(made, sigma), _weighted_blur(photo @ LUMA, growth.toned + 1e-5, sigma)
        band = previous - now
        wanted, found = (previous_luma - now_luma)[sure].std(), (band @ LUMA)[where].std()
        result += band * np.float32(np.clip(wanted / max(found, 1e-4), *BAND_GAIN))
        previous, previous_luma = now, now_luma
    return result


def _carried_tone(tone: np.ndarray, growth: HairGrowth, slope: np.ndarray) -> np.ndarray:
    """(H, W, 3) tone beneath the strands where none is seen: the photo's, fading into its mean."""
    rows, columns = tone.shape[:2]

    def small(values: np.ndarray) -> np.ndarray:
        return cv2.resize(values, (COLUMNS, ROWS), interpolation=cv2.INTER_AREA)

    weight = small(growth.toned)
    value = small(tone * growth.toned[..., None]) / np.maximum(weight, 1e-3)[..., None]
    sure = small(growth.seen) + 1e-3 * weight + 1e-9
    # Hair is no matt surface: its back is not as dark as the light on a face would have it.
    shade = LIT_SHARE * small(growth.shade)
    mean = np.average((value + shade).reshape(-1, 3), axis=0, weights=sure.ravel())
    usual = _usual_tone(growth)
    usual = usual - np.average(usual.ravel(), weights=sure.ravel())
    harmonic = Harmonic(ROWS, COLUMNS)
    prior = mean - shade + slope * usual[..., None]
    filled = [harmonic.fill(value[..., c], 2 * weight, TONE_SCREEN, prior[..., c]) for c in range(3)]
    return enlarge(np.stack(filled, -1), rows, columns)


def _usual_tone(growth: HairGrowth) -> np.ndarray:
    """(ROWS, COLUMNS) tone that any head's hair has over its mean."""
    _, colatitude = cell_centres(ROWS, COLUMNS)
    sheen = SHEEN_TONE * np.exp(-(((colatitude - SHEEN_AT_RAD) / SHEEN_WIDTH_RAD) ** 2))
    hem = cv2.resize(growth.hem, (COLUMNS, ROWS), interpolation=cv2.INTER_AREA)
    return sheen + (HEM_TONE_LONG if growth.long else HEM_TONE_CROPPED) * hem


def _weighted_blur(values: np.ndarray, weight: np.ndarray, sigma: float) -> np.ndarray:
    total = np.maximum(blur(weight, sigma), 1e-6)
    if values.ndim == 2:
        return blur(values * weight, sigma) / total
    return blur(values * weight[..., None], sigma) / total[..., None]
