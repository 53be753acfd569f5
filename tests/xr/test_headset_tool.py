"""tools/headset without its packages: how it finds the mirror, runs commands under a loader, and refuses what cannot work."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "headset"


@pytest.fixture(scope="module")
def tool():
    loader = importlib.machinery.SourceFileLoader("headset_tool", str(TOOL))
    spec = importlib.util.spec_from_loader("headset_tool", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


def test_both_kinds_of_apt_source_are_read(tool):
    deb822 = (
        "Types: deb deb-src\n# a comment\nURIs: http://mirror.example/debian http://other.example/\n"
        "Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/debian.gpg\n\n"
        "Types: deb-src\nURIs: http://sources.example/\nSuites: bookworm\n\n"
        "Types: deb\nEnabled: no\nURIs: http://off.example/\nSuites: bookworm\n"
    )
    assert list(tool.deb822_entries(deb822)) == [
        ("http://mirror.example/debian", ["bookworm", "bookworm-updates"], "/usr/share/keyrings/debian.gpg")
    ]
    lines = (
        "# deb http://no.example bookworm main\ndeb [arch=amd64 signed-by=/k.gpg] https://a.example/debian bookworm main\n"
        "deb http://b.example trixie main contrib # why\ndeb-src http://c.example bookworm main\ndeb\n"
    )
    assert list(tool.one_line_entries(lines)) == [
        ("https://a.example/debian", ["bookworm"], "/k.gpg"),
        ("http://b.example", ["trixie"], ""),
    ]


def test_a_python_script_runs_under_the_loader_with_its_own_interpreter(tool, tmp_path):
    script = tmp_path / "hello"
    script.write_text(f"#!{sys.executable} -I\nprint(1)\n")
    script.chmod(0o755)
    command = tool.under_loader(tmp_path, [str(script), "--json"])
    assert command[0].endswith("ld-linux-x86-64.so.2")
    assert command[3:] == ["--argv0", sys.executable, os.path.realpath(sys.executable), "-I", str(script), "--json"]


def test_a_shell_script_and_a_missing_command_are_refused_in_a_sentence(tool, tmp_path):
    script = tmp_path / "hello"
    script.write_text("#!/bin/sh\ntrue\n")
    script.chmod(0o755)
    with pytest.raises(tool.Failure, match="expected a Python script"):
        tool.under_loader(tmp_path, [str(script)])
    with pytest.raises(tool.Failure, match="was not found"):
        tool.under_loader(tmp_path, ["no-such-program-here"])


def test_without_a_command_it_says_how_to_give_one():
    done = subprocess.run([sys.executable, TOOL, "--null"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert "after --" in done.stderr


def test_a_screen_dump_becomes_a_picture(tool, tmp_path):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    header = bytearray(100 + 8)
    struct.pack_into(">6I", header, 0, 108, 7, 2, 24, 7, 5)
    struct.pack_into(">I", header, 48, 7 * 4 + 4)
    struct.pack_into(">I", header, 76, 2)
    rows = b"".join(row.tobytes() + b"\0" * 4 for row in pixels)
    (tmp_path / "screen").write_bytes(bytes(header) + b"\0" * 24 + rows)
    tool.save_screen(tmp_path / "screen", tmp_path / "screen.png")
    with Image.open(tmp_path / "screen.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), pixels[..., 2::-1])


def test_folders_of_killed_runs_are_swept_and_those_of_running_ones_kept(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool.tempfile, "gettempdir", lambda: str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f"{tool.RUN_PREFIX}{dead.pid}-x").mkdir()
    (tmp_path / f"{tool.RUN_PREFIX}{os.getppid()}-y").mkdir()
    with tool.run_folder() as folder:
        assert folder.is_dir() and (folder.stat().st_mode & 0o777) == 0o700
        names = {entry.name for entry in tmp_path.iterdir()}
        assert names == {folder.name, f"{tool.RUN_PREFIX}{os.getppid()}-y"}
    assert not folder.exists()


def _message(kind, **fields):
    """A record of Monado's account: numbered fields as varints, `name` as text, which is left out on reading."""

    def varint(value):
        out = b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    text = varint(9 << 3 | 2) + varint(3) + b"ab\x10"  # the last byte would be a number's key
    body = text + b"".join(varint(int(key[1:]) << 3) + varint(value) for key, value in fields.items()) + text
    inside = varint(kind << 3 | 2) + varint(len(body)) + body
    return varint(len(inside)) + inside


def test_what_the_display_showed_is_told_from_its_account(tool, tmp_path):
    second = 1_000_000_000
    account = b"".join(
        [
            *(_message(2, f2=frame, f6=frame * second, f7=second) for frame in (1, 2, 3, 4)),
            *(_message(4, f1=10 + refresh, f2=refresh * second) for refresh in (1, 2, 3, 4, 5)),
            # The first in time and then again, the second late, the third never, the last in time.
            *(_message(3, f2=frame, f3=10 + refresh) for frame, refresh in ((1, 1), (1, 2), (2, 3), (4, 4), (4, 5))),
        ]
    )
    path = tmp_path / "metrics"
    path.write_bytes(account)
    told = "the display showed 3 of 4 frames in 5 refreshes, 2 of them in time"
    assert tool.shown(path) == told
    path.write_bytes(account + account[:3])  # the last record was cut off by the end of the service
    assert tool.shown(path) == told
    assert tool.shown(tmp_path / "none").startswith("the display showed 0 of 0 frames")
