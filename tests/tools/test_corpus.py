"""tools/corpus: its table of people, its made cases, its arithmetic, and one face from photo to sheet."""

import json
import pkgutil
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import yaml
from PIL import Image

from avatar3d import models
from avatar3d.camera import Camera
from avatar3d.errors import InputError
from avatar3d.face.landmarks import FaceLandmarks
from avatar3d.face.tracker import FaceTracker
from avatar3d.head.model import HeadModel
from tests.samples import model, sample_rgb
from tools.corpus_lib import ablation, films, table, verdicts
from tools.corpus_lib.command import main
from tools.corpus_lib.drawn import iou, mask_of
from tools.corpus_lib.figures import IRIS_EDGES, size_by_iris
from tools.corpus_lib.made import MADE, SMALL_IOD_PX, make
from tools.corpus_lib.manifest import TABLE, read_corpus


@pytest.fixture(scope="module")
def corpus():
    return read_corpus()


def test_enough_people_and_no_one_in_both_halves(corpus):
    photos = [entry for entry in corpus.entries if entry.made is None and not entry.refused]
    people = {half: {entry.person for entry in corpus.entries if entry.half == half} for half in ("tune", "judge")}
    assert len(photos) >= 40 and len(people["tune"] | people["judge"]) >= 25
    assert not people["tune"] & people["judge"]
    assert min(len(half) for half in people.values()) >= 15
    listed = yaml.safe_load(TABLE.read_text(encoding="utf-8"))["people"]
    assert {half: set(names) for half, names in listed.items()} == people


def test_every_file_is_in_the_manifest_and_every_film_has_its_persons_photo(corpus):
    for entry in corpus.entries:
        assert models.entry(entry.file).group in models.PICTURE_GROUPS
    for film in corpus.films:
        assert corpus.entry(film.photo).person == film.person and models.entry(film.file)
    used = {entry.file for entry in corpus.entries} | {film.file for film in corpus.films}
    named = yaml.safe_load((TABLE.parents[1] / "configs" / "models.yaml").read_text(encoding="utf-8"))["files"]
    assert {name for name, fields in named.items() if fields["group"] == "corpus"} - used <= {"single_face.mp4"}


def test_made_cases_are_of_photos_with_one_face_and_in_both_halves(corpus):
    for transform in MADE:
        made = [entry for entry in corpus.entries if entry.made == transform]
        assert {entry.half for entry in made} == {"tune", "judge"}
        for entry in made:
            base = corpus.entry(entry.base)
            assert base.box is None and base.frame is None and base.person == entry.person


def test_a_person_in_both_halves_is_refused(tmp_path):
    document = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    document["people"]["judge"].append("obama")
    path = tmp_path / "corpus.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match="obama is named twice"):
        read_corpus(path)


def test_choosing_by_half_person_and_name(corpus):
    assert {entry.half for entry in corpus.chosen("judge", made=True)} == {"judge"}
    assert [entry.id for entry in corpus.chosen("tune", ["obama"])] == ["obama", "obama2", "obama3", "obama-cut"]
    assert [entry.id for entry in corpus.chosen("all", ["astronaut+grey"])] == ["astronaut+grey"]
    assert corpus.chosen("judge", ["phone-first"]) == []  # a film: its avatar is made when it is driven
    with pytest.raises(InputError, match="no photo of the corpus is called nobody"):
        corpus.chosen("all", ["nobody"])


@pytest.fixture(scope="module")
def astronaut():
    model("face_landmarker.task")
    return sample_rgb("astronaut.png")


