"""What the photo shows between the lids: the tone of the painted irises and whites, and the lash line on the lids' rims."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.color import LUMA_BT709, srgb_to_linear
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.skin.projection import PhotoNodes, sample
from avatar3d.enrolment.skin.surface import Atlas
from avatar3d.head.mediapipe import LEFT_EYE, RIGHT_EYE
from avatar3d.head.model import EYE_DISC_POLAR_RAD, EYE_DISC_RADIUS, EYES, SKIN, HeadModel

RIM_SHARE = 0.9  # of the photo in a lid's rim; the rest keeps the painted one's crispness
# A lash line is darker than what lies beside it, and the fit may miss it by this much: the darkest near by is taken.
LASH_LINE_MM = 0.6
RIM_MM = 0.5  # around the lids' landmarks the photo still counts over this width, and fades over as much again
MIN_OPENING_MM = 2.0  # a narrower slit shows lashes only
FACING = (0.35, 0.6)  # cosine to the viewing ray over which the photo is believed
LASH_LINE = 0.75  # of the skin's brightness that a lid's rim has at most
# The lower lid's edge, up to so far from the eyeball: bare and pink, without the lash line's shade.
WET_MM, WET_LINE = (0.3, 0.7), np.array([0.98, 0.90, 0.90])
LOWER_LID_M = 0.001  # below the eye's middle
# Inside the lids' outline the photo takes over from the painted eyeball across this width: no lash is printed on it.
EDGE_MM = 0.6
# The photo gives an eyeball its tone, not its drawing: what it prints of lids and lashes would turn with the gaze.
TONE_MM = 0.7  # standard deviation of the blur of the photo's tone over the painted one's
# Of the iris's radius: between them the photo's limbus is not quite where the painted one is
IRIS_INNER, WHITE_OUTER = 0.92, 1.12
IRIS_BRIGHTEST = 1.5  # of the iris's median tone: what is brighter is a lamp's reflection, which the renderer adds itself
TONE_RANGE = (0.25, 1.6)  # of the tone at one place
# Of the tone that the unseen rest takes, iris and white: what is seen of a white lies in the shade of brow and lids.
TONE_LIMITS = np.array([[0.55, 1.25], [0.85, 1.25]])
WHITE_CHROMA = 0.4  # of the photo's hue in a white's tone: small pictures bleed iris and lids into it
WHITE_QUANTILE = 0.6  # of the white's tone: what a lid shades in the photo does not tell of the rest
UNSEEN_WEIGHT = 0.12  # of that rest's tone against a well seen place
TEXELS_PER_RADIAN = EYE_DISC_RADIUS[1] / EYE_DISC_POLAR_RAD[1]  # of an eye's disc, in its radii
EYE_RADIUS_M = 0.0163  # of the model's eyeballs
MIN_TEXELS = 40  # fewer seen texels say nothing about the rest


def show_eyes(
    linear: np.ndarray, picture: WorkPicture, nodes: PhotoNodes, shade_vertex: np.ndarray, limbus: tuple[float, float],
    head: HeadModel, texels: Atlas,
) -> None:  # fmt: skip
    """Give the painted (T, 3) linear texels of both eyes the photo's tone and the lids' rims its lash line, in place.

    shade_vertex: (V, 3) shade of the vertices as photographed. limbus: polar angle of each painted iris, radians.
    """
    points = picture.landmarks_px[:, :2]
    light = srgb_to_linear(picture.rgb)
    side_px = 2 * max(1, round(LASH_LINE_MM * nodes.mm_px)) + 1
    lashes = cv2.erode(light, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side_px, side_px)))
    raster = texels.raster
    of_part = head.part[raster.triangle]
    side = np.sign(raster.interpolate(head.faces, head.vertices[:, :1])[:, 0])
    around = raster.interpolate(head.faces, head.regions["eye_contour"][:, None])[:, 0]
    lid_rim = (of_part == SKIN) & (around > 0.3)
    eyes = []
    for eye, (lids, sign) in enumerate(((LEFT_EYE, 1), (RIGHT_EYE, -1))):
        depth_mm = opening(points[list(lids)], light.shape[:2], nodes.mm_px)
        if 2 * depth_mm.max() < MIN_OPENING_MM:
            continue
        seen = look(np.flatnonzero((of_part == EYES) & (side == sign)), light, picture, nodes, shade_vertex, head, texels)
        beside = (nodes.eyes > 0) & (np.sign(nodes.positions[:, 0]) == sign)
        weight = ramp(sample(depth_mm, seen.pixels), (0, EDGE_MM)) * ramp(seen.facing, FACING) * nodes.lit[beside].mean()
        polar = head.eye_uv[eye].polar(raster.interpolate(head.faces, head.uv, seen.rows))[0] / limbus[eye]
        tone = np.clip(seen.albedo / np.maximum(linear[seen.rows], 1e-4), 1e-3, None)
        outside = ramp(polar, (IRIS_INNER, WHITE_OUTER))
        grey = (tone @ LUMA_BT709)[:, None]
        tone = tone + (1 - WHITE_CHROMA) * outside[:, None] * (grey - tone)
        parts = [(weight * (polar < IRIS_INNER), 0.5), (weight * (polar > WHITE_OUTER), WHITE_QUANTILE)]
        eyes.append((eye, seen.rows, tone, parts, outside))
        # The rims of the lids bear the lash line, which is narrower than the skin's own look at the photo resolves.
        rim = look(np.flatnonzero(lid_rim & (side == sign)), lashes, picture, nodes, shade_vertex, head, texels)
        weight = RIM_SHARE * ramp(sample(depth_mm, rim.pixels), (-2 * RIM_MM, -RIM_MM))[:, None]
        painted = linear[rim.rows]
        line = painted + weight * (np.minimum(rim.albedo, LASH_LINE * painted) - painted)
        wet = ramp(-_off_eyeball(rim.rows, eye, nodes, head, texels), (-WET_MM[1], -WET_MM[0]))
        wet = (wet * ramp(sample(depth_mm, rim.pixels), (-2 * RIM_MM, -RIM_MM)))[:, None]
        linear[rim.rows] = np.clip(line + wet * (WET_LINE * painted - line), 0, 1)
    # Both eyes take one tone where neither is seen: where one lies in shade that is the light's.
    rest = []
    for part in range(2):
        found = [np.quantile(tone[p[part][0] > 0.5], p[part][1], axis=0) for _, _, tone, p, _ in eyes if _enough(p[part][0])]
        rest.append(np.clip(np.mean(found, axis=0), *TONE_LIMITS[part]) if found else np.ones(3))
    for eye, rows, tone, parts, outside in eyes:
        blur = TONE_MM / 1000 * texels.size * head.eye_uv[eye].radius * TEXELS_PER_RADIAN / EYE_RADIUS_M
        most = np.array([[IRIS_BRIGHTEST], [TONE_RANGE[1]]]) * np.array(rest)
        fields = [
            _smooth(rows, np.clip(tone, TONE_RANGE[0] * rest[k], most[k]), parts[k][0], rest[k], blur, texels) for k in range(2)
        ]
        linear[rows] *= np.clip(fields[0] + outside[:, None] * (fields[1] - fields[0]), 0, 1 / np.maximum(linear[rows], 1e-3))


def _off_eyeball(rows: np.ndarray, eye: int, nodes: PhotoNodes, head: HeadModel, texels: Atlas) -> np.ndarray:
    """(M,) millimetres between a texel of the lower lid and the eyeball; far away for the upper lid's."""
    places = texels.raster.interpolate(head.faces, nodes.posed, rows).astype(np.float64)
    centre, radius = head.eye_centres(nodes.posed)[eye], head.eye_radii(nodes.posed)[eye]
    away = 1000 * (np.linalg.norm(places - centre, axis=1) - radius)
    return np.where(places[:, 1] < centre[1] - LOWER_LID_M, away, np.inf)


