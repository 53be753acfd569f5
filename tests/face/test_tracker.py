"""Detection, landmarks and expression on real photos, and every sentence with which a picture is refused."""

import io
import math
import threading
import zipfile

import cv2
import imageio.v3 as imageio
import numpy as np
import pytest
from PIL import Image
from samples import model, sample, sample_rgb

from avatar3d.errors import InputError
from avatar3d.face import FaceTracker
from avatar3d.face.networks import load_network, network_bytes
from avatar3d.motion.code import ARKIT_INDEX
from avatar3d.photo import load_photo

PHOTOS = ["astronaut.png", "obama.jpg", "obama2.jpg", "obama3.jpg", "biden.jpg"]
# (subject's right, subject's left) points: eye corners and lids, irises, mouth corners, brows, cheeks, and three on
# the mirror line.
MIRROR_PAIRS = [
    (33, 263), (133, 362), (159, 386), (145, 374), (468, 473), (61, 291), (70, 300), (107, 336), (205, 425),
    (1, 1), (13, 13), (152, 152),
]  # fmt: skip


def pasted(portrait, size, x, y, background=90):
    """The portrait in the middle of a large plain picture of `size` = (height, width)."""
    canvas = np.full((*size, 3), background, np.uint8)
    canvas[y : y + portrait.shape[0], x : x + portrait.shape[1]] = portrait
    return canvas


def refusal(tracker, *args, **kwargs):
    with pytest.raises(InputError) as refused:
        tracker.track(*args, **kwargs)
    return str(refused.value)


@pytest.mark.parametrize("name", PHOTOS)
def test_one_person_is_found_in_each_photo(tracker, name):
    found = tracker.track(sample_rgb(name))
    assert found.faces_found == 1 and found.notes == []
    assert found.landmarks.presence > 0.9
    assert found.landmarks.points_px.shape == (478, 3)
    x0, y0, x1, y1 = found.box.box_px
    nose = found.landmarks.points_px[1, :2]
    assert x0 < nose[0] < x1 and y0 < nose[1] < y1


def test_astronaut_lies_where_she_is(face):
    eyes = face.landmarks.points_px[[468, 473], :2]
    # Read off the photo by eye: the pupils, subject's right first.
    np.testing.assert_allclose(eyes, [[203.0, 101.0], [246.3, 103.2]], atol=1.5)
    assert face.landmarks.iod_px == pytest.approx(41.5, abs=1.5)
    assert abs(math.degrees(face.landmarks.yaw_rad)) < 8


def test_astronaut_smiles(face):
    weights = face.blendshapes
    assert weights.shape == (52,) and weights.min() >= 0 and weights.max() <= 1
    assert weights[ARKIT_INDEX["mouthSmileLeft"]] > 0.3 and weights[ARKIT_INDEX["mouthSmileRight"]] > 0.3
    assert weights[ARKIT_INDEX["jawOpen"]] < 0.3 and weights[ARKIT_INDEX["eyeBlinkLeft"]] < 0.3
    assert weights[ARKIT_INDEX["tongueOut"]] == 0


def test_left_is_the_subjects_own_left(tracker, face):
    """Lowering the lid of the eye at the viewer's right raises eyeBlinkLeft, and only that."""
    points = face.landmarks.points_px.copy()
    upper, lower = [386, 385, 387, 384, 388, 398, 466], [374, 380, 373, 381, 390, 382, 249]
    assert points[upper, 0].mean() > points[1, 0]
    points[upper] = points[lower]
    before, after = face.blendshapes, tracker.blendshapes(points)
    assert after[ARKIT_INDEX["eyeBlinkLeft"]] > before[ARKIT_INDEX["eyeBlinkLeft"]] + 0.4
    assert after[ARKIT_INDEX["eyeBlinkRight"]] < before[ARKIT_INDEX["eyeBlinkRight"]] + 0.1


