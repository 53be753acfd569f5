"""tools/masks.py: what it takes for a mask, the order it paints in, and that the masks drawn by hand are whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from avatar3d.errors import InputError
from tests.samples import sample
from tools.masks import REGIONS, known, labels, main, overlay, rasterise, read_mask, read_picture

DRAWN = sorted((Path(__file__).parents[1] / "masks").glob("*.json"))


def box(left: float, top: float, right: float, bottom: float) -> list[list[float]]:
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


def write(folder: Path, **changed: Any) -> Path:
    data = {
        "photo": "a.png",
        "package": "a==1",
        "sha256": "0" * 64,
        "width": 40,
        "height": 30,
        "regions": {"skin": [box(5, 5, 20, 20)]},
    }
    path = folder / "a.json"
    path.write_text(json.dumps({key: value for key, value in (data | changed).items() if value != "absent"}))
    return path


def test_corners_are_pixel_centres_and_belong_to_the_region(tmp_path: Path) -> None:
    skin = rasterise(read_mask(write(tmp_path)), "skin")
    rows, columns = np.nonzero(skin)
    assert skin.shape == (30, 40) and skin.dtype == bool
    assert (rows.min(), rows.max(), columns.min(), columns.max(), skin.sum()) == (5, 20, 5, 20, 16 * 16)


def test_half_pixels_are_kept(tmp_path: Path) -> None:
    slope = [[5, 5], [25, 5], [25, 15.4]]
    lower = [[5, 5], [25, 5], [25, 16]]
    areas = [rasterise(read_mask(write(tmp_path, regions={"skin": [shape]})), "skin").sum() for shape in (slope, lower)]
    assert areas[0] < areas[1]


def test_the_later_region_wins_and_regions_never_overlap(tmp_path: Path) -> None:
    hair, skin = box(0, 0, 20, 12), box(5, 5, 30, 25)
    first = read_mask(write(tmp_path, regions={"hair": [hair], "skin": [skin]}))
    second = read_mask(write(tmp_path, regions={"skin": [skin], "hair": [hair]}))
    for mask, winner in ((first, "skin"), (second, "hair")):
        assert rasterise(mask, winner)[8, 10] and not (rasterise(mask, "hair") & rasterise(mask, "skin")).any()
    assert (labels(first) > 0).sum() == (labels(second) > 0).sum()


def test_polygons_of_one_region_add_up_and_holes_show_what_is_under(tmp_path: Path) -> None:
    mask = read_mask(
        write(
            tmp_path,
            regions={"skin": [box(0, 0, 30, 25)], "glasses": [box(2, 2, 12, 12), box(8, 2, 20, 12)]},
            holes={"glasses": [box(4, 4, 6, 6)]},
        )
    )
    glasses = rasterise(mask, "glasses")
    assert glasses[8, 10], "the overlap of two polygons became a hole"
    assert not glasses[5, 5] and rasterise(mask, "skin")[5, 5]


def test_nothing_is_known_outside_the_crop_or_on_other_people(tmp_path: Path) -> None:
    mask = read_mask(
        write(tmp_path, regions={"skin": [box(0, 0, 39, 29)], "other": [box(10, 10, 14, 14)]}, crop=[4, 6, 20, 20])
    )
    counted = known(mask)
    assert counted.sum() == 20 * 20 - 5 * 5 and not counted[:6].any() and not counted[:, 24:].any()
    assert not (rasterise(mask, "skin") & ~counted).any()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"regions": {"moustache": [box(0, 0, 5, 5)]}}, "no region 'moustache'; the regions are hair, beard, skin"),
        ({"regions": {"skin": [[[0, 0], [40, 0], [5, 5]]]}}, r"point \[40, 0\] outside the 40×30 photo"),
        ({"regions": {"skin": [[[0, 0], [-3, 0], [5, 5]]]}}, "outside the 40×30 photo"),
        ({"regions": {"skin": [[[0, 0], [5, 5]]]}}, "three points or more"),
        ({"regions": {"skin": [[[0, 0], [5, 5], [0, "5"]]]}}, r"not \[x, y\]"),
        ({"regions": {"skin": [[[0, 0], [20, 20], [20, 0], [0, 20]]]}}, "crosses itself: its edges 0 and 2"),
        ({"regions": {}}, "no region"),
        ({"holes": {"hair": [box(0, 0, 5, 5)]}}, "holes in hair, which is not among its regions"),
        ({"crop": [0, 0, 41, 30]}, "crop .* is not inside the 40×30 photo"),
        ({"width": 0}, "width must be a whole number"),
        ({"face": 1.5}, "face must be a whole number"),
        ({"sha256": "abc"}, "sha256 must be"),
        ({"package": "absent"}, "it lacks package"),
        ({"colour": "red"}, r"unknown key \['colour'\]"),
    ],
)
def test_a_wrong_mask_is_refused_in_a_sentence(changed: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        read_mask(write(tmp_path, **changed))


def test_asking_for_an_unknown_region_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no region 'ear'; the regions are hair"):
        rasterise(read_mask(write(tmp_path)), "ear")


def test_another_photo_than_the_masks_is_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "b.png"), np.zeros((30, 40, 3), np.uint8))
    with pytest.raises(InputError, match="not the file that the mask was drawn on; take a.png of a==1"):
        read_picture(read_mask(write(tmp_path)), tmp_path / "b.png")


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.stem)
def test_a_drawn_mask_is_a_head(path: Path) -> None:
    mask = read_mask(path)
    found = {name: rasterise(mask, name) for name in REGIONS}
    assert set(mask.regions) >= {"skin"} and all(found[name].any() for name in mask.regions), (
        "a region lies wholly under another"
    )
    rows = np.nonzero(found["skin"] | found["hair"] | found["hat"])[0]
    assert found["skin"].sum() > 0.1 * (rows.max() - rows.min()) ** 2, "the face is too small for its head"
    if "neck" in mask.regions:
        assert np.nonzero(found["neck"])[0].mean() > np.nonzero(found["skin"])[0].mean(), "the neck is above the face"


def test_a_mask_lies_on_its_photo(tmp_path: Path) -> None:
    mask = read_mask(next(path for path in DRAWN if path.stem == "astronaut"))
    rgb = read_picture(mask, sample("astronaut.png"))
    assert overlay(mask, rgb).shape == rgb.shape
    light = rgb.mean(2)
    assert light[rasterise(mask, "skin")].mean() > 1.5 * light[rasterise(mask, "hair")].mean(), "skin is no lighter than hair"


def test_the_command_shows_a_mask_on_its_photo_and_refuses_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mask = next(path for path in DRAWN if path.stem == "astronaut")
    main([str(mask), str(sample("astronaut.png")), "-o", str(tmp_path / "shown.png")])
    assert cv2.imread(str(tmp_path / "shown.png")).shape == (512, 512, 3)
    with pytest.raises(SystemExit) as end:
        main([str(mask), str(mask), "-o", str(tmp_path / "other.png")])
    assert end.value.code == 2 and "not the file that the mask was drawn on" in capsys.readouterr().err
    assert not (tmp_path / "other.png").exists()
