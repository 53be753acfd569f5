"""What the tracking networks say of an avatar: they are run on its own pictures, at rest and at a few expressions, and on its photo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from avatar3d.avatar import Avatar
from avatar3d.camera import Camera
from avatar3d.face import FaceTracker
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.motion.code import ARKIT_INDEX, MotionCode
from avatar3d.motion.retarget import LEAST_SPAN, Reach
from avatar3d.rendering.frame import RenderOptions
from avatar3d.rendering.reference.renderer import ReferenceRenderer

PICTURE_PX = 224  # the landmark network sees 256
VIEW_M, DISTANCE_M = 0.28, 1.0
BACKGROUND = (110, 110, 115)
LEAST_ANSWER = 0.15  # of a weight; a network that answers less does not see this shape on the avatar
Expression = dict[str, float]
# One picture moves several parts of the face that do not touch each other.
EXPRESSIONS: tuple[Expression, ...] = (
    {},
    {"eyeBlinkLeft": 1.0, "eyeBlinkRight": 1.0, "jawOpen": 0.3},
    {"jawOpen": 0.8, "eyeWideLeft": 0.8, "eyeWideRight": 0.8, "mouthLowerDownLeft": 0.4, "mouthLowerDownRight": 0.4},
    {"mouthSmileLeft": 0.7, "mouthSmileRight": 0.7, "eyeBlinkLeft": 0.4, "eyeBlinkRight": 0.4,
     "mouthUpperUpLeft": 0.4, "mouthUpperUpRight": 0.4},
    {"mouthPucker": 0.8, "browDownLeft": 0.8, "browDownRight": 0.8},
    {"browInnerUp": 0.8, "browOuterUpLeft": 0.8, "browOuterUpRight": 0.8, "mouthFunnel": 0.6, "jawOpen": 0.3},
)  # fmt: skip


def learn_reach(avatar: Avatar, photo_answer: np.ndarray, tracker: FaceTracker) -> Reach | None:
    """The reach of the networks' answers on this avatar; None where they see no face in its pictures.

    photo_answer: (52,) what they said of the photo, whose true weights the avatar has.
    """
    answers = answers_on(avatar, EXPRESSIONS, tracker)
    if answers is None:
        return None
    shown = np.stack([MotionCode.from_expression(expression).weights for expression in EXPRESSIONS])
    rest = _even(answers[0])
    span = np.maximum(1 - rest, LEAST_SPAN)
    # Where a shape goes farthest: a network's answers rise steeply toward the end, so half a blink would tell too little of a whole.
    for place, most in enumerate(shown.argmax(axis=0)):
        weight = shown[most, place]
        if weight > 0 and answers[most, place] - rest[place] > LEAST_ANSWER * weight:
            span[place] = min(span[place], (answers[most, place] - rest[place]) / weight)
    pairs = [(answers[0], shown[0])]
    if avatar.photo_motion is not None:
        pairs.append((np.asarray(photo_answer, np.float64), avatar.photo_motion.weights))
    pairs += list(zip(answers[1:], shown[1:], strict=True))
    said, meant = (np.stack(values) for values in zip(*pairs, strict=True))
    return Reach.through(rest, rest + span, said, meant)


def answers_on(avatar: Avatar, expressions: tuple[Expression, ...], tracker: FaceTracker) -> np.ndarray | None:
    """(N, 52) the networks' answers to frontal pictures of the avatar; None where one of them shows no face.

    Without its hair: that takes most of the time to draw and says nothing of the face.
    """
    bald = replace(avatar, hair=None, baked=None, neural_field=None)
    middle = (avatar.vertices[avatar.landmark_triangles] * avatar.landmark_barycentric[..., None]).sum(1).mean(0)
    camera = Camera.orbit(0.0, 0.0, DISTANCE_M, PICTURE_PX, PICTURE_PX, VIEW_M, middle.astype(np.float64))
    renderer = ReferenceRenderer()
    answers: list[np.ndarray] = []
    landmarks: FaceLandmarks | None = None
    try:
        for expression in expressions:
            code = MotionCode.from_expression(expression)
            rgb = renderer.render(bald, code, [camera], RenderOptions(form="mesh"))[0].to_srgb8(BACKGROUND)
            if landmarks is None:
                boxes = tracker.detect(rgb)
                if not boxes:
                    return None
                landmarks = tracker.landmarks(rgb, boxes[0])
            landmarks = tracker.again(rgb, tracker.again(rgb, landmarks))
            if landmarks.presence < 0.5:
                return None
            answers.append(np.asarray(tracker.blendshapes(landmarks.points_px), np.float64))
    finally:
        renderer.close()
    return np.stack(answers)


def _even(answer: np.ndarray) -> np.ndarray:
    """(52,) the greater of both sides' answers: a head at rest is even, and both sides are to read as rest."""
    out = np.array(answer, np.float64)
    for name, place in ARKIT_INDEX.items():
        if name.endswith("Left") and name not in ("jawLeft", "mouthLeft"):
            other = ARKIT_INDEX[name.removesuffix("Left") + "Right"]
            out[place] = out[other] = max(answer[place], answer[other])
    out[[ARKIT_INDEX[name] for name in ("jawLeft", "jawRight", "mouthLeft", "mouthRight")]] = 0.0
    return out
