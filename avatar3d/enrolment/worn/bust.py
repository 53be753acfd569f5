"""The bust below a head: neck, shoulders and chest as a grid about a plumb axis, as wide as the photo shows the person; no colours.

Columns are azimuths, column 0 the back. Rows run down the surface from a ring about the neck to a hem that is cut and closed. The
neck and what the head model has of shoulders is the model's own surface; beyond, sections of a body at each height take over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
from scipy.ndimage import gaussian_filter1d, map_coordinates, median_filter

from avatar3d.camera import Camera
from avatar3d.geometry import smoothstep
from avatar3d.head.model import SKIN, HeadModel

COLUMNS, ROWS = 64, 20  # of the grid: an outline's polygon stays within 0.3 mm of round at the shoulders
# An adult's sections, metres: height, half width, front, back (of MakeHuman's average bust down to -0.2,
# shoulders 41 cm wide below: the bideltoid breadth of women and men, 38 to 49 cm, ANSUR II). The hem cuts below the collar bones.
_SECTIONS = np.array(
    [
        (-0.110, 0.053, -0.030, -0.136), (-0.130, 0.064, -0.036, -0.141), (-0.140, 0.074, -0.039, -0.146),
        (-0.150, 0.090, -0.043, -0.150), (-0.160, 0.115, -0.047, -0.158), (-0.170, 0.139, -0.050, -0.167),
        (-0.185, 0.162, -0.047, -0.177), (-0.200, 0.178, -0.037, -0.184), (-0.220, 0.191, -0.025, -0.190),
        (-0.250, 0.200, -0.010, -0.196), (-0.290, 0.205, 0.002, -0.199), (-0.360, 0.207, 0.008, -0.199),
    ]
)  # fmt: skip
_SLOPE_M = (0.10, -0.154, -0.098)  # where the slope between neck and shoulder lies: distance from the middle, height, depth
# Exponent of the super-elliptic sections by height: hollows lie over the collar bones
_ROUNDNESS = ((-0.26, -0.17), (2.6, 1.45))
_EYES_M = 0.0584  # apart on the template, whose lengths all of these are: they grow with the head
_AXIS_Z_M = -0.098  # of the plumb axis, inside of neck and chest
_LOW_M = -0.30  # height of the point that rays across the shoulders start from
_TOP_M = -0.102  # height of the first ray
_NECK_SHARE, _NECK_STEEP = 0.45, np.radians(53.0)  # of the rays go up the neck, ever steeper,
_LEVEL = np.radians(-14.0)  # and the others fan down to this
RAYS = 96  # a column
# Where a bare neck ends and shoulders begin: behind, at the sides, in front.
_BASE_M = (-0.148, -0.150, -0.170)
_FLARE, _EVEN_COLUMNS = 1.22, 1.5  # or, higher, where it is so much wider than at its slimmest; evened around
_BLEND_M = (0.010, 0.055)  # below that, along the surface, the sections take over from the head model
_HEM_M = (-0.316, -0.308, -0.320)  # height of the cut: behind, at the sides, in front
_STEP_M = 0.003
# How far the photo's outline may pull the sections: shoulders sit higher or lower, and are narrower or wider.
_LIFT_M, _NARROWEST, _WIDEST = 0.045, 0.80, 1.28
_MIN_WIDTH_M = 0.045
_OUTLINE_FROM_M = (0.142, 0.185)  # this far down: beside the neck the outline is a collar's, or hair's
_RETURN_M = 0.05  # below what the photo shows, the outline goes back to the usual one
_SMOOTH_ROWS = 7  # of heights, 3 mm each


def by_azimuth(values: tuple[float, float, float], azimuth: np.ndarray) -> np.ndarray:
    """Of (behind, at the sides, in front), smooth in the azimuth (radians, 0 to the front)."""
    behind, side, front = values
    ahead = np.cos(azimuth)
    return side + np.where(ahead > 0, front - side, behind - side) * ahead**2


def azimuths(columns: int = COLUMNS) -> np.ndarray:
    """(columns,) radians, from −π at the back over 0 in front."""
    return (np.arange(columns) / columns * 2 - 1) * np.pi


def grid_normals(points: np.ndarray) -> np.ndarray:
    """(R, C, 3) unit normals of a grid (R, C, 3) whose rows run down and whose columns run around to the left, periodic."""
    down = np.gradient(points, axis=0)
    around = np.roll(points, -1, 1) - np.roll(points, 1, 1)
    normal = np.cross(down, around)
    return normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)


def enlarged(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """(rows, columns, ...) at a picture's texels of (r, c, ...) at the grid's points."""
    r, c = values.shape[:2]
    wide = np.concatenate([values, values[:, :1]], 1).astype(np.float32)
    x = (np.arange(columns, dtype=np.float32) + 0.5) / columns * c
    y = np.clip((np.arange(rows, dtype=np.float32) + 0.5) / rows * (r - 1), 0, r - 1)
    xs, ys = np.meshgrid(x, y)
    return cv2.remap(wide, xs, ys, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


@dataclass(frozen=True)
class Body:
    """A body's sections by height: heights (H,) falling; widths (2, H) of the right (x < 0) and left side; front, back (H,).

    shift: (3,) of the person's shoulders against the usual. All are in metres at the template's size; scale: the head's over that.
    """

    heights: np.ndarray
    widths: np.ndarray
    front: np.ndarray
    back: np.ndarray
    shift: np.ndarray
    scale: float

    @classmethod
    def usual(cls, vertices: np.ndarray, head: HeadModel) -> Body:
        """An adult's, moved to where the shoulders of a head's vertices (V, 3) slope from the neck."""
        scale = float(np.linalg.norm(np.diff(head.eye_centres(head.vertices), axis=0))) / _EYES_M
        skin = ((head.regions["bust"] > 0) | (head.regions["neck"] > 0.2)) & (head.vertex_part == SKIN)
        vertices = vertices / scale
        slope = skin & (np.abs(np.abs(vertices[:, 0]) - _SLOPE_M[0]) < 0.015) & (head.normals(vertices)[:, 1] > 0.5)
        height = float(np.median(vertices[slope, 1])) if slope.any() else _SLOPE_M[1]  # a model may end at the neck
        shift = np.array([0.0, height - _SLOPE_M[1], float(vertices[skin, 2].mean()) - _SLOPE_M[2]])
        heights = np.arange(_SECTIONS[0, 0], _SECTIONS[-1, 0], -_STEP_M)
        width, front, back = (np.interp(-heights, -_SECTIONS[:, 0], _SECTIONS[:, k]) for k in (1, 2, 3))
        return cls(heights + shift[1], np.stack([width, width]), front + shift[2], back + shift[2], shift, scale)

    @property
    def axis_z(self) -> float:
        return _AXIS_Z_M + float(self.shift[2])

    def as_seen(self, camera: Camera, person: np.ndarray, unknown: np.ndarray) -> Body:
        """The body with the photo's outline, within bounds.

        person: (H, W) matte in [0, 1]. unknown: (H, W) bool, outside the photo, or hair before or beside the shoulders.
        """
        widths = np.stack([self._seen_width(camera, person, unknown, side) for side in (0, 1)])
        return replace(self, widths=widths)

    def _seen_width(self, camera: Camera, person: np.ndarray, unknown: np.ndarray, side: int) -> np.ndarray:
        usual = self.widths[side]
        across = np.arange(0.0, 1.5 * usual.max(), 0.002)
        sign = 2 * side - 1
        points = np.stack(np.broadcast_arrays(sign * across[None], self.heights[:, None], self.axis_z), -1)
        pixels = camera.project(self.scale * points.reshape(-1, 3))[0].reshape(points.shape[:2] + (2,))
        places = [pixels[..., 1] - 0.5, pixels[..., 0] - 0.5]
        seen = map_coordinates(person.astype(np.float32), places, order=1, mode="constant") > 0.5
        hidden = map_coordinates(unknown.astype(np.float32), places, order=1, mode="constant", cval=1.0) > 0.5
        end = np.where(seen.all(1), len(across), np.argmin(seen, axis=1))
        at_end = np.minimum(end, len(across) - 1)
        rows = np.arange(len(end))
        told = (end > 0) & (end < len(across)) & ~hidden[rows, at_end] & ~hidden[rows, np.maximum(at_end - 3, 0)]
        narrow = _NARROWEST * np.interp(-self.heights - _LIFT_M, -self.heights, usual)
        wide = _WIDEST * np.interp(-self.heights + _LIFT_M, -self.heights, usual)
        told &= (across[at_end] > 0.7 * narrow) & (across[at_end] < 1.3 * wide)
        if told.sum() < 2 * _SMOOTH_ROWS:
            return usual
        ratio = np.interp(-self.heights, -self.heights[told], across[at_end][told] / usual[told])
        beyond = np.maximum(self.heights[told].min() - self.heights, 0)  # below the photo
        ratio = 1 + (ratio - 1) * np.exp(-beyond / _RETURN_M)
        ratio = cv2.GaussianBlur(median_filter(ratio, _SMOOTH_ROWS)[:, None], (1, 4 * _SMOOTH_ROWS + 1), 0.5 * _SMOOTH_ROWS)[
            :, 0
        ]
        ratio = 1 + (ratio - 1) * smoothstep(*_OUTLINE_FROM_M, -(self.heights - self.shift[1]))
        width = np.clip(ratio * usual, np.maximum(narrow, _MIN_WIDTH_M), wide)
        return np.maximum.accumulate(width)

    def beyond(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Level function of points: negative inside."""
        at, heights = -y, -self.heights
        width = np.where(x < 0, np.interp(at, heights, self.widths[0]), np.interp(at, heights, self.widths[1]))
        reach = z - self.axis_z
        depth = np.where(
            reach > 0, np.interp(at, heights, self.front) - self.axis_z, self.axis_z - np.interp(at, heights, self.back)
        )
        power = np.interp(y - self.shift[1], *_ROUNDNESS)
        return (np.abs(x) / width) ** power + (np.abs(reach) / np.maximum(depth, 0.02)) ** power - 1


