"""The pixels that the field learns from: the photo's own, and those of a generator's views, as the compositor sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.color import srgb_to_linear
from avatar3d.enrolment.field.options import TrainOptions
from avatar3d.field.shells import sample_texture
from avatar3d.generator.protocol import Generator, PhotoEvidence, asked, drawn_request
from avatar3d.geometry import smoothstep
from avatar3d.rendering.frame import SURFACE_HAIR
from avatar3d.rendering.reference.composite import Composite, composite
from avatar3d.rendering.reference.fragments import Fragments, fragments
from avatar3d.rendering.reference.raster import draw_ranks
from avatar3d.rendering.reference.shading import Textures, shade_fragments
from avatar3d.rendering.scene import HAIR_CUT, Scene

HELD_OUT_BLOCK_PX = 8  # blocks, not pixels: the neighbours of a held-out pixel would give it away
HELD_OUT_SHARE = 0.2
GENERATOR_YAWS_DEG = (-35.0, -20.0, -10.0, 10.0, 20.0, 35.0)
GENERATOR_SIZE_PX = 256  # the longer side of a generator view: texels of a millimetre
SURE_MATTE = 0.95  # above this a pixel holds no backdrop, so its colour is the person's
MAX_LAYERS = 8  # blended hair fragments of one pixel that are trained; more are behind what is opaque already
# Hair that faces the photo's camera by more than the second cosine is painted by the photo for every view, by less than the
# first only for views as flat as the photo's.
UNSEEN_COSINE, SEEN_COSINE = 0.3, 0.75
MIN_COVERAGE = 0.05  # hair's opacity is corrected, not created: new shreds would float when the head turns
MAX_ENCODING_SLOPE = 4.0  # of sRGB over linear light: blacks would outvote everything


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
class View:
    """One camera's fragments, shaded without the field, and their mesh-form picture."""

    drawn: list[Fragments]
    shaded: list[tuple[torch.Tensor, torch.Tensor]]
    picture: Composite

    @property
    def rgba(self) -> np.ndarray:
        """(H · W, 4) f32, linear, premultiplied."""
        return self.picture.rgba.numpy()


def drawn_view(scene: Scene, textures: Textures, camera: Camera) -> View:
    with torch.no_grad():
        drawn = fragments(scene, camera)
        shaded = [shade_fragments(layer, textures) for layer in drawn]
        return View(drawn, shaded, composite(drawn, shaded, camera.width * camera.height))


@dataclass
class Pixels:
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

    def select(self, chosen: np.ndarray) -> Pixels:
        """The same fragments, fewer pixels."""
        names = ("opaque", "layers", "pixel", "target", "slope", "color_weight", "coverage", "coverage_weight")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def joined(self, other: Pixels) -> Pixels:
        """Both sets of pixels over both sets of fragments."""
        shift = len(self.alpha)

        def moved(index: np.ndarray) -> np.ndarray:
            return np.where(index >= 0, index + shift, -1)

        merged = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__dataclass_fields__}
        merged["opaque"] = np.concatenate([self.opaque, moved(other.opaque)])
        merged["layers"] = np.concatenate([self.layers, moved(other.layers)])
        return Pixels(**merged)


def seen_hair(cosine: np.ndarray) -> np.ndarray:
    """Belief in [0, 1] that hair seen at this cosine looks so from anywhere: 0 below UNSEEN_COSINE, 1 from SEEN_COSINE."""
    return smoothstep(UNSEEN_COSINE, SEEN_COSINE, cosine).astype(np.float32)


def _seen(avatar: Avatar, layer: Fragments) -> np.ndarray:
    if layer.surface == SURFACE_HAIR:
        return seen_hair(layer.d[:, 2])
    return sample_texture(avatar.confidence[..., None] / np.float32(255), layer.uv)[:, 0]


def pixels_of(avatar: Avatar, view: View, count: int) -> Pixels:
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
    return Pixels(
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


def photo_pixels(avatar: Avatar, view: View, evidence: PhotoEvidence, options: TrainOptions) -> Pixels:
    """The photo's own pixels with their colours, and the hair's opacity from the matte (rim) and the hair mask (hairline)."""
    pixels = pixels_of(avatar, view, evidence.matte.size)
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


def generator_pixels(
    scene: Scene,
    textures: Textures,
    evidence: PhotoEvidence,
    generator: Generator,
    held_out: np.ndarray,
    options: TrainOptions,
) -> Pixels | None:
    """Pixels of the generator's views at the photo's motion with their confidence.

    Points that the photo shows in a held-out block are left out, else a generator that carries the photo would leak them.
    """
    joined: Pixels | None = None
    avatar = scene.avatar
    center = scene.vertices[avatar.head_weight > 0.99].mean(0) if (avatar.head_weight > 0.99).any() else scene.vertices.mean(0)
    for yaw_deg in GENERATOR_YAWS_DEG:
        camera = _turned(evidence.camera, np.radians(yaw_deg), center, GENERATOR_SIZE_PX)
        view = drawn_view(scene, textures, camera)
        alphas = [alpha.numpy() for _, alpha in view.shaded]
        made = asked(generator, drawn_request(avatar, evidence.motion, camera, view.drawn, alphas, view.picture))
        pixels = pixels_of(avatar, view, camera.width * camera.height)
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
