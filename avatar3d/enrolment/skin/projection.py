"""What the photo shows of each node of the skin: where it lies, its colour, and how far that colour can be trusted as skin."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.spatial import cKDTree

from avatar3d.color import LUMA_BT709, srgb_to_linear
from avatar3d.enrolment.photo.crop import WorkPicture
from avatar3d.enrolment.photo.masks import large_parts
from avatar3d.enrolment.skin.surface import NodeGraph, depth_map
from avatar3d.fitting.fit import FaceFit
from avatar3d.head.mediapipe import BROWS, CHIN, LEFT_EYE, LIPS_INNER, LIPS_OUTER, RIGHT_EYE
from avatar3d.head.model import LASHES, HeadModel
from avatar3d.head.rig import pose_vertices
from avatar3d.motion.code import ARKIT_INDEX

# Cosine to the viewing ray at which the photo starts to count, and the ramp to full trust: below, pixels are stretched.
FACING_FROM, FACING_RAMP = 0.16, 0.34
# A lid's skin that grows by more than this when it closes was folded in the photo: what is seen of it smears then.
UNFOLD_FROM, UNFOLD_FULL = 1.5, 2.2
OCCLUSION_M = 0.004  # behind the nearest surface by more than this is hidden
SILHOUETTE_M = 0.0022  # pixels nearer than this to an occluding edge may show the wrong surface,
SILHOUETTE_STEP_M = 0.014  # where the edge stands this far in front
COVER_MARGIN_M = 0.002
HAIR_MARGIN_M = 0.0015
MATTE_MARGIN_M, EAR_MATTE_MARGIN_M = 0.0025, 0.0010  # an ear's rim is not wider, and of its own colour
MATTE_FROM, MATTE_FULL = 0.6, 0.9
# The half of a face that lies in black gives no colour where the other half is lit: of the face's bright skin, how dark and how
# bright that is, over a blur wider than brows.
BLACK, LIT, LIT_BLUR_MM = (0.05, 0.12), (0.25, 0.4), 4.0
HAIR_SHADOW_M = 0.010  # beside hair, skin lies in its shadow or is strands that the mask missed
GATE_HAIR_SHADOW = 0.4  # of the way from the face's lightness to the hair's, from which on it is strands
HAIR_GAIN = 2.5
LIP_RIM_M, LIP_REACH_M = 0.0012, 0.012  # the vermilion's soft rim; nothing further off is taken for a lip
LACK_SHARE = 0.7  # the rim of a resting lip is softer than the region's
LIP_NODES, LIP_PERCENTILE, LIP_CONTRAST = 30, 65.0, 0.08  # contrast: log of red over green
MOUTH_DARK = (0.3, 0.55)  # of the lips' brightness: what is darker on a lip lies in the mouth
# The bare neck counts this far inside its edges, and up to this much brighter than the face's bright skin: a backdrop is brighter.
NECK_MARGIN_M, NECK_BRIGHTER, NECK_FROM = 0.003, 1.15, 0.3
# Its edges: natural log of the linear brightness (over so much of it) for each millimetre, over a blur wider than stubble.
NECK_EDGE, NECK_BLUR_MM, NECK_DARK = 0.15, 1.2, 0.01
LIP_MARGIN_M, EYE_MARGIN_M = 0.0004, 0.0001
# Colour gate, in robust standard deviations of the face's own colour: lightness is let vary more (shadow under the chin).
GATE_LIGHTNESS, GATE = 2.2, 2.3
GREY_CHROMA = 1.0  # range of the face's chroma under which its photo is taken for greyscale: then lightness must tell all
GATE_FACING, FLANK_M = 0.5, 0.05
RIM_FACING, RIM_M = 0.7, 0.03  # skin turned away this far and this far off the middle catches light from behind the head
MAX_SHADE_FACTOR = 2.5  # of lightness, up to which the hue of an ear's hollows is told
WIDE_MARGIN = 1.5  # of both gates: blood shines through ears, and a forehead between hair and brows is mostly pale
# An ear is redder than the face by up to this factor of what else may differ, and as bright as its lit skin (percentile).
EAR_RED, EAR_BRIGHT = 3.0, 97.0
# Dark patches so large (mm²), under this share of the face's brightness, are hair or cloth beside an ear and none of its hollows.
EAR_DARK, EAR_HOLLOW_MM2, EAR_DARK_MARGIN_M = 0.22, 60.0, 0.0008
GATE_BRIGHTER = 1.3  # nothing outside the face is this much brighter than it: collars, backdrops


@dataclass(frozen=True)
class Covers:
    """What lies on the skin in a work picture, (H, W) in [0, 1]. beard: is shown as skin. other: is not, as clothes and hands.

    neck: is the neck's bare skin, in the chin's shadow or in another light than the face: shown as skin as well.
    """

    beard: np.ndarray
    other: np.ndarray
    neck: np.ndarray


@dataclass(frozen=True)
class PhotoNodes:
    """The node graph in the photo.

    posed: (V, 3) base vertices in the photo's expression; vertex_normals (V, 3). positions, normals: (N, 3). pixels: (N, 2).
    linear: (N, 3) linear colour, low-passed to the nodes' spacing. weight: (N,) in [0, 1], how far the photo is the skin here.
    core: (N,) bool, plain facial skin. brows, eyes, lips: (N,) in [0, 1], nearness. lip_seen: (N,) in [0, 1], where the photo
    shows a lip, whatever the model has there;
    lip_region: the model's lips; lip_lack: the model's lips where the photo shows skin.
    lit: (N,) in [0, 1], 0 where the photo shows black and the other side of the face is lit.
    unfolding: (N,) in [0, 1], lid skin that the photo shows folded. mm_px: pixels per millimetre.
    """

    posed: np.ndarray
    vertex_normals: np.ndarray
    positions: np.ndarray
    normals: np.ndarray
    pixels: np.ndarray
    linear: np.ndarray
    weight: np.ndarray
    core: np.ndarray
    brows: np.ndarray
    eyes: np.ndarray
    lips: np.ndarray
    lip_seen: np.ndarray
    lip_region: np.ndarray
    lip_lack: np.ndarray
    lit: np.ndarray
    unfolding: np.ndarray
    mm_px: float


def posed_as_photographed(fit: FaceFit, head: HeadModel) -> np.ndarray:
    """(V, 3) the avatar's own vertices under the photo's motion: what a renderer will draw at the photo's camera."""
    neutral = fit.neutral_vertices
    return pose_vertices(neutral, fit.expression_shapes, fit.motion, head.head_weight, head.joints(neutral), head.vertex_part)


