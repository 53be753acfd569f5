"""What is drawn of one avatar: cameras, expressions and pictures, for the figures and for the sheet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import DEFAULT_IPD_M, HEAD_MIDDLE_M, HEAD_VIEW_HEIGHT_M, Camera, stereo_pair
from avatar3d.enrolment.photo.crop import WorkPicture, crop
from avatar3d.face.tracker import TrackedFace
from avatar3d.motion.code import MotionCode
from avatar3d.rendering import Renderer, RenderOptions
from avatar3d.tracking.track import VideoTracker

BACKGROUND = (245, 245, 245)
DISTANCE_M = 0.9
ARM_M = 0.65  # arm's length, at which stereo is judged
WORK_IOD_PX, WORK_SIZE_PX = 96.0, 704  # of the photo's own view: head, hair and neck
EXPRESSIONS: dict[str, dict[str, float]] = {
    "smile": {"mouthSmileLeft": 0.8, "mouthSmileRight": 0.8, "cheekSquintLeft": 0.4, "cheekSquintRight": 0.4},
    "jaw open": {"jawOpen": 0.7},
    "blink": {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0},
    "surprise": {"browInnerUp": 1.0, "browOuterUpLeft": 0.8, "browOuterUpRight": 0.8, "eyeWideLeft": 0.8, "eyeWideRight": 0.8,
                 "jawOpen": 0.25},
    "anger": {"browDownLeft": 1.0, "browDownRight": 1.0, "noseSneerLeft": 0.6, "noseSneerRight": 0.6, "mouthFrownLeft": 0.6,
              "mouthFrownRight": 0.6},
    "pucker": {"mouthPucker": 0.9},
    "teeth": {"mouthUpperUpLeft": 0.7, "mouthUpperUpRight": 0.7, "mouthLowerDownLeft": 0.7, "mouthLowerDownRight": 0.7,
              "mouthStretchLeft": 0.4, "mouthStretchRight": 0.4},
    "look left": {"eyeLookOutLeft": 0.8, "eyeLookInRight": 0.8, "mouthLeft": 0.5},
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A photo with its face, and the part of it about the head, whose camera is the avatar's own photo camera."""

    rgb: np.ndarray
    face: TrackedFace
    work: WorkPicture


def seen(rgb: np.ndarray, face: TrackedFace, avatar: Avatar) -> Seen:
    """The photo (H, W, 3) u8 beside the camera that the avatar says took it."""
    assert avatar.photo_camera is not None
    return Seen(rgb, face, crop(rgb, avatar.photo_camera, face.landmarks.points_px, WORK_IOD_PX, WORK_SIZE_PX))


class Drawer:
    """Draws one avatar with one renderer."""

    def __init__(self, renderer: Renderer, avatar: Avatar) -> None:
        self._renderer, self.avatar = renderer, avatar

    def orbit(self, yaw_deg: float, pitch_deg: float = 0.0, motion: MotionCode | None = None, size: int = 512,
              hair: bool = True) -> np.ndarray:  # fmt: skip
        """(size, size, 3) u8 from around the head."""
        camera = Camera.orbit(
            np.radians(yaw_deg), np.radians(pitch_deg), DISTANCE_M, size, size, HEAD_VIEW_HEIGHT_M, HEAD_MIDDLE_M
        )
        return self.through(camera, motion, hair)

    def stereo(self, yaw_deg: float, size: int = 512) -> tuple[np.ndarray, np.ndarray]:
        """The left and the right eye's (size, size, 3) u8 at arm's length, in frusta that meet on the face."""
        center = Camera.orbit(np.radians(yaw_deg), 0.0, ARM_M, size, size, HEAD_VIEW_HEIGHT_M, HEAD_MIDDLE_M)
        left, right = (self.through(camera) for camera in stereo_pair(center, DEFAULT_IPD_M, DEFAULT_IPD_M / 2 / ARM_M))
        return left, right

    def near(
        self, point: np.ndarray, view_height_m: float, width: int, height: int, motion: MotionCode | None = None
    ) -> np.ndarray:
        """(height, width, 3) u8 of a place (3,) m on the face, from the front."""
        camera = Camera.orbit(0.0, 0.0, DISTANCE_M, height, height, view_height_m, point).framed(
            point, width, height, view_height_m
        )
        return self.through(camera, motion)

    def through(self, camera: Camera, motion: MotionCode | None = None, hair: bool = True) -> np.ndarray:
        """(H, W, 3) u8 at a camera of the head frame."""
        options = RenderOptions(form="baked", supersample=2, hair=hair)
        (frame,) = self._renderer.render(self.avatar, motion or MotionCode(), [camera], options)
        return frame.to_srgb8(BACKGROUND)

    def shares(self, camera: Camera, motion: MotionCode) -> tuple[np.ndarray, np.ndarray]:
        """((H, W) coverage of the head with its hair, (H, W) that of the hair alone), in [0, 1].

        The hair's share of a pixel is what it keeps of its brightness with the skin painted black, which no light changes.
        """
        options = RenderOptions(form="mesh", supersample=2)
        white = replace(self.avatar, base_color=np.full_like(self.avatar.base_color, 255), texture_deltas=[])
        if self.avatar.hair is None:
            (frame,) = self._renderer.render(white, motion, [camera], options)
            return frame.rgba[..., 3], np.zeros(frame.depth.shape, np.float32)
        white = replace(white, hair=replace(self.avatar.hair, color=np.full_like(self.avatar.hair.color, 255)))
        black = replace(white, base_color=np.zeros_like(white.base_color))
        light, dark = (self._renderer.render(each, motion, [camera], options)[0].rgba for each in (white, black))
        return light[..., 3], light[..., 3] * dark[..., 1] / np.maximum(light[..., 1], 1e-4)


def tracked_answer(picture: np.ndarray) -> MotionCode | None:
    """The expression and gaze that the live tracker reads from one picture, or None where it sees no face."""
    tracker = VideoTracker(picture.shape[1], picture.shape[0])
    tracker.look_ahead([(0, picture)])
    frame = tracker.step(0, picture)
    code = next(iter(frame.codes.values()), None)
    return None if code is None else MotionCode(weights=code.weights, gaze=code.gaze)
