"""What each stage came to, as pictures for a person who wants to see where an enrolment went wrong; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import cv2
import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import HEAD_MIDDLE_M, Camera
from avatar3d.choices import Form
from avatar3d.enrolment.assembly import assemble
from avatar3d.enrolment.hair.assemble import HairResult
from avatar3d.enrolment.photo.crop import WorkPicture, crop
from avatar3d.enrolment.photo.segment import WORK_IOD_PX
from avatar3d.enrolment.skin.atlas import SkinResult
from avatar3d.enrolment.state import Enrolment
from avatar3d.enrolment.verdict import TURNED_DEG, portraits
from avatar3d.enrolment.worn.attach import put_on
from avatar3d.fitting.fit import FaceFit
from avatar3d.motion.code import ARKIT_NAMES, MotionCode
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.reference.renderer import ReferenceRenderer

Picture = tuple[str, np.ndarray]

PHOTO_PX = 1024  # longer side of a photo that is shown whole
FACE_WIDTHS = 2.2  # side of the crop about a face over the landmarks' extent
YAWS_DEG = (0, 45, 90, 180, -90, -45)
VIEW_PX, VIEW_HEIGHT_M, VIEW_DISTANCE_M = 256, 0.42, 0.9  # of the turntable: head and bust
BACKDROP = (245, 245, 245)
CLAY_SRGB8 = 176
# A lamp above in front, as rendering.scene's light has it: the mean, then x, y, z.
CLAY_LIGHT = np.array([0.62, 0.05, 0.22, 0.34, 0, 0, 0, 0, 0], np.float32)[:, None].repeat(3, 1)
OVERLAY_SHARE = 0.55  # of what is laid over a photo, against it
DOT_PX = 2
DIFFERENCE_GAIN = 4  # of what a re-render is off, so that it is seen


def of_photo(state: Enrolment) -> Iterator[Picture]:
    """The photo as it was read."""
    yield "", _shrunk(state.photo.rgb, PHOTO_PX)


def of_face(state: Enrolment) -> Iterator[Picture]:
    """The photo about the face, and the landmarks over it."""
    points = state.landmarks_px[:, :2]
    middle, half = (points.min(0) + points.max(0)) / 2, FACE_WIDTHS / 2 * np.ptp(points, axis=0).max()
    scale = PHOTO_PX / (2 * half)
    matrix = np.array([[scale, 0, PHOTO_PX / 2 - scale * middle[0]], [0, scale, PHOTO_PX / 2 - scale * middle[1]]])
    picture = cv2.warpAffine(
        state.photo.rgb, matrix, (PHOTO_PX, PHOTO_PX), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE
    )
    yield "", picture
    marked = picture.copy()
    for x, y in points * scale + matrix[:, 2]:
        cv2.circle(marked, (round(float(x)), round(float(y))), DOT_PX, (0, 255, 0), -1, cv2.LINE_AA)
    yield "landmarks", marked


def of_fit(state: Enrolment) -> Iterator[Picture]:
    """The fitted head in clay, over the photo and from around."""
    fit = state.landmark_fit
    work = crop(state.photo.rgb, fit.camera, state.landmarks_px, WORK_IOD_PX, state.options.tuning.segment_size_px)
    yield from _clay_pictures(state, fit, work)


def of_segment(state: Enrolment) -> Iterator[Picture]:
    """The masks over the segmented picture; the head that meets them."""
    work, found = state.coarse, state.segmentation
    yield "picture", work.rgb
    yield "person", _grey(found.matte)
    yield "hair", _grey(found.hair_alpha)
    named = {item.name: getattr(found.labels, item.name) for item in fields(found.labels)}
    masks = {name: mask for name, mask in named.items() if isinstance(mask, np.ndarray)} | {"hidden": state.hidden.area}
    yield "parts", _painted(work.rgb, {"hair": found.hair_mask, **masks})
    yield from _clay_pictures(state, state.fit, work)


def of_glasses(state: Enrolment) -> Iterator[Picture]:
    """The photo as the skin is painted from it: nothing before the face."""
    yield "", state.picture(state.bare, state.options.tuning.max_texture_iod_px).rgb


def of_light(state: Enrolment) -> Iterator[Picture]:
    """Clay under the photo's light."""
    clay = replace(_clay(state, state.fit), light=state.view.light, shading_power=state.view.shading_power)
    yield "clay", turntable(clay, "mesh")


def of_hair(state: Enrolment) -> Iterator[Picture]:
    """The hair's shells on clay."""
    clay = _clay(state, state.fit, state.hair)
    yield "shells", turntable(replace(clay, light=state.view.light, shading_power=state.view.shading_power), "mesh")


def of_hat(state: Enrolment) -> Iterator[Picture]:
    """The hat on its hair, on clay."""
    clay = replace(_clay(state, state.fit, state.hair), light=state.view.light, shading_power=state.view.shading_power)
    yield "shells", turntable(clay if state.hat is None else put_on(clay, [state.hat.part]), "mesh")


def of_skin(state: Enrolment) -> Iterator[Picture]:
    """The atlas, how much of it the photo shows, and the head from around."""
    yield "atlas", state.skin.base_color
    yield "seen", state.skin.confidence
    yield "turntable", turntable(state.avatar)


def of_reach(state: Enrolment) -> Iterator[Picture]:
    """For each weight in the order of ARKit a row: from where it rests on this head to where it is full, of 0 to 1."""
    if state.avatar.reach is None:
        return
    reach, names, width, height = state.avatar.reach, 150, 260, 14
    picture = np.full((len(ARKIT_NAMES) * height, names + width, 3), BACKDROP[0], np.uint8)
    spans = names + np.clip(np.column_stack([reach.rest, reach.full]), 0, 1) * (width - 1)
    for row, (name, (rest, full)) in enumerate(zip(ARKIT_NAMES, spans.round().astype(int), strict=True)):
        cv2.putText(picture, name, (4, (row + 1) * height - 3), cv2.FONT_HERSHEY_SIMPLEX, 0.38, (60, 60, 60), 1, cv2.LINE_AA)
        picture[row * height + 2 : (row + 1) * height - 2, rest : full + 1] = (70, 110, 170)
    yield "", picture


