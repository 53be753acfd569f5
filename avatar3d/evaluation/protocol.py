"""The evaluation: which views and expressions are drawn, which controls beside them, what is counted, when it is ranked right.

Colours are compared where the head has one depth: blended layers (outer hair, lashes) show several depths in one pixel, so
they have no exact correspondence. Those pixels are found by drawing the avatar without the blended layers, and are reported
apart: as shown (`blended`), and with the layers taken off (`below_blended`). "View term off" means without the field and
without gloss; both are meant to differ between the eyes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from avatar3d.avatar import PART_LASH, PART_LENS, PART_SKIN, Avatar
from avatar3d.camera import HEAD_MIDDLE_M, Camera, stereo_pair
from avatar3d.choices import DEFAULT_IPD_M
from avatar3d.color import linear_to_srgb
from avatar3d.evaluation import controls
from avatar3d.evaluation.correspondence import Correspondences, EyePicture, correspond
from avatar3d.evaluation.metrics import StereoSample, color_difference, measure_displacements, summarise
from avatar3d.geometry import sample_bilinear
from avatar3d.motion.code import MotionCode
from avatar3d.progress import ProgressCallback, silent
from avatar3d.rendering.frame import Frame, RenderOptions

if TYPE_CHECKING:
    from avatar3d.rendering import Renderer

Pair = tuple[EyePicture, EyePicture]
PICTURE_GREY = 0.5  # sRGB, behind the page's pictures
SAME_COLOR = 0.5 / 255  # a blended layer that changes a pixel by less changes no 8-bit picture
# (yaw in degrees, expression): the range one photo supports and a little beyond, then faces that move.
DEFAULT_KEYS: tuple[tuple[float, dict[str, float]], ...] = (
    (-35.0, {"mouthSmileLeft": 0.8, "mouthSmileRight": 0.8, "cheekSquintLeft": 0.5, "cheekSquintRight": 0.5}),
    (0.0, {}),
    (12.0, {"jawOpen": 0.6, "browInnerUp": 0.6}),
    (35.0, {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0, "mouthPucker": 0.6}),
)
# What each wrong control gets wrong. The avatar must be RANK_MARGIN times better there, and no worse in colour.
VIOLATED = {
    "billboard": "disparity_error_px_p95",
    "per_eye_generator": "vertical_disparity_px_p95",
    "wrong_ipd": "disparity_error_px_p95",
}
RANK_MARGIN = 2.0
# Which pictures of a pair are matched: the view term matters for the consistent ones, blended pixels have no one disparity.
_MATCHED = {"avatar": 2, "mesh": 2, "blended": 0}
RANKING_RULE = (
    "Each wrong control must measure at least twice the avatar on the figure it violates (billboard and wrong IPD: disparity "
    "error; per-eye generator: vertical disparity) and more than the avatar in colour; the plain mesh, which is consistent, "
    "must measure less than every wrong control on those figures."
)


@dataclass(frozen=True)
class EvaluateOptions:
    """What is drawn and how finely."""

    size_px: int = 512  # of the square picture the pixel figures are in
    view_height_m: float = 0.34  # the picture covers this much of the plane through the head's middle
    distance_m: float = 0.6
    ipd_m: float = DEFAULT_IPD_M
    factor: int = 3  # samples per pixel along an axis; odd. 3 keeps interpolation below 0.3/255 on skin texture
    form: str | None = None  # of the field; None takes baked where the avatar has it, else live
    keys: Sequence[tuple[float, dict[str, float]]] = DEFAULT_KEYS
    turntable: int = 12  # pictures about the head in the page
    seed: int = 0  # of the per-eye control


@dataclass
class KeyResult:
    """One yaw and expression: samples to pool, and what the page shows."""

    yaw_deg: float
    expression: dict[str, float]
    samples: dict[str, StereoSample]
    summary: dict[str, dict[str, float | None]]
    pictures: dict[str, tuple[np.ndarray, np.ndarray]]  # {kind: (left, right) (H, W, 3) f32 sRGB}
    heat: dict[str, np.ndarray]  # {kind: (H, W) f32 largest channel difference in 1/255, NaN where nothing is compared}


@dataclass
class Evaluation:
    """Everything the report shows."""

    options: EvaluateOptions
    form: str
    stereo: dict[str, object]
    controls: dict[str, dict[str, float | None]]
    ranking: list[dict[str, object]]
    ranked_correctly: bool
    keys: list[KeyResult]
    turntable: list[tuple[float, np.ndarray, float]]  # (yaw in degrees, (H, W, 3) u8, share of the seen skin the photo showed)
    renderer: dict[str, object]
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def measure(avatar: Avatar, renderer: Renderer, options: EvaluateOptions, progress: ProgressCallback = silent) -> Evaluation:
    """Everything `evaluate` reports, written nowhere."""
    form = options.form or ("live" if avatar.baked is None and avatar.neural_field is not None else "baked")
    cast = _Cast(avatar, form)
    keys = []
    for index, (yaw_deg, expression) in enumerate(options.keys):
        progress(0.9 * index / len(options.keys), f"stereo at {yaw_deg:+.0f}°")
        keys.append(_measure_key(cast, renderer, options, yaw_deg, expression))
    kinds = list(keys[0].samples)
    pooled = {kind: summarise([key.samples[kind] for key in keys]) for kind in kinds}
    stereo: dict[str, object] = dict(pooled.pop("avatar"))
    stereo["blended"] = pooled.pop("blended")
    stereo["below_blended"] = pooled.pop("below_blended")
    control_figures = {kind: pooled[kind] for kind in ("billboard", "per_eye_generator", "wrong_ipd", "mesh")}
    ranking = rank(stereo, control_figures)
    progress(0.92, "turntable")
    return Evaluation(
        options=options,
        form=form,
        stereo=stereo,
        controls=control_figures,
        ranking=ranking,
        ranked_correctly=all(bool(row["ok"]) for row in ranking),
        keys=keys,
        turntable=_turntable(avatar, renderer, options, form),
        renderer={"name": getattr(renderer, "name", type(renderer).__name__), **getattr(renderer, "info", {})},
    )


def rank(stereo: dict[str, object], figures: dict[str, dict[str, float | None]]) -> list[dict[str, object]]:
    """RANKING_RULE as rows {control, figure, avatar, control_value, ok}; a wrong control nothing matches in is found out."""
    rows: list[dict[str, object]] = []

    def add(control: str, figure: str, better: object, worse: float | None, margin: float, reference: str) -> None:
        measured = isinstance(better, float)
        ok = measured and (worse is None or worse > margin * float(better))  # type: ignore[arg-type]
        row = {"control": control, "figure": figure, "better": reference, "value": better, "control_value": worse, "ok": ok}
        rows.append(row)

    for control, figure in VIOLATED.items():
        add(control, figure, stereo[figure], figures[control][figure], RANK_MARGIN, "avatar")
        add(control, "rmse_255", stereo["rmse_255"], figures[control]["rmse_255"], 1.0, "avatar")
        add(control, figure, figures["mesh"][figure], figures[control][figure], 1.0, "mesh")
    return rows


AVATARS_IN_TURN = 4  # of a cast; a renderer that keeps as many loads each once


class _Cast:
    """The avatar and the reduced ones that say what a pixel of it consists of."""

    def __init__(self, avatar: Avatar, form: str) -> None:
        self.full = avatar
        self.shown = RenderOptions(form=form)  # type: ignore[arg-type]
        self.plain = RenderOptions(form="mesh")
        self.bald = RenderOptions(form="mesh", hair=False)
        # Gloss goes by part; lashes keep theirs, which has no gloss and is drawn from both sides.
        matte_part = np.where(avatar.part == PART_LASH, PART_LASH, PART_SKIN).astype(avatar.part.dtype)
        self.matte = dataclasses.replace(avatar, part=matte_part)
        opaque = ~np.isin(avatar.part, (PART_LASH, PART_LENS))
        hair = avatar.hair
        if hair is not None:
            hair = dataclasses.replace(hair, levels=hair.levels[:1], opacity=hair.opacity[:1], occlusion=hair.occlusion[:1])
        # The baked field counts hair levels, and nothing drawn from these two uses it.
        self.glossy_base = dataclasses.replace(
            avatar, faces=avatar.faces[opaque], part=avatar.part[opaque], hair=hair, neural_field=None, baked=None
        )
        self.base = dataclasses.replace(self.glossy_base, part=matte_part[opaque])


def _measure_key(
    cast: _Cast, renderer: Renderer, options: EvaluateOptions, yaw_deg: float, expression: dict[str, float]
) -> KeyResult:
    motion = MotionCode.from_expression(expression)
    size = options.size_px
    center = Camera.orbit(np.radians(yaw_deg), 0.0, options.distance_m, size, size, options.view_height_m, target=HEAD_MIDDLE_M)
    left, right = stereo_pair(center, options.ipd_m)
    extra_m = np.array([(controls.WRONG_IPD_FACTOR - 1) * options.ipd_m, 0.0, 0.0])
    far_right = dataclasses.replace(right, translation=right.translation - extra_m)

    def draw(avatar: Avatar, cameras: list[Camera], how: RenderOptions) -> list[EyePicture]:
        fine = [camera.resized(camera.width * options.factor, camera.height * options.factor) for camera in cameras]
        frames = renderer.render(avatar, motion, fine, how)
        return [eye_picture(camera, frame, options.factor) for camera, frame in zip(cameras, frames, strict=True)]

    base_left, base_right = draw(cast.base, [left, right], cast.plain)
    matte_left, matte_right, matte_center, matte_far = draw(cast.matte, [left, right, center, far_right], cast.plain)
    full_left, full_right, full_center, full_far = draw(cast.full, [left, right, center, far_right], cast.shown)
    bald_left, bald_right = draw(cast.base, [left, right], cast.bald)
    bald_glossy_left, bald_glossy_right = draw(cast.glossy_base, [left, right], cast.bald)

    links = correspond(base_left, base_right)
    single = _one_depth(base_left, matte_left, base_right, matte_right, links)
    opaque = links.covisible & single
    blended = links.covisible & ~single

    finite = base_left.depth[np.isfinite(base_left.depth)]
    card_m = float(np.median(finite)) if len(finite) else options.distance_m
    random_seed = 2 * options.seed
    pairs: dict[str, tuple[Pair, Pair, Correspondences, np.ndarray]] = {
        "avatar": ((matte_left, matte_right), (full_left, full_right), links, opaque),
        "blended": ((matte_left, matte_right), (full_left, full_right), links, blended),
        "below_blended": ((base_left, base_right), (base_left, base_right), links, blended),
        "billboard": (
            (controls.billboard(matte_center, left, card_m), controls.billboard(matte_center, right, card_m)),
            (controls.billboard(full_center, left, card_m), controls.billboard(full_center, right, card_m)),
            links,
            opaque,
        ),
        "per_eye_generator": (
            (controls.redrawn(matte_left, random_seed), controls.redrawn(matte_right, random_seed + 1)),
            (controls.redrawn(full_left, random_seed), controls.redrawn(full_right, random_seed + 1)),
            links,
            opaque,
        ),
        "wrong_ipd": ((matte_left, matte_far), (full_left, full_far), links, opaque),
    }
    bald_links = correspond(bald_left, bald_right)
    pairs["mesh"] = ((bald_left, bald_right), (bald_glossy_left, bald_glossy_right), bald_links, bald_links.covisible)

    samples: dict[str, StereoSample] = {}
    summary, pictures, heat = {}, {}, {}
    for kind, (plain, shown, pair_links, mask) in pairs.items():
        samples[kind], heat[kind] = _sample(plain, shown, pair_links, mask, _MATCHED.get(kind, 1))
        summary[kind] = summarise([samples[kind]])
        pictures[kind] = (_over_grey(shown[0]), _over_grey(shown[1]))
    return KeyResult(yaw_deg, expression, samples, summary, pictures, heat)


def _sample(
    plain: Pair, shown: Pair, links: Correspondences, mask: np.ndarray, matched: int
) -> tuple[StereoSample, np.ndarray]:
    """Figures of one pair over the pixels of `mask`, and its heat map of the shown pictures' differences.

    matched: 0 measures no displacement, 1 that of the plain pictures, 2 also that of the shown ones.
    """
    difference = color_difference(*plain, links, mask)
    difference_shown = color_difference(*shown, links, mask)
    heat = np.full(mask.shape, np.nan, np.float32)
    heat[mask] = np.abs(difference_shown).max(axis=1)
    sample = StereoSample(
        squared_error_sum=float((difference.astype(np.float64) ** 2).sum()),
        squared_error_sum_view_term=float((difference_shown.astype(np.float64) ** 2).sum()),
        compared=int(mask.sum()),
        covisible=int(links.covisible.sum()),
        covered=int(links.covered.sum()),
        displacements=measure_displacements(*plain, links, mask) if matched >= 1 else None,
        displacements_view_term=measure_displacements(*shown, links, mask) if matched >= 2 else None,
    )
    return sample, heat


def _one_depth(
    base_left: EyePicture, left: EyePicture, base_right: EyePicture, right: EyePicture, links: Correspondences
) -> np.ndarray:
    """(H, W) bool: no blended layer changes the pixel, in either eye."""
    changed_left = np.abs(left.at_centres(left.color) - base_left.at_centres(base_left.color)).max(-1)
    changed_right = np.abs(right.color - base_right.color).max(-1)
    at_right = sample_bilinear(changed_right, links.right_px * right.factor)
    return (changed_left <= SAME_COLOR) & (at_right <= SAME_COLOR)


def eye_picture(camera: Camera, frame: Frame, factor: int) -> EyePicture:
    """A frame drawn `factor` times finer than `camera`'s grid, over black, in sRGB."""
    steps = len(_SRGB_TABLE) - 1
    # Through a table: the curve itself on two million pixels takes longer than drawing them. Off by at most 0.03/255.
    index = np.clip(frame.rgba[..., :3] * steps + 0.5, 0, steps).astype(np.uint16)
    return EyePicture(camera, _SRGB_TABLE[index], frame.rgba[..., 3], frame.depth, factor)


