import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from staged_face import staged_face

from avatar3d.enrolment.photo.crop import between, crop, resample


def test_the_crop_has_the_asked_scale_and_its_camera_projects_where_its_landmarks_lie():
    face = staged_face()
    work = crop(face.rgb, face.camera, face.landmarks.points_px, 88.0, 640)
    assert work.rgb.shape == (640, 640, 3)
    eyes = [work.landmarks_px[list(pair), :2].mean(0) for pair in ((33, 133), (263, 362))]
    assert np.linalg.norm(eyes[0] - eyes[1]) == pytest.approx(88.0, rel=1e-6)
    points = np.random.default_rng(0).uniform(-0.05, 0.05, (20, 3))
    in_photo, _ = face.camera.project(points)
    in_work, _ = work.camera.project(points)
    assert np.allclose(in_photo @ work.matrix[:, :2].T + work.matrix[:, 2], in_work, atol=1e-6)


def test_what_lies_outside_the_photo_is_marked():
    face = staged_face()
    work = crop(face.rgb, face.camera, face.landmarks.points_px, 40.0, 512)
    assert 0 < work.inside.sum() < work.inside.size
    tight = crop(face.rgb, face.camera, face.landmarks.points_px, 300.0, 256)
    assert tight.inside.all()


@settings(max_examples=25)
@given(st.floats(0.2, 3.0), st.floats(-20, 20), st.floats(-20, 20))
def test_resampling_keeps_a_ramp_where_continuous_coordinates_say(scale, dx, dy):
    columns, rows = np.meshgrid(np.arange(120) + 0.5, np.arange(120) + 0.5)
    ramp = np.stack([columns, rows], -1).astype(np.float32)
    out = resample(ramp, np.array([[scale, 0, dx], [0, scale, dy]]), 100)
    x, y = np.meshgrid(np.arange(100) + 0.5, np.arange(100) + 0.5)
    wanted = np.stack([(x - dx) / scale, (y - dy) / scale], -1)
    inside = ((wanted > 6) & (wanted < 114)).all(-1)
    assert np.abs(out - wanted)[inside].max(initial=0) < 0.6 / min(scale, 1)


def test_a_mask_moves_between_work_pictures_to_the_same_place():
    face = staged_face()
    small = crop(face.rgb, face.camera, face.landmarks.points_px, 60.0, 440)
    large = crop(face.rgb, face.camera, face.landmarks.points_px, 120.0, 880)
    mask = np.zeros((440, 440), np.float32)
    x, y = small.landmarks_px[1, :2]
    mask[int(y) - 3 : int(y) + 4, int(x) - 3 : int(x) + 4] = 1
    moved = between(mask, small, large)
    rows, columns = np.nonzero(moved > 0.5)
    assert np.hypot(columns.mean() + 0.5 - large.landmarks_px[1, 0], rows.mean() + 0.5 - large.landmarks_px[1, 1]) < 1.5
