"""Hair made to agree with its photo: colours and opacities of the shells solved directly for the one view there is.

With the opacities given, what the photo's camera sees is linear in the colour texture; with one camera, the light that the
layers let through is linear in their optical depths. Both are sparse least squares; nothing here needs a gradient tape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
import scipy.sparse as sp

from avatar3d.avatar import Avatar, HairShells
from avatar3d.color import LUMA_BT709, linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.enrolment.hair.grid import Harmonic, blur, enlarge
from avatar3d.enrolment.hair.growth import HairGrowth, dress
from avatar3d.enrolment.hair.texture import hold_hue
from avatar3d.generator.protocol import PhotoEvidence
from avatar3d.geometry import smoothstep
from avatar3d.rendering.frame import SURFACE_HAIR, RenderOptions
from avatar3d.rendering.reference.fragments import Fragments, fragments
from avatar3d.rendering.reference.raster import draw_ranks
from avatar3d.rendering.reference.renderer import ReferenceRenderer
from avatar3d.rendering.scene import BACK_FACE_SHADE, HAIR_CUT, build_scene

OPACITY_ROUNDS, COLOR_ROUNDS = 8, 16  # more change the photo's pixels by under one grey level
SURE_HAIR = (0.80, 0.98)  # hair and person matte between which a pixel's colour begins to count as hair's
# Against a pixel's weight of 1: how strongly a texel keeps its colour, and the change of its neighbours.
KEEP, SMOOTH = 0.004, 0.03
MAX_DEPTH_CHANGE = 6.0  # factor on the optical depth of a texel in one refinement, so that strands stay
MAX_ALPHA = 0.985  # of a blended level
FAINT = 0.004  # opacity (1/255) under which a layer is left out
OPAQUE_DEPTH = 5.5  # optical depth that counts as opaque
TONE_ROWS, TONE_COLUMNS = 72, 128  # grid on which the change of tone is carried on
TONE_SCREEN = 0.001  # of that grid's harmonic fill: fades over some 30 cells, half way around the head
TONE_OFFSET, MAX_TONE_CHANGE = 0.02, 0.8
# A gap in the hair that its own shade blackens is one view's: turned to the light it is a hole. From the first on under the tone
# around them pits are flattened, so that they end at the second: dark enough for a parting, which is as dark in any view.
PIT_TONE, MAX_PIT_TONE, PIT_REACH = 0.8, 1.3, 0.07  # reach: of the texture's height
# To the photo's camera, between which a colour seen in the photo begins to be believed; the same of its difference from strands
# grown over what is seen edge-on, and from those with a field over them.
SEEN_COSINE, DRESSED_COSINE, SETTLED_COSINE = (0.14, 0.32), (0.18, 0.58), (0.48, 0.72)


def refine_hair(avatar: Avatar, evidence: PhotoEvidence, growth: HairGrowth | None = None) -> Avatar:
    """The avatar whose hair, drawn at the photo's camera, comes closest to the photo inside the hair and to the matte at its rim.

    Only texels that the photo's camera sees change, and what borders on them; with its growth, the locks that were made take
    their strands from these. An avatar without hair is returned as it is.
    """
    if avatar.hair is None or evidence.hair_alpha is None:
        return avatar
    seen, photo = _visible(avatar, evidence), _in_hair_hue(evidence)
    shells = _refined_opacity(avatar.hair, evidence, seen)
    color = _refined_color(shells, evidence, seen, photo)
    if growth is not None:
        color = to_u8(linear_to_srgb(dress(srgb_to_linear(color), growth)))
        # What was grown over the hair seen at a slant takes on the photo's colours pixel by pixel, and keeps what is finer.
        color = _refined_color(replace(shells, color=color), evidence, seen, photo, DRESSED_COSINE)
    return replace(avatar, hair=replace(shells, color=color))


def settle_hair(avatar: Avatar, evidence: PhotoEvidence) -> Avatar:
    """The avatar whose hair colours give up what its field adds at the photo's own view, as enroll.settle does for the skin.

    What the field adds, in colour and in opacity, is the difference of two drawings; without a field nothing changes.
    """
    if avatar.hair is None or evidence.hair_alpha is None or avatar.neural_field is None:
        return avatar
    renderer = ReferenceRenderer()
    live, mesh = (
        renderer.render(avatar, evidence.motion, [evidence.camera], RenderOptions(form=form))[0].rgba[..., :3]
        for form in ("live", "mesh")
    )
    seen = _visible(avatar, evidence)
    photo = smoothstep(*SETTLED_COSINE, _facing(seen, evidence)).reshape(*evidence.matte.shape, 1)
    wanted = np.clip(mesh + photo * (_in_hair_hue(evidence) - mesh) - (live - mesh), 0, 1)
    return replace(avatar, hair=replace(avatar.hair, color=_refined_color(avatar.hair, evidence, seen, wanted)))


@dataclass(frozen=True)
class _Visible:
    """Hair fragments that the photo's camera sees, N of them, in drawing order; `order` counts them within a pixel.

    level, pixel, order: (N,). uv: (N, 2). shade: (N, 3) light times what the level's place takes from it. facing: (N,).
    opaque: (H · W,) bool, the opaque base covers the pixel. skin: (H · W,) bool, skin lies behind.
    """

    level: np.ndarray
    pixel: np.ndarray
    order: np.ndarray
    uv: np.ndarray
    shade: np.ndarray
    facing: np.ndarray
    opaque: np.ndarray
    skin: np.ndarray


def _visible(avatar: Avatar, evidence: PhotoEvidence) -> _Visible:
    hair = avatar.hair
    assert hair is not None
    drawn = fragments(build_scene(avatar, evidence.motion), evidence.camera)
    count = evidence.matte.size
    depth = np.full(count, np.inf, np.float32)
    opaque, skin = np.zeros(count, bool), np.zeros(count, bool)
    parts: list[tuple[Fragments, np.ndarray]] = []
    for layer in drawn:
        nearer = layer.depth < depth[layer.pixel]
        if layer.surface != SURFACE_HAIR:
            skin[layer.pixel[nearer]] = True
        elif layer.level == 0:
            alpha = _bilinear(hair.opacity.shape[1:], layer.uv) @ (hair.opacity[0].ravel() / np.float32(255))
            nearer &= alpha >= HAIR_CUT
            opaque[layer.pixel[nearer]] = True
        chosen = np.flatnonzero(nearer)
        if layer.level <= 0:
            chosen = chosen[np.lexsort((-layer.depth[chosen], layer.pixel[chosen]))]
            depth[layer.pixel[chosen]] = layer.depth[chosen]  # the nearest is written last
            chosen = chosen[np.r_[layer.pixel[chosen][1:] != layer.pixel[chosen][:-1], True]] if len(chosen) else chosen
        if layer.surface == SURFACE_HAIR:
            parts.append((layer, chosen))

    def gather(name: str) -> np.ndarray:
        return np.concatenate([getattr(layer, name)[chosen] for layer, chosen in parts])

    level = np.concatenate([np.full(len(chosen), layer.level, np.int64) for layer, chosen in parts])
    side = np.where(gather("front"), 1.0, BACK_FACE_SHADE) * hair.occlusion[level]
    pixel = gather("pixel")
    return _Visible(level, pixel, draw_ranks(pixel), gather("uv"), gather("shade") * side[:, None].astype(np.float32),
                    gather("d")[:, 2], opaque, skin & ~opaque)  # fmt: skip


def _facing(seen: _Visible, evidence: PhotoEvidence) -> np.ndarray:
    """(H · W,) largest cosine to the photo's camera of the hair in each pixel."""
    facing = np.zeros(evidence.matte.size, np.float32)
    np.maximum.at(facing, seen.pixel, seen.facing)
    return facing