def test_mirror_image_gives_mirrored_landmarks_and_weights(tracker, portrait, face):
    mirrored = tracker.track(np.ascontiguousarray(portrait[:, ::-1]))
    right, left = (np.array([pair[side] for pair in MIRROR_PAIRS]) for side in (0, 1))
    for here, there in ((right, left), (left, right)):
        back = mirrored.landmarks.points_px[there, :2] * (-1, 1) + (512, 0)
        assert np.linalg.norm(back - face.landmarks.points_px[here, :2], axis=1).max() < 0.06 * face.landmarks.iod_px
    for name in ("mouthSmile", "eyeBlink", "browDown"):
        one, other = (face.blendshapes[ARKIT_INDEX[name + side]] for side in ("Left", "Right"))
        found = [mirrored.blendshapes[ARKIT_INDEX[name + side]] for side in ("Right", "Left")]
        np.testing.assert_allclose(found, [one, other], atol=0.15)


@pytest.mark.parametrize("scale", [3.0, 2.0, 0.75, 0.6])
def test_landmarks_follow_the_scale(tracker, portrait, face, scale):
    method = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    found = tracker.track(cv2.resize(portrait, None, fx=scale, fy=scale, interpolation=method))
    error = np.linalg.norm(found.landmarks.points_px[:, :2] / scale - face.landmarks.points_px[:, :2], axis=1)
    assert error.mean() < 0.7 and error.max() < 2


@pytest.mark.parametrize("degrees", [-35, 20, 35])
def test_landmarks_follow_a_tilt(tracker, portrait, face, degrees):
    matrix = cv2.getRotationMatrix2D((225, 140), degrees, 1.0)
    found = tracker.track(cv2.warpAffine(portrait, matrix, (512, 512), borderMode=cv2.BORDER_REPLICATE))
    expected = face.landmarks.points_px[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    error = np.linalg.norm(found.landmarks.points_px[:, :2] - expected, axis=1)
    assert error.mean() < 0.8 and error.max() < 2.5
    assert math.degrees(found.landmarks.roll_rad - face.landmarks.roll_rad) == pytest.approx(-degrees, abs=1.5)


def test_exif_rotation_changes_nothing(tracker, portrait, face, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(portrait).transpose(Image.Transpose.ROTATE_90).save(tmp_path / "a.png", exif=exif)
    found = tracker.track(load_photo(tmp_path / "a.png").rgb)
    np.testing.assert_allclose(found.landmarks.points_px, face.landmarks.points_px, atol=1e-6)


@pytest.mark.parametrize("size", [1500, 3000, 5000])
def test_small_face_in_a_large_picture_is_found_by_tiles(tracker, portrait, face, size):
    """The face is 86 pixels wide: down to 1.7 % of the picture's width."""
    x, y = size // 4, size // 3
    found = tracker.track(pasted(portrait, (size, size), x, y))
    assert found.faces_found == 1
    error = found.landmarks.points_px[:, :2] - (x, y) - face.landmarks.points_px[:, :2]
    assert np.linalg.norm(error, axis=1).max() < 1.5


def test_face_that_fills_the_picture(tracker, portrait, face):
    x0, y0, x1, y1 = face.landmarks.box_px.astype(int)
    close = tracker.track(np.ascontiguousarray(portrait[y0 - 8 : y1 + 8, x0 - 8 : x1 + 8]))
    error = close.landmarks.points_px[:468, :2] + (x0 - 8, y0 - 8) - face.landmarks.points_px[:468, :2]
    assert np.linalg.norm(error, axis=1).mean() < 2


def test_largest_of_several_faces_is_taken_and_said(tracker, portrait, face):
    smaller = pasted(cv2.resize(portrait, (384, 384), interpolation=cv2.INTER_AREA), (512, 384), 0, 0)
    both = np.hstack([smaller, portrait])
    found = tracker.track(both, name="two.png")
    assert found.faces_found == 2
    error = found.landmarks.points_px[:, :2] - (384, 0) - face.landmarks.points_px[:, :2]
    assert np.linalg.norm(error, axis=1).max() < 1.5
    x, y = (found.landmarks.box_px[:2] + found.landmarks.box_px[2:]) / 2
    assert found.notes == [
        f"2 faces found in two.png; using the largest, centred at {x:.0f},{y:.0f}. For another pass --face 1."
    ]
    second = tracker.track(both, face_index=1)
    assert second.landmarks.points_px[1, 0] < 384 and second.notes == []
    assert refusal(tracker, both, face_index=2, name="two.png") == (
        "there is no face 2 in two.png: 2 faces were found; pass --face 0 to 1, 0 being the largest"
    )


def test_two_heads_of_one_scan(tracker):
    found = tracker.track(sample_rgb("james.jpg"), face_index=0)
    other = tracker.track(sample_rgb("james.jpg"), face_index=1)
    apart = math.degrees(abs(found.landmarks.yaw_rad - other.landmarks.yaw_rad))
    assert found.faces_found == 2
    assert apart == pytest.approx(49, abs=12)  # the cameras stand 49 degrees apart


def test_face_box_takes_the_place_of_detection(tracker, portrait, face):
    found = tracker.track(portrait, face_box=(170, 60, 110, 120))
    error = np.linalg.norm(found.landmarks.points_px[:, :2] - face.landmarks.points_px[:, :2], axis=1)
    assert error.mean() < 0.7 and error.max() < 2


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ((1, 2, 3), "the face box 1,2,3 is not a box; pass x,y,w,h in pixels with a positive width and height"),
        ((0, 0, 0, 9), "the face box 0,0,0,9 is not a box; pass x,y,w,h in pixels with a positive width and height"),
        ((0, 0, math.nan, 9), "the face box 0,0,nan,9 is not a box; pass x,y,w,h in pixels with a positive width and height"),
        ((600, 0, 9, 9), "the face box 600,0,9,9 lies outside a.png (512×512); pass x,y,w,h in its pixels"),
    ],
)  # fmt: skip
def test_face_box_that_is_none(tracker, portrait, box, said):
    assert refusal(tracker, portrait, face_box=box, name="a.png") == said


