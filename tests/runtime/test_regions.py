"""Texture regions: they divide what is drawn, and an update sends the texels that changed and no others."""

from __future__ import annotations

import numpy as np
import pytest

from avatar3d.avatar import PART_EYE, PART_TEETH
from avatar3d.errors import InputError
from avatar3d.field.shells import uv_raster
from avatar3d.rendering import RenderOptions
from avatar3d.rendering.opengl.renderer import RealtimeRenderer
from avatar3d.runtime.regions import REGIONS, TextureRegions, region_rectangles
from tests.make_avatar import synthetic_avatar

AVATAR = synthetic_avatar()


class Texture:
    """Holds a picture as a GPU with four bytes a texel would."""

    def __init__(self) -> None:
        self.picture = AVATAR.base_color.copy()
        self.boxes: list[tuple[int, int, int, int]] = []

    def update_base_color(self, rgb: np.ndarray, left: int = 0, top: int = 0) -> int:
        height, width = rgb.shape[:2]
        self.picture[top : top + height, left : left + width] = rgb
        self.boxes.append((left, top, width, height))
        return 4 * width * height


def _mask(region: str) -> np.ndarray:
    mask = np.zeros(AVATAR.base_color.shape[:2], int)
    for left, top, width, height in region_rectangles(AVATAR)[region]:  # type: ignore[index]
        mask[top : top + height, left : left + width] += 1
    return mask


def test_regions_divide_all_that_is_drawn() -> None:
    masks = {region: _mask(region) for region in REGIONS}
    assert sum(masks.values()).max() == 1  # none meets another, nor itself
    raster = uv_raster(AVATAR.faces, AVATAR.uv, AVATAR.base_color.shape[:2], gutter=1)
    drawn = raster.scatter(np.ones(len(raster.texel), bool))
    assert (sum(masks.values())[drawn] == 1).all()
    for region, part in (("eyes", PART_EYE), ("mouth", PART_TEETH)):
        own = uv_raster(AVATAR.faces[AVATAR.part == part], AVATAR.uv, AVATAR.base_color.shape[:2], gutter=0)
        assert masks[region][own.scatter(np.ones(len(own.texel), bool))].all()
        assert 0.02 < masks[region].mean() < 0.6
    assert masks["rest"].mean() > 0.2


def test_an_update_sends_what_changed_in_its_regions_alone() -> None:
    regions, texture = TextureRegions(AVATAR), Texture()
    assert regions.update(texture, AVATAR.base_color) == 0
    picture = AVATAR.base_color.copy()
    spots = {}
    for region in REGIONS:
        left, top, width, height = max(regions.rectangles[region], key=lambda box: box.width * box.height)
        spots[region] = top + height // 2, left + width // 2
        picture[spots[region]] = (1, 2, 3)
    for region in REGIONS:
        texture.boxes.clear()
        assert regions.update(texture, picture, (region,)) == 4
        assert texture.boxes == [(spots[region][1], spots[region][0], 1, 1)]
        assert regions.update(texture, picture, (region,)) == 0  # once
    np.testing.assert_array_equal(texture.picture, picture)


def test_a_whole_new_picture_costs_what_is_drawn_of_it() -> None:
    regions, texture = TextureRegions(AVATAR), Texture()
    picture = 255 - AVATAR.base_color
    sent = regions.update(texture, picture)
    covered = sum(_mask(region).sum() for region in REGIONS)
    assert sent <= 4 * covered < 4 * picture[..., 0].size
    raster = uv_raster(AVATAR.faces, AVATAR.uv, picture.shape[:2], gutter=1)
    drawn = raster.scatter(np.ones(len(raster.texel), bool))
    np.testing.assert_array_equal(texture.picture[drawn], picture[drawn])


def test_the_gpu_receives_those_bytes(context) -> None:
    renderer = RealtimeRenderer(context)
    renderer.load(AVATAR, [RenderOptions("baked")])
    regions = TextureRegions(AVATAR)
    picture = AVATAR.base_color.copy()
    mouth = regions.rectangles["mouth"][0]
    picture[mouth.top : mouth.top + mouth.height, mouth.left : mouth.left + mouth.width] ^= 255
    assert regions.update(renderer, picture, ("eyes", "rest")) == 0
    assert regions.update(renderer, picture, ("mouth",)) == 8 * mouth.width * mouth.height  # four half floats a texel
    renderer.close()


def test_what_is_no_picture_or_region_is_said_so() -> None:
    regions = TextureRegions(AVATAR)
    with pytest.raises(InputError, match="no colour texture of this avatar"):
        regions.update(Texture(), AVATAR.base_color[:10])
    with pytest.raises(InputError, match="unknown texture region 'nose'"):
        regions.update(Texture(), AVATAR.base_color, ("nose",))  # type: ignore[arg-type]
