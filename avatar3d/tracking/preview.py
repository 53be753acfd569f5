"""The film `--preview` writes: on the left the video with its landmarks, on the right the head that the codes drive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from avatar3d.camera import HEAD_MIDDLE_M, Camera
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.head.mediapipe import IRISES, MESH_POINTS, NOSE_TIP
from avatar3d.head.model import LASHES, HeadModel
from avatar3d.head.rig import pose
from avatar3d.motion.code import ARKIT_INDEX, MotionCode, head_angles, quaternion_matrix
from avatar3d.tracking.track import TrackedFrame

HEIGHT_PX = 448  # of each half
BACKGROUND = (40, 42, 46)
MESH_COLOR = (80, 220, 120)
IRIS_COLOR = (90, 200, 255)
AXIS_COLORS = ((235, 70, 70), (80, 220, 80), (80, 120, 255))
AXIS_LENGTH = 0.7  # of the distance between the eyes
VIEW_HEIGHT_M = 0.34  # of the driven head's picture: less than HEAD_VIEW_HEIGHT_M, since the clay head has no hair
DISTANCE_M = 0.7
CLAY = np.array([[205, 190, 180], [240, 240, 240], [235, 230, 220], [190, 110, 110], [60, 50, 45], [120, 60, 60]], np.float32)
IRIS_RAD, PUPIL_RAD = 0.45, 0.18  # half angles seen from the eyeball's centre
IRIS_CLAY, PUPIL_CLAY = (95, 125, 150), (25, 25, 28)
LIGHT = np.array([-0.3, 0.5, 0.8]) / np.linalg.norm([-0.3, 0.5, 0.8])

MAX_STILL = 100_000  # frames for which one picture stands: a broken time fills no disk

Draw = Callable[[MotionCode], np.ndarray]  # a code to a (HEIGHT_PX, HEIGHT_PX, 3) u8 picture


def paced(add: Callable[[np.ndarray], None], fps: float) -> Callable[[int, np.ndarray], None]:
    """What takes a picture with its time, ns, into a film of that rate: the last one stands until the next is due."""
    written, started_ns, last = 0, -1, np.empty(0)

    def add_at(time_ns: int, picture: np.ndarray) -> None:
        nonlocal written, started_ns, last
        started_ns = time_ns if started_ns < 0 else started_ns
        due = min(round((time_ns - started_ns) / 1e9 * fps), written + MAX_STILL)
        while 0 < written < due:
            add(last)
            written += 1
        last = picture
        if due >= written:
            add(picture)
            written += 1

    return add_at


def head_camera() -> Camera:
    """The camera that looks at the driven head: in front of it, as the video's is."""
    return Camera.orbit(0.0, 0.0, DISTANCE_M, HEIGHT_PX, HEIGHT_PX, VIEW_HEIGHT_M, HEAD_MIDDLE_M)


def avatar_drawer(path: Path) -> tuple[Draw, Callable[[], None]]:
    """(draw, close) for an avatar file; raises InputError when it cannot be read, WorkError without OpenGL."""
    from avatar3d.glb import read_glb
    from avatar3d.rendering import RenderOptions, make_renderer

    avatar, renderer, camera = read_glb(path), make_renderer("realtime"), head_camera()

    def draw(code: MotionCode) -> np.ndarray:
        return renderer.render(avatar, code, [camera], RenderOptions(supersample=2))[0].to_srgb8(BACKGROUND)

    return draw, renderer.close


