"""Contact sheets: one picture of all that is to be looked at of one photo's avatar, and overviews of many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from avatar3d.head.mediapipe import INNER_LIP_MIDDLES, LEFT_EYE_CORNERS, RIGHT_EYE_CORNERS
from avatar3d.media import save_picture
from avatar3d.motion.code import MotionCode

from .figures import Enrolled
from .views import EXPRESSIONS, Drawer, Seen, tracked_answer

CELL = 180  # pixels of a small picture; the first row's are twice as large
COLUMNS = 12
YAWS_DEG = tuple(range(-180, 180, 30))
PITCH_DEG = 30
CLOSE_M = {"mouth": 0.075, "eyes": 0.075}  # height of a close-up, twice as wide
INK, PAPER, EMPTY = (20, 20, 20), 255, 200
OVERVIEW_YAWS = (-90, -45, 0, 45, 90)
OVERVIEW_ROWS = 8  # people on one page
STEREO_YAWS = (-25, 10)

Picture = np.ndarray


def sheet(done: Enrolled, drawer: Drawer) -> Picture:
    """(H, W, 3) u8: the photo, its view, the tracker's own answer, close-ups, 12 yaws, two pitches, 8 expressions, no hair."""
    assert done.seen is not None and done.avatar is not None
    motion = done.avatar.photo_motion or MotionCode()
    work, large = done.seen.work, 2 * CELL
    answer = tracked_answer(work.rgb)
    first = [
        _cell(_photo(done.seen), large, large, "photo"),
        _cell(drawer.through(work.camera, motion), large, large, "its view"),
        _cell(_blank() if answer is None else drawer.through(work.camera, answer), large, large, "tracker's answer"),
        np.vstack([np.hstack(_close(done, drawer, motion, place)) for place in CLOSE_M]),
    ]
    yaws = [_cell(drawer.orbit(yaw, size=CELL), CELL, CELL, f"{yaw:+d}") for yaw in YAWS_DEG]
    posed = [_cell(drawer.orbit(0, pitch, size=CELL), CELL, CELL, f"pitch {pitch:+d}") for pitch in (PITCH_DEG, -PITCH_DEG)]
    for name, weights in EXPRESSIONS.items():
        posed.append(_cell(drawer.orbit(0, motion=MotionCode.from_expression(weights), size=CELL), CELL, CELL, name))
    posed.append(_cell(drawer.orbit(0, size=CELL, hair=False), CELL, CELL, "no hair"))
    posed.append(_cell(drawer.orbit(90, size=CELL, hair=False), CELL, CELL, "no hair +90"))
    rows = [np.hstack(first), np.hstack(yaws), np.hstack(posed)]
    return np.vstack([_header(done.row, rows[0].shape[1]), *rows])


