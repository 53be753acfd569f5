"""Glasses as geometry: rims, bridge and temples as tubes before the face, lenses within the rims; rigid with the head."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.spatial import cKDTree

from avatar3d.avatar import PART_GLASSES, PART_LENS
from avatar3d.camera import Camera
from avatar3d.color import to_u8
from avatar3d.enrolment.worn.attach import WornPart
from avatar3d.enrolment.worn.glasses import TINTED_LENS_ALPHA, Glasses
from avatar3d.head.model import SKIN, HeadModel

TILT = 0.12  # the lenses' lower edge lies nearer to the face: seven degrees, usual for frames
WRAP_PER_M = 1.2  # they go back toward the temples by this times the square of the distance from the middle
NEAREST_M, FARTHEST_M = 0.020, 0.036  # of the lenses' plane before the eyes' centres
CLEAR_M = 0.0030  # a rim stands off the skin so far
CLEAR_QUANTILE = 0.85  # of the rims; the rest may touch
RIM_M = (0.0008, 0.0060)  # thickness seen from in front
RIM_DEPTH_M = 0.0015  # half of it, seen from the side
SIDES, BRIDGE_STEPS, TEMPLE_STEPS = 6, 8, 12
BRIDGE_FORWARD_M, BRIDGE_UP_M = 0.002, 0.0015
HINGE = 66  # angle of the rims, of 72: above the temple's side
TEMPLE_HALF_M = (0.0008, 0.0018)  # across and high
HOOK_M = np.array([0.0, -0.026, -0.016])  # behind the ear
BESIDE_M = 0.0025  # temples run this far beside the head
LENS_ALPHA, LENS_SRGB = 0.03, (0.86, 0.90, 0.92)


def glasses_parts(glasses: Glasses, camera: Camera, vertices: np.ndarray, head: HeadModel) -> list[WornPart]:
    """Frame and lenses on a head's neutral vertices (V, 3), as the photo's camera shows them."""
    curves = _curves(glasses, camera, vertices, head)
    scale = float(camera.intrinsics[0, 0] / np.median(camera.project(curves.reshape(-1, 3))[1]))
    half = 0.5 * float(np.clip(glasses.thickness_px / scale, *RIM_M))
    pieces = [_tube(curve, half, RIM_DEPTH_M, closed=True) for curve in curves]
    pieces.append(_tube(_bridge(curves, glasses, camera), half, RIM_DEPTH_M, closed=False))
    for index, side in enumerate((-1.0, 1.0)):
        pieces.append(_tube(temple(curves[index], side, vertices, head), *TEMPLE_HALF_M, closed=False, upright=True))
    frame = _part(PART_GLASSES, pieces, glasses.color_srgb, 1.0)
    color, alpha = (glasses.lens_srgb, TINTED_LENS_ALPHA) if glasses.dark else (np.array(LENS_SRGB), LENS_ALPHA)
    lenses = _part(PART_LENS, [_disc(curve) for curve in curves], color, alpha)
    return [frame, lenses]


def temple_lines(glasses: Glasses, camera: Camera, vertices: np.ndarray, head: HeadModel) -> list[np.ndarray]:
    """(K, 2) photo pixels along each temple, from the hinge to the ear."""
    curves = _curves(glasses, camera, vertices, head)
    lines = [temple(curve, side, vertices, head)[:-3] for curve, side in zip(curves, (-1.0, 1.0), strict=True)]
    return [camera.project(line)[0] for line in lines]


def _curves(glasses: Glasses, camera: Camera, vertices: np.ndarray, head: HeadModel) -> np.ndarray:
    """(2, ANGLES, 3) metres, the middle lines of the rims: both alike, mirrored, as one frame is."""
    skin = vertices[(head.vertex_part == SKIN) & (vertices[:, 2] > -0.02)]
    place = max(NEAREST_M, 0.0)
    flat = np.stack([_on_plane(rim, camera, place) for rim in glasses.rims])
    _, near = cKDTree(skin[:, :2]).query(flat[..., :2].reshape(-1, 2), k=3)
    needed = skin[near][..., 2].max(1) + CLEAR_M - (flat[..., 2].reshape(-1) - place)
    place = float(np.clip(np.quantile(needed, CLEAR_QUANTILE), NEAREST_M, FARTHEST_M))
    curves = np.stack([_on_plane(rim, camera, place) for rim in glasses.rims])
    middle = float(curves[..., 0].mean(1).mean())
    mirrored = curves[::-1] * (-1, 1, 1) + (2 * middle, 0, 0)
    weight = glasses.trust / max(float(glasses.trust.sum()), 1e-6)
    curves = weight[:, None, None] * curves + weight[::-1, None, None] * mirrored
    return gaussian_filter1d(curves, 0.7, axis=1, mode="wrap")


def _on_plane(pixels: np.ndarray, camera: Camera, place: float) -> np.ndarray:
    """Points (..., 3) of photo pixels (..., 2) on the lenses' surface, `place` metres before the eyes' centres."""
    center = camera.center
    toward = camera.unproject(pixels, np.ones(pixels.shape[:-1])) - center
    height = np.full(pixels.shape[:-1], place)
    for _ in range(4):
        points = center + toward * ((height - center[2]) / toward[..., 2])[..., None]
        height = place + TILT * points[..., 1] - WRAP_PER_M * points[..., 0] ** 2
    return points


def _bridge(curves: np.ndarray, glasses: Glasses, camera: Camera) -> np.ndarray:
    """(BRIDGE_STEPS, 3) from rim to rim."""
    middle = _on_plane(glasses.bridge, camera, float(curves[..., 2].max()))
    ends = [curve[np.argmin(np.linalg.norm(curve[:, :2] - middle[:2], axis=1))] for curve in curves]
    share = np.linspace(0, 1, BRIDGE_STEPS)[:, None]
    arch = 1 - (2 * share - 1) ** 2
    return ends[0] + share * (ends[1] - ends[0]) + arch * (0, BRIDGE_UP_M, BRIDGE_FORWARD_M)


def temple(curve: np.ndarray, side: float, vertices: np.ndarray, head: HeadModel) -> np.ndarray:
    """(TEMPLE_STEPS + 3, 3) from the hinge of a rim (ANGLES, 3) past the head's side to the ear and behind it."""
    hinge = curve[HINGE] + (side * 0.002, 0, 0)
    ear = vertices[(head.regions["ears"] > 0.5) & (vertices[:, 0] * side > 0)]
    top = float(np.quantile(ear[:, 1], 0.93))
    upper = ear[ear[:, 1] > np.quantile(ear[:, 1], 0.75)]
    over = np.array([side * np.quantile(upper[:, 0] * side, 0.2), top, float(upper[:, 2].mean())])
    share = np.linspace(0, 1, TEMPLE_STEPS)[:, None]
    line = hinge + share * (over - hinge)
    skin = vertices[(head.vertex_part == SKIN) & (head.regions["ears"] < 0.3) & (vertices[:, 0] * side > 0)]
    _, near = cKDTree(skin[:, 1:]).query(line[:, 1:], k=3)
    beside = (skin[near][..., 0] * side).max(1) + BESIDE_M
    line[:, 0] = side * np.maximum(line[:, 0] * side, np.where(share[:, 0] > 0, beside, 0))
    hook = line[-1] + np.linspace(0, 1, 4)[1:, None] * HOOK_M
    return np.concatenate([line, hook])