def look_at_photo(
    picture: WorkPicture,
    fit: FaceFit,
    head: HeadModel,
    graph: NodeGraph,
    matte: np.ndarray | None = None,
    hair_alpha: np.ndarray | None = None,
    covers: Covers | None = None,
) -> PhotoNodes:
    """Project the nodes into a work picture and weigh what it shows there.

    matte, hair_alpha: (H, W) in [0, 1] of the same picture; without them the face alone is trusted. covers: what lies on the skin.
    """
    posed = posed_as_photographed(fit, head)
    normals = head.normals(posed)
    positions = graph.spread @ posed.astype(np.float64)
    node_normals = graph.spread @ normals.astype(np.float64)
    node_normals /= np.linalg.norm(node_normals, axis=1, keepdims=True) + 1e-12
    pixels, depth = picture.camera.project(positions)
    toward = picture.camera.center - positions
    facing = (node_normals * toward).sum(1) / np.linalg.norm(toward, axis=1)
    mm_px = float(picture.camera.intrinsics[0, 0] / np.median(depth) / 1000)

    visible = _visibility(picture, posed, head, pixels, depth, mm_px)
    colour = sample(_blurred(srgb_to_linear(picture.rgb), 0.5 * 1.2 * mm_px), pixels)
    weight = np.clip((facing - FACING_FROM) / FACING_RAMP, 0, 1) * visible
    weight *= sample(picture.inside.astype(np.float32), pixels) > 0.99
    regions = {name: graph.spread @ value for name, value in head.regions.items()}
    hair = np.zeros(len(pixels))
    beside_hair = np.zeros(len(pixels), bool)
    if hair_alpha is not None:
        hair = sample(_dilated(hair_alpha.astype(np.float32), HAIR_MARGIN_M * 1000 * mm_px), pixels)
        beside_hair = sample(_dilated(hair_alpha.astype(np.float32), HAIR_SHADOW_M * 1000 * mm_px), pixels) > 0.3
        weight *= np.clip(1 - HAIR_GAIN * hair, 0, 1)
    if matte is not None:
        edge, near = (
            sample(-_dilated(-matte.astype(np.float32), margin * 1000 * mm_px), pixels)
            for margin in (MATTE_MARGIN_M, EAR_MATTE_MARGIN_M)
        )
        edge = np.where(regions["ears"] > 0.5, near, edge)
        weight *= np.clip((edge - MATTE_FROM) / (MATTE_FULL - MATTE_FROM), 0, 1)
    if matte is None or hair_alpha is None:
        weight *= regions["face"]
    beard, neck = np.zeros(len(pixels)), np.zeros(len(pixels))
    if covers is not None:
        weight *= 1 - sample(_dilated(covers.other.astype(np.float32), COVER_MARGIN_M * 1000 * mm_px), pixels)
        beard = sample(covers.beard, pixels) * (regions["ears"] < 0.1)
        neck = _neck_seen(picture, covers.neck, pixels, colour, weight * (regions["face"] > 0.5), mm_px)
        neck *= regions["neck"] + regions["bust"] > NECK_FROM
    weight *= 1 - np.clip(2 * regions["inner_mouth"], 0, 1)
    unfolding = np.clip(1.5 * regions["eyelids"], 0, 1) * (graph.spread @ _unfolding(posed, head))
    covered = _openings(picture.landmarks_px[:, :2], picture.rgb.shape[:2], mm_px)
    weight *= 1 - sample(covered, pixels)
    lit = _lit(picture, pixels, weight, regions["face"] > 0.5, graph.mirror, mm_px)
    weight *= lit

    landmarks = head.landmark_points(head.vertices)
    brows = _near(graph.rest, landmarks[list(BROWS)], 0.006)
    eyes = _near(graph.rest, landmarks[list(RIGHT_EYE + LEFT_EYE)], 0.005)
    lips = _near(graph.rest, landmarks[list(LIPS_OUTER + LIPS_INNER)], 0.003)
    lip_seen = sample(
        _filled(picture.landmarks_px[list(LIPS_OUTER), :2], picture.rgb.shape[:2], LIP_RIM_M * 1000 * mm_px), pixels
    )
    lip_seen *= _near(graph.rest, landmarks[list(LIPS_OUTER + LIPS_INNER)], LIP_REACH_M)
    above_chin = graph.rest[:, 1] > landmarks[CHIN, 1]
    plain = (brows == 0) & (eyes == 0) & (lips == 0) & (regions["face"] > 0.5) & (regions["ears"] < 0.1)
    core = plain & above_chin & (weight > 0.6) & (beard < 0.1)
    lip_seen *= _lip_redness(colour, core, (regions["lips"] > 0.8) & (lip_seen > 0.9) & (weight > 0.5))
    weight *= 1 - regions["lips"] * _mouth_shadow(colour, (regions["lips"] > 0.8) & (lip_seen > 0.9) & (weight > 0.5))
    lip_lack = LACK_SHARE * np.clip(2.5 * regions["lips"] - 0.75, 0, 1) * np.clip(1.5 - 2 * lip_seen, 0, 1)
    outer = (graph.rest[:, 1] < landmarks[CHIN, 1] + 0.006) | (regions["ears"] > 0.1) | (hair > 0.02) | (regions["face"] < 0.3)
    # Rim light on a flank turned away is no colour of the skin.
    flank = (facing < GATE_FACING) & (np.abs(graph.rest[:, 0]) > FLANK_M)
    ears = regions["ears"] > 0.5
    if ears.any() and core.any():
        dark = _dark_patches(picture, float(np.median(colour[core] @ LUMA_BT709)), mm_px)
        weight = np.where(ears, weight * (1 - sample(dark, pixels)), weight)
    rim = (facing < RIM_FACING) & (np.abs(graph.rest[:, 0]) > RIM_M)
    gates = _Gates(outer | flank | beside_hair, beside_hair & (brows == 0), ears, rim, beside_hair | ears, hair > 0.95)
    # A beard is of no face's colour, and belongs to it; a neck in the chin's shadow no more.
    of_head = graph.blurred(np.maximum(beard, neck), 2)
    weight = np.maximum(_gated(weight, colour, core, gates, graph), weight * of_head)
    return PhotoNodes(
        posed=posed, vertex_normals=normals, positions=positions, normals=node_normals, pixels=pixels, linear=colour,
        weight=weight, core=core, brows=brows, eyes=eyes, lips=lips, lip_seen=lip_seen,
        lip_region=regions["lips"], lip_lack=lip_lack, lit=lit, unfolding=unfolding, mm_px=mm_px,
    )  # fmt: skip


