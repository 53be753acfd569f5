"""One face over time: whose head it is, found from the frames that show it best, and its motion solved on that head.

Until the head is known the blendshape network's answer stands in; then the one passes into the other.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import cv2
import numpy as np

from avatar3d.errors import InputError
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.fitting.fit import fit_face, photo_intrinsics
from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import EYE_CORNERS, LID_MIDDLES, MESH_POINTS
from avatar3d.head.model import HeadModel
from avatar3d.motion.calibrate import Teacher
from avatar3d.motion.code import ARKIT_INDEX, NECK_M, WEIGHT_COUNT, MotionCode
from avatar3d.motion.mix import mix
from avatar3d.tracking.gaze import BLINKS, CV_TO_WORLD, Eyes, Pinhole, looking
from avatar3d.tracking.pose import FaceMotion, code_of
from avatar3d.tracking.solve import FIRST_ROUNDS, LOOKS, MM, PLACES, ROUNDS, PersonHead, Solution, person_head, solve

# What a frame that teaches a head must not be, each counted in units at which it starts to harm.
TURN_RAD, SPEED_IOD, ABSENCE = 0.35, 0.03, 0.1
LIVELY = {
    "jawOpen": 0.2, "mouthSmileLeft": 0.6, "mouthSmileRight": 0.6, "mouthFunnel": 0.4, "mouthPucker": 0.6, "eyeBlinkLeft": 0.3,
    "eyeBlinkRight": 0.3, "eyeLookDownLeft": 0.6, "eyeLookDownRight": 0.6, "browInnerUp": 0.6,
}  # fmt: skip
LIVELY_PLACES = [ARKIT_INDEX[name] for name in LIVELY]
LIVELY_UNITS = np.array(list(LIVELY.values()))
# Rest is how open a person's eyes mostly are: a frame whose eyes differ from the median by this share harms as one unit.
LIDS_OFF = 0.12
OPEN_BLINK = 0.35  # the network's; eyes that it finds more shut than that tell nothing of how they are open
KEPT_FRAMES = 24  # the best, among which the one whose eyes are open as they mostly are is chosen
MAX_OPENINGS = 2000  # of the eyes that are remembered for the median
MIN_IOD_PX = 25.0  # a smaller face is not measured
LOOK_S = 1.0  # of a face before its head is fitted first, and between fits
BETTER = 0.7  # a frame this much better than the one that taught the head teaches it anew
MAX_FITS = 4  # of one face; each is half a second of one core
CHANGE_S = 0.6  # from one way of telling a face's motion to another
JUMPED_IOD = 0.2  # landmarks farther than this from where the last frame left them are solved from further off


def harm(landmarks: FaceLandmarks, network: np.ndarray, facing: float, moved_px: float) -> float:
    """How little a frame can teach a head; 1 and less are good. moved_px: of the landmarks since the frame before, mean.

    facing: cosine between the camera's axis and the way the face looks. A blurred frame is one in which the face moves.
    """
    turn = np.arccos(np.clip(facing, -1, 1)) / TURN_RAD
    speed = moved_px / (SPEED_IOD * max(landmarks.iod_px, 1e-6))
    lively = np.sqrt(np.square(network[LIVELY_PLACES] / LIVELY_UNITS).sum())
    return float(np.sqrt(turn**2 + speed**2 + lively**2 + ((1 - landmarks.presence) / ABSENCE) ** 2))


def lid_opening(points_px: np.ndarray) -> float:
    """Mean gap between the lids over the eyes' width of (478, 2+) landmarks; 0.3 to 0.4 are open eyes."""
    inner, outer = (points_px[[pair[side] for pair in EYE_CORNERS], :2] for side in (0, 1))
    upper, lower = (points_px[[pair[side] for pair in LID_MIDDLES], :2] for side in (0, 1))
    width = np.linalg.norm(inner - outer, axis=1).mean()
    return float(np.linalg.norm(upper - lower, axis=1).mean() / max(width, 1e-6))


@dataclass(frozen=True)
class _Frame:
    """A frame that could teach a head."""

    harm: float
    opening: float
    landmarks: FaceLandmarks
    network: np.ndarray