def test_made_cases_repeat_to_the_byte_and_are_what_they_say(astronaut, tmp_path):
    tracker = FaceTracker()
    face = tracker.track(astronaut).landmarks
    pictures = {}
    for name in MADE:
        files = [tmp_path / f"{name}-{turn}{'.jpg' if name == 'jpeg' else '.png'}" for turn in (1, 2)]
        for file in files:
            make(name, astronaut, file)
        assert files[0].read_bytes() == files[1].read_bytes()
        pictures[name] = np.array(Image.open(files[0]))
    height, width = astronaut.shape[:2]
    assert pictures["cut-hair"].shape[0] < height - face.points_px[10, 1] + 0.2 * face.iod_px
    assert 0 < face.points_px[152, 1] - pictures["cut-chin"].shape[0] < 0.3 * face.iod_px
    assert pictures["cut-ear"].shape[1] == width - round(face.points_px[234, 0])
    for name, degrees in (("tilt-left", -30), ("tilt-right", 30)):
        turned = np.degrees(tracker.track(pictures[name]).landmarks.roll_rad - face.roll_rad)
        assert turned == pytest.approx(degrees, abs=3)
    assert (pictures["grey"][..., 0] == pictures["grey"][..., 2]).all()
    middle = round(float(face.points_px[:468, 0].mean()))
    cheeks = pictures["side-light"][150:170, middle - 40 : middle + 40]
    assert cheeks[:, -20:].mean() < 0.6 * cheeks[:, :20].mean()
    assert tracker.track(pictures["small"]).landmarks.iod_px == pytest.approx(SMALL_IOD_PX, rel=0.1)
    lips, forehead, eye = (pictures[name][tuple(face.points_px[point, 1::-1].astype(int))].astype(int)
                           for name, point in (("mask", 13), ("hat", 10), ("dark-glasses", 468)))  # fmt: skip
    assert lips[2] > lips[0] + 30 and forehead[0] > 2 * forehead[1] and eye.max() < 60
    sharpness = [cv2.Laplacian(picture, cv2.CV_64F).std() for picture in (pictures["blur"], astronaut)]
    assert sharpness[0] < 0.3 * sharpness[1]
    assert pictures["jpeg"].shape == astronaut.shape and (tmp_path / "jpeg-1.jpg").stat().st_size < 30_000


def row(id_, half="tune", **figures):
    return {"id": id_, "person": id_, "half": half, "made": None, "error": None, "exit_code": 0, **figures}


def test_medians_and_worst_leave_out_what_is_missing():
    rows = [row("a", silhouette_iou=0.9, size_by_iris_pct=-12.0), row("b", silhouette_iou=0.5, size_by_iris_pct=4.0), row("c")]
    rows.append(row("d", silhouette_iou=float("inf"), size_by_iris_pct=6.0))
    assert table.median(rows, "silhouette_iou") == pytest.approx(0.7)
    assert table.worst(rows, "silhouette_iou") == 0.5
    assert table.median(rows, "size_by_iris_pct") == 6.0  # of the magnitudes
    assert table.worst(rows, "size_by_iris_pct") == -12.0
    assert table.median(rows, "hair_iou") is None and table.worst(rows, "hair_iou") is None


def test_refusals_that_were_expected_are_no_failures():
    refused = {"error": "the face is cut off", "exit_code": 2}
    assert table.failed(row("a", **refused)) and not table.failed(row("b", expected=True, **refused))
    assert table.failed(row("c", expected=True, error="IndexError: 3", exit_code=1))
    rows = [row("a", **refused), row("b", photo_psnr_db=20.0), row("c", "judge", photo_psnr_db=30.0)]
    summary = table.summary(rows)
    assert summary["tune"]["failed"] == 1 and summary["tune"]["median"]["photo_psnr_db"] == 20.0
    assert summary["judge"]["rows"] == 1
    assert "exit 2: the face is cut off" in table.text(rows, [])


def test_comparing_takes_what_both_hold_and_keeps_the_halves_apart():
    before = {"rows": [row("a", photo_psnr_db=20.0), row("b", "judge", photo_psnr_db=10.0), row("gone", photo_psnr_db=1.0)]}
    after = {"rows": [row("a", photo_psnr_db=22.0), row("b", "judge", photo_psnr_db=30.0), row("new", photo_psnr_db=99.0)]}
    lines = table.compare(before, after).splitlines()
    assert [line.split(":")[0] for line in lines if "in both" in line] == ["tune", "judge"]
    assert [line.split() for line in lines if line.startswith("a ")] == [["a", "20.0|22.0"]]
    assert [line.split()[1] for line in lines if line.startswith("worst")] == ["20.0|22.0", "10.0|30.0"]
    assert not any("new" in line or "gone" in line for line in lines)


