import numpy as np

from avatar3d.enrolment.photo.masks import guided_filter, hull, parts_with


def test_the_guided_filter_keeps_a_constant_and_follows_the_guides_edge():
    guide = np.zeros((40, 60, 3))
    guide[:, 30:] = (0.9, 0.5, 0.2)
    assert np.allclose(guided_filter(guide, np.full((40, 60), 0.4), 5, 1e-4), 0.4, atol=1e-3)
    coarse = np.zeros((40, 60))
    coarse[:, 27:] = 1  # three pixels beside the guide's edge
    sharp = guided_filter(guide, coarse, 8, 1e-4)
    assert np.abs(np.diff(sharp[20])).argmax() == 29


def test_parts_are_kept_by_what_they_hold():
    mask = np.zeros((20, 40), bool)
    mask[2:8, 2:8] = mask[2:8, 20:30] = True
    seed = np.zeros_like(mask)
    seed[3:5, 21:23] = True
    assert np.array_equal(parts_with(mask, seed, 4), mask & (np.arange(40) > 10))
    assert not parts_with(mask, seed, 5).any()


def test_a_hull_holds_its_mask_and_bridges_its_gaps():
    mask = np.zeros((20, 40), bool)
    mask[10, 5] = mask[10, 30] = True
    assert hull(mask)[10, 5:31].all()
    assert not hull(np.zeros_like(mask)).any()
