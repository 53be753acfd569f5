"""The light between the photo's lips, laid onto the painted teeth and tongue: the shade of lips and cheeks, not their drawing.

Which tooth stands where no photo tells a model of teeth; where they are bright and where they lie in shade it does.
"""

from __future__ import annotations

import cv2
import numpy as np

from avatar3d.color import LUMA_BT709, srgb_to_linear
from avatar3d.enroll.photo.crop import WorkPicture
from avatar3d.enroll.skin.eyes_seen import look, opening, ramp
from avatar3d.enroll.skin.projection import LIPS_INNER, PhotoNodes, sample
from avatar3d.enroll.skin.surface import Atlas
from avatar3d.head.model import TEETH, TONGUE, HeadModel

BLUR_MM = 1.0  # finer than it are teeth and gaps, not light
EDGE_MM = 0.5  # inside the lips' outline lips and what they bear on end
MIN_OPENING_MM = 2.5  # a narrower slit shows the lips' shadow only
RED = 0.48  # blue over red: gums, lips and tongue have less, teeth more
DARK = 0.12  # of the brightest in the mouth: shade, which tells of both
SURE = (0.05, 0.4)  # share of such pixels in the blur over which it is believed
SHADE_LIMITS = (0.4, 1.15)  # a mouth that opens wider lets more light in
REST_QUANTILE = 0.6  # of the shade seen, for what is hidden: some of what is seen lies in the lips' shadow
MIN_TEXELS = 60
HUE_SHARE, HUE_LIMITS = 0.8, (0.8, 1.3)  # of the teeth's hue against the painted ones' that is taken over


def shade_mouth(
    linear: np.ndarray, picture: WorkPicture, nodes: PhotoNodes, shade_vertex: np.ndarray, head: HeadModel, texels: Atlas
) -> None:
    """Scale (T, 3) linear texels of teeth and tongue, in place, to the brightness that the photo shows between the lips.

    shade_vertex: (V, 3) shade of the vertices as photographed.
    """
    depth_mm = opening(picture.landmarks_px[list(LIPS_INNER), :2], picture.rgb.shape[:2], nodes.mm_px)
    inside = depth_mm > EDGE_MM
    if 2 * depth_mm.max() < MIN_OPENING_MM or not inside.any():
        return
    light = srgb_to_linear(picture.rgb)
    dark = light @ LUMA_BT709 < DARK * np.percentile((light @ LUMA_BT709)[inside], 95)
    red = light[..., 2] < RED * light[..., 0]
    parts = head.part[texels.raster.triangle]
    for part, shown in ((TEETH, dark | ~red), (TONGUE, dark | red)):
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
                hues = (_hue(seen_color[weight > 0.5]), _hue(linear[seen.rows[weight > 0.5]]))
                linear[seen.rows] *= 1 + HUE_SHARE * (np.clip(hues[0] / hues[1], *HUE_LIMITS) - 1)
            rest = np.quantile(ratio[weight > 0.5], REST_QUANTILE)
            linear[seen.rows] *= (rest + weight * (ratio - rest))[:, None]


def _hue(linear: np.ndarray) -> np.ndarray:
    """(3,) median of linear colours (M, 3) over their luminance."""
    return np.median(linear / np.maximum(linear @ LUMA_BT709, 1e-4)[:, None], axis=0)
