"""From a face as photographed to one at rest: mouth closed, lids at rest; and the motion that leads back to the photo."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import maximum_filter1d

from avatar3d.camera import Camera
from avatar3d.fitting.offsets import offset_field
from avatar3d.fitting.solver import descend
from avatar3d.fitting.weights import most_weights
from avatar3d.geometry import smoothstep
from avatar3d.head.mediapipe import (
    INNER_LIP_LOWER,
    INNER_LIP_MIDDLES,
    INNER_LIP_UPPER,
    INNER_LIPS,
    LEFT_EYE_CORNERS,
    LIPS_OUTER,
    MOUTH_CORNERS,
    MOUTH_ENDS,
    OUTER_LIP_MIDDLES,
    RIGHT_EYE_CORNERS,
)
from avatar3d.head.model import MOUTH_BAG, SKIN, TEETH, TONGUE, HeadModel
from avatar3d.motion.code import ARKIT_INDEX
from avatar3d.rendering.reference.raster import nearest, rasterise

MM = 1000.0

# Which shapes may close the mouth and level its corners; rolls would hide the lips instead.
MOUTH_SHAPES = (*(name for name in ARKIT_INDEX if name.startswith("mouth") and "Roll" not in name), "jawOpen")
SHAPE_RIDGE = 0.6  # mm of error a unit of a shape must save
CORNER_WEIGHT = 0.6  # of the corners' height against the lips' gap
HELD_WEIGHT = 1.2  # of the mouth's width and of the lips' outer edges, which closing is to leave alone
SHAPE_BOX = (-0.25, 0.8)
# The model's lids at rest are opened wider than people's; a photo with narrower eyes tells how far.
REST_BLINK_MAX, REST_SQUINT_MAX = 0.20, 0.25
# What a calm face is photographed with is mostly how it looks at rest: pressed lips, a frown, folded cheeks stay.
CALM_STEMS = (
    "mouthFrown", "mouthPress", "mouthDimple", "mouthStretch", "mouthRoll", "mouthShrug", "cheekSquint", "noseSneer"
)  # fmt: skip
LIVELY_STEMS, LIVELY_FULL = ("mouthSmile", "mouthUpperUp", "mouthLowerDown", "jawOpen"), 0.4  # from here on nothing is calm
MOVED = (0.2, 0.55)  # liveliness over which a mouth's shape is trusted less and less
MOST_RELAXED = 0.8
WISH_NOISE_MM = 0.5  # that a wished-for place of a landmark may be missed by
LIPS_REACH_MM = (4.0, 16.0)  # from the lips over which the face around them holds still
BROW_SHARE, BROW_MAX = 0.5, 0.25  # of the brows' weights: they are low or high on a face whatever the mouth does
LIP_PRESS_M = 0.0004  # closed lips touch and press a little
SEAL_REACH_M = 0.009  # over which a lip gives way when it is moved to meet the other
MAX_SEAL_M = 0.010  # no mouth that the shapes left open stands wider
SEAL_ROUNDS = 5  # the skin is stiff: each look closes most of what is left
LOOK_DISTANCE_M, LOOK_M, LOOK_PX = 2.0, 0.07, 320  # 0.22 mm a pixel
SEAL_COLUMNS = 15
HALF_STATIONS, HALF_NEIGHBOURS = 15, 14  # a lip has some ten vertices in a cross-section
FRONT_TEETH_M = 0.006  # central incisors
UPPER_EDGE_BELOW_M = 0.0030  # people at rest: the edge shows 2 to 4 mm below a relaxed upper lip
JAW_STILL_M = 0.001  # what an opening jaw moves less than this belongs to the skull
# In a smile the upper teeth's edges follow the lower lip; people show 3 to 5 mm more of them than the model's own lip uncovers.
SMILE_FROM, SMILE_RAMP, SMILE_GAP_M, MAX_LOWERING_M = 0.2, 0.15, 0.0008, 0.0028
PHOTO_RIDGE_MM = 2.0  # error that a unit of a weight's change from the fit must save on every skin vertex


def neutral_head(head: HeadModel, vertices: np.ndarray, expression: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V,3) with closed mouth and resting lids, and the weights (52,) that led there from `vertices` (V,3).

    expression: (52,) fitted weights, which tell how narrow the eyes are. A smile that leaked into the identity is taken out by
    a bounded least-squares solve over mouth shapes; what is still open is sealed by moving both lips together.
    """
    from scipy.optimize import lsq_linear

    rest = np.zeros(len(expression))
    for stem, most in (("eyeBlink", REST_BLINK_MAX), ("eyeSquint", REST_SQUINT_MAX)):
        sides = [ARKIT_INDEX[stem + side] for side in ("Left", "Right")]
        # One value for both sides: a rest pose is symmetric, a wink is not rest.
        rest[sides] = min(float(expression[sides].min()), most)
    calm = float(np.clip(1 - _liveliness(expression) / LIVELY_FULL, 0, 1))
    for name, k in ARKIT_INDEX.items():
        if name.startswith(CALM_STEMS):
            rest[k] = calm * expression[k]
        elif name.startswith("brow"):
            rest[k] = min(BROW_SHARE * expression[k], BROW_MAX)
    names = [ARKIT_INDEX[name] for name in MOUTH_SHAPES]
    template = head.landmark_points(head.vertices) * MM
    points = head.landmark_points(vertices + np.tensordot(rest.astype(np.float32), head.expression, 1)) * MM
    shapes = np.stack([head.landmark_points(head.expression[k]) for k in names]) * MM
    upper, lower, corners = list(INNER_LIP_UPPER), list(INNER_LIP_LOWER), list(MOUTH_CORNERS)

    def gap(x: np.ndarray) -> np.ndarray:
        return x[..., upper, 1] - x[..., lower, 1]

    def lift(x: np.ndarray) -> np.ndarray:
        return x[..., corners, 1] - x[..., [INNER_LIP_MIDDLES[0]], 1]

    def held(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[..., corners, 0], x[..., list(OUTER_LIP_MIDDLES), 1]], axis=-1)

    # The template's own mouth is closed, so its landmarks' gap is what closed lips look like to the embedding.
    rows = np.concatenate([
        gap(shapes).T, CORNER_WEIGHT * lift(shapes).T, HELD_WEIGHT * held(shapes).T, SHAPE_RIDGE * np.eye(len(names))
    ])  # fmt: skip
    target = np.concatenate([
        gap(template) - gap(points), CORNER_WEIGHT * (lift(template) - lift(points)), np.zeros(4 + len(names))
    ])  # fmt: skip
    rest[names] += lsq_linear(rows, target, SHAPE_BOX).x
    closed = vertices + np.tensordot(rest.astype(np.float32), head.expression, 1)
    return place_teeth(head, seal_lips(head, closed)), rest


