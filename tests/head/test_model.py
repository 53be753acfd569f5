"""The default head: what fits, renderers and files rely on."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.errors import InputError
from avatar3d.head.archive import load_head
from avatar3d.head.model import EYES, HEAD_PARTS, KAPPA_RAD, LASHES, MOUTH_BAG, SKIN, TEETH, TONGUE, HeadModel
from avatar3d.motion.code import ARKIT_NAMES
from avatar3d.motion.rotation import eye_rotation
from avatar3d.resources import asset_path

from .raster import backside_pixels, directions, seen_triangles


@pytest.fixture(scope="module")
def head() -> HeadModel:
    return HeadModel.default()


def expression(head: HeadModel, **weights: float) -> np.ndarray:
    """Neutral vertices with ARKit weights; a name without Left or Right sets both."""
    values = np.zeros(52, np.float32)
    for name, value in weights.items():
        for k, known in enumerate(head.expression_names):
            if known in (name, f"{name}Left", f"{name}Right"):
                values[k] = value
    return head.vertices + head.expression_offsets(values)


def people(head: HeadModel, count: int) -> list[np.ndarray]:
    """Random plausible heads."""
    rng = np.random.default_rng(5)
    spread = 0.12 * np.minimum(head.identity_sigma, 1.0)
    return [
        head.shape(np.clip(rng.normal(size=len(spread)) * spread, head.identity_lower, head.identity_upper).astype(np.float32))
        for _ in range(count)
    ]


def rim_points(head: HeadModel) -> tuple[np.ndarray, np.ndarray]:
    """Landmark numbers of the subject's left upper and lower lid, paired from the inner to the outer side."""
    return np.array([385, 386, 387]), np.array([380, 374, 373])


def test_the_asset_is_small_and_its_arrays_agree(head):
    assert asset_path("head.npz").stat().st_size <= 1_500_000
    count, triangles = len(head.vertices), len(head.faces)
    assert 10_000 <= triangles <= 15_000
    assert head.faces.min() == 0 and head.faces.max() == count - 1
    for array in (head.uv, head.weld, head.mirror, head.head_weight, head.vertex_part):
        assert len(array) == count
    assert len(head.part) == triangles and set(np.unique(head.part)) == set(range(len(HEAD_PARTS)))
    assert head.expression.shape == (52, count, 3) and head.expression_names == ARKIT_NAMES
    assert head.identity.shape == (len(head.identity_names), count, 3)
    assert head.uv.min() >= 0 and head.uv.max() <= 1
    assert np.array_equal(head.vertex_part[head.faces], np.repeat(head.part[:, None], 3, 1))


def test_the_origin_is_between_the_eyes_and_the_head_is_life_size(head):
    left, right = head.eye_centres(head.vertices)
    np.testing.assert_allclose((left + right) / 2, 0, atol=1e-6)
    assert left[0] > 0.025 and np.linalg.norm(left - right) < 0.070
    skin = head.vertices[head.vertex_part == SKIN]
    assert 0.09 < skin[:, 1].max() < 0.16 and -0.26 < skin[:, 1].min() < -0.20
    np.testing.assert_allclose(head.eye_radii(head.vertices)[0], head.eye_radii(head.vertices)[1], atol=1e-6)


def test_bounds_hold_the_average_and_the_prior(head):
    assert (head.identity_lower <= 0).all() and (head.identity_upper >= 0).all()
    assert (head.identity_lower < head.identity_upper).all()
    assert (head.identity_sigma > 0).all() and (head.identity_mean == 0).all()


def test_shape_is_linear_and_agrees_with_the_basis(head):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=len(head.identity_names)).astype(np.float32) * 0.1
    np.testing.assert_allclose(head.shape(weights), head.vertices + np.tensordot(weights, head.identity, 1), atol=2e-6)
    assert np.array_equal(head.shape(np.zeros_like(weights)), head.vertices)
    with pytest.raises(InputError, match="identity coefficients"):
        head.shape(np.zeros(3))


def test_weld_joins_copies_of_one_point_and_every_head_keeps_them_together(head):
    assert np.array_equal(head.weld[head.weld], head.weld) and (head.weld <= np.arange(len(head.weld))).all()
    for vertices in people(head, 2):
        np.testing.assert_allclose(vertices[head.weld], vertices, atol=1e-6)


