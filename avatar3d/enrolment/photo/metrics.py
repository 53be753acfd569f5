"""How well a rendered head agrees with its photo: colour inside the head, and the distance between the two outlines."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from avatar3d.color import linear_to_srgb, psnr_db, srgb_to_linear, to_u8
from avatar3d.enrolment.photo.rim import Rim, rim_of
from avatar3d.head.mediapipe import CHIN, FACE_OVAL, FOREHEAD_TOP, IRIS_CENTRES
from avatar3d.rendering.frame import Frame

# Outside the face's oval the head is compared above this height (0 chin, 1 top of the forehead): below it there are collars
# and shoulders, which the avatar does not have.
HEAD_FROM = 0.3
CROWN_FROM = 1.0
LEAST_BLUR_PX = 0.3
FACE_BLUR = 1 / 88  # of the distance between the irises
# Brightness broader than this, of the distance between the irises, is the lamp's: a shadow that smooth light cannot follow costs a
# half-lit face up to 4 dB and nothing of its likeness. A hand or hair on the face gains 1 to 2 dB by it.
FACE_LIGHT, DARK_LIGHT, MOST_LIGHT = 0.3, 0.02, 1.2  # added linear light; largest change, natural logarithm
BACKDROP_SRGB8 = (128, 128, 128)  # a see-through pixel inside the head counts as an error against mid-grey


@dataclass(frozen=True)
class Agreement:
    """psnr_db: inside the head's matte. outline_px: mean distance between the outlines, both ways. iou: of the silhouettes.

    crown_px, crown_iou: the same above the top of the face, where there are no neighbours, hands or long hair that no shell
    follows; None where the photo does not show it. typical_px, typical_crown_px: median distances in place of the mean: a
    neighbour whom the matte took for this person, or a lock that flies, moves the mean only. face_psnr_db: within the face's
    oval, its broad brightness evened. rim: the outline without the hair's mask, None where it was not judged.

    The head is the face's oval and what lies above HEAD_FROM; the outline and the iou are of the latter.
    """

    psnr_db: float
    outline_px: float
    iou: float
    crown_px: float | None = None
    crown_iou: float | None = None
    typical_px: float = 0.0
    typical_crown_px: float | None = None
    face_psnr_db: float = 0.0
    rim: Rim | None = None


def face_height(landmarks_px: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(H, W) height of each pixel on the face's axis: 0 at the chin, 1 at the top of the forehead."""
    chin, top = landmarks_px[CHIN, :2], landmarks_px[FOREHEAD_TOP, :2]
    axis = (top - chin) / np.sum((top - chin) ** 2)
    y, x = np.mgrid[: shape[0], : shape[1]]
    return (x + 0.5 - chin[0]) * axis[0] + (y + 0.5 - chin[1]) * axis[1]


def masked_psnr_db(a: np.ndarray, b: np.ndarray, mask: np.ndarray) -> float:
    """Peak signal-to-noise ratio of two (H, W, 3) u8 pictures where (H, W) `mask` holds."""
    difference = (a[mask].astype(np.float64) - b[mask]) / 255
    return psnr_db(float(np.mean(difference**2)) if difference.size else 0.0)


def outline_error(drawn: np.ndarray, wanted: np.ndarray, region: np.ndarray) -> tuple[float, float, float]:
    """(mean distance in pixels between the outlines of two (H, W) bool masks, both ways, intersection over union, the median of
    the distance in place of its mean) in `region`.

    The picture's own border is no outline: a head cut off by it is not judged there.
    """
    inside = np.zeros(drawn.shape, bool)
    inside[2:-2, 2:-2] = True
    outlines = [_outline(mask) & region & inside for mask in (drawn, wanted)]
    if not outlines[0].any() or not outlines[1].any():
        return float("inf"), 0.0, float("inf")
    distances = [cv2.distanceTransform((~outline).astype(np.uint8), cv2.DIST_L2, 5) for outline in outlines]
    there, back = distances[1][outlines[0]], distances[0][outlines[1]]
    union = ((drawn | wanted) & region).sum()
    overlap = float(((drawn & wanted) & region).sum() / union)
    return float(there.mean() + back.mean()) / 2, overlap, float(np.median(there) + np.median(back)) / 2


def agreement(
    frame: Frame,
    photo: np.ndarray,
    matte: np.ndarray,
    landmarks_px: np.ndarray,
    inside: np.ndarray | None = None,
    person: np.ndarray | None = None,
) -> Agreement:
    """Compare a frame drawn at the photo's camera with the (H, W, 3) u8 photo and its (H, W) person matte.

    inside: (H, W) bool, what the photo covers; beyond it the head was made up and nothing is judged. person: (H, W), what the
    matting network answered, which no hair mask mended: the outline is judged by it too.
    """
    height = face_height(landmarks_px, photo.shape)
    above = height > HEAD_FROM
    if inside is not None:
        seen = cv2.erode(inside.astype(np.uint8), np.ones((5, 5), np.uint8), borderValue=1) > 0
    else:
        seen = np.ones(photo.shape[:2], bool)
    own = matte > 0.5
    oval = np.zeros(own.shape, np.uint8)
    cv2.fillPoly(oval, [np.round(landmarks_px[list(FACE_OVAL), :2]).astype(np.int32)], 1)
    drawn = frame.rgba[..., 3] > 0.5
    outline_px, iou, typical = outline_error(drawn, own, above & seen)
    crown_px, crown_iou, crown = outline_error(drawn, own, (height > CROWN_FROM) & seen)
    shown = frame.to_srgb8(BACKDROP_SRGB8)
    psnr_db = masked_psnr_db(shown, photo, own & seen & (above | (oval > 0)))
    # Pores and the wrong place of a fold by a pixel are no fault that one sees.
    iod = float(np.linalg.norm(landmarks_px[IRIS_CENTRES[0], :2] - landmarks_px[IRIS_CENTRES[1], :2]))
    soft_shown, soft_photo = (cv2.GaussianBlur(part, (0, 0), max(FACE_BLUR * iod, LEAST_BLUR_PX)) for part in (shown, photo))
    face = (oval > 0) & seen
    face_db = masked_psnr_db(_lit_as(soft_shown, soft_photo, face, max(FACE_LIGHT * iod, 1.0)), soft_photo, face)
    known = np.isfinite(crown_px)
    return Agreement(
        psnr_db,
        outline_px,
        iou,
        crown_px if known else None,
        crown_iou if known else None,
        typical,
        crown if known else None,
        face_db,
        None if person is None else rim_of(drawn, photo, person, landmarks_px, above & seen),
    )


def _lit_as(shown: np.ndarray, photo: np.ndarray, mask: np.ndarray, sigma: float) -> np.ndarray:
    """The (H, W, 3) u8 picture with the photo's brightness, as far as it changes over `sigma` pixels and more within the mask."""
    weight = mask.astype(np.float32)
    light, wanted = (np.log(srgb_to_linear(part) + DARK_LIGHT) for part in (shown, photo))
    share = cv2.GaussianBlur(weight, (0, 0), sigma)
    gain = cv2.GaussianBlur((wanted - light).mean(-1) * weight, (0, 0), sigma) / np.maximum(share, 1e-3)
    return to_u8(linear_to_srgb(np.exp(light + np.clip(gain, -MOST_LIGHT, MOST_LIGHT)[..., None]) - DARK_LIGHT))


def _outline(mask: np.ndarray) -> np.ndarray:
    return mask & ~cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
