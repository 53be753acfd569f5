"""The statistical face inside the head: modes that keep what must stay closed closed, and a licence that travels with them."""

import hashlib
import tomllib
from pathlib import Path

import numpy as np
import pytest

from avatar3d.head.landmarks import fitting_head
from avatar3d.head.mediapipe import INNER_LIP_LOWER, INNER_LIP_UPPER

ROOT = Path(__file__).resolve().parents[2]
DEVIATIONS = 2.0


@pytest.fixture(scope="module")
def head():
    return fitting_head()


def modes(head):
    """(K, V, 3) metres: what DEVIATIONS of each mode move."""
    chosen = [k for k, name in enumerate(head.identity_names) if name.startswith("ict/")]
    assert len(chosen) == 30
    assert (head.identity_upper[chosen] >= DEVIATIONS).all() and (head.identity_lower[chosen] <= -DEVIATIONS).all()
    return DEVIATIONS * np.stack([np.asarray(head.bind @ head.control_identity[k]) for k in chosen])


def test_no_mode_opens_the_lips(head):
    for mode in modes(head):
        moved = head.landmark_points(mode)
        assert np.abs(moved[list(INNER_LIP_UPPER), 1] - moved[list(INNER_LIP_LOWER), 1]).max() < 0.0004


def test_eyeballs_go_where_their_lids_go(head):
    lids = head.regions["eyelids"] > 0.9
    for mode in modes(head):
        for sign, ball in zip((1, -1), head.eye_vertices, strict=True):
            ring = lids & (np.sign(head.vertices[:, 0]) == sign)
            assert np.ptp(mode[ball], axis=0).max() < 5e-5, "a ball moves whole"
            assert np.linalg.norm(mode[ball].mean(0) - mode[ring].mean(0)) < 0.001


def test_the_modes_are_what_faces_differ_in_most(head):
    face = head.regions["face"] > 0.5
    size = np.sqrt((modes(head)[:, face] ** 2).sum(2).mean(1)) / DEVIATIONS
    assert size[:3].min() > 3 * size[-5:].mean() and 0.001 < size[0] < 0.006


def test_the_licence_travels_with_the_modes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import head_statistics

    assert hashlib.sha256(head_statistics.MODES_FILE.read_bytes()).hexdigest() == head_statistics.MODES_SHA256
    assert "Copyright (c) 2020 USC Institute for Creative Technologies" in (ROOT / "assets" / "ICT_LICENSE").read_text()
    assert "assets/ICT_LICENSE" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
