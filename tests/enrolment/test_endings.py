"""An enrolment that is ended, at any stage, by any signal, or by a full disk, leaves the old avatar and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from samples import model, sample

from avatar3d import cli


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="copies of a process in its middle are made by fork")
@pytest.mark.parametrize("old", [b"the old avatar", None])
def test_an_ended_enrolment_leaves_what_was_there(tmp_path, old):
    model("face_landmarker.task")
    with Image.open(sample("astronaut.png")) as picture:
        picture.convert("RGB").crop((90, 0, 390, 300)).save(tmp_path / "photo.png")
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "me.glb"
    if old is not None:
        target.write_bytes(old)
    command = [sys.executable, str(Path(__file__).with_name("ending.py")), str(tmp_path / "photo.png"), str(target)]
    done = subprocess.run([*command, "--no-field", "--no-hair"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    *ended, last = results
    assert last[:2] == ["no trouble", 0] and last[3] == ["me.glb"]
    stages = {what.split(":")[0] for what, *_ in ended}
    assert {"reading the photo", "finding the face", "fitting the head", "painting the skin", "writing the avatar"} <= stages
    for what, code, said, names, kept in ended:
        assert kept and names == ([] if old is None else ["me.glb"]), what
        if "SIGKILL" in what:
            assert code == -9, what
        elif "SIG" in what:
            assert (code, said.strip()) == (cli.EXIT_INTERRUPTED, "avatar3d: interrupted; nothing was left half-written"), (
                what,
                said,
            )
        else:
            assert code == 1 and said.count("\n") == 1 and "nothing was left half-written" in said, (what, said)
