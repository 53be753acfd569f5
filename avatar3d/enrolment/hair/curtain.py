"""Hair that hangs below the chin: a curtain about neck and shoulders whose sides follow the photo and whose back hangs plumb.

It is a surface over the hair's ray map like the rest, and takes over from it below the ears.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import map_coordinates, maximum_filter1d, minimum_filter1d, uniform_filter1d
from scipy.spatial import cKDTree

from avatar3d.camera import Camera
from avatar3d.enrolment.hair.grid import blur
from avatar3d.geometry import smoothstep

STEP_M = 0.003  # of heights and of the looked-up row
LOWEST_M, WIDEST_M = -0.28, 0.24  # head frame: how far down and out hair is looked for
MIN_BELOW_CHIN_M = 0.015  # hair that ends higher is no curtain
MIN_WIDTH_M = 0.008  # narrower strips are strays, or clothes
FRONT_M = 0.038  # the curtain's depth before the ears' plane: it falls behind the jaw
ROUNDNESS = 2.4  # exponent of its super-elliptic cross-section
BACK_CLEARANCE_M, BACK_SLOPE = 0.012, 0.12  # behind the bare head; leaning toward the neck by this much of the drop
MIN_HALF_M = 0.04  # of the cross-section's width, and of its depth behind the ears: a neck's
SECTION_POINTS = 33  # of half a cross-section
TURNED_DEG = 20.0  # from here on the far side lies behind the face: that no hair is seen there says nothing
TAKE_OVER_M = 0.03  # height over which it takes over from the hair above, from the ears' lower end on
EDGE_M = 0.004  # softness of its hem and inner edge
REACH_M = np.arange(0.05, 0.38, 0.004)  # along a ray
SMOOTH_STEPS = 9  # of heights: what stands out over fewer is a stray lock
SPUR_M = 0.003
BODY_NEIGHBOURS, BODY_NEAR_RAD = 8, 0.09  # about a ray: vertices of the shoulders lie two centimetres apart
ON_SHOULDERS_M, MAX_LIFT_M = 0.007, 0.05
BEHIND_M = (0.01, 0.04)  # the ears' plane
ABOVE_BUST_M = 0.055  # over its lowest point the bust fades out: hair that went on would hang in the air


@dataclass(frozen=True)
class Curtain:
    """Maps of the ray map's shape. radius: metres from its centre. share: in [0, 1], where the curtain holds. region: where hair is."""

    radius: np.ndarray
    share: np.ndarray
    region: np.ndarray


@dataclass(frozen=True)
class _Side:
    """One side's strip of hair by height, top down: outer and inner distance from the middle and the height of its hem, metres."""

    outer: np.ndarray
    inner: np.ndarray
    hem: float