def test_the_template_and_the_mirror_are_symmetric(head):
    assert np.array_equal(head.mirror[head.mirror][head.vertex_part == SKIN], np.flatnonzero(head.vertex_part == SKIN))
    np.testing.assert_allclose(head.vertices[head.mirror] * [-1, 1, 1], head.vertices, atol=5e-5)
    assert np.array_equal(head.vertex_part[head.mirror], head.vertex_part)


def test_left_in_arkit_is_the_subjects_left(head):
    for k, name in enumerate(head.expression_names):
        moved = np.linalg.norm(head.expression[k], axis=1)
        weight = (moved**2) / (moved**2).sum()
        side = weight @ np.sign(head.vertices[:, 0])
        if name.startswith("eye") and name.endswith("Left"):
            assert side > 0.9, name
        if name.startswith("eye") and name.endswith("Right"):
            assert side < -0.9, name
    jaw = head.expression[head.expression_names.index("jawLeft")]
    assert jaw[head.vertex_part == TEETH][:, 0].max() > 0.002


def test_left_and_right_shapes_mirror_each_other(head):
    for name in ("eyeBlink", "mouthSmile", "browDown", "mouthFrown"):
        left = head.expression[head.expression_names.index(name + "Left")]
        right = head.expression[head.expression_names.index(name + "Right")]
        skin = head.vertex_part == SKIN
        error = np.linalg.norm(left[head.mirror][skin] * [-1, 1, 1] - right[skin], axis=1)
        assert np.median(error) < 2e-4 and error.max() < 2e-3, name


def test_eyeballs_are_spheres_and_no_expression_moves_them(head):
    assert not head.expression[:, head.vertex_part == EYES].any()
    for vertices in [head.vertices, *people(head, 2)]:
        eyes = zip(head.eye_vertices, head.eye_uv, head.eye_centres(vertices), head.eye_radii(vertices), strict=True)
        for index, disc, centre, radius in eyes:
            distance = np.linalg.norm(vertices[index] - centre, axis=1)
            cornea = disc.polar(head.uv[index])[0] < np.radians(22.9)
            np.testing.assert_allclose(distance[~cornea], radius, atol=2e-5)
            # The cornea stands before the ball, highest in its middle.
            assert (distance[cornea] - radius).min() > 0 and 5e-4 < (distance[cornea] - radius).max() < 1.2e-3
            assert 0.011 < radius < 0.018


def test_a_blink_closes_the_lids_and_the_ball_stays_behind_them(head):
    upper, lower = rim_points(head)
    open_, shut = (head.landmark_points(v) for v in (head.vertices, expression(head, eyeBlink=1.0)))
    assert (open_[upper, 1] - open_[lower, 1]).min() > 0.005
    assert (shut[upper, 1] - shut[lower, 1]).max() < 0.001
    for vertices in people(head, 2):
        closed = vertices + expression(head, eyeBlink=1.0) - head.vertices
        solid = head.part != LASHES
        seen = seen_triangles(closed, head.faces[solid], np.array([0.0, 0.0, 1.0]), 500)
        part = head.part[solid][seen[seen >= 0]]
        assert (part == EYES).sum() <= 3


def test_the_jaw_opens_and_carries_the_lower_teeth(head):
    neutral, opened = head.vertices, expression(head, jawOpen=1.0)
    gap = head.landmark_points(opened)[13, 1] - head.landmark_points(opened)[14, 1]
    assert gap > 0.020
    teeth = np.flatnonzero(head.vertex_part == TEETH)
    moved = np.linalg.norm(opened[teeth] - neutral[teeth], axis=1)
    assert (moved < 1e-6).sum() > 0.4 * len(teeth)  # the upper row stays
    assert moved.max() > 0.015


