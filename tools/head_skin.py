"""The default head's skin: head, neck and shoulders cut from MakeHuman's body, its holes closed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from atlas import boundary_loops, fill_loop
from makehuman import MakeHuman
from scipy.sparse.csgraph import connected_components

# The bust's lower edge, head frame: an ellipse in x and y below BUST_ARC_TOP_M.
BUST_HALF_WIDTH_M, BUST_ARC_TOP_M, BUST_ARC_DEPTH_M = 0.165, -0.10, 0.135


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


def selection(index: np.ndarray, columns: int) -> sp.csr_matrix:
    """Sparse matrix that picks controls `index`."""
    return sp.csr_matrix((np.ones(len(index)), (np.arange(len(index)), index)), (len(index), columns))


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
