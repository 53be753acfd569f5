"""What lies before a face: masks and hands are found and named, bare faces are left in peace, and nothing of a mask is painted."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
import pytest
from PIL import Image
from samples import sample_rgb

from avatar3d.avatar import PART_SKIN
from avatar3d.enrolment.photo.crop import crop
from avatar3d.enrolment.photo.hidden import Hidden, find_hidden
from avatar3d.enrolment.photo.segment import Labels
from avatar3d.enrolment.pipeline import EnrollOptions, enroll
from avatar3d.face.tracker import FaceTracker
from avatar3d.fitting.fit import fit_face
from avatar3d.head.landmarks import fitting_head

pytestmark = pytest.mark.slow
# Along the jaw and over the nose, in MediaPipe's numbering: the edge of a surgical mask.
MASK = (132, 58, 172, 136, 150, 149, 176, 148, 152, 377, 400, 378, 379, 365, 397, 288, 361, 352, 347, 348, 6, 119, 118, 123)
BLUE, WHITE, BLACK = (120, 175, 215), (235, 235, 235), (30, 30, 33)


@cache
def face(name: str):
    rgb = sample_rgb(name)
    return rgb, FaceTracker().track(rgb).landmarks.points_px


def masked(name: str, colour: tuple[int, int, int]) -> np.ndarray:
    rgb, points = face(name)
    outline = points[list(MASK), :2]
    cover = np.zeros(rgb.shape[:2], np.uint8)
    cv2.fillPoly(cover, [np.round(outline.mean(0) + 1.03 * (outline - outline.mean(0))).astype(np.int32)], 255)
    shade = cv2.GaussianBlur(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), (0, 0), 0.3 * float(np.ptp(outline[:, 0])) / 2).astype(
        np.float32
    )
    cloth = np.array(colour) * (shade / np.median(shade[cover > 0]))[..., None].clip(0.6, 1.2)
    share = cv2.GaussianBlur(cover, (0, 0), 1.5)[..., None] / 255
    return np.clip(rgb + share * (cloth - rgb), 0, 255).astype(np.uint8)


def hidden_in(rgb: np.ndarray) -> Hidden:
    tracked = FaceTracker().track(rgb)
    fit = fit_face(tracked.landmarks, tracked.blendshapes, rgb.shape[1], rgb.shape[0], None, fitting_head())
    work = crop(rgb, fit.camera, tracked.landmarks.points_px, 88.0, 640)
    return find_hidden(work, Labels.none(work.rgb.shape[:2]))


@pytest.mark.parametrize("name", ["astronaut.png", "obama.jpg", "grace_hopper.jpg"])
def test_a_bare_face_is_not_called_hidden(name):
    hidden = hidden_in(face(name)[0])
    assert hidden.cause == "" and not hidden.notes() and not hidden.area.any()


@pytest.mark.parametrize("colour", [BLUE, WHITE, BLACK], ids=["blue", "white", "black"])
@pytest.mark.parametrize("name", ["astronaut.png", "obama.jpg"])
def test_a_mask_is_found_in_any_colour(name, colour):
    hidden = hidden_in(masked(name, colour))
    assert hidden.mouth and hidden.cloth and "mask" in hidden.cause
    assert hidden.area.any()


def test_nothing_of_a_mask_is_painted_on_the_face(tmp_path):
    Image.fromarray(masked("astronaut.png", BLUE)).save(tmp_path / "masked.png")
    avatar, report = enroll(tmp_path / "masked.png", EnrollOptions(field=False))
    assert any("mask" in warning for warning in report["warnings"])
    assert report["quality"]["grade"] != "good" and "mask" in report["quality"]["cause"]
    shown = np.unique(avatar.faces[avatar.part == PART_SKIN])
    shown = shown[(avatar.vertices[shown, 2] > 0) & (avatar.vertices[shown, 1] > -0.12)]
    height, width = avatar.base_color.shape[:2]
    texels = avatar.base_color[(avatar.uv[shown, 1] * height).astype(int), (avatar.uv[shown, 0] * width).astype(int)].astype(
        int
    )
    assert np.percentile(texels[:, 2] - texels[:, 0], 98) < 0, "bluer than red"


def test_the_photo_is_left_alone_where_nothing_is_hidden():
    rgb, points = face("astronaut.png")
    nothing = Hidden(False, False, (False, False), False, np.zeros((64, 64), bool))
    assert nothing.filled(rgb, None) is rgb
