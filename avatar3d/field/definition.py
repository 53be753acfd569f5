"""The field's definition in numpy: what every faster form (torch, numba, GLSL, tiny-cuda-nn, the bake) is compared with.

Position → multiresolution hash grid (Müller et al. 2022, section 3) → MLP with the view direction's spherical harmonics and
a projection of the motion code → bounded colour residual (linear light) and opacity change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import Avatar, FieldParams
from avatar3d.errors import InputError
from avatar3d.motion.code import ARKIT_NAMES

HARMONICS = 8
# Spatial hash of Teschner et al. 2003 as instant-ngp uses it (equation 4); products stay below 2^63 for resolutions < 2^31,
# and only their low bits are kept, so signed 64-bit and unsigned 32-bit arithmetic give the same index.
HASH_PRIMES = (1, 2654435761, 805459861)
# The motion code enters through four sums: what opens the mouth, what pulls its corners, the brows, the lids.
MOTION_GROUPS: tuple[dict[str, float], ...] = (
    {"jawOpen": 1.0, "mouthFunnel": 0.5, "mouthLowerDownLeft": 0.25, "mouthLowerDownRight": 0.25},
    {"mouthSmileLeft": 0.5, "mouthSmileRight": 0.5, "cheekSquintLeft": 0.25, "cheekSquintRight": 0.25, "mouthPucker": -0.5},
    {"browInnerUp": 1.0, "browOuterUpLeft": 0.5, "browOuterUpRight": 0.5, "browDownLeft": -0.5, "browDownRight": -0.5},
    {"eyeBlinkLeft": 0.5, "eyeBlinkRight": 0.5, "eyeSquintLeft": 0.25, "eyeSquintRight": 0.25},
)
BOX_MARGIN_M = 0.01  # hair tips and deformed lips stay inside the grid


@dataclass(frozen=True)
class FieldConfig:
    """Sizes of a new field."""

    levels: int = 4
    """Grid levels; as many numbers in eight levels of two features fit a photo no better, and fetching them takes longer."""
    features: int = 4
    """Features a grid vertex."""
    table_size: int = 1 << 14
    """Entries a level, a power of two."""
    coarsest: int = 16
    """Cells a side of the first level."""
    finest: int = 128
    """Cells a side of the last level, 2.6 mm on a head with hair; finer ones fit the photo better, held-out pixels worse."""
    hidden: int = 16
    """Width of the MLP's hidden layer; wider costs frame time on a software renderer."""
    motion: int = 4
    """Components of the projected motion code, at most len(MOTION_GROUPS)."""
    table_scale: float = 1e-2
    """Initial table entries are uniform in ± this."""
    output_scale: float = 0.0
    """Standard deviation of the last layer's initial weights; 0 starts as no change at all."""
    color_bound: float = 0.25
    """Largest colour residual, linear light."""
    alpha_bound: float = 0.5
    """Largest opacity change."""


def resolutions(config: FieldConfig) -> np.ndarray:
    """(L,) i64 cells a side, geometric from coarsest to finest (Müller et al. 2022, equations 2 and 3)."""
    return np.round(np.geomspace(config.coarsest, config.finest, config.levels)).astype(np.int64)


def new_field(
    seed: int = 0,
    config: FieldConfig | None = None,
    box_min: np.ndarray | None = None,
    box_max: np.ndarray | None = None,
) -> FieldParams:
    """A field that changes nothing yet (unless config.output_scale says otherwise); same seed, same numbers.

    box_min, box_max: (3,) metres, neutral head frame; the default box holds an average head with hair.
    Raises InputError on a table size that is no power of two or a box without volume.
    """
    config = config or FieldConfig()
    low = np.asarray([-0.17, -0.2, -0.24] if box_min is None else box_min, np.float32)
    high = np.asarray([0.17, 0.22, 0.1] if box_max is None else box_max, np.float32)
    if not (high > low).all():
        raise InputError(f"the field's box {low.tolist()} to {high.tolist()} has no volume; expected min < max on each axis")
    if config.table_size < 8 or config.table_size & (config.table_size - 1):
        raise InputError(f"the field's table size {config.table_size} is not a power of two of at least 8")
    rng = np.random.default_rng(seed)
    shape = (config.levels, config.table_size, config.features)
    tables = rng.uniform(-config.table_scale, config.table_scale, shape).astype(np.float32)
    grid_features = config.levels * config.features
    width = grid_features + HARMONICS + config.motion
    # He initialisation; the motion columns start at zero so that untrained expressions change nothing.
    first = rng.normal(0.0, np.sqrt(2.0 / width), (config.hidden, width)).astype(np.float32)
    first[:, grid_features + HARMONICS :] = 0.0
    last = (config.output_scale * rng.normal(0.0, 1.0, (4, config.hidden))).astype(np.float32)
    return FieldParams(
        box_min=low,
        box_max=high,
        resolutions=resolutions(config),
        tables=tables,
        motion_projection=motion_projection(config.motion),
        weights=[first, last],
        biases=[np.zeros(config.hidden, np.float32), np.zeros(4, np.float32)],
        color_bound=config.color_bound,
        alpha_bound=config.alpha_bound,
    )


