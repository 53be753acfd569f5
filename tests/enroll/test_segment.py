from dataclasses import replace

import numpy as np
import pytest
from painted_head import HAIR, paint

from avatar3d.enroll.segment import guided_filter, segment


@pytest.fixture(scope="module")
def painted():
    return paint()


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


def test_the_painted_hair_is_found_and_the_face_is_not_taken_for_it(painted):
    found = segment(painted.work, painted.matte)
    assert iou(found.hair_mask, painted.hair) > 0.93
    assert not (found.hair_mask & found.face_mask).any()
    assert found.face_mask.sum() > 10_000
    assert found.confidence > 0.5
    assert found.notes == []


def test_masks_have_the_pictures_size_and_lie_in_range(painted):
    found = segment(painted.work, painted.matte)
    for mask in (found.matte, found.hair_alpha):
        assert mask.shape == painted.matte.shape
        assert mask.min() >= 0 and mask.max() <= 1
    assert (found.matte <= painted.matte + 1e-5).all(), "segmentation only ever takes away from the matte"


def test_the_same_picture_gives_the_same_masks(painted):
    first, second = (segment(painted.work, painted.matte) for _ in range(2))
    assert np.array_equal(first.hair_alpha, second.hair_alpha)


def test_a_bald_head_has_no_hair_and_says_so():
    bald = paint(hair=None)
    found = segment(bald.work, bald.matte)
    assert not found.hair_mask.any()
    assert "no hair was made" in found.notes[0]


def without_hue(head):
    """The painted head as a black-and-white photo, its hair as light as the skin."""
    grey = np.repeat(head.work.rgb.mean(2, keepdims=True).astype(np.uint8), 3, axis=2)
    return replace(head.work, rgb=grey)


@pytest.mark.parametrize("hair", [HAIR, (150, 150, 150), (225, 225, 225)])
def test_a_greyscale_photos_hair_is_told_by_lightness_and_texture(hair):
    head = paint(hair)
    found = segment(without_hue(head), head.matte)
    assert iou(found.hair_mask, head.hair) > 0.85


def test_a_greyscale_bald_head_stays_bald():
    bald = paint(hair=None)
    found = segment(without_hue(bald), bald.matte)
    assert not found.hair_mask.any()


def test_another_head_in_the_matte_is_not_taken_for_hair(painted):
    picture, matte = painted.work.rgb.copy(), painted.matte.copy()
    picture[430:560, 40:140], matte[430:560, 40:140] = HAIR, 1.0
    found = segment(replace(painted.work, rgb=picture), matte)
    assert not found.hair_mask[430:560, 40:140].any()
    assert iou(found.hair_mask, painted.hair) > 0.9


def test_hair_of_nearly_the_skins_colour_does_not_crash_and_leaves_the_face_alone():
    pale = paint(hair=(214, 176, 150))
    found = segment(pale.work, pale.matte)
    below_brows = pale.work.camera.project(np.array([[0.0, 0.0, 0.08]]))[0][0, 1]
    assert not found.hair_mask[int(below_brows) :, 280:360].any()


def test_a_crown_outside_the_picture_gives_a_note_instead_of_hair(painted):
    cut = painted.matte.copy()
    cut[: int(painted.work.landmarks_px[10, 1])] = 0
    found = segment(painted.work, cut)
    assert not found.hair_mask.any()
    assert "top of the head" in found.notes[0]


def test_the_guided_filter_keeps_a_constant_and_follows_the_guides_edge():
    guide = np.zeros((40, 60, 3))
    guide[:, 30:] = (0.9, 0.5, 0.2)
    assert np.allclose(guided_filter(guide, np.full((40, 60), 0.4), 5, 1e-4), 0.4, atol=1e-3)
    coarse = np.zeros((40, 60))
    coarse[:, 27:] = 1  # three pixels beside the guide's edge
    sharp = guided_filter(guide, coarse, 8, 1e-4)
    assert np.abs(np.diff(sharp[20])).argmax() == 29


@pytest.mark.slow
@pytest.mark.parametrize("name", ["astronaut.png", "obama.jpg", "obama2.jpg", "biden.jpg"])
def test_real_photos_keep_brows_and_cheeks_free_of_hair(name):
    from samples import model, sample_rgb

    from avatar3d.enroll.crop import crop
    from avatar3d.enroll.segment import BROWS
    from avatar3d.face.tracker import FaceTracker
    from avatar3d.fitting.fit import fit_face
    from avatar3d.head.model import HeadModel

    for network in ("face_landmarker.task", "selfie_segmentation.tflite"):
        model(network)
    rgb = sample_rgb(name)
    face = FaceTracker().track(rgb, None, None, name)
    fit = fit_face(face.landmarks, face.blendshapes, rgb.shape[1], rgb.shape[0], None, HeadModel.default())
    work = crop(rgb, fit.camera, face.landmarks.points_px, 88.0, 640)
    found = segment(work)
    assert found.hair_mask.sum() > 4000
    for point in (*BROWS, 50, 280, 152, 1):
        x, y = work.landmarks_px[point, :2].astype(int)
        assert not found.hair_mask[y, x]