@dataclass
class HeadFinder:
    """Keeps the best frames of a face seen so far and fits the head to it: at once, or beside the frames of a camera.

    model: what is fitted, the default head where None. head: the newest fit, None at first; teacher: the frame it was fitted to.
    Fits that find no head leave things as they are.
    """

    width: int
    height: int
    focal_px: float | None = None
    beside: bool = False
    model: HeadModel | None = None
    head: PersonHead | None = None
    teacher: Teacher | None = None
    _kept: list[_Frame] = field(default_factory=list)
    _openings: list[float] = field(default_factory=list)
    _taught: float = np.inf
    _fits: int = 0
    _since_ns: int | None = None
    _before: FaceLandmarks | None = None
    _work: threading.Thread | None = None

    def see(self, landmarks: FaceLandmarks, network: np.ndarray, facing: float, time_ns: int) -> None:
        """Take a frame into account; fits when it is time to."""
        if self._fits >= MAX_FITS:
            return
        self.keep(landmarks, network, facing)
        if self._since_ns is None or time_ns < self._since_ns:
            self._since_ns = time_ns
        if time_ns - self._since_ns >= LOOK_S * 1e9 and (self._work is None or not self._work.is_alive()):
            self._since_ns = time_ns
            self.fit()

    def keep(self, landmarks: FaceLandmarks, network: np.ndarray, facing: float) -> None:
        """Remember a frame if it is among the best."""
        before, self._before = self._before, landmarks
        if before is None or landmarks.iod_px < MIN_IOD_PX:
            return
        moved = float(np.linalg.norm(landmarks.points_px[:MESH_POINTS, :2] - before.points_px[:MESH_POINTS, :2], axis=1).mean())
        frame = _Frame(
            harm(landmarks, network, facing, moved), lid_opening(landmarks.points_px), landmarks, np.array(network, np.float64)
        )
        if len(self._openings) < MAX_OPENINGS and network[BLINKS].max() < OPEN_BLINK:
            self._openings.append(frame.opening)
        self._kept = sorted([*self._kept, frame], key=lambda kept: kept.harm)[:KEPT_FRAMES]

    def fit(self) -> None:
        """Fit the head to the best frame, where that is better than the one that taught it last."""
        if not self._kept:
            return
        usual = float(np.median(self._openings or [frame.opening for frame in self._kept]))
        harms = [float(np.hypot(frame.harm, (frame.opening / usual - 1) / LIDS_OFF)) for frame in self._kept]
        least = int(np.argmin(harms))
        if harms[least] >= BETTER * self._taught:
            return
        self._taught = harms[least]
        self._fits += 1
        if self.beside:
            self._work = threading.Thread(target=self._fit, args=(self._kept[least],), name="head fit", daemon=True)
            self._work.start()
        else:
            self._fit(self._kept[least])

    def learn(self, teacher: Teacher) -> None:
        """Take the head of a calibration, and keep it."""
        self._fits = MAX_FITS
        self._teach(teacher, None)

    def _fit(self, frame: _Frame) -> None:
        self._teach(Teacher(frame.landmarks.points_px, frame.network, self.width, self.height), self.focal_px)

    def _teach(self, teacher: Teacher, focal_px: float | None) -> None:
        head, landmarks = self.model or fitting_head(), FaceLandmarks(teacher.points_px, 1.0)
        try:
            fit = fit_face(landmarks, teacher.network, teacher.width, teacher.height, focal_px, head)
        except InputError:
            return
        self.teacher = teacher
        self.head = person_head(head, fit, teacher.points_px, teacher.network)