def _enough(weight: np.ndarray) -> bool:
    return bool((weight > 0.5).sum() >= MIN_TEXELS)


def _smooth(
    rows: np.ndarray, tone: np.ndarray, weight: np.ndarray, rest: np.ndarray, sigma: float, texels: Atlas
) -> np.ndarray:
    """(M, 3) tone (M, 3) of texels `rows`, blurred over the atlas by weight (M,), going over to `rest` (3,) where none is seen."""
    y, x = np.divmod(texels.raster.texel[rows], texels.size)
    y, x = y - y.min(), x - x.min()
    patch = np.zeros((y.max() + 1, x.max() + 1, 4), np.float32)
    patch[y, x] = np.c_[tone * weight[:, None], weight]
    found = cv2.GaussianBlur(patch, (0, 0), max(sigma, 0.5), borderType=cv2.BORDER_CONSTANT)[y, x]
    return (found[:, :3] + UNSEEN_WEIGHT * rest) / (found[:, 3:] + UNSEEN_WEIGHT)


@dataclass(frozen=True)
class Look:
    """Texels (M,) of the raster in the photo: pixels (M, 2), depth and facing (M,), the albedo there (M, 3)."""

    rows: np.ndarray
    pixels: np.ndarray
    depth: np.ndarray
    facing: np.ndarray
    albedo: np.ndarray


def look(
    rows: np.ndarray, light: np.ndarray, picture: WorkPicture, nodes: PhotoNodes, shade_vertex: np.ndarray, head: HeadModel,
    texels: Atlas,
) -> Look:  # fmt: skip
    places, normals, shade = (
        texels.raster.interpolate(head.faces, values, rows) for values in (nodes.posed, nodes.vertex_normals, shade_vertex)
    )
    pixels, depth = picture.camera.project(places.astype(np.float64))
    toward = picture.camera.center - places
    facing = (normals * toward).sum(1) / np.linalg.norm(toward, axis=1)
    return Look(rows, pixels, depth, facing, np.maximum(sample(light, pixels), 0) / shade)


def ramp(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    return np.clip((values - limits[0]) / (limits[1] - limits[0]), 0, 1)


def opening(outline: np.ndarray, shape: tuple[int, int], mm_px: float) -> np.ndarray:
    """(H, W) f32 millimetres inside an outline (K, 2) of pixels, negative outside."""
    mask = np.zeros(shape, np.uint8)
    cv2.fillPoly(mask, [np.round((outline - 0.5) * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
    inside, outside = (cv2.distanceTransform(part, cv2.DIST_L2, 5) for part in (mask, 1 - mask))
    return ((inside - outside) / mm_px).astype(np.float32)
