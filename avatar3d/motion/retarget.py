"""What a tracking network's answers mean on one head: its rest, how far each weight goes, and a few answers known exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from avatar3d.choices import DIALECTS
from avatar3d.errors import InputError
from avatar3d.motion.code import LOOK_INDICES, WEIGHT_COUNT, MotionCode

# What the weights of a source mean. HEAD: how far the head shown goes along its own shapes; NETWORK: what a network said of a face.
HEAD, NETWORK = DIALECTS
MAX_SAMPLES = 16
MAX_REST = 0.6  # an answer above this at rest is an expression
LEAST_SPAN = 0.1  # from rest to full; less would make noise of the network's noise
MAX_CORRECTION = 1.0
REACH = 0.5  # distance between answers, root of the sum of squares, over which what is known of one tells of another
RIDGE = 0.03  # of the samples' matrix: two answers that are nearly alike but mean different faces meet in the middle
DIGITS = 4  # of what a file keeps
_LOOKS = {place for eye in LOOK_INDICES for place in eye}
KEPT = [place for place in range(WEIGHT_COUNT - 1) if place not in _LOOKS]  # no looks, and no tongue, which is the last


@dataclass(frozen=True)
class Reach:
    """A network's answers on one head.

    rest, full (52,): its answer where a weight of the head is 0, and where it is 1. answers (N, 52): some of its answers;
    corrections (N, 52): added, as far as an answer is near one of these, to what rest and full give, so that the photo's own
    answer leads to the photo. Looks and the tongue are left as they are. Raises InputError outside its bounds.
    """

    rest: np.ndarray
    full: np.ndarray
    answers: np.ndarray
    corrections: np.ndarray

    def __post_init__(self) -> None:
        count = len(self.answers)
        one, some = (WEIGHT_COUNT,), (count, WEIGHT_COUNT)
        shapes = {"rest": one, "full": one, "answers": some, "corrections": some}
        for name, shape in shapes.items():
            value = np.asarray(getattr(self, name), np.float64)
            if value.shape != shape or not np.isfinite(value).all():
                raise InputError(f"the reach's {name} are not {shape} finite numbers; enrol the avatar again")
        if not (
            self.rest.min() >= 0 and self.rest.max() <= MAX_REST and (self.full - self.rest).min() >= LEAST_SPAN - 10**-DIGITS
        ):
            raise InputError("the reach of this avatar's weights is out of bounds; enrol it again")
        if count > MAX_SAMPLES or np.abs(self.corrections).max(initial=0) > MAX_CORRECTION or self.full.max() > 1 + MAX_REST:
            raise InputError("the reach of this avatar's weights is out of bounds; enrol it again")

    @classmethod
    def through(cls, rest: np.ndarray, full: np.ndarray, answers: np.ndarray, weights: np.ndarray) -> Reach:
        """The reach that leads answers (N, 52) to weights (N, 52), as far as they do not contradict each other."""
        rest = np.clip(rest, 0, MAX_REST)
        full = np.clip(full, rest + LEAST_SPAN, 1 + MAX_REST)
        plain = cls(rest, full, np.zeros((0, WEIGHT_COUNT)), np.zeros((0, WEIGHT_COUNT)))
        missed = np.stack([(target - plain.weights(answer)) for answer, target in zip(answers, weights, strict=True)])
        near = np.exp(-np.square(answers[:, None, KEPT] - answers[None, :, KEPT]).sum(2) / (2 * REACH**2))
        corrections = np.linalg.solve(near + RIDGE * np.eye(len(answers)), missed)
        corrections = np.clip(corrections, -MAX_CORRECTION, MAX_CORRECTION)
        return cls(*(np.round(values, DIGITS) for values in (rest, full, answers, corrections)))

    def weights(self, answer: np.ndarray) -> np.ndarray:
        """(52,) weights of the head for (52,) weights as the network gives them."""
        told = np.clip((answer - self.rest) / (self.full - self.rest), 0, 1)
        if len(self.answers):
            near = np.exp(-np.square(self.answers[:, KEPT] - answer[KEPT]).sum(1) / (2 * REACH**2))
            told = np.clip(told + near @ self.corrections, 0, 1)
        out = np.array(answer, np.float64)
        out[KEPT] = told[KEPT]
        return out

    def apply(self, code: MotionCode) -> MotionCode:
        """The code in the head's own terms."""
        return code.with_weights(self.weights(code.weights))


def retargeted(code: MotionCode, dialect: str, reach: Reach | None) -> MotionCode:
    """The code that drives a head with this reach, of a source that speaks `dialect`; the one place where that is decided."""
    return code if dialect == HEAD or reach is None else reach.apply(code)