def _close(done: Enrolled, drawer: Drawer, motion: MotionCode, place: str) -> list[Picture]:
    """The photo's close-up, the avatar's at the photo's camera, and one from the front: mouth open, eyes shut."""
    assert done.seen is not None and done.avatar is not None
    avatar, height = done.avatar, CLOSE_M[place]
    indices = list(INNER_LIP_MIDDLES if place == "mouth" else (RIGHT_EYE_CORNERS[1], LEFT_EYE_CORNERS[1]))
    corners = avatar.vertices[avatar.landmark_triangles[indices]] * avatar.landmark_barycentric[indices][..., None]
    point = corners.sum(1).mean(0)
    camera = done.seen.work.camera.framed(point, 4 * CELL, 2 * CELL, height)
    # The photo through the same window: work pixels and the close-up's share the camera's centre.
    lift = camera.intrinsics @ np.linalg.inv(done.seen.work.camera.intrinsics)
    photo = cv2.warpAffine(
        done.seen.work.rgb, lift[:2], (4 * CELL, 2 * CELL), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    moved = MotionCode.from_expression(EXPRESSIONS["jaw open" if place == "mouth" else "blink"])
    pictures = [photo, drawer.through(camera, motion), drawer.near(point, height, 4 * CELL, 2 * CELL, moved)]
    names = (f"photo's {place}", place, "open" if place == "mouth" else "shut")
    return [_cell(picture, 2 * CELL, CELL, name) for picture, name in zip(pictures, names, strict=True)]


def strip(done: Enrolled, drawer: Drawer) -> Picture:
    """(CELL + header, W, 3) u8: one person's line of an overview."""
    assert done.seen is not None and done.avatar is not None
    motion = done.avatar.photo_motion or MotionCode()
    cells = [
        _cell(_photo(done.seen), CELL, CELL, done.row["id"]),
        _cell(drawer.through(done.seen.work.camera, motion), CELL, CELL, "its view"),
        *(_cell(drawer.orbit(yaw, size=CELL), CELL, CELL, f"{yaw:+d}") for yaw in OVERVIEW_YAWS),
    ]
    return np.hstack(cells)


def stereo_strip(done: Enrolled, drawer: Drawer) -> Picture:
    """(2 CELL, W, 3) u8: the photo and, at arm's length from two sides, the right eye's picture beside the left's for eyes that
    cross, and both as red-cyan."""
    assert done.seen is not None
    cells = [_cell(_photo(done.seen), 2 * CELL, 2 * CELL, done.row["id"])]
    for yaw in STEREO_YAWS:
        left, right = drawer.stereo(yaw, 2 * CELL)
        cells += [
            _cell(right, 2 * CELL, 2 * CELL, f"{yaw:+d} right eye"),
            _cell(left, 2 * CELL, 2 * CELL, f"{yaw:+d} left eye"),
        ]
    both = np.concatenate([left[..., :1], right[..., 1:]], -1)
    return np.hstack([*cells, _cell(both, 2 * CELL, 2 * CELL, "red-cyan")])


def write_overviews(folder: Path, strips: list[Picture], name: str = "overview") -> list[Path]:
    """Pages name-1.png and on of OVERVIEW_ROWS strips each."""
    paths = []
    for page in range(0, len(strips), OVERVIEW_ROWS):
        paths.append(folder / f"{name}-{page // OVERVIEW_ROWS + 1}.png")
        save_picture(paths[-1], np.vstack(strips[page : page + OVERVIEW_ROWS]))
    return paths


def driven(pairs: list[tuple[Picture, Picture]], title: str) -> Picture:
    """(H, W, 3) u8: frames of a film above what they drive."""
    columns = [np.vstack([_cell(frame, 2 * CELL, 2 * CELL, ""), _cell(ours, 2 * CELL, 2 * CELL, "")]) for frame, ours in pairs]
    body = np.hstack(columns)
    bar = np.full((24, body.shape[1], 3), PAPER, np.uint8)
    return np.vstack([_written(bar, title, (6, 17), 0.5), body])


def _header(row: dict[str, Any], width: int) -> Picture:
    bar = np.full((46, width, 3), PAPER, np.uint8)
    names = ("silhouette_error_mm", "silhouette_iou", "photo_psnr_db", "identity_front", "identity_30", "identity_neutral",
             "size_by_iris_pct", "iod_mm", "hair_iou", "skin_iou", "outline_mm", "seconds_total")  # fmt: skip
    figures = "  ".join(f"{name.replace('_', ' ')} {row[name]}" for name in names if row.get(name) is not None)
    bar = _written(bar, f"{row['id']} ({row['half']})  {figures}", (6, 17), 0.45)
    return _written(bar, "; ".join(row.get("warnings") or ["no warning"])[:300], (6, 38), 0.42)


def _cell(picture: Picture, width: int, height: int, label: str) -> Picture:
    scale = min(width / picture.shape[1], height / picture.shape[0])
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    fitted = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    cell = np.full((height, width, 3), PAPER, np.uint8)
    top, left = (height - size[1]) // 2, (width - size[0]) // 2
    cell[top : top + size[1], left : left + size[0]] = fitted
    return _written(cell, label, (4, 13), 0.4)


def _written(picture: Picture, text: str, place: tuple[int, int], size: float) -> Picture:
    """The picture with a line of text on it; OpenCV's letters are ASCII."""
    plain = text.encode("ascii", "replace").decode()
    picture = np.ascontiguousarray(picture)
    cv2.putText(picture, plain, place, cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 3, cv2.LINE_AA)
    cv2.putText(picture, plain, place, cv2.FONT_HERSHEY_SIMPLEX, size, INK, 1, cv2.LINE_AA)
    return picture


def _blank() -> Picture:
    return np.full((8, 8, 3), EMPTY, np.uint8)


def _photo(seen: Seen) -> Picture:
    """The photo about the head, grey beyond its edges."""
    return np.where(seen.work.inside[..., None], seen.work.rgb, np.uint8(EMPTY))
