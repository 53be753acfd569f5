"""The photo as a generator: warped by the fit to the asked expression, pose and camera, with a confidence for each pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.field.shells import sample_texture
from avatar3d.generator.protocol import GeneratedView, GeneratorRequest, PhotoEvidence, make_request
from avatar3d.geometry import smoothstep, unit
from avatar3d.motion.code import MotionCode
from avatar3d.rendering.frame import SURFACE_HAIR, SURFACE_HEAD
from avatar3d.rendering.scene import Scene, build_scene, view_directions

DEPTH_TOLERANCE_M = 0.004  # what the fit and the pixel grid may be off before a point counts as hidden
GRAZING_COSINE = 0.15  # seen flatter than about 81°, a photo pixel smears over centimetres
SURE_COSINE = 0.5  # at 60° and steeper the photo is as good as from the front
SILHOUETTE_PX = 4.0  # within this of the person's outline a pixel mixes hair with the backdrop
AGREEMENT_POWER = 2.0  # how fast belief falls as the asked view leaves the photo's view of the same point
FULL_BLEND_CONFIDENCE = 0.1  # from here on the photo is shown; below, it fades into the coarse render


@dataclass(frozen=True)
class PhotoView:
    """The photo with what hides what in it.

    rgb: (H, W, 3) f32 sRGB in [0, 1]. depth: (H, W) f32 metres to the nearest fitted surface, inf where there is none.
    belief_head, belief_hair: (H, W) f32 in [0, 1]: how surely a pixel shows skin, or hair away from the outline.
    """

    camera: Camera
    rgb: np.ndarray
    depth: np.ndarray
    belief_head: np.ndarray
    belief_hair: np.ndarray


def photo_view(evidence: PhotoEvidence, depth: np.ndarray) -> PhotoView:
    """A PhotoView from the evidence and the depth (H, W) of the fitted surfaces at the photo's camera."""
    from scipy.ndimage import distance_transform_edt

    matte = np.clip(evidence.matte, 0, 1).astype(np.float32)
    inside = distance_transform_edt(matte > 0.5)
    away_from_outline = np.clip(inside / SILHOUETTE_PX, 0, 1).astype(np.float32)
    hair = np.zeros_like(matte) if evidence.hair_alpha is None else np.clip(evidence.hair_alpha, 0, 1).astype(np.float32)
    return PhotoView(
        camera=evidence.camera,
        rgb=evidence.rgb.astype(np.float32) / 255,
        depth=depth,
        belief_head=matte * (1 - hair),
        belief_hair=matte * hair * away_from_outline if evidence.hair_alpha is not None else matte * away_from_outline,
    )


def facing_belief(cosine: np.ndarray) -> np.ndarray:
    """Belief in [0, 1] by the cosine between normal and view: 0 below GRAZING_COSINE, 1 from SURE_COSINE."""
    return smoothstep(GRAZING_COSINE, SURE_COSINE, cosine).astype(np.float32)


