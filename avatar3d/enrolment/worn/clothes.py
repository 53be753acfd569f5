"""Clothes on the bust of an avatar: where they begin, the mesh that wears them, and what of the head model they cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from avatar3d.avatar import PART_CLOTHES, PART_SKIN, Avatar
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.enrolment.worn.attach import WornPart
from avatar3d.enrolment.worn.bust import COLUMNS, ROWS, Body, BustSurface, azimuths, bust_surface, enlarged, grid_normals
from avatar3d.enrolment.worn.closed_curve import closed_curve
from avatar3d.enrolment.worn.clothes_paint import UNDERSIDE, Painted, Told, paint_bust
from avatar3d.enrolment.worn.clothes_seen import HAIR, look_at_clothes, seen_on
from avatar3d.fitting.fit import FaceFit
from avatar3d.geometry import smoothstep
from avatar3d.head.model import HeadModel

UNDERSIDE_INWARD_M, UNDERSIDE_DOWN_M = 0.010, 0.004
COVERED_M, LOWER_M = 0.008, 0.003  # this far from the ring and below it, the head model is out of sight
CLOTH_M, SKIN_M = 0.0035, 0.0012  # how far cloth and painted skin stand off the skin
TUCKED_M = 0.004  # and the head model under the clothes lies below them
INSIDE_M = 0.012  # the inside of the ring goes down into the neck, past where the coarse triangles of the model lie
LIP_M = 0.0015  # the edge of a collar stands up so far
RUN_M = 0.010  # so much cloth below a place makes it the neckline
USUAL_PULL, BEHIND_RAD = (0.003, 0.08), (1.2, 2.1)  # to where the neck ends, in front and behind, against one seen column
SURE_RAYS = 4  # between skin and cloth
SEEN_HERE = 0.3  # trust from which on the photo shows a place
# The neckline: a closed curve of so many harmonics, what bending costs (times the fourth power of the harmonic), and how many rows
# off it a column is stray.
HARMONICS, BEND, STRAY_ROWS = 12, 0.001, 2.0
LEAST_OPEN_ROWS = 2.5  # a neckline that lies no lower than that under the neck's end lies there
BARE_SHARE = 0.12  # of what is seen of the bust: less cloth is none
SEEN_SHARE, LEAST_CLOTH = 0.04, 0.004  # of the bust: less seen tells nothing; less cloth seen, not even its colour
FOLLOW_M = (0.02, 0.06)  # from the neck, over which clothes cease to turn with it


@dataclass(frozen=True)
class Clothes:
    """part: the bust. vertices: (V, 3) of the avatar, its shoulders drawn in under the bust. hidden: (F,) bool faces wholly under it.
    bare: shoulders show skin. notes: for the report."""

    part: WornPart
    vertices: np.ndarray
    hidden: np.ndarray
    bare: bool
    notes: list[str]


def dress(
    rgb: np.ndarray,
    landmarks_px: np.ndarray,
    fit: FaceFit,
    head: HeadModel,
    coarse: WorkPicture,
    segmentation: Segmentation,
    avatar: Avatar,
) -> Clothes:
    """Clothes for the avatar of a (H, W, 3) u8 photo, whose head is `head` fitted as `fit`; coarse, segmentation: of its head."""
    photo = look_at_clothes(rgb, landmarks_px, fit, head, coarse, segmentation)
    unknown = ~photo.small.inside | (photo.hair > HAIR)
    body = Body.usual(fit.neutral_vertices, head).as_seen(photo.small.camera, photo.matte, unknown)
    surface = bust_surface(fit.neutral_vertices, head, body)
    seen = seen_on(photo, surface.points)
    rows = np.arange(len(surface.points))[:, None]
    shown = seen.trust * (rows >= surface.base) * (rows <= surface.hem) / (surface.hem - surface.base).sum()
    cloth = photo.at(photo.cloth, seen.pixels)
    amount, of_cloth = float(shown.sum()), float((shown * cloth).sum())
    told = Told(max(of_cloth, amount - SEEN_SHARE) > LEAST_CLOTH, amount > SEEN_SHARE and of_cloth < BARE_SHARE * amount)
    notes = [] if told.seen else ["the photo shows nothing below the neck; a plain shirt was made"]
    neckline = surface.hem if told.bare else surface.base
    if told.seen and not told.bare:
        neckline = _neckline(surface, seen.trust, cloth)
    ring = np.minimum(neckline, surface.base)
    painted = paint_bust(photo, surface, ring, neckline, avatar, head, told)
    grid = surface.rows(ring, ROWS)
    vertices, hidden = _tuck(avatar, head, grid, surface.axis_z)
    return Clothes(_mesh(grid, surface.axis_z, painted, avatar, head), vertices, hidden, told.bare, notes)


def _neckline(surface: BustSurface, trust: np.ndarray, cloth: np.ndarray) -> np.ndarray:
    """(COLUMNS,) fractional row of the surface's rays at which clothes begin."""
    columns = trust.shape[1]
    usual = surface.base
    steps = np.linalg.norm(np.diff(surface.points, axis=0, append=surface.points[-1:]), axis=2)
    found, weight = usual.copy(), np.zeros(columns)
    for column in range(columns):
        told = np.flatnonzero(trust[:, column] > SEEN_HERE)
        if len(told) < 3:
            continue
        value = cloth[told, column] > 0.5
        length = np.maximum(steps[told, column], 1e-4)
        run = max(1, round(RUN_M / float(np.median(length))))
        lasting = np.concatenate([value, np.full(run - 1, value[-1])])
        share = np.convolve(lasting, np.ones(run) / run, mode="valid")  # of the run that starts at each place
        first = np.flatnonzero(value & (share > 0.7))
        if len(first):
            # It begins between the last skin and the first cloth that are seen, of which either may be far off.
            above = told[first[0] - 1] + 1 if first[0] > 0 else 0
            sure = told[first[0]] - above < SURE_RAYS
            found[column], weight[column] = np.clip(usual[column], above, told[first[0]]), 1.0 if sure else 0.4
        else:
            found[column], weight[column] = max(told[-1] + 1.0, usual[column]), 0.3
    pull = USUAL_PULL[0] + (USUAL_PULL[1] - USUAL_PULL[0]) * smoothstep(BEHIND_RAD[0], BEHIND_RAD[1], np.abs(azimuths(columns)))
    off = closed_curve(found - usual, weight, pull, HARMONICS, BEND, STRAY_ROWS)
    line = usual + np.minimum(off, np.maximum(off - LEAST_OPEN_ROWS, 0))
    return np.clip(line, surface.top + 1.0, surface.hem - 4)


