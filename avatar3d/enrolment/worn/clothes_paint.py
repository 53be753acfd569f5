"""The bust's picture: the clothes that the photo shows, and their colours and pattern carried on where it shows none.

It has a column for each azimuth (0 the back) and rows from a ring about the neck to the hem, and below it the underside. Skin that
an open collar or bare shoulders show is painted on the same surface.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import scipy.sparse as sp
from scipy.ndimage import gaussian_filter
from scipy.sparse.linalg import cg
from scipy.spatial import cKDTree

from avatar3d.avatar import Avatar
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.enrolment.hair.grid import enlarge
from avatar3d.enrolment.skin.grain import CLEAR_SKIN, grain
from avatar3d.enrolment.skin.projection import sample
from avatar3d.enrolment.worn.attach import GUTTER_TEXELS
from avatar3d.enrolment.worn.bust import COLUMNS, ROWS, BustSurface, enlarged, grid_normals
from avatar3d.enrolment.worn.clothes_seen import Photo, seen_on
from avatar3d.geometry import smoothstep
from avatar3d.head.model import HeadModel
from avatar3d.rendering.scene import shade_of

GAMMA = 2.2  # as the skin's: colours are blended and filled in this encoding
PICTURE_ROWS = 3 / 16  # of the atlas' width
UNDERSIDE, UNDERSIDE_SHADE = 0.08, 0.45  # of the picture's rows; of the hem's colour
PLAIN_CLOTH = np.array([0.26, 0.27, 0.29])  # sRGB, where nothing is seen
GRID_ROWS, GRID_COLUMNS = 40, 128  # of the fill
# A garment's parts hang down in front (a tie, a zip, lapels), and run around behind (a collar, a yoke): pull between rows over
# columns.
DOWN_IN_FRONT, DOWN_BEHIND, FRONT_RAD = 5.0, 0.4, np.radians((45.0, 80.0))
SCREEN_IN_FRONT, SCREEN_BEHIND = 0.01, 0.10  # of the fill's pull to the prior, against one fully seen cell
COLLAR_BEHIND, COLLAR_SHARE = 0.002, (0.05, 0.2)  # the same behind, within this share of the way from ring to hem
MOST_DETAIL = 0.03  # deviation, encoded; a patch that is rougher shows folds and shadows
DETAIL_MM, PATCH_MM, PATCH_QUANTILE = 8.0, 36.0, 0.3  # what is finer is pattern; of a patch whose strength is that of most
OUTER_RAD = np.radians(32.0)  # farther from the middle of the chest is what a garment is made of: no tie, no zip
# Where it shows that, first choice first: beyond this azimuth, this far from the ring to the hem.
OUTER = ((np.radians(50.0), 0.5), (OUTER_RAD, 0.4), (OUTER_RAD, 0.0))
ENOUGH_TEXELS = 400
COLOR_BIN, COLOR_BINS = 0.07, 16  # encoded
SKIN_REACH_M = 0.06  # along the chest from the ring
ABOVE_RING_M = 0.008
LINE_M = (0.008, 0.014)  # from the neckline
EDGE_M = 0.0012  # softness of a collar's edge
SEED = 20261130


@dataclass(frozen=True)
class Told:
    """seen: the photo shows what is below the neck. bare: that is skin."""

    seen: bool
    bare: bool


@dataclass(frozen=True)
class Painted:
    """picture: (h, w, 3) u8. confidence: (h, w). cloth: (ROWS, COLUMNS) share of cloth at the grid's points."""

    picture: np.ndarray
    confidence: np.ndarray
    cloth: np.ndarray