def test_face_box_without_a_face(tracker, portrait):
    sentence = refusal(tracker, portrait, face_box=(400, 20, 100, 100), name="a.png")
    assert sentence.startswith("no face found in the box 400,20,100,100 of a.png (512×512); it scored 0.")
    assert sentence.endswith(" of the 0.50 needed. Give a box from the brows to the chin.")


def test_no_face(tracker):
    plain = np.full((1080, 1920, 3), 120, np.uint8)
    best = tracker.search(plain).best_score
    assert best < 0.5
    assert refusal(tracker, plain, name="group.jpg") == (
        f"no face found in group.jpg (1920×1080); the best candidate scored {best:.2f} of the 0.50 needed. Crop "
        "closer, or pass --face-box x,y,w,h."
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 3000), (3000, 2), (40, 40)])
def test_tiny_and_thin_pictures_hold_no_face(tracker, shape):
    sentence = refusal(tracker, np.zeros((*shape, 3), np.uint8), name="a.png")
    assert sentence.startswith(f"no face found in a.png ({shape[1]}×{shape[0]}); the best candidate scored 0.")


def test_noise_holds_no_face(tracker):
    noise = np.random.default_rng(0).integers(0, 255, (800, 1200, 3), dtype=np.uint8)
    assert refusal(tracker, noise).startswith("no face found in the picture (1200×800); ")


def test_face_too_small(tracker, portrait):
    small = cv2.resize(portrait, (256, 256), interpolation=cv2.INTER_AREA)
    assert refusal(tracker, small, name="a.png") == (
        "the face in a.png is too small: 21 pixels between the eyes, at least 24 are needed. Use a larger picture of it."
    )