def relaxed_mouth(head: HeadModel, vertices: np.ndarray, expression: np.ndarray) -> np.ndarray:
    """Identity vertices (V,3) whose mouth, as far as it was photographed in motion, has the model's average shape.

    The model's smile is not the person's, and what it misses goes into the mouth's identity: thick, square, narrow lips at rest.
    Place and size of the mouth are the person's.
    """
    share = MOST_RELAXED * float(smoothstep(*MOVED, np.array(_liveliness(expression))))
    points, average = (head.landmark_points(v).astype(np.float64) * MM for v in (vertices, head.vertices))
    lips = np.array([*LIPS_OUTER, *INNER_LIP_UPPER, *INNER_LIP_LOWER, *MOUTH_ENDS])
    outer = [RIGHT_EYE_CORNERS[0], LEFT_EYE_CORNERS[0]]
    size = np.linalg.norm(np.subtract(*points[outer])) / np.linalg.norm(np.subtract(*average[outer]))
    wish = np.zeros_like(points)
    scale = np.full(3, size)
    # How wide a mouth is, the fit tells fairly even of a smile.
    scale[0] = np.sqrt(size * np.ptp(points[list(MOUTH_CORNERS), 0]) / np.ptp(average[list(MOUTH_CORNERS), 0]))
    wish[lips] = points[lips].mean(0) + scale * (average[lips] - average[lips].mean(0)) - points[lips]
    away = np.linalg.norm(average[:, None] - average[lips][None], axis=2).min(1)
    trust = np.where(np.isin(np.arange(len(points)), lips), 2.0, smoothstep(*LIPS_REACH_MM, away))
    field = offset_field(average, share * wish, trust, head.vertices * MM, WISH_NOISE_MM)
    return vertices + np.where(np.isin(head.vertex_part, (SKIN, MOUTH_BAG))[:, None], field / MM, 0).astype(np.float32)


