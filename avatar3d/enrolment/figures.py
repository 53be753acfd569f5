"""The report's figures: what the fit, the comparison with the photo and the bake come to, in units a person can judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from avatar3d.avatar import BakedField
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.metrics import Agreement
from avatar3d.fitting.fit import FaceFit


def fit_figures(fit: FaceFit) -> dict[str, Any]:
    """Camera, motion, size and landmark errors."""
    return {
        "camera": {**fit.camera.to_json(), "focal_range_px": fit.focal_range_px},
        "motion": fit.motion.to_json(),
        "pupil_distance_mm": None if fit.size is None else round(fit.size.pupil_distance_mm, 1),
        "size_by_iris": None if fit.size_by_iris is None else round(fit.size_by_iris, 4),
        "landmark_error_px": round(float(fit.residual_px.mean()), 3),
        "landmark_error_iod_pct": round(fit.residual_iod_pct, 3),
    }


def agreement_figures(fit: FaceFit, picture: WorkPicture, without: Agreement, with_field: Agreement) -> dict[str, Any]:
    """How near a head without its field and with it comes to the photo; lengths in the photo's pixels, and in mm at the head."""
    depth = float(fit.camera.to_camera(np.zeros(3))[2])
    outline_px = with_field.outline_px / picture.scale
    mm_per_px = depth / float(fit.camera.intrinsics[0, 0]) * 1000  # of the photo
    typical = (with_field.typical_px, with_field.typical_crown_px)
    typical_mm = [None if px is None else round(px / picture.scale * mm_per_px, 2) for px in typical]
    return {
        "photo_psnr_db": round(with_field.psnr_db, 2),
        "photo_psnr_db_texture_only": round(without.psnr_db, 2),
        "silhouette_error_px": round(outline_px, 3),
        "silhouette_error_mm": round(outline_px * mm_per_px, 2),
        "silhouette_iou": round(with_field.iou, 4),
        "outline_error_mm": typical_mm[0],
        "crown_error_mm": typical_mm[1],
        "crown_iou": None if with_field.crown_iou is None else round(with_field.crown_iou, 4),
    }


def bake_figures(baked: BakedField | None) -> dict[str, Any] | None:
    """What baking lost against the live field, dB, and in how many directions its textures follow the motion code."""
    if baked is None:
        return None
    figures = {
        "psnr_skin_db": baked.psnr_skin_db,
        "psnr_hair_db": baked.psnr_hair_db,
        "psnr_moved_skin_db": baked.psnr_moved_skin_db,
        "psnr_moved_hair_db": baked.psnr_moved_hair_db,
    }
    return {**{name: round(value, 2) for name, value in figures.items()}, "motion_directions": len(baked.motion)}