def _lit(
    picture: WorkPicture, pixels: np.ndarray, weight: np.ndarray, face: np.ndarray, mirror: np.ndarray, mm_px: float
) -> np.ndarray:
    """(N,) in [0, 1]: 0 where the picture is black and the mirrored node (mirror (N,)) is in the light."""
    seen = weight > 0.3
    if not (seen & face).any():
        return np.ones(len(weight))
    brightness = _blurred(srgb_to_linear(picture.rgb) @ LUMA_BT709.astype(np.float32), LIT_BLUR_MM * mm_px)
    own = sample(brightness, pixels)
    own /= max(float(np.percentile(own[seen & face], 80)), 1e-4)
    dark = 1 - np.clip((own - BLACK[0]) / (BLACK[1] - BLACK[0]), 0, 1)
    other = np.clip((own[mirror] - LIT[0]) / (LIT[1] - LIT[0]), 0, 1) * seen[mirror]
    return 1 - dark * other


def _neck_seen(
    picture: WorkPicture, neck: np.ndarray, pixels: np.ndarray, linear: np.ndarray, face: np.ndarray, mm_px: float
) -> np.ndarray:
    """(N,) in [0, 1]: the bare neck (H, W) off its edges and any other, where it is no brighter than the face, of weight `face` (N,).

    What has an edge sharper than the chin's shadow is a collar, a strand of hair, or a shoulder before the neck.
    """
    if face.max(initial=0) < 0.3:
        return np.zeros(len(pixels))
    soft = np.log(_blurred(srgb_to_linear(picture.rgb) @ LUMA_BT709.astype(np.float32), NECK_BLUR_MM * mm_px) + NECK_DARK)
    edges = np.hypot(*np.gradient(soft)) * mm_px > NECK_EDGE
    bare = np.minimum(neck, 1 - edges).astype(np.float32)
    inside = -_dilated(-bare, NECK_MARGIN_M * 1000 * mm_px)
    brightness = linear @ LUMA_BT709
    brightest = np.percentile(brightness[face > 0.3], 95)
    return sample(inside, pixels) * np.clip(2 * (NECK_BRIGHTER * brightest - brightness) / brightest, 0, 1)


