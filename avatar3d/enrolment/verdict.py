"""The verdict on an enrolment: what it is worth, why, and which photo would do better, from figures that catch failures.

Landmarks agree with the photo even on a wreck, so they have no say; the outline, the re-render, the likeness, the size and what the
photo shows do. It looks at the finished avatar and changes nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera
from avatar3d.enrolment.photo.rim import Rim
from avatar3d.face.identity import IdentityEncoder, distance, identity_missing
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import RenderOptions, make_renderer

Grade = Literal["good", "usable", "poor"]
GRADES: tuple[Grade, ...] = ("good", "usable", "poor")
# Where a person is looked at for likeness: a portrait from 0.9 m that holds the head and its hair, before plain light grey.
TURNED_DEG = 30.0
PORTRAIT_SIZE_PX, PORTRAIT_DISTANCE_M = 256, 0.9
PORTRAIT_BACKDROP = (245, 245, 245)


@dataclass(frozen=True)
class Evidence:
    """The figures a verdict rests on.

    silhouette_mm, silhouette_iou, photo_psnr_db: the avatar against its photo, at the photo's camera. outline_mm, crown_mm: median
    distances of the outlines, all and above the face, which neighbours and flying locks hardly move; crown_iou: overlap there; the
    latter None where the photo does not show it. face_psnr_db: the photo's face re-rendered, without what is finer than a pixel at
    88 between the eyes; glasses: the avatar wears some. hidden: what lies before the face, "" for nothing. seen_share: of the face's
    texture, that the photo shows. iod_px: pixels between the eyes. yaw_rad: of the head to the camera. size_by_iris: relative error
    of the head's size as the iris tells it, None where it was not seen. grey: the photo has no colour. rim: what of the outline
    the photo bears out, judged without the hair's mask. bare_unlike_skin: share of the crown left bare that has not the
    skin's colour. presence: how sure the landmark network is of the face. sharpness, light_ratio: see
    `enrolment.photo.taken`; None where they were not measured.
    """

    silhouette_mm: float
    silhouette_iou: float
    photo_psnr_db: float
    seen_share: float
    iod_px: float
    yaw_rad: float
    size_by_iris: float | None = None
    grey: bool = False
    hair_confidence: float = 1.0
    crown_mm: float | None = None
    crown_iou: float | None = None
    outline_mm: float = 0.0
    face_psnr_db: float | None = None
    glasses: bool = False
    hidden: str = ""
    rim: Rim = field(default_factory=Rim)
    bare_unlike_skin: float = 0.0
    presence: float = 1.0
    sharpness: float | None = None
    light_ratio: float | None = None


@dataclass(frozen=True)
class Quality:
    """`quality` of `avatar3d enroll --json`.

    grade: good, usable or poor. cause: what most likely lowered it, "" for good; advice: the photo that would do better.
    identity_front, identity_30: distance of the face embedding between the photo and the avatar in the photo's expression, seen from
    in front and as the mean of 30° to both sides; None where it could not be measured.
    """

    grade: Grade
    cause: str
    advice: str
    identity_front: float | None
    identity_30: float | None
    size_by_iris: float | None
    seen_share: float
    silhouette_mm: float
    silhouette_iou: float
    photo_psnr_db: float

    def to_json(self) -> dict[str, Any]:
        """Plain values by name, rounded to what they mean."""
        return {name: round(value, 3) if isinstance(value, float) else value for name, value in asdict(self).items()}

    def line(self) -> str:
        """One line for the user: the grade, the likely cause and the photo that would do better."""
        return f"the avatar is {self.grade}" + (f": {self.cause}; {self.advice}" if self.cause else "")


@dataclass(frozen=True)
class _Limit:
    """A figure beyond `usable` makes the grade at best usable, beyond `poor` poor; a lower figure is better where `low` holds."""

    name: str
    usable: float
    poor: float
    low: bool
    cause: str
    advice: str

    def rank(self, value: float) -> int:
        """0 good, 1 usable, 2 poor."""
        beyond = (value > np.array([self.usable, self.poor])) if self.low else (value < np.array([self.usable, self.poor]))
        return int(beyond.sum())


PLAIN = "use a photo of the whole head before a plain backdrop that differs from the hair"
CLEAR = "use a photo from the front in even light with nothing before the face"
GLASSES_DB = 4.0  # that lenses' mirrors and a frame's shadow cost of the face
FRONT = "use a photo from the front in even light"
# The order is that of blame: what explains the others comes first. Each limit lies beyond what good heads of many people reach.
LIMITS = (
    _Limit("iod_px", 34.0, 26.0, False, "the face is small in the photo ({:.0f} px between the eyes)", "use one with 100 px or more"),
    _Limit("yaw_deg", 30.0, 45.0, True, "the head is turned {:.0f}° from the camera", "use a photo from nearer the front"),
    _Limit("seen_share", 0.3, 0.18, False, "the photo shows {:.0%} of the face", "use one with nothing before the face"),
    # A hand over an eye and the nose leaves a doubt of 8e-5 to .03; bare faces, masks and sunglasses 5e-5 at most.
    _Limit("face_doubt", 1e-4, 1e-3, True, "the face network doubts the face by {:.2%}; something may lie before it", CLEAR),
    _Limit("face_psnr_db", 24.6, 23.0, False, "the photo's face comes back at {:.1f} dB only", CLEAR),
    _Limit("crown_mm", 2.0, 3.0, True, "the top of the head misses the photo's outline by {:.1f} mm", PLAIN),
    _Limit("crown_iou", 0.92, 0.75, False, "the top of the head covers {:.0%} of the photo's", PLAIN),
    _Limit("outline_mm", 4.0, 6.5, True, "the outline misses the photo's by {:.1f} mm", PLAIN),
    # Of 29 heads with their hair right .06 at most, of 7 with it wrong .12 at least; beyond the person .03 | .12.
    _Limit("rim_unsupported", 0.08, 0.1, True, "{:.0%} of the head's outline lies where the photo has none", PLAIN),
    _Limit("beyond_person", 0.04, 0.2, True, "{:.0%} of the head was made of the backdrop", PLAIN),
    # Dark shade on a forehead reaches .18; two haired heads that came out bald have .37 and .48.
    _Limit("bare_unlike_skin", 0.25, 0.45, True, "{:.0%} of the crown came out bald, though it does not look like skin", PLAIN),
    # The sharpest fault that blur or a lamp may be is one of the photo: alone they make no wreck.
    _Limit("sharpness", 0.14, 0.05, False, "the photo is out of focus or moved (sharpness {:.2f} of 0.2)", "use a sharp one"),
    _Limit("light_ratio", 6.0, 100.0, True, "one side of the face is {:.0f} times as dark as the other", FRONT),
    # Neighbours, hands and hair that hangs or flies are in the overlap and in the whole picture: only far misses tell of a wreck.
    _Limit("silhouette_iou", 0.85, 0.65, False, "the outline covers {:.0%} of the photo's", PLAIN),
    _Limit("photo_psnr_db", 17.5, 12.0, False, "the photo comes back at {:.1f} dB only", FRONT),
    _Limit("identity_front", 0.4, 0.5, True, "a face network finds it unlike the photo ({:.2f}; one person reaches 0.43)", FRONT),
    _Limit("identity_30", 0.55, 0.7, True, "turned by 30° a face network finds it unlike the photo ({:.2f})", FRONT),
    _Limit("size_by_iris", 0.12, 0.25, True, "its size differs from the iris's by {:.0%}", "pass --pd with the pupils' distance in mm"),
)  # fmt: skip
# A drawn outline that nearly all lies where the photo's colours change is the head's: what it misses is a neighbour, an arm or a lock
# that the matte took in. Limits by the matte lower the grade to usable then and no further.
BY_THE_MATTE, BORNE_OUT = ("crown_mm", "crown_iou", "outline_mm", "silhouette_iou"), 0.05
GREY_SPREAD = 4  # of 255 between a pixel's channels, which JPEG adds to a grey photo
UNSURE_HAIR = 0.5  # confidence of the segmentation below which its hair lowers the grade


def is_grey(rgb: np.ndarray) -> bool:
    """Whether a (H, W, 3) u8 photo has no colour, whatever its file says."""
    sample = rgb[:: max(rgb.shape[0] // 128, 1), :: max(rgb.shape[1] // 128, 1)].astype(np.int16)
    return bool(np.percentile(np.ptp(sample, axis=2), 95) <= GREY_SPREAD)


def judge(evidence: Evidence, likeness: tuple[float | None, float | None] = (None, None)) -> Quality:
    """The verdict on `evidence` and the distances of `likeness_of`: the worst figure sets the grade, the first of those the cause."""
    values: dict[str, float | None] = {
        "iod_px": evidence.iod_px,
        "yaw_deg": abs(float(np.degrees(evidence.yaw_rad))),
        "seen_share": evidence.seen_share,
        "crown_mm": evidence.crown_mm,
        "crown_iou": evidence.crown_iou,
        "outline_mm": evidence.outline_mm,
        "silhouette_iou": evidence.silhouette_iou,
        "photo_psnr_db": evidence.photo_psnr_db,
        "face_psnr_db": None if evidence.face_psnr_db is None else evidence.face_psnr_db + GLASSES_DB * evidence.glasses,
        # One portrait's distance may be the photo's own fault, a squint or few pixels: the turned ones must agree.
        "identity_front": likeness[0] if None in likeness else min(likeness),  # type: ignore[type-var]
        "identity_30": likeness[1],
        "rim_unsupported": evidence.rim.unsupported,
        "beyond_person": evidence.rim.beyond_person,
        "sharpness": evidence.sharpness,
        "light_ratio": evidence.light_ratio,
        "face_doubt": 1 - evidence.presence,
        "bare_unlike_skin": evidence.bare_unlike_skin,
        "size_by_iris": None if evidence.size_by_iris is None else abs(evidence.size_by_iris),
    }
    complaints = []
    for limit in LIMITS:
        value = values[limit.name]
        rank = 0 if value is None else limit.rank(value)
        if limit.name in BY_THE_MATTE and evidence.rim.flat is not None and evidence.rim.flat <= BORNE_OUT:
            rank = min(rank, 1)
        if rank:
            complaints.append((rank, limit.cause.format(value), limit.advice))
    if evidence.hair_confidence < UNSURE_HAIR:
        complaints.append((1, "the hair is hard to tell from what is around it", PLAIN))
    if evidence.hidden:
        complaints.insert(
            0, (max([1, *(rank for rank, _, _ in complaints)]), evidence.hidden, "use one with nothing before the face")
        )
    elif evidence.grey and complaints:
        complaints.insert(0, (max(rank for rank, _, _ in complaints), "the photo is grey", "use a photo in colour"))
    worst = max((rank for rank, _, _ in complaints), default=0)
    cause, advice = next(((cause, advice) for rank, cause, advice in complaints if rank == worst), ("", ""))
    return Quality(
        GRADES[worst], cause, advice, likeness[0], likeness[1], evidence.size_by_iris, evidence.seen_share,
        evidence.silhouette_mm, evidence.silhouette_iou, evidence.photo_psnr_db,
    )  # fmt: skip


def portraits(avatar: Avatar, motion: MotionCode, yaws_deg: tuple[float, ...]) -> list[np.ndarray]:
    """(S, S, 3) u8 sRGB portraits of the avatar turned to `yaws_deg`, as likeness is judged from."""
    cameras = [
        Camera.orbit(np.radians(yaw), 0.0, PORTRAIT_DISTANCE_M, PORTRAIT_SIZE_PX, PORTRAIT_SIZE_PX, HEAD_VIEW_HEIGHT_M,
                     HEAD_MIDDLE_M)
        for yaw in yaws_deg
    ]  # fmt: skip
    renderer = make_renderer("reference")  # at this size quicker than to load the avatar onto a GPU
    try:
        frames = renderer.render(avatar, motion, cameras, RenderOptions(form="mesh"))
        return [frame.to_srgb8(PORTRAIT_BACKDROP) for frame in frames]
    finally:
        renderer.close()


def likeness_of(avatar: Avatar, rgb: np.ndarray, landmarks: FaceLandmarks) -> tuple[float | None, float | None]:
    """Distances of the face embedding between the photo and the avatar in the photo's expression: in front, turned to both sides.

    rgb: (H, W, 3) u8 photo whose face is at `landmarks`. (None, None) where the network is missing, see `identity_missing`.
    """
    if identity_missing() is not None or avatar.photo_motion is None:
        return None, None
    encoder = IdentityEncoder()
    wanted = encoder.encode(rgb, landmarks)
    motion = MotionCode(weights=avatar.photo_motion.weights, gaze=avatar.photo_motion.gaze)
    views = portraits(avatar, motion, (0.0, -TURNED_DEG, TURNED_DEG))
    front, *turned = (distance(encoder.encode(view), wanted) for view in views)
    seen = [value for value in turned if value is not None]
    return front, float(np.mean(seen)) if seen else None