def _bilinear(size: tuple[int, ...], uv: np.ndarray) -> sp.csr_matrix:
    """(N, rows · columns) matrix that samples a texture as the renderers do: what `sample_bilinear` computes, to be transposed."""
    rows, columns = size
    x = np.clip(uv[:, 0] * columns - 0.5, 0, columns - 1)
    y = np.clip(uv[:, 1] * rows - 0.5, 0, rows - 1)
    left, top = np.minimum(x.astype(np.int32), columns - 2), np.minimum(y.astype(np.int32), rows - 2)
    fx, fy = (x - left).astype(np.float32), (y - top).astype(np.float32)
    first = top * columns + left
    index = np.stack([first, first + 1, first + columns, first + columns + 1], 1)
    weight = np.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy], 1)
    start = np.arange(0, 4 * len(uv) + 1, 4, dtype=np.int32)
    return sp.csr_matrix((weight.ravel(), index.ravel(), start), (len(uv), rows * columns))


def _refined_opacity(hair: HairShells, evidence: PhotoEvidence, seen: _Visible) -> HairShells:
    """Multiply the optical depth of the blended levels until they hide what the masks say (a multiplicative update, as in
    emission tomography: what is zero stays zero, and strands keep their contrast).

    Wanted over backdrop: the matte; over skin: the hair mask; over the opaque base nothing is asked.
    """
    assert evidence.hair_alpha is not None
    matte = np.clip(evidence.matte, 0, 1).ravel()
    hairy = np.clip(evidence.hair_alpha, 0, 1).ravel()
    wanted = np.where(seen.skin, hairy, matte)
    blended = (seen.level >= 1) & ~seen.opaque[seen.pixel]
    level, pixel = seen.level[blended], seen.pixel[blended]
    if not len(level):
        return hair
    pixels, row = np.unique(pixel, return_inverse=True)
    size = hair.opacity.shape[1:]
    sample = _bilinear(size, seen.uv[blended])
    used, column = np.unique(sample.indices + level.repeat(4) * (size[0] * size[1]), return_inverse=True)
    # Optical depth is not exactly what the renderer interpolates, but in a linear range of opacity it is close.
    matrix = sp.csr_matrix((sample.data, (row.repeat(4), column)), (len(pixels), len(used)))
    target = -np.log1p(-np.minimum(wanted[pixels], 0.99))
    alpha = hair.opacity.reshape(-1)[used] / np.float32(255)
    depth = start = -np.log1p(-np.minimum(alpha, MAX_ALPHA))
    total = np.maximum(np.asarray(matrix.sum(0)).ravel(), 1e-6)
    for _ in range(OPACITY_ROUNDS):
        ratio = (target + 0.02) / (np.minimum(matrix @ depth, OPAQUE_DEPTH) + 0.02)
        ratio = np.where((target > 4.0) & (ratio < 1), 1.0, ratio)  # opaque enough
        change = (matrix.T @ np.log(ratio)) / total * np.minimum(total, 1.0)
        depth = np.clip(depth * np.exp(change), start / MAX_DEPTH_CHANGE, start * MAX_DEPTH_CHANGE + 1e-9)
    opacity = hair.opacity.copy()
    opacity.reshape(-1)[used] = to_u8(np.minimum(1 - np.exp(-depth), MAX_ALPHA))
    return replace(hair, opacity=opacity)