_Piece = tuple[np.ndarray, np.ndarray, np.ndarray]  # vertices, faces, uv


def _tube(line: np.ndarray, half: float, half_depth: float, closed: bool, upright: bool = False) -> _Piece:
    """A tube along a line (K, 3): `half` wide in the lenses' plane, or across with `upright`, `half_depth` the other way."""
    count = len(line)
    along = np.roll(line, -1, 0) - np.roll(line, 1, 0) if closed else np.gradient(line, axis=0)
    other = np.array([0.0, 1.0, 0.0]) if upright else np.array([0.0, 0.0, 1.0])
    first = np.cross(along, other)
    first /= np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-9)
    second = np.cross(first, along)
    second /= np.maximum(np.linalg.norm(second, axis=1, keepdims=True), 1e-9)
    angle = np.arange(SIDES) / SIDES * 2 * np.pi
    ring = half * np.cos(angle)[:, None] * first[:, None] + half_depth * np.sin(angle)[:, None] * second[:, None]
    points = (line[:, None] + ring).reshape(-1, 3)
    index = np.arange(count * SIDES).reshape(count, SIDES)
    following = np.roll(index, -1, 0) if closed else index[1:]
    here = index if closed else index[:-1]
    a, b = here, np.roll(here, -1, 1)
    d, c = following, np.roll(following, -1, 1)
    faces = [np.stack([a, d, c], -1).reshape(-1, 3), np.stack([a, c, b], -1).reshape(-1, 3)]
    if not closed:
        fan = np.arange(1, SIDES - 1)
        faces.append(np.stack([np.full_like(fan, 0), fan, fan + 1], 1))
        last = (count - 1) * SIDES
        faces.append(np.stack([np.full_like(fan, last), last + fan + 1, last + fan], 1))
    uv = np.stack(np.broadcast_arrays((np.arange(count) / count)[:, None], ((np.arange(SIDES) + 0.5) / SIDES)[None]), -1)
    triangles = np.concatenate(faces)
    return points, _outward(points, triangles, line), uv.reshape(-1, 2)


def _outward(points: np.ndarray, faces: np.ndarray, line: np.ndarray) -> np.ndarray:
    """The faces (F, 3) turned so that they look away from the tube's middle line."""
    corner = points[faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    middle = corner.mean(1)
    _, near = cKDTree(line).query(middle)
    inward = ((middle - line[near]) * normal).sum(1) < 0
    return np.where(inward[:, None], faces[:, ::-1], faces)


def _disc(curve: np.ndarray) -> _Piece:
    """A lens within a rim (ANGLES, 3), facing ahead."""
    points = np.concatenate([curve, curve.mean(0, keepdims=True) + (0, 0, 0.001)])
    index = np.arange(len(curve))
    faces = np.stack([index, np.roll(index, -1), np.full_like(index, len(curve))], 1)
    corner = points[faces]
    away = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])[:, 2].sum() < 0
    return points, faces[:, ::-1] if away else faces, np.full((len(points), 2), 0.5)


def _part(part: int, pieces: list[_Piece], color_srgb: np.ndarray, alpha: float) -> WornPart:
    firsts = np.cumsum([0, *(len(points) for points, _, _ in pieces)])
    vertices = np.concatenate([points for points, _, _ in pieces])
    faces = np.concatenate([faces + first for (_, faces, _), first in zip(pieces, firsts[:-1], strict=True)])
    uv = np.concatenate([places for _, _, places in pieces])
    picture = np.broadcast_to(to_u8(np.asarray(color_srgb, np.float64)), (8, 16, 3)).copy()
    count = len(vertices)
    return WornPart(
        part, vertices.astype(np.float32), faces.astype(np.int32), uv, np.arange(count, dtype=np.int32),
        np.ones(count, np.float32), np.full(count, alpha, np.float32), picture, np.ones((8, 16), np.float32),
    )  # fmt: skip
