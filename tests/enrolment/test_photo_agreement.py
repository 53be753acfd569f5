"""How a drawn head is compared with its photo."""

import numpy as np

from avatar3d.color import linear_to_srgb, to_u8
from avatar3d.enrolment.photo.metrics import agreement
from avatar3d.head.mediapipe import FACE_OVAL, IRIS_CENTRES
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


def test_a_lamps_shadow_costs_the_face_little_and_a_hand_on_it_much():
    face = np.zeros((SIZE, SIZE, 3), np.float32)
    face[disc(80)] = 0.2
    points = landmarks()
    angle = np.linspace(0, 2 * np.pi, len(FACE_OVAL), endpoint=False)
    points[list(FACE_OVAL), :2] = 100 + 60 * np.stack([np.sin(angle), -np.cos(angle)], -1)
    points[list(IRIS_CENTRES), 0] = 70, 130

    def psnr(light):
        photo = to_u8(linear_to_srgb(face * light[..., None]))
        return agreement(frame_of(disc(80)), photo, disc(80).astype(np.float32), points).face_psnr_db

    across = np.linspace(-1, 1, SIZE)[None].repeat(SIZE, 0)
    hand = np.where((np.abs(across) < 0.12) | (np.abs(across.T - 0.1) < 0.12), 0.35, 1.0)
    assert psnr(1 - 0.65 / (1 + np.exp(-6 * across))) > psnr(hand) + 4
