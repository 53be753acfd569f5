"""Regions of an avatar's colour texture that move apart (eyes, mouth, the rest), and updates that send only what changed."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

import numpy as np

from avatar3d.avatar import PART_EYE, PART_LASH, PART_MOUTH, PART_TEETH, PART_TONGUE, Avatar
from avatar3d.errors import InputError
from avatar3d.field.shells import uv_raster
from avatar3d.motion.code import ARKIT_NAMES

Region = Literal["eyes", "mouth", "rest"]
REGIONS: tuple[Region, ...] = ("eyes", "mouth", "rest")
GRID = 64  # cells a side that regions are cut out of the atlas by
FINE = 4  # steps within a cell in which it is looked for faces
GUTTER_TEXELS = 2  # about a face that a filter may read
_PARTS = {"eyes": (PART_EYE, PART_LASH), "mouth": (PART_MOUTH, PART_TEETH, PART_TONGUE)}
# Skin belongs to a region where one of its shapes moves it by more than this share of the shape's greatest movement.
_SHAPES: dict[str, dict[str, float]] = {
    "eyes": {"eyeBlinkLeft": 0.1, "eyeBlinkRight": 0.1, "eyeSquintLeft": 0.4, "eyeSquintRight": 0.4},
    "mouth": {"mouthPucker": 0.4, "mouthLowerDownLeft": 0.5, "mouthLowerDownRight": 0.5},
}


class Rectangle(NamedTuple):
    """Texels left to left + width, top to top + height."""

    left: int
    top: int
    width: int
    height: int


class TakesColor(Protocol):
    """What holds an avatar's colour texture, such as RealtimeRenderer."""

    def update_base_color(self, rgb: np.ndarray, left: int = 0, top: int = 0) -> int:
        """Replace a region of it by (h, w, 3) u8 sRGB; returns the bytes sent."""


def _faces_of(avatar: Avatar, region: str) -> np.ndarray:
    """(F,) bool: the faces of "eyes" or "mouth": their parts, and the skin that their shapes move most."""
    chosen = np.isin(avatar.part, _PARTS[region])
    for name, share in _SHAPES[region].items():
        length = np.linalg.norm(avatar.expression[ARKIT_NAMES.index(name)], axis=1)
        chosen |= (length[avatar.faces] > share * max(float(length.max()), 1e-9)).any(1)
    return chosen


def region_rectangles(avatar: Avatar) -> dict[Region, list[Rectangle]]:
    """Rectangles of the colour texture that hold each region; together they hold all that is drawn, and none meets another."""
    height, width = avatar.base_color.shape[:2]
    cell = max(1, -(-max(height, width) // GRID))
    size = -(-height // cell), -(-width // cell)
    taken = np.zeros(size, bool)
    found: dict[Region, list[Rectangle]] = {}
    for region in REGIONS:
        faces = avatar.faces if region == "rest" else avatar.faces[_faces_of(avatar, region)]
        uv = avatar.uv * np.array([width / cell / size[1], height / cell / size[0]])
        cells = _touched(faces, uv, size, -(-GUTTER_TEXELS * FINE // cell)) & ~taken
        taken |= cells
        found[region] = [
            Rectangle(x * cell, y * cell, min(w * cell, width - x * cell), min(h * cell, height - y * cell))
            for x, y, w, h in _covering(cells)
        ]
    return found


def _touched(faces: np.ndarray, uv: np.ndarray, size: tuple[int, int], gutter: int) -> np.ndarray:
    """(rows, columns) bool: cells that a face reaches, or comes near by so many fine steps."""
    raster = uv_raster(faces, uv.astype(np.float32), (FINE * size[0], FINE * size[1]), gutter)
    fine = raster.scatter(np.ones(len(raster.texel), bool))
    for corner in uv[np.unique(faces)]:  # faces smaller than a fine cell
        column, row = np.clip((corner * np.array(fine.shape[::-1])).astype(int), 0, np.array(fine.shape[::-1]) - 1)
        fine[row, column] = True
    return np.asarray(fine.reshape(size[0], FINE, size[1], FINE).any((1, 3)))


def _covering(cells: np.ndarray) -> list[tuple[int, int, int, int]]:
    """(x, y, width, height) of rectangles that hold exactly the true cells: runs of a row, grown down while they stay the same."""
    left = cells.copy()
    out = []
    for y, x in np.argwhere(cells):
        if not left[y, x]:
            continue
        stops = np.flatnonzero(~left[y, x:])
        w = int(stops[0]) if len(stops) else left.shape[1] - int(x)
        h = 1
        while y + h < len(left) and left[y + h, x : x + w].all():
            h += 1
        left[y : y + h, x : x + w] = False
        out.append((int(x), int(y), w, h))
    return out


class TextureRegions:
    """Sends new pictures of an avatar's colour texture by region, of each rectangle no more than the box about what changed."""

    def __init__(self, avatar: Avatar) -> None:
        self.rectangles = region_rectangles(avatar)
        self._shown = avatar.base_color.copy()

    def update(self, texture: TakesColor, picture: np.ndarray, regions: tuple[Region, ...] = REGIONS) -> int:
        """Send what changed in some regions of a whole picture (H, W, 3) u8 sRGB; returns the bytes sent.

        Raises InputError on a picture of another size and on an unknown region.
        """
        if picture.shape != self._shown.shape:
            raise InputError(
                f"a picture of shape {picture.shape} is no colour texture of this avatar; expected {self._shown.shape}"
            )
        sent = 0
        for region in regions:
            if region not in self.rectangles:
                raise InputError(f"unknown texture region {region!r}; expected one of {', '.join(REGIONS)}")
            for left, top, width, height in self.rectangles[region]:
                window = slice(top, top + height), slice(left, left + width)
                changed = (picture[window] != self._shown[window]).any(2)
                if changed.any():
                    rows, columns = (np.flatnonzero(changed.any(axis)) for axis in (1, 0))
                    box = slice(top + rows[0], top + rows[-1] + 1), slice(left + columns[0], left + columns[-1] + 1)
                    sent += texture.update_base_color(picture[box], int(box[1].start), int(box[0].start))
                    self._shown[box] = picture[box]
        return sent
