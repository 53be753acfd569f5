from dataclasses import fields, replace

import cv2
import numpy as np
import pytest
from painted_head import BACKDROP, HAIR, SKIN, paint

from avatar3d.enrolment.photo.hidden import find_hidden
from avatar3d.enrolment.photo.segment import segment
from avatar3d.face.hair import HairSeen


@pytest.fixture(scope="module")
def painted():
    return paint()


@pytest.fixture(scope="module")
def bald():
    return paint(hair=None)


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


def segmented(head, **changes):
    head = replace(head, **changes)
    return segment(head.work, head.matte, head.hair_seen)


def masks_of(labels):
    return {item.name: getattr(labels, item.name) for item in fields(labels) if not item.name.endswith("_seen")}


def row_of(head, y_m, z_m=0.0):
    """Row of the picture at a height of the head frame, metres."""
    return int(head.work.camera.project(np.array([[0.0, y_m, z_m]]))[0][0, 1])


def test_the_painted_hair_is_found_and_the_face_is_not_taken_for_it(painted):
    found = segmented(painted)
    assert iou(found.hair_mask, painted.hair) > 0.95
    assert not (found.hair_mask & found.face_mask).any()
    assert found.face_mask.sum() > 10_000
    assert found.confidence > 0.9
    assert found.notes == []


def test_masks_have_the_pictures_size_and_lie_in_range(painted):
    found = segmented(painted)
    for mask in (found.matte, found.hair_alpha):
        assert mask.shape == painted.matte.shape
        assert mask.min() >= 0 and mask.max() <= 1
    for mask in masks_of(found.labels).values():
        assert mask.shape == painted.matte.shape and mask.dtype == bool


def test_the_same_picture_gives_the_same_masks(painted):
    first, second = (segmented(painted) for _ in range(2))
    assert np.array_equal(first.hair_alpha, second.hair_alpha)


def test_a_bald_head_has_no_hair_and_says_so(bald):
    found = segmented(bald)
    assert not found.hair_mask.any()
    assert "no hair was made" in found.notes[0]


def test_a_crown_called_bald_that_does_not_look_like_skin_is_told_from_a_bald_one(painted, bald):
    grey = paint(hair=BACKDROP)
    missed = segment(grey.work, grey.matte, HairSeen(np.zeros(grey.matte.shape, np.float32), 1.0))
    assert not missed.hair_mask.any() and missed.bare_unlike_skin > 0.45
    assert segmented(bald).bare_unlike_skin < 0.1 and segmented(painted).bare_unlike_skin < 0.1


def test_hair_that_the_network_half_believes_all_over_the_crown_is_thin_and_not_bald():
    pale = paint(hair=SKIN)
    faint = HairSeen(0.35 * pale.hair_seen.probability, 1.0)
    found = segment(pale.work, pale.matte, faint)
    assert iou(found.hair_mask, pale.hair) > 0.85
    assert any("thin" in note for note in found.notes)
    assert found.confidence < 0.6


def test_an_answer_that_its_mirror_image_contradicts_is_warned_of(painted):
    found = segment(painted.work, painted.matte, replace(painted.hair_seen, agreement=0.4))
    assert found.confidence < 0.5
    assert "hard to tell" in found.notes[0]


def test_what_the_network_calls_hair_in_the_middle_of_the_face_is_not(painted):
    everything = HairSeen(painted.matte.astype(np.float32), 1.0)
    found = segment(painted.work, painted.matte, everything)
    nose, mouth = painted.work.landmarks_px[[4, 13], :2].astype(int)
    assert not found.hair_mask[nose[1], nose[0]] and not found.hair_mask[mouth[1], mouth[0]]


def test_another_heads_hair_is_not_this_ones_and_another_person_leaves_the_matte(painted):
    hair, matte = painted.hair.copy(), painted.matte.copy()
    hair[200:330, 30:130] = True
    matte[200:640, 30:130] = 1.0
    found = segmented(painted, hair=hair, matte=matte)
    assert not found.hair_mask[200:330, 30:130].any()
    assert not (found.matte[200:330, 30:130] > 0.5).any()
    assert iou(found.hair_mask, painted.hair) > 0.95


