"""What a stereo pair shows against what its geometry says: colour at exact correspondences, and where the pictures match.

The displacement is measured from the pictures alone: a coarse search and then Lucas and Kanade's alignment (Baker and
Matthews 2004, "Lucas-Kanade 20 years on", section 3.1, forward additive) of small patches. Geometry only says where to start
and how a patch is foreshortened, so a pair whose pictures contradict the geometry is found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from avatar3d.color import LUMA_BT709
from avatar3d.evaluation.correspondence import Correspondences, EyePicture
from avatar3d.geometry import sample_bilinear

PATCH_RADIUS_PX = 6  # 13 × 13 pixels: 8 mm on the face at the default size, smaller than an eye
PATCH_SPACING_PX = 13  # at most one patch in each such cell, so that one eyebrow does not vote a hundred times
# The match is found in blurred pictures, whose basins are wide, and ends in sharp ones: a blur acts differently on a surface
# that the two eyes see at different slants.
COARSE_SIGMA_PX, COARSE_REACH_PX = 3.0, 8.0  # wide enough that steps of SEARCH_STEP_PX find the basin
BLUR_SIGMA_PX, MEDIUM_REACH_PX = 0.8, 3.0
FINE_REACH_PX = 1.5
MIN_VALID_SHARE = 0.8  # of a patch's pixels that both eyes see
# Mean squared gradient (sRGB per pixel) a patch must have along its weakest direction: 1.2/255 a pixel. Below it, an 8-bit
# step anywhere would move the match by more than the tenth of a pixel that is to be measured.
MIN_TEXTURE = (1.2 / 255) ** 2
MIN_CORRELATION = 0.8  # normalised, between the matched patches; a lower one is no match
SEARCH_X_PX, SEARCH_Y_PX = 64.0, 8.0  # how far from the geometry the coarse search looks (wrong eye distances go far)
SEARCH_STEP_PX = 4.0
ITERATIONS = 15
CONVERGED_PX = 1e-3


@dataclass(frozen=True)
class Displacements:
    """Where patches of the left view were found in the right view, relative to where geometry puts them.

    centres: (N, 2) pixels in the left view. shift: (N, 2) x and y, pixels. disparity: (N,) pixels, by geometry.
    candidates: number of patches with enough texture, matched or not.
    """

    centres: np.ndarray
    shift: np.ndarray
    disparity: np.ndarray
    candidates: int


@dataclass
class StereoSample:
    """What one stereo pair contributes: pooled over pairs before anything is averaged."""

    squared_error_sum: float
    squared_error_sum_view_term: float
    compared: int
    covisible: int
    covered: int
    displacements: Displacements | None  # None where there is no one depth to compare with
    displacements_view_term: Displacements | None  # with the view term on; the controls are not measured twice


def color_difference(left: EyePicture, right: EyePicture, links: Correspondences, mask: np.ndarray) -> np.ndarray:
    """(N, 3) sRGB differences right − left, in 1/255, at the (H, W) pixels of `mask` that both views show opaquely."""
    pixels = links.right_px[mask] * right.factor
    seen = sample_bilinear(right.color, pixels)
    return (seen - left.at_centres(left.color)[mask]) * 255.0


def measure_displacements(left: EyePicture, right: EyePicture, links: Correspondences, valid: np.ndarray) -> Displacements:
    """Match patches of the left view in the right one; valid: (H, W) bool pixels that may take part."""
    factor = left.factor
    left_luma, right_luma = left.color @ LUMA_BT709, right.color @ LUMA_BT709
    template = left.at_centres(left_luma)
    centres = _choose_patches(left.at_centres(_blurred(left_luma, BLUR_SIGMA_PX * factor)), valid)
    if not len(centres):
        return Displacements(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0), 0)
    offsets = np.arange(-PATCH_RADIUS_PX, PATCH_RADIUS_PX + 1)
    rows = centres[:, 1, None, None] + offsets[None, :, None]
    columns = centres[:, 0, None, None] + offsets[None, None, :]
    weight = _window() * valid[rows, columns]
    predicted = np.nan_to_num(links.right_px[rows, columns])

    levels = []
    for sigma, reach in ((COARSE_SIGMA_PX, COARSE_REACH_PX), (BLUR_SIGMA_PX, MEDIUM_REACH_PX), (0.0, FINE_REACH_PX)):
        patches = left.at_centres(_blurred(left_luma, sigma * factor))[rows, columns] if sigma else template[rows, columns]
        levels.append((patches, _Sampler(_blurred(right_luma, sigma * factor) if sigma else right_luma, factor), reach))
    found_shift = _search(levels[0][0], weight, predicted, levels[0][1])
    # Blur mixes in what lies beyond an outline, which the eyes see differently: geometry's answer also starts in the finer
    # levels. Each start is followed to the end, and the pictures decide between the ends.
    shift, correlation = np.zeros_like(found_shift), np.full(len(found_shift), -1.0)
    for start, first_level in ((found_shift, 0), (np.zeros_like(found_shift), 1), (np.zeros_like(found_shift), 2)):
        ends, agreement = start, np.zeros(0)
        lost = np.zeros(len(start), bool)
        for patches, right_image, reach in levels[first_level:]:
            ends, agreement = _align(patches, weight, predicted, right_image, ends, reach)
            lost |= agreement < 0
        better = np.where(lost, -1.0, agreement) > correlation
        shift[better], correlation[better] = ends[better], agreement[better]
    found = correlation >= MIN_CORRELATION
    pixels = centres[found]
    return Displacements(
        centres=pixels + 0.5,
        shift=shift[found],
        disparity=links.disparity_px[pixels[:, 1], pixels[:, 0]],
        candidates=len(centres),
    )


def summarise(samples: Sequence[StereoSample]) -> dict[str, float | None]:
    """The keys of `evaluate --json` for pairs of one kind; None where nothing could be measured."""
    compared = sum(sample.compared for sample in samples)
    covered = sum(sample.covered for sample in samples)
    plain = [sample.displacements for sample in samples if sample.displacements is not None]
    shown = [sample.displacements_view_term for sample in samples if sample.displacements_view_term is not None]

    def rmse(total: float) -> float | None:
        return round(float(np.sqrt(total / (3 * compared))), 4) if compared else None

    def p95(found: list[Displacements], axis: int) -> float | None:
        values = np.concatenate([one.shift[:, axis] for one in found])
        return round(float(np.percentile(np.abs(values), 95)), 4) if len(values) else None

    figures: dict[str, float | None] = {
        "rmse_255": rmse(sum(sample.squared_error_sum for sample in samples)),
        "rmse_255_view_term": rmse(sum(sample.squared_error_sum_view_term for sample in samples)),
        "covisible_fraction": round(sum(s.covisible for s in samples) / covered, 4) if covered else None,
        "compared_pixels": compared,
    }
    if plain:
        candidates = sum(found.candidates for found in plain)
        figures["vertical_disparity_px_p95"] = p95(plain, 1)
        figures["disparity_error_px_p95"] = p95(plain, 0)
        figures["matched_fraction"] = round(sum(len(found.shift) for found in plain) / candidates, 4) if candidates else None
        figures["patches"] = candidates
    if shown:
        figures["vertical_disparity_px_p95_view_term"] = p95(shown, 1)
        figures["disparity_error_px_p95_view_term"] = p95(shown, 0)
    return figures


class _Sampler:
    """An image and its gradient (per pixel of the judged grid), sampled at pixels of the judged grid."""

    def __init__(self, image: np.ndarray, factor: int) -> None:
        gradient_y, gradient_x = np.gradient(image)
        self.stack = np.stack([image, gradient_x * factor, gradient_y * factor], axis=-1)
        self.factor = factor

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """(..., 3) value, x and y gradient at (..., 2) pixels."""
        return sample_bilinear(self.stack, pixels * self.factor)

    def value(self, pixels: np.ndarray) -> np.ndarray:
        return sample_bilinear(self.stack[..., 0], pixels * self.factor)


def _blurred(image: np.ndarray, sigma: float) -> np.ndarray:
    import cv2

    return cv2.GaussianBlur(image.astype(np.float32), (0, 0), sigma)


def _window() -> np.ndarray:
    offsets = np.arange(-PATCH_RADIUS_PX, PATCH_RADIUS_PX + 1) / (PATCH_RADIUS_PX + 1)
    falloff = 1 - offsets**2
    return falloff[:, None] * falloff[None, :]


def _choose_patches(image: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """(N, 2) integer (x, y): in each cell the patch with most texture along its weakest direction (Shi and Tomasi 1994)."""
    import cv2

    gradient_y, gradient_x = np.gradient(image)
    weight = valid.astype(np.float32)
    size = (2 * PATCH_RADIUS_PX + 1,) * 2

    def mean(values: np.ndarray) -> np.ndarray:
        return cv2.boxFilter(values.astype(np.float32), -1, size, borderType=cv2.BORDER_CONSTANT)

    share = mean(weight)
    xx, yy, xy = (
        mean(a * b * weight) / np.maximum(share, 1e-6)
        for a, b in ((gradient_x, gradient_x), (gradient_y, gradient_y), (gradient_x, gradient_y))
    )
    weakest = (xx + yy) / 2 - np.sqrt(((xx - yy) / 2) ** 2 + xy**2)
    score = np.where(valid & (share >= MIN_VALID_SHARE), weakest, 0.0)
    border = PATCH_RADIUS_PX
    score[:border], score[-border:], score[:, :border], score[:, -border:] = 0, 0, 0, 0
    height, width = score.shape
    rows, columns = height // PATCH_SPACING_PX, width // PATCH_SPACING_PX
    cells = score[: rows * PATCH_SPACING_PX, : columns * PATCH_SPACING_PX]
    cells = cells.reshape(rows, PATCH_SPACING_PX, columns, PATCH_SPACING_PX).swapaxes(1, 2).reshape(rows, columns, -1)
    best = cells.argmax(-1)
    y = np.arange(rows)[:, None] * PATCH_SPACING_PX + best // PATCH_SPACING_PX
    x = np.arange(columns)[None, :] * PATCH_SPACING_PX + best % PATCH_SPACING_PX
    kept = cells.max(-1) >= MIN_TEXTURE
    return np.stack([x[kept], y[kept]], axis=-1)


def _centred(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Patches (N, P, P, ...) less their weighted means."""
    weight = weight.reshape(weight.shape + (1,) * (values.ndim - weight.ndim))
    return values - (values * weight).sum((1, 2), keepdims=True) / weight.sum((1, 2), keepdims=True)


