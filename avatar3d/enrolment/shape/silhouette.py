"""What the photo's outline adds to the landmarks' fit: first the skull, then ears, then the rim of the skin."""

from __future__ import annotations

from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.enrolment.shape.cranium import grow_cranium
from avatar3d.enrolment.shape.ears import fit_ears
from avatar3d.enrolment.shape.outline import meet_outline
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.model import HeadModel


def meet_silhouette(fit: FaceFit, head: HeadModel, work: WorkPicture, segmentation: Segmentation) -> FaceFit:
    """The fit whose skull, ears and skin meet what the segmented work picture shows of them; camera and expression stay."""
    grown = grow_cranium(fit, head, work, segmentation.matte)
    return meet_outline(fit_ears(grown, head, work, segmentation), head, work, segmentation)
