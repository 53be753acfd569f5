"""Hair of an avatar from one photo: shape, texture and shells, and what it asks of the skin beneath it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from avatar3d.avatar import HairShells
from avatar3d.enrolment.hair.grid import MAX_COLATITUDE_RAD, blur, enlarge, ray_angles, ray_directions, sample
from avatar3d.enrolment.hair.growth import HairGrowth
from avatar3d.enrolment.hair.shape import COLUMNS, ROWS, HairShape, build_shape
from avatar3d.enrolment.hair.texture import COLOR_COLUMNS, COLOR_ROWS, LEVELS, OCCLUSION, HairTexture, build_texture
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import look_up
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.fitting.fit import FaceFit
from avatar3d.geometry import smooth_normals
from avatar3d.head.model import SKIN, HeadModel

MESH_ROWS, MESH_COLUMNS = 28, 48  # 13 mm a cell: the outline's polygon stays within 0.15 mm of round
BUMP_CELLS = 0.8  # blur of the surface before the mesh samples it, cells of the ray map
# Depth of the strand layers over the thickness, and its bounds: in the upper one the levels lie a pixel apart at arm's length,
# so that at the outline they melt into one soft edge.
SHELL_SHARE, MIN_SHELL_M, MAX_SHELL_M = 0.35, 0.0012, 0.0032
SURFACE_LEVEL = 0.66  # the level at which the layers together hide half of what is behind them: the outline one sees
MESH_MARGIN_M = 0.009  # faces this far beyond the hairline are kept for its ragged strands
# Hair colours the skin from this far behind the hairline, over this width. Long hair stands off: one looks under its edge, at skin.
SCALP_BEHIND_LONG_M, SCALP_BEHIND_CROPPED_M, SCALP_FEATHER_M = 0.010, 0.012, 0.009
TUCK_CLEARANCE_M = 0.001  # skin under hair lies this far below the opaque base
PRESSED_EAR_SHARE = 0.45  # of how far a covered ear stands off the head is kept
TUCK_REACH_M = 0.04  # skin further out than this over the scalp is not under the hair (the nose, the shoulders)


@dataclass(frozen=True)
class HairResult:
    """shells: None where no hair was found. scalp_mask: (V,) f32 in [0, 1], share of hair colour on the skin under it.

    scalp_color_srgb: (3,) f32 in [0, 1]. tuck_offsets: (V, 3) f32 metres, to add to the neutral vertices so that scalp and
    ears stay under the hair. silhouette_error_mm, silhouette_error_px (at the work scale), iou: the model's outline against
    the hair mask's. notes: sentences for the report. growth: the locks that the shells show, for refine_hair.
    shape: of the hair, and of a hat on it.
    """

    shells: HairShells | None
    scalp_mask: np.ndarray
    scalp_color_srgb: np.ndarray
    tuck_offsets: np.ndarray
    silhouette_error_mm: float
    silhouette_error_px: float
    iou: float
    notes: list[str] = field(default_factory=list)
    growth: HairGrowth | None = None
    shape: HairShape | None = None

    def under_hat(self, covers: np.ndarray, tuck: np.ndarray) -> HairResult:
        """The same with no strand where a hat lies on it; covers: in [0, 1] of the ray map; tuck: (V, 3) metres to move by as well."""
        shells = self.shells
        if shells is not None:
            free = 1 - enlarge(covers.astype(np.float32), *shells.opacity.shape[1:])
            shells = replace(shells, opacity=np.rint(shells.opacity * free).astype(np.uint8))
        return replace(self, shells=shells, tuck_offsets=self.tuck_offsets + tuck)


def build_hair(
    work: WorkPicture, seg: Segmentation, fit: FaceFit, head: HeadModel, light: np.ndarray, shading_power: float
) -> HairResult:
    """Hair shells for the fitted head; light (9, 3) and shading_power as avatar3d.rendering.scene defines them."""
    count = len(head.vertices)
    if not seg.hair_mask.any():
        still = np.zeros((count, 3), np.float32)
        return HairResult(None, np.zeros(count, np.float32), np.zeros(3, np.float32), still, 0.0, 0.0, 1.0, list(seg.notes))
    shape = build_shape(work, seg, fit.vertices, head)
    bare = seg.without_hat()
    if not bare.hair_mask.any():
        still = np.zeros((count, 3), np.float32)
        return HairResult(None, np.zeros(count, np.float32), np.zeros(3, np.float32), still, shape.error_m * 1e3, shape.error_px,
                          shape.iou, list(seg.notes), shape=shape)  # fmt: skip
    depth = np.clip(SHELL_SHARE * shape.thickness, MIN_SHELL_M, MAX_SHELL_M)
    mesh = _Mesh.over(shape, depth)
    texture = build_texture(
        work, bare, shape, mesh.cell_normals(), mesh.surface(COLOR_ROWS, COLOR_COLUMNS), light, shading_power
    )
    shells = mesh.shells(texture)
    mask, tuck = _under_hair(fit.neutral_vertices, head, shape, depth, texture, work)
    return HairResult(shells, mask, texture.scalp_srgb.astype(np.float32), tuck, shape.error_m * 1e3, shape.error_px, shape.iou,
                      list(seg.notes), texture.growth, shape)  # fmt: skip


@dataclass(frozen=True)
class _Mesh:
    """Grid of (MESH_ROWS + 1, MESH_COLUMNS + 1) vertices: row 0 is the pole, the last column repeats the first."""

    base: np.ndarray
    extent: np.ndarray
    uv: np.ndarray
    weld: np.ndarray
    faces: np.ndarray

    @classmethod
    def over(cls, shape: HairShape, depth: np.ndarray) -> _Mesh:
        rows, columns = MESH_ROWS, MESH_COLUMNS
        v, u = np.meshgrid(np.arange(rows + 1) / rows, np.arange(columns + 1) / columns, indexing="ij")
        theta, colatitude = (u * 2 - 1) * np.pi, v * MAX_COLATITUDE_RAD
        # A bump narrower than a cell would be a corner where it meets a vertex, and nothing beside one.
        radius = sample(blur(shape.radius, BUMP_CELLS), theta, colatitude)
        layer = sample(depth, theta, colatitude)
        radius[0], layer[0] = radius[1].mean(), layer[1].mean()
        # Flat faces lie inside a round surface, on average by this share of its radius: their corners stand out by as much.
        flat = ((MAX_COLATITUDE_RAD / rows) ** 2 + (2 * np.pi / columns * np.sin(colatitude)) ** 2) / 12
        rays = ray_directions(theta, colatitude)
        base = shape.centre + rays * (radius * (1 + flat) - SURFACE_LEVEL * layer)[..., None]
        u[0] = (np.arange(columns + 1) + 0.5) / columns  # each triangle of the pole's fan looks at its own middle
        u[0] = np.minimum(u[0], 1.0)
        index = np.arange(base[..., 0].size).reshape(rows + 1, columns + 1)
        weld = index.copy()
        weld[:, -1] = index[:, 0]
        weld[0] = 0
        a, b, c, d = index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]
        # Both triangles of a cell follow each other, so that a driver's vertex cache holds their corners.
        pairs = np.stack([np.stack([a, b, c], -1), np.stack([a, c, d], -1)], axis=2)
        faces = np.concatenate([pairs[0, :, 0], pairs[1:].reshape(-1, 3)])  # at the pole the second has no area
        return cls(base.reshape(-1, 3), (rays * layer[..., None]).reshape(-1, 3), np.stack([u, v], -1).reshape(-1, 2),
                   weld.ravel(), faces)  # fmt: skip

    def cell_normals(self) -> np.ndarray:
        """(ROWS, COLUMNS, 3) normals as the renderer shades them."""
        grid = smooth_normals(self.base, self.faces, self.weld).reshape(MESH_ROWS + 1, MESH_COLUMNS + 1, 3)
        middle = (grid[:-1, :-1] + grid[1:, :-1] + grid[:-1, 1:] + grid[1:, 1:]) / 4
        normals = enlarge(middle, ROWS, COLUMNS)
        return normals / np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-6)

    def surface(self, rows: int, columns: int) -> np.ndarray:
        """(rows, columns, 3) f32 points of the outline's level, as its flat triangles lie, at the cells of a texture."""
        grid = (self.base + SURFACE_LEVEL * self.extent).astype(np.float32).reshape(MESH_ROWS + 1, MESH_COLUMNS + 1, 3)
        y, x = ((np.arange(n) + 0.5) / n * cells for n, cells in ((rows, MESH_ROWS), (columns, MESH_COLUMNS)))
        top, left = y.astype(int)[:, None], x.astype(int)[None]
        fy, fx = ((at % 1).astype(np.float32) for at in (y[:, None, None], x[None, :, None]))
        a, b, c, d = grid[top, left], grid[top + 1, left], grid[top + 1, left + 1], grid[top, left + 1]
        return np.where(fy > fx, a + fy * (b - a) + fx * (c - b), a + fx * (d - a) + fy * (c - d))

    def shells(self, texture: HairTexture) -> HairShells:
        theta, colatitude = (self.uv[:, 0] * 2 - 1) * np.pi, self.uv[:, 1] * MAX_COLATITUDE_RAD
        inside = sample(texture.inside_m, theta, colatitude)
        faces = self.faces[(inside[self.faces] > -MESH_MARGIN_M).any(1)]
        used, faces = np.unique(faces, return_inverse=True)
        weld = self.weld[used]
        first: dict[int, int] = {}
        for new, old in enumerate(weld):
            first.setdefault(int(old), new)
        return HairShells(
            base=self.base[used].astype(np.float32),
            extent=self.extent[used].astype(np.float32),
            uv=self.uv[used].astype(np.float32),
            weld=np.array([first[int(old)] for old in weld], np.int32),
            faces=faces.reshape(-1, 3).astype(np.int32),
            levels=LEVELS.copy(),
            color=texture.color,
            opacity=texture.opacity,
            occlusion=OCCLUSION.copy(),
        )


