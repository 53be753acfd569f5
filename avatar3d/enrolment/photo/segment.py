"""Segmentation of a work picture: person, face and hair, and what else there is. The parts have their files, parse_*.py.

It parses one head only and knows nothing of depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import grown, hull
from avatar3d.enrolment.photo.parse_frame import WORK_IOD_PX, FaceFrame, face_frame
from avatar3d.enrolment.photo.parse_hair import ParsedHair, parse_hair
from avatar3d.enrolment.photo.parse_skin import (
    SkinColour,
    ears_outside,
    find_beard,
    find_clothes,
    find_ears,
    find_forehead,
    find_hands,
    find_hat,
    find_neck,
    skin_colour,
)
from avatar3d.enrolment.worn.glasses import glasses_mask
from avatar3d.face.hair import HairSeen, hair_probability
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.matte import person_matte

__all__ = ["WORK_IOD_PX", "Labels", "Segmentation", "segment"]

PERSON = 0.5  # matte from which on a pixel is the person
HAT_RIM_PX = 5.0  # soft edge of a hat, pixels
ARM_RIM_PX = 9.0  # soft edge of a raised arm, pixels at WORK_IOD_PX
CROWN_FROM, STUBBLE_PX, MIN_CROWN_PX = 1.0, 5.0, 700.0  # height of the crown; soft edge of its hair; less of it tells nothing


@dataclass(frozen=True)
class Labels:
    """Masks of a work picture, (H, W) bool; what the photo does not show is empty. They do not overlap.

    skin: of the face, without what lies on it. beard: with moustache and sideburns under the ears' middle. neck: bare skin from
    the jaw to the chest. ear_right, ear_left: the subject's; *_seen: in [0, 1], share of the whole ear that is bare. clothes: of
    the person below the chin. glasses: rims, bridge and dark lenses. hat: whatever covers the head, of which hair_mask holds all.
    hand: hands and arms beside the head. completed: what lies outside the photo and was made up; no colour may be taken there.
    """

    skin: np.ndarray
    beard: np.ndarray
    neck: np.ndarray
    ear_right: np.ndarray
    ear_left: np.ndarray
    clothes: np.ndarray
    glasses: np.ndarray
    hat: np.ndarray
    hand: np.ndarray
    completed: np.ndarray
    ear_right_seen: float = 0.0
    ear_left_seen: float = 0.0

    @classmethod
    def none(cls, shape: tuple[int, int]) -> Labels:
        """Labels of a picture of which nothing is known."""
        return cls(*(np.zeros(shape, bool) for item in fields(cls) if not item.name.endswith("_seen")))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Segmentation:
    """Masks of a work picture, all (H, W).

    matte: f32 in [0, 1], this person without neighbours, completed where the photo cuts the head. hair_alpha: f32 in [0, 1].
    hair_mask, face_mask: bool. confidence: in [0, 1], how sure the hair is; the notes say so where it is not. notes: sentences
    for the report. labels: what else there is. person: f32 in [0, 1], whatever the matting network answered, neighbours and all.
    bare_unlike_skin: share of the crown that was found bare, though it has not the colour of this face's skin.
    """

    matte: np.ndarray
    hair_alpha: np.ndarray
    hair_mask: np.ndarray
    face_mask: np.ndarray
    confidence: float
    notes: list[str] = field(default_factory=list)
    labels: Labels = None  # type: ignore[assignment]
    person: np.ndarray = None  # type: ignore[assignment]
    bare_unlike_skin: float = 0.0

    def __post_init__(self) -> None:
        if self.labels is None:
            object.__setattr__(self, "labels", Labels.none(self.matte.shape))
        if self.person is None:
            object.__setattr__(self, "person", self.matte)

    def without_hat(self) -> Segmentation:
        """The same whose hair is hair only, and no hat."""
        if not self.labels.hat.any():
            return self
        hat = grown(self.labels.hat, HAT_RIM_PX)
        return replace(self, hair_mask=self.hair_mask & ~hat, hair_alpha=np.where(hat, 0, self.hair_alpha).astype(np.float32))


def segment(
    work: WorkPicture,
    matte: np.ndarray | None = None,
    hair: HairSeen | None = None,
    neighbours: Sequence[np.ndarray] = (),
) -> Segmentation:
    """Person, face, hair and labels of a work picture.

    matte: (H, W) f32 person matte, hair: the hair network's answer, both of the same picture, otherwise the networks are run.
    neighbours: (4,) boxes x0, y0, x1, y1 of the photo's other faces in the work picture's pixels, in it or outside.
    Raises InputError when the matting network's file is missing, WorkError without ai-edge-litert.
    """
    rgb, points = work.rgb, np.asarray(work.landmarks_px, dtype=np.float64)
    landmarks = FaceLandmarks(points if points.shape[1] == 3 else np.c_[points, np.zeros(len(points))], 1.0)
    matte = person_matte(rgb, landmarks) if matte is None else matte.astype(np.float32)
    seen = hair_probability(rgb, landmarks) if hair is None else hair
    frame = face_frame(points[:, :2], rgb.shape[:2])
    colour = skin_colour(rgb, frame, points[:, :2])
    beard = find_beard(seen.probability, colour, frame, points[:, :2]) & work.inside
    cover, hairlike = find_hat(rgb, np.where(work.inside, matte, 0), seen.probability, colour, frame)
    cover &= work.inside
    hat = cover & (not hairlike)
    hairy = np.maximum(seen.probability, cover)
    found = parse_hair(rgb, work.inside, matte, hairy, seen.agreement, beard, frame, colour.like, neighbours)
    if cover.any() and hairlike:
        found.notes.append("the hair was told from a hat with difficulty; its outline is a guess in places")
    if hat.any():
        found.notes.append("a hat or scarf covers the head; it was made as a shell of its own, and its back is a guess")
    if cut := ears_outside(work.inside, frame, points[:, :2]):
        found.notes.append(("an ear lies" if cut == 1 else "both ears lie") + " outside the photo; the head is a guess there")
    face_mask = frame.face & (found.matte > PERSON) & ~found.mask
    labels = _labels(work, points[:, :2], found, colour, beard, hat & found.mask, face_mask, matte, frame)
    # A raised arm beside the head is the person, but nothing that the head's outline may be led by.
    head = hull((found.mask & (frame.height > frame.brow)) | frame.face) | grown(found.mask, ARM_RIM_PX * frame.unit)
    arm = grown(labels.hand, ARM_RIM_PX * frame.unit) & ~head & (frame.height > 0)
    own = np.where(arm, 0, found.matte).astype(np.float32)
    unlike = _bare_unlike_skin(found, matte, labels, colour, frame)
    return Segmentation(own, found.alpha, found.mask, face_mask, found.confidence, found.notes, labels, matte, unlike)


def _bare_unlike_skin(found: ParsedHair, matte: np.ndarray, labels: Labels, colour: SkinColour, frame: FaceFrame) -> float:
    crown = (frame.height > CROWN_FROM) & (np.minimum(found.matte, matte) > PERSON) & ~found.completed
    if crown.sum() < MIN_CROWN_PX * frame.unit**2:
        return 0.0
    bare = crown & ~(grown(found.mask, STUBBLE_PX * frame.unit) | labels.hat | labels.hand | labels.glasses)
    return float((bare & ~colour.like).sum() / crown.sum())


def _labels(
    work: WorkPicture,
    landmarks_px: np.ndarray,
    found: ParsedHair,
    colour: SkinColour,
    beard: np.ndarray,
    hat: np.ndarray,
    face: np.ndarray,
    matte: np.ndarray,
    frame: FaceFrame,
) -> Labels:
    """Each label takes from what those before it left."""
    person = (found.matte > PERSON) & work.inside
    hair = found.mask | beard
    glasses = glasses_mask(work.rgb, landmarks_px) & work.inside & ~hat
    ears = find_ears(colour, person, hair, frame, landmarks_px)
    taken = hair | ears[-1][0] | ears[1][0]
    face = (face & ~taken) | find_forehead(colour, person, taken, frame, not found.mask.any())
    taken = taken | face
    neck = find_neck(colour, person, taken, frame)
    hand = find_hands(colour, (matte > PERSON) & work.inside, taken | neck, frame)
    clothes = find_clothes(person, taken | neck | hand, frame)
    return Labels(
        skin=face & ~glasses & work.inside,
        beard=beard & ~glasses,
        neck=neck,
        ear_right=ears[-1][0] & ~glasses,  # a photo shows the subject's right on its left
        ear_left=ears[1][0] & ~glasses,
        clothes=clothes,
        glasses=glasses,
        hat=hat,
        hand=hand,
        completed=found.completed,
        ear_right_seen=ears[-1][1],
        ear_left_seen=ears[1][1],
    )
