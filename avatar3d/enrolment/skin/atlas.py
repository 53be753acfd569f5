"""The base colour atlas of one head: the photo's albedo where it is seen, believable skin everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
import scipy.sparse as sp

from avatar3d.avatar import TextureDelta
from avatar3d.color import LUMA_BT709, linear_to_srgb, srgb_to_linear, to_u8
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.skin.evenness import side_contrast, side_light
from avatar3d.enrolment.skin.eyes import limbus_angles, measure_eyes, paint_eyes
from avatar3d.enrolment.skin.eyes_seen import show_eyes
from avatar3d.enrolment.skin.grain import CLEAR_SKIN, MOST, band_strengths, grain
from avatar3d.enrolment.skin.lids import LidSkin, lid_skin
from avatar3d.enrolment.skin.light import estimate_light, shading_power
from avatar3d.enrolment.skin.mouth_seen import mouth_layer, shade_mouth
from avatar3d.enrolment.skin.openness import openness
from avatar3d.enrolment.skin.parts import inner_mouth_color, light_tint, paint_parts
from avatar3d.enrolment.skin.projection import Covers, PhotoNodes, look_at_photo, sample
from avatar3d.enrolment.skin.surface import Atlas, NodeGraph, atlas, node_graph
from avatar3d.enrolment.skin.wrinkles import fold_mask, fold_row, folds, low_band
from avatar3d.field.shells import sample_texture
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.model import HeadModel
from avatar3d.motion.code import ARKIT_INDEX
from avatar3d.rendering.scene import light_direction, shade_of

GAMMA = 2.2  # colours are blended and filled in this encoding, near to how the eye spaces them; unlike sRGB it has no top
STIFFNESS = 1.0  # of the fill between nodes against one fully trusted photo node
PRIOR = 2.5e-3  # pull of the skin's own median against one fully trusted photo node: far from the photo it wins
MIRROR_TRUST = 0.5  # of the other side's colour: the face is symmetric, its light is not quite
PRIOR_PERCENTILE = 58.0  # of the core skin: a little above the middle, as shadows outnumber highlights
COARSE_SIZE = 512  # texels a side of layers and confidence: folds are millimetres wide
DELTA_BLUR_MM = 0.35
FOLD_BLUR_MM = 0.9
# Of the skin that unfolds as lids close, so much of the texture is lid skin already: viewers without texture deltas show it. The
# rest is the photo's, whose fold of the open lid is seen.
LID_BASE_SHARE = 0.85
TEXEL_HAIR_GAIN = 1.5
# Where the photo does not show it, skin in hollows is darker and redder: light that got in has passed through skin.
OPEN_FULL, OPEN_NONE = 0.75, 0.15
HOLLOW_TINT = np.array([0.34, 0.16, 0.14])
USUAL_LIPS = np.array([0.76, 0.52, 0.55])  # linear, over the skin's
LOG_FLOOR = 2e-3  # linear; below it a ratio says nothing
HUE_FLOOR = 0.04  # linear; the hue of what is darker, as lashes and kohl, is noise
SEED = 20261130


@dataclass(frozen=True)
class SkinResult:
    """base_color: (S, S, 3) u8 sRGB albedo, neutral. confidence: (s, s) u8, 255 where the photo shows the skin.

    texture_deltas: the folds of the photo's expression, and the clean lids of a blink. light: (9, 3) f32, shading_power: see
    rendering.scene. skin_color_srgb: (3,) in [0, 1], the plain skin's. coverage: share of the face's atlas that the photo shows.
    """

    base_color: np.ndarray
    confidence: np.ndarray
    texture_deltas: list[TextureDelta]
    light: np.ndarray
    shading_power: float
    skin_color_srgb: np.ndarray
    coverage: float


@dataclass(frozen=True)
class SkinView:
    """Everything about one photo that light, hair and texture share: made once by `view_skin`."""

    picture: WorkPicture
    fit: FaceFit
    head: HeadModel
    graph: NodeGraph
    nodes: PhotoNodes
    light: np.ndarray
    shading_power: float


def view_skin(
    picture: WorkPicture, fit: FaceFit, head: HeadModel, matte: np.ndarray | None = None, hair_alpha: np.ndarray | None = None,
    covers: Covers | None = None,
) -> SkinView:  # fmt: skip
    """See which skin the work picture shows and under which light.

    matte, hair_alpha: (H, W) in [0, 1] of the same picture. covers: what else lies on the skin there.
    """
    graph = node_graph(head)
    nodes = look_at_photo(picture, fit, head, graph, matte, hair_alpha, covers)
    power = shading_power(side_contrast(graph, nodes))
    return SkinView(picture, fit, head, graph, nodes, estimate_light(nodes, graph.mirror), power)


def build_skin(
    view: SkinView,
    hair_alpha: np.ndarray | None = None,
    scalp_mask: np.ndarray | None = None,
    scalp_color_srgb: np.ndarray | None = None,
    size: int = 1024,
    unseen: frozenset[str] = frozenset(),
) -> SkinResult:
    """Paint the atlas.

    hair_alpha: (H, W) of the view's picture, hair strands to keep off the skin. scalp_mask: (V,) in [0, 1] and
    scalp_color_srgb: (3,) in [0, 1], what lies under the hair. size: texels a side. unseen: "eyes", "mouth" where
    something lies before them: they are made as usual ones are.
    """
    head, graph, nodes = view.head, view.graph, view.nodes
    texels, coarse = (atlas(head, graph, side) for side in (size, COARSE_SIZE))
    shade_vertex = shade_of(nodes.vertex_normals, view.light, view.shading_power)
    node_albedo = nodes.linear / (graph.spread @ shade_vertex)
    beyond = side_light(head, graph, nodes, node_albedo)
    node_albedo = node_albedo * np.exp(-beyond)
    plain = _plain_skin(nodes, node_albedo)

    # Folds of the photo's expression leave the texture and come back with the motion.
    delta, node_folds = None, np.zeros_like(node_albedo)
    if "mouth" not in unseen:
        delta, node_folds = _expression_layer(view, coarse, shade_vertex, beyond, node_albedo)
    fold_texels = texels.from_nodes @ beyond
    if delta is not None:
        fold_texels += sample_texture(delta.log_ratio, texels.raster.interpolate(head.faces, head.uv, texels.on_graph))
    encoded = np.maximum(node_albedo * np.exp(-node_folds), 1e-5) ** (1 / GAMMA)
    base = _fill(head, graph, nodes, encoded, plain)

    detail, trust = _photo_texels(view, texels, shade_vertex, fold_texels, nodes.posed, nodes.weight, hair_alpha)
    folded = (texels.from_nodes @ nodes.unfolding)[:, None]
    if folded.any():
        # In a fold one pixel covers many texels; what is finer than the fold would turn to streaks as it opens.
        soft, _ = _photo_texels(
            _blurred(view, FOLD_BLUR_MM), texels, shade_vertex, fold_texels, nodes.posed, nodes.weight, None
        )
        detail += folded * (soft - detail)
    low = texels.from_nodes @ base
    mirrored_posed = nodes.posed[head.mirror]
    mirrored_weight = nodes.weight[graph.mirror]
    other, other_trust = _photo_texels(
        view,
        texels,
        shade_vertex[head.mirror],
        texels.from_nodes @ beyond[graph.mirror],
        mirrored_posed,
        mirrored_weight,
        hair_alpha,
    )
    other_low = texels.from_nodes @ base[graph.mirror]
    borrowed = (np.clip(1.5 * other_trust, 0, 1) * (1 - trust))[:, None]
    open_share = texels.from_nodes @ graph.blurred(graph.spread @ openness(view.fit.neutral_vertices, head), 1)
    hollow = np.clip((OPEN_FULL - open_share) / (OPEN_FULL - OPEN_NONE), 0, 1)
    # Lids and lips lie folded in the neutral head; when they unfold they are plain skin.
    folded = np.maximum.reduce([head.regions[name] for name in ("eyelids", "eye_contour", "lips", "inner_mouth")])
    hollow = (hollow * (1 - np.clip(1.5 * (texels.from_nodes @ (graph.spread @ folded)), 0, 1)))[:, None]
    texture = low * (HOLLOW_TINT**hollow) ** (1 / GAMMA)
    texture = texture + trust[:, None] * (detail - texture) + borrowed * (other - other_low)

    lids = lid_skin(head, view.fit, graph, nodes, encoded, base, plain)
    unfolding = np.minimum(texels.from_nodes @ lids.weight, texels.from_nodes @ graph.blurred(nodes.unfolding, 1))
    texture += LID_BASE_SHARE * unfolding[:, None] * (texels.from_nodes @ lids.color - texture)

    measured = np.minimum(_measured_grain(view), MOST)
    lacking = np.sqrt(np.maximum(CLEAR_SKIN**2 - measured**2, 0))
    wanted = np.maximum(measured, CLEAR_SKIN)
    known = np.clip(trust + borrowed[:, 0], 0, 1)[:, None]
    places = texels.raster.interpolate(head.faces, _eyes_closed(head), texels.on_graph) * 1000
    texture *= 1 + grain(places, known * lacking + (1 - known) * wanted, SEED)
    texture = _under_hair(texture, view, texels, scalp_mask, scalp_color_srgb)

    if "mouth" in unseen:
        lips = np.clip(texels.from_nodes @ nodes.lip_region, 0, 1)[:, None]
        texture *= 1 + lips * (USUAL_LIPS ** (1 / GAMMA) - 1)
    eyes = measure_eyes(view.picture, plain**GAMMA, unseen)
    tint = light_tint(plain**GAMMA)
    texture = inner_mouth_color(texture, head, texels, eyes.exposure, tint)
    atlas_encoded = np.zeros((len(texels.raster.texel), 3), np.float32)
    atlas_encoded[texels.on_graph] = np.clip(texture, 0, 1)
    linear = atlas_encoded**GAMMA
    paint_parts(linear, head, texels, eyes.exposure, tint)
    limbus = limbus_angles(eyes, nodes.mm_px, view.fit, head)
    paint_eyes(linear, eyes, limbus, light_direction(view.light), view.fit.neutral_vertices, head, texels)
    if "eyes" not in unseen:
        show_eyes(linear, view.picture, nodes, shade_vertex, limbus, head, texels)
    if "mouth" not in unseen:
        shade_mouth(linear, view.picture, nodes, shade_vertex, head, texels, tint)
    if (view.picture.rgb == view.picture.rgb[..., :1]).all():
        # A greyscale photo's head is grey throughout: ivory teeth and a red tongue would be its only colours.
        linear = np.repeat((linear @ LUMA_BT709)[:, None], 3, axis=1)
    canvas = np.broadcast_to(plain**GAMMA, (size * size, 3)).astype(np.float32).copy()
    canvas[texels.raster.texel] = linear
    base_color = to_u8(linear_to_srgb(canvas)).reshape(size, size, 3)
    deltas = [] if delta is None else [delta]
    deltas += _lid_layers(view, coarse, lids, wanted, canvas.reshape(size, size, 3))
    if "mouth" not in unseen:
        small = cv2.resize(canvas.reshape(size, size, 3), (COARSE_SIZE, COARSE_SIZE), interpolation=cv2.INTER_AREA)
        painted = small.reshape(-1, 3)[coarse.raster.texel]
        mouth = mouth_layer(painted, view.picture, view.fit, nodes, shade_vertex, head, coarse)
        deltas += [] if mouth is None else [mouth]

    confidence = to_u8(_picture(coarse, (coarse.from_nodes @ nodes.weight)[:, None])[..., 0])
    face = texels.from_nodes @ (graph.spread @ head.regions["face"]) > 0.5
    return SkinResult(
        base_color=base_color, confidence=confidence, texture_deltas=deltas, light=view.light,
        shading_power=view.shading_power, skin_color_srgb=linear_to_srgb(plain**GAMMA),
        coverage=float((trust[face] > 0.3).mean()),
    )  # fmt: skip


def _expression_layer(
    view: SkinView, texels: Atlas, shade_vertex: np.ndarray, beyond: np.ndarray, node_albedo: np.ndarray
) -> tuple[TextureDelta | None, np.ndarray]:
    """The folds' texture delta, None for a face at rest, and the folds at the nodes (N, 3)."""
    row = fold_row(view.fit)
    nothing = np.zeros_like(node_albedo)
    if row is None:
        return None, nothing
    mask = fold_mask(view.fit, view.head, view.graph, view.nodes)
    low = low_band(view.graph, view.nodes, node_albedo)
    # The layer's texels are coarser than the picture: without this blur they would alias pores into folds.
    soft, lit = _blurred(view, DELTA_BLUR_MM), texels.from_nodes @ beyond
    encoded, _ = _photo_texels(soft, texels, shade_vertex, lit, view.nodes.posed, view.nodes.weight, None)
    layer = _picture(texels, folds(encoded**GAMMA, texels.from_nodes @ low, texels.from_nodes @ mask))
    if np.abs(layer).max() < 0.01:
        return None, nothing
    return TextureDelta("photo expression", row, 0.0, layer), folds(node_albedo, low, mask)