def beside(head, columns=(60, 190), rows=(200, 330)):
    """(H, W) bool: a block of hair left of the painted head, and a bridge as high as a lock that joins it to the head's own hair."""
    block, bridge = np.zeros_like(head.hair), np.zeros_like(head.hair)
    block[slice(*rows), slice(*columns)] = True
    bridge[rows[0] + 5 : rows[0] + 15, columns[1] - 5 : 320] = True
    return block, bridge & ~head.hair & (np.abs(np.arange(640) - 320) > 95)


def test_hair_joined_to_this_heads_is_the_neighbours_whose_face_is_nearer(painted):
    block, bridge = beside(painted)
    changes = {"hair": painted.hair | block | bridge, "matte": np.maximum(painted.matte, block | bridge).astype(np.float32)}
    head = replace(painted, **changes)
    found = segment(head.work, head.matte, head.hair_seen, neighbours=[np.array([-10.0, 250.0, 110.0, 390.0])])
    assert (found.hair_mask & block).sum() < 0.1 * block.sum()
    assert ((found.matte > 0.5) & block).sum() < 0.1 * block.sum()
    assert iou(found.hair_mask, painted.hair) > 0.9
    far = segment(head.work, head.matte, head.hair_seen, neighbours=[np.array([900.0, 250.0, 1020.0, 390.0])])
    assert iou(far.hair_mask, painted.hair) > 0.9, "a neighbour far off takes nothing of this head's hair"


def test_long_hair_whose_rim_the_network_leaves_is_as_wide_as_its_colour(painted):
    columns = np.arange(640) - 320
    rows = np.zeros_like(painted.hair)
    rows[row_of(painted, 0.05) : row_of(painted, -0.09)] = True
    hanging = rows & (np.abs(columns) > 95) & (np.abs(columns) < 150)
    rgb = painted.work.rgb.copy()
    rgb[hanging] = HAIR
    known = hanging & (np.abs(columns) < 140)
    matte = np.maximum(painted.matte, hanging).astype(np.float32)
    found = segmented(painted, work=replace(painted.work, rgb=rgb), hair=painted.hair | known, matte=matte)
    rim = hanging & ~known & (np.abs(columns) < 148)
    assert (found.hair_mask & rim).sum() > 0.8 * rim.sum()


def test_a_body_close_behind_the_hair_is_not_in_the_matte(painted):
    hair = painted.hair.copy()
    low, high = row_of(painted, -0.02), row_of(painted, 0.05)
    columns = np.abs(np.arange(640) - 320)
    hair[high:low] |= (columns > 95) & (columns < 150)
    body = np.zeros_like(hair)
    body[high + 20 : 600, 472:540] = True
    found = segmented(painted, hair=hair, matte=np.maximum(painted.matte, hair | body).astype(np.float32))
    beside_it = body & (np.arange(640)[:, None] < low) & (columns > 168)
    assert beside_it.sum() > 500 and (found.matte[beside_it] > 0.5).mean() < 0.05


def test_hair_of_a_person_who_looks_away_hangs_on_by_a_lock_and_is_cut(painted):
    block, bridge = beside(painted)
    found = segmented(
        painted, hair=painted.hair | block | bridge, matte=np.maximum(painted.matte, block | bridge).astype(np.float32)
    )
    assert (found.hair_mask & block).sum() < 0.1 * block.sum()
    assert iou(found.hair_mask, painted.hair) > 0.9


def test_wood_beside_the_face_is_no_hair(painted):
    wood = np.zeros_like(painted.hair)
    wood[200:420, 190:235] = True
    wood &= painted.matte < 0.1
    rgb = painted.work.rgb.copy()
    rgb[wood] = (190, 120, 80)
    found = segmented(painted, hair=painted.hair | wood, work=replace(painted.work, rgb=rgb))
    assert wood.sum() > 5000 and (found.hair_mask & wood).sum() < 0.05 * wood.sum()


def test_hair_behind_an_ear_that_the_network_misses_is_found_by_its_colour(painted):
    nape = np.zeros_like(painted.hair)
    nape[row_of(painted, 0.05) : row_of(painted, -0.08), 405:450] = True
    nape &= painted.matte < 0.5
    rgb = painted.work.rgb.copy()
    rgb[nape] = HAIR
    known = nape & (np.arange(len(nape))[:, None] < row_of(painted, 0.01))
    matte = np.maximum(painted.matte, nape).astype(np.float32)
    found = segmented(painted, work=replace(painted.work, rgb=rgb), hair=painted.hair | known, matte=matte)
    missed = nape & ~known
    assert missed.sum() > 2000 and (found.hair_mask & missed).sum() > 0.8 * missed.sum()