@dataclass(frozen=True)
class BustSurface:
    """points: (RAYS, COLUMNS, 3) metres, from the top of the neck down. top: (COLUMNS,) rows where the neck begins; base, hem:
    (COLUMNS,) fractional rows where the shoulders begin and where the bust is cut. axis_z: metres."""

    points: np.ndarray
    top: np.ndarray
    base: np.ndarray
    hem: np.ndarray
    axis_z: float

    def along(self, rows: np.ndarray) -> np.ndarray:
        """(COLUMNS,) metres along the surface, from its top down to fractional rows (COLUMNS,)."""
        lengths = np.linalg.norm(np.diff(self.points, axis=0), axis=2)
        total = np.concatenate([np.zeros((1, lengths.shape[1])), np.cumsum(lengths, axis=0)])
        index = np.arange(len(total))
        return np.array([np.interp(row, index, column) for row, column in zip(rows, total.T, strict=True)])

    def rows(self, ring: np.ndarray, count: int) -> np.ndarray:
        """(count, COLUMNS, 3) points at equal steps along the surface, from fractional rows `ring` (COLUMNS,) to the hem."""
        out = np.empty((count, self.points.shape[1], 3))
        index = np.arange(len(self.points))
        for column in range(self.points.shape[1]):
            line = self.points[:, column]
            along = np.r_[0, np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))]
            first, last = np.interp([ring[column], self.hem[column]], index, along)
            places = np.interp(np.linspace(first, last, count), along, index)
            low = np.minimum(places.astype(int), len(line) - 2)
            out[:, column] = line[low] + (places - low)[:, None] * (line[low + 1] - line[low])
        return out