def judged(id_, grade, said="", **figures):
    quality = {"grade": grade, "line": f"the avatar is {grade}" + (f": {said}" if said else "")}
    return row(id_, quality=quality, warnings=[quality["line"]] if grade == "poor" else [], **figures)


def test_the_verdict_is_counted_against_the_eye():
    rows = [judged("a", "good"), judged("b", "poor", "its hair"), judged("c", "good"), judged("d", "good"), row("e")]
    found = verdicts.against_the_eye(rows, {"a": "good", "b": "usable", "c": "poor", "e": "good"})
    assert found["counts"]["good"] == {"good": 1, "usable": 0, "poor": 0}
    assert found["false_alarms"] == ["b"] and found["missed"] == ["c"]
    assert "called poor of 2 that are not: b; wrecks called good: c" in verdicts.text(
        rows, {"a": "good", "b": "usable", "c": "poor"}
    )


def test_a_made_case_that_falls_without_a_word_is_marked():
    base = judged("a", "usable", "it is small", photo_psnr_db=25.0, identity_30=0.4)
    same = {**judged("a+grey", "usable", "it is small", photo_psnr_db=24.0, identity_30=0.45), "made": "grey"}
    fallen = {**judged("a+blur", "usable", "it is small", photo_psnr_db=25.0, identity_30=0.6), "made": "blur"}
    told = {**judged("a+mask", "poor", "a mask", photo_psnr_db=20.0, identity_30=0.4), "made": "mask"}
    refused = {**row("a+cut", error="the face is cut off", exit_code=2), "made": "cut"}
    cases = {case["id"]: case for case in verdicts.made_cases([base, same, fallen, told, refused, {**told, "id": "gone+mask"}])}
    assert list(cases) == ["a+grey", "a+blur", "a+mask", "a+cut"]
    assert not cases["a+grey"]["fell"] and not cases["a+grey"]["silent"]
    assert cases["a+blur"]["fell"] == ["id 30 0.400 → 0.600"] and cases["a+blur"]["silent"]
    assert cases["a+mask"]["said"] == ["the avatar is poor: a mask"] and not cases["a+mask"]["silent"]
    assert (cases["a+cut"]["after"], cases["a+cut"]["said"]) == ("refused", ["the face is cut off"])
    assert "1 fell without a word" in verdicts.text([base, fallen, told], {})


def test_only_heads_of_the_tune_half_are_graded_by_eye(tmp_path, corpus):
    enrolled = {item.id for item in corpus.entries if item.half == "tune" and item.made is None and not item.refused}
    assert set(corpus.by_eye) == enrolled
    document = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    document["by_eye"]["good"].append("biden")
    path = tmp_path / "corpus.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match="biden is graded by eye"):
        read_corpus(path)


def test_following_a_film():
    true = np.linspace(0, 20, 30)
    half = films.follow(true, 0.5 * true + 1)
    assert half["slope"] == 0.5 and half["correlation"] == 1.0 and half["error"] == pytest.approx(-4.0)
    assert films.follow(true, np.ones(30))["correlation"] is None and films.follow(true, np.ones(30))["slope"] == 0
    assert films.follow(np.ones(30), true)["slope"] is None


def test_openings_are_shares_of_the_face():
    points = np.zeros((478, 2))
    points[[33, 133, 362, 263]] = (-45, 0), (-15, 0), (15, 0), (45, 0)
    points[[13, 14]] = (0, 40), (0, 46)
    points[[159, 145]] = (-30, -5), (-30, 4)
    points[[386, 374]] = (30, -5), (30, 4)
    assert films.openings(points) == pytest.approx([10.0, 30.0])
    assert films.openings(points * 3 + 7) == pytest.approx([10.0, 30.0])