def _plain_skin(nodes: PhotoNodes, albedo: np.ndarray) -> np.ndarray:
    """(3,) encoded colour of the plain skin."""
    core = nodes.core if nodes.core.sum() > 50 else nodes.weight >= np.quantile(nodes.weight, 0.95)
    return np.percentile(np.maximum(albedo[core], 1e-5) ** (1 / GAMMA), PRIOR_PERCENTILE, axis=0)


def _fill(head: HeadModel, graph: NodeGraph, nodes: PhotoNodes, encoded: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """(N, 3) base colour: the photo's where it is trusted, a screened Laplacian's fill elsewhere, the plain skin far away.

    Brows and lash lines do not spread: a closing lid takes its colour from the cheek and the skin below the brow.
    """
    from scipy.sparse.linalg import cg

    lids = graph.spread @ head.regions["eyelids"]
    own = nodes.weight * (1 - nodes.brows) * (1 - np.clip(1.2 * np.maximum(nodes.eyes, lids), 0, 1))
    other = MIRROR_TRUST * own[graph.mirror] * (1 - nodes.weight) ** 2
    total = own + other
    data = own[:, None] * encoded + other[:, None] * encoded[graph.mirror]
    matrix = (STIFFNESS * graph.laplacian + sp.diags(total + PRIOR)).tocsr()
    right = data + PRIOR * plain
    scale = sp.diags(1 / matrix.diagonal())
    filled = [cg(matrix, right[:, c], x0=np.full(len(total), plain[c]), M=scale, rtol=1e-4, maxiter=400)[0] for c in range(3)]
    return np.stack(filled, axis=1)


def _photo_texels(
    view: SkinView,
    texels: Atlas,
    shade_vertex: np.ndarray,
    folds: np.ndarray | float,
    posed: np.ndarray,
    node_weight: np.ndarray,
    hair_alpha: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Encoded albedo (R, 3) that the photo shows at each texel of the graph and how far it is trusted (R,)."""
    raster, faces = texels.raster, view.head.faces
    pixels, _ = view.picture.camera.project(raster.interpolate(faces, posed, texels.on_graph).astype(np.float64))
    linear = np.maximum(sample(srgb_to_linear(view.picture.rgb), pixels), 0)
    shade = raster.interpolate(faces, shade_vertex, texels.on_graph)
    albedo = linear / shade * np.exp(-folds)
    trust = texels.from_nodes @ node_weight
    if hair_alpha is not None:
        trust = trust * np.clip(1 - TEXEL_HAIR_GAIN * sample(hair_alpha, pixels), 0, 1)
    return np.maximum(albedo, 1e-5) ** (1 / GAMMA), trust


def _blurred(view: SkinView, sigma_mm: float) -> SkinView:
    sigma = max(0.3, sigma_mm * view.nodes.mm_px)
    return replace(view, picture=replace(view.picture, rgb=cv2.GaussianBlur(view.picture.rgb, (0, 0), sigma)))


def _measured_grain(view: SkinView) -> np.ndarray:
    """(4,) strength of the photo's own grain on plain skin."""
    picture, nodes = view.picture, view.nodes
    skin = np.zeros(picture.rgb.shape[:2], np.uint8)
    pixels = np.clip(nodes.pixels[nodes.core].astype(int), 0, picture.camera.width - 1)
    skin[pixels[:, 1], pixels[:, 0]] = 1
    side = 2 * max(1, round(1.2 * nodes.mm_px)) + 1
    skin = cv2.morphologyEx(skin, cv2.MORPH_CLOSE, np.ones((side, side), np.uint8)) > 0
    grey = (srgb_to_linear(picture.rgb) @ LUMA_BT709) ** (1 / GAMMA)
    return band_strengths(grey, skin, nodes.mm_px)


def _under_hair(
    texture: np.ndarray, view: SkinView, texels: Atlas, mask: np.ndarray | None, color_srgb: np.ndarray | None
) -> np.ndarray:
    """The encoded texture (R, 3) with the scalp's colour where hair covers it, keeping the skin's own relief."""
    if mask is None or color_srgb is None:
        return texture
    covered = (texels.from_nodes @ (view.graph.spread @ np.asarray(mask, np.float64)))[:, None]
    scalp = srgb_to_linear(np.asarray(color_srgb, np.float32)) ** (1 / GAMMA)
    relief = texture / np.maximum(texture.mean(0), 1e-3)
    return texture * (1 - covered) + covered * scalp * np.clip(relief, 0.7, 1.3)


def _eyes_closed(head: HeadModel) -> np.ndarray:
    """(V, 3) the template with its eyes shut: where grain lives, so that closing lids do not draw it out to streaks."""
    return head.vertices + head.expression[ARKIT_INDEX["eyeBlinkLeft"]] + head.expression[ARKIT_INDEX["eyeBlinkRight"]]


def _lid_layers(view: SkinView, texels: Atlas, lids: LidSkin, strengths: np.ndarray, linear: np.ndarray) -> list[TextureDelta]:
    """One layer a lid that turns what the photo shows of its fold into lid skin as the lid closes.

    strengths: (4,) of its grain. linear: (S, S, 3) the finished atlas.
    """
    present = cv2.resize(linear, (texels.size, texels.size), interpolation=cv2.INTER_AREA)
    present = np.maximum(present.reshape(-1, 3)[texels.raster.texel[texels.on_graph]], LOG_FLOOR)
    weight = texels.from_nodes @ lids.weight
    near = np.flatnonzero(weight > 0.01)
    places = texels.raster.interpolate(view.head.faces, _eyes_closed(view.head), np.flatnonzero(texels.on_graph)[near]) * 1000
    skin = (texels.from_nodes[near] @ lids.color) * (1 + grain(places, strengths, SEED))
    ratio = np.zeros((len(weight), 3))
    log_ratio = GAMMA * np.log(np.maximum(skin, 1e-3)) - np.log(present[near])
    grey = log_ratio.mean(1, keepdims=True)
    told = np.clip(present[near].mean(1, keepdims=True) / HUE_FLOOR, 0, 1)
    ratio[near] = weight[near, None] * (grey + told * (log_ratio - grey))
    side = texels.from_nodes @ lids.left > 0.5
    layers = []
    for name, on_side in (("Left", side), ("Right", ~side)):
        row = np.zeros(len(ARKIT_INDEX), np.float32)
        row[ARKIT_INDEX["eyeBlink" + name]] = 1.0
        layer = _picture(texels, ratio * on_side[:, None])
        if np.abs(layer).max() > 0.01:
            layers.append(TextureDelta(f"closing lid {name.lower()}", row, 0.0, layer))
    return layers


def _picture(texels: Atlas, values: np.ndarray) -> np.ndarray:
    """(S, S, C) f32 atlas of values (R, C) of the graph's texels, zero elsewhere."""
    out = np.zeros((texels.size * texels.size, values.shape[1]), np.float32)
    out[texels.raster.texel[texels.on_graph]] = values
    return out.reshape(texels.size, texels.size, values.shape[1])
