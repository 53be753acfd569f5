"""Training of the neural field: what the photo shows, what a generator adds, what reflectance says of other views.

One photo tells the field the hair's opacity and colour; it cannot tell a view term, which a reflectance model teaches instead
(avatar3d.enroll.reflectance). On skin the residual's mean over views is held at zero: the field cannot repaint a person.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch

from avatar3d.avatar import PART_SKIN, Avatar, FieldParams
from avatar3d.camera import Camera
from avatar3d.color import linear_to_srgb, srgb_to_linear
from avatar3d.enroll.reflectance import (
    KeyLight,
    around_normals,
    hair_highlight,
    hair_strands,
    key_light,
    skin_highlight,
    view_sphere,
)
from avatar3d.errors import InputError
from avatar3d.field.bake import cosine_directions
from avatar3d.field.definition import FieldConfig, box_of, new_field
from avatar3d.field.network import Adam, NeuralField
from avatar3d.field.shells import sample_texture
from avatar3d.generator.protocol import Generator, PhotoEvidence, drawn_request
from avatar3d.geometry import random_points, smoothstep, unit
from avatar3d.motion.code import MotionCode
from avatar3d.progress import ProgressCallback, silent
from avatar3d.render.frame import SURFACE_HAIR
from avatar3d.render.raster import draw_ranks
from avatar3d.render.reference import (
    Composite,
    Fragments,
    Textures,
    composite,
    fragments,
    live_residual,
    shade_fragments,
    textures_of,
)
from avatar3d.render.scene import HAIR_CUT, Scene, build_scene, view_directions

HELD_OUT_BLOCK_PX = 8  # blocks, not pixels: the neighbours of a held-out pixel would give it away
HELD_OUT_SHARE = 0.2
TEACHER_HELD_OUT_SHARE = 0.1  # of the teacher's points
GENERATOR_YAWS_DEG = (-35.0, -20.0, -10.0, 10.0, 20.0, 35.0)
GENERATOR_SIZE_PX = 256  # the longer side of a generator view: texels of a millimetre
SURE_MATTE = 0.95  # above this a pixel holds no backdrop, so its colour is the person's
MAX_LAYERS = 8  # blended hair fragments of one pixel that are trained; more are behind what is opaque already
SKIN_POINTS, HAIR_POINTS = 10_000, 20_000
DIRECTION_SETS, DIRECTIONS = 4, 6  # each teacher point is seen from one set of six directions at a time
# Hair that faces the photo's camera by more than the second cosine is painted by the photo for every view, by less than the
# first only for views as flat as the photo's; by less than the third, it lies behind the rim.
UNSEEN_COSINE, SEEN_COSINE, BEHIND_COSINE = 0.3, 0.75, -0.3
MIN_COVERAGE = 0.05  # hair's opacity is corrected, not created: new shreds would float when the head turns
BARE_POINT_SHARE = 0.3  # how often a point without hair is a teacher's point, against one in full hair
TEACHER_SHARE_OF_BOUND = 0.8  # targets stay where the soft bound is far from flat
BATCH_SKIN_PIXELS, BATCH_HAIR_PIXELS, BATCH_POINTS = 1024, 1024, 512
RANDOM_DIRECTIONS = 997
TABLE_RATE, MLP_RATE = 1e-2, 5e-3  # Adam's step sizes (Müller et al. 2022, section 4, for the tables)
ADAM_BETAS, ADAM_EPSILON = (0.9, 0.99), 1e-15
WARM_UP_STEPS, PACE_STEPS = 3, 40  # the pace is measured between the two, to plan for the time budget
FINAL_RATE_SHARE = 0.03  # the step sizes fall to this share along a half cosine
MAX_ENCODING_SLOPE = 4.0  # of sRGB over linear light: blacks would outvote everything


@dataclass(frozen=True)
class TrainOptions:
    """How to train; each weight multiplies a mean square in sRGB units (or of opacity)."""

    iterations: int = 700
    """Steps: about 6 s on an idle core; twice as many gain the held-out pixels less than 0.1 dB."""
    seconds_budget: float = 90.0
    """Plan for this many seconds of steps at most: an emergency stop far beyond a busy machine's pace, for a run that it
    shortens depends on that machine's load."""
    seed: int = 0
    """Seed of everything random."""
    threads: int = 1
    """Threads of torch and numba: a second one pays on an idle machine only, and where cores are shared it costs dearly."""
    implementation: str = "numba"
    """Back end of the hash grid: numba, or torch, its slow twin. Training runs on the CPU."""
    photo_weight: float = 1.0
    """Colour at the photo's camera."""
    coverage_weight: float = 0.5
    """Opacity of the hair at the photo's camera."""
    hairline_share: float = 0.3
    """Of coverage_weight, where skin lies behind the hair: the hair mask is less sure there than the matte's rim."""
    skin_share: float = 0.1
    """Of the two colour weights, on skin: its texture holds what the photo shows already."""
    generator_weight: float = 0.25
    """Colour of the generator's views, times their confidence: carried from the one photo, they add little."""
    any_view_share: float = 0.75
    """Share of picture batches whose colours and opacities are taught for random views: one photo has no view term to tell."""
    teacher_weight: float = 1.0
    """Residual against the reflectance model, both less their mean over views."""
    skin_mean_weight: float = 4.0
    """Square of the skin's mean residual over views: the field must not repaint the person."""
    hair_mean_weight: float = 0.02
    """The same for hair that faces the photo's camera, whose colour the photo may correct."""
    unseen_mean_weight: float = 1.0
    """The same for hair that the photo does not show."""
    opacity_weight: float = 0.02
    """Square of the opacity change: none without evidence."""
    hidden_opacity_weight: float = 0.5
    """The same where other hair lies in front, where hair faces away, and on the opaque level, which could be torn open."""
    table_decay: float = 1.0
    """Decoupled weight decay of the hash tables: entries that no evidence holds fade instead of adding noise elsewhere."""
    any_expression_share: float = 0.5
    """Share of picture batches at the neutral or a random expression: what one photo shows is not the expression's doing."""


