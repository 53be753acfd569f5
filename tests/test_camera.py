"""Cameras: axioms by property tests, over photo cameras, orbits and asymmetric eye frusta."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from avatar3d.camera import Camera, read_cameras, stereo_pair
from avatar3d.errors import InputError
from avatar3d.motion.code import quaternion_matrix

angles = st.floats(-3.0, 3.0)
tangents = st.floats(0.2, 2.0)
coordinates = st.floats(-0.15, 0.15)


@st.composite
def cameras(draw):
    """A camera half a metre off that sees the head through an asymmetric frustum."""
    orbit = Camera.orbit(draw(angles), draw(st.floats(-1.2, 1.2)), distance_m=draw(st.floats(0.4, 2.0)))
    orientation = (np.diag([1.0, -1.0, -1.0]) @ orbit.rotation).T
    fov = (-draw(tangents), draw(tangents), draw(tangents), -draw(tangents))
    return Camera.from_fov(fov, orientation, orbit.center, draw(st.integers(16, 2000)), draw(st.integers(16, 2000)))


points = st.tuples(coordinates, coordinates, coordinates).map(np.array)


@given(cameras(), points)
def test_unproject_inverts_project(camera, point):
    pixel, depth = camera.project(point)
    assert np.allclose(camera.unproject(pixel, depth), point, atol=1e-9)


@given(cameras(), points)
def test_gl_matrices_land_on_the_same_pixel(camera, point):
    pixel, depth = camera.project(point)
    clip = camera.projection_matrix() @ camera.view_matrix() @ np.append(point, 1.0)
    ndc = clip[:3] / clip[3]
    assert clip[3] == pytest.approx(depth)
    assert (ndc[0] * 0.5 + 0.5) * camera.width == pytest.approx(pixel[0], abs=1e-6)
    assert (0.5 - ndc[1] * 0.5) * camera.height == pytest.approx(pixel[1], abs=1e-6)
    assert -1 <= ndc[2] <= 1


@given(cameras())
def test_fov_round_trip(camera):
    orientation = (np.diag([1.0, -1.0, -1.0]) @ camera.rotation).T
    again = Camera.from_fov(camera.fov_tangents(), orientation, camera.center, camera.width, camera.height)
    assert np.allclose(again.intrinsics, camera.intrinsics)
    assert np.allclose(again.translation, camera.translation)


@given(cameras(), points)
def test_json_round_trip(camera, point):
    again = Camera.from_json({**camera.to_json(), "name": "a"})
    assert np.array_equal(again.project(point)[0], camera.project(point)[0])


@given(cameras(), points, st.integers(1, 4))
def test_resizing_scales_pixels(camera, point, factor):
    larger = camera.resized(camera.width * factor, camera.height * factor)
    assert np.allclose(larger.project(point)[0], camera.project(point)[0] * factor)


@given(cameras(), points, st.floats(0.1, 1.0))
def test_a_framed_picture_shows_the_point_in_its_middle_and_the_asked_height(camera, point, height_m):
    framed = camera.framed(point, 300, 200, height_m)
    assert np.allclose(framed.project(point)[0], (150, 100))
    below = point + height_m / 2 * camera.rotation[1]
    assert np.allclose(framed.project(below)[0], (150, 200))
    assert np.array_equal(framed.center, camera.center)


@given(cameras(), points, st.tuples(angles, angles, angles, st.floats(0.1, 1.0)), points)
def test_moving_the_camera_is_moving_the_world(camera, point, quaternion, shift):
    rotation = quaternion_matrix(np.array(quaternion) / np.linalg.norm(quaternion))
    assert np.allclose(camera.moved(rotation, shift).to_camera(point), camera.to_camera(rotation @ point + shift))


@given(st.floats(0.03, 0.09), points)
def test_stereo_disparity_is_focal_times_ipd_over_depth(ipd, point):
    left, right = stereo_pair(Camera.orbit(0.2), ipd)
    assert np.linalg.norm(left.center - right.center) == pytest.approx(ipd)
    (a, depth), (b, _) = left.project(point), right.project(point)
    assert a[0] - b[0] == pytest.approx(left.intrinsics[0, 0] * ipd / depth)
    assert a[1] == pytest.approx(b[1])


def test_orbit_looks_at_the_target_from_the_subjects_left():
    camera = Camera.orbit(np.radians(90), distance_m=0.7, target=(0, 0.01, 0))
    assert np.allclose(camera.center, (0.7, 0.01, 0))
    assert np.allclose(camera.project(np.array([0, 0.01, 0.0]))[0], (256, 256))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"R": [[1, 0, 0], [0, 1, 0], [0, 0, 2]]}, "is not a rotation"),
        ({"K": [[0, 0, 1], [0, 5, 1], [0, 0, 1]]}, "focal lengths must be positive"),
        ({"width": 0}, "outside 1..16384"),
        ({"t": [0, float("nan"), 0]}, "finite"),
        ({"t": "far away"}, "not a number"),
        ({"t": [0, 0, 10**400]}, "not a number"),
        ({"width": float("inf")}, "not a number"),
        ({"K": (np.array(Camera.orbit(0.0).intrinsics) * 1e-8).tolist()}, "K is not"),
        ({"K": [[1e-8, 0, 256], [0, 1e-8, 256], [0, 0, 1]]}, "no picture; expected an angle under 179°"),
        ({"K": [[1e9 - 1, 0, 256], [0, 1e9 - 1, 256], [0, 0, 1]]}, "no picture; expected an angle"),
        ({"K": [[800, 1, 256], [0, 800, 256], [0, 0, 1]]}, "K is not"),
        ({"R": [[1e200, 0, 0], [0, 1e200, 0], [0, 0, 1]]}, "finite numbers under 1e"),
    ],
)
def test_what_is_no_camera_is_refused_in_a_sentence(change, sentence):
    good = Camera.orbit(0.0, name="front").to_json()
    with pytest.raises(InputError, match=sentence):
        Camera.from_json({**good, **change})
    with pytest.raises(InputError, match="lacks K, R"):
        Camera.from_json({k: v for k, v in good.items() if k not in ("K", "R")})


@pytest.mark.parametrize(("near", "far"), [(0.0, 1.0), (1e-30, 1.0), (1.0, 1e30), (1.0, 0.5), (float("nan"), 1.0)])
def test_depths_that_cannot_be_told_apart_are_refused(near, far):
    with pytest.raises(InputError, match="near < far <= 1e"):
        replace(Camera.orbit(0.0), near_m=near, far_m=far)


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a\0b", "a\nb", "\ud800", "y" * 300])
def test_a_camera_whose_name_can_name_no_file_is_refused(tmp_path, name):
    (tmp_path / "cameras.json").write_text(json.dumps([Camera.orbit(0.0, name=name).to_json()]))
    with pytest.raises(InputError, match="expected a plain file name"):
        read_cameras(tmp_path / "cameras.json")


@pytest.mark.parametrize("text", ["1e400", "1" + "0" * 400, "NaN"])
def test_a_camera_number_that_no_double_holds_is_refused(tmp_path, text):
    (tmp_path / "cameras.json").write_text(
        json.dumps([{**Camera.orbit(0.0, name="a").to_json(), "width": "@"}]).replace('"@"', text)
    )
    with pytest.raises(InputError, match="it is not JSON"):
        read_cameras(tmp_path / "cameras.json")
