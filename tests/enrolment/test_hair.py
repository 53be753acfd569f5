from dataclasses import replace

import numpy as np
import pytest
from painted_head import HAIR, paint

from avatar3d.enrolment.hair.assemble import build_hair
from avatar3d.enrolment.hair.grid import MAX_COLATITUDE_RAD, ray_angles
from avatar3d.enrolment.photo.segment import segment

LIGHT = np.zeros((9, 3))
LIGHT[0], LIGHT[2], LIGHT[3] = 0.9, 0.1, 0.1
POWER = 0.6


@pytest.fixture(scope="module")
def painted():
    return paint()


@pytest.fixture(scope="module")
def result(painted):
    return build_hair(
        painted.work, segment(painted.work, painted.matte, painted.hair_seen), painted.fit, painted.head, LIGHT, POWER
    )


def opacity_at(shells, level, theta, colatitude):
    rows, columns = shells.opacity.shape[1:]
    x = int((theta / np.pi + 1) / 2 * columns) % columns
    y = min(int(colatitude / MAX_COLATITUDE_RAD * rows), rows - 1)
    return shells.opacity[level, y, x]


def test_the_projected_outline_meets_the_mask(result):
    assert result.silhouette_error_mm < 1.8
    assert result.iou > 0.97


def test_the_shells_are_a_sound_surface(result):
    shells = result.shells
    a, b, c = (shells.base[shells.faces[:, corner]].astype(np.float64) for corner in range(3))
    normal = np.cross(b - a, c - a)
    assert (np.linalg.norm(normal, axis=1) > 1e-9).all(), "a triangle without area"
    centre = shells.base.mean(0)
    assert ((normal * (a - centre)).sum(1) > 0).mean() > 0.97, "faces are counter-clockwise from outside"
    assert np.allclose(shells.base, shells.base[shells.weld], atol=1e-6)
    assert len(np.unique(shells.faces)) == len(shells.base)
    assert shells.levels[0] == 0 and (np.diff(shells.levels) > 0).all() and shells.levels[-1] <= 1.2
    assert ((shells.extent * (shells.base - centre)).sum(1) > 0).all(), "layers lie outside the base"


def test_the_seam_shows_the_same_texels_on_both_sides(result):
    shells = result.shells
    jump = np.abs(shells.color[:, 0].astype(int) - shells.color[:, -1]).mean()
    inner = np.abs(shells.color[:, 400].astype(int) - shells.color[:, 401]).mean()
    assert jump < 2.5 * inner + 1


def test_crown_and_back_are_covered_and_the_face_is_free(result):
    for theta, colatitude in ((0.0, 0.05), (np.pi - 0.01, 0.6), (-np.pi + 0.01, 1.2), (1.6, 0.8), (-1.6, 0.8)):
        assert opacity_at(result.shells, 0, theta, colatitude) == 255
    eyes_and_mouth = ((0.3, 2.0), (-0.3, 2.0), (0.0, 2.4))
    for theta, colatitude in eyes_and_mouth:
        assert all(opacity_at(result.shells, level, theta, colatitude) == 0 for level in range(len(result.shells.levels)))


def test_the_made_up_back_has_the_photos_colour_and_contrast(painted, result):
    color = result.shells.color.astype(np.float64)
    back, front = color[150:260, :200], color[150:230, 440:580]
    assert np.abs(back.mean((0, 1)) - front.mean((0, 1))).max() < 14
    assert np.abs(front.mean((0, 1)) - HAIR).max() < 25, "albedo under light of mean 1 stays near the photo"
    fine = [np.abs(np.diff(part.mean(-1), axis=1)).mean() for part in (back, front)]
    assert 0.4 < fine[0] / fine[1] < 2.5