@dataclass(frozen=True)
class TrainReport:
    """What training did; `off` is without the field, `on` with it. None where there was nothing to measure.

    photo_psnr_db: sRGB at the photo's camera, where the photo surely shows the person's skin or hair; heldout: in the blocks
    never trained on. rim_opacity_rmse: the hair's opacity against the matte on held-out pixels with nothing opaque behind.
    silhouette_px: mean distance of the hair's half-opacity outline to the matte's, whole picture. teacher_rmse_255: residual
    against the reflectance model at points never trained on, 1/255 of sRGB. generator_psnr_db: confident pixels of the
    generator's views. skin_mean_255: RMS over skin of the residual's mean over views, 1/255 of sRGB; skin_view_255: RMS of
    what varies with the view.
    """

    iterations: int
    seconds: float
    seconds_per_iteration: float
    implementation: str
    seed: int
    loss_first: float
    loss_last: float
    photo_psnr_db_off: float
    photo_psnr_db_on: float
    heldout_psnr_db_off: float
    heldout_psnr_db_on: float
    heldout_skin_psnr_db_off: float | None
    heldout_skin_psnr_db_on: float | None
    heldout_hair_psnr_db_off: float | None
    heldout_hair_psnr_db_on: float | None
    rim_opacity_rmse_off: float | None
    rim_opacity_rmse_on: float | None
    silhouette_px_off: float | None
    silhouette_px_on: float | None
    teacher_rmse_255_off: float
    teacher_rmse_255_on: float
    generator_psnr_db_off: float | None
    generator_psnr_db_on: float | None
    skin_mean_255: float
    skin_view_255: float

    def to_json(self) -> dict[str, object]:
        """Plain numbers by name."""
        return asdict(self)


def encoding_slope(linear: np.ndarray) -> np.ndarray:
    """Derivative of the sRGB curve at linear light, at most MAX_ENCODING_SLOPE: turns linear errors into visible ones."""
    light = np.maximum(linear, 1e-3)
    return np.minimum(1.055 / 2.4 * light ** (1 / 2.4 - 1), MAX_ENCODING_SLOPE).astype(np.float32)


def held_out_pixels(height: int, width: int, seed: int) -> np.ndarray:
    """(H, W) bool: HELD_OUT_SHARE of the picture's blocks."""
    rows, columns = -(-height // HELD_OUT_BLOCK_PX), -(-width // HELD_OUT_BLOCK_PX)
    chosen = np.random.default_rng(seed).random((rows, columns)) < HELD_OUT_SHARE
    return np.kron(chosen, np.ones((HELD_OUT_BLOCK_PX, HELD_OUT_BLOCK_PX), bool))[:height, :width]


@dataclass
class _View:
    """One camera's fragments, shaded without the field, and their mesh-form picture."""

    drawn: list[Fragments]
    shaded: list[tuple[torch.Tensor, torch.Tensor]]
    picture: Composite

    @property
    def rgba(self) -> np.ndarray:
        """(H · W, 4) f32, linear, premultiplied."""
        return self.picture.rgba.numpy()


def _view(scene: Scene, textures: Textures, camera: Camera) -> _View:
    with torch.no_grad():
        drawn = fragments(scene, camera)
        shaded = [shade_fragments(layer, textures) for layer in drawn]
        return _View(drawn, shaded, composite(drawn, shaded, camera.width * camera.height))


@dataclass
class _Pixels:
    """Pixels to train on, P of them over N fragments, as the compositor sees them.

    Per fragment: canonical (N, 3), d (N, 3), color (N, 3) linear without the field, alpha (N,), weight (N,) of the field,
    seen (N,) how well the photo shows the point: the avatar's confidence on skin, by its slope on hair. level (N,), world
    (N, 3). Per pixel: opaque (P,) fragment or −1, layers (P, R) blended fragments from inside out or −1, pixel (P,), target
    (P, 3) linear, slope (P, 3), color_weight (P,), coverage (P,) wanted opacity of the layers, coverage_weight (P,).
    """

    canonical: np.ndarray
    d: np.ndarray
    color: np.ndarray
    alpha: np.ndarray
    weight: np.ndarray
    seen: np.ndarray
    level: np.ndarray
    opaque: np.ndarray
    layers: np.ndarray
    pixel: np.ndarray
    world: np.ndarray
    target: np.ndarray
    slope: np.ndarray
    color_weight: np.ndarray
    coverage: np.ndarray
    coverage_weight: np.ndarray

    @property
    def front(self) -> np.ndarray:
        """(P,) the fragment nearest to the eye."""
        outermost = self.layers.max(1, initial=-1)
        return np.where(outermost >= 0, outermost, self.opaque)

    def select(self, chosen: np.ndarray) -> _Pixels:
        """The same fragments, fewer pixels."""
        names = ("opaque", "layers", "pixel", "target", "slope", "color_weight", "coverage", "coverage_weight")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def joined(self, other: _Pixels) -> _Pixels:
        """Both sets of pixels over both sets of fragments."""
        shift = len(self.alpha)

        def moved(index: np.ndarray) -> np.ndarray:
            return np.where(index >= 0, index + shift, -1)

        merged = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__dataclass_fields__}
        merged["opaque"] = np.concatenate([self.opaque, moved(other.opaque)])
        merged["layers"] = np.concatenate([self.layers, moved(other.layers)])
        return _Pixels(**merged)