def _refined_color(
    hair: HairShells, evidence: PhotoEvidence, seen: _Visible, linear: np.ndarray, cosine: tuple[float, float] | None = None
) -> np.ndarray:
    """(H, W, 3) u8 colour texture that shows the (h, w, 3) linear picture.

    Conjugate gradients on the change, smooth over neighbours and small where nothing asks for it.
    """
    assert evidence.hair_alpha is not None
    count, facing = evidence.matte.size, _facing(seen, evidence)
    size = hair.color.shape[:2]
    alpha = np.ones(len(seen.level), np.float32)
    for level in range(1, len(hair.levels)):
        here = seen.level == level
        alpha[here] = _bilinear(hair.opacity.shape[1:], seen.uv[here]) @ (hair.opacity[level].ravel() / np.float32(255))
    through = np.ones(count, np.float32)
    weight = np.empty_like(alpha)
    for rank in range(int(seen.order.max(initial=-1)), -1, -1):
        here = seen.order == rank
        weight[here] = through[seen.pixel[here]] * alpha[here]
        through[seen.pixel[here]] *= 1 - alpha[here]
    sure = np.minimum(np.clip(evidence.matte, 0, 1), np.clip(evidence.hair_alpha, 0, 1)).ravel()
    sure = smoothstep(*SURE_HAIR, sure).astype(np.float32) * (through < 0.1)
    sure = sure * smoothstep(*SEEN_COSINE, facing)
    kept = np.flatnonzero((weight > FAINT) & (sure[seen.pixel] > 0.01))
    if not len(kept):
        return hair.color
    pixels, row = np.unique(seen.pixel[kept], return_inverse=True)
    photo = linear.reshape(-1, 3)[pixels]
    # Light differs between channels by far less than it varies over the head: one matrix in luma, its tint in the target.
    shade = seen.shade[kept]
    grey = shade.mean(1)
    sample = _bilinear(size, seen.uv[kept])
    matrix = sp.csr_matrix((sample.data * (weight[kept] * grey).repeat(4), (row.repeat(4), sample.indices)),
                           (len(pixels), size[0] * size[1]))  # fmt: skip
    tint: np.ndarray = np.stack([np.bincount(row, weight[kept] * shade[:, c], len(pixels)) for c in range(3)], 1)
    tint /= np.maximum(np.bincount(row, weight[kept] * grey, len(pixels)), 1e-6)[:, None]
    covered = np.bincount(row, weight[kept], len(pixels))
    target = photo * covered[:, None] / np.maximum(tint, 0.1)
    # Errors count as they are seen, in encoded light: the slope of the sRGB curve, about lum^-0.55.
    slope = (photo.mean(1) + 0.01) ** -0.55
    slope /= np.average(slope)
    scale = (np.sqrt(sure[pixels]) * slope).astype(np.float32)
    matrix = sp.diags(scale) @ matrix
    touched = np.zeros(size, np.uint8)
    touched.reshape(-1)[sample.indices] = 1
    free = np.flatnonzero(cv2.dilate(touched, np.ones((9, 9), np.uint8)).ravel())
    matrix = matrix.tocsc()[:, free].tocsr()
    before = srgb_to_linear(hair.color).reshape(-1, 3)[free]
    laplacian = _laplacian(free, size)
    wanted = (scale[:, None] * target - matrix @ before).astype(np.float32)  # as the matrices: products of two kinds copy them
    if cosine is not None:
        wanted *= smoothstep(*cosine, facing[pixels])[:, None]
    transposed = matrix.T.tocsr()

    def apply(x: np.ndarray) -> np.ndarray:
        return transposed @ (matrix @ x) + SMOOTH * (laplacian @ x) + KEEP * x

    change = _conjugate_gradients(apply, transposed @ wanted, COLOR_ROUNDS)
    color = srgb_to_linear(hair.color).reshape(-1, 3)
    color[free] = np.clip(before + change, 0.0, 1.0)
    solved = np.zeros(size, np.float32)
    solved.reshape(-1)[free] = np.clip(np.asarray(matrix.sum(0)).ravel() / 0.3, 0, 1)
    color = _without_pits(_carried_on(srgb_to_linear(hair.color), color.reshape(*size, 3), solved))
    return to_u8(linear_to_srgb(color))


