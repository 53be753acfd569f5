"""Reading small files that may hold anything, and what an error says of it."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from avatar3d.errors import MAX_SENTENCE, InputError
from avatar3d.files import (
    check_writable,
    make_folder,
    parse_json,
    read_bounded,
    read_json,
    read_npz,
    read_yaml,
    replacing,
    write_bytes,
)
from avatar3d.glb import read_glb
from avatar3d.motion.calibrate import read_calibration
from avatar3d.motion.csv import read_motion_csv
from avatar3d.motion.jsonl import read_motion_jsonl
from avatar3d.motion.sources import open_source
from avatar3d.net.token import read_token
from avatar3d.photo import load_photo
from avatar3d.rendering.opengl.autotune import remembered
from avatar3d.tracking.frames import open_video


@pytest.mark.parametrize(
    "text",
    [
        "2023-13-45", "!!bool x", "!!timestamp x", "!!int x", "!!float x", "0b_", "2001-01-01T00:00:00+99:99",  # not YAML's own errors
        "a: &a [1]\nb: *a", "a: [", "!!python/object:os.system x", "- " * 50_000, "[" * 50_000, "{a: " * 900, "0x" + "f" * 5000,
        "a: " + "y" * 300, "\0", "a: \ud800",
    ],
)  # fmt: skip
def test_odd_yaml_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match="is not YAML that settings can hold") as error:
        read_yaml(path, "settings", 1_000_000)
    assert len(str(error.value)) <= MAX_SENTENCE


def test_yaml_that_doubles_with_each_line_is_not_unfolded(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    (tmp_path / "settings.yaml").write_text("\n".join(lines))
    with pytest.raises(InputError, match="alias"):
        read_yaml(tmp_path / "settings.yaml", "settings", 100_000)


def test_plain_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\nb: [true, null, 0.5, x]\n")
    assert read_yaml(tmp_path / "a.yaml", "settings", 1000) == {"a": 1, "b": [True, None, 0.5, "x"]}
    (tmp_path / "a.json").write_text('{"a": [1, -2.5e3, "x", null]}')
    assert read_json(tmp_path / "a.json", "settings", 1000) == {"a": [1, -2500.0, "x", None]}


@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", "NaN", "Infinity", "1" + "0" * 30, "9" * 5000, "[" * 100_000, "", "{", '"\xff"']
)
def test_json_numbers_that_no_double_holds_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text.encode("latin1"))


def test_large_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1001))
    assert len(read_bounded(tmp_path / "a", "settings", 1001)) == 1001
    with pytest.raises(InputError, match="too large for settings: over 1000 bytes"):
        read_bounded(tmp_path / "a", "settings", 1000)
    with pytest.raises(InputError, match="cannot read the settings .*No such file"):
        read_bounded(tmp_path / "b", "settings", 1000)
    with pytest.raises(InputError, match="cannot read the settings .*it is a folder"):
        read_bounded(tmp_path, "settings", 1000)


READERS = {
    "settings": lambda path: read_bounded(path, "settings", 1000),
    "YAML": lambda path: read_yaml(path, "settings", 1000),
    "motion as CSV": read_motion_csv,
    "motion as JSON lines": read_motion_jsonl,
    "source csv:": lambda path: open_source(f"csv:{path}"),
    "source json:": lambda path: open_source(f"json:{path}"),
    "calibration": read_calibration,
    "token": lambda path: read_token(file=path),
    "avatar": read_glb,
    "measurements": remembered,
    "photo": load_photo,
    "video": open_video,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_never_ends_or_never_begins_is_refused_at_once(read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "a\0b"):
        with pytest.raises(InputError):
            read(path)


def test_reading_asks_for_no_more_room_than_the_file_takes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"{}")
    tracemalloc.start()
    try:
        read_bounded(tmp_path / "a", "settings", 10**9)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10**7


def _npz(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    return stream.getvalue()


def _npy(header: str, body: bytes) -> bytes:
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + body


def test_an_npz_file_is_read_as_numpy_reads_it(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.asfortranarray(np.arange(6).reshape(2, 3)), "c": np.array(["x", "yz"])}
    np.savez_compressed(tmp_path / "a.npz", **arrays, d=np.array(3))
    read = read_npz(tmp_path / "a.npz", "asset", 10_000)
    assert read.keys() == {"a", "b", "c", "d"} and int(read["d"]) == 3
    for name, value in arrays.items():
        assert read[name].dtype == value.dtype and (read[name] == value).all() and read[name].flags.writeable


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,)}\n",  # would take 4 GB
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 300 + "}\n",
        "{'descr': '|S0', 'fortran_order': False, 'shape': (4,)}\n",
        "nothing\n",
    ],
)
def test_an_array_that_is_not_what_it_states_is_refused(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(_npz({"a.npy": _npy(header, bytes(4))}))
    with pytest.raises(InputError, match="is not a head asset"):
        read_npz(tmp_path / "a.npz", "head asset", 10_000)


def test_arrays_that_unfold_beyond_the_bound_are_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**6))
    with pytest.raises(InputError, match="over 1000000 bytes"):
        read_npz(tmp_path / "a.npz", "head asset", 10**6)


def test_a_folder_is_made_or_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot write into .*file.*name a folder"):
        make_folder(tmp_path / "file")


def test_a_sentence_is_one_short_line_whatever_it_quotes() -> None:
    sentence = str(InputError("camera 'a\nb\x1b[31m' is " + json.dumps(["y" * 5000]) + "; expected a name"))
    assert len(sentence) <= MAX_SENTENCE and sentence.isprintable()
    assert sentence.startswith("camera 'a b [31m'") and sentence.endswith("; expected a name")


def _through_name(path: Path) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(b"new")


@pytest.mark.parametrize("write", [_through_name, lambda path: write_bytes(path, b"new")], ids=["replacing", "write_bytes"])
class TestWriting:
    def test_what_is_made_of_a_face_is_its_owners_alone(self, write, tmp_path: Path) -> None:
        write(tmp_path / "me.glb")
        assert (tmp_path / "me.glb").stat().st_mode & 0o777 == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["me.glb"]

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
    def test_a_mode_that_was_there_is_kept(self, write, mode: int, tmp_path: Path) -> None:
        (tmp_path / "me.glb").write_bytes(b"old")
        (tmp_path / "me.glb").chmod(mode)
        write(tmp_path / "me.glb")
        assert (tmp_path / "me.glb").stat().st_mode & 0o777 == mode and (tmp_path / "me.glb").read_bytes() == b"new"

    def test_a_link_stays_and_its_target_is_written(self, write, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        (tmp_path / "me.glb").symlink_to(tmp_path / "there" / "real.glb")
        write(tmp_path / "me.glb")
        assert (tmp_path / "me.glb").is_symlink() and (tmp_path / "there" / "real.glb").read_bytes() == b"new"

    @pytest.mark.parametrize("name", ["x" * 300 + ".glb", "missing/me.glb"])
    def test_a_place_that_cannot_be_is_a_sentence(self, write, name: str, tmp_path: Path) -> None:
        for attempt in (write, check_writable):
            with pytest.raises(InputError, match="cannot write"):
                attempt(tmp_path / name)

    def test_names_as_long_as_the_system_has_are_written(self, write, tmp_path: Path) -> None:
        write(tmp_path / ("x" * 250 + ".glb"))
        assert len(list(tmp_path.iterdir())) == 1

    def test_links_in_a_circle_are_a_sentence(self, write, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to(tmp_path / "b")
        (tmp_path / "b").symlink_to(tmp_path / "a")
        with pytest.raises(InputError, match="cannot write"):
            write(tmp_path / "a")


def test_what_others_may_read_follows_the_umask(tmp_path: Path) -> None:
    import os

    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "model", b"x", shared=True)
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o640
