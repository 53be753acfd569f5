"""A hat or scarf on the head as what it is: a shell of its own over hair and skull, with its colours carried on behind; no brims.

Its surface is the hair's ray map, whose outline the photo gave: hair and hat together. It ends at a closed line about the head, which
the photo shows in front and the plane that a hat's edge lies in gives behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.avatar import PART_CLOTHES
from avatar3d.color import linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.enrolment.hair.grid import MAX_COLATITUDE_RAD, Harmonic, cell_centres, enlarge, ray_angles, ray_directions, sample
from avatar3d.enrolment.hair.shape import COLUMNS, ROWS, HairShape
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import look_up
from avatar3d.enrolment.worn.attach import GUTTER_TEXELS, WornPart
from avatar3d.enrolment.worn.bust import grid_normals
from avatar3d.enrolment.worn.closed_curve import closed_curve
from avatar3d.enrolment.worn.clothes_paint import GAMMA, cloth_detail, usual_color
from avatar3d.geometry import smoothstep
from avatar3d.rendering.scene import shade_of

MESH_ROWS, MESH_COLUMNS = 18, 64
OVER_HAIR_M = 0.003  # a hat lies on hair and skin, and covers the strands' ends
LIP_M, LIP_SHARE = 0.0025, 0.08  # its edge stands out so far, over this share of the way down from the crown
INSIDE_M = 0.012  # the edge turns in under it
SEEN_FACING = 0.22  # cosine to the camera from which on a cell's label is believed
TRUST_FACING = (0.15, 0.42)
RIM_PX = 5  # of the work picture: the label's own rim is half backdrop or skin
MIN_EDGE_COLUMNS = 8
# A hat's edge lies in a plane: it falls behind by this much of the way back, and how sure that is against one seen metre².
USUAL_FALL, FALL_WEIGHT = 0.12, 0.02
HARMONICS, BEND, STRAY_CELLS, BEHIND_PULL = 8, 0.002, 2.5, 0.01
PICTURE_MM = 0.75  # of a texel's height
SCREEN = 0.02  # pull of unseen cloth to its usual colour, see Harmonic
EDGE_M = 0.004
# What stands out under a hat lies so far below it; what stands out further is not under it
UNDER_M, TUCK_REACH_M = 0.0015, 0.04


@dataclass(frozen=True)
class Hat:
    """part: its mesh and picture. covers: (ROWS, COLUMNS) in [0, 1] of the hair's ray map, what lies under it. tuck: (V, 3) metres
    that the head's vertices move by to lie under it, ears first of all."""

    part: WornPart
    covers: np.ndarray
    tuck: np.ndarray


def build_hat(
    work: WorkPicture,
    label: np.ndarray,
    shape: HairShape,
    vertices: np.ndarray,
    light: np.ndarray,
    shading_power: float,
    width: int,
) -> Hat | None:
    """The hat that (H, W) bool `label` shows on a head whose hair and hat have the surface `shape`; None where too little is seen.

    vertices: (V, 3) of the neutral head. light: (9, 3), shading_power: see avatar3d.rendering.scene. width: texels of the atlas.
    """
    points = shape.points(shape.radius)
    pixels = work.camera.project(points.reshape(-1, 3))[0].reshape(ROWS, COLUMNS, 2)
    seen = shape.facing > SEEN_FACING
    hat = look_up(label.astype(np.float32), pixels) > 0.5
    edge, weight = _edge_seen(hat, seen)
    if (weight > 0).sum() < MIN_EDGE_COLUMNS:
        return None
    usual = _plane_edge(points, edge, weight)
    pull = BEHIND_PULL * (1 - weight)
    line = usual + closed_curve(edge - usual, weight, pull, HARMONICS, BEND, STRAY_CELLS)
    line = np.clip(line, 4.0, ROWS - 1.0)
    cell_m = MAX_COLATITUDE_RAD / ROWS * float(np.median(shape.radius))
    covers = smoothstep(-EDGE_M, EDGE_M, (line - 0.5 - np.arange(ROWS)[:, None]) * cell_m)
    picture, confidence, height = _paint(work, label, shape, covers, light, shading_power, width, cell_m)
    return Hat(_part(line, shape, height, picture, confidence), covers.astype(np.float32), _tuck(vertices, shape, covers))


def _tuck(vertices: np.ndarray, shape: HairShape, covers: np.ndarray) -> np.ndarray:
    offset = vertices - shape.centre
    distance = np.linalg.norm(offset, axis=1)
    angles = ray_angles(offset)
    over = distance - sample(shape.radius, *angles) - OVER_HAIR_M + UNDER_M
    pull = np.where(over < TUCK_REACH_M, np.maximum(over, 0), 0) * smoothstep(0.5, 0.9, sample(covers, *angles))
    return (-offset * (pull / np.maximum(distance, 1e-6))[:, None]).astype(np.float32)


def _edge_seen(hat: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row where the hat ends (COLUMNS,), weight (COLUMNS,)): 1 where the photo shows it and what lies below."""
    rows = np.arange(ROWS)[:, None]
    last = np.where((hat & seen).any(0), ROWS - 1 - np.argmax((hat & seen)[::-1], axis=0), -1)
    below = (seen & ~hat & (rows > last) & (rows <= last + 4)).sum(0)
    told = (last >= 0) & (below >= 2)
    return np.where(told, last + 1.0, 0.0), told.astype(float)


def _plane_edge(points: np.ndarray, edge: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(COLUMNS,) rows at which the hat's edge would run all around in one plane that tilts only forward and back."""
    columns = np.flatnonzero(weight > 0)
    seen = points[np.clip(edge[columns].astype(int), 0, ROWS - 1), columns]
    depth = seen[:, 2] - seen[:, 2].mean()
    fall = (FALL_WEIGHT * USUAL_FALL + (depth * (seen[:, 1] - seen[:, 1].mean())).sum()) / (FALL_WEIGHT + (depth**2).sum())
    plane = np.median(seen[:, 1] - fall * depth) + fall * (points[..., 2] - seen[:, 2].mean())
    below = points[..., 1] < plane
    return np.where(below.any(0), np.argmax(below, axis=0), ROWS - 1.0)


