"""Whatever stands in names, files and networks, what a command prints moves no terminal's cursor, and is no traceback."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_avatar import synthetic_avatar

from avatar3d import cli
from avatar3d.glb import write_glb
from avatar3d.progress import ProgressBar
from avatar3d.text import printable_stderr

HOSTILE = "a\x1b]0;owned\x07\x9b31m\r\u202eb"
# Escape, CSI, bell, backspace, delete, line ends, a direction override, a byte of a name that is not UTF-8, and what is harmless.
LETTERS = "\x1b\x9b\x07\x08\x7f\r\n\u2028\u202e\udc9b[m²ab=:?,.-"
WORDS = [
    "{x}",
    "enroll {t}/{x}.jpg -o {t}/a.glb",
    "enroll {t}/text.jpg -o {t}/{x}.png",
    "enroll {t}/{x} -o {t}/a.glb --face-box {x}",
    "enroll {t}/text.jpg -o {t}/a.glb --generator {x}",
    "enroll {t}/text.jpg -o {t}/{x}/a.glb",
    "enroll {t}/text.jpg -o {t}/a.glb --pd {x}",
    "render {t}/{x}.glb -o {t}/a.png",
    "render {g} -o {t}/a.{x}",
    "render {g} -o {t}/a.png --expression {x}=1",
    "render {g} -o {t}/a.png --motion {t}/{x}",
    "render {g} -o {t}/a.png --background {x}",
    "render {g} -o {t}/a.png --size {x}",
    "render {g} -o {t}/a.png --cameras {t}/{x}",
    "render {t}/text.jpg -o {t}/{x}.png",
    "export {t}/{x} -o {t}/a.obj",
    "export {g} -o {t}/{x}.stl",
    "evaluate {t}/{x}.glb -o {t}/r",
    "track {x} -o {t}/a.csv",
    "track video:{t}/{x} -o {t}/a.csv",
    "track {t}/text.jpg -o {t}/a.{x}",
    "stream {x}",
    "stream csv:{t}/{x}",
    "stream livelink:{x}",
    "stream osc:{x}",
    "stream idle --to {x}",
    "stream idle --to zenoh:{x}",
    "stream idle --token-file {t}/{x}",
    "listen {x}",
    "listen ws:{x}",
    "listen -o {t}/{x}.q",
    "listen --token-file {t}/{x}",
    "view {t}/{x}.glb",
    "view {g} --motion {x} --governor {t}/{x}",
    "view {g} --screenshot {t}/{x}",
    "xr {t}/{x}.glb",
    "xr {g} --governor {t}/{x}",
    "xr {g} --trace {t}/{x}/a.json",
    "bench {t}/{x}.glb",
    "models pull {x}",
    "models verify {x}",
    "models pull astronaut.png --from {t}/{x}",
    "models pull --from {t}/text.jpg {x}",
    "doctor {x}",
    "doctor --{x}",
]


def clean(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    (folder / "text.jpg").write_text("no picture\x1b[2J")
    write_glb(synthetic_avatar(), folder / "head.glb")
    os.environ["AVATAR3D_HOME"] = str(folder / "home")
    yield folder
    del os.environ["AVATAR3D_HOME"]


def run(words: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        code = cli.main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout, sys.stderr = before
    return code, out.getvalue(), err.getvalue()


def filled(template: str, place: Path, text: str) -> list[str]:
    return [word.format(x=text, t=place, g=place / "head.glb") for word in template.split(" ")]


@pytest.mark.parametrize("template", WORDS)
def test_a_hostile_name_is_one_printable_sentence(place, template):
    code, out, err = run(filled(template, place, HOSTILE))
    assert code in (1, 2) and out == "" and err.count("\n") == 1
    assert clean(err) and "Traceback" not in err and "bug" not in err


@settings(max_examples=60, deadline=None, derandomize=True)
@given(template=st.sampled_from(WORDS), text=st.text(LETTERS, min_size=1, max_size=8))
def test_any_name_is(place, template, text):
    _, out, err = run(filled(template, place, text))
    assert clean(out) and clean(err) and "Traceback" not in err


def hostile_strings(value: object) -> object:
    """A glTF's JSON whose names all carry escape sequences."""
    if isinstance(value, dict):
        named = {key: each + HOSTILE for key, each in value.items() if isinstance(each, str) and key in ("name", "generator")}
        return {key: named.get(key, hostile_strings(each)) for key, each in value.items()}
    return [hostile_strings(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("command", ["render {p} -o {t}/b.png --size 32", "export {p} -o {t}/b.obj", "render {p} -o {t}/b.q"])
def test_an_avatars_strings_are_not_passed_on(place, command):
    data = (place / "head.glb").read_bytes()
    size = struct.unpack_from("<I", data, 12)[0]
    text = json.dumps(hostile_strings(json.loads(data[20 : 20 + size]))).encode()
    text += b" " * (-len(text) % 4)
    rest = data[20 + size :]
    path = place / "named.glb"
    path.write_bytes(struct.pack("<4sIII4s", b"glTF", 2, 20 + len(text) + len(rest), len(text), b"JSON") + text + rest)
    _, out, err = run([word.format(p=path, t=place) for word in command.split()])
    assert clean(out) and clean(err) and "Traceback" not in err


def test_the_doctor_prints_what_the_environment_holds_as_text(place, monkeypatch):
    manifest = place / "runtime.json"
    manifest.write_text(json.dumps({"runtime": {"name": HOSTILE, "library_path": "libx.so"}}))
    monkeypatch.setenv("XR_RUNTIME_JSON", str(manifest))
    monkeypatch.setenv("DISPLAY", HOSTILE)
    monkeypatch.setenv("AVATAR3D_HOME", str(place / HOSTILE))
    code, out, err = run(["doctor"])
    assert code == 0 and "owned" in out and clean(out) and clean(err)
    assert json.loads(run(["doctor", "--json"])[1])["checks"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bars_label_stays_on_its_line(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with printable_stderr(), ProgressBar() as bar:
        bar(0.3, f"reading {HOSTILE}")
    shown = screen.getvalue()
    assert "reading a" in shown and clean(shown.replace("\r", ""))


LIBRARY = """
import sys, threading, warnings
from dataclasses import replace
from avatar3d import cli
def fail(arguments):
    warnings.warn(hostile)
    thread = threading.Thread(target=lambda: 1 / int(hostile))
    thread.start()
    thread.join()
    raise RuntimeError(hostile)
hostile = sys.argv[1]
cli.program.COMMANDS["doctor"] = replace(cli.program.COMMANDS["doctor"], run=fail)
sys.exit(cli.main(["doctor"]))
"""


def test_tracebacks_and_warnings_of_libraries_are_plain():
    done = subprocess.run([sys.executable, "-W", "default", "-c", LIBRARY, HOSTILE], capture_output=True, check=False)
    shown = done.stderr.decode()
    assert done.returncode == 1 and done.stdout == b""
    assert shown.count("owned") >= 3 and shown.count("Traceback") == 2 and "UserWarning" in shown
    assert all(letter.isprintable() or letter in "\n\r\t" for letter in shown)


def test_a_path_for_a_program_is_left_as_it_is(place, monkeypatch):
    monkeypatch.setenv("AVATAR3D_HOME", str(place / "h\x1b"))
    done = subprocess.run(
        [sys.executable, "-m", "avatar3d.cli", "models", "list", "--print-path"], capture_output=True, text=True, check=True
    )
    assert str(place / "h\x1b") in done.stdout
