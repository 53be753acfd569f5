"""The eyes' texture: iris colour read from the photo, the rest painted in the eyeball's polar coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from avatar3d.color import LUMA_BT709, srgb_to_linear
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.skin.surface import Atlas
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.mediapipe import EYE_LOOPS, IRISES, LIPS_INNER, LOWER_LIDS, UPPER_LIDS
from avatar3d.head.model import EYES, HeadModel

# The landmarks along the upper and the lower lid of the left and the right eye, with both corners.
IRIS_LIMITS = (0.85, 1.15)  # of the usual iris; beyond them the landmarks are wrong
USUAL_IRIS = np.array([0.055, 0.032, 0.018])  # linear: brown, as most people's are
RINGS = 8  # radial bins of the iris
PUPIL = 0.36  # of the iris's radius, in room light
PUPIL_EDGE, LIMBUS_EDGE = 0.03, 0.045
LIMBUS_WIDTH, LIMBUS_DARK = 0.10, 0.55
PUPIL_COLOR = 0.004  # linear
SCLERA = np.array([0.78, 0.745, 0.71])  # linear; no eye is pure white
SCLERA_PHOTO_SHARE = 0.9
SCLERA_LEAST = 0.14  # linear; what seems darker is a lash or a blurred iris,
SCLERA_OVER_SKIN = 0.85  # or lies in the shade of brow and lids: a white is hardly darker than the skin around it
DARK_EYE = 0.5  # of the other eye's white
SCLERA_CHROMA = 0.5  # of the photo's hue in a white: small pictures bleed iris and skin into it
SCLERA_GAIN = 1.25  # the photo's lies under the lid's shade, which is painted again
VESSEL = np.array([0.0, -0.16, -0.15])  # relative change in a corner full of vessels
IRIS_GAIN = 1.05  # the photo's iris lies under lids and lashes; its albedo is a little brighter
CAUSTIC = 0.30  # the cornea throws the light onto the iris's far side, which glows
# Lids and their lashes shade the ball: so much at their edge, fading over so many millimetres, of the upper and the lower lid.
UPPER_SHADE, UPPER_SHADE_MM = 0.66, 1.5
LOWER_SHADE, LOWER_SHADE_MM = 0.30, 0.7
CORNER_SHADE = 0.45  # where both lids meet
# Teeth are told from lips and tongue by how little redder than blue they are.
TOOTH_LEAST_BLUE = 0.5
TEETH_SHARE, TEETH_PIXELS = 0.25, 30  # fewer are no teeth but a highlight on a lip
TEETH_PERCENTILE, TEETH_WHITE, MAX_EXPOSURE = 80.0, 0.62, 1.25  # TEETH_WHITE: linear, what the painted ones show in plain light
SEED = 3


@dataclass(frozen=True)
class EyeColors:
    """iris: (RINGS, 3) linear colour from pupil to limbus. white: (3,) linear sclera. iris_px: its radius in the photo.

    exposure: how bright the photo shows what is white, against a well exposed one; the mouth's parts follow it.
    """

    iris: np.ndarray
    white: np.ndarray
    exposure: float
    iris_px: float


def limbus_angles(eyes: EyeColors, mm_px: float, fit: FaceFit, head: HeadModel) -> tuple[float, float]:
    """Polar angle of each iris's rim, radians, as large as the photo shows the iris; mm_px: the photo's pixels per millimetre."""
    radius = np.clip(eyes.iris_px / mm_px / 1000 / head.iris_radius, *IRIS_LIMITS) * head.iris_radius
    left, right = (float(np.arcsin(np.clip(radius / eye, 0.2, 0.7))) for eye in head.eye_radii(fit.neutral_vertices))
    return left, right


def paint_eyes(
    linear: np.ndarray, eyes: EyeColors, limbus: tuple[float, float], light: np.ndarray, vertices: np.ndarray, head: HeadModel,
    texels: Atlas,
) -> None:  # fmt: skip
    """Write linear colours of both eyeballs into (T, 3) texels of the atlas's raster, in place.

    limbus: see limbus_angles. light: (3,) unit direction to the light. vertices: (V, 3) the neutral head, whose lids shade the eyes.
    """
    of_eye = np.flatnonzero(head.part[texels.raster.triangle] == EYES)
    uv = texels.raster.interpolate(head.faces, head.uv, of_eye)
    for eye in range(2):
        near = np.linalg.norm(uv - head.eye_uv[eye].centre, axis=1) < 1.1 * head.eye_uv[eye].radius
        chosen = of_eye[near]
        polar, azimuth = head.eye_uv[eye].polar(uv[near])
        nasal = np.pi if eye == 0 else 0.0  # azimuth toward the nose
        color = eye_color(polar, azimuth, limbus[eye], eyes.iris, eyes.white, nasal, light)
        linear[chosen] = color * _lid_shade(polar, azimuth, eye, vertices, head)[:, None]


def _lid_shade(polar: np.ndarray, azimuth: np.ndarray, eye: int, vertices: np.ndarray, head: HeadModel) -> np.ndarray:
    """(N,) share of the light that the resting lids leave at polar angles and azimuths (N,) of an eyeball.

    The shade is painted on the ball and turns with it; so does the upper lid, which follows the gaze up and down.
    """
    centre, radius = head.eye_centres(vertices)[eye], head.eye_radii(vertices)[eye]

    def flat(directions: np.ndarray) -> np.ndarray:
        """(..., 2) millimetres along the ball from the optical axis, rightward and up in the picture of the face."""
        angle = np.arctan2(np.hypot(directions[..., 0], directions[..., 1]), directions[..., 2])
        across = np.maximum(np.hypot(directions[..., 0], directions[..., 1]), 1e-9)
        return 1000 * radius * (angle / across)[..., None] * directions[..., :2]

    place = 1000 * radius * polar[:, None] * np.stack([np.cos(azimuth), np.sin(azimuth)], 1)
    left = np.ones(len(polar))
    upper, lower = UPPER_LIDS[eye], LOWER_LIDS[eye]
    for lid, above, strength, reach in ((upper, 1, UPPER_SHADE, UPPER_SHADE_MM), (lower, -1, LOWER_SHADE, LOWER_SHADE_MM)):
        corners = vertices[head.landmark_tri[list(lid)]] * head.landmark_bary[list(lid)][..., None]
        edge = flat(corners.sum(1) - centre)
        edge = edge[np.argsort(edge[:, 0])]
        # Beyond the edge lies what only wide open eyes show: it is as dark as the edge.
        under = above * (np.interp(place[:, 0], edge[:, 0], edge[:, 1]) - place[:, 1])
        distance = np.where(under > 0, _to_line(place, edge), 0)
        left *= 1 - strength * np.exp(-distance / reach)
    return left


def _to_line(points: np.ndarray, line: np.ndarray) -> np.ndarray:
    """(N,) distance of points (N, 2) to a line through (K, 2)."""
    nearest = np.full(len(points), np.inf)
    for start, end in pairwise(line):
        step = end - start
        along = np.clip(((points - start) @ step) / max(float(step @ step), 1e-12), 0, 1)
        nearest = np.minimum(nearest, np.linalg.norm(points - start - along[:, None] * step, axis=1))
    return nearest


def eye_color(
    polar: np.ndarray, azimuth: np.ndarray, limbus: float, profile: np.ndarray, white: np.ndarray, nasal_azimuth: float,
    light: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """(N, 3) linear colour at polar angle from the optical axis and azimuth (0 toward +X, π/2 up), radians.

    limbus: the iris's polar angle. profile: (RINGS, 3) linear iris colour from pupil to limbus. white: (3,) linear sclera.
    light: (3,) unit direction to the light.
    """
    rng = np.random.default_rng(SEED)
    radius = polar / limbus
    at = np.clip(radius, 0, 1) * (len(profile) - 1)
    iris = np.stack([np.interp(at, np.arange(len(profile)), profile[:, c]) for c in range(3)], axis=1)
    fibres = _ring_noise(rng, azimuth, 96) * 0.6 + _ring_noise(rng, azimuth + 0.35 * radius, 160) * 0.5
    zone = np.clip((radius - 0.35) * 3, 0, 1) * np.clip((1 - radius) * 4, 0, 1)
    iris = iris * (1 + 0.22 * fibres * zone)[:, None]
    collarette = np.exp(-(((radius - 0.52) / 0.07) ** 2)) * (1 + 0.5 * _ring_noise(rng, azimuth, 40))
    iris = iris * (1 + 0.20 * collarette)[:, None]
    glow = np.clip(-(np.cos(azimuth) * light[0] + np.sin(azimuth) * light[1]), 0, 1) * np.clip((radius - 0.3) / 0.4, 0, 1)
    iris = iris * (1 + CAUSTIC * glow)[:, None]
    iris = iris * (1 - LIMBUS_DARK * np.exp(-(((radius - 0.97) / LIMBUS_WIDTH) ** 2)))[:, None]
    pupil = 1 / (1 + np.exp((radius - PUPIL) / PUPIL_EDGE))[:, None]
    iris = iris * (1 - pupil) + PUPIL_COLOR * pupil

    # Vessels run from the corners toward the iris, more of them on the nasal side.
    toward_corner = np.clip(radius - 1.15, 0, 1.6) / 1.6
    sideways = np.cos(azimuth) ** 2 * (1 + 0.25 * np.cos(azimuth - nasal_azimuth))
    wander = _ring_noise(rng, azimuth * 1.0 + 0.25 * np.sin(7 * polar), 120)
    vessels = np.clip(wander - 0.7, 0, 1.5) * 0.6 + 0.35
    sclera = white * (1 + VESSEL * (toward_corner * sideways * vessels)[:, None] * 1.6)
    sclera = sclera * (1 - CORNER_SHADE * toward_corner * sideways)[:, None]
    edge = 1 / (1 + np.exp(-(radius - 1) / LIMBUS_EDGE))[:, None]
    color = iris * (1 - edge) + sclera * edge
    return np.clip(color, 0, 1).astype(np.float32)


def _ring_noise(rng: np.random.Generator, azimuth: np.ndarray, count: int) -> np.ndarray:
    """(N,) smooth unit noise around the axis with `count` cells, without a seam."""
    knots = rng.standard_normal(count)
    return np.interp(np.mod(azimuth, 2 * np.pi), np.linspace(0, 2 * np.pi, count + 1), np.r_[knots, knots[0]])


def measure_eyes(picture: WorkPicture, skin: np.ndarray, unseen: frozenset[str] = frozenset()) -> EyeColors:
    """Colours of iris and sclera from both eyes of the photo; highlights left out. skin: (3,) linear, the face's plain skin.

    unseen: "eyes", "mouth" where something lies before them; then they are the usual ones.
    """
    image = srgb_to_linear(cv2.GaussianBlur(picture.rgb, (0, 0), 0.7))
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]] + 0.5
    profiles, whites, radii = [], [], []
    for (centre, *ring), lids in zip(IRISES, EYE_LOOPS, strict=True):
        points = picture.landmarks_px[:, :2]
        # A turned eye's iris is narrower, not shorter.
        reach = np.linalg.norm(points[list(ring)] - points[centre], axis=1)
        radius = max(reach[[0, 2]].mean(), reach[[1, 3]].mean())
        radii.append(radius)
        if "eyes" in unseen:
            profiles.append(np.tile(USUAL_IRIS / IRIS_GAIN, (RINGS, 1)))
            continue
        opening = np.zeros(image.shape[:2], np.uint8)
        cv2.fillPoly(opening, [np.round((points[list(lids)] - 0.5) * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
        opening = cv2.erode(opening, np.ones((3, 3), np.uint8)) > 0
        relative = np.hypot(columns - points[centre, 0], rows - points[centre, 1]) / max(radius, 1e-3)
        edges = np.linspace(0, 1, RINGS + 1)
        profile = np.full((RINGS, 3), np.nan)
        for k in range(RINGS):
            inside = opening & (relative >= edges[k]) & (relative < edges[k + 1] + 0.02)
            if inside.sum() > 3:
                profile[k] = np.median(image[inside], axis=0)
        profiles.append(profile)
        beside = image[opening & (relative > 1.25)]
        if len(beside) > 8:
            whites.append(np.percentile(beside, 75, axis=0))
    known = ~np.isnan(profiles)
    if not known.any():
        profiles, known = [np.tile(USUAL_IRIS / IRIS_GAIN, (RINGS, 1))], np.ones((1, RINGS, 3), bool)
    profile = np.where(known, profiles, 0).sum(0) / np.maximum(known.sum(0), 1)
    shown = known.any((0, 2))
    profile[~shown] = profile[shown].mean(0)
    # The pupil and its highlight lie in the inner rings; the pupil is painted, so they take the iris's colour.
    middle = np.median(profile[3:7], axis=0)
    profile[:3] = middle
    profile[3:] = 0.5 * profile[3:] + 0.5 * middle
    white = SCLERA
    if whites:
        # An eye in the dark says nothing of its white.
        levels = np.array(whites) @ LUMA_BT709
        seen = np.mean(np.array(whites)[levels > DARK_EYE * levels.max()], axis=0) * SCLERA_GAIN
        level = max(float(seen @ LUMA_BT709), SCLERA_LEAST, SCLERA_OVER_SKIN * float(skin @ LUMA_BT709))
        hue = SCLERA_CHROMA * seen / max(float(seen @ LUMA_BT709), 1e-4) + (1 - SCLERA_CHROMA) * SCLERA / (SCLERA @ LUMA_BT709)
        white = SCLERA * (1 - SCLERA_PHOTO_SHARE) + SCLERA_PHOTO_SHARE * np.minimum(level * hue, SCLERA)
    exposure = max(float((white / SCLERA).mean()), 0.0 if "mouth" in unseen else _teeth_exposure(picture, image))
    return EyeColors(np.clip(profile * IRIS_GAIN, 0.004, 0.8), white, exposure, float(np.mean(radii)))


def _teeth_exposure(picture: WorkPicture, image: np.ndarray) -> float:
    """How bright the photo shows teeth, against TEETH_WHITE; 0 where the mouth shows none. image: linear."""
    mouth = np.zeros(image.shape[:2], np.uint8)
    cv2.fillPoly(mouth, [np.round((picture.landmarks_px[list(LIPS_INNER), :2] - 0.5) * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
    seen = image[cv2.erode(mouth, np.ones((3, 3), np.uint8)) > 0]
    white = seen[seen[:, 2] > TOOTH_LEAST_BLUE * seen[:, 0]] if len(seen) else seen
    if len(white) < TEETH_SHARE * mouth.sum() or len(white) < TEETH_PIXELS:
        return 0.0
    return min(float(np.percentile(white.mean(1), TEETH_PERCENTILE)) / TEETH_WHITE, MAX_EXPOSURE)
