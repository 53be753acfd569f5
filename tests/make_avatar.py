"""A small valid avatar made from formulas, for tests that need one without a photo; it need not look human."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from avatar3d.avatar import (
    PART_EYE,
    PART_LASH,
    PART_MOUTH,
    PART_SKIN,
    PART_TEETH,
    PART_TONGUE,
    Avatar,
    BakedField,
    BakedMotion,
    FieldParams,
    HairShells,
    TextureDelta,
)
from avatar3d.camera import Camera
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.retarget import Reach

EYE_RADIUS_M = 0.0125
EYE_X_M = 0.031
AXIS_Z_M = -0.093  # the lathe's axis lies this far behind the eyes
# Height, half width, half depth of the head's outline, metres, from the crown down to the closed bottom of the bust.
PROFILE = np.array(
    [
        (0.120, 0.000, 0.000), (0.117, 0.030, 0.038), (0.105, 0.053, 0.064), (0.085, 0.068, 0.083),
        (0.060, 0.075, 0.093), (0.035, 0.077, 0.096), (0.010, 0.076, 0.095), (-0.010, 0.075, 0.094),
        (-0.030, 0.073, 0.094), (-0.050, 0.069, 0.093), (-0.0695, 0.062, 0.091), (-0.0705, 0.062, 0.091),
        (-0.085, 0.055, 0.086), (-0.100, 0.047, 0.076), (-0.110, 0.052, 0.058), (-0.130, 0.054, 0.056),
        (-0.160, 0.057, 0.058), (-0.185, 0.075, 0.064), (-0.205, 0.120, 0.076), (-0.225, 0.150, 0.084),
        (-0.240, 0.160, 0.086), (-0.240, 0.080, 0.043), (-0.240, 0.000, 0.000),
    ]
)  # fmt: skip
UPPER_LIP_ROW = 10
COLUMNS = 26  # around the head; the seam at the back is doubled
LIP_COLUMNS = (10, 16)  # first and last column of the mouth's slit; column 13 faces forward
SKIN_V = 0.74  # the skin takes the atlas down to this v, the other parts lie below
HAIR_ROWS, HAIR_COLUMNS = 8, 24
HAIR_LEVELS = np.array([0.0, 0.35, 0.7, 1.0], np.float32)


class _Mesh:
    """Vertices, faces, parts and UVs as they are added."""

    def __init__(self) -> None:
        self.vertices: list[np.ndarray] = []
        self.uv: list[np.ndarray] = []
        self.faces: list[np.ndarray] = []
        self.part: list[np.ndarray] = []
        self.count = 0

    def add(self, vertices: np.ndarray, uv: np.ndarray, faces: np.ndarray, part: int) -> np.ndarray:
        """Append a piece whose faces count from its own first vertex; returns the indices its vertices got."""
        faces = faces + self.count
        self.vertices.append(vertices)
        self.uv.append(uv)
        self.faces.append(faces)
        self.part.append(np.full(len(faces), part, np.uint8))
        indices = np.arange(self.count, self.count + len(vertices))
        self.count += len(vertices)
        return indices


def _grid_faces(rows: int, columns: int) -> np.ndarray:
    """Triangles of a row-major grid of vertices, counter-clockwise where rows go down and columns to +X."""
    index = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (
        index[:-1, :-1].ravel(),
        index[:-1, 1:].ravel(),
        index[1:, 1:].ravel(),
        index[1:, :-1].ravel(),
    )
    return np.concatenate([np.stack([a, d, c], 1), np.stack([a, c, b], 1)])


def _without_slivers(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    corner = vertices[faces]
    area = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    return faces[area > 1e-10]


def _lathe(profile: np.ndarray, columns: int) -> np.ndarray:
    """(rows, columns + 1, 3) points; the first and the last column are the back meridian, +X grows in front."""
    angle = np.linspace(-np.pi, np.pi, columns + 1)
    angle[-1] = -np.pi  # the doubled seam must coincide to the last bit
    y, half_width, half_depth = profile[:, :1], profile[:, 1:2], profile[:, 2:]
    x = half_width * np.sin(angle)
    z = half_depth * np.cos(angle) + AXIS_Z_M
    return np.stack([x, np.broadcast_to(y, x.shape), z], -1)


def _ball(center: np.ndarray, radius: float, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sphere with its pole toward +Z: vertices, polar UV in the unit disc's square [0, 1]², faces."""
    polar = np.linspace(0, np.pi, rows)[:, None]
    angle = np.linspace(0, 2 * np.pi, columns + 1)[None].copy()
    angle[:, -1] = 0
    unit = np.stack(np.broadcast_arrays(np.sin(polar) * np.cos(angle), np.sin(polar) * np.sin(angle), np.cos(polar)), -1)
    disc = 0.5 + 0.5 * (polar / np.pi)[..., None] * np.stack([np.cos(angle), -np.sin(angle)], -1)
    vertices = center + radius * unit.reshape(-1, 3)
    return vertices, disc.reshape(-1, 2), _without_slivers(vertices, _grid_faces(rows, columns + 1))


