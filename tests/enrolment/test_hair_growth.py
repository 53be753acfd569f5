from dataclasses import replace

import numpy as np
import pytest
from painted_head import paint

from avatar3d.enrolment.hair.assemble import build_hair
from avatar3d.enrolment.hair.flow import hair_flow, parting
from avatar3d.enrolment.hair.grid import cell_centres
from avatar3d.enrolment.hair.growth import TONE_OFFSET, dress
from avatar3d.enrolment.hair.locks import LockMap, trace
from avatar3d.enrolment.hair.locks import paint as paint_locks
from avatar3d.enrolment.hair.shape import COLUMNS, ROWS, build_shape
from avatar3d.enrolment.photo.segment import segment

LIGHT = np.zeros((9, 3))
LIGHT[0], LIGHT[2], LIGHT[3] = 0.9, 0.1, 0.1
SIZE = (144, 256)
CELL_M = 0.002


def flat_maps(angle):
    """An orientation that is the same everywhere on a map of square cells."""
    shape = (72, 128)
    ones = np.ones(shape)
    return np.cos(2 * angle) * ones, np.sin(2 * angle) * ones, 2 * CELL_M * ones, 2 * CELL_M * ones


@pytest.fixture(scope="module")
def painted():
    return paint()


@pytest.fixture(scope="module")
def growth(painted):
    seg = segment(painted.work, painted.matte, painted.hair_seen)
    return build_hair(painted.work, seg, painted.fit, painted.head, LIGHT, 0.6).growth


@pytest.mark.parametrize("angle", [0.0, 0.7, -1.2])
def test_a_path_follows_the_flow_by_equal_steps_and_across_the_maps_edge(angle):
    starts = np.array([[40.0, 70.0], [254.5, 60.0]])
    still = np.zeros(2)
    path = trace(*flat_maps(angle), *SIZE, starts, still, still, 0.003, 8, 1.0)
    step = np.diff(path, axis=1)
    assert np.allclose(step[..., 0], np.sin(angle) * 0.003 / CELL_M, atol=1e-3)
    assert np.allclose(step[..., 1], np.cos(angle) * 0.003 / CELL_M, atol=1e-3)


def test_a_lock_shows_its_source_straightened_and_the_higher_one_lies_on_top():
    maps = flat_maps(0.0)[2:]
    locks = LockMap.empty(*SIZE)
    down = np.stack([np.full(9, 50.0), np.linspace(40, 72, 9)], 1)
    across = np.stack([np.linspace(30, 62, 9), np.full(9, 60.0)], 1)
    paths = np.stack([down, across]).astype(np.float32)
    sources = np.stack([down + (100, 20), down + (150, 0)]).astype(np.float32)
    paint_locks(paths, sources, np.ones((2, 8)), np.full(2, 0.008), np.array([0.2, 0.6]), np.zeros(2), *maps, *SIZE, 0.001, 0.001, 0.0,
                locks.height, locks.source, locks.lock, locks.share)  # fmt: skip
    assert np.allclose(locks.source[0, 46, 51], (151, 66), atol=0.05), "beside and below, as at the source"
    assert locks.lock[0, 60, 50] == 1 and locks.lock[1, 60, 50] == 0
    assert locks.source[0, 60, 50] == pytest.approx((200, 60), abs=0.6), "the crossing lock's own middle, turned"
    assert locks.lock[0, 100, 200] == -1 and tuple(locks.source[0, 100, 200]) == (200, 100)


def test_the_flow_is_the_photos_where_it_shows_hair_and_plumb_behind(painted):
    seg = segment(painted.work, painted.matte, painted.hair_seen)
    shape = build_shape(painted.work, seg, painted.fit.vertices, painted.head)
    flow = hair_flow(painted.work, seg, shape)
    pixels, _ = painted.work.camera.project(shape.points(shape.radius))
    angle = 0.5 * np.arctan2(flow.sin2, flow.cos2)
    around = (np.roll(pixels, -1, 1) - np.roll(pixels, 1, 1)) / 2 / flow.column_m[..., None]
    along = np.gradient(pixels, axis=0) / flow.row_m[..., None]
    drawn = np.sin(angle)[..., None] * around + np.cos(angle)[..., None] * along
    sure = flow.trust > 0.3
    assert sure.sum() > 20
    off = np.degrees(np.arctan2(np.abs(drawn[..., 0]), np.abs(drawn[..., 1])))  # the painted strands are upright
    assert np.median(off[sure]) < 15
    assert np.abs(np.degrees(angle[ROWS // 2, : COLUMNS // 32])).max() < 20


def test_a_parting_is_where_hair_falls_to_both_sides_and_not_where_it_is_swept_to_one():
    theta, colatitude = cell_centres(ROWS, COLUMNS)
    trust = np.where((np.abs(theta) < 1.2) & (colatitude > 0.9), 0.5, 0.0)
    assert parting(trust, 0.8 * np.sign(theta - 0.3)) == pytest.approx(0.3, abs=0.05)
    assert parting(trust, np.full_like(theta, 0.8)) is None
    assert parting(trust, -0.8 * np.sign(theta - 0.3)) is None, "hair that meets is no parting"
    assert parting(0 * trust, 0.8 * np.sign(theta)) is None


def test_what_the_photo_shows_stays_and_what_is_made_has_its_colour_and_contrast(growth):
    rng = np.random.default_rng(3)
    shape = growth.seen.shape
    color = np.full((*shape, 3), 0.5, np.float32)  # what lies where nothing is seen must not matter
    hair = np.array([0.12, 0.07, 0.04]) * np.exp(0.4 * rng.normal(size=(*shape, 1)))
    color[growth.toned > 0] = hair[growth.toned > 0]
    dressed = dress(color, growth)
    kept = (growth.photo > 0.999) & (growth.toned > 0.999)
    assert np.allclose(dressed[kept], color[kept], rtol=0.02, atol=1e-3)
    tone = np.log(dressed + TONE_OFFSET)
    made = growth.covered & (growth.photo == 0)
    made[:, shape[1] // 8 : -shape[1] // 8] = False
    assert made.sum() > 10_000
    assert np.abs(tone[made].mean(0) - tone[kept].mean(0)).max() < 0.25
    assert 0.5 < tone[made].std(0).mean() / tone[kept].std(0).mean() < 1.5


def test_broad_locks_of_the_photo_stay_where_it_sees_them_edge_on(growth):
    rows, columns = growth.seen.shape
    waves = 0.4 * np.sin(np.arange(rows) / rows * 2 * np.pi * 20)[:, None] * np.ones(columns)
    tone = np.log(0.1) + np.where(growth.broad > 0, waves, 0)
    dressed = np.log(dress(np.exp(tone)[..., None].repeat(3, -1).astype(np.float32), growth) + TONE_OFFSET).mean(-1)
    edge_on = (growth.broad > 0.95) & (growth.photo < 0.05)
    assert edge_on.sum() > 1000
    assert np.corrcoef(dressed[edge_on], tone[edge_on])[0, 1] > 0.8


def test_too_little_hair_in_the_photo_still_gets_strands(growth):
    blind = replace(growth, seen=0 * growth.seen, broad=0 * growth.broad, toned=0.01 * growth.toned, photo=0 * growth.photo)
    color = np.full((*growth.seen.shape, 3), 0.1, np.float32)
    dressed = dress(color, blind)
    made = dressed[growth.covered]
    assert np.isfinite(made).all()
    assert 0.02 < made.std() < 0.1
    assert made.mean() == pytest.approx(0.1, abs=0.04)
