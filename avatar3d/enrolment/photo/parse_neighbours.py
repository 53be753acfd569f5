"""Whose pixels they are where others stand beside a head: hair and matte of neighbours, with or without a face, leave it."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from avatar3d.enrolment.photo.masks import distance_to, grown, hull, opened, parts_with
from avatar3d.enrolment.photo.parse_frame import FaceFrame

# A head about the box of a detected face, which reaches from the brows to the chin: its middle lies above the box's, half axes over
# the box's sides.
HEAD_UP, HEAD_ACROSS, HEAD_TALL = 0.15, 0.62, 0.85
CELL_PX = 4  # side of the cells on which ways through hair are measured, pixels
MARGIN = 0.5  # of the picture about it in which neighbours' heads may lie
COLOUR_COST = 0.25  # a step costs 1 and this much per unit of CIELAB (8-bit scale): other hair has another colour
# Its own hair may be longer than the way to a neighbour: its ways count as so much shorter.
OWN_ADVANTAGE = 0.6
NEAR_HEADS_PX = 2.0  # own hair and face this near keep a pixel of the matte from a neighbour
# Without a face: what hangs on the rest by a neck narrower than this, beyond a plausible reach of the skull.
NECK_PX = 22.0
REACH_ACROSS, REACH_UP, REACH_MIDDLE = 1.05, 1.1, 0.65  # an ellipse: half width over the face's, height and middle on its axis


def heads_of(boxes_px: Sequence[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """(H + 2 M, W + 2 M) bool, M = MARGIN · the side: heads about the (4,) face boxes x0, y0, x1, y1, which may lie outside."""
    pad = [round(MARGIN * side) for side in shape]
    heads = np.zeros((shape[0] + 2 * pad[0], shape[1] + 2 * pad[1]), np.uint8)
    for x0, y0, x1, y1 in boxes_px:
        middle = (x0 + x1) / 2 + pad[1], (y0 + y1) / 2 - HEAD_UP * (y1 - y0) + pad[0]
        axes = HEAD_ACROSS * (x1 - x0), HEAD_TALL * (y1 - y0)
        cv2.ellipse(heads, (tuple(map(float, middle)), tuple(2 * float(axis) for axis in axes), 0.0), 1, -1)
    return heads > 0


def of_others(
    rgb: np.ndarray, passable: np.ndarray, own: np.ndarray, boxes_px: Sequence[np.ndarray], frame: FaceFrame
) -> np.ndarray:
    """(H, W) bool: pixels nearer to another's head than to `own` (H, W), along ways through `passable` (H, W) and like colours."""
    shape = passable.shape
    if not len(boxes_px):
        return np.zeros(shape, bool)
    heads = heads_of(boxes_px, shape)
    pad = (heads.shape[0] - shape[0]) // 2, (heads.shape[1] - shape[1]) // 2
    centre = _padded(grown(frame.face, 3), pad)
    # Where two heads overlap the pixels are the nearer face's.
    size = [np.sqrt((x1 - x0) * (y1 - y0)) for x0, y0, x1, y1 in boxes_px]
    ys, xs = np.mgrid[: heads.shape[0], : heads.shape[1]]
    away = np.min([np.hypot(xs - pad[1] - (b[0] + b[2]) / 2, ys - pad[0] - (b[1] + b[3]) / 2) / s
                   for b, s in zip(boxes_px, size, strict=True)], axis=0)  # fmt: skip
    middle = (frame.chin + frame.at(1.0)) / 2
    mine = np.hypot(xs - pad[1] - middle[0], ys - pad[0] - middle[1]) / max(frame.width, 1.0)
    heads &= (away < mine) & ~centre
    free = _padded(passable, pad, fill=True) | heads | _padded(own, pad)
    colour = cv2.cvtColor(cv2.GaussianBlur(rgb, (0, 0), 1.5), cv2.COLOR_RGB2LAB)
    colour = cv2.copyMakeBorder(colour, pad[0], pad[0], pad[1], pad[1], cv2.BORDER_REPLICATE)
    to_own, to_others = _ways(free, colour, [_padded(own, pad) & ~heads, heads])
    nearer = (
        cv2.resize((to_others < OWN_ADVANTAGE * to_own).astype(np.uint8), heads.shape[::-1], interpolation=cv2.INTER_NEAREST)
        > 0
    )
    nearer = (nearer | heads)[pad[0] : pad[0] + shape[0], pad[1] : pad[1] + shape[1]]
    return nearer & ~own