def test_face_cut_off_by_the_edge(tracker):
    sentence = refusal(tracker, sample_rgb("obama_partial_face2.jpg"), name="cut.jpg")
    assert sentence == (
        "the face in cut.jpg is cut off by the picture's edge: 21% of it lies outside, at most 8% may. Use a picture "
        "that shows the whole face."
    )
    assert "cut off by the picture's edge" in refusal(tracker, sample_rgb("obama_partial_face.jpg"))


@pytest.fixture(scope="module")
def turned_scan():
    """A function that paints the textured scan of a head, turned by some degrees, as (1200, 1200, 3) uint8."""
    vertices, coordinates, faces, corners = [], [], [], []
    for line in sample("james.obj").read_text().splitlines():
        kind, *values = line.split() or [""]
        if kind == "v":
            vertices.append([float(value) for value in values[:3]])
        elif kind == "vt":
            coordinates.append([float(value) for value in values[:2]])
        elif kind == "f":
            pairs = [[int(part) - 1 for part in value.split("/")[:2]] for value in values]
            faces.append([pair[0] for pair in pairs])
            corners.append([pair[1] for pair in pairs])
    faces, uv = np.array(faces), np.array(coordinates)[np.array(corners)].mean(axis=1)
    points = np.array(vertices)
    points -= (points.min(axis=0) + points.max(axis=0)) / 2
    texture = cv2.GaussianBlur(sample_rgb("james.jpg"), (0, 0), 2)
    height, width = texture.shape[:2]
    columns, rows = (uv[:, 0] * width).astype(int), ((1 - uv[:, 1]) * height).astype(int)
    colours = texture[np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]

    def paint(degrees):
        turn = math.radians(degrees)
        x = points[:, 0] * math.cos(turn) + points[:, 2] * math.sin(turn)
        z = points[:, 2] * math.cos(turn) - points[:, 0] * math.sin(turn)
        scale = 2.3 * 900 / (900 - z)  # 2.3 pixels a millimetre, seen from 0.9 m
        corners_px = np.stack([600 + x * scale, 600 - points[:, 1] * scale], axis=-1)[faces]
        along, across = corners_px[:, 1] - corners_px[:, 0], corners_px[:, 2] - corners_px[:, 0]
        front = along[:, 0] * across[:, 1] - along[:, 1] * across[:, 0] < 0
        canvas = np.full((1200, 1200, 3), 100, np.uint8)
        for index in np.argsort(z[faces].mean(axis=1)):
            if front[index]:
                corners_int = np.rint(corners_px[index] * 16).astype(np.int32)
                cv2.fillConvexPoly(canvas, corners_int, colours[index].tolist(), cv2.LINE_8, 4)
        return canvas

    return paint


def test_yaw_follows_the_turn_of_a_scan(tracker, turned_scan):
    turns = np.arange(-45, 31, 15)
    found = np.array([math.degrees(tracker.track(turned_scan(turn)).landmarks.yaw_rad) for turn in turns])
    # The scan itself looks some degrees to its left.
    assert 0 < np.mean(found - turns) < 12
    assert np.ptp(found - turns) < 6


def test_face_turned_too_far(tracker, turned_scan):
    picture = turned_scan(-70)
    yaw = math.degrees(tracker.follow(picture).landmarks.yaw_rad)
    assert refusal(tracker, picture, name="a.png") == (
        f"the face in a.png is turned {-yaw:.0f}° to its right, at most 55° is understood. Use a picture that is closer "
        "to the front."
    )
    assert "° to its left, " in refusal(tracker, np.ascontiguousarray(picture[:, ::-1]))


def test_half_a_face_is_not_said_to_need_a_turn(tracker, portrait):
    assert "turn" not in refusal(tracker, np.ascontiguousarray(portrait[:300, 150:225]), name="a.png")


def test_face_in_full_profile(tracker, turned_scan):
    assert refusal(tracker, turned_scan(-90), name="a.png") == (
        "the face in a.png (1200×1200) cannot be measured: it is in profile, covered or blurred. Use a picture from "
        "closer to the front."
    )


