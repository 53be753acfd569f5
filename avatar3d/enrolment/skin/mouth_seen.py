"""What the photo shows between the lips: its light on the painted teeth and tongue, and its own picture in its own expression.

Which tooth stands where no photo tells a model of teeth, so that what stays in every expression is the light alone. In the
photo's own expression, and on the way to it, the photo's pixels lie over teeth, tongue and cheeks as a layer that moves with
the mouth: the person's smile is the one in the photo.
"""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np

from avatar3d.avatar import TextureDelta
from avatar3d.color import LUMA_BT709, srgb_to_linear
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.skin.eyes_seen import Look, look, opening, ramp
from avatar3d.enrolment.skin.parts import TOOTH_TINT
from avatar3d.enrolment.skin.projection import PhotoNodes, sample
from avatar3d.enrolment.skin.surface import GUTTER_TEXELS, Atlas, depth_map
from avatar3d.field.shells import uv_raster
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.mediapipe import LIPS_INNER
from avatar3d.head.model import LASHES, MOUTH_BAG, SKIN, TEETH, TONGUE, HeadModel
from avatar3d.motion.code import ARKIT_INDEX

BLUR_MM = 1.0  # finer than it are teeth and gaps, not light
EDGE_MM = 0.5  # inside the lips' outline lips and what they bear on end
MIN_OPENING_MM = 2.5  # a narrower slit shows the lips' shadow only
RED = 0.48  # blue over red in white light: gums, lips and tongue have less, teeth more
DARK = 0.12  # of the brightest in the mouth: shade, which tells of both
SURE = (0.05, 0.4)  # share of such pixels in the blur over which it is believed
SHADE_LIMITS = (0.4, 1.15)  # a mouth that opens wider lets more light in
REST_QUANTILE = 0.6  # of the shade seen, for what is hidden: some of what is seen lies in the lips' shadow
MIN_TEXELS = 60
# Shapes that part the lips, and how far the strongest must go for the mouth to show its inside.
PARTING_STEMS = ("mouthSmile", "mouthUpperUp", "mouthLowerDown", "mouthStretch", "cheekSquint")
PARTING_SHAPES = tuple(
    ARKIT_INDEX[name]
    for name in ("jawOpen", "mouthFunnel", *(stem + side for stem in PARTING_STEMS for side in ("Left", "Right")))
)
MIN_PARTING = 0.05
# What lies this far behind the nearest surface is hidden from the photo. Cheeks and tongue are seen at a slant through a slit, and
# what hides them stands well before them.
IN_FRONT_M, SLANTED_FRONT_M = 0.0015, 0.004
LOG_LIMIT, LOG_DARKEST = 4.0, 2e-3  # of the layer, natural log; linear colour below which a ratio is noise
LOG_TOOTH = 1.5  # the same upwards for teeth: more is what beside a gap between crowns lies a texel off
# Standard deviation of what the seen part of a tooth tells of the part under the lip; of a cheek, whose texels are 2 mm wide.
SPREAD_M, BAG_SPREAD_M, MIN_KNOWN = 0.002, 0.0035, 12
SPREAD_TRUST = 0.02  # of the weights' sum, under which nothing is told
HUE_SHARE, HUE_LIMITS = 0.8, (0.8, 1.3)  # of the teeth's hue against the painted ones' that is taken over