def _first_at_same_place(vertices: np.ndarray, group: np.ndarray) -> np.ndarray:
    """(N,) i32 weld: the first vertex with the same position and group."""
    key = np.concatenate([vertices.astype(np.float32) + 0.0, group[:, None].astype(np.float32)], 1)
    _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return first[inverse.ravel()].astype(np.int32)


def _smooth_noise(rng: np.random.Generator, height: int, width: int, channels: int) -> np.ndarray:
    """(height, width, channels) f32 noise of a few periods, values about [-1, 1]."""
    v, u = np.mgrid[0:height, 0:width] / max(height, width)
    total = np.zeros((height, width, channels))
    for _ in range(6):
        frequency = rng.uniform(-6, 6, 2)
        phase = rng.uniform(0, 2 * np.pi, channels)
        total += np.sin(2 * np.pi * (frequency[0] * u + frequency[1] * v)[..., None] + phase)
    return (total / 6).astype(np.float32)


def _build_mesh() -> tuple[_Mesh, dict[str, np.ndarray]]:
    mesh = _Mesh()
    grid = _lathe(PROFILE, COLUMNS)
    nose = np.exp(-(((grid[..., 0] / 0.012) ** 2) + ((grid[..., 1] + 0.035) / 0.018) ** 2)) * (grid[..., 2] > AXIS_Z_M)
    grid[..., 2] += 0.018 * nose
    rows, columns = grid.shape[:2]
    skin_vertices = grid.reshape(-1, 3)
    u, v = np.meshgrid(np.linspace(0.02, 0.98, columns), np.linspace(0.01, SKIN_V - 0.02, rows))
    faces = _without_slivers(skin_vertices, _grid_faces(rows, columns))
    first, last = LIP_COLUMNS
    row, column = faces // columns, faces % columns
    in_slit = (row.min(1) == UPPER_LIP_ROW) & (row.max(1) == UPPER_LIP_ROW + 1)
    in_slit &= (column.min(1) >= first) & (column.max(1) <= last)
    skin = mesh.add(skin_vertices, np.stack([u.ravel(), v.ravel()], 1), faces[~in_slit], PART_SKIN).reshape(rows, columns)

    upper = skin[UPPER_LIP_ROW, first : last + 1]
    lower = skin[UPPER_LIP_ROW + 1, first : last + 1]
    width = len(upper)
    depth = 0.04 * np.sin(np.linspace(0.05, np.pi - 0.05, width))
    pocket = np.repeat(skin_vertices[upper][None], 3, 0)
    pocket[..., 1] += np.array([0.012, -0.005, -0.022])[:, None] * depth / 0.04
    pocket[..., 2] -= depth
    pocket_uv = np.stack(np.meshgrid(np.linspace(0.66, 0.76, width), np.linspace(0.8, 0.95, 3)), -1)
    bag = mesh.add(pocket.reshape(-1, 3), pocket_uv.reshape(-1, 2), np.zeros((0, 3), int), PART_MOUTH).reshape(3, width)
    index = np.concatenate([upper[None], bag, lower[None]]).ravel()
    mesh.faces.append(index[_grid_faces(5, width)])
    mesh.part.append(np.full(len(mesh.faces[-1]), PART_MOUTH, np.uint8))

    pieces = {"upper_lip": upper, "lower_lip": lower, "bag": bag}
    arch = np.linspace(-0.9, 0.9, 9)
    for name, top, u0 in (("upper_teeth", -0.064, 0.80), ("lower_teeth", -0.0725, 0.88)):
        height = np.array([0.0, -0.008])[:, None]
        strip = np.stack(np.broadcast_arrays(0.022 * np.sin(arch), top + height, -0.034 + 0.022 * np.cos(arch)), -1)
        uv = np.stack(np.meshgrid(np.linspace(u0, u0 + 0.07, 9), np.linspace(0.8, 0.85, 2)), -1)
        pieces[name] = mesh.add(strip.reshape(-1, 3), uv.reshape(-1, 2), _grid_faces(2, 9), PART_TEETH)
    across, along = np.meshgrid(np.linspace(-0.012, 0.012, 5), np.linspace(-0.045, -0.018, 4))
    tongue = np.stack([across, -0.082 - 40 * across**2, along], -1).reshape(-1, 3)
    uv = np.stack(np.meshgrid(np.linspace(0.80, 0.88, 5), np.linspace(0.88, 0.97, 4)), -1).reshape(-1, 2)
    pieces["tongue"] = mesh.add(tongue, uv, _grid_faces(4, 5), PART_TONGUE)
    for name, x, u0 in (("leftEye", EYE_X_M, 0.02), ("rightEye", -EYE_X_M, 0.26)):
        center = np.array([x, 0.0, 0.0])
        vertices, disc, faces = _ball(center, EYE_RADIUS_M, 9, 12)
        pieces[name] = mesh.add(vertices, np.array([u0, 0.77]) + 0.2 * disc, faces, PART_EYE)
        angle = np.linspace(0.25 * np.pi, 0.75 * np.pi, 7)
        curve = np.stack([np.cos(angle), np.sin(angle), 0.25 + 0 * angle], 1)
        ribbon = center + EYE_RADIUS_M * np.concatenate([1.05 * curve, 1.1 * curve + [0, 0.35, 0.3]])
        uv = np.stack(np.meshgrid(np.linspace(0.5, 0.6, 7), np.linspace(0.8, 0.84, 2)), -1).reshape(-1, 2)
        pieces[name + "Lash"] = mesh.add(ribbon, uv, _grid_faces(2, 7), PART_LASH)
    return mesh, pieces


