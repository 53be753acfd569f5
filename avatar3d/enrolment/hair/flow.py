"""The way hair runs over the head: an orientation without sign on the ray map, the photo's where it is seen, carried on elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.enrolment.hair.grid import Harmonic, blur, cell_centres
from avatar3d.enrolment.hair.shape import COLUMNS, ROWS, HairShape
from avatar3d.enrolment.hair.strands import grain
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import look_up
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.geometry import smoothstep

TENSOR_PX = 3.5  # blur of the structure tensor at the work scale, about 2.5 mm: one lock
FLOW_SCREEN = 0.006  # of the harmonic fill: the photo's flow fades into the usual one over some 13 cells
STRAND_PER_COHERENCE_M = 0.16  # cropped curls measure 0.35 and long straight hair 0.6 on the scale of the structure tensor,
NOISE_COHERENCE = 0.33  # where noise measures this
MIN_STRAND_M, MAX_STRAND_M = 0.003, 0.060
WHORL_RAD, WHORL_REACH_RAD = 0.85, 0.55  # hair turns out of the meridians at the crown, and how far from it it still does
# Below the crown hair falls plumb rather than along the meridians, which lean forward at the sides; cropped hair stands half way.
PLUMB_FROM, PLUMB_LONG, PLUMB_CROPPED = (0.6, 1.3), 0.9, 0.5
WAVE_CELLS, WAVE_M, WAVE_BLURRED = 4.0, 0.016, 0.9  # about which waves swing; their grain, and its deviation once blurred
STILL_RAD, MAX_WAVE_RAD = 0.12, 0.4  # straight hair measures this much
# A parting: where it is looked for, how clearly (mean sine of the double angle) and by how many cells hair falls to both sides.
PARTING_COLATITUDE, MAX_PARTING_RAD, PARTING_MIN, PARTING_CELLS = (0.35, 1.35), 0.9, 0.35, 3.0
PARTED_REACH_M, PARTED_RAD = 0.035, 1.05  # how far from it hair still runs at this angle to it
MIN_STEP_M = 1e-4  # of a cell: at the pole meridians meet


@dataclass(frozen=True)
class HairFlow:
    """Maps of (ROWS, COLUMNS). cos2, sin2: double angle of the hair from the meridian toward +theta, measured on the surface.

    trust: in [0, 1], how well the photo shows it. column_m, row_m: metres that a cell measures around and along.
    strand_m: length over which the photo's strands keep their colour; coherence: mean of the structure tensor's, in [0, 1].
    """

    cos2: np.ndarray
    sin2: np.ndarray
    trust: np.ndarray
    column_m: np.ndarray
    row_m: np.ndarray
    strand_m: float
    coherence: float


def hair_flow(work: WorkPicture, seg: Segmentation, shape: HairShape) -> HairFlow:
    """Orientation from the photo's structure tensor (Bigün and Granlund 1987), laid onto the surface and spread harmonically in
    the double angle, as a strand has no sign; unseen hair turns about the crown and falls."""
    points = shape.points(shape.radius)
    around_3d = (np.roll(points, -1, 1) - np.roll(points, 1, 1)) / 2
    along_3d = np.gradient(points, axis=0)
    column_m = np.maximum(np.linalg.norm(around_3d, axis=-1), MIN_STEP_M)
    row_m = np.maximum(np.linalg.norm(along_3d, axis=-1), MIN_STEP_M)

    double_cos, double_sin, coherence = _structure(work.rgb)
    pixels, _ = work.camera.project(points)
    along = np.gradient(pixels, axis=0)
    around = (np.roll(pixels, -1, 1) - np.roll(pixels, 1, 1)) / 2
    image_angle = 0.5 * np.arctan2(look_up(double_sin, pixels), look_up(double_cos, pixels))
    ox, oy = np.cos(image_angle), np.sin(image_angle)
    # Cramer's rule for [around along] t = o, in cells; then metres.
    columns = (ox * along[..., 1] - oy * along[..., 0]) * column_m
    rows = (around[..., 0] * oy - around[..., 1] * ox) * row_m
    angle = np.arctan2(columns, rows)
    core = cv2.erode(seg.hair_mask.astype(np.float32), np.ones((9, 9), np.uint8))
    trust = look_up(coherence, pixels) ** 2 * look_up(core, pixels) * smoothstep(0.35, 0.65, shape.facing)

    harmonic = Harmonic(ROWS, COLUMNS)
    usual = _usual_angle(around_3d / column_m[..., None], along_3d / row_m[..., None], shape.covered)
    double_x, double_y = np.cos(2 * angle), np.sin(2 * angle)
    line = parting(trust, double_y)
    if line is not None:
        usual = _parted(usual, line, column_m)
    # The photo's waves go on in the hair that it does not show.
    usual = usual + _waviness(trust, double_x, double_y) * blur(grain(ROWS, COLUMNS, WAVE_M, 8), 1.0) / WAVE_BLURRED
    cos2 = harmonic.fill(double_x, trust, FLOW_SCREEN, np.cos(2 * usual))
    sin2 = harmonic.fill(double_y, trust, FLOW_SCREEN, np.sin(2 * usual))
    length = np.maximum(np.hypot(cos2, sin2), 1e-6)
    inner = core > 0.5
    mean = float(np.average(coherence[inner])) if inner.any() else 0.4
    strand = float(np.clip(STRAND_PER_COHERENCE_M * (mean - NOISE_COHERENCE), MIN_STRAND_M, MAX_STRAND_M))
    return HairFlow(cos2 / length, sin2 / length, trust.astype(np.float32), column_m, row_m, strand, mean)


def _waviness(trust: np.ndarray, double_x: np.ndarray, double_y: np.ndarray) -> float:
    """Radians by which trusted hair swings about its own mean direction, standard deviation."""
    total = blur(trust, WAVE_CELLS) + 1e-6
    mean = 0.5 * np.arctan2(blur(trust * double_y, WAVE_CELLS) / total, blur(trust * double_x, WAVE_CELLS) / total)
    off = 0.5 * np.arctan2(double_y, double_x) - mean
    off = (off + np.pi / 2) % np.pi - np.pi / 2
    spread = np.sqrt(np.average(off**2, weights=trust + 1e-9))
    return float(np.clip(spread - STILL_RAD, 0, MAX_WAVE_RAD))


def parting(trust: np.ndarray, double_y: np.ndarray) -> float | None:
    """Theta of the meridian from which hair falls to both sides between forehead and crown, None where it does not.

    trust: (ROWS, COLUMNS) in [0, 1]. double_y: (ROWS, COLUMNS) sine of the hair's double angle from the meridian.
    """
    theta, colatitude = cell_centres(ROWS, COLUMNS)
    weight = trust * ((colatitude > PARTING_COLATITUDE[0]) & (colatitude < PARTING_COLATITUDE[1]))
    best, line = PARTING_MIN, None
    for candidate in np.linspace(-MAX_PARTING_RAD, MAX_PARTING_RAD, 41):
        sides = [weight * (np.abs(theta - candidate - side * 0.5) < 0.5) for side in (-1, 1)]
        if min(side.sum() for side in sides) < PARTING_CELLS:
            continue
        falls = min(float((sign * double_y * side).sum() / side.sum()) for sign, side in zip((-1, 1), sides, strict=True))
        if falls > best:
            best, line = falls, float(candidate)
    # At the end of the range it is the seen hair's edge.
    return line if line is not None and abs(line) < MAX_PARTING_RAD - 0.05 else None


def _parted(usual: np.ndarray, line: float, column_m: np.ndarray) -> np.ndarray:
    """Angles of hair that leaves a meridian sideways, up to the crown, and soon falls as usual."""
    theta, colatitude = cell_centres(ROWS, COLUMNS)
    off = (theta - line + np.pi) % (2 * np.pi) - np.pi
    beside_m = np.abs(off) / (2 * np.pi / COLUMNS) * column_m
    share = np.exp(-((beside_m / PARTED_REACH_M) ** 2)) * (np.abs(off) < np.pi / 2) * (1 - smoothstep(1.1, 1.5, colatitude))
    return usual * (1 - share) + share * np.sign(off) * PARTED_RAD


def _structure(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(cos, sin of the double angle along the strands, coherence in [0, 1]) of a picture, each (H, W)."""
    grey = cv2.GaussianBlur(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32), (0, 0), 0.8)
    dx, dy = cv2.Scharr(grey, cv2.CV_32F, 1, 0), cv2.Scharr(grey, cv2.CV_32F, 0, 1)
    xx, yy, xy = (cv2.GaussianBlur(a, (0, 0), TENSOR_PX) for a in (dx * dx, dy * dy, dx * dy))
    strength = np.hypot(xx - yy, 2 * xy)
    coherence = strength / np.maximum(xx + yy, 1e-6)
    # The tensor's main axis crosses the strands; its double angle turned by π runs along them.
    return -(xx - yy) / np.maximum(strength, 1e-6), -2 * xy / np.maximum(strength, 1e-6), coherence


def _usual_angle(around: np.ndarray, along: np.ndarray, long: bool) -> np.ndarray:
    """(ROWS, COLUMNS) angle from the meridian that hair has on any head; around, along: (ROWS, COLUMNS, 3) unit tangents."""
    _, colatitude = cell_centres(ROWS, COLUMNS)
    plumb = np.arctan2(-around[..., 1], -along[..., 1])
    plumb = np.where(np.abs(plumb) < np.pi / 2, plumb, 0.0)  # under the jaw the surface looks down
    share = smoothstep(*PLUMB_FROM, colatitude) * (PLUMB_LONG if long else PLUMB_CROPPED)
    return WHORL_RAD * np.exp(-((colatitude / WHORL_REACH_RAD) ** 2)) + share * plumb