def _seen_hair(cosine: np.ndarray) -> np.ndarray:
    """Belief in [0, 1] that hair seen at this cosine looks so from anywhere: 0 below UNSEEN_COSINE, 1 from SEEN_COSINE."""
    return smoothstep(UNSEEN_COSINE, SEEN_COSINE, cosine).astype(np.float32)


def _seen(avatar: Avatar, layer: Fragments) -> np.ndarray:
    if layer.surface == SURFACE_HAIR:
        return _seen_hair(layer.d[:, 2])
    return sample_texture(avatar.confidence[..., None] / np.float32(255), layer.uv)[:, 0]


def _pixels(avatar: Avatar, view: _View, count: int) -> _Pixels:
    """The pixels of a view that show the head or hair; targets are what is drawn now, with no weight."""
    sizes = [len(layer.pixel) for layer in view.drawn]
    starts = np.r_[0, np.cumsum(sizes)].astype(np.int64)

    def gather(name: str) -> np.ndarray:
        return np.concatenate([getattr(layer, name) for layer in view.drawn]).astype(np.float32)

    color = np.concatenate([color.numpy() for color, _ in view.shaded])
    alpha = np.concatenate([alpha.numpy() for _, alpha in view.shaded])
    opaque, depth = np.full(count, -1, np.int64), np.full(count, np.inf, np.float32)
    faded = np.zeros(count, bool)
    blended = []
    for layer, start, (_, layer_alpha) in zip(view.drawn, starts, view.shaded, strict=False):
        nearer = layer.depth < depth[layer.pixel]
        if layer.level >= 1:
            blended.append(start + np.flatnonzero(nearer))
            continue
        if layer.surface == SURFACE_HAIR:
            nearer &= layer_alpha.numpy() >= HAIR_CUT
        else:
            faded[layer.pixel[nearer & (layer.alpha < 1)]] = True
        chosen = np.flatnonzero(nearer)
        chosen = chosen[np.argsort(-layer.depth[chosen], kind="stable")]  # the nearest is written last
        opaque[layer.pixel[chosen]], depth[layer.pixel[chosen]] = start + chosen, layer.depth[chosen]
    layers = np.full((count, MAX_LAYERS), -1, np.int64)
    pixel_of = np.concatenate([layer.pixel for layer in view.drawn])
    if blended:
        order = np.concatenate(blended)
        rank = draw_ranks(pixel_of[order])
        kept = rank < MAX_LAYERS
        layers[pixel_of[order[kept]], rank[kept]] = order[kept]
    shown = np.flatnonzero(((opaque >= 0) | (layers[:, 0] >= 0)) & ~faded)
    target = view.rgba[shown, :3]
    nothing = np.zeros(len(shown), np.float32)
    return _Pixels(
        canonical=gather("canonical"),
        d=gather("d"),
        color=color,
        alpha=alpha,
        weight=gather("field_weight"),
        seen=np.concatenate([_seen(avatar, layer) for layer in view.drawn]),
        level=np.concatenate([np.full(size, layer.level, np.int8) for layer, size in zip(view.drawn, sizes, strict=True)]),
        opaque=opaque[shown],
        layers=layers[shown],
        pixel=shown,
        world=gather("position"),
        target=target,
        slope=encoding_slope(target),
        color_weight=nothing,
        coverage=nothing,
        coverage_weight=nothing,
    )


def _photo_pixels(avatar: Avatar, view: _View, evidence: PhotoEvidence, options: TrainOptions) -> _Pixels:
    """The photo's own pixels with their colours, and the hair's opacity from the matte (rim) and the hair mask (hairline)."""
    pixels = _pixels(avatar, view, evidence.matte.size)
    matte = np.clip(evidence.matte, 0, 1).reshape(-1).astype(np.float32)[pixels.pixel]
    pixels.target = srgb_to_linear(evidence.rgb).reshape(-1, 3)[pixels.pixel]
    pixels.slope = encoding_slope(pixels.target)
    opaque = np.maximum(pixels.opaque, 0)
    behind = np.where((pixels.opaque >= 0) & (pixels.level[opaque] < 0), pixels.seen[opaque], 1)
    head = pixels.level[pixels.front] < 0
    front_seen = np.where(head, pixels.seen[pixels.front], 1)
    pixels.color_weight = ((matte > SURE_MATTE) * behind * front_seen).astype(np.float32)
    opacities = np.where(pixels.layers >= 0, pixels.alpha[np.maximum(pixels.layers, 0)], 0)
    layered = 1 - np.prod(1 - opacities, axis=1) > MIN_COVERAGE
    bare = pixels.opaque < 0
    pixels.coverage = np.where(bare, matte, 0).astype(np.float32)
    pixels.coverage_weight = (layered & bare).astype(np.float32)
    if evidence.hair_alpha is not None:
        hair = np.clip(evidence.hair_alpha, 0, 1).reshape(-1).astype(np.float32)[pixels.pixel]
        before_skin = layered & ~bare & (pixels.level[np.maximum(pixels.opaque, 0)] < 0)
        pixels.coverage = np.where(before_skin, hair, pixels.coverage)
        pixels.coverage_weight = np.where(before_skin, options.hairline_share, pixels.coverage_weight).astype(np.float32)
    return pixels