def test_a_matte_that_misses_hair_is_mended_by_the_network(painted):
    short = painted.matte.copy()
    short[: painted.hair.any(1).argmax() + 30] = 0
    found = segmented(painted, matte=short)
    assert (found.matte[painted.hair] > 0.5).mean() > 0.95


def cut_above(head, row):
    """The painted photo without what lies above a row, repeated from it as a crop repeats edges."""
    rgb, inside, hair = head.work.rgb.copy(), head.work.inside.copy(), head.hair.copy()
    rgb[:row], inside[:row], hair[:row] = rgb[row], False, hair[row]
    return replace(head, work=replace(head.work, rgb=rgb, inside=inside), hair=hair)


def test_a_crown_above_the_photo_is_completed_and_said(painted):
    top = int(painted.hair.any(1).argmax())
    for rows in (15, 40):
        found = segmented(cut_above(painted, top + rows))
        assert any("crown was completed" in note for note in found.notes)
        assert int(found.hair_mask.any(1).argmax()) == pytest.approx(top, abs=20)
        assert iou(found.hair_mask, painted.hair) > 0.9
        assert found.labels.completed.any() and not found.labels.completed[top + rows :].any()
    assert not segmented(painted).labels.completed.any()


def test_a_photo_cut_under_the_hairline_leaves_nobody_bald(painted):
    """The upper edge runs over the forehead, and hair is seen at both temples only."""
    rows, aside = np.arange(640)[:, None], np.abs(np.arange(640)[None] - 320)
    top = int(painted.work.landmarks_px[10, 1]) - 4
    forehead, temples = painted.hair & (aside < 45), (painted.matte > 0.5) & (aside > 62) & (rows < top + 60)
    rgb = painted.work.rgb.copy()
    rgb[forehead], rgb[temples] = SKIN, HAIR
    head = replace(painted, work=replace(painted.work, rgb=rgb, inside=painted.work.inside & (rows >= top)))
    found = segmented(head, hair=(painted.hair & ~forehead) | temples)
    crown = painted.hair & (rows < top - 30)
    assert (found.hair_mask & crown).sum() > 0.8 * crown.sum()
    assert any("crown was completed" in note for note in found.notes)


def test_a_bald_crown_above_the_photo_is_completed_without_hair(bald):
    top = int((bald.matte > 0.5).any(1).argmax())
    found = segmented(cut_above(bald, top + 30))
    assert not found.hair_mask.any()
    assert int((found.matte > 0.5).any(1).argmax()) == pytest.approx(top, abs=20)


def test_hair_that_leaves_the_photo_below_is_carried_on_and_said(painted):
    columns = np.zeros_like(painted.hair)
    columns[painted.hair.any(1).argmax() + 60 :, 215:245] = True
    low = row_of(painted, -0.10)
    inside = painted.work.inside.copy()
    inside[low:] = False
    matte = np.maximum(painted.matte, columns).astype(np.float32)
    found = segmented(painted, hair=painted.hair | columns, matte=matte, work=replace(painted.work, inside=inside))
    assert found.hair_mask[low + 5 : low + 60, 222:238].all()
    assert found.labels.completed[low + 5 : low + 60, 222:238].all()
    assert any("below the photo" in note for note in found.notes)


def test_an_ear_beyond_the_photos_edge_is_said(painted):
    edge = int(painted.work.landmarks_px[234, 0])
    cut = painted.work.inside & (np.arange(640)[None] >= edge)
    found = segmented(painted, work=replace(painted.work, inside=cut))
    assert any("an ear lies outside" in note for note in found.notes)
    # Beyond the edge the head goes on as on its other side, with hair of which no colour is taken.
    lost = painted.hair & ~cut
    assert (found.hair_mask & lost).sum() > 0.8 * lost.sum() and not (found.hair_mask & ~cut & ~found.labels.completed).any()
    assert iou(found.matte > 0.5, painted.matte > 0.5) > 0.9
    seam = (painted.matte > 0.9) & (np.abs(np.arange(640)[None] - edge) < 6)
    assert (found.matte[seam] > 0.5).all()
    assert not any("ear" in note for note in segmented(painted).notes)


