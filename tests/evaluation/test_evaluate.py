"""The whole evaluation over a ray-cast sphere: its figures, its ranking, and a report that is one file and whole."""

from __future__ import annotations

import dataclasses
import json
import re

import imageio.v3 as imageio
import numpy as np
import pytest
from analytic import SphereRenderer
from make_avatar import synthetic_avatar

from avatar3d.errors import InputError
from avatar3d.evaluation import EvaluateOptions, evaluate
from avatar3d.evaluation.protocol import rank, seen_share
from avatar3d.evaluation.report import check_folder

OPTIONS = EvaluateOptions(size_px=192, view_height_m=0.26, keys=((-20.0, {}), (15.0, {"jawOpen": 0.5})), turntable=4)
KEYS = {"rmse_255", "rmse_255_view_term", "vertical_disparity_px_p95", "disparity_error_px_p95", "covisible_fraction"}


@pytest.fixture(scope="module")
def avatar():
    return synthetic_avatar()


@pytest.fixture(scope="module")
def report(avatar, tmp_path_factory):
    """(result, folder) of an evaluation of a sphere with a highlight."""
    folder = tmp_path_factory.mktemp("evaluate") / "new" / "report"
    seen = []
    result = evaluate(avatar, folder, SphereRenderer(gloss=0.1), OPTIONS, lambda fraction, label: seen.append(fraction))
    assert seen == sorted(seen) and seen[0] == 0 and seen[-1] <= 1
    return result, folder


def test_it_prints_the_keys_that_the_design_names(report):
    result, folder = report
    assert {"report", "stereo", "controls", "ranked_correctly", "seconds"} <= set(result)
    assert set(result["stereo"]) >= KEYS
    assert set(result["controls"]) == {"billboard", "per_eye_generator", "wrong_ipd", "mesh"}
    assert all(set(figures) >= KEYS for figures in result["controls"].values())
    assert json.loads(json.dumps(result)) == json.loads((folder / "report.json").read_text())
    assert result["report"] == str(folder / "index.html")


def test_a_consistent_head_meets_the_goals_and_the_controls_do_not(report):
    result, _ = report
    stereo, controls = result["stereo"], result["controls"]
    assert stereo["rmse_255"] <= 1 and stereo["vertical_disparity_px_p95"] <= 0.05 and stereo["disparity_error_px_p95"] <= 0.1
    assert result["ranked_correctly"] is True and all(result["goals_met"].values())
    assert controls["billboard"]["disparity_error_px_p95"] > 1
    assert controls["per_eye_generator"]["vertical_disparity_px_p95"] > 0.5
    assert controls["mesh"]["rmse_255"] <= 1
    # The right eye stands half an IPD too far: f · 0.5 · IPD / depth is 25 pixels here.
    assert controls["wrong_ipd"]["disparity_error_px_p95"] > 20


def test_what_depends_on_the_view_is_seen_in_its_own_figure(report):
    stereo = report[0]["stereo"]
    assert stereo["rmse_255_view_term"] > 1 > stereo["rmse_255"]


def test_the_page_is_one_file_that_asks_nothing_of_a_network(report):
    page = (report[1] / "index.html").read_text()
    references = re.findall(r"(?:src|href)\s*=\s*[\"']?([^\"'>]{0,40})", page)
    assert len(references) > 10 and all(value.startswith("data:image/") for value in references)
    assert not re.search(r"<script|<link|<iframe|@import|url\(", page)
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page


def test_the_pictures_open(report):
    pictures = sorted((report[1] / "pictures").iterdir())
    pair = next(path for path in pictures if path.name == "0_avatar_pair.jpg")
    assert imageio.imread(pair).shape == (192, 384, 3)
    heat = imageio.imread(report[1] / "pictures" / "1_billboard_difference.png")
    assert heat.shape == (192, 192, 3) and len(np.unique(heat.reshape(-1, 3), axis=0)) > 50
    assert len(pictures) == 2 * 5 * 2 + 1