def paint_bust(
    photo: Photo, surface: BustSurface, ring: np.ndarray, neckline: np.ndarray, avatar: Avatar, head: HeadModel, told: Told
) -> Painted:
    """The picture of the bust that begins at rows `ring` (COLUMNS,) of the surface, and clothes at rows `neckline`."""
    grid = surface.rows(ring, ROWS)
    width = avatar.base_color.shape[1]
    columns = width - 2 * GUTTER_TEXELS
    whole = round(PICTURE_ROWS * width) - 2 * GUTTER_TEXELS
    rows = round(whole * (1 - UNDERSIDE))
    points = enlarged(grid, rows, columns)
    seen = seen_on(photo, points)
    flat = seen.pixels.reshape(-1, 2)
    linear = sample(srgb_to_linear(photo.picture.rgb), flat).reshape(rows, columns, 3)
    cloth = photo.at(photo.cloth, seen.pixels)
    shade = enlarged(shade_of(grid_normals(grid).astype(np.float32), avatar.light, avatar.shading_power), rows, columns)
    encoded = np.maximum(linear / shade, 1e-5) ** np.float32(1 / GAMMA)

    first, last, collar = (surface.along(row) for row in (ring, surface.hem, neckline))
    along = np.linspace(0, 1, rows)[:, None]
    from_ring = along * enlarged((last - first)[None].repeat(2, 0), rows, columns)
    under_collar = from_ring - enlarged((collar - first)[None].repeat(2, 0), rows, columns)
    usual = np.zeros((rows, columns)) if told.bare else smoothstep(-EDGE_M, 0.0, under_collar)
    trust = seen.trust.astype(np.float32)
    mask = (trust * smoothstep(0.35, 0.65, cloth) + (1 - trust) * usual).astype(np.float32)
    if not told.seen:
        trust = np.zeros_like(trust)
    # Along a collar that stands on the neck its own even line counts: the picture's labels are ragged where the neck turns away.
    closed = enlarged((neckline < surface.base + 0.5).astype(np.float32)[None].repeat(2, 0), rows, columns)
    along_line = (
        closed * (1 - smoothstep(*LINE_M, np.abs(under_collar))) if told.seen and not told.bare else np.zeros_like(mask)
    )
    trust = trust * (1 - along_line * np.abs(usual - mask)).astype(np.float32)
    mask = (mask + along_line * (usual - mask)).astype(np.float32)
    stray = _stray_skin((trust > 0.3) & (mask < 0.5), points)
    trust, mask = np.where(stray, 0, trust), np.where(stray, 1, mask)
    skin = _neck_tone(avatar, head, grid[0])  # (COLUMNS, 3)
    skin_fill = _filled(encoded, trust * (mask < 0.3), skin, ring_weight=4.0)
    away = np.abs(_texel_azimuths(columns))
    cloth_trust = trust * (mask > 0.7)
    shown = cloth_trust > 0.5
    chosen = next((each for a, b in OUTER if (each := shown & (away > a) & (along > b)).sum() > ENOUGH_TEXELS), shown)
    plain = usual_color(encoded[chosen]) if chosen.sum() > ENOUGH_TEXELS // 4 else srgb_to_linear(PLAIN_CLOTH) ** (1 / GAMMA)
    cloth_fill = _filled(encoded, cloth_trust, np.broadcast_to(plain, (COLUMNS, 3)), ring_weight=0.0)
    base = skin_fill + mask[..., None] * (cloth_fill - skin_fill)
    mm = 1000 * float(np.median(np.linalg.norm(np.diff(points[:, ::16], axis=0), axis=2)))
    of_body = cloth_trust * (np.linalg.norm(cloth_fill - plain, axis=-1) < 3 * COLOR_BIN)
    detail = cloth_detail(encoded, of_body.astype(np.float32), max(mm, 0.3))
    places = points.reshape(-1, 3) * 1000
    pores = grain(places, (1 - mask.reshape(-1, 1)) * CLEAR_SKIN, SEED).reshape(rows, columns, 3)
    made = (base + mask[..., None] * detail) * (1 + pores)
    result = made + trust[..., None] * (encoded - made)
    under = _underside(result[-1], whole - rows)
    texture = np.concatenate([result, under])
    picture = to_u8(linear_to_srgb(np.clip(texture, 0, 1) ** GAMMA))
    confidence = np.concatenate([trust, np.zeros((whole - rows, columns), np.float32)])
    return Painted(picture, confidence, _shrunk(mask, ROWS))