@dataclass
class PersonMotion:
    """The motion of a face whose head is known: expression and pose solved frame by frame, gaze from the irises.

    Its frames and units are FaceMotion's. eyes: goes on from what was known of them. translation (3,): of the last code before,
    from which this one's go on.
    """

    width: int
    height: int
    focal_px: float | None
    person: PersonHead
    eyes: Eyes = field(default_factory=Eyes)
    translation: np.ndarray = field(default_factory=lambda: np.zeros(3))
    residual_iod: float = 0.0
    _solution: Solution | None = None
    _rest: np.ndarray | None = None

    def __post_init__(self) -> None:
        self.intrinsics = photo_intrinsics(self.width, self.height, self.focal_px)

    @property
    def head(self) -> Pinhole:
        """Where the head was in the last frame; raises ValueError before the first."""
        if self._solution is None:
            raise ValueError("no frame was solved yet")
        return Pinhole(self._solution.rotation, self._solution.translation / MM, self.intrinsics)

    def code(self, landmarks: FaceLandmarks, weights: np.ndarray, time_ns: int, sequence: int) -> MotionCode:
        """The motion code of this frame. weights: (52,) from the blendshape network."""
        points = landmarks.points_px
        rounds = ROUNDS
        if self._solution is None or self._off(points) > JUMPED_IOD * landmarks.iod_px:
            self._solution, rounds = self._first(points, weights), FIRST_ROUNDS
        self.eyes.measure(points, weights, self.person.eyes, self.head)
        looks = looking(np.zeros(WEIGHT_COUNT), self.eyes.angles)[list(LOOKS)]
        solved = solve(self.person, points, weights, looks, self.intrinsics, self._solution, rounds)
        if np.isfinite(solved.translation).all() and np.isfinite(solved.weights).all() and solved.translation[2] > 0:
            self._solution = solved
        else:
            self._solution = self._first(points, weights)
        eyes_sure = self.eyes.measure(points, weights, self.person.eyes, self.head)
        told = looking(self._solution.weights, self.eyes.angles)
        rotation = CV_TO_WORLD @ self._solution.rotation
        place = CV_TO_WORLD @ self._solution.translation / MM + rotation @ NECK_M
        if self._rest is None:
            self._rest = place - self.translation
        self.residual_iod = self._off(points) / max(landmarks.iod_px, 1e-6)
        return code_of(told, rotation, place - self._rest, self.eyes.angles, (landmarks.presence, eyes_sure), time_ns, sequence)

    def _first(self, points: np.ndarray, network: np.ndarray) -> Solution:
        """A pose from nothing, with the weights that the network says."""
        weights = self.person.moved(network)
        model = self.person.rest + np.tensordot(weights, self.person.shapes, 1)
        image = np.ascontiguousarray(points[PLACES, :2])
        _, turn, shift = cv2.solvePnP(model, image, self.intrinsics, None, flags=cv2.SOLVEPNP_SQPNP)
        if not (np.isfinite(shift).all() and np.isfinite(turn).all() and shift[2, 0] > 0):
            return Solution(weights, CV_TO_WORLD.copy(), np.array([0.0, 0.0, 0.6 * MM]))
        return Solution(weights, cv2.Rodrigues(turn)[0], shift.ravel())

    def _off(self, points: np.ndarray) -> float:
        """Mean distance, pixels, of landmarks from where the last solution has them."""
        assert self._solution is not None
        model = self.person.rest + np.tensordot(self._solution.weights, self.person.shapes, 1)
        return float(np.linalg.norm(self.head.project(model / MM) - points[PLACES, :2], axis=1).mean())


@dataclass
class FaceTrack:
    """The codes of one face in a video's order, by the network at first and solved as soon as its head is known.

    solved: False keeps to the network. beside: fit heads in a thread of their own, for cameras. model: what is fitted, the default
    head where None.
    """

    width: int
    height: int
    focal_px: float | None = None
    solved: bool = True
    beside: bool = False
    model: HeadModel | None = None

    def __post_init__(self) -> None:
        self.finder = HeadFinder(self.width, self.height, self.focal_px, self.beside, self.model)
        self.motion: FaceMotion | PersonMotion = FaceMotion(self.width, self.height, self.focal_px, self.model)
        self._last: MotionCode | None = None
        self._old: FaceMotion | PersonMotion | None = None
        self._changed_ns = 0

    def code(self, landmarks: FaceLandmarks, network: np.ndarray, time_ns: int) -> MotionCode:
        """The code of this frame. network: (52,) the blendshape network's answer."""
        if self.solved:
            self._know(time_ns)
        code = self.motion.code(landmarks, network, time_ns, 0)
        if self._old is not None:
            share = (time_ns - self._changed_ns) / (CHANGE_S * 1e9)
            if 0 <= share < 1:
                code = mix(self._old.code(landmarks, network, time_ns, 0), code, share * share * (3 - 2 * share))
            else:
                self._old = None
        if self.solved:
            self.finder.see(landmarks, network, float((CV_TO_WORLD @ self.motion.head.rotation)[2, 2]), time_ns)
        self._last = code
        return code

    def _know(self, time_ns: int) -> None:
        """Change to the finder's head where it has a new one."""
        head = self.finder.head
        if head is None or (isinstance(self.motion, PersonMotion) and self.motion.person is head):
            return
        new = PersonMotion(self.width, self.height, self.focal_px, head)
        if self._last is not None:
            new.translation = self._last.translation
            self._old, self._changed_ns = self.motion, time_ns
        self.motion = new
