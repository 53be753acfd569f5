"""The picture's loss and its gradient as one loop over pixels (numba): compositing forward and backward."""

from __future__ import annotations

import numpy as np

from avatar3d.jit import njit

MAX_SLOTS = 16


@njit(fastmath=True)
def picture_gradient(
    slots: np.ndarray,
    fragments: np.ndarray,
    pixels: np.ndarray,
    belief: np.ndarray,
    answer: np.ndarray,
    photo_weight: float,
    coverage_weight: float,
    opacity_weight: float,
    hidden_opacity_weight: float,
    gradient: np.ndarray,
) -> float:
    """Loss of a PixelBatch (its arrays, in its columns) for the field's answers (F, 4); fills `gradient` (F, 4) by them.

    Layers are composited from outside in (Porter and Duff 1984, `over`); slot 0 is what is opaque. At most MAX_SLOTS slots.
    """
    count, width = slots.shape
    loss = 0.0
    first = 0
    before = np.empty(MAX_SLOTS, np.float32)
    opacity = np.empty(MAX_SLOTS, np.float32)
    at = np.empty(MAX_SLOTS, np.int64)
    picture, by_picture = np.empty(3, np.float32), np.empty(3, np.float32)
    for b in range(count):
        for slot in range(width):
            at[slot] = -1
            if slots[b, slot] >= 0:
                at[slot] = first
                first += 1
        through = np.float32(1)
        picture[:] = 0
        for slot in range(width - 1, 0, -1):
            before[slot], opacity[slot] = through, 0
            f = at[slot]
            if f < 0:
                continue
            opacity[slot] = min(max(fragments[f, 10] + answer[f, 3], np.float32(0)), np.float32(1))
            share = through * opacity[slot]
            for c in range(3):
                picture[c] += share * max(fragments[f, 6 + c] + fragments[f, 9] * answer[f, c], np.float32(0))
            through -= share
        base = at[0]
        covered = np.float32(1)
        if base >= 0:
            for c in range(3):
                picture[c] += through * max(fragments[base, 6 + c] + fragments[base, 9] * answer[base, c], np.float32(0))
        else:
            covered -= through
        pixel_weight = photo_weight * belief[b] * pixels[b, 6] / (3 * count)
        for c in range(3):
            error = (picture[c] - covered * pixels[b, c]) * pixels[b, 3 + c]
            loss += pixel_weight * error * error
            by_picture[c] = 2 * pixel_weight * error * pixels[b, 3 + c]
        by_through = np.float32(0)
        if width > 1:
            miss = 1 - through - pixels[b, 7]
            loss += coverage_weight * miss * miss * pixels[b, 8] / count
            by_through = -2 * coverage_weight * miss * pixels[b, 8] / count
        if base >= 0:
            gradient[base, 3] = 0
            for c in range(3):
                color = fragments[base, 6 + c] + fragments[base, 9] * answer[base, c]
                by_through += by_picture[c] * max(color, np.float32(0))
                gradient[base, c] = by_picture[c] * through * fragments[base, 9] if color >= 0 else 0
        for slot in range(1, width):
            f = at[slot]
            if f < 0:
                continue
            by_share = np.float32(0)
            for c in range(3):
                color = fragments[f, 6 + c] + fragments[f, 9] * answer[f, c]
                by_share += by_picture[c] * max(color, np.float32(0))
                share = before[slot] * opacity[slot]
                gradient[f, c] = by_picture[c] * share * fragments[f, 9] if color >= 0 else 0
            raw = fragments[f, 10] + answer[f, 3]
            weight = opacity_weight + hidden_opacity_weight * (1 - before[slot])
            loss += weight * answer[f, 3] * answer[f, 3] / count
            gradient[f, 3] = 2 * weight * answer[f, 3] / count
            if 0 <= raw <= 1:
                gradient[f, 3] += (by_share - by_through) * before[slot]
            by_through = by_through * (1 - opacity[slot]) + by_share * opacity[slot]
    return loss
