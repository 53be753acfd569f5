"""PNG files as any reader takes them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from avatar3d.png import encode_png


@pytest.mark.parametrize("shape", [(1, 1), (37, 53), (40, 31, 2), (64, 1, 3), (33, 57, 3), (1, 70, 4), (50, 20, 4)])
def test_every_pixel_comes_back(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    noise = rng.integers(0, 256, shape, dtype=np.uint8)
    slope = np.broadcast_to(np.arange(shape[1]).reshape(-1, *[1] * (len(shape) - 2)) * 3 % 256, shape).astype(np.uint8)
    for pixels in (noise, slope, np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8), np.swapaxes(noise, 0, 1)):
        read = Image.open(io.BytesIO(encode_png(pixels)))
        read.load()
        np.testing.assert_array_equal(np.asarray(read), pixels)