def _liveliness(expression: np.ndarray) -> float:
    return max(float(expression[k]) for name, k in ARKIT_INDEX.items() if name.startswith(LIVELY_STEMS))


def place_teeth(head: HeadModel, vertices: np.ndarray) -> np.ndarray:
    """Vertices (V,3) with the upper incisors' edge UPPER_EDGE_BELOW_M below the lip line, as deep behind it as the template's.

    Identity shapes move lips and teeth apart, and the template's own teeth sit too high to show in a smile.
    """
    ring = list(INNER_LIPS)
    line = head.landmark_points(vertices)[ring].mean(0)
    depth = line[2] - head.landmark_points(head.vertices)[ring, 2].mean()
    teeth = head.vertex_part == TEETH
    front = teeth & (np.abs(head.vertices[:, 0]) < FRONT_TEETH_M)
    upper = front & (head.expression[ARKIT_INDEX["jawOpen"]][:, 1] > -JAW_STILL_M)
    if not upper.any():  # a model without teeth
        return vertices
    down = line[1] - UPPER_EDGE_BELOW_M - vertices[upper, 1].min()
    forward = depth - (vertices - head.vertices)[front, 2].mean()
    placed = vertices.copy()
    placed[teeth | (head.vertex_part == TONGUE)] += (0.0, down, forward)
    return placed