def _mesh(grid: np.ndarray, axis_z: float, painted: Painted, avatar: Avatar, head: HeadModel) -> WornPart:
    cloth, normals = painted.cloth[..., None], grid_normals(grid)
    outer = grid + normals * (SKIN_M + cloth * (CLOTH_M - SKIN_M))
    outer[0, :, 1] += LIP_M * painted.cloth[0]
    inner = grid[:1] - INSIDE_M * normals[:1]
    hem = outer[-1:]
    axis = np.array([0.0, hem[..., 1].mean(), axis_z])
    inward = axis - hem
    inward[..., 1] = 0
    inward /= np.maximum(np.linalg.norm(inward, axis=-1, keepdims=True), 1e-9)
    turned = hem + UNDERSIDE_INWARD_M * inward - (0, UNDERSIDE_DOWN_M, 0)
    centre = np.broadcast_to(axis, hem.shape)
    points = np.concatenate([inner, outer, turned, centre])
    share = 1 - UNDERSIDE
    v = np.r_[0.0, share * np.linspace(0, 1, ROWS), share + 0.4 * UNDERSIDE, 1.0]
    points = np.concatenate([points, points[:, :1]], 1)  # the last column repeats the first across the seam
    u = np.arange(COLUMNS + 1) / COLUMNS
    rows, columns = points.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    weld = index.copy()
    weld[:, -1] = index[:, 0]
    weld[-1] = index[-1, 0]
    a, b, c, d = index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1]
    faces = np.concatenate([np.stack([a, d, c], -1)[:-1].reshape(-1, 3), np.stack([a, c, b], -1).reshape(-1, 3)])
    uv = np.stack(np.broadcast_arrays(u[None], v[:, None]), -1).reshape(-1, 2)
    flat = points.reshape(-1, 3)
    model = np.flatnonzero((head.regions["neck"] > 0.2) | (head.regions["bust"] > 0))
    distance, near = cKDTree(avatar.vertices[model]).query(flat)
    follow = avatar.head_weight[model][near] * (1 - smoothstep(*FOLLOW_M, distance))
    count = len(flat)
    return WornPart(
        PART_CLOTHES, flat.astype(np.float32), faces.astype(np.int32), uv, weld.ravel().astype(np.int32),
        follow.astype(np.float32), np.ones(count, np.float32), painted.picture, painted.confidence,
    )  # fmt: skip


def _tuck(avatar: Avatar, head: HeadModel, grid: np.ndarray, axis_z: float) -> tuple[np.ndarray, np.ndarray]:
    """(vertices (V, 3) with the head model's shoulders drawn in under the grid, (F,) bool faces that lie wholly under it)."""
    of_neck = (head.regions["neck"] > 0) | (head.regions["bust"] > 0)
    vertices = avatar.vertices.copy()
    azimuth = np.arctan2(vertices[:, 0], vertices[:, 2] - axis_z)
    ring = grid[0]
    height = np.interp(azimuth, azimuths(), ring[:, 1], period=2 * np.pi)
    edge = enlarged(ring[None].repeat(2, 0), 1, 8 * COLUMNS)[0]
    under = of_neck & (vertices[:, 1] < height - LOWER_M) & (cKDTree(edge).query(vertices)[0] > COVERED_M)
    index = np.flatnonzero(under)
    points, normals = grid.reshape(-1, 3), grid_normals(grid).reshape(-1, 3)
    _, near = cKDTree(points).query(vertices[index])
    above = ((vertices[index] - points[near]) * normals[near]).sum(1) + TUCKED_M
    vertices[index] -= np.maximum(above, 0)[:, None] * normals[near]
    return vertices.astype(np.float32), under[avatar.faces].all(1) & (avatar.part == PART_SKIN)