def _turned(camera: Camera, yaw_rad: float, center: np.ndarray, size_px: int) -> Camera:
    """The photo's camera carried around the vertical axis through `center` by yaw (toward +X), on a smaller pixel grid."""
    scale = size_px / max(camera.width, camera.height)
    camera = camera.resized(max(int(camera.width * scale), 1), max(int(camera.height * scale), 1))
    cosine, sine = np.cos(-yaw_rad), np.sin(-yaw_rad)
    rotation = np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
    return camera.moved(rotation, center - rotation @ center)


def _generator_pixels(
    scene: Scene,
    textures: Textures,
    evidence: PhotoEvidence,
    generator: Generator,
    held_out: np.ndarray,
    options: TrainOptions,
) -> _Pixels | None:
    """Pixels of the generator's views at the photo's motion with their confidence.

    Points that the photo shows in a held-out block are left out, else a generator that carries the photo would leak them.
    """
    joined: _Pixels | None = None
    avatar = scene.avatar
    center = scene.vertices[avatar.head_weight > 0.99].mean(0) if (avatar.head_weight > 0.99).any() else scene.vertices.mean(0)
    for yaw_deg in GENERATOR_YAWS_DEG:
        camera = _turned(evidence.camera, np.radians(yaw_deg), center, GENERATOR_SIZE_PX)
        view = _view(scene, textures, camera)
        alphas = [alpha.numpy() for _, alpha in view.shaded]
        made = generator.generate(drawn_request(avatar, evidence.motion, camera, view.drawn, alphas, view.picture))
        pixels = _pixels(avatar, view, camera.width * camera.height)
        shown, _ = evidence.camera.project(pixels.world[pixels.front].astype(np.float64))
        column = np.clip(shown[:, 0], 0, evidence.camera.width - 1).astype(np.int64)
        row = np.clip(shown[:, 1], 0, evidence.camera.height - 1).astype(np.int64)
        pixels.target = srgb_to_linear(made.rgba[..., :3]).reshape(-1, 3)[pixels.pixel]
        pixels.slope = encoding_slope(pixels.target)
        opaque_enough = made.rgba[..., 3].reshape(-1)[pixels.pixel] > SURE_MATTE
        belief = made.confidence.reshape(-1)[pixels.pixel] * opaque_enough * ~held_out[row, column]
        pixels.color_weight = (options.generator_weight * belief).astype(np.float32)
        pixels = pixels.select(pixels.color_weight > 0.02 * options.generator_weight)
        joined = pixels if joined is None else joined.joined(pixels)
    return joined if joined is not None and len(joined.pixel) else None


@dataclass
class _Teacher:
    """Surface points with what the view should change there.

    canonical: (N, 3). d, target: (N, S, D, 3), S sets of D directions; target is linear light without its mean over them.
    slope: (N, 3). level: (N,) −1 on skin. facing: (N,) cosine between the normal and the direction to the photo's camera.
    seen: (N,) _seen_hair of it. bare: (N,) bool, hair's texture is empty there.
    """

    canonical: np.ndarray
    d: np.ndarray
    target: np.ndarray
    slope: np.ndarray
    level: np.ndarray
    facing: np.ndarray
    seen: np.ndarray
    bare: np.ndarray


