"""The photo between the lids, laid onto the painted eyeballs and the lids' rims: iris, white and lash line in their own shade."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.color import LUMA_BT709, srgb_to_linear
from avatar3d.enroll.crop import WorkPicture
from avatar3d.enroll.eyes import IRIS
from avatar3d.enroll.seen import EYE_LEFT, EYE_RIGHT, PhotoNodes, sample
from avatar3d.enroll.surface import Atlas
from avatar3d.head.model import EYES, SKIN, HeadModel

PHOTO_SHARE = 0.9  # where it is seen best; the rest keeps the painted eye's crispness
RIM_MM = 0.5  # around the lids' landmarks the photo still counts over this width, and fades over as much again
MIN_OPENING_MM = 2.0  # a narrower slit shows lashes only
FACING = (0.35, 0.6)  # cosine to the viewing ray over which the photo is believed
CATCHLIGHT = 2.0  # over the iris's middle brightness: what is brighter on it is a lamp's reflection, which the renderer adds itself
PUPIL_LEAST = 0.04  # of the iris's brightness
IRIS_REACH = 1.1  # of the iris's radius, within which that holds
LASH_LINE = 0.75  # of the skin's brightness that a lid's rim has at most
EDGE_MM = 1.2  # inside the lids' outline the photo takes over from the painted eyeball across this width: no lash is printed on it
TONE_LIMITS = (0.55, 1.25)  # of the tone that the painted rest of an iris or white takes from what is seen
WHITE_QUANTILE = 0.6  # of the white's tone: what a lid shades in the photo does not tell of the rest
MIN_TEXELS = 40  # fewer seen texels say nothing about the rest


def show_eyes(
    linear: np.ndarray, picture: WorkPicture, nodes: PhotoNodes, shade_vertex: np.ndarray, head: HeadModel, texels: Atlas
) -> None:
    """Blend the photo's albedo into (T, 3) linear texels of both eyes, in place, and give the unseen rest its tone.

    shade_vertex: (V, 3) shade of the vertices as photographed.
    """
    points = picture.landmarks_px[:, :2]
    light = srgb_to_linear(picture.rgb)
    raster = texels.raster
    of_part = head.part[raster.triangle]
    side = np.sign(raster.interpolate(head.faces, head.vertices[:, :1])[:, 0])
    around = raster.interpolate(head.faces, head.regions["eye_contour"][:, None])[:, 0]
    lid_rim = (of_part == SKIN) & (around > 0.3)
    eyes = []
    for lids, iris, sign in ((EYE_LEFT, IRIS[0], 1), (EYE_RIGHT, IRIS[1], -1)):
        depth_mm = opening(points[list(lids)], light.shape[:2], nodes.mm_px)
        if 2 * depth_mm.max() < MIN_OPENING_MM:
            continue
        seen = look(np.flatnonzero((of_part == EYES) & (side == sign)), light, picture, nodes, shade_vertex, head, texels)
        weight = PHOTO_SHARE * ramp(sample(depth_mm, seen.pixels), (0, EDGE_MM)) * ramp(seen.facing, FACING)
        centre, ring = iris
        radius = np.linalg.norm(points[list(ring)] - points[centre], axis=1).mean()
        from_iris = np.linalg.norm(seen.pixels - points[centre], axis=1) / radius
        on_iris = from_iris < IRIS_REACH
        sure = on_iris & (weight > 0.5)
        if sure.any():
            luminance, painted = (values @ LUMA_BT709 for values in (seen.albedo, linear[seen.rows]))
            # No texel is much brighter than the iris, nor the pupil much brighter than a pupil.
            dark = np.clip(painted / max(float(np.median(painted[sure])), 1e-4), PUPIL_LEAST, 1)
            brightest = CATCHLIGHT * np.median(luminance[sure]) * dark
            seen.albedo[on_iris] *= np.minimum(1, brightest / np.maximum(luminance, 1e-4))[on_iris, None]
        eyes.append((seen, weight, from_iris))
        # The rims of the lids bear the lash line, which is narrower than the skin's own look at the photo resolves.
        rim = look(np.flatnonzero(lid_rim & (side == sign)), light, picture, nodes, shade_vertex, head, texels)
        weight = PHOTO_SHARE * ramp(sample(depth_mm, rim.pixels), (-2 * RIM_MM, -RIM_MM))[:, None]
        painted = linear[rim.rows]
        linear[rim.rows] = painted + weight * (np.minimum(rim.albedo, LASH_LINE * painted) - painted)
    # Both eyes take one tone: where one lies in shade that is the light's.
    tones = np.ones(2)  # of iris and white
    for part, found in enumerate(zip(*(_tones(linear, *eye) for eye in eyes), strict=True)):
        if np.isfinite(found).any():
            tones[part] = np.clip(np.nanmean(found), *TONE_LIMITS)
    for seen, weight, from_iris in eyes:
        outside = ramp(from_iris, (1.0, IRIS_REACH))
        painted = linear[seen.rows] * (tones[0] + (tones[1] - tones[0]) * outside)[:, None]
        linear[seen.rows] = painted + weight[:, None] * (np.clip(seen.albedo, 0, 1) - painted)


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
        texels.raster.interpolate(head.faces, values)[rows] for values in (nodes.posed, nodes.vertex_normals, shade_vertex)
    )
    pixels, depth = picture.camera.project(places.astype(np.float64))
    toward = picture.camera.center - places
    facing = (normals * toward).sum(1) / np.linalg.norm(toward, axis=1)
    return Look(rows, pixels, depth, facing, np.maximum(sample(light, pixels), 0) / shade)


def ramp(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    return np.clip((values - limits[0]) / (limits[1] - limits[0]), 0, 1)


def _tones(linear: np.ndarray, seen: Look, weight: np.ndarray, from_iris: np.ndarray) -> tuple[float, float]:
    """Brightness of iris and white in the photo over the painted ones; not a number where too little is seen.

    from_iris: (M,) distance from the iris's centre in the photo, in its radii.
    """
    ratio = (seen.albedo @ LUMA_BT709) / np.maximum(linear[seen.rows] @ LUMA_BT709, 1e-4)
    iris, white = ((weight > 0.5) & part for part in (from_iris < 1, from_iris > IRIS_REACH))
    return (
        float(np.median(ratio[iris])) if iris.sum() >= MIN_TEXELS else np.nan,
        float(np.quantile(ratio[white], WHITE_QUANTILE)) if white.sum() >= MIN_TEXELS else np.nan,
    )


def opening(outline: np.ndarray, shape: tuple[int, int], mm_px: float) -> np.ndarray:
    """(H, W) f32 millimetres inside an outline (K, 2) of pixels, negative outside."""
    mask = np.zeros(shape, np.uint8)
    cv2.fillPoly(mask, [np.round((outline - 0.5) * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
    inside, outside = (cv2.distanceTransform(part, cv2.DIST_L2, 5) for part in (mask, 1 - mask))
    return ((inside - outside) / mm_px).astype(np.float32)