def lower_teeth_edge(head: HeadModel, vertices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Neutral vertices (V,3) with the upper row let down so far that it reaches the lower lip in a smile of `weights` (52,)."""
    smile = float(weights[[ARKIT_INDEX["mouthSmileLeft"], ARKIT_INDEX["mouthSmileRight"]]].mean())
    share = float(np.clip((smile - SMILE_FROM) / SMILE_RAMP, 0, 1))
    still = head.expression[ARKIT_INDEX["jawOpen"]][:, 1] > -JAW_STILL_M
    row = (head.vertex_part == TEETH) & still
    front = row & (np.abs(head.vertices[:, 0]) < FRONT_TEETH_M)
    if not front.any():
        return vertices
    posed = vertices + head.expression_offsets(weights)
    lip = head.landmark_points(posed)[INNER_LIP_MIDDLES[1], 1] + SMILE_GAP_M
    lowered = vertices.copy()
    lowered[row, 1] -= share * float(np.clip(posed[front, 1].min() - lip, 0, MAX_LOWERING_M))
    return lowered


def seal_lips(head: HeadModel, vertices: np.ndarray) -> np.ndarray:
    """Vertices (V,3) with both lips moved toward each other by half of what a look from in front sees between them.

    The move fades over SEAL_REACH_M; teeth and tongue keep their place.
    """
    lips = np.flatnonzero((head.regions["lips"] > 0.5) & (head.vertex_part == SKIN))
    jaw = -head.expression[ARKIT_INDEX["jawOpen"]][:, 1]
    moves = np.isin(head.vertex_part, (SKIN, MOUTH_BAG))
    stations, parting, span = _lip_halves(vertices[lips], jaw[lips])
    x = vertices[:, 0]
    # Toward the corners the jaw moves both lips less and less; the halves part at the local middle.
    below = np.clip(0.5 + 1.5 * (jaw - np.interp(x, stations, parting)) / np.interp(x, stations, span), 0, 1)
    sealed, best, least = vertices, vertices, np.inf
    for _ in range(SEAL_ROUNDS):
        seen = _seen_between(head, sealed)
        if seen is None:
            return sealed
        across, gap, height, depth = seen
        if gap.sum() >= least:
            break  # what is seen there does not come from the lips' being apart
        best, least = sealed, gap.sum()
        sealed = sealed.copy()
        closing = np.interp(x, across, gap, left=0, right=0)
        away = np.hypot(sealed[:, 1] - np.interp(x, across, height), sealed[:, 2] - np.interp(x, across, depth))
        sealed[:, 1] += np.where(moves, np.exp(-((away / SEAL_REACH_M) ** 2)) * closing * (below - 0.5), 0)
    return best


def _lip_halves(lips: np.ndarray, opening: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stations across the mouth (K,), and there the jaw's pull that parts the upper from the lower lip and its span, metres.

    lips: (L, 3) vertices, opening: (L,) how far the jaw takes them down.
    """
    rows = []
    for x in np.linspace(lips[:, 0].min(), lips[:, 0].max(), HALF_STATIONS):
        pull = opening[np.argsort(np.abs(lips[:, 0] - x))[:HALF_NEIGHBOURS]]
        rows.append((x, (pull.min() + pull.max()) / 2, max(float(np.ptp(pull)), 1e-4)))
    stations, parting, span = np.array(rows).T
    return stations, parting, span


def _seen_between(head: HeadModel, vertices: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """What a look from in front sees between the lips: places across (K,), gap to close, its height and depth, metres.

    None where nothing is seen.
    """
    middle = head.landmark_points(vertices)[list(INNER_LIPS)].mean(0).astype(np.float64)
    camera = Camera.orbit(0.0, 0.0, LOOK_DISTANCE_M, LOOK_PX, LOOK_PX, LOOK_M, middle)
    near = (np.abs(vertices[:, :2] - middle[:2]) < 0.6 * LOOK_M).all(1)
    faces = np.flatnonzero(near[head.faces].any(1))
    drawn = nearest(rasterise(vertices, head.faces[faces], camera, np.ones(len(faces), bool)))
    inside = np.isin(head.part[faces[drawn.face]], (TEETH, TONGUE, MOUTH_BAG))
    if not inside.any():
        return None
    row, column = np.divmod(drawn.pixel[inside], LOOK_PX)
    top, bottom = np.full(LOOK_PX, LOOK_PX), np.full(LOOK_PX, -1)
    np.minimum.at(top, column, row)
    np.maximum.at(bottom, column, row)
    columns = np.flatnonzero(bottom >= 0)
    pixel = LOOK_M / LOOK_PX
    gap = np.zeros(LOOK_PX)
    gap[columns] = (bottom[columns] - top[columns] + 1) * pixel + LIP_PRESS_M
    # A slit at one column is closed by vertices a few columns away.
    gap = maximum_filter1d(gap, SEAL_COLUMNS)
    rows = np.interp(np.arange(LOOK_PX), columns, (top[columns] + bottom[columns] + 1) / 2)
    across = middle[0] + (np.arange(LOOK_PX) + 0.5 - LOOK_PX / 2) * pixel
    height = middle[1] - (rows - LOOK_PX / 2) * pixel
    points = head.landmark_points(vertices)[[*INNER_LIP_UPPER, *MOUTH_ENDS]]
    order = np.argsort(points[:, 0])
    depth = np.interp(across, points[order, 0], points[order, 2])
    return across, np.minimum(gap, MAX_SEAL_M), height, depth


def motion_weights(
    head: HeadModel, vertices: np.ndarray, neutral_vertices: np.ndarray, expression: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """(52,) weights in [0, 1] that bring neutral_vertices as near as they can to the photo's face, vertices + expression."""
    skin = np.flatnonzero((head.regions["face"] > 0.5) & (head.vertex_part == SKIN))
    basis = head.expression[:, skin].reshape(len(expression), -1).astype(np.float64) * MM
    photo = vertices[skin] + head.expression_offsets(expression)[skin]
    wish = (photo - neutral_vertices[skin]).ravel().astype(np.float64) * MM
    weights = np.clip(expression - rest, 0, 1)
    ridge = np.full(len(basis), PHOTO_RIDGE_MM**2)
    gram = basis @ basis.T + np.diag(ridge)
    descend(gram, basis @ wish + ridge * weights, weights, np.zeros(len(basis)), most_weights(), 200)
    return weights