def _dark_patches(picture: WorkPicture, brightness: float, mm_px: float) -> np.ndarray:
    """(H, W) f32 in [0, 1]: what is far darker than skin of a linear `brightness`, over more than the hollow of an ear."""
    light = _blurred(srgb_to_linear(picture.rgb) @ LUMA_BT709.astype(np.float32), 0.5 * mm_px)
    patches = large_parts(light < EAR_DARK * brightness, EAR_HOLLOW_MM2 * mm_px**2)
    return _dilated(patches.astype(np.float32), EAR_DARK_MARGIN_M * 1000 * mm_px)


def _unfolding(posed: np.ndarray, head: HeadModel) -> np.ndarray:
    """(V,) in [0, 1]: how much of the skin at each vertex comes out of a fold when the eyes close."""
    closed = posed + head.expression[ARKIT_INDEX["eyeBlinkLeft"]] + head.expression[ARKIT_INDEX["eyeBlinkRight"]]
    areas = []
    for vertices in (posed, closed):
        corner = vertices[head.faces]
        face = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
        at_vertex = np.zeros(len(vertices))
        for k in range(3):
            at_vertex += np.bincount(head.weld[head.faces[:, k]], face, len(vertices))
        areas.append(at_vertex[head.weld])
    ratio = areas[1] / np.maximum(areas[0], 1e-12)
    return np.clip((ratio - UNFOLD_FROM) / (UNFOLD_FULL - UNFOLD_FROM), 0, 1)