def test_a_report_replaces_what_the_last_one_wrote_and_nothing_else(avatar, tmp_path):
    quick = dataclasses.replace(OPTIONS, size_px=64, keys=((0.0, {}), (10.0, {})), turntable=0)
    folder = tmp_path / "report"
    evaluate(avatar, folder, SphereRenderer(), quick)
    before = {path.name for path in (folder / "pictures").iterdir()}
    (folder / "thesis.txt").write_text("precious")
    (folder / "pictures" / "mine.png").write_text("precious")
    evaluate(avatar, folder, SphereRenderer(), dataclasses.replace(quick, keys=((0.0, {}),)))
    assert sorted(path.name for path in folder.iterdir()) == ["index.html", "pictures", "report.json", "thesis.txt"]
    after = {path.name for path in (folder / "pictures").iterdir()}
    assert "mine.png" in after and after - {"mine.png"} < before  # the second view's pictures are gone
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize(
    "holds", [{}, {"report.json": "{}"}, {"report.json": "not JSON"}, {"report.json": '{"ranking_rule": 1}'}]
)
def test_a_folder_with_other_things_is_left_alone(holds, tmp_path):
    (tmp_path / "photos").mkdir()
    for name, text in {"me.jpg": "precious", **holds}.items():
        (tmp_path / "photos" / name).write_text(text)
    with pytest.raises(InputError, match="holds other things"):
        check_folder(tmp_path / "photos")


def test_a_list_that_points_outside_deletes_nothing(avatar, tmp_path):
    quick = dataclasses.replace(OPTIONS, size_px=64, keys=((0.0, {}),), turntable=0)
    (tmp_path / "mine.txt").write_text("precious")
    evaluate(avatar, tmp_path / "report", SphereRenderer(), quick)
    data = tmp_path / "report" / "report.json"
    written = json.loads(data.read_text())
    data.write_text(json.dumps({**written, "files": [*written["files"], "../mine.txt", str(tmp_path / "mine.txt")]}))
    evaluate(avatar, tmp_path / "report", SphereRenderer(), quick)
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    for target, sentence in (
        ("file", "a file is there"),
        ("file/below", "name another folder|not a folder"),
        ("x" * 300, "too long"),
    ):
        with pytest.raises(InputError, match=sentence):
            check_folder(tmp_path / target)


def test_work_that_fails_leaves_nothing(avatar, tmp_path, monkeypatch):
    from avatar3d.evaluation import report

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(report, "_page", fail)
    with pytest.raises(OSError, match="disk full"):
        evaluate(avatar, tmp_path / "report", SphereRenderer(), dataclasses.replace(OPTIONS, size_px=64, turntable=0))
    assert not list(tmp_path.iterdir())


def _figures(rmse, vertical, disparity):
    return {"rmse_255": rmse, "vertical_disparity_px_p95": vertical, "disparity_error_px_p95": disparity}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"billboard": _figures(9.0, 0.3, 0.05)}, False),
        ({"per_eye_generator": _figures(9.0, 0.02, 2.0)}, False),
        ({"per_eye_generator": _figures(0.2, 1.0, 2.0)}, False),
        ({"wrong_ipd": _figures(None, None, None)}, True),
        ({"mesh": _figures(0.5, 3.0, 0.03)}, False),
    ],
)
def test_the_ranking_fails_when_a_wrong_control_looks_right(change, expected):
    controls = {
        "billboard": _figures(9.0, 0.3, 5.0),
        "per_eye_generator": _figures(9.0, 1.0, 2.0),
        "wrong_ipd": _figures(40.0, 0.3, 50.0),
        "mesh": _figures(0.5, 0.01, 0.03),
    } | change
    rows = rank(_figures(0.5, 0.02, 0.04), controls)
    assert all(row["ok"] for row in rows) is expected


def test_an_avatar_that_could_not_be_measured_is_not_ranked_right():
    wrong = _figures(9.0, 1.0, 5.0)
    controls = {"billboard": wrong, "per_eye_generator": wrong, "wrong_ipd": wrong, "mesh": _figures(0.5, 0.1, 0.1)}
    assert not all(row["ok"] for row in rank(_figures(None, None, None), controls))


def test_the_seen_share_follows_the_confidence(avatar):
    assert seen_share(dataclasses.replace(avatar, confidence=np.full((8, 8), 255, np.uint8)), 30.0) == pytest.approx(1.0)
    assert seen_share(dataclasses.replace(avatar, confidence=np.zeros((8, 8), np.uint8)), -120.0) == 0.0


@pytest.mark.slow
def test_a_drawn_avatar_is_consistent_and_ranked_right(avatar, tmp_path):
    from avatar3d.rendering import make_renderer

    renderer = make_renderer("reference")
    options = EvaluateOptions(size_px=320, keys=((0.0, {}), (30.0, {})), turntable=2)
    result = evaluate(avatar, tmp_path / "report", renderer, options)
    renderer.close()
    assert result["ranked_correctly"] is True
    assert result["stereo"]["rmse_255"] <= 1.0
    assert result["stereo"]["below_blended"]["rmse_255"] <= 1.0
    assert result["stereo"]["disparity_error_px_p95"] <= 0.2
