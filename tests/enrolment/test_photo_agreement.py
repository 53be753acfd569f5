"""How a drawn head is compared with its photo."""

import numpy as np

from avatar3d.enrolment.photo.metrics import agreement
from avatar3d.rendering.frame import Frame

SIZE = 200


def disc(radius):
    y, x = np.mgrid[:SIZE, :SIZE]
    return np.hypot(x - 100, y - 100) < radius


def landmarks():
    """(478, 3) points whose face axis runs up the picture's middle, all inside the discs."""
    points = np.tile([100.0, 100.0, 0.0], (478, 1))
    points[152, 1], points[10, 1] = 160, 60
    return points


def frame_of(mask):
    rgba = np.zeros((SIZE, SIZE, 4), np.float32)
    rgba[mask] = (0.2, 0.2, 0.2, 1.0)
    return Frame(rgba=rgba, depth=np.where(mask, 1.0, np.inf).astype(np.float32), surface=mask.astype(np.int32))


def test_what_lies_beyond_the_photo_is_not_judged():
    drawn, wanted = disc(80), disc(80)
    wanted[:60] = False  # a matte that is wrong above the photo's edge
    photo = frame_of(disc(80)).to_srgb8((128, 128, 128))
    photo[:60] = 255
    inside = np.arange(SIZE)[:, None].repeat(SIZE, 1) >= 60
    judged = agreement(frame_of(drawn), photo, wanted.astype(np.float32), landmarks(), inside)
    assert judged.outline_px < 0.5 and judged.iou > 0.99 and judged.psnr_db > 50
    everything = agreement(frame_of(drawn), photo, wanted.astype(np.float32), landmarks())
    assert everything.outline_px > 2


def test_an_outline_that_is_off_inside_the_photo_is_measured():
    judged = agreement(
        frame_of(disc(84)),
        np.zeros((SIZE, SIZE, 3), np.uint8),
        disc(80).astype(np.float32),
        landmarks(),
        np.ones((SIZE, SIZE), bool),
    )
    assert 3.5 < judged.outline_px < 4.5