def mouth_pixels(head: HeadModel, vertices: np.ndarray, towards: np.ndarray, size: int = 500) -> dict[str, int]:
    """Pixels of teeth and tongue seen from `towards`, and "poking": teeth right before the outer skin."""
    solid = head.part != LASHES
    faces, part = head.faces[solid], head.part[solid]
    soft = part != TEETH
    seen = seen_triangles(vertices, faces, towards, size)
    behind = seen_triangles(vertices, faces[soft], towards, size)
    kind = np.where(seen >= 0, part[seen], -1)
    teeth = (kind == TEETH) & (behind >= 0)
    height = vertices[faces].mean(1) @ towards
    height_soft = vertices[faces[soft]].mean(1) @ towards
    close = height[seen] - height_soft[behind] < 0.006  # the far lip's inside lies deeper
    poking = teeth & (part[soft][behind] == SKIN) & close
    return {"teeth": int((kind == TEETH).sum()), "tongue": int((kind == TONGUE).sum()), "poking": int(poking.sum())}


FRONT = np.array([0.0, 0.0, 1.0])


def test_teeth_and_tongue_hide_behind_closed_lips(head):
    for vertices in [head.vertices, *people(head, 2), expression(head, mouthSmile=1.0), expression(head, mouthPucker=1.0)]:
        seen = mouth_pixels(head, vertices, FRONT)
        assert seen["teeth"] + seen["tongue"] <= 20  # at most a glint at the corners of the mouth


def rows(head: HeadModel) -> tuple[np.ndarray, np.ndarray]:
    """Upper and lower incisors' vertices: the jaw carries the lower."""
    teeth = np.flatnonzero((head.vertex_part == TEETH) & (np.abs(head.vertices[:, 0]) < 0.005))
    carried = np.linalg.norm(head.expression[head.expression_names.index("jawOpen")][teeth], axis=1) > 1e-3
    return teeth[~carried], teeth[carried]


def test_the_upper_incisors_hang_under_the_lip_and_before_the_lower_ones(head):
    upper, lower = (head.vertices[row] for row in rows(head))
    lip = head.landmark_points(head.vertices)[13, 1]
    assert 0.002 < lip - upper[:, 1].min() < 0.006
    assert 0.0015 < lower[:, 1].max() - upper[:, 1].min() < 0.0040  # overbite
    assert 0.0015 < upper[:, 2].max() - lower[:, 2].max() < 0.0040  # overjet


def test_a_raised_lip_bares_the_upper_row_and_an_open_jaw_both_rows_and_the_tongue(head):
    upper, lower = rows(head)
    grin = expression(head, mouthSmile=0.8, mouthUpperUp=0.6, mouthLowerDown=0.4)
    points = head.landmark_points(grin)
    assert points[13, 1] - grin[upper, 1].min() > 0.006
    assert grin[lower, 1].max() < points[14, 1] + 0.003
    assert mouth_pixels(head, grin, FRONT)["teeth"] > 200
    opened = expression(head, jawOpen=0.7)
    points = head.landmark_points(opened)
    assert opened[upper, 1].min() < points[13, 1] - 0.002 and opened[lower, 1].max() > points[14, 1] + 0.001
    assert mouth_pixels(head, opened, FRONT)["tongue"] > 200


@pytest.mark.parametrize("weights", [
    {}, {"mouthSmile": 1}, {"mouthSmile": 1, "mouthUpperUp": 1}, {"mouthPucker": 1}, {"mouthFunnel": 1},
    {"mouthRollLower": 1, "mouthRollUpper": 1}, {"jawOpen": 1}, {"jawOpen": 0.6, "mouthSmile": 1},
    {"jawOpen": 0.6, "mouthFunnel": 1}, {"jawOpen": 0.5, "mouthClose": 0.5}, {"jawLeft": 1}, {"mouthPress": 1},
], ids=lambda weights: "+".join(weights) or "neutral")  # fmt: skip
def test_no_tooth_pokes_through_a_lip_or_cheek(head, weights):
    moved = expression(head, **weights) - head.vertices
    for vertices in (head.vertices, people(head, 1)[0]):
        for towards in ([0, 0, 1], [0, -0.6, 1], [0.8, 0, 1], [2, 0, 1]):
            direction = np.array(towards, float) / np.linalg.norm(towards)
            assert mouth_pixels(head, vertices + moved, direction)["poking"] == 0, towards


