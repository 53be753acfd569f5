"""Cameras: pinhole photo cameras (OpenCV axes) and OpenXR eye cameras (pose + four FOV tangents), converted in this one place.

Pixel coordinates are continuous with (0, 0) at the top-left corner of the picture: the first pixel's centre is (0.5, 0.5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from avatar3d.choices import DEFAULT_IPD_M
from avatar3d.errors import InputError
from avatar3d.files import read_json, shown

HEAD_MIDDLE_M = (0.0, -0.02, -0.06)  # of a head with hair, in the head frame: where a picture of it looks
HEAD_VIEW_HEIGHT_M = 0.36  # that such a picture covers there
# Focal length over a picture's longer side where nothing tells it. Two, because cameras of films and of photos differ: a photo of a
# face is a portrait (a 72 mm lens on 35 mm film), a film is taken by a webcam or phone at arm's length. It is nearly unobservable:
# 600 to 2500 px fit the same face equally well.
PHOTO_FOCAL, FILM_FOCAL = 2.0, 1.6
DEFAULT_NEAR_M = 0.05
DEFAULT_FAR_M = 10.0
# OpenCV camera axes (x right, y down, z forward) from OpenGL/OpenXR ones (x right, y up, z backward); its own inverse.
GL_FROM_CV = np.diag([1.0, -1.0, -1.0])
_ROTATION_TOLERANCE = 1e-4
_SKEW_TOLERANCE = 1e-6  # pixels
MAX_NUMBER = 1e9  # of metres and of pixels; more cannot be squared without losing what matters
MAX_TANGENTS = 200.0  # of a picture's angle, side to side: 179°
MIN_TANGENTS = 1e-6  # a millimetre from a kilometre
DEPTHS_M = (1e-4, 1e6)  # what near and far may be: more apart, no depth is told from another
MAX_CAMERAS = 1000
MAX_CAMERAS_BYTES = 4_000_000  # a file of a thousand cameras is a tenth of this
MAX_NAME_BYTES = 200  # of a camera, after which its picture is named


@dataclass(frozen=True)
class Camera:
    """A pinhole camera; skewless, asymmetric frusta allowed. `orbit` makes one that looks at the head.

    Arrays and nested lists are copied to read-only float64.

    Attributes
    ----------
    width, height
        Pixels, 1 to 16384.
    intrinsics
        (3, 3) float64 [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], pixels.
    rotation, translation
        (3, 3) and (3,), world to camera in OpenCV's axes, metres: x_camera = rotation @ x_world + translation.
    near_m, far_m
        Depth range of the rasteriser.
    name
        Of the picture that it gives.

    Raises
    ------
    avatar3d.errors.InputError
        Anything that is not such a camera.
    """

    width: int
    height: int
    intrinsics: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    near_m: float = DEFAULT_NEAR_M
    far_m: float = DEFAULT_FAR_M
    name: str = ""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for attribute, shape in (("intrinsics", (3, 3)), ("rotation", (3, 3)), ("translation", (3,))):
            value = np.array(getattr(self, attribute), dtype=np.float64)
            if value.shape != shape or not (np.abs(value) < MAX_NUMBER).all():
                raise InputError(f"camera {self.name or '?'}: {attribute} must be {shape} finite numbers under {MAX_NUMBER:g}")
            value.setflags(write=False)
            set_(self, attribute, value)
        if not (0 < self.width <= 16384 and 0 < self.height <= 16384):
            raise InputError(f"camera {self.name or '?'}: size {self.width}×{self.height} is outside 1..16384 pixels")
        focal = np.diag(self.intrinsics)[:2]
        if (focal <= 0).any():
            raise InputError(f"camera {self.name or '?'}: focal lengths must be positive")
        rest = self.intrinsics - np.diag([*focal, 1.0])
        rest[:2, 2] = 0
        if np.abs(rest).max() > _SKEW_TOLERANCE:
            raise InputError(f"camera {self.name or '?'}: K is not [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]")
        tangents = np.array([self.width, self.height]) / focal
        if not (tangents.min() >= MIN_TANGENTS and tangents.max() <= MAX_TANGENTS):
            raise InputError(
                f"camera {self.name or '?'}: focal lengths {focal[0]:.3g} and {focal[1]:.3g} px of {self.width}×{self.height} pixels"
                " are no picture; expected an angle under 179° and over a ten-thousandth"
            )
        off = np.abs(self.rotation @ self.rotation.T - np.eye(3)).max()
        if off > _ROTATION_TOLERANCE or np.linalg.det(self.rotation) < 0:
            raise InputError(f"camera {self.name or '?'}: R is not a rotation (R·Rᵀ differs from I by {off:.3g})")
        if not DEPTHS_M[0] <= self.near_m < self.far_m <= DEPTHS_M[1]:
            low, high = DEPTHS_M
            raise InputError(
                f"camera {self.name or '?'}: expected {low:g} <= near < far <= {high:g} metres, got {self.near_m} and {self.far_m}"
            )

    @property
    def center(self) -> np.ndarray:
        """(3,) position of the camera in the world, metres."""
        return -self.rotation.T @ self.translation

    def to_camera(self, points: np.ndarray) -> np.ndarray:
        """(..., 3) world points to camera coordinates, metres."""
        return points @ self.rotation.T + self.translation

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(..., 3) world points to ((..., 2) pixels, (...) depth in metres along the optical axis).

        Points outside the picture get pixels outside it. Those behind the camera have depth < 0 and pixels that mean nothing.
        """
        local = self.to_camera(points)
        depth = local[..., 2]
        pixels = local[..., :2] / depth[..., None] * np.diag(self.intrinsics)[:2] + self.intrinsics[:2, 2]
        return pixels, depth

    def unproject(self, pixels: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """(..., 2) pixels at (...) depth along the axis, metres, to (..., 3) world points."""
        local_xy = (pixels - self.intrinsics[:2, 2]) / np.diag(self.intrinsics)[:2] * depth[..., None]
        local = np.concatenate([local_xy, depth[..., None]], axis=-1)
        return (local - self.translation) @ self.rotation

    def view_matrix(self) -> np.ndarray:
        """(4, 4) world to OpenGL eye coordinates (column vectors)."""
        matrix = np.eye(4)
        matrix[:3, :3] = GL_FROM_CV @ self.rotation
        matrix[:3, 3] = GL_FROM_CV @ self.translation
        return matrix

    def projection_matrix(self) -> np.ndarray:
        """(4, 4) OpenGL projection (column vectors, depth -1..1) that lands on this camera's pixels, row 0 at the top."""
        left, right, up, down = self.fov_tangents()
        near, far = self.near_m, self.far_m
        matrix = np.zeros((4, 4))
        matrix[0, 0] = 2 / (right - left)
        matrix[0, 2] = (right + left) / (right - left)
        matrix[1, 1] = 2 / (up - down)
        matrix[1, 2] = (up + down) / (up - down)
        matrix[2, 2] = -(far + near) / (far - near)
        matrix[2, 3] = -2 * far * near / (far - near)
        matrix[3, 2] = -1
        return matrix

    def fov_tangents(self) -> tuple[float, float, float, float]:
        """(left, right, up, down) tangents in OpenXR's sense: left and down are negative for a centred axis."""
        fx, fy = self.intrinsics[0, 0], self.intrinsics[1, 1]
        cx, cy = self.intrinsics[0, 2], self.intrinsics[1, 2]
        return -cx / fx, (self.width - cx) / fx, cy / fy, -(self.height - cy) / fy

    def resized(self, width: int, height: int) -> Camera:
        """The same view sampled on another pixel grid; pixels are no longer square where width : height changes."""
        scale = np.diag([width / self.width, height / self.height, 1.0])
        return replace(self, width=width, height=height, intrinsics=scale @ self.intrinsics)

    def framed(self, point: np.ndarray, width: int, height: int, view_height_m: float) -> Camera:
        """The same camera's picture cropped about a world point (3,), `height` pixels for view_height_m at its depth."""
        (x, y), depth = self.project(np.asarray(point, float))
        scale = height * depth / (view_height_m * self.intrinsics[1, 1])
        crop = np.array([[scale, 0, width / 2 - scale * x], [0, scale, height / 2 - scale * y], [0, 0, 1.0]])
        return replace(self, width=width, height=height, intrinsics=crop @ self.intrinsics)

    def moved(self, rotation: np.ndarray, translation: np.ndarray) -> Camera:
        """The camera seen from a frame in which world points are x_world = rotation (3, 3) @ x_new + translation (3,) m."""
        return replace(
            self,
            rotation=self.rotation @ rotation,
            translation=self.rotation @ np.asarray(translation) + self.translation,
        )

    @classmethod
    def from_fov(
        cls,
        tangents: tuple[float, float, float, float],
        orientation: np.ndarray,
        position: np.ndarray,
        width: int,
        height: int,
        **rest: object,
    ) -> Camera:
        """An OpenXR view: (left, right, up, down) tangents, the eye's (3, 3) orientation (OpenGL axes) and position (3,) m.

        rest: near_m, far_m and name. Raises InputError where the tangents are not in order, and as the class does.
        """
        left, right, up, down = tangents
        if not (right > left and up > down):
            raise InputError(f"FOV tangents {tangents} are empty; expected right > left and up > down")
        fx, fy = width / (right - left), height / (up - down)
        intrinsics = np.array([[fx, 0, -left * fx], [0, fy, up * fy], [0, 0, 1]])
        rotation = GL_FROM_CV @ np.asarray(orientation, dtype=np.float64).T
        return cls(width, height, intrinsics, rotation, -rotation @ np.asarray(position), **rest)  # type: ignore[arg-type]

    @classmethod
    def orbit(
        cls,
        yaw_rad: float,
        pitch_rad: float = 0.0,
        distance_m: float = 0.6,
        width: int = 512,
        height: int = 512,
        view_height_m: float = 0.34,
        target: np.ndarray | tuple[float, float, float] = (0.0, 0.0, 0.0),
        name: str = "",
    ) -> Camera:
        """A camera on a sphere about a target, looking at it.

        Parameters
        ----------
        yaw_rad
            0 is in front of the face, positive toward +X, the subject's left.
        pitch_rad
            Positive looks from above.
        distance_m
            From the target.
        width, height
            Pixels of the picture.
        view_height_m
            What the picture's height covers in the plane of the target.
        target
            (3,) metres; the origin lies between the eyes, HEAD_MIDDLE_M in the middle of a head with hair.
        name
            Of the picture.

        Returns
        -------
        Camera
        """
        sy, cy, sp, cp = np.sin(yaw_rad), np.cos(yaw_rad), np.sin(pitch_rad), np.cos(pitch_rad)
        backward = np.array([sy * cp, sp, cy * cp])
        right = np.array([cy, 0.0, -sy])
        orientation = np.stack([right, np.cross(backward, right), backward], axis=1)
        focal = distance_m / view_height_m * height
        half_width, half_height = width / (2 * focal), height / (2 * focal)
        return cls.from_fov(
            (-half_width, half_width, half_height, -half_height),
            orientation,
            np.asarray(target, dtype=np.float64) + backward * distance_m,
            width,
            height,
            name=name,
        )

    def to_json(self) -> dict[str, object]:
        """{name, width, height, K, R, t}: what `--cameras` reads, OpenCV axes, metres."""
        return {
            "name": self.name,
            "width": self.width,
            "height": self.height,
            "K": self.intrinsics.tolist(),
            "R": self.rotation.tolist(),
            "t": self.translation.tolist(),
        }

    @classmethod
    def from_json(cls, value: object) -> Camera:
        """A camera from {name, width, height, K, R, t}; raises InputError naming what is missing or wrong."""
        if not isinstance(value, dict):
            raise InputError(f"a camera must be an object with name, width, height, K, R, t; got {type(value).__name__}")
        missing = [key for key in ("width", "height", "K", "R", "t") if key not in value]
        if missing:
            raise InputError(f"camera {value.get('name', '?')!r} lacks {', '.join(missing)}")
        try:
            return cls(
                int(value["width"]), int(value["height"]), value["K"], value["R"], value["t"], name=str(value.get("name", ""))
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"camera {value.get('name', '?')!r} holds something that is not a number: {error}") from error


def stereo_pair(center: Camera, ipd_m: float = DEFAULT_IPD_M, inward_tangent: float = 0.0) -> tuple[Camera, Camera]:
    """The eye cameras of a viewer: parallel axes, each moved by half the eyes' distance along the camera's x.

    Parameters
    ----------
    center
        Between the eyes.
    ipd_m
        Distance of the eyes; 0.063 is the adult mean.
    inward_tangent
        By which each frustum is shifted toward the nose (asymmetric, as headset displays have it); `ipd_m / 2 / distance_m` makes
        them meet at a distance, so that what lies there lies in the plane of a screen.

    Returns
    -------
    left, right : Camera
        Named after `center`, with "left" and "right" behind.
    """
    eyes = []
    for side in (-1.0, 1.0):
        intrinsics = np.array(center.intrinsics)
        intrinsics[0, 2] += side * inward_tangent * intrinsics[0, 0]
        offset = np.array([side * ipd_m / 2, 0.0, 0.0])
        eyes.append(
            replace(
                center,
                intrinsics=intrinsics,
                translation=center.translation - offset,
                name=f"{center.name}{'left' if side < 0 else 'right'}",
            )
        )
    return eyes[0], eyes[1]


def read_cameras(path: str | Path) -> list[Camera]:
    """The cameras of a JSON file, a list of what `Camera.to_json` gives, each with a name of its own that can name a file.

    Raises InputError, one sentence, for anything else.
    """
    value = read_json(path, "cameras", MAX_CAMERAS_BYTES)
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CAMERAS:
        raise InputError(f"{path} does not hold a list of 1 to {MAX_CAMERAS} cameras {{name, width, height, K, R, t}}")
    cameras = [Camera.from_json(item) for item in value]
    for index, camera in enumerate(cameras):
        name = camera.name
        plain = (
            name.isprintable()
            and len(name.encode()) <= MAX_NAME_BYTES
            and Path(name).name == name
            and name[:1] not in ("", ".")
        )
        if not plain:
            raise InputError(f"camera {index} of {path} is named {shown(name)}; expected a plain file name")
    if len({camera.name for camera in cameras}) != len(cameras):
        raise InputError(f"two cameras of {path} have the same name; each picture is named after its camera")
    return cameras