def bust_surface(vertices: np.ndarray, head: HeadModel, body: Body) -> BustSurface:
    """The bust of a head's neutral vertices (V, 3) with the given body."""
    vertices = vertices / body.scale
    angle = azimuths()
    share = np.linspace(0, 1, RAYS)
    up = np.clip(share / _NECK_SHARE, 0, 1)
    down = np.clip((share - _NECK_SHARE) / (1 - _NECK_SHARE), 0, 1)
    start = _TOP_M + (_LOW_M - _TOP_M) * up + body.shift[1]
    elevation = _NECK_STEEP * up + (_LEVEL - _NECK_STEEP) * down
    of_head = _model_hits(vertices, head, body.axis_z, angle, start, elevation)
    of_body = _body_hits(body, angle, start, elevation)
    of_head, top = _whole_above(of_head)
    places = _points(np.where(np.isfinite(of_head), of_head, of_body), angle, start, elevation, body.axis_z)
    base = _neck_end(places, top, by_azimuth(_BASE_M, angle) + body.shift[1], body.axis_z)
    along = np.cumsum(np.linalg.norm(np.diff(places, axis=0, prepend=places[:1]), axis=2), axis=0)
    from_base = along - np.take_along_axis(along, np.rint(base).astype(int)[None], 0)
    own = np.where(np.isfinite(of_head), smoothstep(*_BLEND_M, from_base), 1.0)
    own = np.maximum.accumulate(own, axis=0)
    reach = np.where(own < 1, (1 - own) * np.nan_to_num(of_head), 0) + own * of_body
    soft = _blurred(reach)
    reach += smoothstep(0.0, 0.5, own) * (soft - reach)
    points = _points(reach, angle, start, elevation, body.axis_z)
    hem = _row_at(points[..., 1], by_azimuth(_HEM_M, angle) + body.shift[1])
    return BustSurface(body.scale * points, top, base, hem, body.scale * body.axis_z)