def test_the_upper_lid_covers_the_rim_of_the_iris(head):
    upper, lower = rim_points(head)
    centre = head.eye_centres(head.vertices)[0]
    points = head.landmark_points(head.vertices) - centre
    assert 0.0030 < points[upper[1], 1] < head.iris_radius
    assert -0.0075 < points[lower[1], 1] < -0.0045


@pytest.mark.parametrize("which", ["neutral", "jawOpen", "person"])
def test_no_hole_shows_the_inside_of_the_head(head, which):
    vertices = {"neutral": head.vertices, "jawOpen": expression(head, jawOpen=1.0), "person": people(head, 1)[0]}[which]
    solid = head.part != LASHES
    faces, watched = head.faces[solid], np.isin(head.part[solid], [SKIN, MOUTH_BAG])
    for towards in directions():
        assert backside_pixels(vertices, faces, watched, towards, size=200) == 0, towards


@pytest.mark.slow
def test_nothing_pokes_through_the_skin_of_unlike_people(head):
    solid = head.part != LASHES
    faces, part = head.faces[solid], head.part[solid]
    for name in ("african-male-young", "asian-female-young", "caucasian-male-old"):
        weights = np.zeros(len(head.identity_names), np.float32)
        weights[head.identity_names.index(f"macro/{name}")] = 0.7
        vertices = head.shape(weights)
        for towards in directions():
            seen = part[np.setdiff1d(seen_triangles(vertices, faces, towards, 200), [-1])]
            inside = np.isin(seen, [TEETH, TONGUE])
            assert inside.sum() <= 2, (name, towards)  # a glint at the corners of the mouth


def test_normals_are_unit_smooth_over_seams_and_outward(head):
    normals = head.normals(head.vertices)
    used = np.unique(head.faces)
    np.testing.assert_allclose(np.linalg.norm(normals[used], axis=1), 1, atol=1e-4)
    assert np.array_equal(normals, normals[head.weld])
    nose = np.argmax(np.where(head.vertex_part == SKIN, head.vertices[:, 2], -1))
    assert normals[nose, 2] > 0.8