def test_picture_upside_down_says_how_to_turn_it(tracker, portrait):
    assert refusal(tracker, np.ascontiguousarray(portrait[::-1, ::-1]), name="a.png") == (
        "no upright face found in a.png (512×512), but one that needs half a turn; turn the picture and try again."
    )


def test_picture_on_its_side_is_used_and_said(tracker, portrait, face):
    found = tracker.track(np.ascontiguousarray(np.rot90(portrait)), name="a.png")
    expected = np.column_stack([face.landmarks.points_px[:, 1], 512 - face.landmarks.points_px[:, 0]])
    assert np.linalg.norm(found.landmarks.points_px[:, :2] - expected, axis=1).mean() < 1
    assert found.notes == [
        f"the face in a.png is tilted by {abs(math.degrees(found.landmarks.roll_rad)):.0f}°; if the picture lies on its "
        "side, turn it upright"
    ]


def test_every_frame_of_a_clip_is_followed(tracker):
    face, presences, jumps = None, [], []
    for frame in imageio.imread(sample("carphone_pristine.mp4"))[:40]:
        before = face
        face = tracker.follow(cv2.resize(frame, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC), before)
        assert face is not None
        presences.append(face.landmarks.presence)
        if before is not None:
            jumps.append(np.abs(face.landmarks.points_px[:, :2] - before.landmarks.points_px[:, :2]).mean())
    assert min(presences) > 0.9
    assert max(jumps) < 0.25 * face.landmarks.iod_px


def test_follow_finds_a_face_that_jumped_and_reports_one_that_left(tracker, portrait, face):
    moved = pasted(portrait, (1024, 1024), 500, 400)
    found = tracker.follow(moved, face)
    error = found.landmarks.points_px[:, :2] - (500, 400) - face.landmarks.points_px[:, :2]
    assert np.linalg.norm(error, axis=1).max() < 1.5
    assert tracker.follow(np.full((512, 512, 3), 90, np.uint8), face) is None


def test_same_answer_again_and_from_several_threads(portrait, face):
    model("face_landmarker.task")
    results = []

    def work():
        results.append(FaceTracker().track(portrait).landmarks.points_px)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(np.array_equal(points, face.landmarks.points_px) for points in results)


def test_missing_model_says_how_to_get_it(portrait, tmp_path, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    assert refusal(FaceTracker(), portrait) == (
        f"the model file face_landmarker.task is not in {tmp_path / 'models'}; run `avatar3d models pull` "
        "to fetch all that is missing"
    )


@pytest.mark.parametrize("data", [b"", b"no zip", b"PK\x05\x06" + b"\0" * 18])
def test_file_that_is_no_model(portrait, tmp_path, data):
    path = tmp_path / "my.task"
    path.write_bytes(data)
    assert refusal(FaceTracker(path), portrait) == (
        f"cannot use {path} as a face model: it is not a .task bundle with face_detector.tflite; run `avatar3d models "
        "pull` and name no file"
    )


def test_a_small_bundle_that_states_gigabytes_is_refused(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as bundle:
        bundle.writestr("net.tflite", bytes(64))
    data = bytearray(stream.getvalue())
    for size in (8, 12):  # of the directory's only entry: packed, unpacked
        place = data.index(b"PK\1\2") + 12 + size
        data[place : place + 4] = (2**31).to_bytes(4, "little")
    (tmp_path / "my.task").write_bytes(data)
    with pytest.raises(InputError, match=r"not a \.task bundle with net\.tflite"):
        network_bytes(tmp_path / "my.task", "net.tflite")


def test_loading_a_network_is_silent_and_done_once(capfd):
    path = model("selfie_segmentation.tflite")
    load_network.cache_clear()
    network = load_network(path, None, 2)
    assert load_network(path, None, 2) is network
    assert capfd.readouterr() == ("", "")