def _under_hair(
    vertices: np.ndarray, head: HeadModel, shape: HairShape, depth: np.ndarray, texture: HairTexture, work: WorkPicture
) -> tuple[np.ndarray, np.ndarray]:
    """(share of hair colour (V,), offsets (V, 3) that bring scalp and ears under the hair's base)."""
    offset = vertices - shape.centre
    distance = np.linalg.norm(offset, axis=1)
    theta, colatitude = ray_angles(offset)
    inside = sample(texture.inside_m, theta, colatitude)
    scalp = sample(shape.scalp, theta, colatitude)
    base = scalp + sample(shape.thickness - SURFACE_LEVEL * depth, theta, colatitude)
    ears = head.regions["ears"]
    # The ray map ends at the neck, and holds nothing for the shoulders or what lies inside the head.
    near = (head.vertex_part == SKIN) & (distance < scalp + TUCK_REACH_M) & (distance > 0.8 * scalp)
    near &= colatitude < MAX_COLATITUDE_RAD - 0.05
    behind = SCALP_BEHIND_LONG_M if shape.covered else SCALP_BEHIND_CROPPED_M
    mask = np.where(near, np.clip((inside - behind) / SCALP_FEATHER_M, 0, 1), 0).astype(np.float32)
    # Hair may stand well off the skin that the photo shows beside it.
    normals = smooth_normals(vertices.astype(np.float32), head.faces, head.weld)
    toward = work.camera.center - vertices
    facing = (normals * toward).sum(1) / np.linalg.norm(toward, axis=1)
    shown = look_up(shape.bare, work.camera.project(vertices)[0]) * np.clip((facing - 0.05) / 0.2, 0, 1)
    mask *= (1 - np.clip(1.5 * shown, 0, 1)).astype(np.float32)
    if not shape.covered:
        mask *= np.clip(1 - (distance - scalp - 0.002) / 0.002, 0, 1)  # a free ear keeps its colour,
        mask *= (ears < 0.5) | (inside > 0.008)  # and so does its root
    covered = np.clip((inside - np.where(ears > 0.3, 0.0, 0.002)) / 0.006, 0, 1)
    limit = base - TUCK_CLEARANCE_M
    if shape.covered:
        # Ears under hair are pressed to the head, lobes and all: standing off they would poke out under its edge.
        pressed = scalp + PRESSED_EAR_SHARE * (distance - scalp)
        limit = np.minimum(limit, np.where(ears > 0.3, np.maximum(pressed, scalp - 0.003), np.inf))
        covered = np.maximum(covered, np.clip(ears * 1.5 - 0.3, 0, 1) * (distance > scalp))
    else:
        covered = covered * np.clip(1 - 2 * ears, 0, 1)  # a free ear keeps its shape
    pull = np.where(near & (distance > limit), covered * (limit - distance), 0.0)
    tuck = offset / np.maximum(distance, 1e-6)[:, None] * pull[:, None]
    return mask, tuck.astype(np.float32)
