"""A face whose truth is known: the head model posed, lit and drawn by the reference renderer, with the landmarks it has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.field.shells import uv_raster
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.model import EYES, KAPPA_RAD, LASHES, TEETH, HeadModel
from avatar3d.head.rig import gaze_angles, pose
from avatar3d.motion.code import MotionCode
from avatar3d.motion.rotation import eye_rotation
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.reference.renderer import ReferenceRenderer

SIZE = 512
LIGHT = np.zeros((9, 3), np.float32)
LIGHT[0], LIGHT[1], LIGHT[2], LIGHT[3] = 0.8, 0.18, 0.12, 0.2  # a key light from the subject's left
SKIN_LINEAR = np.array([0.46, 0.28, 0.20])


@dataclass(frozen=True)
class StagedFace:
    """camera, motion, vertices (neutral), landmarks, rgb and matte of one made-up photo."""

    camera: Camera
    motion: MotionCode
    vertices: np.ndarray
    landmarks: FaceLandmarks
    rgb: np.ndarray
    matte: np.ndarray


def portrait_camera(yaw_rad: float = 0.1, size: int = SIZE) -> Camera:
    return Camera.orbit(yaw_rad, 0.05, 1.0, size, size, 0.36, (0.0, -0.03, 0.0), name="staged")


def landmarks_of(head: HeadModel, vertices: np.ndarray, motion: MotionCode, camera: Camera) -> FaceLandmarks:
    """The 478 landmarks that a perfect network would give, its z in pixels."""
    posed = pose(head, vertices, motion)
    points = [head.landmark_points(posed)]
    for eye in (1, 0):  # the right iris comes first
        yaw, pitch = gaze_angles(motion)[eye]
        centre, radius = head.eye_centres(vertices)[eye], head.eye_radii(vertices)[eye]
        turn = eye_rotation(yaw, pitch) @ eye_rotation(KAPPA_RAD if eye == 0 else -KAPPA_RAD, 0.0)
        ring = [(0, 0)] + [(np.cos(a) * head.iris_radius, np.sin(a) * head.iris_radius) for a in np.arange(4) * np.pi / 2]
        points.append(np.array([centre + turn @ (x, y, np.sqrt(radius**2 - x * x - y * y)) for x, y in ring]))
    pixels, depth = camera.project(np.concatenate(points).astype(np.float64))
    z = (depth - depth.mean()) * camera.intrinsics[0, 0] / depth.mean()
    return FaceLandmarks(np.column_stack([pixels, z]), 1.0)


@lru_cache(maxsize=4)
def staged_face(smile: float = 0.0, yaw_rad: float = 0.1) -> StagedFace:
    """A drawn photo of an uncommon identity under a side light; freckles make the texture recognisable."""
    head = fitting_head()
    rng = np.random.default_rng(5)
    identity = np.where(rng.random(len(head.identity_lower)) < 0.05, 0.4 * head.identity_upper, 0.0)
    vertices = head.shape(identity)
    motion = MotionCode.from_expression({"mouthSmileLeft": smile, "mouthSmileRight": smile, "cheekSquintLeft": smile / 2,
                                         "cheekSquintRight": smile / 2})  # fmt: skip
    camera = portrait_camera(yaw_rad)
    avatar = dressed(head, vertices, painted(head, rng), shading_power=1.0)
    frame = ReferenceRenderer().render(avatar, motion, [camera], RenderOptions(form="mesh", supersample=2))[0]
    landmarks = landmarks_of(head, vertices, motion, camera)
    return StagedFace(camera, motion, vertices, landmarks, frame.to_srgb8((120, 140, 160)), frame.rgba[..., 3])


def painted(head: HeadModel, rng: np.random.Generator, size: int = 1024) -> np.ndarray:
    """(size, size, 3) u8 sRGB: skin with freckles, white eyes with dark irises."""
    texels = uv_raster(head.faces, head.uv, (size, size), 8)
    places = texels.interpolate(head.faces, head.vertices)
    freckles = np.zeros(len(places), np.float32)
    for spot in head.landmark_points(head.vertices)[rng.choice(468, 160, replace=False)]:
        freckles = np.maximum(freckles, np.exp(-((np.linalg.norm(places - spot, axis=1) / 0.0018) ** 2)))
    linear = SKIN_LINEAR * (1 - 0.35 * freckles)[:, None]
    part = head.part[texels.triangle]
    linear[np.isin(part, (TEETH, EYES))] = 0.7
    linear[part == LASHES] = 0.02
    uv = texels.interpolate(head.faces, head.uv)
    for eye in head.eye_uv:
        polar, _ = eye.polar(uv)
        linear[(part == EYES) & (polar < 0.39)] = (0.05, 0.09, 0.16)
    canvas = np.broadcast_to(SKIN_LINEAR, (size * size, 3)).copy()
    canvas[texels.texel] = linear
    encoded = np.clip(canvas, 0, 1) ** (1 / 2.2)
    return cv2.GaussianBlur((encoded * 255).astype(np.uint8).reshape(size, size, 3), (0, 0), 0.6)


def dressed(head: HeadModel, vertices: np.ndarray, base_color: np.ndarray, light: np.ndarray = LIGHT,
            shading_power: float = 0.6, **rest: object) -> Avatar:  # fmt: skip
    """An avatar of the head model with a texture and a light, without hair."""
    count = len(head.vertices)
    return Avatar(
        vertices=vertices.astype(np.float32), faces=head.faces, part=head.part, uv=head.uv, weld=head.weld,
        expression=head.expression, head_weight=head.head_weight, vertex_alpha=np.ones(count, np.float32),
        field_weight=np.ones(count, np.float32), joints=head.joints(vertices), base_color=base_color,
        confidence=np.zeros((8, 8), np.uint8), light=light, shading_power=shading_power, landmark_triangles=head.landmark_tri,
        landmark_barycentric=head.landmark_bary, **rest,
    )  # fmt: skip