def clay_drawer(model: HeadModel | None = None) -> tuple[Draw, Callable[[], None]]:
    """(draw, close) for a model's average head in clay, the default one's where None, painted from back to front; needs no renderer."""
    head, camera = model or HeadModel.default(), head_camera()
    base = _face_colors(head)

    def draw(code: MotionCode) -> np.ndarray:
        vertices = pose(head, head.vertices, code)
        pixels, depth = camera.project(vertices.astype(np.float64))
        corners = pixels[head.faces]
        across, down = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
        # Counter-clockwise from outside is clockwise in a picture whose rows go down: the cross product is negative.
        front = across[:, 0] * down[:, 1] - across[:, 1] * down[:, 0] < 0
        chosen = np.flatnonzero(front & (head.part != LASHES))
        chosen = chosen[np.argsort(-depth[head.faces[chosen]].mean(axis=1))]
        normals = head.normals(vertices)[head.faces[chosen]].mean(axis=1)
        shade = np.clip(normals @ LIGHT, 0, 1) * 0.75 + 0.25
        colors = (base[chosen] * shade[:, None]).astype(int)
        picture = np.full((HEIGHT_PX, HEIGHT_PX, 3), BACKGROUND, np.uint8)
        triangles = np.round(corners[chosen] * 16).astype(np.int32)
        for triangle, color in zip(triangles, colors.tolist(), strict=True):
            cv2.fillConvexPoly(picture, triangle, color, lineType=cv2.LINE_8, shift=4)
        return picture

    return draw, lambda: None


def _face_colors(head: HeadModel) -> np.ndarray:
    """(F, 3) clay by part, with an iris and a pupil on the eyeballs."""
    colors = CLAY[head.part].copy()
    for side, index in enumerate(head.eye_vertices):
        polar = np.full(len(head.vertices), np.inf)
        polar[index] = head.eye_uv[side].polar(head.uv[index])[0]
        angle = polar[head.faces].mean(axis=1)
        colors[angle < IRIS_RAD] = IRIS_CLAY
        colors[angle < PUPIL_RAD] = PUPIL_CLAY
    return colors


def draw_landmarks(picture: np.ndarray, landmarks: FaceLandmarks, code: MotionCode, scale: float) -> None:
    """Dots, irises and the head's three axes onto a picture that is `scale` times the frame; in place."""
    points = landmarks.points_px[:, :2] * scale
    for x, y in points[:MESH_POINTS]:
        cv2.circle(picture, (round(x), round(y)), 1, MESH_COLOR, -1, cv2.LINE_AA)
    for iris, *edge in IRISES[::-1]:
        radius = float(np.linalg.norm(points[edge] - points[iris], axis=1).mean())
        cv2.circle(picture, (round(points[iris, 0]), round(points[iris, 1])), max(1, round(radius)), IRIS_COLOR, 1, cv2.LINE_AA)
    axes = quaternion_matrix(code.rotation)
    nose = points[NOSE_TIP]
    for axis, color in enumerate(AXIS_COLORS):
        tip = nose + axes[:2, axis] * (1, -1) * landmarks.iod_px * scale * AXIS_LENGTH
        cv2.arrowedLine(picture, (round(nose[0]), round(nose[1])), (round(tip[0]), round(tip[1])), color, 2, cv2.LINE_AA)


def compose(frame: TrackedFrame, code: MotionCode | None, draw: Draw) -> np.ndarray:
    """(HEIGHT_PX, W + HEIGHT_PX, 3) u8: the frame with its faces, and the head driven by `code` (empty without one)."""
    height, width = frame.rgb.shape[:2]
    scale = HEIGHT_PX / height
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    left = cv2.resize(frame.rgb, (max(2, round(width * scale)), HEIGHT_PX), interpolation=how)
    for found, landmarks in frame.landmarks.items():
        if found in frame.codes:
            draw_landmarks(left, landmarks, frame.codes[found], scale)
    right = np.full((HEIGHT_PX, HEIGHT_PX, 3), BACKGROUND, np.uint8) if code is None else draw(code)
    if code is not None:
        yaw, pitch, roll = np.degrees(head_angles(code.rotation))
        jaw, left_lid, right_lid = (code.weights[ARKIT_INDEX[name]] for name in ("jawOpen", "eyeBlinkLeft", "eyeBlinkRight"))
        text = f"yaw {yaw:+.0f}  pitch {pitch:+.0f}  roll {roll:+.0f}  jaw {jaw:.2f}  lids {(left_lid + right_lid) / 2:.2f}"
        cv2.putText(right, text, (8, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (200, 200, 200), 1, cv2.LINE_AA)
    return np.concatenate([left, right], axis=1)
