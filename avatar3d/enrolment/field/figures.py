"""What a training changed, in figures: with and without the field, on pixels and points that it never saw."""

from __future__ import annotations

import numpy as np
import torch

from avatar3d.color import linear_to_srgb, psnr_db
from avatar3d.enrolment.field.pixels import Pixels, View
from avatar3d.enrolment.field.teacher import Teacher
from avatar3d.field.network import NeuralField
from avatar3d.generator.protocol import PhotoEvidence
from avatar3d.motion.code import MotionCode


def _psnr(first: np.ndarray, second: np.ndarray) -> float | None:
    """PSNR in dB of values in [0, 1]; None when there are none."""
    if not len(first):
        return None
    return psnr_db(float(np.mean(np.square(first - second))))


def outline_points(alpha: np.ndarray) -> np.ndarray:
    """(N, 2) pixels where alpha (H, W) crosses one half between neighbouring pixel centres, by linear interpolation."""
    points = []
    for axis in (0, 1):
        swapped = alpha if axis == 1 else alpha.T
        before, after = swapped[:, :-1], swapped[:, 1:]
        row, column = np.nonzero((before >= 0.5) != (after >= 0.5))
        share = (0.5 - before[row, column]) / (after[row, column] - before[row, column])
        along, across = column + 0.5 + share, row + 0.5
        points.append(np.stack([along, across] if axis == 1 else [across, along], axis=1))
    return np.concatenate(points)


def outline_distance_px(alpha: np.ndarray, matte: np.ndarray, near: np.ndarray) -> float | None:
    """Mean distance in px from the half-opacity outline of `alpha` to that of `matte`, on the pixels `near` (H, W)."""
    from scipy.spatial import cKDTree

    drawn, wanted = outline_points(alpha), outline_points(matte)
    column, row = np.clip(drawn.astype(int), 0, np.array(near.shape[::-1]) - 1).T
    drawn = drawn[near[row, column]]
    if not len(drawn) or not len(wanted):
        return None
    return float(cKDTree(wanted).query(drawn)[0].mean())


def _straight_srgb(rgba: np.ndarray) -> np.ndarray:
    return linear_to_srgb(rgba[:, :3] / np.maximum(rgba[:, 3:], 1e-6))


def photo_figures(
    view: View, rgba_on: np.ndarray, evidence: PhotoEvidence, pixels: Pixels, held_out: np.ndarray
) -> dict[str, float | None]:
    """The report's figures at the photo's camera, off and on."""
    shape = evidence.matte.shape
    matte, held = np.clip(evidence.matte, 0, 1).reshape(-1), held_out.reshape(-1)
    photo = evidence.rgb.reshape(-1, 3).astype(np.float32) / 255
    front_level = np.full(matte.size, -2)
    front_level[pixels.pixel] = pixels.level[pixels.front]
    shown = np.zeros(matte.size, bool)
    shown[pixels.pixel] = pixels.color_weight > 0.5
    inside = shown & (view.rgba[:, 3] > 0.5)
    masks = {
        "photo": inside,
        "heldout": inside & held,
        "heldout_skin": inside & held & (front_level == -1),
        "heldout_hair": inside & held & (front_level >= 0),
    }
    bare = pixels.pixel[(pixels.opaque < 0) & held[pixels.pixel]]
    layered = np.zeros(matte.size, bool)
    layered[pixels.pixel[pixels.layers[:, 0] >= 0]] = True
    figures: dict[str, float | None] = {}
    for state, rgba in (("off", view.rgba), ("on", rgba_on)):
        for name, mask in masks.items():
            figures[f"{name}_psnr_db_{state}"] = _psnr(_straight_srgb(rgba[mask]), photo[mask])
        figures[f"rim_opacity_rmse_{state}"] = (
            float(np.sqrt(np.mean(np.square(rgba[bare, 3] - matte[bare])))) if len(bare) else None
        )
        figures[f"silhouette_px_{state}"] = outline_distance_px(
            rgba[:, 3].reshape(shape), matte.reshape(shape), layered.reshape(shape)
        )
    return figures


def teacher_figures(field: NeuralField, teacher: Teacher) -> dict[str, float]:
    """The report's figures at the teacher's points, off (no residual) and on, neutral expression."""
    count = len(teacher.level)
    target = torch.from_numpy(teacher.target).reshape(count, -1, 3)
    features = field.encode(torch.from_numpy(teacher.canonical)).repeat_interleave(target.shape[1], 0)
    neutral = torch.zeros(1, field.motion_projection.shape[1])
    residual = field.head(features, torch.from_numpy(teacher.d).reshape(-1, 3), neutral)[0].reshape(target.shape)
    slope = torch.from_numpy(teacher.slope)[:, None]
    mean = residual.mean(1, keepdim=True)
    skin = torch.from_numpy(teacher.level < 0)

    def rms(value: torch.Tensor) -> float:
        return float(255 * (value * slope).square().mean().sqrt())

    skin_mean, skin_view = (mean * slope)[skin], ((residual - mean) * slope)[skin]
    return {
        "teacher_rmse_255_off": rms(target),
        "teacher_rmse_255_on": rms(residual - mean - target),
        "skin_mean_255": float(255 * skin_mean.square().mean().sqrt()) if len(skin_mean) else 0.0,
        "skin_view_255": float(255 * skin_view.square().mean().sqrt()) if len(skin_view) else 0.0,
    }


def generator_figures(field: NeuralField, pixels: Pixels | None, motion: MotionCode) -> dict[str, float | None]:
    """PSNR of opaque, layerless pixels of the generator's views, where its confidence is above one half of its weight."""
    if pixels is None:
        return {"generator_psnr_db_off": None, "generator_psnr_db_on": None}
    plain = (pixels.opaque >= 0) & (pixels.layers[:, 0] < 0) & (pixels.color_weight > pixels.color_weight.max() / 2)
    index = pixels.opaque[plain]
    weights = torch.tensor(motion.weights, dtype=torch.float32)
    residual = field(torch.from_numpy(pixels.canonical[index]), torch.from_numpy(pixels.d[index]), weights)[0].numpy()
    wanted = linear_to_srgb(pixels.target[plain])
    changed = pixels.color[index] + pixels.weight[index, None] * residual
    return {
        "generator_psnr_db_off": _psnr(linear_to_srgb(pixels.color[index]), wanted),
        "generator_psnr_db_on": _psnr(linear_to_srgb(changed), wanted),
    }