def of_avatar(state: Enrolment) -> Iterator[Picture]:
    """The head from around."""
    yield "turntable", turntable(state.avatar)


def of_clothes(state: Enrolment) -> Iterator[Picture]:
    """The atlas with what is worn, and the head from around."""
    yield "atlas", state.avatar.base_color
    yield "turntable", turntable(state.avatar)


def of_field(state: Enrolment) -> Iterator[Picture]:
    """The head from around without its field and with it, and what it changes."""
    mesh, baked = (turntable(state.avatar, form) for form in ("mesh", "baked"))
    yield "turntable", np.concatenate([mesh, baked, _difference(mesh, baked)])


def of_comparison(state: Enrolment) -> Iterator[Picture]:
    """The photo, the head at its camera, and how far apart the two are within the person."""
    work = state.seen
    form: Form = "mesh" if state.avatar.neural_field is None else "live"
    (frame,) = _drawn(state.avatar, state.fit.motion, [work.camera], form)
    person = (state.evidence.matte > 0.5)[..., None]
    yield "", np.concatenate([work.rgb, frame, np.where(person, _difference(frame, work.rgb), 255).astype(np.uint8)], axis=1)


def of_judgement(state: Enrolment) -> Iterator[Picture]:
    """What likeness is judged by: the photo, and portraits in its expression from the front and from both sides."""
    turned = portraits(state.avatar, state.fit.motion, (0.0, -TURNED_DEG, TURNED_DEG))
    photo = cv2.resize(state.seen.rgb, turned[0].shape[1::-1], interpolation=cv2.INTER_AREA)
    yield "portraits", np.concatenate([photo, *turned], axis=1)


def turntable(avatar: Avatar, form: Form = "baked") -> np.ndarray:
    """(VIEW_PX, N · VIEW_PX, 3) u8 sRGB: the avatar at rest from N sides, YAWS_DEG."""
    cameras = [
        Camera.orbit(np.radians(yaw), 0.0, VIEW_DISTANCE_M, VIEW_PX, VIEW_PX, VIEW_HEIGHT_M, HEAD_MIDDLE_M) for yaw in YAWS_DEG
    ]
    return np.concatenate(_drawn(avatar, MotionCode(), cameras, form), axis=1)


def _drawn(avatar: Avatar, motion: MotionCode, cameras: Sequence[Camera], form: Form) -> list[np.ndarray]:
    renderer = ReferenceRenderer()
    try:
        frames = renderer.render(avatar, motion, cameras, RenderOptions(form=form))
        return [frame.to_srgb8(BACKDROP) for frame in frames]
    finally:
        renderer.close()


def _clay(state: Enrolment, fit: FaceFit, hair: HairResult | None = None) -> Avatar:
    """The head without a skin."""
    plain = np.full((16, 16, 3), CLAY_SRGB8, np.uint8)
    skin = SkinResult(plain, np.zeros((16, 16), np.uint8), [], CLAY_LIGHT, 1.0, plain[0, 0] / np.float32(255), 0.0)
    return assemble(state.head, fit, skin, hair, state.face.landmarks.yaw_rad, state.options.tuning.valid_yaw_deg)


def _clay_pictures(state: Enrolment, fit: FaceFit, work: WorkPicture) -> Iterator[Picture]:
    clay = _clay(state, fit)
    (over,) = ReferenceRenderer().render(clay, fit.motion, [work.camera], RenderOptions(form="mesh"))
    alpha = OVERLAY_SHARE * over.rgba[..., 3:]
    yield "over-photo", np.rint(work.rgb + alpha * (over.to_srgb8(BACKDROP).astype(np.float32) - work.rgb)).astype(np.uint8)
    yield "clay", turntable(clay, "mesh")


def _painted(rgb: np.ndarray, masks: dict[str, np.ndarray]) -> np.ndarray:
    """The picture with each mask in a colour of its own, named where it is."""
    hues = np.linspace(0, 180, len(masks), endpoint=False)
    colors = cv2.cvtColor(np.array([[(hue, 200, 255) for hue in hues]], np.uint8), cv2.COLOR_HSV2RGB)[0]
    shown = [(name, mask, color) for color, (name, mask) in zip(colors, masks.items(), strict=True) if mask.any()]
    blended = rgb.astype(np.float32)
    for _, mask, color in shown:
        blended[mask] += OVERLAY_SHARE * (color - blended[mask])
    out = np.rint(blended).astype(np.uint8)
    for line, (name, _, color) in enumerate(shown, 1):
        words = [float(channel) for channel in color]
        cv2.putText(out, name, (8, 22 * line), cv2.FONT_HERSHEY_SIMPLEX, 0.6, words, 2, cv2.LINE_AA)
    return out


def _grey(mask: np.ndarray) -> np.ndarray:
    return np.rint(255 * np.clip(mask, 0, 1)).astype(np.uint8)


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """White where two pictures are alike."""
    return np.clip(255 - DIFFERENCE_GAIN * np.abs(a.astype(np.int32) - b), 0, 255).astype(np.uint8)


def _shrunk(rgb: np.ndarray, most: int) -> np.ndarray:
    scale = min(most / max(rgb.shape[:2]), 1.0)
    size = (max(round(rgb.shape[1] * scale), 1), max(round(rgb.shape[0] * scale), 1))
    return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
