"""Colours of what no portrait shows well: teeth, gums, tongue, lashes and the inside of the mouth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from avatar3d.color import LUMA_BT709
from avatar3d.enrolment.skin.surface import Atlas
from avatar3d.geometry import smoothstep
from avatar3d.head.model import LASHES, MOUTH_BAG, SKIN, TEETH, TONGUE, HeadModel

# Linear albedos.
TOOTH = np.array([0.78, 0.72, 0.61])  # ivory in the middle of a crown
TOOTH_NECK = np.array([0.60, 0.50, 0.37])  # warmer and darker at the gum, where the lip's shadow lies as well
TOOTH_EDGE = np.array([0.60, 0.59, 0.55])  # the biting edge lets light through
NECK_FROM, EDGE_TO = 0.3, 0.16  # of a crown's height
# Neighbouring crowns turn from the light and shade one another; across a crown's half width from its middle.
GAP_FROM, GAP_TO, GAP = 0.74, 0.97, np.array([0.62, 0.54, 0.46])
CANINE_TONE = np.array([0.92, 0.88, 0.80])  # of the tone of the others
CANINE_X_M, CANINE_REACH_M = 0.0162, 0.0035  # beside the midline
TONE_SPREAD = 0.035  # standard deviation from tooth to tooth
GUM = np.array([0.37, 0.14, 0.13])
GUM_LIGHT = 0.25  # over roots gums are paler than between them
TONGUE_COLOR = np.array([0.36, 0.135, 0.13])
GROOVE, GROOVE_M = 0.30, 0.0018  # darkening along the tongue's middle, and half its width
TONGUE_SIDE = 0.55  # of the brightness of its back, where it turns down
# All of these are albedos in white light. The photo's skin has its light's hue, and what lies in the mouth has it too: over this
# usual skin's hue (linear, over its luminance), within limits. Of it the teeth take the smaller share, as dark skin is in white
# light what pale skin is in warm light.
SKIN_HUE, TINT_LIMITS = np.array([1.53, 0.885, 0.61]), (0.5, 1.5)
TOOTH_TINT = 0.4
LASH = np.array([0.010, 0.0065, 0.005])
MOUTH_FRONT = np.array([0.26, 0.055, 0.055])  # encoded as linear; the wet inside of the lips
GUM_MIN_SPAN_M = 0.02  # a gum spans the arch, a tooth does not
# Depth behind the lips over which the mouth turns dark, metres: no light reaches the throat.
DARK_FROM_M, DARK_TO_M = 0.018, 0.065
DARKEST = 0.07
INNER_LIP_RAMP = 0.6
ARCH_LIT_M, ARCH_FADE_M, ARCH_DARKEST = 0.003, 0.016, 0.15
ARCH_CENTRE_M = -0.012  # z of the middle of the dental arch
SEED = 11
# The tongue is lit from its tip, wherever the mouth lets light in, and dark at its root.
TONGUE_LIT_M, TONGUE_FADE_M, TONGUE_DARKEST = 0.008, 0.040, 0.05


def _depth_shade(head: HeadModel) -> np.ndarray:
    """(V,) f32 1 at the lips, falling to DARKEST toward the throat."""
    lips = head.vertices[(head.regions["lips"] > 0.5) & (head.vertex_part == SKIN), 2].max()
    depth = lips - head.vertices[:, 2]
    share = np.clip((depth - DARK_FROM_M) / (DARK_TO_M - DARK_FROM_M), 0, 1)
    return (DARKEST**share).astype(np.float32)


def light_tint(skin: np.ndarray) -> np.ndarray:
    """(3,) factors that give a colour in white light the hue of the light in which plain skin has the linear colour skin (3,)."""
    return np.clip(skin / max(float(skin @ LUMA_BT709), 1e-4) / SKIN_HUE, *TINT_LIMITS)


def paint_parts(linear: np.ndarray, head: HeadModel, texels: Atlas, exposure: float, tint: np.ndarray) -> None:
    """Write linear colours of teeth, gums, tongue and lashes into (T, 3) texels of the atlas's raster, in place.

    exposure: factor on all but the lashes, see EyeColors. tint: (3,) the light's, see light_tint.
    """
    color = np.zeros((len(head.vertices), 3), np.float32)
    teeth = head.vertex_part == TEETH
    row = _teeth(head)
    color[row.gum] = GUM * (1 + GUM_LIGHT * np.cos(np.pi * np.clip(row.across[row.gum], -1, 1))[:, None])
    tongue = np.flatnonzero(head.vertex_part == TONGUE)
    color[tongue] = _tongue(head, tongue)
    # The arch darkens toward the molars, measured from the incisors: they are lit wherever the lips are open.
    front = head.vertices[teeth, 2].max(initial=-np.inf)  # not every head has teeth, nor a tongue
    along = 1 - (1 - ARCH_DARKEST) * np.clip((front - head.vertices[:, 2] - ARCH_LIT_M) / ARCH_FADE_M, 0, 1)
    color[teeth] *= along[teeth, None]
    color *= exposure * tint
    color[head.vertex_part == LASHES] = LASH
    part = head.part[texels.raster.triangle]
    chosen = np.flatnonzero(np.isin(part, (TEETH, TONGUE, LASHES)))
    linear[chosen] = texels.raster.interpolate(head.faces, color, chosen)
    # Crowns have too few vertices to carry the gaps between them.
    values = np.c_[row.across, row.height, row.tone, along, row.gum]
    rows = np.flatnonzero(part == TEETH)
    values = texels.raster.interpolate(head.faces, values, rows)
    crown = values[:, 6] < 0.5
    rows = rows[crown]
    shade = values[crown, 2:5] * values[crown, 5:6]
    linear[rows] = crown_color(values[crown, 0], values[crown, 1]) * shade * (exposure * tint**TOOTH_TINT)


def crown_color(across: np.ndarray, height: np.ndarray) -> np.ndarray:
    """(N, 3) linear colour of a crown from −1 to 1 across its width and from its biting edge (0) to its neck (1)."""
    neck = np.clip((height - NECK_FROM) / (1 - NECK_FROM), 0, 1)[:, None]
    edge = np.clip(1 - height / EDGE_TO, 0, 1)[:, None]
    color = TOOTH + neck * (TOOTH_NECK - TOOTH)
    color = color + edge * (TOOTH_EDGE - color)
    return color * (1 - (1 - GAP) * smoothstep(GAP_FROM, GAP_TO, np.abs(across))[:, None])


@dataclass(frozen=True)
class _Teeth:
    """Vertices (V,) of the teeth: gum (bool), across a crown's width (−1 to 1), height from its edge (0 to 1), tone (V, 3)."""

    gum: np.ndarray
    across: np.ndarray
    height: np.ndarray
    tone: np.ndarray


