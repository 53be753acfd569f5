"""Colours of what no portrait shows well: teeth, gums, tongue, lashes and the inside of the mouth."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from avatar3d.enroll.surface import Atlas
from avatar3d.head.model import LASHES, MOUTH_BAG, SKIN, TEETH, TONGUE, HeadModel

# Linear albedos.
TOOTH = np.array([0.80, 0.74, 0.62])  # ivory at the biting edge
TOOTH_NECK = np.array([0.66, 0.57, 0.43])  # warmer and darker at the gum
GUM = np.array([0.34, 0.095, 0.095])
TONGUE_COLOR = np.array([0.30, 0.085, 0.085])
LASH = np.array([0.010, 0.0065, 0.005])
MOUTH_FRONT = np.array([0.26, 0.055, 0.055])  # encoded as linear; the wet inside of the lips
GUM_MIN_SPAN_M = 0.02  # a gum spans the arch, a tooth does not
# Depth behind the lips over which the mouth turns dark, metres: no light reaches the throat.
DARK_FROM_M, DARK_TO_M = 0.018, 0.065
DARKEST = 0.07
INNER_LIP_RAMP = 0.6
ARCH_LIT_M, ARCH_FADE_M, ARCH_DARKEST = 0.005, 0.016, 0.18
# The tongue is lit from its tip, wherever the mouth lets light in, and dark at its root.
TONGUE_LIT_M, TONGUE_FADE_M, TONGUE_DARKEST = 0.008, 0.040, 0.05


def _depth_shade(head: HeadModel) -> np.ndarray:
    """(V,) f32 1 at the lips, falling to DARKEST toward the throat."""
    lips = head.vertices[(head.regions["lips"] > 0.5) & (head.vertex_part == SKIN), 2].max()
    depth = lips - head.vertices[:, 2]
    share = np.clip((depth - DARK_FROM_M) / (DARK_TO_M - DARK_FROM_M), 0, 1)
    return (DARKEST**share).astype(np.float32)


def paint_parts(linear: np.ndarray, head: HeadModel, texels: Atlas, exposure: float) -> None:
    """Write linear colours of teeth, gums, tongue and lashes into (T, 3) texels of the atlas's raster, in place.

    exposure: factor on all but the lashes, see EyeColors.
    """
    color = np.zeros((len(head.vertices), 3), np.float32)
    shade = _depth_shade(head)[:, None]
    teeth = np.flatnonzero(head.vertex_part == TEETH)
    gum, crown_height = _gums_and_heights(head)
    color[teeth] = TOOTH + (TOOTH_NECK - TOOTH) * crown_height[teeth, None]
    color[gum] = GUM
    color *= shade
    tongue = np.flatnonzero(head.vertex_part == TONGUE)
    z = head.vertices[tongue, 2]
    behind = np.clip((z.max() - z - TONGUE_LIT_M) / TONGUE_FADE_M, 0, 1)[:, None]
    color[tongue] = TONGUE_COLOR * TONGUE_DARKEST**behind
    # The arch darkens toward the molars, measured from the incisors: they are lit wherever the lips are open.
    front = head.vertices[teeth, 2].max()
    along = np.clip((front - head.vertices[:, 2] - ARCH_LIT_M) / ARCH_FADE_M, 0, 1)[:, None]
    color[teeth] = (color / shade * (1 - (1 - ARCH_DARKEST) * along))[teeth]
    color *= exposure
    color[head.vertex_part == LASHES] = LASH
    chosen = np.isin(head.part[texels.raster.triangle], (TEETH, TONGUE, LASHES))
    linear[chosen] = texels.raster.interpolate(head.faces, color)[chosen]


def _gums_and_heights(head: HeadModel) -> tuple[np.ndarray, np.ndarray]:
    """Gum vertices (V,) bool and, for teeth, the place between biting edge (0) and neck (1), (V,)."""
    faces = head.weld[head.faces[head.part == TEETH]]
    count = len(head.vertices)
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    graph = sp.csr_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (count, count))
    _, label = connected_components(graph, directed=False)
    label = label[head.weld]
    teeth = head.vertex_part == TEETH
    gum = np.zeros(count, bool)
    height = np.zeros(count, np.float32)
    crowns_y = []
    members = [np.flatnonzero((label == piece) & teeth) for piece in np.unique(label[teeth])]
    for index in members:
        if np.ptp(head.vertices[index, 0]) > GUM_MIN_SPAN_M:
            gum[index] = True
        else:
            crowns_y.append(head.vertices[index, 1].mean())
    middle = (min(crowns_y) + max(crowns_y)) / 2 if crowns_y else 0.0
    for index in members:
        if not gum[index[0]]:
            y = head.vertices[index, 1]
            from_low = (y - y.min()) / max(float(np.ptp(y)), 1e-6)
            height[index] = from_low if y.mean() > middle else 1 - from_low
    return gum, np.clip(height - 0.25, 0, 1) / 0.75


def inner_mouth_color(texture: np.ndarray, head: HeadModel, texels: Atlas, exposure: float) -> np.ndarray:
    """The encoded texture (R, 3) of the node texels with the mouth's wet inside painted, darker with depth."""
    inside = head.regions["inner_mouth"].astype(np.float32).copy()
    bag = head.vertex_part == MOUTH_BAG
    inside[bag] = 1.0
    raster = texels.raster
    share = np.clip(raster.interpolate(head.faces, inside)[texels.on_graph] / INNER_LIP_RAMP, 0, 1)[:, None]
    shade = raster.interpolate(head.faces, _depth_shade(head))[texels.on_graph][:, None]
    wet = (MOUTH_FRONT * exposure * shade) ** (1 / 2.2)
    return texture * (1 - share) + share * wet