def hanging_curtain(
    camera: Camera,
    hair: np.ndarray,
    centre: np.ndarray,
    rays: np.ndarray,
    scalp: np.ndarray,
    skin: np.ndarray,
    ears: np.ndarray,
    chin: float,
    hem_wave: np.ndarray,
) -> Curtain | None:
    """The curtain that a (H, W) hair mask shows under the ears, None where hair ends above the chin.

    rays: (R, C, 3) from centre (3,), with the bare head's radius `scalp` (R, C). skin: (N, 3) points of the skin, shoulders and all.
    ears: (M, 3) points of them. chin: its height. hem_wave: (R, C), how unevenly the hem falls. Head frame, metres.
    """
    top, plane = float(ears[:, 1].min()), float(ears[:, 2].mean())
    heights = np.arange(top, LOWEST_M, -STEP_M)
    strips = {side: _strip(camera, hair, heights, plane, side) for side in (-1, 1)}
    if all(strip is None or strip.hem > chin - MIN_BELOW_CHIN_M for strip in strips.values()):
        return None
    bare = centre + rays * scalp[..., None]
    behind = bare[np.abs(bare[..., 1] - top) < 0.04]
    back = plane - float(behind[:, 2].min()) + BACK_CLEARANCE_M

    def depth_behind(y: np.ndarray) -> np.ndarray:
        return np.maximum(back - BACK_SLOPE * np.clip(top - y, 0, None), MIN_HALF_M)

    for side, strip in strips.items():
        if strip is not None:
            strips[side] = replace(strip, outer=_half_width(camera, strip.outer, heights, depth_behind(heights), plane, side))
    toward = camera.center - (0, top, plane)
    yaw = float(np.degrees(np.arctan2(toward[0], toward[2])))
    left, right = (strips[side] or _without_hair(strips[-side], hidden=side * yaw < -TURNED_DEG) for side in (-1, 1))

    def by_height(values: tuple[np.ndarray, np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
        at = -y  # np.interp wants rising places
        return np.where(x < 0, np.interp(at, -heights, values[0]), np.interp(at, -heights, values[1]))

    radius = np.full(scalp.shape, REACH_M[0])
    for reach in REACH_M:
        x, y, z = np.moveaxis(centre + rays * reach, -1, 0)
        depth = np.where(z > plane, FRONT_M, depth_behind(y))
        width = by_height((left.outer, right.outer), x, y)
        within = (np.abs(x) / width) ** ROUNDNESS + (np.abs(z - plane) / depth) ** ROUNDNESS < 1
        radius = np.where(within, reach, radius)
    # Behind the shoulders it lies on them; beside the neck it falls before or behind them, and may pass into them unseen.
    x, y, z = np.moveaxis(centre + rays * radius[..., None], -1, 0)
    lift = np.clip(_body(skin, centre, rays) + ON_SHOULDERS_M - radius, 0, MAX_LIFT_M)
    lift = (
        lift
        * smoothstep(*BEHIND_M, plane - z)
        * smoothstep(0.0, 0.25, 1 - np.abs(x) / by_height((left.outer, right.outer), x, y))
    )
    radius = np.maximum(blur(radius + lift, 1.0), scalp)
    x, y, z = np.moveaxis(centre + rays * radius[..., None], -1, 0)
    # Behind it is as long as the longer side: the other one may lie on the shoulder, or be hidden by it.
    beside = np.clip(np.abs(x) / by_height((left.outer, right.outer), x, y), 0, 1)
    own = np.where(x < 0, left.hem, right.hem)
    hem = np.where(z < plane, own * beside + min(left.hem, right.hem) * (1 - beside), own)
    inner = np.where(z < plane, -1.0, by_height((left.inner, right.inner), x, y))
    hem = np.maximum(hem, float(skin[:, 1].min()) + ABOVE_BUST_M)
    region = smoothstep(-EDGE_M, EDGE_M, y - hem - hem_wave) * smoothstep(-EDGE_M, EDGE_M, np.abs(x) - inner)
    share = smoothstep(-top, -top + TAKE_OVER_M, -y)
    return Curtain(radius, share, region)


def _body(skin: np.ndarray, centre: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """(R, C) outer radius of the skin about each ray, metres, 0 where there is none near."""
    offset = skin - centre
    length = np.linalg.norm(offset, axis=1)
    distance, nearest = cKDTree(offset / length[:, None]).query(rays.reshape(-1, 3), k=BODY_NEIGHBOURS)
    return np.where(distance < BODY_NEAR_RAD, length[nearest], 0.0).max(1).reshape(rays.shape[:2])


def _strip(camera: Camera, hair: np.ndarray, heights: np.ndarray, plane: float, side: int) -> _Side | None:
    """The hair of one side (the sign of X) by height, in the upright plane through the ears."""
    across = np.arange(0.02, WIDEST_M, STEP_M)
    points = np.stack(np.broadcast_arrays(side * across[None], heights[:, None], plane), -1)
    pixels = camera.project(points.reshape(-1, 3))[0].reshape(points.shape[:2] + (2,))
    seen = map_coordinates(hair.astype(np.float32), [pixels[..., 1] - 0.5, pixels[..., 0] - 0.5], order=1, mode="nearest") > 0.5
    held = seen.sum(1) * STEP_M > MIN_WIDTH_M
    if not held[0]:
        return None
    last = int(np.argmin(held)) - 1 if not held.all() else len(held) - 1
    outer = across[seen.shape[1] - 1 - seen[: last + 1, ::-1].argmax(1)]
    inner = across[seen[: last + 1].argmax(1)]

    def smooth(values: np.ndarray) -> np.ndarray:
        steady = maximum_filter1d(minimum_filter1d(values, SMOOTH_STEPS, mode="nearest"), SMOOTH_STEPS, mode="nearest")
        steady = uniform_filter1d(np.where(values > steady + SPUR_M, steady, values), SMOOTH_STEPS // 2, mode="nearest")
        return np.r_[steady, np.full(len(heights) - len(steady), steady[-1])]

    return _Side(smooth(outer) + STEP_M / 2, smooth(inner), float(heights[last]))


def _without_hair(other: _Side | None, hidden: bool) -> _Side:
    """The side on which the photo shows no hair: like the other where it is hidden, else bare but for what lies behind the neck."""
    assert other is not None
    if hidden:
        return other
    return _Side(np.full_like(other.outer, MIN_HALF_M), np.full_like(other.inner, WIDEST_M), other.hem)


def _half_width(
    camera: Camera, outer: np.ndarray, heights: np.ndarray, behind: np.ndarray, plane: float, side: int
) -> np.ndarray:
    """(N,) half widths of the cross-sections that reach as far out in the photo as the points `outer` of the plane do.

    Beside a head that is turned, what reaches furthest is the back of the hair. behind: (N,) depths of the sections there, metres.
    """
    widths = np.arange(MIN_HALF_M, WIDEST_M + STEP_M, STEP_M)
    angle = np.linspace(-np.pi / 2, np.pi / 2, SECTION_POINTS)
    across, along = np.abs(np.cos(angle)) ** (2 / ROUNDNESS), np.abs(np.sin(angle)) ** (2 / ROUNDNESS) * np.sign(angle)
    half = []
    for reach, height, depth in zip(outer, heights, behind, strict=True):
        z = plane + along * np.where(along > 0, FRONT_M, depth)
        section = np.stack(np.broadcast_arrays(side * widths[:, None] * across, height, z), -1)
        (middle, edge), _ = camera.project(np.array([[0, height, plane], [side * reach, height, plane]]))
        outward = (edge - middle) / np.linalg.norm(edge - middle)
        drawn = ((camera.project(section)[0] - middle) @ outward).max(1)
        half.append(np.interp((edge - middle) @ outward, drawn, widths))
    return np.array(half)