def _in_hair_hue(evidence: PhotoEvidence) -> np.ndarray:
    """(h, w, 3) linear photo with the tints of backdrop and sky taken out of the hair."""
    assert evidence.hair_alpha is not None
    sure = smoothstep(*SURE_HAIR, np.clip(np.minimum(evidence.matte, evidence.hair_alpha), 0, 1)).astype(np.float32)
    held, _ = hold_hue(np.log(srgb_to_linear(evidence.rgb) + TONE_OFFSET).astype(np.float32), sure)
    return np.maximum(np.exp(held) - TONE_OFFSET, 0)


def _carried_on(before: np.ndarray, after: np.ndarray, solved: np.ndarray) -> np.ndarray:
    """The solved colours (H, W, 3) with their change of tone carried on, fading, into the hair beside them that nothing showed."""

    def small(values: np.ndarray) -> np.ndarray:
        return cv2.resize(values, (TONE_COLUMNS, TONE_ROWS), interpolation=cv2.INTER_AREA)

    weight = small(solved)
    change = small((np.log(after + TONE_OFFSET) - np.log(before + TONE_OFFSET)) * solved[..., None])
    change = change / np.maximum(weight, 1e-3)[..., None]
    harmonic = Harmonic(TONE_ROWS, TONE_COLUMNS)
    usual = np.array([_weighted_median(change[..., c], weight) for c in range(3)])
    carried = np.stack([harmonic.fill(change[..., c], 4 * weight**2, TONE_SCREEN, float(usual[c])) for c in range(3)], -1)
    carried = enlarge(np.clip(carried, -MAX_TONE_CHANGE, MAX_TONE_CHANGE), *solved.shape) * (1 - solved[..., None])
    return np.clip((after + TONE_OFFSET) * np.exp(carried) - TONE_OFFSET, 0.0, 1.0)