def _teeth(head: HeadModel) -> _Teeth:
    """What each vertex of both rows is."""
    faces = head.weld[head.faces[head.part == TEETH]]
    count = len(head.vertices)
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    graph = sp.csr_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (count, count))
    _, label = connected_components(graph, directed=False)
    label = label[head.weld]
    teeth = head.vertex_part == TEETH
    gum = np.zeros(count, bool)
    across, height = np.zeros(count, np.float32), np.zeros(count, np.float32)
    tone = np.ones((count, 3), np.float32)
    rng = np.random.default_rng(SEED)
    members = [np.flatnonzero((label == piece) & teeth) for piece in np.unique(label[teeth])]
    crowns = [index for index in members if np.ptp(head.vertices[index, 0]) <= GUM_MIN_SPAN_M]
    heights = [head.vertices[index, 1].mean() for index in crowns]
    middle = (min(heights) + max(heights)) / 2 if heights else 0.0
    places = []
    for index, y_mean in zip(crowns, heights, strict=True):
        points = head.vertices[index].astype(np.float64)
        centre = points.mean(0)
        places.append(centre)
        from_low = (points[:, 1] - points[:, 1].min()) / max(float(np.ptp(points[:, 1])), 1e-6)
        height[index] = from_low if y_mean > middle else 1 - from_low
        # A crown's width runs along the arch, which turns about the middle of the mouth: across the line from there.
        outward = np.array([centre[0], centre[2] - ARCH_CENTRE_M])
        sideways = (points[:, [0, 2]] - centre[[0, 2]]) @ (np.array([outward[1], -outward[0]]) / np.linalg.norm(outward))
        across[index] = sideways / max(float(np.abs(sideways).max()), 1e-6)
        canine = np.exp(-(((abs(centre[0]) - CANINE_X_M) / CANINE_REACH_M) ** 2))
        tone[index] = (1 + canine * (CANINE_TONE - 1)) * (1 + TONE_SPREAD * rng.standard_normal())
    for index in members:
        if np.ptp(head.vertices[index, 0]) <= GUM_MIN_SPAN_M:
            continue
        gum[index] = True
        points = head.vertices[index]
        own = np.array([p for p in places if (p[1] > middle) == (points[:, 1].mean() > middle)])
        if len(own):
            # Over a root 0, between two of them ±1.
            away = np.linalg.norm(points[:, None, [0, 2]] - own[None][..., [0, 2]], axis=2)
            nearest = np.sort(away, axis=1)
            across[index] = nearest[:, 0] / np.maximum(nearest[:, :2].mean(1), 1e-6) if len(own) > 1 else 0
    return _Teeth(gum, across, height, tone)


def _tongue(head: HeadModel, tongue: np.ndarray) -> np.ndarray:
    """(K, 3) linear colour of the tongue's vertices (K,): its back is lit, its sides and its groove lie in shade, its root is dark."""
    points, normals = head.vertices[tongue], head.normals(head.vertices)[tongue]
    behind = np.clip((points[:, 2].max(initial=-np.inf) - points[:, 2] - TONGUE_LIT_M) / TONGUE_FADE_M, 0, 1)
    side = TONGUE_SIDE + (1 - TONGUE_SIDE) * np.clip(0.5 + normals[:, 1] + 0.5 * normals[:, 2], 0, 1)
    groove = 1 - GROOVE * np.exp(-((points[:, 0] / GROOVE_M) ** 2)) * np.clip(normals[:, 1], 0, 1)
    return TONGUE_COLOR * (TONGUE_DARKEST**behind * side * groove)[:, None]


def inner_mouth_color(texture: np.ndarray, head: HeadModel, texels: Atlas, exposure: float, tint: np.ndarray) -> np.ndarray:
    """The encoded texture (R, 3) of the node texels with the mouth's wet inside painted, darker with depth."""
    inside = head.regions["inner_mouth"].astype(np.float32).copy()
    bag = head.vertex_part == MOUTH_BAG
    inside[bag] = 1.0
    raster = texels.raster
    share = np.clip(raster.interpolate(head.faces, inside, texels.on_graph) / INNER_LIP_RAMP, 0, 1)[:, None]
    shade = raster.interpolate(head.faces, _depth_shade(head), texels.on_graph)[:, None]
    wet = (MOUTH_FRONT * exposure * tint * shade) ** (1 / 2.2)
    return texture * (1 - share) + share * wet