def test_no_skin_pokes_through_covered_hair_and_the_face_does_not_move(painted, result):
    head, shells = painted.head, result.shells
    centre = np.array([0.0, painted.fit.vertices[head.regions["ears"] < 0.3, 1].max() - 0.088, 0.0])
    moved = painted.fit.neutral_vertices + result.tuck_offsets
    assert not result.tuck_offsets[head.regions["lips"] > 0.5].any()
    assert not result.tuck_offsets[head.regions["eyelids"] > 0.5].any()
    covered = (result.scalp_mask > 0.99) & (head.regions["scalp"] > 0.5)
    assert covered.sum() > 100
    to_corners = np.linalg.inv((shells.base[shells.faces] - centre).transpose(0, 2, 1).astype(np.float64))
    for vertex in np.flatnonzero(covered)[::5]:
        shares = to_corners @ (moved[vertex] - centre)  # of each face's corners, which sum to 1 on its plane
        assert shares[(shares > -1e-6).all(1)].sum(1).min() < 1, "on the hair's side of the base"


def test_hair_is_the_same_every_time(painted, result):
    again = build_hair(
        painted.work, segment(painted.work, painted.matte, painted.hair_seen), painted.fit, painted.head, LIGHT, POWER
    )
    assert np.array_equal(again.shells.color, result.shells.color)
    assert np.array_equal(again.shells.base, result.shells.base)


def test_a_bald_head_gets_no_shells_and_nothing_moves():
    bald = paint(hair=None)
    result = build_hair(bald.work, segment(bald.work, bald.matte, bald.hair_seen), bald.fit, bald.head, LIGHT, POWER)
    assert result.shells is None
    assert not result.scalp_mask.any() and not result.tuck_offsets.any()
    assert result.notes


def test_shell_textures_are_small_enough_for_the_file(result):
    assert result.shells.color.nbytes <= 2 << 20
    assert result.shells.opacity.nbytes <= 2 << 20


def test_points_of_the_mesh_lie_on_the_ray_their_texture_place_names(result):
    shells = result.shells
    outward = shells.extent / np.linalg.norm(shells.extent, axis=1, keepdims=True)
    theta, colatitude = ray_angles(outward.astype(np.float64))
    inner = colatitude > 0.1
    assert np.allclose(shells.uv[inner, 1], colatitude[inner] / MAX_COLATITUDE_RAD, atol=1e-3)
    turn = np.abs((theta[inner] / np.pi + 1) / 2 - shells.uv[inner, 0])
    assert (np.minimum(turn, 1 - turn) < 1e-3).all()


def test_hair_over_the_ears_goes_down_to_the_nape_behind_them():
    head = paint()
    rows = [int(head.work.camera.project(np.array([[0.0, y, 0.0]]))[0][0, 1]) for y in (0.04, -0.02)]
    beside = np.zeros_like(head.hair)
    beside[rows[0] : rows[1]] = True
    columns = np.abs(head.work.landmarks_px[[234, 454], 0] - 320).min()
    beside &= (np.abs(np.arange(640) - 320) > columns - 6) & (np.abs(np.arange(640) - 320) < columns + 45)
    rgb = head.work.rgb.copy()
    rgb[beside] = HAIR
    matte = np.maximum(head.matte, beside.astype(np.float32))
    work = replace(head.work, rgb=rgb)
    seen = replace(head, hair=head.hair | beside).hair_seen
    shells = build_hair(work, segment(work, matte, seen), head.fit, head.head, LIGHT, POWER).shells
    points = head.head.vertices
    ears, skin = points[head.head.regions["ears"] > 0.5], points[head.head.vertex_part == 0]
    low = np.abs(skin[:, 1] - ears[:, 1].min() + 0.004) < 0.006
    behind = skin[low & (np.abs(skin[:, 0]) < 0.02) & (skin[:, 2] < ears[:, 2].min())]
    upper = skin[skin[:, 1] > 0.01]
    centre = np.array([0.0, skin[:, 1].max() - 0.088, (upper[:, 2].min() + upper[:, 2].max()) / 2])
    theta, colatitude = ray_angles(behind - centre)
    assert len(behind) > 2
    levels = range(len(shells.levels))
    through = [
        np.prod([1 - opacity_at(shells, level, *angles) / 255 for level in levels])
        for angles in zip(theta, colatitude, strict=True)
    ]
    assert np.mean(through) < 0.2, "strands end unevenly, but they hide the skin"
