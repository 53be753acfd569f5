"""One head's hair and matte out of what the hair network answers: whose hair it is, what is none, what the photo cuts off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from avatar3d.enrolment.photo.masks import closed, distance_to, grown, guided_filter, hull, opened, parts_with, shrunk
from avatar3d.enrolment.photo.parse_frame import FaceFrame, headroom
from avatar3d.enrolment.photo.parse_neighbours import beyond_reach, of_others, without_others
from avatar3d.face.hair import SURE

# Sizes in pixels are for WORK_IOD_PX; heights are the face's own: 0 the chin, 1 the top of the face oval.
CORE_PX = 51.0  # the face without a rim this wide (a diameter) is never hair under the brows: hair may hang over its flanks
BROW_MARGIN = 0.02
BLACK = 18.0  # of 255: darker than this tells nothing
DARK_SHARE, BLACK_FACE = 0.25, 0.2  # of the lit skin's lightness; of the face's middle, from which on black is shadow
FLANKS_PX = 61.0  # about the face, where its own hair and shadows lie
SOFT_PX, SOFT_EPSILON = 4.0, 1e-3  # guided filter of hair's soft edge
OPEN_PX, CLOSE_PX = 5.0, 7.0
# Behind the ears: heights, from where on beside the face, how far out, and how near to the hair's colour.
NAPE, EAR_ROOT_PX, BEHIND_EAR_PX, NAPE_LIKE_HAIR = (0.0, 0.75), 12.0, 75.0, 2.5
# Long hair reaches under this height; a rim so wide (twice) that the network left is hair by its colour.
LONG_UNDER, RIM_PX, RIM_LIKE_HAIR = 0.35, 24.0, 1.6
EAR_GAP_PX = 64.0  # a diameter about the hair: the ear may part it
PASSABLE = 0.3  # of hair or person, from which on a way to a neighbour may lead through a pixel
# Under this matte hair is believed in the colour of the surer hair, or where it stands out no farther than strands do.
UNLIKELY_MATTE, STRANDS_PX = 0.5, 14.0
# Least deviations of that colour, 8-bit CIELAB; in multiples of it
HAIR_SPREAD, LIKE_HAIR, UNLIKE_HAIR = (16.0, 5.0, 5.0), 2.0, 4.0
LONE_PX, LONE_MATTE = 30.0, 0.1  # hair this far off where a head may be is the person to the matting network too
UPPER_FACE = 0.75  # hair of this head reaches above this height beside the face
MIN_HAIR_PX = 700  # smaller masks are specks
CROWN, CROWN_HALF_PX, HEAD_TOP = 1.08, 110.0, 1.24  # from where on the head is crown, how wide it is; a bald head's top
BALD_SHARE = 0.12  # of the crown under hair, below which the head is bald
FAINT, FAINT_SHARE = 0.25, 0.4  # probability, and share of the crown over it, from which on faint hair is believed
NEAR_HAIR_PX = 9.0  # about the hair, where the person is at least what the hair is
OVER_FACE, OVER_HALF_PX, STRAY_PX = 1.0, 140.0, 3.0  # over the head nothing but hair and face is person
# Above this height the person ends so far off the hull of hair and face, as an ear stands out less; and so far off the hair itself.
FAR_FROM, FAR_PX, OFF_HAIR_PX = 0.15, 36.0, 12.0
CERTAINTY = (0.5, 0.9)  # mean |2p − 1| over the hair, from no confidence to full
AGREEMENT = (0.3, 0.8)  # likewise, of what the network calls hair in two views
UNSURE = 0.6  # confidence below which the report warns
# A crown above the photo: an ellipse as wide as the head, passed on from the photo's edge.
EDGE_ROWS_PX, EDGE_PX = 2, 10.0  # the network is blind in the rows next to the edge
TELLING, HAIR_TOP, TALLEST = 0.6, 1.38, 1.55  # width at the edge over the widest, under which both tell the ellipse; tops
FLAT_TOP, LEAST_RISE = 0.35, 0.13  # tall hair is cut where it is still this wide; then it rises by this much more at least
CROWN_ALPHA = 0.62  # of hair nobody saw: over half, so that it is drawn, and too little to be taken for the photo's
# A photo cut under this height, with hair at both temples, is cut under the hairline: an arc that dips so much to the temples.
HAIRLINE, TEMPLE_DIP, TEMPLE_PX = 1.12, 0.3, 12.0
FRONTAL = 0.06  # nose off the temples' middle over the face's width, up to which one side of a head is like the other
# Hair that leaves the photo below: carried straight on, down to this height at most.
LEAVES_PX, LOWEST = 10.0, -1.15


@dataclass(frozen=True)
class ParsedHair:
    """mask: (H, W) bool. alpha, matte: (H, W) f32 in [0, 1]. completed: (H, W) bool, outside the photo. confidence: in [0, 1]."""

    mask: np.ndarray
    alpha: np.ndarray
    matte: np.ndarray
    completed: np.ndarray
    confidence: float
    notes: list[str] = field(default_factory=list)


def parse_hair(
    rgb: np.ndarray,
    inside: np.ndarray,
    matte: np.ndarray,
    probability: np.ndarray,
    agreement: float,
    beard: np.ndarray,
    frame: FaceFrame,
    skin: np.ndarray,
    neighbours: Sequence[np.ndarray] = (),
) -> ParsedHair:
    """Hair of the head that `frame` measures.

    rgb: (H, W, 3) u8. inside: (H, W) bool, covered by the photo. matte, probability: (H, W) f32, of the person and the hair
    network. agreement: of that network with itself, see HairSeen. beard: (H, W) bool, hair of the face. skin: (H, W) bool, of
    its colour. neighbours: (4,) boxes x0, y0, x1, y1 of other faces, pixels; they may lie outside the picture.
    """
    unit, guide = frame.unit, rgb / np.float32(255)
    never, shadow = _never_hair(rgb, frame)
    likely = np.where(never | shadow | beard, 0.0, probability).astype(np.float32)
    soft = guided_filter(guide, likely, max(2, round(SOFT_PX * unit)), SOFT_EPSILON)
    own = (frame.height > UPPER_FACE) & grown(frame.face, FLANKS_PX * unit)
    others = of_others(rgb, (soft > PASSABLE) | (matte > PASSABLE), frame.face, neighbours, frame)
    mask = (soft > SURE) & inside & ~others
    off = _off_hair_colour(rgb, mask & (matte > 0.8), frame)
    stands_out = distance_to(mask & (matte > UNLIKELY_MATTE)) > STRANDS_PX * unit
    # Wood, curtains and the like, which the hair network alone takes for hair.
    mask &= (matte > UNLIKELY_MATTE) | (off < np.where(stands_out, LIKE_HAIR, UNLIKE_HAIR))
    mask = parts_with(mask, own, MIN_HAIR_PX / 4 * unit**2)
    others |= beyond_reach(mask, frame.face, frame)
    mask &= ~others
    mask &= (matte > LONE_MATTE) | (distance_to(frame.face | headroom(frame)) < LONE_PX * unit)
    mask |= _behind_ears(mask, (matte > 0.5) & inside & ~others & ~(never | shadow | beard | skin), off, frame)
    mask = closed(opened(mask, OPEN_PX * unit), CLOSE_PX * unit) & ~never & inside

    crown = (frame.height > CROWN) & ((matte > 0.7) | mask) & inside
    crown &= np.abs(frame.lateral) < CROWN_HALF_PX * unit
    top_seen = crown.sum() >= MIN_HAIR_PX / 4 * unit**2
    notes = []
    if top_seen and (mask & crown).sum() < BALD_SHARE * crown.sum() and (soft > FAINT)[crown].mean() > FAINT_SHARE:
        # Thin or pale hair, of which the network is unsure all over: half an answer is hair where it covers the crown.
        faint = (soft > FAINT) & inside & ~others & ~never & (matte > UNLIKELY_MATTE)
        mask = (
            closed(opened(parts_with(faint, own, MIN_HAIR_PX / 4 * unit**2), OPEN_PX * unit), CLOSE_PX * unit) & ~never & inside
        )
        soft = np.clip(soft * (SURE / FAINT), 0, 1)
        notes = ["the hair is thin or as pale as the skin and was hardly seen; a photo before a darker backdrop would show it"]
    bare_crown = top_seen and (mask & crown).sum() < BALD_SHARE * crown.sum()
    if bare_crown or mask.sum() < MIN_HAIR_PX * unit**2:
        note = "the head looks bald or shaved" if top_seen else "the top of the head is not in the photo, and no hair beside it"
        nothing = np.zeros(mask.shape, bool)
        person = _without_others(matte, headroom(frame), frame)
        bald = ParsedHair(nothing, nothing.astype(np.float32), person, nothing, 0.6, [f"{note}; no hair was made"])
        return _with_crown(bald, frame, inside)

    matte = without_others(matte, others, mask | frame.face, frame)
    near = grown(mask, NEAR_HAIR_PX * unit)
    solid = guided_filter(guide, mask.astype(np.float32), max(2, round(SOFT_PX * unit)), SOFT_EPSILON)
    person = np.where(near, np.maximum(matte, np.clip(1.05 * solid, 0, 1)), matte)
    over = (frame.height > OVER_FACE) & (np.abs(frame.lateral) < OVER_HALF_PX * unit)
    stray = over & (distance_to(mask | frame.face) > STRAY_PX * unit) & ~hull(mask | frame.face)
    person = _without_others(np.where(stray, np.minimum(person, solid), person), mask, frame)
    alpha = np.where(near, soft, 0.0) * np.clip(1.2 * person, 0, 1)

    certainty = np.abs(2 * likely[mask] - 1).mean()
    confidence = min(_share(float(certainty), CERTAINTY), _share(agreement, AGREEMENT))
    if confidence < UNSURE and not notes:
        notes.append("the hair is hard to tell from the backdrop; its outline is a guess in places")
    found = ParsedHair(mask, alpha.astype(np.float32), person.astype(np.float32), np.zeros(mask.shape, bool), confidence, notes)
    return _with_side(_with_lower_end(_with_crown(found, frame, inside), frame, inside), frame, inside)


def _share(value: float, limits: tuple[float, float]) -> float:
    return float(np.clip((value - limits[0]) / (limits[1] - limits[0]), 0, 1))


def _off_hair_colour(rgb: np.ndarray, sure: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) f32: how far each colour is from the sure hair's, in multiples of its spread; 0 where too little hair is sure."""
    if sure.sum() < MIN_HAIR_PX * frame.unit**2:
        return np.zeros(sure.shape, np.float32)
    lab = cv2.cvtColor(cv2.GaussianBlur(rgb, (0, 0), 1.5), cv2.COLOR_RGB2LAB).astype(np.float32)
    middle = np.median(lab[sure], 0)
    spread = np.maximum(1.48 * np.median(np.abs(lab[sure] - middle), 0), HAIR_SPREAD)
    return np.linalg.norm((lab - middle) / spread, axis=-1)


