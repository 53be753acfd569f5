"""Where the eyes look, from the irises between the corners of the eyes; knows a head only by where its eyeballs lie."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from avatar3d.camera import GL_FROM_CV
from avatar3d.head.mediapipe import EYE_CORNERS, IRIS_CENTRES
from avatar3d.motion.code import ARKIT_INDEX, LOOK_INDICES, LOOK_MAX_RAD

CV_TO_WORLD = GL_FROM_CV  # camera axes to a world that is seen in a mirrorless picture: x right, y up, z nearer
# Lines of sight meet at what is looked at, each turned inward by half a degree (far away) to three (at arm's length). Where
# the corners of a person's eyes lie about the eyeballs differs by as much, so the mean of what is measured is taken as that
# of somebody who looks a metre away, and of the changes about it, mostly noise, a share.
REST_INWARD_RAD = 0.03  # of each eye
VERGENCE_SHARE = 0.3
# No eye is turned further: inward for something 20 cm away, outward for the horizon.
MOST_INWARD_RAD, LEAST_INWARD_RAD = 0.15, 0.0
VERGENCE_FRAMES = 90  # the running mean's memory, once so many frames were seen
# The network puts the corners of eyes lower against the eyeballs than the head has them, so level eyes would look up: by 4.5
# degrees in the median of fifteen photos of people who look into the camera, 2 to 7 in renders whose eyes are known.
UPWARD_RAD = 0.07
CLOSED_EYE = 0.55  # an eyeBlink above this hides the iris
GAZE_MAX_RAD = 0.7  # of a measured line of sight; where it drives a head, the rig limits it to its own GAZE_MAX_RAD
BLINKS = [ARKIT_INDEX["eyeBlinkLeft"], ARKIT_INDEX["eyeBlinkRight"]]


@dataclass(frozen=True)
class Pinhole:
    """A head before a camera: rotation (3, 3) and translation (3,) m to its OpenCV axes, intrinsics (3, 3).

    Not a Camera, which checks itself and knows its picture: this one is made several times a frame.
    """

    rotation: np.ndarray
    translation: np.ndarray
    intrinsics: np.ndarray

    def project(self, points: np.ndarray) -> np.ndarray:
        """(N, 3) head-frame points, metres, to (N, 2) pixels."""
        local = points @ self.rotation.T + self.translation
        return local[:, :2] / local[:, 2:] * self.intrinsics[0, 0] + self.intrinsics[:2, 2]


@dataclass(frozen=True)
class EyePlaces:
    """Of the [left, right] eye, metres, head frame: eyeball centres (2, 3), middles between the corners (2, 3); the mean radius."""

    centres: np.ndarray
    corners: np.ndarray
    radius: float


@dataclass
class Eyes:
    """What is known of a person's eyes over a video: angles (2, 2) as in MotionCode, without look weights, and the vergence."""

    angles: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    _vergence: float = 0.0
    _vergence_count: int = 0

    def measure(self, points_px: np.ndarray, weights: np.ndarray, places: EyePlaces, head: Pinhole) -> float:
        """Turn the eyes to the irises, each against its own corners; returns how much of the eyes is seen, 0 to 1.

        points_px: (478, 2+) landmarks. weights: (52,) whose blinks say how far the eyes are shut. The eyeball's centre is put where
        the model has it between the eye's corners; the iris' offset from there over the eyeball's radius is the sine of the angle.
        """
        measured = np.zeros((2, 2))
        px_per_m = head.intrinsics[0, 0] / head.translation[2]
        seen = np.clip((CLOSED_EYE - weights[BLINKS]) / CLOSED_EYE, 0, 1)
        for eye in range(2):
            projected = head.project(np.stack([places.centres[eye], places.corners[eye]]))
            centre = points_px[list(EYE_CORNERS[eye]), :2].mean(axis=0) + projected[0] - projected[1]
            offset = (points_px[IRIS_CENTRES[eye], :2] - centre) / (px_per_m * places.radius)
            across, up = np.clip(offset[0], -0.9, 0.9), np.clip(-offset[1], -0.9, 0.9)
            toward = np.array([across, up, np.sqrt(max(1 - across**2 - up**2, 0.05))])
            local = (CV_TO_WORLD @ head.rotation).T @ (toward / np.linalg.norm(toward))
            measured[eye] = np.arctan2(local[0], max(local[2], 0.1)), np.arcsin(np.clip(local[1], -1, 1)) - UPWARD_RAD
        if seen.max() > 0:
            self.angles = np.clip(self._together(measured, seen), -GAZE_MAX_RAD, GAZE_MAX_RAD)
        return float(seen.mean())

    def _together(self, measured: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """(2, 2) gaze of two eyes that turn as one: mean pitch and yaw of the eyes as far as they are open, and a vergence."""
        mean = seen @ measured / seen.sum()
        apart = (measured[1, 0] - measured[0, 0]) / 2  # toward the nose; the left eye's way in is −X
        if seen.min() > 0.5:
            self._vergence_count = min(self._vergence_count + 1, VERGENCE_FRAMES)
            self._vergence += (apart - self._vergence) / self._vergence_count
        else:
            apart = self._vergence
        inward = REST_INWARD_RAD + VERGENCE_SHARE * (apart - self._vergence)
        inward = min(max(inward, LEAST_INWARD_RAD), MOST_INWARD_RAD)
        # With one eye shut the other's own error is not halved by it.
        mean[0] += (seen[0] - seen[1]) / seen.sum() * self._vergence
        return np.array([[mean[0] - inward, mean[1]], [mean[0] + inward, mean[1]]])


def looking(weights: np.ndarray, gaze: np.ndarray) -> np.ndarray:
    """(52,) weights whose eyeLook weights are those that turn the eyes, and the lids with them, to `gaze` (2, 2), radians."""
    weights = np.array(weights, dtype=np.float64)
    for eye, (down, inward, outward, up) in enumerate(LOOK_INDICES):
        yaw, pitch = gaze[eye] / LOOK_MAX_RAD
        away = yaw if eye == 0 else -yaw
        weights[[down, inward, outward, up]] = np.clip([-pitch, -away, away, pitch], 0.0, 1.0)
    return weights