def _correlation(a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(N,) normalised correlation of centred patches."""
    power = (a * a * weight).sum((1, 2)) * (b * b * weight).sum((1, 2))
    return (a * b * weight).sum((1, 2)) / np.sqrt(np.maximum(power, 1e-20))


def _search(template: np.ndarray, weight: np.ndarray, predicted: np.ndarray, right: _Sampler) -> np.ndarray:
    """(N, 2) shift with the best correlation on a coarse grid around the predicted places."""
    thin = (slice(None), slice(None, None, 2), slice(None, None, 2))  # the blurred patch holds no more than this
    weight, predicted = weight[thin], predicted[thin]
    template = _centred(template[thin], weight)
    steps_x = np.arange(-SEARCH_X_PX, SEARCH_X_PX + 1, SEARCH_STEP_PX)
    steps_y = np.arange(-SEARCH_Y_PX, SEARCH_Y_PX + 1, SEARCH_STEP_PX)
    best = np.full(len(template), -np.inf)
    shift = np.zeros((len(template), 2))
    for dx, dy in sorted(((x, y) for x in steps_x for y in steps_y), key=lambda step: step[0] ** 2 + step[1] ** 2):
        seen = _centred(right.value(predicted + np.array([dx, dy])), weight)
        score = -((seen - template) ** 2 * weight).sum((1, 2))
        better = score > best
        best[better] = score[better]
        shift[better] = (dx, dy)
    return shift


def _align(
    template: np.ndarray, weight: np.ndarray, predicted: np.ndarray, right: _Sampler, start: np.ndarray, reach_px: float
) -> tuple[np.ndarray, np.ndarray]:
    """Refine (N, 2) shifts by Gauss-Newton; returns them and the (N,) correlations there, −1 for those that ran away."""
    target = _centred(template, weight)
    shift = start.copy()
    active = np.arange(len(start))
    for _ in range(ITERATIONS):
        w = weight[active]
        samples = _centred(right(predicted[active] + shift[active, None, None, :]), w)
        residual = target[active] - samples[..., 0]
        gradient = samples[..., 1:]
        weighted = gradient * w[..., None]
        normal = np.matmul(
            weighted.reshape(len(active), -1, 2).swapaxes(1, 2), gradient.reshape(len(active), -1, 2)
        ) + 1e-9 * np.eye(2)
        slope = (weighted * residual[..., None]).sum((1, 2))
        step = np.clip(np.linalg.solve(normal, slope[..., None])[..., 0], -2.0, 2.0)
        shift[active] += step
        active = active[(np.abs(step).max(axis=1) >= CONVERGED_PX) & (np.abs(shift - start)[active].max(axis=1) <= reach_px)]
        if not len(active):
            break
    seen = _centred(right.value(predicted + shift[:, None, None, :]), weight)
    correlation = _correlation(target, seen, weight)
    ran = np.abs(shift - start).max(axis=1) > reach_px
    return shift, np.where(ran, -1.0, correlation)