def _behind_ears(hair: np.ndarray, person: np.ndarray, off: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: hair behind the ears down to the nape, which the network misses in the shade: person (H, W) in hair's colour."""
    unit = frame.unit
    across = np.abs(frame.lateral)
    beside = (frame.height > NAPE[0]) & (frame.height < NAPE[1]) & (across > across[frame.face].max() - EAR_ROOT_PX * unit)
    beside &= across < across[frame.face].max() + BEHIND_EAR_PX * unit
    found = opened(person & beside & (off < NAPE_LIKE_HAIR) & ~grown(frame.face, 9 * unit), OPEN_PX * unit)
    if (hair & (frame.height < LONG_UNDER)).sum() > MIN_HAIR_PX * unit**2:
        # Long hair is fuller than what the network gives of it.
        rim = grown(hair, RIM_PX * unit) & person & (off < RIM_LIKE_HAIR) & ~grown(frame.face, 15 * unit)
        found |= rim & (frame.height > NAPE[0])
    return parts_with(found, grown(hair, EAR_GAP_PX * unit), MIN_HAIR_PX / 10 * unit**2)


def _never_hair(rgb: np.ndarray, frame: FaceFrame) -> tuple[np.ndarray, np.ndarray]:
    """((H, W) bool of the face that no hair covers, (H, W) bool of shadow that may be taken for hair)."""
    lightness = cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB)[..., 0]
    core = shrunk(frame.face, CORE_PX * frame.unit)
    under_brows = frame.inner & (frame.height < frame.brow + BROW_MARGIN)
    never = under_brows & (core | (lightness < BLACK))
    if not core.any():
        return never, np.zeros(core.shape, bool)
    black = lightness < max(BLACK, DARK_SHARE * float(np.percentile(lightness[core], 80)))
    if (black & core).sum() <= BLACK_FACE * core.sum():
        return never, np.zeros(core.shape, bool)
    # Half of the face lies in black shadow: under the brows nothing there is known for hair.
    return under_brows, black & (frame.height < frame.brow) & grown(frame.face, FLANKS_PX * frame.unit)


