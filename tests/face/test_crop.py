"""The crop's mapping: points and pixels agree, whatever the turn and the scale."""

import math

import cv2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from avatar3d.face.crop import Square, cut

squares = st.builds(Square, st.floats(-50, 250), st.floats(-50, 250), st.floats(5, 400), st.floats(-math.pi, math.pi))


@given(square=squares, u=st.floats(-1, 2), v=st.floats(-1, 2))
def test_mapping_there_and_back(square, u, v):
    back = square.from_image(square.to_image(np.array([[u, v]])))
    np.testing.assert_allclose(back, [[u, v]], atol=1e-9)


@settings(max_examples=60)
@given(
    angle=st.floats(-math.pi, math.pi),
    side=st.floats(60, 560),
    x=st.floats(200, 440),
    y=st.floats(160, 320),
)
def test_pixels_land_where_the_mapping_says(angle, side, x, y):
    """A soft spot drawn in the picture is found in the crop at from_image(its centre), shrunk or magnified."""
    spot = np.array([317.3, 241.8])
    rows, columns = np.mgrid[:480, :640] + 0.5
    width = side / 12
    picture = (255 * np.exp(-((columns - spot[0]) ** 2 + (rows - spot[1]) ** 2) / (2 * width**2))).astype(np.uint8)
    square = Square(x, y, side, angle)
    expected = square.from_image(spot[None])[0]
    if not (expected > 0.25).all() or not (expected < 0.75).all():
        return
    crop = cut(picture, square, 128, cv2.BORDER_CONSTANT).astype(np.float64)
    rows, columns = (np.mgrid[:128, :128] + 0.5) / 128
    found = np.array([(columns * crop).sum(), (rows * crop).sum()]) / crop.sum()
    np.testing.assert_allclose(found * 128, expected * 128, atol=0.35)


def test_identity_cut_is_exact_and_shrinking_averages():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    assert np.array_equal(cut(noise, Square(32, 32, 64), 64, cv2.BORDER_CONSTANT), noise)
    checker = ((np.indices((512, 512)).sum(axis=0) % 2) * 255).astype(np.uint8)
    shrunk = cut(checker, Square(256, 256, 512), 64, cv2.BORDER_REPLICATE)
    assert np.abs(shrunk.astype(int) - 127).max() <= 2


def test_square_outside_the_picture():
    picture = np.full((20, 30, 3), 200, np.uint8)
    far = Square(500, -500, 64)
    assert (cut(picture, far, 16, cv2.BORDER_CONSTANT) == 0).all()
    assert (cut(picture, far, 16, cv2.BORDER_REPLICATE) == 200).all()
