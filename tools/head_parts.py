"""Eyeballs, rows of teeth and lashes of the default head, as pieces bound to controls; takes nothing of MakeHuman's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from avatar3d.head.model import EYE_DISC_POLAR_RAD, EYE_DISC_RADIUS, EYES, KAPPA_RAD, LASHES, TEETH


@dataclass
class Piece:
    """One connected material: render vertices, their binding to controls, faces and local texture coordinates."""

    part: np.ndarray
    vertices: np.ndarray
    bind: sp.csr_matrix
    faces: np.ndarray
    uv: np.ndarray
    surface: np.ndarray  # an id per vertex: equal ids are the same point of the same surface


def frame_points(centre: np.ndarray, size: float) -> np.ndarray:
    """The four controls of an affine frame: its centre and the ends of its three axes, (4,3)."""
    return np.vstack([centre, centre + size * np.eye(3)])


def frame_weights(points: np.ndarray, centre: np.ndarray, size: float) -> np.ndarray:
    """Weights (N,4) of `frame_points` that reproduce `points` (N,3) and any affine motion of them."""
    local = (points - centre) / size
    return np.c_[1.0 - local.sum(1), local]


def grid_faces(rows: int, columns: int, wrap: bool) -> np.ndarray:
    """Triangles of a rows × columns vertex grid, row-major; `wrap` joins the last column to the first."""
    index = np.arange(rows * columns).reshape(rows, columns)
    if wrap:
        index = np.c_[index, index[:, :1]]
    a, b, c, d = index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]
    return np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])


# Polar angles of the eyeball's rings in degrees from the optical axis: dense at the limbus, coarse behind.
EYE_RINGS_DEG = np.array([0, 7, 14, 19, 21.5, 23, 25, 29, 36, 46, 58, 72, 90, 115, 145, 180], float)
EYE_SEGMENTS = 32
# The cornea stands before the ball's sphere and is curved more, so that a lamp's reflection lies on the iris, small and lively.
CORNEA_M, CORNEA_REACH_DEG = 0.0007, 23.0  # at the pole; down to nothing at the limbus


def eyeball(centre: np.ndarray, radius: float, controls: np.ndarray, columns: int, side: int) -> Piece:
    """A sphere with its pole on the optical axis, KAPPA_RAD outward of +Z, and a polar texture disc (iris in the middle)."""
    polar = np.radians(EYE_RINGS_DEG)[:, None]
    # The pole rows are rings too (32 coincident vertices): every triangle then has its own well-defined texture.
    azimuth = (np.arange(EYE_SEGMENTS) * 2 * np.pi / EYE_SEGMENTS)[None]
    if side < 0:
        azimuth = np.pi - azimuth
    direction = np.stack(
        [
            np.sin(polar) * np.cos(azimuth),
            np.sin(polar) * np.sin(azimuth),
            np.broadcast_to(np.cos(polar), (len(polar), EYE_SEGMENTS)),
        ],
        -1,
    )
    outward = side * KAPPA_RAD
    turn = np.array([[np.cos(outward), 0, np.sin(outward)], [0, 1, 0], [-np.sin(outward), 0, np.cos(outward)]])
    direction = direction @ turn.T
    disc = np.interp(polar, EYE_DISC_POLAR_RAD, EYE_DISC_RADIUS)
    uv = 0.5 + 0.5 * disc[..., None] * np.stack([np.cos(azimuth), -np.sin(azimuth)], -1)
    rows, count = len(polar), EYE_SEGMENTS
    faces = grid_faces(rows, count, wrap=True)
    keep = np.ones(len(faces), bool)
    half = len(faces) // 2
    keep[half : half + count] = False  # triangles that collapse at the front pole
    keep[half - count : half] = False  # and at the back pole
    faces = faces[keep]
    if side < 0:
        faces = faces[:, ::-1]
    flat = direction.reshape(-1, 3)
    share = np.clip(1 - (EYE_RINGS_DEG / CORNEA_REACH_DEG) ** 2, 0, 1) ** 2
    points = centre + (radius + CORNEA_M * np.repeat(share, EYE_SEGMENTS))[:, None] * flat
    weights = frame_weights(points, centre, radius)
    bind = sp.csr_matrix(
        (weights.ravel(), (np.repeat(np.arange(len(points)), 4), np.tile(controls, len(points)))), (len(points), columns)
    )
    surface = np.arange(len(points))
    surface[:count] = 0
    surface[-count:] = surface[-count]
    return Piece(np.full(len(points), EYES), points, bind, faces, uv.reshape(-1, 2), surface)


# Crown widths and heights in metres from the midline outwards (Wheeler's dental anatomy, rounded).
UPPER_WIDTHS = np.array([8.4, 6.6, 7.5, 7.0, 6.8]) * 1e-3
UPPER_HEIGHTS = np.array([10.5, 10.0, 11.4, 10.8, 10.4]) * 1e-3
LOWER_WIDTHS = np.array([5.3, 5.8, 6.7, 6.9, 7.0]) * 1e-3
LOWER_HEIGHTS = np.array([8.2, 8.4, 9.2, 8.2, 7.6]) * 1e-3
# How far each biting edge stands from the row's line toward the gum: lateral incisors are short, premolars meet edge to edge.
UPPER_EDGES = np.array([0.0, 0.6, 0.3, 1.4, 2.2]) * 1e-3
LOWER_EDGES = np.array([0.0, 0.1, 0.0, 0.9, 1.3]) * 1e-3
ARCH_POWER = 2.5  # of the arch's curve z(x); the mouth's inner wall behind smiling lips follows it
# Seat of the rows against the lip line (MakeHuman's upper strip ends on it) and the strip's front, metres: the upper edges
# hang 3.2 mm below the lip line, overlap the lower ones by 2.6 mm and stand 2.8 mm before them.
UPPER_EDGE_M, UPPER_FRONT_M = -0.0032, 0.0011
LOWER_EDGE_M, LOWER_FRONT_M = -0.0006, -0.0017
UPPER_ARCH_M, LOWER_ARCH_M = (0.0262, 0.0262), (0.0252, 0.0230)  # half width, depth
# MakeHuman's jawOpen parts the lips by more than it drops the lower teeth; this gain keeps them behind the lower lip.
JAW_OPEN_TEETH = 1.15
TOOTH_DEPTH_M = 0.0052
TOOTH_AROUND, TOOTH_ALONG = 8, 5


def superellipse(angle: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of `angle` raised to `power` with their signs: below 1 squares the ellipse."""
    c, s = np.cos(angle), np.sin(angle)
    return np.sign(c) * np.abs(c) ** power, np.sign(s) * np.abs(s) ** power