def beyond_reach(hair: np.ndarray, own: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """(H, W) bool: hair that hangs on the hair next to `own` by a neck narrow for it, farther out than a head's hair stands."""
    core = opened(hair, NECK_PX * frame.unit)
    main = parts_with(core, grown(own, NECK_PX * frame.unit))
    rest = core & ~main
    if not main.any() or not rest.any():
        return np.zeros(hair.shape, bool)
    across, tall = REACH_ACROSS * frame.width, REACH_UP
    up = frame.height - REACH_MIDDLE
    # Below the chin hair may hang anywhere; above it, it stands about the skull.
    outside = (frame.lateral / across) ** 2 + (np.maximum(up, 0) / tall) ** 2 > 1
    outside &= (frame.height > 0) & ~hull(main | frame.face)
    far = parts_with(rest, outside & rest)
    share = parts_with(rest, ~outside & rest, 0.5 * max(far.sum(), 1))
    far &= ~share
    if not far.any():
        return far
    flat = np.zeros((*hair.shape, 3), np.uint8)
    to_main, to_far = _ways(hair, flat, [main | (rest & ~far), far])
    return (
        hair & (cv2.resize((to_far < to_main).astype(np.uint8), hair.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0) & ~main
    )


def without_others(matte: np.ndarray, others: np.ndarray, head: np.ndarray, frame: FaceFrame) -> np.ndarray:
    """The (H, W) matte without pixels of others, but those at this head's own hair and face, `head` (H, W)."""
    return np.where(others & (distance_to(head) > NEAR_HEADS_PX * frame.unit), 0.0, matte).astype(np.float32)


def _padded(mask: np.ndarray, pad: tuple[int, int], fill: bool = False) -> np.ndarray:
    return cv2.copyMakeBorder(mask.astype(np.uint8), pad[0], pad[0], pad[1], pad[1], cv2.BORDER_CONSTANT, value=int(fill)) > 0


def _ways(free: np.ndarray, colour: np.ndarray, seeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For each (H, W) bool of `seeds` the length of the shortest way to it through `free` cells, (h, w), inf where there is none.

    colour: (H, W, 3) u8 whose changes make a way longer.
    """
    size = free.shape[1] // CELL_PX, free.shape[0] // CELL_PX

    def small(values: np.ndarray) -> np.ndarray:
        return cv2.resize(values.astype(np.float32), size, interpolation=cv2.INTER_AREA)

    open_, lab = small(free) > 0.25, small(colour)
    number = np.arange(open_.size).reshape(open_.shape)
    links = []
    for rows, columns in ((1, 0), (0, 1), (1, 1), (1, -1)):
        a = number[: -rows or None, max(-columns, 0) : -columns if columns > 0 else None]
        b = number[rows:, max(columns, 0) : columns if columns < 0 else None]
        both = open_.ravel()[a] & open_.ravel()[b]
        flat = lab.reshape(-1, 3)
        step = np.hypot(rows, columns) + COLOUR_COST * np.linalg.norm(flat[a[both]] - flat[b[both]], axis=1)
        links.append((a[both], b[both], step))
    a, b, step = (np.concatenate(part) for part in zip(*links, strict=True))
    graph = sp.coo_matrix((step, (a, b)), (open_.size, open_.size)).tocsr()
    ways = []
    for seed in seeds:
        start = number[(small(seed) > 0.5) & open_]
        if len(start):
            ways.append(dijkstra(graph, directed=False, indices=start, min_only=True).reshape(open_.shape))
        else:
            ways.append(np.full(open_.shape, np.inf))
    return ways