def test_labels_do_not_overlap_and_absent_things_are_empty(painted):
    masks = masks_of(segmented(painted).labels)
    total = sum(mask.astype(int) for name, mask in masks.items() if name != "completed")
    assert total.max() == 1
    for name in ("beard", "glasses", "hat", "hand"):
        assert not masks[name].any(), name
    assert masks["skin"].sum() > 10_000 and masks["neck"].sum() > 2_000


def dressed(head, colour, from_m=-0.125):
    rgb = head.work.rgb.copy()
    rows = np.arange(len(rgb))[:, None] > row_of(head, from_m)
    worn = rows & (head.matte > 0.5)
    rgb[worn] = colour
    return replace(head, work=replace(head.work, rgb=rgb)), worn


def test_clothes_and_the_neck_above_them_are_told_apart(painted):
    head, worn = dressed(painted, (30, 45, 120))
    labels = segmented(head).labels
    assert (labels.clothes & worn).sum() > 0.9 * worn.sum()
    assert not (labels.neck & worn).any()
    assert labels.neck.sum() > 1_000


def test_bare_shoulders_are_no_clothes(painted):
    assert not segmented(painted).labels.clothes.any()


def test_a_beard_is_not_hair_of_the_head_nor_skin(painted):
    landmarks = painted.work.landmarks_px
    rows, columns = np.mgrid[: len(painted.hair), : len(painted.hair)]
    mouth, chin, nose = landmarks[13], landmarks[152], landmarks[2]
    beard = ((columns - mouth[0]) / 75) ** 2 + ((rows - (mouth[1] + chin[1]) / 2) / (chin[1] - mouth[1] + 10)) ** 2 < 1
    beard &= (rows > nose[1]) & (painted.matte > 0.5)
    rgb = painted.work.rgb.copy()
    rgb[beard] = HAIR
    found = segmented(painted, hair=painted.hair | beard, work=replace(painted.work, rgb=rgb))
    away = beard & ~(cv2.dilate(beard_rim(landmarks, beard), np.ones((9, 9), np.uint8)) > 0)
    assert (found.labels.beard & away).sum() > 0.9 * away.sum()
    assert not (found.hair_mask & beard).any()
    assert not (found.labels.skin & found.labels.beard).any()
    assert iou(found.hair_mask, painted.hair) > 0.95


def beard_rim(landmarks, beard):
    """(H, W) u8: the lips, which no beard covers."""
    lips = np.zeros(beard.shape, np.uint8)
    outer = [61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 409, 270, 269, 267, 0, 37, 39, 40, 185]
    cv2.fillPoly(lips, [np.round(landmarks[outer, :2]).astype(np.int32)], 1)
    return lips


def test_a_cap_is_a_hat_and_neither_hair_nor_skin(bald):
    top, brim = int((bald.matte > 0.5).any(1).argmax()), row_of(bald, 0.05, 0.09)
    rgb = bald.work.rgb.copy()
    worn = (bald.matte > 0.5) & (np.arange(len(rgb))[:, None] < brim)
    rgb[worn] = (20, 90, 40)
    labels = segmented(bald, work=replace(bald.work, rgb=rgb)).labels
    assert (labels.hat & worn)[top + 8 :].sum() > 0.85 * worn[top + 8 :].sum()
    assert (labels.hat & ~worn).sum() < 0.15 * worn.sum()


def test_a_hand_beside_the_face_is_a_hand(painted):
    rgb, matte = painted.work.rgb.copy(), painted.matte.copy()
    hand = np.zeros(matte.shape, np.uint8)
    cv2.ellipse(hand, (470, 330), (45, 60), 0, 0, 360, 1, -1)
    hand = (hand > 0) & (painted.matte < 0.1)
    rgb[hand], matte[hand] = SKIN, 1.0
    labels = segmented(painted, work=replace(painted.work, rgb=rgb), matte=matte).labels
    assert (labels.hand & hand).sum() > 0.7 * hand.sum()