def _stray_skin(skin: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(rows, columns) bool: skin that does not come within SKIN_REACH_M of the ring is a hand's, or someone else's."""
    _, labels = cv2.connectedComponents(skin.astype(np.uint8))
    from_ring = np.linalg.norm(points - points[:1], axis=-1)
    own = np.unique(labels[skin & (from_ring < SKIN_REACH_M)])
    return cv2.dilate((skin & ~np.isin(labels, own)).astype(np.uint8), np.ones((9, 9), np.uint8)) > 0


def _texel_azimuths(columns: int) -> np.ndarray:
    return ((np.arange(columns) + 0.5) / columns * 2 - 1) * np.pi


def _shrunk(mask: np.ndarray, rows: int) -> np.ndarray:
    """(rows, COLUMNS) means of a picture's values about the grid's points."""
    wide = np.concatenate([mask[:, -32:], mask, mask[:, :32]], 1)
    soft = cv2.GaussianBlur(wide, (0, 0), 4.0)[:, 32:-32]
    y = np.rint(np.linspace(0, len(mask) - 1, rows)).astype(int)
    x = (np.arange(COLUMNS) / COLUMNS * mask.shape[1]).astype(int)
    return soft[y][:, x]


def _underside(hem: np.ndarray, rows: int) -> np.ndarray:
    """(rows, C, 3) below the hem (C, 3), soon dark and even."""
    fall = smoothstep(0.0, 0.4, np.linspace(0, 1, rows))[:, None, None]
    return hem[None] + fall * (UNDERSIDE_SHADE * hem.mean(0) - hem[None])


def _neck_tone(avatar: Avatar, head: HeadModel, ring: np.ndarray) -> np.ndarray:
    """(COLUMNS, 3) encoded colour of the head's own texture just above the ring (COLUMNS, 3)."""
    neck = np.flatnonzero((head.regions["neck"] > 0.2) & (head.regions["bust"] < 0.9))
    _, near = cKDTree(avatar.vertices[neck]).query(ring + (0, ABOVE_RING_M, 0), k=4)
    height, width = avatar.base_color.shape[:2]
    soft = cv2.GaussianBlur(avatar.base_color, (0, 0), width / 256)
    at = np.clip((avatar.uv[neck] * (width, height)).astype(int), 0, (width - 1, height - 1))
    tone = srgb_to_linear(soft[at[:, 1], at[:, 0]]) ** (1 / GAMMA)
    return tone[near].mean(1)


def _filled(encoded: np.ndarray, weight: np.ndarray, prior: np.ndarray, ring_weight: float) -> np.ndarray:
    """(rows, columns, 3) smooth colours: those of `encoded` where `weight`, else spread, more down than around.

    prior: (COLUMNS, 3) what it falls back to; ring_weight: how far the first row keeps it.
    """
    rows, columns = weight.shape
    size = (GRID_COLUMNS, GRID_ROWS)
    trust = cv2.resize(weight.astype(np.float32), size, interpolation=cv2.INTER_AREA).astype(np.float64)
    value = cv2.resize((encoded * weight[..., None]).astype(np.float32), size, interpolation=cv2.INTER_AREA)
    value = value / np.maximum(trust, 1e-4)[..., None]
    fallback = enlarged(prior[None].repeat(2, 0), GRID_ROWS, GRID_COLUMNS).astype(np.float64)
    index = np.arange(GRID_ROWS * GRID_COLUMNS).reshape(GRID_ROWS, GRID_COLUMNS)
    a = np.concatenate([index.ravel(), index[:-1].ravel()])
    b = np.concatenate([np.roll(index, -1, 1).ravel(), index[1:].ravel()])
    behind = smoothstep(FRONT_RAD[0], FRONT_RAD[1], np.abs(_texel_azimuths(GRID_COLUMNS)))
    down = DOWN_IN_FRONT + behind * (DOWN_BEHIND - DOWN_IN_FRONT)
    pull = np.concatenate([np.ones(index.size), np.tile(down, GRID_ROWS - 1)])
    links = sp.coo_matrix((np.r_[pull, pull], (np.r_[a, b], np.r_[b, a])), (index.size,) * 2).tocsr()
    held = 4.0 * trust
    below = smoothstep(*COLLAR_SHARE, np.linspace(0, 1, GRID_ROWS))[:, None]  # a collar runs all around
    screen = SCREEN_IN_FRONT + (COLLAR_BEHIND + below * (SCREEN_BEHIND - COLLAR_BEHIND) - SCREEN_IN_FRONT) * behind
    screen[0] += ring_weight
    matrix = (sp.diags(np.asarray(links.sum(1)).ravel() + (held + screen).ravel()) - links).tocsr()
    right = held[..., None] * value + screen[..., None] * fallback
    precondition = sp.diags(1 / matrix.diagonal())
    solved = [
        cg(matrix, right[..., c].ravel(), x0=fallback[..., c].ravel(), M=precondition, rtol=1e-3, maxiter=200)[0]
        for c in range(3)
    ]
    return enlarge(np.stack(solved, -1).reshape(GRID_ROWS, GRID_COLUMNS, 3), rows, columns)


def cloth_detail(encoded: np.ndarray, weight: np.ndarray, mm: float) -> np.ndarray:
    """(rows, columns, 3) what a cloth has beyond smooth colours, for where it is not seen: noise with the spectrum of a patch of it.

    Spot noise (Galerne, Gousseau and Morel 2011, section II): stripes stay stripes, and nothing repeats. The patch is the one of the
    outer cloth whose strength is its usual one: without seams, buttons and folds. mm: of a texel.
    """
    rows, columns = weight.shape
    sigma, side = DETAIL_MM / mm, round(PATCH_MM / mm)
    low = _periodic_blur(encoded * weight[..., None], sigma) / np.maximum(_periodic_blur(weight, sigma), 1e-3)[..., None]
    seen = (weight > 0.8) & (np.abs(_texel_azimuths(columns)) > OUTER_RAD)
    high = (encoded - low).astype(np.float32) * seen[..., None]
    energy = cv2.boxFilter((high**2).sum(-1), -1, (side, side), borderType=cv2.BORDER_CONSTANT)
    whole = cv2.boxFilter(seen.astype(np.float32), -1, (side, side), borderType=cv2.BORDER_CONSTANT) > 0.995
    if not whole.any():
        return np.zeros_like(encoded)
    strength = np.where(whole, energy, np.inf)
    usual = np.quantile(energy[whole], PATCH_QUANTILE)
    row, column = np.unravel_index(np.argmin(np.abs(strength - usual)), strength.shape)
    patch = high[row - side // 2 :, column - side // 2 :][:side, :side]
    patch = patch - patch.mean((0, 1))
    patch *= min(1.0, MOST_DETAIL / max(float(patch.std()), 1e-6)) / np.sqrt(patch[..., 0].size)
    tall = 2 * rows  # rows do not wrap around
    noise = np.fft.rfft2(np.random.default_rng(SEED).standard_normal((tall, columns)).astype(np.float32))
    spots = [np.fft.irfft2(noise * np.fft.rfft2(patch[..., c], (tall, columns)), (tall, columns)) for c in range(3)]
    return np.stack(spots, -1)[:rows].astype(np.float32)


def _periodic_blur(values: np.ndarray, sigma: float) -> np.ndarray:
    pad = min(values.shape[1], int(4 * sigma) + 1)
    wide = np.concatenate([values[:, -pad:], values, values[:, :pad]], 1).astype(np.float32)
    return cv2.GaussianBlur(wide, (0, 0), sigma)[:, pad:-pad]


def usual_color(colors: np.ndarray) -> np.ndarray:
    """(3,) the commonest of encoded colours (N, 3): the mean about the fullest place of their histogram."""
    bins = np.clip((colors / COLOR_BIN).astype(int), 0, COLOR_BINS - 1)
    counts = np.zeros((COLOR_BINS,) * 3)
    np.add.at(counts, tuple(bins.T), 1.0)
    fullest = (np.array(np.unravel_index(np.argmax(gaussian_filter(counts, 1.0)), counts.shape)) + 0.5) * COLOR_BIN
    near = np.linalg.norm(colors - fullest, axis=1) < 2 * COLOR_BIN
    return colors[near].mean(0) if near.any() else np.median(colors, axis=0)