def _paint(
    work: WorkPicture, label: np.ndarray, shape: HairShape, covers: np.ndarray, light: np.ndarray, shading_power: float, width: int,
    cell_m: float,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """(picture (h, w, 3) u8, confidence (h, w), the rows of the ray map that it holds)."""
    height = int(min(np.flatnonzero(covers.max(1) > 0)[-1] + 3, ROWS))
    columns = width - 2 * GUTTER_TEXELS
    rows = round(height * cell_m * 1000 / PICTURE_MM)
    whole = round(rows * ROWS / height)
    theta, colatitude = cell_centres(whole, columns)
    radius = enlarge(shape.radius + OVER_HAIR_M, whole, columns)[:rows]
    points = shape.centre + ray_directions(theta[:rows], colatitude[:rows]) * radius[..., None]
    pixels = work.camera.project(points.reshape(-1, 3))[0].reshape(rows, columns, 2)
    facing = enlarge(shape.facing, whole, columns)[:rows]
    core = cv2.erode(label.astype(np.float32), np.ones((RIM_PX, RIM_PX), np.uint8))
    trust = smoothstep(*TRUST_FACING, facing) * smoothstep(0.4, 0.9, look_up(core, pixels))
    linear = np.stack([look_up(srgb_to_linear(work.rgb)[..., k], pixels) for k in range(3)], -1)
    normals = enlarge(grid_normals(shape.points(shape.radius)).astype(np.float32), whole, columns)[:rows]
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-6)
    encoded = np.maximum(linear / shade_of(normals, light, shading_power), 1e-5) ** np.float32(1 / GAMMA)
    sure = trust > 0.5
    plain = usual_color(encoded[sure]) if sure.any() else np.zeros(3)
    small = cv2.resize(trust.astype(np.float32), (COLUMNS, height), interpolation=cv2.INTER_AREA)
    means = cv2.resize((encoded * trust[..., None]).astype(np.float32), (COLUMNS, height), interpolation=cv2.INTER_AREA)
    padded = np.zeros((ROWS, COLUMNS))
    padded[:height] = small
    harmonic, filled = Harmonic(ROWS, COLUMNS), np.zeros((ROWS, COLUMNS, 3))
    for k in range(3):
        value = np.zeros((ROWS, COLUMNS))
        value[:height] = means[..., k] / np.maximum(small, 1e-4)
        filled[..., k] = harmonic.fill(value, 4 * padded, SCREEN, plain[k])
    base = enlarge(filled, whole, columns)[:rows]
    made = base + cloth_detail(encoded, trust.astype(np.float32), PICTURE_MM)
    result = made + trust[..., None] * (encoded - made)
    return to_u8(linear_to_srgb(np.clip(result, 0, 1) ** GAMMA)), trust.astype(np.float32), height


def _part(line: np.ndarray, shape: HairShape, height: int, picture: np.ndarray, confidence: np.ndarray) -> WornPart:
    """The shell from the crown down to fractional rows `line` (COLUMNS,) and in under its edge; `height`: of the picture, in rows."""
    u = np.arange(MESH_COLUMNS + 1) / MESH_COLUMNS
    theta = (u * 2 - 1) * np.pi
    ends = np.interp(u * COLUMNS - 0.5, np.arange(-1, COLUMNS + 1), np.r_[line[-1], line, line[0]])
    down = np.r_[np.linspace(0, 1, MESH_ROWS + 1), 1.0, 1.0][:, None]
    places = down * ends  # rows of the map
    angles = np.broadcast_to(theta, places.shape)
    colatitude = places / ROWS * MAX_COLATITUDE_RAD
    flat = (
        (MAX_COLATITUDE_RAD * places.max() / ROWS / MESH_ROWS) ** 2 + (2 * np.pi / MESH_COLUMNS * np.sin(colatitude)) ** 2
    ) / 12
    reach = sample(shape.radius, angles, colatitude) * (1 + flat) + OVER_HAIR_M + LIP_M * smoothstep(1 - LIP_SHARE, 1.0, down)
    reach[0] = reach[1].mean()
    reach[-2] -= OVER_HAIR_M + LIP_M
    reach[-1] -= INSIDE_M
    points = shape.centre + ray_directions(angles, colatitude) * reach[..., None]
    rows, columns = points.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    weld = index.copy()
    weld[:, -1] = index[:, 0]
    weld[0] = 0
    a, b, c, d = index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]
    faces = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1)[1:].reshape(-1, 3)])
    uv = np.stack([np.broadcast_to(u, places.shape), np.clip(places / height, 0, 1)], -1).reshape(-1, 2)
    count = len(uv)
    return WornPart(
        PART_CLOTHES, points.reshape(-1, 3).astype(np.float32), faces.astype(np.int32), uv, weld.ravel().astype(np.int32),
        np.ones(count, np.float32), np.ones(count, np.float32), picture, confidence,
    )  # fmt: skip