def _directions(normals: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """World directions and local d, each (N, S, D, 3)."""
    sets = [around_normals(normals, view_sphere(DIRECTIONS, rng)) for _ in range(DIRECTION_SETS)]
    toward = np.stack(sets, axis=1)
    flat = toward.reshape(-1, 3)
    repeated = np.broadcast_to(normals[:, None, None], toward.shape).reshape(-1, 3)
    # Seen from a point at `flat`, a surface at the origin shows itself along `flat`.
    return toward, view_directions(np.zeros_like(flat), repeated, flat).reshape(toward.shape)


def _skin_teacher(scene: Scene, key: KeyLight, camera: Camera, rng: np.random.Generator) -> _Teacher | None:
    avatar = scene.avatar
    weight = avatar.field_weight[avatar.faces].mean(1) * (avatar.part == PART_SKIN)
    if not (weight > 0).any():
        return None
    face, barycentric = random_points(avatar.vertices, avatar.faces, weight, SKIN_POINTS, rng)
    mix = _mixer(avatar.faces[face], barycentric)
    normals = unit(mix(scene.normals))
    toward, d = _directions(normals, rng)
    repeated = np.broadcast_to(normals[:, None, None], toward.shape)
    color = sample_texture(srgb_to_linear(avatar.base_color), mix(avatar.uv)) * mix(scene.shade)
    target = skin_highlight(key, repeated, toward)
    facing = _facing(mix(scene.vertices), normals, camera)
    return _centred(mix(avatar.vertices), d, target, color, -1, facing, np.ones(len(face)))


def _hair_teacher(scene: Scene, key: KeyLight, camera: Camera, rng: np.random.Generator) -> list[_Teacher]:
    hair = scene.hair
    if hair is None or not len(hair.shells.faces):
        return []
    shells = hair.shells
    strands = hair_strands(shells) @ hair.rotation.T
    centers = shells.uv[shells.faces].mean(1)
    opacity = [sample_texture(level[..., None] / np.float32(255), centers)[:, 0] for level in shells.opacity]
    shares = np.array([values.mean() for values in opacity]) + 1e-6
    counts = np.ceil(HAIR_POINTS * shares / shares.sum()).astype(int)
    teachers = []
    for level, count in enumerate(counts):
        face, barycentric = random_points(hair.canonical(level), shells.faces, opacity[level] + BARE_POINT_SHARE, count, rng)
        mix = _mixer(shells.faces[face], barycentric)
        normals, strand = unit(mix(hair.normals)), unit(mix(strands.astype(np.float32)))
        albedo = sample_texture(srgb_to_linear(shells.color), mix(shells.uv))
        toward, d = _directions(normals, rng)
        repeated, along, tint = (np.broadcast_to(a[:, None, None], toward.shape) for a in (normals, strand, albedo))
        # What lies deeper in the hair gets less of the lamp too.
        target = hair_highlight(key, repeated, along, tint, toward) * shells.occlusion[level]
        color = albedo * shells.occlusion[level] * mix(hair.shade)
        facing = _facing(mix(hair.vertices(level)), normals, camera)
        opacity_there = sample_texture(shells.opacity[level][..., None] / np.float32(255), mix(shells.uv))[:, 0]
        teachers.append(_centred(mix(hair.canonical(level)), d, target, color, level, facing, opacity_there))
    return teachers


def _mixer(corners: np.ndarray, barycentric: np.ndarray):  # type: ignore[no-untyped-def]
    """A function that interpolates vertex attributes (V, k) at points given as vertex triples and barycentrics."""
    return lambda attribute: (attribute[corners] * barycentric[..., None]).sum(1).astype(np.float32)


def _facing(positions: np.ndarray, normals: np.ndarray, camera: Camera) -> np.ndarray:
    return (normals * unit(camera.center.astype(np.float32) - positions)).sum(-1)


def _centred(
    canonical: np.ndarray,
    d: np.ndarray,
    target: np.ndarray,
    color: np.ndarray,
    level: int,
    facing: np.ndarray,
    opacity: np.ndarray,
) -> _Teacher:
    """A teacher of `target` (N, S, D, 3) less its mean over all directions; `color` (N, 3) sets what is visible."""
    view_part = target - target.mean((1, 2), keepdims=True)
    levels = np.full(len(canonical), level, np.int8)
    facing = facing.astype(np.float32)
    slope = encoding_slope(color)
    return _Teacher(
        canonical, d, view_part.astype(np.float32), slope, levels, facing, _seen_hair(facing), opacity < MIN_COVERAGE
    )


def _all_teachers(teachers: list[_Teacher]) -> _Teacher:
    names = _Teacher.__dataclass_fields__
    return _Teacher(**{name: np.concatenate([getattr(teacher, name) for teacher in teachers]) for name in names})


@dataclass
class _Pool:
    """Pixels to draw batches from, in rows: what a batch needs of a fragment or a pixel lies together in memory.

    slots: (P, 1 + R) i64, the opaque fragment and the layers over it from inside out, −1 where there is none.
    fragments: (N, 12) f32 and pixels: (P, 9) f32, in the columns named below.
    """

    slots: torch.Tensor
    fragments: torch.Tensor
    pixels: torch.Tensor


_CANONICAL, _DIRECTION, _COLOR, _WEIGHT, _ALPHA, _SEEN = slice(0, 3), slice(3, 6), slice(6, 9), 9, 10, 11
_TARGET, _SLOPE, _COLOR_WEIGHT, _COVERAGE, _COVERAGE_WEIGHT = slice(0, 3), slice(3, 6), 6, 7, 8


def _pool(pixels: _Pixels) -> _Pool:
    p = pixels
    fragments = [p.canonical, p.d, p.color, p.weight[:, None], p.alpha[:, None], p.seen[:, None]]
    rows = [p.target, p.slope, p.color_weight[:, None], p.coverage[:, None], p.coverage_weight[:, None]]
    return _Pool(
        slots=torch.from_numpy(np.concatenate([p.opaque[:, None], p.layers], axis=1)),
        fragments=torch.from_numpy(np.concatenate(fragments, axis=1).astype(np.float32)),
        pixels=torch.from_numpy(np.concatenate(rows, axis=1).astype(np.float32)),
    )


@dataclass
class _Draw:
    """A batch of a pool: `chosen` (B,) pixels, their `slots` (B, 1 + R), the `place` (F,) of the used ones in the flat slots,
    their fragments `index` (F,), directions `d` (F, 3), `belief` (B,) that the pixel looks so, projected `motion` (1, M).
    """

    chosen: torch.Tensor
    slots: torch.Tensor
    place: torch.Tensor
    index: torch.Tensor
    d: torch.Tensor
    belief: torch.Tensor
    motion: torch.Tensor


class _Trainer:
    """The field under training with its data as tensors."""

    def __init__(
        self,
        field: NeuralField,
        pools: list[tuple[_Pixels, int, float]],
        teacher: _Teacher,
        motion: MotionCode,
        options: TrainOptions,
    ) -> None:
        self.field, self.options = field, options
        self.rng = np.random.default_rng(options.seed + 1)
        self.pools = [(_pool(pixels), batch, share) for pixels, batch, share in pools if len(pixels.pixel)]
        self.directions = torch.from_numpy(cosine_directions(RANDOM_DIRECTIONS))
        self.teacher = _tensors(teacher)
        self.photo_motion = torch.tensor(motion.weights, dtype=torch.float32)[None] @ field.motion_projection

    def loss(self) -> torch.Tensor:
        """The objective on one random batch; the field sees all of its points in one call."""
        draws = [self._draw_pixels(pool, batch) for pool, batch, _ in self.pools]
        chosen, pick, motion = self._draw_points()
        d = self.teacher["d"][chosen, pick].reshape(-1, 3)
        canonical = [pool.fragments[draw.index, _CANONICAL] for (pool, _, _), draw in zip(self.pools, draws, strict=True)]
        *encoded, points = self.field.encode(torch.cat([*canonical, self.teacher["canonical"][chosen]])).split(
            [*map(len, canonical), len(chosen)]
        )
        motions = [draw.motion.expand(len(draw.index), -1) for draw in draws]
        residual, change = self.field.head(
            torch.cat([*encoded, points.repeat_interleave(DIRECTIONS, 0)]),
            torch.cat([*(draw.d for draw in draws), d]),
            torch.cat([*motions, motion.expand(len(d), -1)]),
        )
        sizes = [*map(len, canonical), len(d)]
        terms = []
        answers = list(zip(residual.split(sizes), change.split(sizes), strict=True))
        for (pool, _, share), draw, answer in zip(self.pools, draws, answers, strict=False):
            terms.append(self._picture_loss(pool, draw, share, *answer))
        residual, change = answers[-1]
        terms.append(self._teacher_loss(chosen, pick, residual.reshape(-1, DIRECTIONS, 3), change.reshape(-1, DIRECTIONS)))
        return torch.stack(terms).sum()

    def _draw_pixels(self, pool: _Pool, batch: int) -> _Draw:
        """`batch` random pixels of a pool, with the directions and the expression they are taught for."""
        options = self.options
        chosen = torch.from_numpy(self.rng.integers(0, len(pool.slots), batch))
        slots = pool.slots[chosen]
        place = torch.nonzero(slots.reshape(-1) >= 0)[:, 0]
        index = slots.reshape(-1)[place]
        if self.rng.random() < options.any_view_share:
            belief = pool.fragments[slots.max(1).values, _SEEN]
            d = self.directions[torch.from_numpy(self.rng.integers(0, RANDOM_DIRECTIONS, len(index)))]
        else:
            belief, d = torch.ones(()), pool.fragments[index, _DIRECTION]
        motion = self._random_motion() if self.rng.random() < options.any_expression_share else self.photo_motion
        return _Draw(chosen, slots, place, index, d, belief, motion)

    def _picture_loss(
        self, pool: _Pool, draw: _Draw, share: float, residual: torch.Tensor, change: torch.Tensor
    ) -> torch.Tensor:
        """The picture's misses of colour (times `share`) and of the hair's opacity on the drawn pixels."""
        options = self.options
        fragments, pixels = pool.fragments[draw.index], pool.pixels[draw.chosen]
        color = (fragments[:, _COLOR] + fragments[:, _WEIGHT, None] * residual).clamp(min=0)
        alpha = (fragments[:, _ALPHA] + change).clamp(0, 1)
        drawn = torch.cat([color, alpha[:, None], change[:, None]], dim=1)
        count, width = draw.slots.shape
        drawn = torch.zeros(count * width, 5).index_copy(0, draw.place, drawn).reshape(count, width, 5)
        opacity = drawn[..., 3].unbind(1)
        through, shares, hidden = torch.ones(count), [], []
        for layer in range(width - 1, 0, -1):
            hidden.append(1 - through.detach())
            shares.append(through * opacity[layer])
            through = through - shares[-1]
        picture = drawn[:, 0, :3] * through[:, None]
        if shares:
            picture = picture + (torch.stack(shares[::-1], dim=1)[..., None] * drawn[:, 1:, :3]).sum(1)
        covered = (1 - through * (draw.slots[:, 0] < 0)).detach()[:, None]
        error = (picture - covered * pixels[:, _TARGET]) * pixels[:, _SLOPE]
        total = share * options.photo_weight * (error.square().mean(1) * draw.belief * pixels[:, _COLOR_WEIGHT]).mean()
        if hidden:
            miss = (1 - through - pixels[:, _COVERAGE]).square() * pixels[:, _COVERAGE_WEIGHT]
            weight = options.opacity_weight + options.hidden_opacity_weight * torch.stack(hidden[::-1], dim=1)
            total = total + options.coverage_weight * miss.mean() + (weight * drawn[:, 1:, 4].square()).sum(1).mean()
        return total

    def _draw_points(self) -> tuple[torch.Tensor, int, torch.Tensor]:
        """Random teacher points (B,), their set of directions and the expression (1, M) they are seen at."""
        chosen = torch.from_numpy(self.rng.integers(0, len(self.teacher["level"]), BATCH_POINTS))
        return chosen, int(self.rng.integers(DIRECTION_SETS)), self._random_motion()

    def _teacher_loss(self, chosen: torch.Tensor, pick: int, residual: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Misses of the reflectance model and of what must stay, for the field's answers (B, D, 3) and (B, D)."""
        options, teacher = self.options, self.teacher
        target = teacher["target"][chosen, pick]
        limit = TEACHER_SHARE_OF_BOUND * self.field.color_bound
        target = (target - target.mean(1, keepdim=True)).clamp(-limit, limit)
        mean = residual.mean(1, keepdim=True)
        slope, level, facing = teacher["slope"][chosen][:, None], teacher["level"][chosen], teacher["facing"][chosen]
        skin = level < 0
        hair_weight = options.hair_mean_weight + options.unseen_mean_weight * (1 - teacher["seen"][chosen])
        mean_weight = torch.where(skin, options.skin_mean_weight, hair_weight)[:, None, None]
        hidden = (level == 0) | (facing < BEHIND_COSINE) | teacher["bare"][chosen]
        opacity_weight = torch.where(hidden, options.hidden_opacity_weight, options.opacity_weight) * ~skin
        return (
            options.teacher_weight * ((residual - mean - target) * slope).square().mean()
            + (mean_weight * (mean * slope).square()).mean()
            + (opacity_weight[:, None] * change.square()).mean()
        )

    def teacher_residual(self, chosen: torch.Tensor, pick: int, motion: torch.Tensor) -> torch.Tensor:
        """Residual (B, D, 3) at teacher points `chosen` (B,) in their set `pick` of directions."""
        features = self.field.encode(self.teacher["canonical"][chosen]).repeat_interleave(DIRECTIONS, 0)
        residual, _ = self.field.head(features, self.teacher["d"][chosen, pick].reshape(-1, 3), motion)
        return residual.reshape(-1, DIRECTIONS, 3)

    def _random_motion(self) -> torch.Tensor:
        """Projected motion (1, M): as often the neutral expression as a random one."""
        weights = np.zeros(52, np.float32)
        if self.rng.random() < 0.5:
            weights = (self.rng.random(52) * (self.rng.random(52) < 0.25)).astype(np.float32)
        return torch.from_numpy(weights)[None] @ self.field.motion_projection

    def run(self, progress: ProgressCallback) -> tuple[int, float, float, float]:
        """Train; returns (iterations, seconds, first loss, last loss), the losses as means over a twentieth of the run."""
        options = self.options
        groups = [
            (self.field.grid_parameters(), TABLE_RATE, options.table_decay),
            (self.field.mlp_parameters(), MLP_RATE, 0.0),
        ]
        optimizer = Adam(groups, ADAM_BETAS, ADAM_EPSILON)
        started, losses, planned = time.perf_counter(), [], options.iterations
        warm = started
        for iteration in range(options.iterations):
            now = time.perf_counter()
            if iteration == WARM_UP_STEPS:
                warm = now  # the steps before it compile kernels
            if iteration == PACE_STEPS:
                pace = (now - warm) / (PACE_STEPS - WARM_UP_STEPS)
                planned = min(planned, iteration + max(int((options.seconds_budget - (now - started)) / pace), 0))
            if iteration >= planned or now - started > options.seconds_budget:
                break
            # A run that fits its budget depends on the iteration alone, so that it repeats exactly; one that does not is
            # shortened early, so that its step sizes still fall to the end.
            factor = FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * 0.5 * (1 + np.cos(np.pi * iteration / planned))
            optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            optimizer.step(factor)
            losses.append(float(loss.detach()))
            if iteration % 20 == 0:
                progress(iteration / planned, "training the field")
        window = max(len(losses) // 20, 1)
        seconds = time.perf_counter() - started
        return len(losses), seconds, float(np.mean(losses[:window])), float(np.mean(losses[-window:]))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """torch and numba on `count` threads (as many as there are, at most), as before afterwards."""
    import numba

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(count)
    numba.set_num_threads(min(count, before[1]))
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


def _tensors(data: _Teacher) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(getattr(data, name))) for name in data.__dataclass_fields__}


def _psnr(first: np.ndarray, second: np.ndarray) -> float | None:
    """PSNR in dB of values in [0, 1]; None when there are none."""
    if not len(first):
        return None
    return float(-10 * np.log10(max(float(np.mean(np.square(first - second))), 1e-12)))


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


def _photo_figures(
    view: _View, rgba_on: np.ndarray, evidence: PhotoEvidence, pixels: _Pixels, held_out: np.ndarray
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


def _teacher_figures(trainer: _Trainer, count: int) -> dict[str, float]:
    """The report's figures at the trainer's teacher points, off (no residual) and on, neutral expression."""
    neutral = torch.zeros(1, trainer.field.motion_projection.shape[1])
    chosen = torch.arange(count)
    sets = [trainer.teacher_residual(chosen, pick, neutral) for pick in range(DIRECTION_SETS)]
    residual = torch.cat(sets, dim=1)
    slope = trainer.teacher["slope"][:, None]
    target = trainer.teacher["target"].reshape(count, -1, 3)
    mean = residual.mean(1, keepdim=True)
    skin = trainer.teacher["level"] < 0

    def rms(value: torch.Tensor) -> float:
        return float(255 * (value * slope).square().mean().sqrt())

    skin_mean, skin_view = (mean * slope)[skin], ((residual - mean) * slope)[skin]
    return {
        "teacher_rmse_255_off": rms(target),
        "teacher_rmse_255_on": rms(residual - mean - target),
        "skin_mean_255": float(255 * skin_mean.square().mean().sqrt()) if len(skin_mean) else 0.0,
        "skin_view_255": float(255 * skin_view.square().mean().sqrt()) if len(skin_view) else 0.0,
    }


def _generator_figures(field: NeuralField, pixels: _Pixels | None, motion: MotionCode) -> dict[str, float | None]:
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


def train(
    avatar: Avatar,
    evidence: PhotoEvidence,
    generator: Generator | None = None,
    options: TrainOptions | None = None,
    config: FieldConfig | None = None,
    progress: ProgressCallback = silent,
) -> tuple[FieldParams, TrainReport]:
    """Train a field for `avatar` (its present field is ignored) and say what it changed, measured off and on.

    generator: proposes other views; None trains from the photo and the reflectance model alone. Reproducible for equal
    inputs, options and thread counts while the run stays inside its time budget. Raises InputError when the avatar has
    nothing the field may act on or is not in the picture, and on a back end that does not train.
    """
    options = options or TrainOptions()
    with _threads(options.threads):
        return _train(avatar, evidence, generator, options, config, progress)


def _train(
    avatar: Avatar,
    evidence: PhotoEvidence,
    generator: Generator | None,
    options: TrainOptions,
    config: FieldConfig | None,
    progress: ProgressCallback,
) -> tuple[FieldParams, TrainReport]:
    if options.implementation not in ("numba", "torch"):
        raise InputError(f"the field trains with numba or torch on the CPU; {options.implementation!r} is not one of them")
    avatar = replace(avatar, neural_field=None, baked=None)
    rng = np.random.default_rng(options.seed)
    progress(0.0, "preparing the field")
    field = NeuralField(new_field(options.seed, config, *box_of(avatar)), options.implementation)
    scene = build_scene(avatar, evidence.motion)
    textures = textures_of(scene)
    view = _view(scene, textures, evidence.camera)
    held_out = held_out_pixels(evidence.camera.height, evidence.camera.width, options.seed)
    photo = _photo_pixels(avatar, view, evidence, options)
    if not len(photo.pixel):
        raise InputError("the avatar is not in the photo's picture; its fitted camera does not belong to this photo")
    pixels = photo.select(~held_out.reshape(-1)[photo.pixel] & (photo.color_weight + photo.coverage_weight > 0))
    made = None
    if generator is not None:
        made = _generator_pixels(scene, textures, evidence, generator, held_out, options)
        pixels = pixels if made is None else pixels.joined(made)
    # Pixels where the field may not act teach it nothing.
    acting = np.where(pixels.opaque >= 0, pixels.weight[np.maximum(pixels.opaque, 0)], 0) > 0
    layered = pixels.layers[:, 0] >= 0
    layers_used = max(int((pixels.layers >= 0).any(0).sum()), 0)
    skin_pool = pixels.select(acting & ~layered)
    skin_pool.layers = skin_pool.layers[:, :0]
    hair_pool = pixels.select(layered)
    hair_pool.layers = hair_pool.layers[:, :layers_used]
    neutral = build_scene(avatar, MotionCode())
    key = key_light(avatar.light)
    skin_teacher = _skin_teacher(neutral, key, evidence.camera, rng)
    teachers = ([] if skin_teacher is None else [skin_teacher]) + _hair_teacher(neutral, key, evidence.camera, rng)
    if not teachers:
        raise InputError("the avatar has no skin the field may act on and no hair; there is nothing to train")
    teacher = _all_teachers(teachers)
    held_points = rng.random(len(teacher.level)) < TEACHER_HELD_OUT_SHARE
    names = _Teacher.__dataclass_fields__
    kept, held_teacher = (
        _Teacher(**{name: getattr(teacher, name)[mask] for name in names}) for mask in (~held_points, held_points)
    )
    pools = [(skin_pool, BATCH_SKIN_PIXELS, options.skin_share), (hair_pool, BATCH_HAIR_PIXELS, 1.0)]
    trainer = _Trainer(field, pools, kept, evidence.motion, options)
    iterations, seconds, loss_first, loss_last = trainer.run(progress)
    with torch.no_grad():
        residual = live_residual(field, evidence.motion.weights)
        shaded = [shade_fragments(layer, textures, residual) for layer in view.drawn]
        rgba_on = composite(view.drawn, shaded, evidence.matte.size).rgba.numpy()
        examiner = _Trainer(field, [], held_teacher, evidence.motion, options)
        figures = {
            **_photo_figures(view, rgba_on, evidence, photo, held_out),
            **_teacher_figures(examiner, len(held_teacher.level)),
            **_generator_figures(field, made, evidence.motion),
        }
    progress(1.0, "training the field")
    report = TrainReport(
        iterations=iterations,
        seconds=seconds,
        seconds_per_iteration=seconds / max(iterations, 1),
        implementation=options.implementation,
        seed=options.seed,
        loss_first=loss_first,
        loss_last=loss_last,
        **figures,  # type: ignore[arg-type]
    )
    return field.to_params(), report