def _expressions(vertices: np.ndarray, pieces: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """(52, V, 3): small bumps on the face, and a jawOpen that opens the mouth with its lower teeth and tongue."""
    offsets = np.zeros((52, len(vertices), 3))
    front = vertices[:, 2] > AXIS_Z_M + 0.03
    still = np.zeros(len(vertices), bool)
    for name in ("leftEye", "rightEye", "upper_teeth", "lower_teeth", "tongue", "bag"):
        still[pieces[name].ravel()] = True
    for index in range(52):
        center = np.array([rng.uniform(-0.05, 0.05), rng.uniform(-0.09, 0.05), -0.01])
        distance = np.linalg.norm((vertices - center)[:, :2], axis=1)
        bump = np.clip(1 - (distance / 0.03) ** 2, 0, None) ** 2 * (front & ~still)
        offsets[index] = bump[:, None] * rng.normal(0, 0.003, 3)
    jaw = np.zeros((len(vertices), 3))
    head = (vertices[:, 1] > -0.125) & (vertices[:, 1] < -0.0700) & front & ~still
    fade = np.clip((vertices[:, 1] + 0.125) / 0.025, 0, 1) * np.clip(1.4 - np.abs(vertices[:, 0]) / 0.035, 0, 1)
    jaw[head, 1] = -0.022 * fade[head]
    jaw[np.concatenate([pieces["lower_teeth"], pieces["tongue"], pieces["bag"][2]]), 1] = -0.020
    offsets[ARKIT_INDEX["jawOpen"]] = jaw
    for side in ("Left", "Right"):
        for name in ("eyeLookDown", "eyeLookIn", "eyeLookOut", "eyeLookUp"):
            offsets[ARKIT_INDEX[name + side]] *= 0.3
    return offsets.astype(np.float32)


def _hair(rng: np.random.Generator) -> HairShells:
    crown = np.linspace(0, 1, HAIR_ROWS)
    profile = np.stack([np.interp(crown, np.linspace(0, 1, 8), PROFILE[:8, k]) for k in range(3)], 1)
    grid = _lathe(profile, HAIR_COLUMNS)
    angle = np.linspace(-np.pi, np.pi, HAIR_COLUMNS + 1)
    # The hairline is high over the forehead and low at the nape.
    drop = np.linspace(0, 1, HAIR_ROWS)[:, None] ** 2 * np.where(np.abs(angle) < 1.1, -0.055, 0.02)
    grid[..., 1] -= drop
    outward = grid - np.array([0, 0.02, AXIS_Z_M])
    outward /= np.linalg.norm(outward, axis=-1, keepdims=True)
    base = (grid + 0.012 * outward).reshape(-1, 3).astype(np.float32)
    extent = (0.01 * outward).reshape(-1, 3).astype(np.float32)
    u, v = np.meshgrid(np.linspace(0, 1, HAIR_COLUMNS + 1), np.linspace(0.02, 0.98, HAIR_ROWS))
    strand = 0.6 + 0.4 * _smooth_noise(rng, 36, 64, 1)
    color = np.clip(strand * np.array([92, 62, 40]), 0, 255).astype(np.uint8)
    opacity = np.empty((len(HAIR_LEVELS), 18, 32), np.uint8)
    opacity[0] = 255
    for level in range(1, len(HAIR_LEVELS)):
        opacity[level] = np.clip(160 - 35 * level + 70 * _smooth_noise(rng, 18, 32, 1)[..., 0], 0, 255)
    return HairShells(
        base=base,
        extent=extent,
        uv=np.stack([u.ravel(), v.ravel()], 1).astype(np.float32),
        weld=_first_at_same_place(base, np.zeros(len(base))),
        faces=_without_slivers(base, _grid_faces(HAIR_ROWS, HAIR_COLUMNS + 1)).astype(np.int32),
        levels=HAIR_LEVELS.copy(),
        color=color,
        opacity=opacity,
        occlusion=np.linspace(0.6, 1.0, len(HAIR_LEVELS)).astype(np.float32),
    )


def _field(rng: np.random.Generator, vertices: np.ndarray) -> FieldParams:
    levels, features, table, hidden, motion = 4, 2, 256, 8, 4
    width = levels * features + 8 + motion
    return FieldParams(
        box_min=(vertices.min(0) - 0.03).astype(np.float32),
        box_max=(vertices.max(0) + 0.03).astype(np.float32),
        resolutions=np.array([4, 8, 16, 32], np.int32),
        tables=rng.normal(0, 0.3, (levels, table, features)).astype(np.float16).astype(np.float32),
        motion_projection=rng.normal(0, 0.2, (52, motion)).astype(np.float32),
        weights=[
            rng.normal(0, 0.4, (hidden, width)).astype(np.float32),
            rng.normal(0, 0.4, (4, hidden)).astype(np.float32),
        ],
        biases=[rng.normal(0, 0.1, hidden).astype(np.float32), rng.normal(0, 0.1, 4).astype(np.float32)],
    )


def _baked(rng: np.random.Generator, hair: HairShells | None) -> BakedField:
    jaw = np.zeros(52, np.float32)
    jaw[ARKIT_INDEX["jawOpen"]] = 0.8

    def textures(scale: float, channels: int) -> np.ndarray | None:
        return np.stack([scale * _smooth_noise(rng, 18, 32, channels) for _ in hair.levels]) if hair else None

    hair_q0 = textures(0.05, 4)
    skin_q0 = 0.05 * _smooth_noise(rng, 32, 32, 3)
    moved = BakedMotion(jaw, low=-0.25, high=1.0, skin=0.05 * _smooth_noise(rng, 32, 32, 3), hair=textures(0.05, 3))
    return BakedField(
        skin_q0=skin_q0,
        hair_q0=hair_q0,
        weights=np.zeros(52, np.float32),
        psnr_skin_db=45.0,
        psnr_hair_db=41.0,
        psnr_moved_skin_db=44.0,
        psnr_moved_hair_db=40.0,
        motion=[moved],
    )


def _base_color(rng: np.random.Generator, size: int) -> np.ndarray:
    """(size, size, 3) u8: mottled skin above, eye discs, lashes, mouth, teeth and tongue below."""
    color = np.empty((size, size, 3))
    color[:] = [205, 160, 135]
    color += 14 * _smooth_noise(rng, size, size, 3)
    v, u = (np.mgrid[0:size, 0:size] + 0.5) / size
    below = v > SKIN_V
    color[below] = [120, 60, 58]
    for u0 in (0.02, 0.26):
        radius = np.hypot(u - u0 - 0.1, v - 0.87) / 0.1
        color[below & (radius < 1.2)] = [236, 232, 228]
        color[radius < 0.3] = [72, 104, 128]
        color[radius < 0.14] = [18, 16, 18]
    color[below & (u > 0.48) & (u < 0.62)] = [30, 24, 22]
    color[below & (u > 0.78) & (v < 0.865)] = [228, 222, 206]
    color[below & (u > 0.78) & (v >= 0.865)] = [190, 96, 96]
    return np.clip(color, 0, 255).astype(np.uint8)


def synthetic_avatar(seed: int = 0, hair: bool = True, field: bool = True, baked: bool = True) -> Avatar:
    """A head of 960 vertices with eyes, mouth, teeth, tongue, lashes, hair, textures of 64², field and bake.

    The same seed gives the same arrays. hair, field and baked leave those parts out when False. Eye vertices
    have zero expression offsets; jawOpen opens the mouth by about 20 mm; the bust fades out over its lowest 2 cm.
    """
    rng = np.random.default_rng(seed)
    mesh, pieces = _build_mesh()
    vertices = np.concatenate(mesh.vertices).astype(np.float32)
    faces = np.concatenate(mesh.faces).astype(np.int32)
    part = np.concatenate(mesh.part)
    vertex_part = np.full(len(vertices), 255, np.uint8)
    for corner in range(3):
        np.minimum.at(vertex_part, faces[:, corner], part)
    vertex_piece = np.repeat(np.arange(len(mesh.vertices)), [len(v) for v in mesh.vertices])
    height = vertices[:, 1]
    skin = vertex_part == PART_SKIN
    front = np.clip((vertices[:, 2] - AXIS_Z_M) / 0.06, 0, 1) * np.clip((height + 0.13) / 0.03, 0, 1)
    light = np.zeros((9, 3), np.float32)
    light[0] = [0.86, 0.85, 0.83]
    light[1:4] = np.array([-0.12, 0.22, 0.2])[:, None] * [1.0, 0.97, 0.93]
    light[4:] = rng.normal(0, 0.02, (5, 3))
    forward = faces[(vertices[faces].min(1)[:, 2] > -0.05) & (part == PART_SKIN)]
    triangles = forward[rng.integers(0, len(forward), 468)]
    smile = np.zeros(52, np.float32)
    smile[[ARKIT_INDEX["mouthSmileLeft"], ARKIT_INDEX["mouthSmileRight"]]] = 0.5
    shells = _hair(rng) if hair else None
    return Avatar(
        vertices=vertices,
        faces=faces,
        part=part,
        uv=np.concatenate(mesh.uv).astype(np.float32),
        weld=_first_at_same_place(vertices, vertex_piece),
        expression=_expressions(vertices.astype(np.float64), pieces, rng),
        head_weight=np.where(skin, np.clip((height + 0.2) / 0.09, 0, 1), 1).astype(np.float32),
        vertex_alpha=np.clip((height + 0.24) / 0.02, 0, 1).astype(np.float32),
        field_weight=np.where(skin, front, 0).astype(np.float32),
        joints={
            "neck": np.array([0.0, -0.15, -0.1], np.float32),
            "head": np.array([0.0, -0.06, -0.09], np.float32),
            "jaw": np.array([0.0, -0.045, -0.07], np.float32),
            "leftEye": np.array([EYE_X_M, 0.0, 0.0], np.float32),
            "rightEye": np.array([-EYE_X_M, 0.0, 0.0], np.float32),
        },
        base_color=_base_color(rng, 64),
        confidence=np.clip(128 + 127 * _smooth_noise(rng, 32, 32, 1)[..., 0], 0, 255).astype(np.uint8),
        light=light,
        shading_power=0.6,
        landmark_triangles=triangles.astype(np.int32),
        landmark_barycentric=rng.dirichlet([1.0, 1.0, 1.0], 468).astype(np.float32),
        hair=shells,
        texture_deltas=[TextureDelta("smile", smile, -0.05, 0.2 * _smooth_noise(rng, 64, 64, 3))],
        neural_field=_field(rng, vertices) if field else None,
        baked=_baked(rng, shells) if baked else None,
        photo_camera=Camera.orbit(0.05, 0.02, width=256, height=256, name="photo"),
        photo_motion=MotionCode.from_expression({"mouthSmileLeft": 0.4, "mouthSmileRight": 0.35, "jawOpen": 0.05}),
        reach=Reach(np.full(52, 0.1), np.full(52, 0.75), np.full((2, 52), 0.25), np.full((2, 52), 0.125)),
        valid_yaw_deg=(-35.0, 42.0),
        provenance={"made_by": "tests/make_avatar.py", "seed": seed},
    )


def tiny_avatar() -> Avatar:
    """The synthetic avatar with three faces of each part, two hair levels, textures of a few pixels and a field of two levels.

    For what reads a file a million times: everything that a file can hold is there, once.
    """
    avatar = synthetic_avatar()
    assert avatar.hair is not None and avatar.neural_field is not None and avatar.baked is not None
    side = avatar.part.astype(int) * 2 + (avatar.vertices[avatar.faces[:, 0], 0] > 0)
    kept = np.concatenate([np.flatnonzero(side == value)[:3] for value in np.unique(side)])
    used, inverse = np.unique(avatar.faces[np.sort(kept)], return_inverse=True)
    count = len(used)
    order = np.random.default_rng(0).permutation(count)  # the parts share one range of vertices, and so their morph targets
    used, inverse = used[order], np.argsort(order)[inverse]
    still = np.arange(count, dtype=np.int32)
    vertex = {name: getattr(avatar, name)[used] for name in ("vertices", "uv", "head_weight", "vertex_alpha", "field_weight")}
    expression = np.zeros((52, count, 3), np.float32)
    expression[:3, ~np.isin(used, avatar.faces[avatar.part == PART_EYE])] = 0.001  # the others share one accessor
    hair = replace(
        avatar.hair, base=avatar.hair.base[:6], extent=avatar.hair.extent[:6], uv=avatar.hair.uv[:6], weld=still[:6],
        faces=np.array([[0, 1, 2], [3, 4, 5]], np.int32), levels=avatar.hair.levels[:2], color=avatar.hair.color[:4, :5],
        opacity=avatar.hair.opacity[:2, :3, :4], occlusion=avatar.hair.occlusion[:2],
    )  # fmt: skip
    field, baked, moved = avatar.neural_field, avatar.baked, avatar.baked.motion[0]
    assert baked.hair_q0 is not None and moved.skin is not None and moved.hair is not None
    width = 2 * field.tables.shape[2] + 8 + 1
    return replace(
        avatar, **vertex, faces=inverse.reshape(-1, 3).astype(np.int32), part=avatar.part[np.sort(kept)], weld=still,
        expression=expression, base_color=avatar.base_color[:4, :5], confidence=avatar.confidence[:3, :3],
        landmark_triangles=np.tile(still[:3], (468, 1)), hair=hair,
        texture_deltas=[replace(avatar.texture_deltas[0], log_ratio=avatar.texture_deltas[0].log_ratio[:3, :4])],
        neural_field=replace(
            field, resolutions=field.resolutions[:2], tables=field.tables[:2, :4], motion_projection=field.motion_projection[:, :1],
            weights=[field.weights[0][:3, :width], field.weights[1][:, :3]], biases=[field.biases[0][:3], field.biases[1]],
        ),
        baked=replace(
            baked, skin_q0=baked.skin_q0[:3, :4], hair_q0=baked.hair_q0[:2, :3, :4],
            motion=[replace(moved, skin=moved.skin[:3, :4], hair=moved.hair[:2, :3, :4])],
        ),
    )  # fmt: skip