def _without_others(matte: np.ndarray, hair: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """The matte without other people, raised arms and the like: what lies far off this head."""
    above = hair & (frame.height > FAR_FROM)
    head = hull((hair & (frame.height > FAR_FROM + 0.2)) | frame.face) | above
    # An ear stands out of the face; out of hair nothing does.
    beside = (distance_to(frame.face) > FAR_PX * frame.unit) & (distance_to(above) > OFF_HAIR_PX * frame.unit) & above.any()
    far = (frame.height > FAR_FROM) & ((distance_to(head) > FAR_PX * frame.unit) | (beside & ~hull(above | frame.face)))
    return np.where(far, 0.0, matte).astype(np.float32)


def _with_crown(found: ParsedHair, frame: FaceFrame, inside: np.ndarray) -> ParsedHair:
    """The head carried on above the photo's upper edge, where that cuts it."""
    rows = np.flatnonzero(inside.any(1))
    if not len(rows):
        return found
    edge = min(int(rows[0]) + max(EDGE_ROWS_PX, round(EDGE_PX * frame.unit)), len(inside) - 3)
    body = hull(((found.mask & (frame.height > FAR_FROM)) | frame.face) & inside)
    if not found.mask.any():
        body = hull((found.matte > 0.5) & (frame.height > frame.brow) & inside)
    seen = np.flatnonzero(body[edge])
    if rows[0] < EDGE_ROWS_PX or len(seen) < 20 * frame.unit:
        return found
    left, right = float(seen[0]), float(seen[-1])
    middle = (left + right) / 2
    cut_at = float(frame.height[edge, int(middle)])
    span = max(3, round(TEMPLE_PX * frame.unit))
    temples = [found.mask[edge, seen[0] : seen[0] + span], found.mask[edge, seen[-1] + 1 - span : seen[-1] + 1]]
    under_hairline = cut_at < HAIRLINE and all(part.mean() > 0.5 for part in temples)
    hairy = under_hairline or found.mask[edge, seen[0] : seen[-1] + 1].mean() > 0.3
    widths = body[edge:].sum(1)
    widest = int(widths.argmax())
    narrowing = (right - left) / max(float(widths[widest]), 1.0)
    usual = HAIR_TOP if hairy else HEAD_TOP
    if cut_at >= usual and not (hairy and narrowing > FLAT_TOP):
        return found
    apex = frame.at(max(usual, cut_at + LEAST_RISE))
    # The ellipse's middle lies where the head is widest. Its top is the usual one until so much of it is seen that it tells.
    rise, tall = float(widest), max(edge - float(apex[1]), 4.0)
    if narrowing < TELLING and widest > 2:
        lowest, highest = (edge - float(frame.at(height)[1]) for height in (cut_at + 0.02, TALLEST))
        tall = float(np.clip(rise / np.sqrt(1 - narrowing**2) - rise, max(lowest, 2.0), max(highest, 3.0)))
    ys, xs = np.mgrid[: body.shape[0], : body.shape[1]]
    share = (edge - ys + rise) / (tall + rise)
    half = (right - left) / 2 * np.sqrt(np.clip(1 - share**2, 0, 1) / max(1 - (rise / (tall + rise)) ** 2, 1e-6))
    lean = np.clip(float(apex[0]) - middle, -0.5 * (right - left), 0.5 * (right - left)) * np.clip((edge - ys) / tall, 0, 1)
    cap = (ys <= edge) & (np.abs(xs - middle - 0.5 * lean) < half)
    above = ys < rows[0] + EDGE_ROWS_PX
    matte = np.where(above, cap, np.maximum(found.matte, cap)).astype(np.float32)
    note = "the top of the head is outside the photo; its crown was completed"
    if not hairy:
        return replace(found, matte=matte, completed=found.completed | (cap & ~inside), notes=[*found.notes, note])
    if under_hairline:
        arc = HAIRLINE - TEMPLE_DIP * (2 * frame.lateral / max(frame.width, 1.0)) ** 2
        cap &= found.mask | (above & (frame.height > arc))
    alpha = np.where(cap, np.maximum(np.where(above, 0, found.alpha), CROWN_ALPHA), np.where(above, 0, found.alpha))
    return replace(
        found, mask=(found.mask & ~above) | cap, alpha=alpha.astype(np.float32), matte=matte,
        completed=found.completed | (cap & ~inside), notes=[*found.notes, note],
    )  # fmt: skip


def _with_side(found: ParsedHair, frame: FaceFrame, inside: np.ndarray) -> ParsedHair:
    """A head seen from the front that the photo's right or left edge cuts: beyond it hair and person as on the other side."""
    columns = np.flatnonzero(inside.any(0))
    if not len(columns) or abs(frame.turn) > FRONTAL:
        return found
    beyond, seam = np.zeros((2, *inside.shape), bool)
    margin = max(EDGE_ROWS_PX, round(EDGE_PX * frame.unit))
    head = (found.mask | frame.face) & (frame.height > 0)
    for column, x in ((columns[0], slice(0, columns[0])), (columns[-1], slice(columns[-1] + 1, None))):
        beside = slice(max(column - margin, 0), column + margin + 1)
        if head[:, beside].any():
            beyond[:, x] = seam[:, beside] = True
    beyond &= ~found.completed & (frame.height > LOWEST)
    if not beyond.any():
        return found
    up = (frame.top - frame.chin) / np.linalg.norm(frame.top - frame.chin)
    turn = 2 * np.outer(up, up) - np.eye(2)
    middle = frame.chin - 0.5  # OpenCV puts the first pixel's centre at 0
    matrix = np.column_stack([turn, middle - turn @ middle])

    def other_side(values: np.ndarray) -> np.ndarray:
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return cv2.warpAffine(values.astype(np.float32), matrix, inside.shape[::-1], flags=flags)

    beyond &= other_side(inside | found.completed) > 0.5
    # The networks see neither hair nor person at the very edge.
    seam &= inside & (other_side(inside) > 0.5)
    mask = (beyond | (seam & ~frame.face)) & (other_side(found.mask) > 0.5) & ~found.mask
    matte = np.where(beyond, other_side(found.matte), found.matte)
    matte = np.where(seam, np.maximum(matte, other_side(found.matte)), matte).astype(np.float32)
    return replace(
        found,
        mask=found.mask | mask,
        alpha=np.where(mask, np.clip(other_side(found.alpha), 0.5, CROWN_ALPHA), found.alpha).astype(np.float32),
        matte=matte,
        completed=found.completed | (beyond & (matte > 0.5)),
    )


def _with_lower_end(found: ParsedHair, frame: FaceFrame, inside: np.ndarray) -> ParsedHair:
    """Hair that hangs out of the photo carried straight down below it."""
    rows = np.flatnonzero(inside.any(1))
    edge = int(rows[-1]) - max(EDGE_ROWS_PX, round(EDGE_PX * frame.unit)) if len(rows) else 0
    if not len(rows) or edge + EDGE_ROWS_PX + 1 >= len(inside):
        return found
    leaving = found.mask[edge] & (frame.height[edge] < UPPER_FACE)
    if leaving.sum() < LEAVES_PX * frame.unit:
        return found
    below = (np.arange(len(inside))[:, None] > edge) & leaving & (frame.height > LOWEST)
    return replace(
        found,
        mask=found.mask | below,
        alpha=np.where(below, np.maximum(found.alpha[edge], CROWN_ALPHA), found.alpha).astype(np.float32),
        matte=np.where(below, 1.0, found.matte).astype(np.float32),
        completed=found.completed | (below & ~inside),
        notes=[*found.notes, "the hair goes on below the photo; its lower end was completed"],
    )