def motion_projection(count: int) -> np.ndarray:
    """(52, count) f32 projection of the ARKit weights onto the first `count` MOTION_GROUPS."""
    if not 0 <= count <= len(MOTION_GROUPS):
        raise InputError(f"the field takes 0 to {len(MOTION_GROUPS)} motion components, got {count}")
    projection = np.zeros((len(ARKIT_NAMES), count), np.float32)
    for column, group in enumerate(MOTION_GROUPS[:count]):
        for name, value in group.items():
            projection[ARKIT_NAMES.index(name), column] = value
    return projection


def box_of(avatar: Avatar) -> tuple[np.ndarray, np.ndarray]:
    """The cube ((3,) min, (3,) max, metres) around everything of `avatar` the field acts on; a cube keeps cells isotropic."""
    points = [avatar.vertices[avatar.field_weight > 0]]
    if avatar.hair is not None:
        points.append(avatar.hair.base)
        points.append(avatar.hair.base + avatar.hair.levels.max() * avatar.hair.extent)
    cloud = np.concatenate(points)
    if not len(cloud):
        cloud = avatar.vertices
    center = (cloud.min(0) + cloud.max(0)) / 2
    half = (cloud.max(0) - cloud.min(0)).max() / 2 + BOX_MARGIN_M
    return (center - half).astype(np.float32), (center + half).astype(np.float32)


def spherical_harmonics(d: np.ndarray) -> np.ndarray:
    """(N, 8) real harmonics of degree 1 and 2, unnormalised: x, y, z, xy, yz, 3z²−1, xz, x²−y² of unit directions (N, 3)."""
    x, y, z = d[..., 0], d[..., 1], d[..., 2]
    return np.stack([x, y, z, x * y, y * z, 3 * z * z - 1, x * z, x * x - y * y], axis=-1)


def unit_positions(params: FieldParams, positions: np.ndarray) -> np.ndarray:
    """(N, 3) f32 positions in metres to the box's [0, 1]³, clamped to it."""
    extent = params.box_max - params.box_min
    return np.clip((positions - params.box_min) / extent, 0.0, 1.0).astype(np.float32)


def is_dense(resolution: int, table_size: int) -> bool:
    """Whether a level's (resolution + 1)³ vertices fit its table one to one; otherwise they are hashed."""
    return (int(resolution) + 1) ** 3 <= table_size


def corner_index(corner: np.ndarray, resolution: int, table_size: int) -> np.ndarray:
    """(...,) i64 table entry of the grid vertices `corner` (..., 3) i64 in [0, resolution]."""
    x, y, z = corner[..., 0], corner[..., 1], corner[..., 2]
    if is_dense(resolution, table_size):
        side = int(resolution) + 1
        return x + side * (y + side * z)
    return (x * HASH_PRIMES[0] ^ y * HASH_PRIMES[1] ^ z * HASH_PRIMES[2]) & (table_size - 1)


def encode(params: FieldParams, positions: np.ndarray) -> np.ndarray:
    """(N, L·F) f32 trilinear features of positions (N, 3) metres; level-major."""
    unit = unit_positions(params, positions)
    levels, table_size, features = params.tables.shape
    out = np.zeros((len(unit), levels, features), np.float32)
    for level, resolution in enumerate(params.resolutions):
        scaled = unit * np.float32(resolution)
        cell = np.minimum(np.floor(scaled), resolution - 1).astype(np.int64)
        fraction = scaled - cell.astype(np.float32)
        for corner in range(8):
            step = np.array([corner & 1, corner >> 1 & 1, corner >> 2 & 1])
            weight = np.where(step == 1, fraction, 1 - fraction).prod(1)
            entry = corner_index(cell + step, resolution, table_size)
            out[:, level] += weight[:, None] * params.tables[level][entry]
    return out.reshape(len(unit), levels * features)


def bound(y: np.ndarray) -> np.ndarray:
    """The soft bound y / (1 + |y|): odd, slope 1 at 0, inside (−1, 1)."""
    return y / (1 + np.abs(y))


def first_layer(params: FieldParams, positions: np.ndarray, levels: int | None = None) -> np.ndarray:
    """(N, H) f32: what the grid at positions (N, 3) metres adds to the MLP's first layer; all of it that a place decides.

    levels: so many of the coarsest only.
    """
    encoded = encode(params, positions)
    used = encoded.shape[1] if levels is None else levels * params.tables.shape[2]
    return encoded[:, :used] @ params.weights[0][:, :used].T


def from_first_layer(
    params: FieldParams, hidden: np.ndarray, d: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`evaluate` of places given by their `first_layer` (N, H)."""
    motion = np.asarray(weights, np.float32) @ params.motion_projection
    rest = np.concatenate([spherical_harmonics(d), np.broadcast_to(motion, (len(d), len(motion)))], axis=1)
    value = hidden + rest.astype(np.float32) @ params.weights[0][:, -rest.shape[1] :].T + params.biases[0]
    for weight, bias in zip(params.weights[1:], params.biases[1:], strict=True):
        value = np.maximum(value, 0) @ weight.T + bias
    bounded = bound(value).astype(np.float32)
    return bounded[:, :3] * np.float32(params.color_bound), bounded[:, 3] * np.float32(params.alpha_bound)


def evaluate(params: FieldParams, positions: np.ndarray, d: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Colour residual (N, 3) f32, linear light within ±color_bound, and opacity change (N,) f32 within ±alpha_bound.

    positions: (N, 3) metres in the neutral head. d: (N, 3) unit view direction in the local frame. weights: (52,) ARKit.
    """
    return from_first_layer(params, first_layer(params, positions), d, weights)
