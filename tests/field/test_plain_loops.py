"""What a viewer without numba computes in numpy is what the compiled loops give, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.field import loops, plain_loops, shells
from avatar3d.head import HeadModel


@pytest.fixture(params=["the default head", "faces that overlap, have no area or lie outside"])
def atlas(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    """(faces, uv)."""
    if request.param.startswith("the"):
        head = HeadModel.default()
        return head.faces.astype(np.int64), head.uv.astype(np.float64)
    random = np.random.default_rng(0)
    faces = random.integers(0, 60, (200, 3))
    return faces, random.uniform(-0.3, 1.3, (60, 2)).round(2)


def test_texels_are_held_by_the_same_faces(atlas: tuple[np.ndarray, np.ndarray]) -> None:
    faces, uv = atlas
    found = []
    for way in (loops, plain_loops):
        owner, barycentric = np.full((96, 128), -1), np.zeros((96, 128, 3), np.float32)
        way.hold_texels(uv[faces] * np.array([128.0, 96.0]), owner, barycentric)
        found.append((owner, barycentric))
    assert (found[0][0] >= 0).mean() > 0.3
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_attributes_are_mixed_alike(atlas: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    faces, uv = atlas
    attribute = np.random.default_rng(1).normal(size=(len(uv), 5)).astype(np.float32)
    compiled = shells.uv_raster(faces, uv, (96, 128))
    wanted = compiled.interpolate(faces, attribute)
    monkeypatch.setattr(shells, "find_spec", lambda name: None)
    plain = shells.uv_raster(faces, uv, (96, 128))
    np.testing.assert_array_equal(plain.texel, compiled.texel)
    np.testing.assert_array_equal(plain.interpolate(faces, attribute), wanted)