def shade_mouth(
    linear: np.ndarray, picture: WorkPicture, nodes: PhotoNodes, shade_vertex: np.ndarray, head: HeadModel, texels: Atlas,
    tint: np.ndarray,
) -> None:  # fmt: skip
    """Scale (T, 3) linear texels of teeth and tongue, in place, to the brightness that the photo shows between the lips.

    shade_vertex: (V, 3) shade of the vertices as photographed. tint: (3,) the light's, see parts.light_tint.
    """
    depth_mm = opening(picture.landmarks_px[list(LIPS_INNER), :2], picture.rgb.shape[:2], nodes.mm_px)
    inside = depth_mm > EDGE_MM
    if 2 * depth_mm.max() < MIN_OPENING_MM or not inside.any():
        return
    light = srgb_to_linear(picture.rgb)
    dark = light @ LUMA_BT709 < DARK * np.percentile((light @ LUMA_BT709)[inside], 95)
    hue = tint**TOOTH_TINT
    red = light[..., 2] < RED * hue[2] / hue[0] * light[..., 0]
    parts = head.part[texels.raster.triangle]
    for part, shown in ((TEETH, dark | ~red), (TONGUE, dark | red)):
        if not (parts == part).any():
            continue
        mask = (inside & shown).astype(np.float32)
        share, blurred = (cv2.GaussianBlur(a, (0, 0), BLUR_MM * nodes.mm_px) for a in (mask, light * mask[..., None]))
        seen = look(np.flatnonzero(parts == part), blurred, picture, nodes, shade_vertex, head, texels)
        weight = sample(share, seen.pixels)
        shade = float((shade_vertex[head.vertex_part == part] @ LUMA_BT709).mean())
        painted = np.maximum(linear[seen.rows] @ LUMA_BT709, 1e-4)
        # One shade for all: that of each small round tooth would print its gaps again.
        brightness = sample(blurred, seen.pixels) @ LUMA_BT709 / np.maximum(weight, 1e-3) / shade
        ratio = np.clip(brightness / painted, *SHADE_LIMITS)
        seen_color = sample(blurred, seen.pixels) / np.maximum(weight, 1e-3)[:, None]
        weight = ramp(weight, SURE)
        if (weight > 0.5).sum() >= MIN_TEXELS:
            if part == TEETH:
                # Their hue is the person's, and one; the light between the lips has it too.
                sure = weight > 0.5
                light_of = seen_color @ LUMA_BT709
                # What is darker than the middle lies in the lips' shadow or between crowns: its hue is the camera's noise.
                lit = sure & (light_of >= np.median(light_of[sure]))
                hues = (_hue(seen_color[lit]), _hue(linear[seen.rows[sure]]))
                linear[seen.rows] *= 1 + HUE_SHARE * (np.clip(hues[0] / hues[1], *HUE_LIMITS) - 1)
            rest = np.quantile(ratio[weight > 0.5], REST_QUANTILE)
            linear[seen.rows] *= (rest + weight * (ratio - rest))[:, None]


def mouth_row(fit: FaceFit) -> np.ndarray | None:
    """(52,) weights of the layer's activation, 1 at the photo's own motion and 0 at rest; None where the photo's mouth is shut."""
    shapes = list(PARTING_SHAPES)
    photo = fit.motion.weights[shapes]
    if photo.max(initial=0) < MIN_PARTING:
        return None
    row = np.zeros(len(ARKIT_INDEX), np.float32)
    row[shapes] = photo / float((photo**2).sum())
    return row


def mouth_layer(
    linear: np.ndarray, picture: WorkPicture, fit: FaceFit, nodes: PhotoNodes, shade_vertex: np.ndarray, head: HeadModel,
    texels: Atlas,
) -> TextureDelta | None:  # fmt: skip
    """The photo's picture of the mouth's inside over the painted one, None where the photo's mouth is shut.

    linear: (T, 3) colours of the atlas's raster without the layer. shade_vertex: (V, 3) shade of the vertices as photographed.
    What the lips hide goes over from the seen colour beside it to the painted one.
    """
    row = mouth_row(fit)
    if row is None:
        return None
    shown, painted = _texels_towards(picture, nodes, head, texels)
    if not len(painted):  # a model without a mouth's inside
        return None
    rows = np.arange(len(shown.raster.texel))
    found = look(rows, srgb_to_linear(picture.rgb), picture, nodes, shade_vertex, head, shown)
    parts = head.part[shown.raster.triangle]
    seen = _seen(found, parts, picture, nodes, head)
    if seen.sum() < MIN_TEXELS:
        return None
    ratio = np.log(np.maximum(found.albedo, LOG_DARKEST)) - np.log(np.maximum(linear[painted], LOG_DARKEST))
    places = shown.raster.interpolate(head.faces, head.vertices, rows)
    ratio = np.clip(ratio, -LOG_LIMIT, np.where(parts == TEETH, LOG_TOOTH, LOG_LIMIT)[:, None]) * seen[:, None]
    for part, reach in ((TEETH, SPREAD_M), (TONGUE, SPREAD_M), (MOUTH_BAG, BAG_SPREAD_M)):
        _spread(ratio, seen, places, parts == part, reach)
    return TextureDelta("photo mouth", row, 0.0, shown.raster.scatter(ratio.astype(np.float32)))


