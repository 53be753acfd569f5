"""The head model's contract, proved on a head that shares no count with the default one."""

import numpy as np
import pytest
from other_head import other_head
from samples import model, sample, sample_rgb

import avatar3d
from avatar3d.avatar import LANDMARKS, PART_EYE, PART_MOUTH, PART_SKIN
from avatar3d.head.archive import write_head
from avatar3d.head.mediapipe import INNER_LIP_MIDDLES, LID_MIDDLES, POINTS
from avatar3d.motion.code import ARKIT_NAMES, MotionCode

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def enrolled():
    for network in ("face_landmarker.task", "selfie_segmentation.tflite"):
        model(network)
    report = {}
    return avatar3d.enroll(sample("astronaut.png"), head=other_head(), field=False, report=report), report


def landmarks(avatar, expression):
    code = MotionCode.from_expression(expression)
    vertices = avatar.vertices + np.tensordot(code.weights.astype(np.float32), avatar.expression, 1)
    return (vertices[avatar.landmark_triangles] * avatar.landmark_barycentric[..., None]).sum(1)


def test_a_photo_is_met_nearly_as_well_as_on_the_default_head(enrolled):
    avatar, report = enrolled
    assert report["landmark_error_iod_pct"] < 0.6  # the default head: 0.25
    assert report["silhouette_error_mm"] < 1.2 and report["silhouette_iou"] > 0.97
    assert 55 < report["pupil_distance_mm"] < 70
    assert len(avatar.landmark_triangles) == LANDMARKS and avatar.hair is not None
    parts = set(np.unique(avatar.part))
    assert {PART_SKIN, PART_EYE, PART_MOUTH} <= parts and not parts & {2, 3, 4}  # it has no teeth, no tongue, no lashes


def test_it_is_driven_through_its_own_rig(enrolled):
    avatar, _ = enrolled
    assert avatar.expression.shape == (len(ARKIT_NAMES), len(avatar.vertices), 3)
    upper, lower = INNER_LIP_MIDDLES
    rest, opened = landmarks(avatar, {}), landmarks(avatar, {"jawOpen": 1.0})
    assert abs(rest[upper, 1] - rest[lower, 1]) < 0.002 and opened[upper, 1] - opened[lower, 1] > 0.02
    shut = landmarks(avatar, {"eyeBlinkLeft": 1.0})
    (left_upper, left_lower), (right_upper, right_lower) = LID_MIDDLES
    assert shut[left_upper, 1] - shut[left_lower, 1] < 0.001
    assert shut[right_upper, 1] - shut[right_lower, 1] == pytest.approx(rest[right_upper, 1] - rest[right_lower, 1], abs=1e-4)


def test_it_is_written_read_again_and_drawn_alike(enrolled, tmp_path):
    avatar, _ = enrolled
    avatar3d.save(avatar, tmp_path / "other.glb")
    again = avatar3d.load(tmp_path / "other.glb")
    np.testing.assert_allclose(again.vertices, avatar.vertices, atol=1e-6)
    np.testing.assert_array_equal(again.faces, avatar.faces)
    eyes = avatar3d.stereo_pair(avatar3d.Camera.orbit(0.2, width=160, height=160, view_height_m=0.36, target=(0, -0.02, -0.06)))
    smile = MotionCode.from_expression({"mouthSmileLeft": 0.8, "mouthSmileRight": 0.8, "jawOpen": 0.2})
    before, after = (avatar3d.render(one, list(eyes), smile, renderer="reference") for one in (avatar, again))
    for one, two in zip(before, after, strict=True):
        assert 0.15 < (one.rgba[..., 3] > 0.5).mean() < 0.8
        off = np.abs(one.to_srgb8((128, 128, 128)).astype(int) - two.to_srgb8((128, 128, 128)))
        assert off.mean() < 0.2
    assert (
        np.abs(before[0].to_srgb8((0, 0, 0)).astype(int) - before[1].to_srgb8((0, 0, 0))).mean() > 1
    )  # two eyes, two pictures


def test_a_face_is_tracked_on_it():
    from avatar3d.tracking.track import VideoTracker

    model("face_landmarker.task")
    rgb = sample_rgb("astronaut.png")
    codes = {}
    for name, head in (("default", None), ("other", other_head())):
        tracker = VideoTracker(rgb.shape[1], rgb.shape[0], head=head)
        tracker.look_ahead([(k * 33_000_000, rgb) for k in range(3)])
        frames = [tracker.step(k * 33_000_000, rgb) for k in range(3)]
        assert tracker.teachers and frames[-1].landmarks[0].points_px.shape == (POINTS, 3)
        codes[name] = frames[-1].codes[0]
    jaw = ARKIT_NAMES.index("jawOpen")
    assert codes["other"].weights[jaw] == pytest.approx(codes["default"].weights[jaw], abs=0.1)
    assert abs(float(codes["other"].rotation @ codes["default"].rotation)) > 0.998  # within 7 degrees
    np.testing.assert_allclose(codes["other"].gaze, codes["default"].gaze, atol=0.15)


def test_a_film_is_tracked_on_a_heads_file(tmp_path):
    from avatar3d.fitting.given import given_head

    model("face_landmarker.task")
    write_head(given_head(other_head()), tmp_path / "other.npz")
    with avatar3d.open_motion(f"video:{sample('carphone_pristine.mp4')}?head={tmp_path / 'other.npz'}") as source:
        codes = [source.read() for _ in range(20)]
    assert all(code is not None and code.weights.max() > 0 for code in codes)


def test_the_command_takes_a_heads_file_and_refuses_what_is_none(tmp_path, capsys):
    from avatar3d.cli import main
    from avatar3d.fitting.given import given_head

    photo = str(sample("astronaut.png"))
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK no")
    arguments = ["enroll", photo, "-o", str(tmp_path / "me.glb"), "--no-field", "--no-hair", "--head"]
    assert main([*arguments, str(broken)]) == 2
    assert f"{broken} is not a head asset" in capsys.readouterr().err
    assert main([*arguments, "nobody"]) == 2
    assert "unknown head model 'nobody'; expected one of default" in capsys.readouterr().err
    model("face_landmarker.task")
    write_head(given_head(other_head()), tmp_path / "other.npz")
    assert main([*arguments, str(tmp_path / "other.npz")]) == 0
    count = len(avatar3d.load(tmp_path / "me.glb").vertices)
    assert len(other_head().vertices) <= count < 8000