def sample(picture: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """(N[, C]) f32 bilinear samples of a (H, W[, C]) picture at continuous pixels (N, 2), edges repeated.

    `geometry.sample_bilinear` by OpenCV, which rounds places to 1/32 pixel: for the millions of samples that a photo's skin takes.
    """
    count, width = len(pixels), 4096  # OpenCV maps are limited to 32767 a side
    rows = -(-count // width)
    places = np.zeros((rows * width, 2), np.float32)
    places[:count] = pixels - 0.5
    grid = np.clip(places, -1e6, 1e6).reshape(rows, width, 2)
    picked = cv2.remap(picture.astype(np.float32), grid, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return picked.reshape(rows * width, *picture.shape[2:])[:count]


def _blurred(picture: np.ndarray, sigma_px: float) -> np.ndarray:
    return picture if sigma_px < 0.3 else cv2.GaussianBlur(picture, (0, 0), sigma_px)


def _dilated(picture: np.ndarray, radius_px: float) -> np.ndarray:
    side = 2 * max(1, round(radius_px)) + 1
    return cv2.dilate(picture, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)))


def _near(points: np.ndarray, marks: np.ndarray, radius_m: float) -> np.ndarray:
    """(N,) 1 within half the radius of a mark, falling to 0 at 1.5 radii."""
    return np.clip(1.5 - cKDTree(marks).query(points)[0] / radius_m, 0, 1)


def _visibility(
    picture: WorkPicture, posed: np.ndarray, head: HeadModel, pixels: np.ndarray, depth: np.ndarray, mm_px: float
) -> np.ndarray:
    occluders = head.faces[head.part != LASHES]
    surface = depth_map(posed, occluders, picture.camera)
    far = np.where(np.isfinite(surface), surface, 1e3).astype(np.float32)
    nearest = -_dilated(-far, SILHOUETTE_M * 1000 * mm_px)
    column = np.clip(pixels[:, 0].astype(int), 0, picture.camera.width - 1)
    row = np.clip(pixels[:, 1].astype(int), 0, picture.camera.height - 1)
    hidden = (depth > far[row, column] + OCCLUSION_M) | (depth > nearest[row, column] + SILHOUETTE_STEP_M)
    return (~hidden).astype(np.float64)


def _openings(landmarks: np.ndarray, shape: tuple[int, int], mm_px: float) -> np.ndarray:
    """(H, W) f32, 1 inside the eyes and between the lips."""
    out = np.zeros(shape, np.float32)
    for corners, margin in ((LIPS_INNER, LIP_MARGIN_M), (RIGHT_EYE, EYE_MARGIN_M), (LEFT_EYE, EYE_MARGIN_M)):
        one = np.zeros(shape, np.uint8)
        cv2.fillPoly(one, [np.round((landmarks[list(corners)] - 0.5) * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
        out = np.maximum(out, _dilated(one, margin * 1000 * mm_px) if margin * 1000 * mm_px >= 1 else one)
    return cv2.GaussianBlur(out, (0, 0), max(0.5, 0.3 * mm_px))


def _filled(outline: np.ndarray, shape: tuple[int, int], margin_px: float) -> np.ndarray:
    """(H, W) f32, 1 inside the hull of an outline (K, 2) and up to a margin around it."""
    out = np.zeros(shape, np.uint8)
    cv2.fillConvexPoly(out, cv2.convexHull(np.round((outline - 0.5) * 16).astype(np.int32)), 1, cv2.LINE_8, 4)
    return cv2.GaussianBlur(_dilated(out.astype(np.float32), margin_px), (0, 0), max(0.5, 0.5 * margin_px))


def _lip_redness(linear: np.ndarray, skin: np.ndarray, lip: np.ndarray) -> np.ndarray:
    """(N,) 0 at the plain skin's hue, 1 at the lips'; 1 everywhere where the two cannot be told apart. skin, lip: (N,) bool."""
    red = np.log(np.maximum(linear[:, 0], 1e-3) / np.maximum(linear[:, 1], 1e-3))
    if min(skin.sum(), lip.sum()) < LIP_NODES:
        return np.ones(len(red))
    from_skin = red - np.median(red[skin])
    contrast = float(np.percentile(from_skin[lip], LIP_PERCENTILE))
    return np.ones(len(red)) if contrast < LIP_CONTRAST else np.clip(2 * from_skin / contrast - 0.4, 0, 1)


def _mouth_shadow(linear: np.ndarray, lip: np.ndarray) -> np.ndarray:
    """(N,) in [0, 1], where the photo shows the dark of an open mouth's corners rather than a lip. lip: (N,) bool, plain lips."""
    if lip.sum() < LIP_NODES:
        return np.zeros(len(linear))
    brightness = linear @ LUMA_BT709
    share = brightness / max(float(np.median(brightness[lip])), 1e-4)
    return 1 - np.clip((share - MOUTH_DARK[0]) / (MOUTH_DARK[1] - MOUTH_DARK[0]), 0, 1)


@dataclass(frozen=True)
class _Gates:
    """Nodes (N,) bool by what is asked of them. outer: the face's colour. shaded: not to be as dark as hair. ears: the face's hue,
    however dark. rim: not to be brighter than the face. narrow: the same within a wider margin, and what is taken out takes
    little around it along. hair: where the photo shows nothing but hair.
    """

    outer: np.ndarray
    shaded: np.ndarray
    ears: np.ndarray
    rim: np.ndarray
    narrow: np.ndarray
    hair: np.ndarray


def _gated(weight: np.ndarray, linear: np.ndarray, core: np.ndarray, gates: _Gates, graph: NodeGraph) -> np.ndarray:
    """Weights with what is not of the face's colour taken out beyond the face, what is brighter at its rim, and a margin."""
    encoded = np.clip(linear, 0, 1) ** (1 / 2.2)
    lab = cv2.cvtColor(encoded[None].astype(np.float32), cv2.COLOR_RGB2LAB)[0].astype(np.float64)
    if core.sum() < 50:
        return weight * ~gates.outer
    middle = np.median(lab[core], axis=0)
    spread = np.maximum(1.48 * np.median(np.abs(lab[core] - middle), axis=0), (4, 2, 2))
    colourless = np.ptp(np.percentile(lab[core, 1:], (5, 95), axis=0), axis=0).max() < GREY_CHROMA
    distance = np.sqrt((((lab - middle) / spread / (1 if colourless else GATE_LIGHTNESS, 1, 1)) ** 2).sum(1))
    margin = np.where(gates.narrow, WIDE_MARGIN, 1)
    brightest = middle[0] + margin * GATE_BRIGHTER * spread[0]
    if not colourless:
        # The hollows of an ear are darker, and as much paler in chroma; all of it is redder.
        lit = np.clip(middle[0] / np.maximum(lab[:, 0], 1e-3), 1, MAX_SHADE_FACTOR)[:, None]
        off = (lit * lab[:, 1:] - middle[1:]) / spread[1:]
        off[:, 0] /= np.where(off[:, 0] > 0, EAR_RED, 1)
        distance = np.where(gates.ears, np.minimum(distance, np.sqrt((off**2).sum(1))), distance)
        brightest = np.where(gates.ears, np.maximum(brightest, np.percentile(lab[core, 0], EAR_BRIGHT)), brightest)
    bright = lab[:, 0] > brightest
    alien = (distance > margin * GATE) | bright
    darker_hair = middle[0] - np.median(lab[gates.hair, 0]) if gates.hair.any() else 0.0
    if darker_hair > 0:
        alien |= gates.shaded & (lab[:, 0] < middle[0] - GATE_HAIR_SHADOW * darker_hair)
    gated = np.where((gates.outer & alien) | (gates.rim & bright), 0, weight)
    gated = np.where((gates.outer | gates.rim) & ~gates.narrow, graph.eroded(gated, 4), gated)
    # A soft rim, never above what was trusted.
    soft = np.where(gates.narrow, graph.blurred(gated, 2), graph.blurred(graph.eroded(gated, 1), 3))
    return np.minimum(soft, gated)