def test_size_by_the_iris_is_nought_on_a_head_of_true_scale_and_follows_it():
    head = HeadModel.default()
    landmarks = head.landmark_points(head.vertices)
    joints = dict(zip(("leftEye", "rightEye"), head.eye_centres(head.vertices), strict=True))

    def measured(scale):
        """Of the default head made larger or smaller, in one picture with irises of 11.7 mm."""
        camera = Camera.orbit(0.0, distance_m=0.6 * scale, view_height_m=0.34 * scale)
        avatar = SimpleNamespace(
            vertices=head.vertices * scale, expression=np.zeros((52, *head.vertices.shape), np.float32), photo_motion=None,
            landmark_triangles=head.landmark_tri, landmark_barycentric=head.landmark_bary, photo_camera=camera, joints=joints,
        )  # fmt: skip
        points = np.zeros((478, 3))
        still = Camera.orbit(0.0, distance_m=0.6)
        points[:468, :2], depth = still.project(landmarks.astype(float))
        radius = 0.0117 / 2 * still.intrinsics[0, 0] / depth[[159, 386]].mean()
        for right, left, top, bottom in IRIS_EDGES:
            points[[right, left, top, bottom], :2] = (-radius, 0), (radius, 0), (0, -radius), (0, radius)
        return size_by_iris(avatar, FaceLandmarks(points, 1.0))["size_by_iris_pct"]

    assert measured(1.0) == pytest.approx(0, abs=1.5)
    assert measured(0.9) == pytest.approx(-10, abs=1.5)


def test_masks_find_their_entries(corpus):
    drawn = {entry.id for entry in corpus.entries if mask_of(entry) is not None}
    assert {"astronaut", "obama", "james-left", "biden"} <= drawn
    assert "james-right" not in drawn and not any("+" in name for name in drawn)


def test_iou_counts_only_where_it_may():
    a, b, where = np.zeros((3, 8), bool), np.zeros((3, 8), bool), np.ones((3, 8), bool)
    a[:, :4], b[:, 2:6] = True, True
    assert iou(a, b, where) == pytest.approx(1 / 3, abs=1e-4)
    where[:, :2] = False
    assert iou(a, b, where) == 0.5
    assert iou(a & False, b & False, where) is None


def test_nothing_is_done_without_a_folder_or_with_an_unknown_name(tmp_path, capsys):
    assert main([]) == 2 and "pass -o DIR" in capsys.readouterr().err
    assert main(["-o", str(tmp_path), "--only", "nobody"]) == 2
    assert main(["--list", "--half", "judge"]) == 0 and "astronaut" not in capsys.readouterr().out


@pytest.mark.slow
def test_one_face_from_photo_to_sheet(tmp_path, capsys):
    for name in ("face_landmarker.task", "selfie_segmentation.tflite"):
        model(name)
    arguments = ["-o", str(tmp_path), "--only", "astronaut", "obama-cut", "--no-field"]
    assert main(arguments) == 0
    document = json.loads((tmp_path / "corpus.json").read_text())
    measured, refused = document["rows"]
    assert 0 < measured["identity_front"] < 0.5 and measured["identity_neutral"] < 0.6
    assert abs(measured["size_by_iris_pct"]) < 25 and measured["hair_iou"] > 0.8 and measured["skin_iou"] > 0.8
    assert 0 < measured["outline_mm"] < 4
    assert set(measured["seconds"]) and measured["bytes"] > 1_000_000
    assert refused["exit_code"] == 2 and document["summary"]["tune"]["failed"] == 0
    sheet = np.array(Image.open(tmp_path / "tune" / "astronaut__astronaut.png"))
    assert sheet.shape[0] > 700 and sheet.std() > 20
    assert (tmp_path / "tune" / "overview-1.png").exists()
    stamp = (tmp_path / "avatars" / "astronaut.glb").stat().st_mtime_ns
    capsys.readouterr()
    assert main([*arguments, "--resume", "--compare", str(tmp_path / "corpus.json")]) == 0
    assert (tmp_path / "avatars" / "astronaut.glb").stat().st_mtime_ns == stamp
    psnr = f"{measured['photo_psnr_db']:.1f}"
    assert f"{psnr}|{psnr}" in capsys.readouterr().out


@pytest.mark.parametrize("part", ablation.PARTS)
def test_an_ablation_replaces_what_it_names_and_gives_it_back(part):
    places = {place: pkgutil.resolve_name(place) for place in ablation.PARTS[part]}
    with ablation.without([part]):
        for place, original in places.items():
            assert pkgutil.resolve_name(place) is ablation.PARTS[part][place] is not original
    for place, original in places.items():
        assert pkgutil.resolve_name(place) is original
    head = ablation.head_without([part])
    assert bool(places) is (head is None) and (head is None or not head.control_identity.any())