def test_a_bald_crown_however_high_is_no_hand_on_the_forehead(bald):
    rgb, matte = bald.work.rgb.copy(), bald.matte.copy()
    crown = np.zeros(matte.shape, np.uint8)
    cv2.ellipse(crown, tuple(int(v) for v in bald.work.landmarks_px[10, :2] + (0, 10)), (120, 125), 0, 180, 360, 1, -1)
    rgb[(crown > 0) & (matte < 0.5)] = SKIN
    matte = np.maximum(matte, cv2.GaussianBlur(crown.astype(np.float32), (0, 0), 1.5))
    head = replace(bald, work=replace(bald.work, rgb=rgb), matte=matte)
    labels = segmented(head).labels
    assert not labels.hand.any() and not labels.hat.any() and find_hidden(head.work, labels).cause == ""
    assert (labels.skin & (crown > 0)).sum() > 0.8 * crown.sum()


def test_hair_that_the_network_doubts_is_hair_and_no_hat(painted):
    """A blurred portrait's, or curls before a bright sky: under its half, and far over what a cap gives."""
    found = segment(painted.work, painted.matte, HairSeen(0.1 * painted.hair_seen.probability, 1.0))
    assert not found.labels.hat.any() and iou(found.hair_mask, painted.hair) > 0.7
    assert any("hat" in note for note in found.notes)


def with_glasses(head, colour, sides=(0, 1), lens=False):
    """The painted head with rims about its eyes and a bridge between them, 4 pixels wide."""
    drawn = np.zeros(head.matte.shape, np.uint8)
    eyes = head.work.landmarks_px[[468, 473], :2].astype(int)
    for side in sides:
        cv2.ellipse(drawn, tuple(int(v) for v in eyes[side] + (0, 6)), (34, 25), 0, 0, 360, 1, -1 if lens else 4)
    cv2.line(drawn, (int(eyes[0, 0]) + 32, int(eyes[0, 1])), (int(eyes[1, 0]) - 32, int(eyes[1, 1])), 1, 4)
    rgb = head.work.rgb.copy()
    rgb[drawn > 0] = colour
    return replace(head, work=replace(head.work, rgb=rgb)), drawn > 0


@pytest.mark.parametrize(("colour", "lens"), [((40, 30, 30), False), ((250, 240, 225), False), ((15, 15, 18), True)])
def test_rims_and_dark_lenses_are_glasses_and_no_skin(painted, colour, lens):
    head, drawn = with_glasses(painted, colour, lens=lens)
    labels = segmented(head).labels
    away = drawn & ~near_the_eyes(head)
    assert (labels.glasses & away).sum() > 0.8 * away.sum()
    assert not (labels.skin & labels.glasses).any()


def near_the_eyes(head):
    """(H, W) bool: lids and brows, whose own lines are left alone."""
    near = np.zeros(head.matte.shape, np.uint8)
    for eye in head.work.landmarks_px[[468, 473], :2].astype(int):
        cv2.circle(near, (int(eye[0]), int(eye[1]) - 16), 30, 1, -1)
    return near > 0


def test_lines_about_one_eye_alone_are_no_glasses(painted):
    head, _ = with_glasses(painted, (40, 30, 30), sides=(0,))
    assert not segmented(head).labels.glasses.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share"), [("astronaut.png", 0.97), ("obama.jpg", 0.9), ("obama2.jpg", 0.9), ("biden.jpg", 0.8)]
)
def test_real_photos_keep_brows_and_cheeks_free_of_hair(name, share):
    from samples import model, sample_rgb

    from avatar3d.enrolment.photo.crop import crop
    from avatar3d.face.tracker import FaceTracker
    from avatar3d.fitting.fit import fit_face
    from avatar3d.head.landmarks import fitting_head
    from avatar3d.head.mediapipe import BROW_TOPS, CHEEKS, CHIN, NOSE_TIP

    for network in ("face_landmarker.task", "selfie_segmentation.tflite"):
        model(network)
    rgb = sample_rgb(name)
    face = FaceTracker().track(rgb, None, None, name)
    fit = fit_face(face.landmarks, face.blendshapes, rgb.shape[1], rgb.shape[0], None, fitting_head())
    work = crop(rgb, fit.camera, face.landmarks.points_px, 88.0, 640)
    found = segment(work)
    assert found.hair_mask.sum() > 4000
    assert found.confidence > 0.6
    for point in (*BROW_TOPS, *CHEEKS[:2], CHIN, NOSE_TIP):
        x, y = work.landmarks_px[point, :2].astype(int)
        assert not found.hair_mask[y, x]
    for name in ("beard", "glasses", "hat", "hand"):
        assert not getattr(found.labels, name).any(), name
    assert found.labels.skin.sum() > share * found.face_mask.sum()
