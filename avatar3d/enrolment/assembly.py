"""The avatar's first form: the fitted head with its skin and hair, before it wears anything and before its field."""

from __future__ import annotations

import numpy as np

from avatar3d.avatar import PART_LASH, PART_SKIN, Avatar
from avatar3d.enrolment.hair.assemble import HairResult
from avatar3d.enrolment.skin.atlas import SkinResult
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.model import HeadModel


def assemble(
    head: HeadModel, fit: FaceFit, skin: SkinResult, hair: HairResult | None, yaw_rad: float, valid_yaw_deg: float
) -> Avatar:
    """The avatar of a fitted head; scalp and ears lie under its hair.

    yaw_rad: of the photo's head to its camera; valid_yaw_deg: to both sides of that, as far as the photo supports the look.
    """
    vertices = fit.neutral_vertices.astype(np.float32)
    if hair is not None:
        vertices = vertices + hair.tuck_offsets.astype(np.float32)
    yaw = float(np.degrees(yaw_rad))
    return Avatar(
        vertices=vertices,
        faces=head.faces,
        part=head.part,
        uv=head.uv,
        weld=head.weld,
        expression=fit.expression_shapes,
        head_weight=head.head_weight,
        vertex_alpha=_cover(head),
        field_weight=(head.vertex_part == PART_SKIN).astype(np.float32),
        joints=head.joints(vertices),
        base_color=skin.base_color,
        confidence=skin.confidence,
        light=skin.light,
        shading_power=skin.shading_power,
        landmark_triangles=head.landmark_tri,
        landmark_barycentric=head.landmark_bary,
        hair=None if hair is None else hair.shells,
        texture_deltas=skin.texture_deltas,
        photo_camera=fit.camera,
        photo_motion=fit.motion,
        valid_yaw_deg=(round(-yaw - valid_yaw_deg, 1), round(-yaw + valid_yaw_deg, 1)),
    )


def _cover(head: HeadModel) -> np.ndarray:
    """(V,) coverage: 0 at the tips of the lashes, 1 elsewhere."""
    return np.where(head.vertex_part == PART_LASH, head.regions.get("lashes", 1), 1).astype(np.float32)
