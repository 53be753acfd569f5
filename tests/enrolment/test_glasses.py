"""Glasses: found where they are drawn on real faces and not on bare ones, taken off cleanly, put on as geometry before the face."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
import pytest

from avatar3d.avatar import PART_GLASSES, PART_LENS
from avatar3d.camera import Camera
from avatar3d.enrolment.worn.attach import put_on
from avatar3d.enrolment.worn.glasses import Glasses, find_glasses, without_glasses
from avatar3d.enrolment.worn.glasses_mesh import glasses_parts
from avatar3d.face import FaceTracker
from avatar3d.glb import read_glb, write_glb
from avatar3d.head.model import HeadModel
from tests.make_avatar import synthetic_avatar
from tests.samples import sample_rgb

# Colour, line width, half width and height over the distance between the eyes, exponent of the outline: round or nearly square.
FRAMES = {
    "black": ((25, 22, 20), 0.065, 0.40, 0.28, 5),
    "round": ((60, 40, 25), 0.040, 0.37, 0.34, 2),
    "thin": ((70, 70, 75), 0.022, 0.38, 0.24, 5),
    "dark": ((15, 15, 18), 0.050, 0.42, 0.32, 5),
}


def outline(half_width: float, half_height: float, power: float) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack([half_width * np.sign(cosine) * np.abs(cosine) ** (2 / power),
                     half_height * np.sign(sine) * np.abs(sine) ** (2 / power) + 0.05], 1)  # fmt: skip


def with_glasses(rgb: np.ndarray, points: np.ndarray, kind: str) -> np.ndarray:
    """The photo with a frame drawn on the face."""
    color, line, half_width, half_height, power = FRAMES[kind]
    out, eyes = rgb.copy(), points[[468, 473], :2]
    iod = float(np.linalg.norm(eyes[1] - eyes[0]))
    across = (eyes[1] - eyes[0]) / iod
    axes = np.stack([across, [-across[1], across[0]]]) * iod
    width = max(1, round(line * iod))

    def draw(places: np.ndarray, closed: bool) -> None:
        cv2.polylines(out, [np.round(places * 16).astype(np.int32)], closed, color, width, cv2.LINE_AA, 4)

    for eye, side in zip(eyes, (-1, 1), strict=True):
        rim = eye + outline(half_width, half_height, power) @ axes
        if kind == "dark":
            cv2.fillPoly(out, [np.round(rim * 16).astype(np.int32)], color, cv2.LINE_AA, 4)
        draw(rim, True)
        draw(eye + np.array([[side * half_width, -0.1], [side * (half_width + 0.25), -0.12]]) @ axes, False)
    draw(eyes.mean(0) + np.array([[-0.12, -0.07], [0.0, -0.11], [0.12, -0.07]]) @ axes, False)
    return out


@cache
def face(name: str) -> tuple[np.ndarray, np.ndarray]:
    rgb = sample_rgb(name)
    return rgb, FaceTracker().track(rgb).landmarks.points_px


@pytest.mark.parametrize("name", ["astronaut.png", "obama.jpg", "obama2.jpg"])
def test_bare_faces_wear_none(name):
    assert find_glasses(*face(name)) is None


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", ["astronaut.png", "obama.jpg"])
def test_drawn_frames_are_found_where_they_were_drawn(name, kind):
    rgb, points = face(name)
    found = find_glasses(with_glasses(rgb, points, kind), points)
    assert found is not None and found.dark == (kind == "dark")
    assert bool(found.notes(False)) == bool(found.notes(True)) == (kind == "dark")
    iod = np.linalg.norm(points[473, :2] - points[468, :2])
    if kind != "dark":
        wanted = points[468, :2] + outline(*FRAMES[kind][2:]) * iod
        off = np.linalg.norm(found.rims[0][:, None] - wanted[None], axis=2).min(1)
        below = found.rims[0][:, 1] > points[468, 1] + 0.1 * iod
        assert np.median(off[below]) < 0.05 * iod


def test_taken_off_the_skin_is_the_skin_around_and_nothing_else_changes():
    rgb, points = face("astronaut.png")
    drawn = with_glasses(rgb, points, "thin")
    found = find_glasses(drawn, points)
    cleaned, changed = without_glasses(drawn, points, found, [])
    assert np.array_equal(cleaned[~changed], drawn[~changed])
    iod = np.linalg.norm(points[473, :2] - points[468, :2])
    below = (points[468, :2] + outline(*FRAMES["thin"][2:])[20:30] * iod).astype(int)
    off = [np.abs(each.astype(int) - rgb)[below[:, 1], below[:, 0]].mean() for each in (cleaned, drawn)]
    assert off[0] < 0.25 * off[1]


def oval_glasses(camera: Camera, head: HeadModel) -> Glasses:
    """Round rims about the eyes of a head, as a camera in front sees them."""
    eyes = camera.project(head.eye_centres(head.vertices)[[1, 0]])[0]
    iod = float(np.linalg.norm(eyes[1] - eyes[0]))
    angle = np.arange(72) / 72 * 2 * np.pi
    rims = [
        eye + iod * np.stack([side * 0.38 * np.cos(angle), 0.3 * np.sin(angle)], 1)
        for eye, side in ((eyes[0], -1), (eyes[1], 1))
    ]
    black = np.full(3, 0.1)
    return Glasses(np.stack(rims), np.ones(2), 0.03 * iod, eyes.mean(0) - (0, 0.1 * iod), black, False, black)


def test_the_frame_stands_before_the_face_and_reaches_the_ears():
    head = HeadModel.default()
    camera = Camera.orbit(0.0, 0.0, 1.0, 600, 600, 0.3)
    frame, lenses = glasses_parts(oval_glasses(camera, head), camera, head.vertices, head)
    front = frame.vertices[frame.vertices[:, 2] > 0.0]
    skin = head.vertices[head.vertex_part == 0]
    near = np.linalg.norm(front[:, None, :2] - skin[None, :, :2], axis=2).argmin(1)
    assert (front[:, 2] > skin[near, 2] - 0.002).mean() > 0.95
    ears = head.vertices[head.regions["ears"] > 0.5]
    for side in (-1, 1):
        own = frame.vertices[frame.vertices[:, 0] * side > 0]
        assert abs(own[:, 2].min() - ears[:, 2].mean()) < 0.03
    across = np.sort(front[:, 0])
    assert np.abs(across + across[::-1]).max() < 0.003
    assert lenses.alpha.max() < 0.2 and frame.alpha.min() == 1
    corner = frame.vertices[frame.faces]
    volume = np.einsum("ij,ij->i", corner[:, 0], np.cross(corner[:, 1], corner[:, 2])).sum() / 6
    assert 1e-7 < volume < 2e-5, "closed tubes that face outward: a few millilitres"


def test_frame_and_lenses_survive_their_file_and_follow_the_head_wholly(tmp_path):
    head = HeadModel.default()
    camera = Camera.orbit(0.0, 0.0, 1.0, 600, 600, 0.3)
    bare = synthetic_avatar()
    avatar = put_on(bare, glasses_parts(oval_glasses(camera, head), camera, head.vertices, head))
    write_glb(avatar, tmp_path / "g.glb")
    again = read_glb(tmp_path / "g.glb")
    worn = np.isin(avatar.part, (PART_GLASSES, PART_LENS))
    assert worn.any() and np.array_equal(again.part, avatar.part) and np.array_equal(again.faces, avatar.faces)
    vertices = np.unique(avatar.faces[worn])
    assert (again.head_weight[vertices] == 1).all() and not again.expression[:, vertices].any()
    assert np.array_equal(again.vertex_alpha, avatar.vertex_alpha)
    assert np.array_equal(again.vertices[: len(bare.vertices)], bare.vertices), "no face geometry changed"