_SRGB_TABLE = linear_to_srgb(np.arange(1 << 16) / ((1 << 16) - 1))


def _over_grey(view: EyePicture) -> np.ndarray:
    """(H, W, 3) f32 sRGB picture of the judged grid over grey, for looking at."""
    alpha = view.at_centres(view.alpha)[..., None]
    return view.at_centres(view.color) + (1 - alpha) * PICTURE_GREY


def _turntable(
    avatar: Avatar, renderer: Renderer, options: EvaluateOptions, form: str
) -> list[tuple[float, np.ndarray, float]]:
    """Pictures about the head, front first, with the share of the seen skin that the photo showed."""
    shown = RenderOptions(form=form, supersample=2)  # type: ignore[arg-type]
    strip = []
    for index in range(options.turntable):
        yaw_deg = (index * 360.0 / options.turntable + 180.0) % 360.0 - 180.0
        camera = Camera.orbit(
            np.radians(yaw_deg), 0.0, options.distance_m, 240, 240, options.view_height_m, target=HEAD_MIDDLE_M
        )
        frame = renderer.render(avatar, MotionCode(), [camera], shown)[0]
        strip.append((yaw_deg, frame.to_srgb8((245, 245, 245)), seen_share(avatar, yaw_deg)))
    return sorted(strip, key=lambda item: item[0])


def seen_share(avatar: Avatar, yaw_deg: float) -> float:
    """Share in [0, 1] of the head's skin facing a viewer at this yaw that the photo showed, by facing area.

    The neck and the bust do not count, and what hair hides does.
    """
    skin = avatar.faces[avatar.part == PART_SKIN]
    corners = avatar.vertices[skin].astype(np.float64)
    area_normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    yaw = np.radians(yaw_deg)
    facing = np.maximum(area_normal @ [np.sin(yaw), 0.0, np.cos(yaw)], 0.0) * avatar.head_weight[skin].mean(axis=1)
    height, width = avatar.confidence.shape
    confidence = sample_bilinear(avatar.confidence.astype(np.float32) / 255, avatar.uv[skin].mean(axis=1) * [width, height])
    total = facing.sum()
    return float((facing * confidence).sum() / total) if total > 0 else 0.0