def _texels_towards(picture: WorkPicture, nodes: PhotoNodes, head: HeadModel, texels: Atlas) -> tuple[Atlas, np.ndarray]:
    """The texels of the mouth's inside, and their rows in the atlas's raster (M,).

    A crown's back lies over its front in the atlas: here a texel is of the side that is turned towards the photo's camera.
    """
    corners = nodes.posed[head.faces].astype(np.float64)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    towards = (normals * (picture.camera.center - corners[:, 0])).sum(1) > 0
    inner = head.regions["inner_mouth"][head.faces].mean(1) > 0.5
    chosen = np.isin(head.part, (TONGUE, MOUTH_BAG)) | ((head.part == SKIN) & inner) | ((head.part == TEETH) & towards)
    index = np.flatnonzero(chosen)
    raster = uv_raster(head.faces[index], head.uv, (texels.size, texels.size), GUTTER_TEXELS)
    raster = replace(raster, triangle=index[raster.triangle])
    row_of = np.full(texels.size * texels.size, -1)
    row_of[texels.raster.texel] = np.arange(len(texels.raster.texel))
    rows = row_of[raster.texel]
    # Gutters do not reach into other parts.
    own = (rows >= 0) & (head.part[texels.raster.triangle[rows]] == head.part[raster.triangle])
    return replace(texels, raster=raster.take(own)), rows[own]


def _seen(found: Look, parts: np.ndarray, picture: WorkPicture, nodes: PhotoNodes, head: HeadModel) -> np.ndarray:
    """(M,) bool: nothing of the head lies before a texel in the photo. parts: (M,) of the texels."""
    surface = depth_map(nodes.posed, head.faces[head.part != LASHES], picture.camera)
    nearest = np.where(np.isfinite(surface), surface, 1e3).astype(np.float32)
    inside = sample(picture.inside.astype(np.float32), found.pixels) > 0.99
    front = np.where(np.isin(parts, (TONGUE, MOUTH_BAG)), SLANTED_FRONT_M, IN_FRONT_M)
    return inside & (found.depth < sample(nearest, found.pixels) + front)


def _spread(ratio: np.ndarray, seen: np.ndarray, places: np.ndarray, chosen: np.ndarray, reach: float) -> None:
    """Carry the log ratios (M, 3) of seen texels (M,) to the hidden ones of one part within about `reach` m, in place."""
    from scipy.spatial import cKDTree

    known, hidden = np.flatnonzero(chosen & seen), np.flatnonzero(chosen & ~seen)
    if len(known) < MIN_KNOWN or not len(hidden):
        return
    count = min(24, len(known))
    away, nearest = cKDTree(places[known]).query(places[hidden], k=count)
    shares = np.exp(-0.5 * (away / reach) ** 2) / count
    told = (shares[..., None] * ratio[known][nearest]).sum(1)
    ratio[hidden] = told / (shares.sum(1, keepdims=True) + SPREAD_TRUST)


def _hue(linear: np.ndarray) -> np.ndarray:
    """(3,) median of linear colours (M, 3) over their luminance."""
    return np.median(linear / np.maximum(linear @ LUMA_BT709, 1e-4)[:, None], axis=0)
