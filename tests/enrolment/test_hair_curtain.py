import cv2
import numpy as np
import pytest
from painted_head import DISTANCE_M, SIZE, paint

from avatar3d.camera import Camera
from avatar3d.enrolment.hair.curtain import hanging_curtain
from avatar3d.enrolment.hair.grid import cell_centres, ray_directions
from avatar3d.enrolment.hair.shape import COLUMNS, ROWS, build_shape, scalp_map
from avatar3d.enrolment.photo.segment import Segmentation
from avatar3d.head.mediapipe import CHIN
from avatar3d.head.model import SKIN

WIDE_M, NARROW_M = 0.095, 0.062  # outer and inner edge of the painted curtains
PLANE_M = -0.075  # about the ears


@pytest.fixture(scope="module")
def painted():
    return paint()


def curtains(painted, hem_m):
    """(H, W) bool of hair that hangs from beside the forehead down to a height, on both sides."""
    drawn = np.zeros((SIZE, SIZE), np.uint8)
    for side in (-1, 1):
        corners = np.array(
            [[side * x, y, PLANE_M] for x, y in ((NARROW_M, 0.07), (WIDE_M, 0.07), (WIDE_M, hem_m), (NARROW_M, hem_m))]
        )
        cv2.fillConvexPoly(drawn, np.round(painted.work.camera.project(corners)[0]).astype(np.int32), 1)
    return drawn > 0


def seen(painted, hanging):
    hair = painted.hair | hanging
    matte = np.maximum(painted.matte, hanging)
    return Segmentation(matte.astype(np.float32), hair.astype(np.float32), hair, matte > 0.9, 1.0)


def test_hanging_hair_falls_to_its_hem_as_wide_as_the_photo_shows_it(painted):
    shape = build_shape(painted.work, seen(painted, curtains(painted, -0.15)), painted.fit.vertices, painted.head)
    points = shape.points(shape.radius)
    hair = shape.coverage > 0.5
    beside = hair & (np.abs(points[..., 1] + 0.12) < 0.01)
    assert np.abs(points[beside, 0]).max() == pytest.approx(WIDE_M, abs=0.006)
    assert points[hair, 1].min() == pytest.approx(-0.15, abs=0.02)
    behind = hair & (points[..., 2] < PLANE_M - 0.03) & (np.abs(points[..., 0]) < 0.04)
    assert points[behind, 1].min() < -0.12, "the back hangs as low as the sides"
    front = points[hair & (points[..., 1] < -0.08)]
    assert front[:, 2].max() < -0.01, "it falls behind the jaw, not before the face"


def test_hair_over_one_shoulder_stays_there(painted):
    one = curtains(painted, -0.15) & (np.arange(SIZE) > SIZE / 2)
    shape = build_shape(painted.work, seen(painted, one), painted.fit.vertices, painted.head)
    points = shape.points(shape.radius)
    low = (shape.coverage > 0.5) & (np.abs(points[..., 1] + 0.11) < 0.02)
    assert points[low, 0].max() == pytest.approx(WIDE_M, abs=0.006)
    assert points[low & (points[..., 2] > PLANE_M), 0].min() > 0
    assert points[low, 0].min() > -NARROW_M, "behind the neck, which hides it"


def test_the_back_hangs_as_low_as_the_longer_side(painted):
    halves = np.arange(SIZE) > SIZE / 2
    uneven = (curtains(painted, -0.17) & halves) | (curtains(painted, -0.11) & ~halves)
    shape = build_shape(painted.work, seen(painted, uneven), painted.fit.vertices, painted.head)
    points = shape.points(shape.radius)
    hair = shape.coverage > 0.5
    behind = hair & (points[..., 2] < PLANE_M - 0.04) & (np.abs(points[..., 0]) < 0.02)
    assert points[behind, 1].min() < -0.15
    short = hair & (np.abs(points[..., 2] - PLANE_M) < 0.01) & (points[..., 0] < -0.06)
    assert points[short, 1].min() > -0.13


def test_hair_that_ends_above_the_chin_hangs_nowhere(painted):
    shape = build_shape(painted.work, seen(painted, curtains(painted, -0.06)), painted.fit.vertices, painted.head)
    chin = painted.head.landmark_points(painted.fit.vertices)[CHIN, 1]
    assert shape.points(shape.radius)[shape.coverage > 0.5][:, 1].min() > chin


def curtain_seen(painted, yaw_deg, corners):
    """(N, 3) points of the curtain of hair that fills the outline of (M, 3) corners in a photo of a head turned by yaw_deg."""
    vertices, head = painted.fit.vertices, painted.head
    skin, ears = vertices[head.vertex_part == SKIN], vertices[head.regions["ears"] > 0.5]
    chin = float(head.landmark_points(vertices)[CHIN, 1])
    camera = Camera.orbit(np.radians(yaw_deg), 0.0, DISTANCE_M, SIZE, SIZE, 0.5, (0.0, -0.03, PLANE_M))
    drawn = np.zeros((SIZE, SIZE), np.uint8)
    cv2.fillConvexPoly(drawn, cv2.convexHull(np.round(camera.project(corners)[0]).astype(np.int32)), 1)
    centre, scalp = scalp_map(vertices, head)
    rays = ray_directions(*cell_centres(ROWS, COLUMNS))
    found = hanging_curtain(camera, drawn > 0, centre, rays, scalp, skin, ears, chin, np.zeros((ROWS, COLUMNS)))
    assert found is not None
    return (centre + rays * found.radius[..., None])[(found.share > 0.9) & (found.region > 0.5)]


@pytest.mark.parametrize("yaw_deg", [-50, -25, 0, 25, 50])
def test_a_turned_head_shows_the_hairs_back_and_its_width_is_told_from_it(painted, yaw_deg):
    """Hair as wide as it is deep looks the same from every side."""
    around = np.linspace(-np.pi / 2, np.pi / 2, 60)
    x, z = WIDE_M * np.sin(around), PLANE_M - WIDE_M * np.cos(around)
    points = curtain_seen(painted, yaw_deg, np.concatenate([np.c_[x, np.full(60, y), z] for y in (0.02, -0.15)]))
    assert np.abs(points[:, 0]).max() == pytest.approx(WIDE_M, abs=0.012)


@pytest.mark.parametrize(("side", "both"), [(-1, False), (1, True)])
def test_hair_seen_on_one_side_of_a_turned_head_is_taken_over_to_the_side_that_it_hides(painted, side, both):
    corners = np.array([(side * x, y, PLANE_M) for x in (0.04, WIDE_M) for y in (0.02, -0.15)])
    across = side * curtain_seen(painted, 30, corners)[:, 0]
    assert across.max() > NARROW_M
    assert (across.min() < -NARROW_M) == both