def photo_lookup(
    view: PhotoView, points: np.ndarray, normals: np.ndarray, is_hair: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the photo shows of surface points posed as in the photo.

    points, normals: (N, 3) world at the photo's motion; is_hair: (N,) bool. Returns sRGB (N, 3) f32 in [0, 1] by bilinear
    sampling, confidence (N,) f32 (facing × visible × shows that surface, 0 outside the picture) and pixels (N, 2).
    """
    camera = view.camera
    pixels, depth = camera.project(points)
    inside = (
        (depth > camera.near_m)
        & (pixels > 0.5).all(1)
        & (pixels[:, 0] < camera.width - 0.5)
        & (pixels[:, 1] < camera.height - 0.5)
    )
    safe = np.where(inside[:, None], pixels, 0.5)
    uv = safe / [camera.width, camera.height]
    color = sample_texture(view.rgb, uv)
    # The farthest of the four neighbours: a slanted surface must not hide itself; outlines are the beliefs' business.
    left, top = (safe - 0.5).astype(np.int64).T
    rows, columns = [top, top + 1], [left, left + 1]
    nearest = np.max(
        [view.depth[np.minimum(r, camera.height - 1), np.minimum(c, camera.width - 1)] for r in rows for c in columns], axis=0
    )
    visible = inside & (depth <= nearest + DEPTH_TOLERANCE_M)
    toward = camera.center - points
    cosine = (normals * toward).sum(1) / np.maximum(np.linalg.norm(toward, axis=1), 1e-9)
    belief = sample_texture(np.stack([view.belief_head, view.belief_hair], axis=-1), uv)
    shows = np.where(is_hair, belief[:, 1], belief[:, 0])
    confidence = np.where(visible, facing_belief(cosine) * shows, 0)
    return color, confidence.astype(np.float32), pixels


def surface_points(
    scene: Scene, surface: np.ndarray, level: np.ndarray, face: np.ndarray, barycentric: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """World positions (N, 3) and unit normals (N, 3), f32, of surface points (as GeometryBuffers names them) in `scene`."""
    positions, normals = np.zeros((len(face), 3), np.float32), np.zeros((len(face), 3), np.float32)

    def fill(chosen: np.ndarray, faces: np.ndarray, vertices: np.ndarray, vertex_normals: np.ndarray) -> None:
        corners, weights = faces[face[chosen]], barycentric[chosen][..., None]
        positions[chosen] = (vertices[corners] * weights).sum(1)
        normals[chosen] = unit((vertex_normals[corners] * weights).sum(1))

    fill(surface == SURFACE_HEAD, scene.avatar.faces, scene.vertices, scene.normals)
    if scene.hair is not None:
        for index in range(len(scene.hair.shells.levels)):
            chosen = (surface == SURFACE_HAIR) & (level == index)
            if chosen.any():
                fill(chosen, scene.hair.shells.faces, scene.hair.vertices(index), scene.hair.normals)
    return positions, normals


def _seen_share(avatar: Avatar, surface: np.ndarray, face: np.ndarray, barycentric: np.ndarray) -> np.ndarray:
    """(N,) f32: the avatar's confidence that the photo shows this skin (and not clothes over it); 1 on hair."""
    share = np.ones(len(face), np.float32)
    head = surface == SURFACE_HEAD
    uv = (avatar.uv[avatar.faces[face[head]]] * barycentric[head][..., None]).sum(1)
    share[head] = sample_texture(avatar.confidence[..., None] / np.float32(255), uv)[:, 0]
    return share


def _same_view(evidence: PhotoEvidence, motion: MotionCode, camera: Camera) -> bool:
    mine, same_motion = evidence.camera, evidence.motion
    arrays = ("intrinsics", "rotation", "translation")
    return (
        (mine.width, mine.height) == (camera.width, camera.height)
        and all(np.allclose(getattr(mine, name), getattr(camera, name), atol=1e-9) for name in arrays)
        and all(
            np.allclose(getattr(same_motion, name), getattr(motion, name), atol=1e-6)
            for name in ("weights", "rotation", "translation", "gaze")
        )
    )


class PhotoGenerator:
    """The built-in generator `photo`; holds the photo's evidence and, once asked, what its camera sees of the avatar."""

    name = "photo"
    paints = False  # the skin is painted from the same photo already

    def __init__(self, evidence: PhotoEvidence) -> None:
        self.evidence = evidence
        self._known: tuple[Avatar, Scene, PhotoView] | None = None

    def _photo_side(self, avatar: Avatar) -> tuple[Scene, PhotoView]:
        if self._known is None or self._known[0] is not avatar:
            scene = build_scene(avatar, self.evidence.motion)
            depth = make_request(avatar, self.evidence.motion, self.evidence.camera).coarse.depth
            self._known = (avatar, scene, photo_view(self.evidence, depth))
        return self._known[1], self._known[2]

    def generate(self, request: GeneratorRequest) -> GeneratedView:
        """The photo's colours carried along the surfaces to the asked view; the coarse render where the photo saw nothing.

        Confidence: the photo's (facing, visible, right surface, skin and not clothes) times how well the asked view of the
        point agrees with the photo's. At the photo's own camera and motion the picture is the photo, its alpha the matte.
        """
        scene, view = self._photo_side(request.identity)
        geometry = request.geometry
        shape = geometry.face.shape
        index = np.flatnonzero(geometry.face.reshape(-1) >= 0)
        surface, level = geometry.surface.reshape(-1)[index], geometry.level.reshape(-1)[index]
        points, normals = surface_points(
            scene, surface, level, geometry.face.reshape(-1)[index], geometry.barycentric.reshape(-1, 3)[index]
        )
        color, belief, _ = photo_lookup(view, points, normals, surface == SURFACE_HAIR)
        belief = belief * _seen_share(
            request.identity, surface, geometry.face.reshape(-1)[index], geometry.barycentric.reshape(-1, 3)[index]
        )
        photo_d = view_directions(points, normals, view.camera.center)
        agreement = np.clip((photo_d * geometry.d.reshape(-1, 3)[index]).sum(1), 0, 1) ** AGREEMENT_POWER
        confidence = np.zeros(shape[0] * shape[1], np.float32)
        confidence[index] = belief * agreement
        confidence = confidence.reshape(shape)
        if _same_view(self.evidence, request.motion, request.camera):
            return GeneratedView(np.concatenate([view.rgb, self.evidence.matte[..., None]], -1).astype(np.float32), confidence)
        rgba = request.picture()
        flat = rgba.reshape(-1, 4)
        share = np.minimum(belief / FULL_BLEND_CONFIDENCE, 1)[:, None]
        flat[index, :3] = flat[index, :3] * (1 - share) + color * share
        return GeneratedView(np.clip(rgba, 0, 1).astype(np.float32), confidence)