def teeth_row(
    upper: bool,
    edge_y: float,
    front_z: float,
    half_width: float,
    depth: float,
    controls: np.ndarray,
    frame: tuple[np.ndarray, float],
    columns: int,
) -> list[Piece]:
    """Rounded crowns and a scalloped gum on a parabolic arch.

    edge_y: biting edge; front_z: labial face of the incisors; half_width, depth: of the arch, metres.
    """
    if upper:
        widths, heights, edges = UPPER_WIDTHS, UPPER_HEIGHTS, UPPER_EDGES
    else:
        widths, heights, edges = LOWER_WIDTHS, LOWER_HEIGHTS, LOWER_EDGES
    sign = 1.0 if upper else -1.0
    x = np.linspace(0.0, half_width, 600)
    z = front_z - TOOTH_DEPTH_M / 2 - depth * (x / half_width) ** ARCH_POWER
    length = np.r_[0.0, np.cumsum(np.hypot(np.diff(x), np.diff(z)))]
    crown_v, crown_f, crown_uv = [], [], []
    offset = 0
    along = np.linspace(0.0, 1.0, TOOTH_ALONG)  # 0 at the biting edge, 1 at the neck
    around = np.arange(TOOTH_AROUND) * 2 * np.pi / TOOTH_AROUND
    centres = np.cumsum(widths) - widths / 2
    used = centres + widths / 2 <= length[-1]
    for side in (1.0, -1.0):
        for w, h, edge, s in zip(widths[used], heights[used], edges[used], centres[used], strict=True):
            px, pz = np.interp(s, length, x), np.interp(s, length, z)
            tx = np.interp(s + 5e-4, length, x) - np.interp(s - 5e-4, length, x)
            tz = np.interp(s + 5e-4, length, z) - np.interp(s - 5e-4, length, z)
            tangent = np.array([tx, 0.0, tz]) / np.hypot(tx, tz)
            outward = np.array([-tangent[2], 0.0, tangent[0]])
            # A crown: widest a third above the edge, thin at the edge, narrower at the neck.
            half_w = 0.56 * w * np.interp(along, [0, 0.12, 0.35, 1], [0.97, 1.0, 1.0, 0.90])
            half_d = 0.5 * TOOTH_DEPTH_M * np.interp(along, [0, 0.12, 0.35, 1], [0.30, 0.48, 0.72, 1.0])
            lean = 0.5 * TOOTH_DEPTH_M * np.interp(along, [0, 0.35, 1], [0.45, 0.28, 0.0])
            cx, sz = superellipse(around, 0.65)
            local_x = half_w[:, None] * cx[None]
            local_z = half_d[:, None] * sz[None] + lean[:, None]
            points = (
                np.array([px, edge_y, pz])
                + local_x[..., None] * tangent
                + local_z[..., None] * outward
                + (sign * (edge + (h - edge) * along))[:, None, None] * np.array([0.0, 1.0, 0.0])
            )
            tip = np.array([px, edge_y + sign * (edge - 0.0003), pz]) + lean[0] * outward
            points = np.vstack([points.reshape(-1, 3), tip])
            faces = grid_faces(TOOTH_ALONG, TOOTH_AROUND, wrap=True)
            ring = np.arange(TOOTH_AROUND)
            faces = np.vstack([faces, np.c_[ring, np.roll(ring, -1), np.full(TOOTH_AROUND, len(points) - 1)]])
            points[:, 0] *= side
            if not _points_outward(points, faces):
                faces = faces[:, ::-1]
            crown_v.append(points)
            crown_f.append(faces + offset)
            offset += len(points)
            u = 0.5 + side * (s + w * 0.5 * np.r_[np.tile(np.cos(around), TOOTH_ALONG), 0.0]) / (2 * length[-1])
            crown_uv.append(np.c_[u, np.r_[np.repeat(along, TOOTH_AROUND) * 0.9 + 0.1, 0.0]])
    crowns = np.vstack(crown_v)
    # The gum: a band along the arch from behind the necks over the crest and down the vestibule.
    total = centres[used][-1] + widths[used][-1] / 2
    stations = np.linspace(-1.0, 1.0, 33)
    s = np.abs(stations) * min(total, length[-1])
    px, pz = np.interp(s, length, x) * np.sign(stations), np.interp(s, length, z)
    tangent = np.gradient(np.c_[px, pz], axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    outward = np.c_[-tangent[:, 1], np.zeros(len(s)), tangent[:, 0]]
    outward *= np.sign(outward[:, 2:] + 1e-9)
    neck_height = np.interp(s, centres[used], heights[used])
    scallop = 0.0009 * np.cos(2 * np.pi * np.interp(s, np.r_[0, np.cumsum(widths[used])], np.arange(used.sum() + 1.0)))
    profile = [(-0.55, 1.0), (-0.62, 0.92), (0.0, 0.86), (0.48, 0.93), (0.60, 1.06), (0.56, 1.25), (0.40, 1.45)]
    band = []
    for d, k in profile:
        height = neck_height * k - (scallop if k < 1.0 else 0.0)
        band.append(np.c_[px, edge_y + sign * height, pz] + d * TOOTH_DEPTH_M * outward)
    gum = np.stack(band, 1)
    faces = grid_faces(len(s), len(profile), wrap=False)
    gum_points = gum.reshape(-1, 3)
    normal = np.cross(gum_points[faces[:, 1]] - gum_points[faces[:, 0]], gum_points[faces[:, 2]] - gum_points[faces[:, 0]])
    labial = normal[:, 2] * 1.0
    if labial[np.abs(gum_points[faces].mean(1)[:, 0]) < 0.01].sum() * 1.0 < 0:
        faces = faces[:, ::-1]
    gum_uv = np.stack(np.meshgrid(0.5 + 0.5 * stations, np.linspace(0, 1, len(profile)), indexing="ij"), -1).reshape(-1, 2)
    pieces = []
    for points, triangles, uv in ((crowns, np.vstack(crown_f), np.vstack(crown_uv)), (gum_points, faces, gum_uv)):
        weights = frame_weights(points, *frame)
        bind = sp.csr_matrix(
            (weights.ravel(), (np.repeat(np.arange(len(points)), 4), np.tile(controls, len(points)))), (len(points), columns)
        )
        pieces.append(Piece(np.full(len(points), TEETH), points, bind, triangles, uv, np.arange(len(points))))
    return pieces


def _points_outward(points: np.ndarray, faces: np.ndarray) -> bool:
    a, b, c = (points[faces[:, k]] - points.mean(0) for k in range(3))
    return float((np.cross(a, b) * c).sum()) > 0


# A lid's lashes are one sheet: strands thinner than a pixel would glitter, a sheet whose cover varies along the rim does not.
UPPER_LASHES, LOWER_LASHES = 26, 15  # columns of a sheet, by turns a lash and the gap beside it
LASH_ROWS = (0.0, 0.4, 0.75, 1.0)  # of a lash's length
LASH_COVER, GAP_COVER = 0.85, 0.25  # at the root; toward the tips both fall to nothing


@dataclass
class Lashes:
    """The sheet of one lid rim: its geometry, and for each vertex its root's weights, offset and the eye centre's control."""

    piece: Piece
    roots: sp.csr_matrix
    offsets: np.ndarray
    centre: np.ndarray
    centre_control: int


def lash_sheet(
    rim: np.ndarray, rim_index: np.ndarray, centre: np.ndarray, centre_control: int, upper: bool, columns: int
) -> tuple[Lashes, np.ndarray]:
    """The lashes along a lid rim and their cover (N,) in [0, 1].

    rim (N,3) ordered from the inner to the outer corner; rim_index (N,) the controls of those points. The sheet is made
    twice, facing both ways, so that it needs no two-sided material.
    """
    rng = np.random.default_rng(1)
    count = 2 * (UPPER_LASHES if upper else LOWER_LASHES) + 1
    arc = np.r_[0.0, np.cumsum(np.linalg.norm(np.diff(rim, axis=0), axis=1))]
    side = np.sign(centre[0])
    along = np.array(LASH_ROWS)[:, None]
    vertices, uv, rows, cols, data, offsets, cover = [], [], [], [], [], [], []
    for column, q in enumerate(np.linspace(0.06, 0.98, count)):
        is_lash = column % 2 == 1
        s = q * arc[-1]
        k = int(np.clip(np.searchsorted(arc, s) - 1, 0, len(rim) - 2))
        t = (s - arc[k]) / (arc[k + 1] - arc[k])
        root = (1 - t) * rim[k] + t * rim[k + 1]
        radial = (root - centre) / np.linalg.norm(root - centre)
        longest = 0.0072 if upper else 0.0040
        length = longest * (0.55 + 0.45 * np.sin(np.pi * np.clip(0.15 + 0.75 * q, 0, 1)))
        length *= 0.85 + 0.25 * rng.random() if is_lash else 0.62
        fan = (q - 0.42) * 0.9
        forward = radial * np.array([0.9, 0.35 if upper else 0.55, 1.0]) + fan * side * np.array([1.0, 0, 0]) * 0.6
        forward /= np.linalg.norm(forward)
        curl = np.array([0.0, 1.0, 0.0]) * (0.75 * along**2 - 0.12 * along) * (1 if upper else -0.55)
        spine = root + radial * 1.5e-4 + length * (0.85 * along * forward + curl)
        # The sheet fades toward both corners of the eye, where lashes thin out.
        ends = np.clip(min(q - 0.04, 1.0 - q) / 0.12, 0, 1)
        strength = (LASH_COVER * (0.75 + 0.25 * rng.random()) if is_lash else GAP_COVER) * (1.0 if upper else 0.55) * ends
        cover.append(strength * (1 - along[:, 0] ** 1.5))
        uv.append(np.c_[np.full(len(along), q), along[:, 0]])
        for point in spine:
            rows += [len(rows) // 2] * 2
            cols += [rim_index[k], rim_index[k + 1]]
            data += [1 - t, t]
            offsets.append(point - root)
        vertices.append(spine)
    height = len(LASH_ROWS)
    corner = (np.arange(count - 1)[:, None] * height + np.arange(height - 1)).ravel()
    front = np.concatenate(
        [np.c_[corner, corner + height, corner + 1], np.c_[corner + height, corner + height + 1, corner + 1]]
    )
    points = np.vstack(vertices)
    triangles = np.concatenate([front, front[:, ::-1] + len(points)])
    points, offsets_twice = np.tile(points, (2, 1)), np.tile(np.array(offsets), (2, 1))
    bind = sp.csr_matrix((data, (rows, cols)), (len(offsets), columns))
    bind = sp.csr_matrix(sp.vstack([bind, bind]))
    piece = Piece(np.full(len(points), LASHES), points, bind, triangles, np.tile(np.vstack(uv), (2, 1)), np.arange(len(points)))
    return Lashes(piece, bind, offsets_twice, centre, centre_control), np.tile(np.concatenate(cover), 2)


def lash_turn(lashes: Lashes, controls: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """What a lid's motion adds to its lashes beyond their roots' shift: they turn as the root turns about the eye, (N,3).

    controls, moved (C,3): neutral places and displacements of the controls.
    """
    rest = lashes.roots @ controls - lashes.centre
    after = rest + lashes.roots @ moved
    a = rest / np.linalg.norm(rest, axis=1, keepdims=True)
    b = after / np.linalg.norm(after, axis=1, keepdims=True)
    axis, cosine = np.cross(a, b), (a * b).sum(1, keepdims=True)
    o = lashes.offsets
    # Rodrigues' formula for the least rotation that takes a to b.
    turned = o * cosine + np.cross(axis, o) + axis * (axis * o).sum(1, keepdims=True) / (1 + cosine)
    return np.where(np.linalg.norm(after - rest, axis=1, keepdims=True) > 1e-7, turned - o, 0.0)