def _neck_end(places: np.ndarray, top: np.ndarray, lowest: np.ndarray, axis_z: float) -> np.ndarray:
    """(columns,) fractional row where the neck flares out to the shoulders, at the latest at heights `lowest` (columns,)."""
    rows = np.arange(len(places))[:, None]
    reach = np.hypot(places[..., 0], places[..., 2] - axis_z)
    of_neck = (rows >= top) & (places[..., 1] > lowest)
    narrowest = np.where(of_neck, reach, np.inf)
    slim = np.argmin(narrowest, axis=0)
    flared = (rows > slim) & (reach > _FLARE * narrowest.min(0)) & np.isfinite(narrowest.min(0))
    first = np.where(flared.any(0), np.argmax(flared, axis=0), len(places))
    base = np.minimum(first, _row_at(places[..., 1], lowest))
    return gaussian_filter1d(base, _EVEN_COLUMNS, mode="wrap")


def _whole_above(hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hits (rays, columns) with the first of each column repeated above it, and the (columns,) row of that first one."""
    found = np.isfinite(hits)
    first = np.where(found.any(0), np.argmax(found, axis=0), 0)
    above = np.arange(len(hits))[:, None] < first
    return np.where(above, np.take_along_axis(hits, first[None], 0), hits), first


def _points(reach: np.ndarray, angle: np.ndarray, start: np.ndarray, elevation: np.ndarray, axis_z: float) -> np.ndarray:
    """Points at distances `reach` (..., rays, columns) along the rays."""
    flat = reach * np.cos(elevation)[:, None]
    height = start[:, None] + reach * np.sin(elevation)[:, None]
    return np.stack([flat * np.sin(angle), height, flat * np.cos(angle) + axis_z], -1)


def _row_at(heights: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(columns,) fractional row where each column of (rows, columns) heights first falls below what is wanted."""
    below = heights < wanted
    row = np.where(below.any(0), np.argmax(below, axis=0), len(heights) - 1)
    before = np.maximum(row - 1, 0)
    columns = np.arange(heights.shape[1])
    high, low = heights[before, columns], heights[row, columns]
    return before + np.clip((high - wanted) / np.maximum(high - low, 1e-9), 0, 1)


def _blurred(values: np.ndarray) -> np.ndarray:
    wide = np.concatenate([values[:, -4:], values, values[:, :4]], 1)
    return cv2.GaussianBlur(wide, (0, 0), 1.2, borderType=cv2.BORDER_REPLICATE)[:, 4:-4]


def _model_hits(
    vertices: np.ndarray, head: HeadModel, axis_z: float, angle: np.ndarray, start: np.ndarray, elevation: np.ndarray
) -> np.ndarray:
    """(rays, columns) metres to the outermost skin of the model's neck and bust, NaN where there is none: each half plane is cut."""
    of_neck = (head.regions["neck"] > 0.2) | (head.regions["bust"] > 0)
    faces = head.faces[of_neck[head.faces].all(1) & (head.part == SKIN)]
    corners = vertices[faces].astype(np.float64) - (0, 0, axis_z)
    outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    cosine, sine = np.cos(elevation)[:, None], np.sin(elevation)[:, None]
    found = np.full((len(start), len(angle)), np.nan)
    for column, theta in enumerate(angle):
        ahead = np.array([np.sin(theta), 0, np.cos(theta)])
        beside = corners @ (np.cos(theta), 0, -np.sin(theta))
        cut = np.flatnonzero((beside.min(1) < 0) & (beside.max(1) >= 0))
        ends = _crossings(corners[cut], beside[cut])
        flat, height = ends @ ahead, ends[..., 1]
        near = flat.min(1) > 0
        (r0, r1), (y0, y1) = flat[near].T, height[near].T
        out = outward[cut][near]
        faces_ray = cosine * (out @ ahead) + sine * out[:, 1] > 0
        # (0, start) + t (cos, sin) = (r0, y0) + s (r1 - r0, y1 - y0)
        dr, dy = r1 - r0, y1 - y0
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = cosine * dy - sine * dr
            t = (r0 * dy - (y0 - start[:, None]) * dr) / cross
            s = (r0 * sine - (y0 - start[:, None]) * cosine) / cross
            hit = faces_ray & (s > -1e-6) & (s < 1 + 1e-6) & (t > 0.01)
        t = np.where(hit, t, -np.inf).max(1, initial=-np.inf)
        found[:, column] = np.where(np.isfinite(t), t, np.nan)
    return found


def _crossings(corners: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """(F, 2, 3) ends of where faces (F, 3, 3) cross a plane that their corners lie `beside` (F, 3), on both sides."""
    lone = np.where((beside >= 0).sum(1) == 1, np.argmax(beside >= 0, axis=1), np.argmax(beside < 0, axis=1))
    rows = np.arange(len(lone))
    ends = []
    for step in (1, 2):
        other = (lone + step) % 3
        a, b = beside[rows, lone], beside[rows, other]
        share = (a / (a - b))[:, None]
        ends.append(corners[rows, lone] + share * (corners[rows, other] - corners[rows, lone]))
    return np.stack(ends, 1)


def _body_hits(body: Body, angle: np.ndarray, start: np.ndarray, elevation: np.ndarray) -> np.ndarray:
    """(rays, columns) metres to the body's sections, outermost."""
    steps = np.arange(0.03, 0.36, 0.004)
    reach = np.broadcast_to(steps[:, None, None], (len(steps), len(start), len(angle)))
    points = _points(reach, angle, start, elevation, body.axis_z)
    level = body.beyond(points[..., 0], points[..., 1], points[..., 2])
    level[points[..., 1] > body.heights[0]] = 1.0
    inside = level < 0
    last = np.where(inside.any(0), len(steps) - 1 - np.argmax(inside[::-1], axis=0), 0)
    after = np.minimum(last + 1, len(steps) - 1)
    a, b = (np.take_along_axis(level, at[None], 0)[0] for at in (last, after))
    return steps[last] + (steps[1] - steps[0]) * np.clip(-a / np.maximum(b - a, 1e-9), 0, 1)