def test_the_outer_skin_fills_most_of_the_atlas_without_overlap(head):
    corner = head.uv[head.faces]
    a, b = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
    area = (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    places = head.vertices[head.faces].mean(1)
    face = (head.part == SKIN) & (places[:, 2] > -0.03) & (places[:, 1] > -0.12)
    assert (area[face] < 0).mean() > 0.97  # v runs down, so counter-clockwise triangles have negative area
    assert np.abs(area[face]).sum() > 0.30
    size = (
        np.linalg.norm(np.cross(*(head.vertices[head.faces[:, k]] - head.vertices[head.faces[:, 0]] for k in (1, 2))), axis=1)
        / 2
    )
    texels_per_mm = 1.024 * np.sqrt(np.abs(area[face]) / size[face])
    assert np.median(texels_per_mm) > 2.0
    solid = np.isin(head.part, [SKIN, EYES, MOUTH_BAG, TONGUE])
    flat = np.c_[head.uv[:, 0], -head.uv[:, 1], np.arange(len(head.uv)) * 1e-9]
    seen = seen_triangles(flat, head.faces[solid], np.array([0.0, 0.0, 1.0]), 600)
    covered = (seen >= 0).mean() * (598 / 600) ** -2
    assert abs(covered - np.abs(area[solid]).sum() / np.ptp(head.uv[:, 0]) ** 2) < 0.02


def test_eye_discs_map_polar_angles_back_and_forth(head):
    eyes = zip(head.eye_vertices, head.eye_uv, head.eye_centres(head.vertices), (KAPPA_RAD, -KAPPA_RAD), strict=True)
    for index, disc, centre, outward in eyes:
        direction = (head.vertices[index] - centre) @ eye_rotation(outward, 0.0)  # about the eyeball's axis
        polar, azimuth = disc.polar(head.uv[index])
        expected = np.arctan2(np.hypot(direction[:, 0], direction[:, 1]), direction[:, 2])
        np.testing.assert_allclose(polar, expected, atol=2e-3)
        np.testing.assert_allclose(disc.place(polar, azimuth), head.uv[index], atol=1e-5)
        front = (expected > 0.2) & (expected < 1.5)
        np.testing.assert_allclose(np.cos(azimuth - np.arctan2(direction[:, 1], direction[:, 0]))[front], 1, atol=1e-4)


def test_regions_are_soft_masks_of_the_right_places(head):
    wanted = {"face", "scalp", "ears", "neck", "bust", "lips", "inner_mouth", "eyelids", "eye_contour", "brows", "forehead",
              "cheeks", "nose", "chin", "lashes"}  # fmt: skip
    assert set(head.regions) == wanted
    for name, value in head.regions.items():
        assert value.shape == (len(head.vertices),) and value.min() >= 0 and value.max() <= 1
        assert (value > (0.5 if name == "lashes" else 0.9)).sum() >= 20, name
        np.testing.assert_allclose(value[head.mirror], value, atol=0.03, err_msg=name)
    assert head.regions["scalp"][np.argmax(head.vertices[:, 1])] == 1
    height = {name: np.average(head.vertices[:, 1], weights=value) for name, value in head.regions.items()}
    order = ("forehead", "brows", "nose", "lips", "chin", "neck", "bust")
    assert sorted(order, key=height.__getitem__, reverse=True) == list(order)


def test_head_weight_is_one_on_the_head_and_none_at_the_bottom(head):
    y, skin = head.vertices[:, 1], head.vertex_part == SKIN
    assert (head.head_weight[~skin] == 1).all() and (head.head_weight[y > -0.06] == 1).all()
    assert (head.head_weight[skin & (y < -0.2)] == 0).all()


def test_landmarks_lie_on_the_skin_symmetrically(head):
    assert (head.vertex_part[head.landmark_tri] == SKIN).all()
    np.testing.assert_allclose(head.landmark_bary.sum(1), 1, atol=1e-5)
    assert head.landmark_bary.min() >= -1e-5
    points = head.landmark_points(head.vertices)
    for right, left in ((33, 263), (133, 362), (61, 291), (234, 454), (70, 300), (159, 386)):
        np.testing.assert_allclose(points[right] * [-1, 1, 1], points[left], atol=1e-4)
        assert points[left, 0] > points[right, 0]
    for middle in (1, 4, 10, 152, 13, 14, 168):
        assert abs(points[middle, 0]) < 1e-4
    assert points[10, 1] > points[168, 1] > points[4, 1] > points[13, 1] > points[14, 1] > points[152, 1]
    eye = head.eye_centres(head.vertices)[0]
    inner, outer, top, bottom = points[[362, 263, 386, 374]]
    assert inner[0] < eye[0] < outer[0] and bottom[1] < eye[1] < top[1]
    assert np.linalg.norm(head.vertices[head.vertex_part == SKIN][:, 2].max() - points[4, 2]) < 0.006


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_subdivision_refines_the_skin_and_keeps_welds(head, levels):
    fine = head.subdivided(levels)
    base = np.isin(head.part, [SKIN, MOUTH_BAG]).sum()
    assert len(fine.faces) == base * 4**levels and len(fine.part) == len(fine.faces)
    np.testing.assert_allclose(fine.matrix.sum(1), 1, atol=1e-9)
    vertices = fine.matrix @ head.vertices
    np.testing.assert_allclose(vertices[fine.weld], vertices, atol=1e-6)
    skin = head.vertices[np.unique(head.faces[np.isin(head.part, [SKIN, MOUTH_BAG])])]
    assert np.abs(vertices.min(0) - skin.min(0)).max() < 0.006 and fine.uv.shape == (len(vertices), 2)


def test_subdivision_refuses_a_silly_depth(head):
    with pytest.raises(InputError, match="0 to 3"):
        head.subdivided(7)


def test_a_file_that_is_no_head_is_refused(tmp_path):
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"not a zip")
    with pytest.raises(InputError, match="not a head asset"):
        load_head(broken)
    other = tmp_path / "other.npz"
    np.savez(other, vertices=np.zeros((3, 3)))
    with pytest.raises(InputError, match="missing"):
        load_head(other)
    with pytest.raises(InputError):
        load_head(tmp_path / "absent.npz")