def _weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(values, axis=None)
    total = np.cumsum(weight.ravel()[order])
    return float(values.ravel()[order[np.searchsorted(total, total[-1] / 2)]])


def _without_pits(color: np.ndarray) -> np.ndarray:
    """(H, W, 3) linear colours whose pits are lifted toward the tone around them, in the hue around them, not flattened."""
    luma = color @ LUMA_BT709.astype(np.float32)
    tone = np.log(luma + TONE_OFFSET)
    around = blur(color, PIT_REACH * len(tone))
    around_luma = around @ LUMA_BT709.astype(np.float32)
    depth = np.log(around_luma + TONE_OFFSET) - tone
    room = MAX_PIT_TONE - PIT_TONE
    excess = np.maximum(depth - PIT_TONE, 0)
    lift = excess - room * (1 - np.exp(-excess / room))
    added = (luma + TONE_OFFSET) * (np.exp(lift) - 1)
    return np.clip(color + (added / np.maximum(around_luma, 1e-4))[..., None] * around, 0, 1)


def _laplacian(free: np.ndarray, size: tuple[int, int]) -> sp.csr_matrix:
    """Graph Laplacian of the texels `free` (flat, rising), joined to their right and lower neighbours, around the seam too."""
    number = np.full(size, -1, np.int32)
    number.reshape(-1)[free] = np.arange(len(free), dtype=np.int32)
    right, below = np.roll(number, -1, 1), np.full(size, -1, np.int32)
    below[:-1] = number[1:]
    pairs = [(number[ok], other[ok]) for other in (right, below) for ok in [(number >= 0) & (other >= 0)]]
    a, b = (np.concatenate([pair[i] for pair in pairs]) for i in range(2))
    ones = np.ones(2 * len(a), np.float32)
    links = sp.csr_matrix((ones, (np.r_[a, b], np.r_[b, a])), (len(free), len(free)))
    return (sp.diags(np.asarray(links.sum(1)).ravel().astype(np.float32)) - links).tocsr()


def _conjugate_gradients(apply, right: np.ndarray, rounds: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Solution of apply(x) = right for (N, 3) right sides, each channel by itself.

    Not scipy's `cg`: that takes one right side, and here the three channels share each product with the matrices.
    """
    x = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    power = (residual**2).sum(0)
    for _ in range(rounds):
        applied = apply(direction)
        step = power / np.maximum((direction * applied).sum(0), 1e-12)
        x += step * direction
        residual -= step * applied
        fresh = (residual**2).sum(0)
        direction = residual + fresh / np.maximum(power, 1e-12) * direction
        power = fresh
    return x
