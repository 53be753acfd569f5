"""The wheel carries everything: built, installed without the checkout, it enrols a photo and draws the avatar."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from samples import sample

from avatar3d.glb import read_glb

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_installed_wheel_enrols_a_photo(tmp_path, preview):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "avatar3d/_data/assets/head.npz" in names
    assert any(name.startswith("avatar3d/_data/shaders/") and name.endswith(".glsl") for name in names)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    binaries = tmp_path / "venv" / "bin"
    constraints = ROOT / "tools" / "constraints.txt"
    subprocess.run(
        [binaries / "pip", "install", "-q", "-c", constraints, f"avatar3d[train] @ {wheel.as_uri()}"], check=True, cwd=tmp_path
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    photo = sample("astronaut.png")

    def run(*arguments: object) -> dict:
        command = [binaries / "avatar3d", *map(str, arguments), "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
        return json.loads(done.stdout)

    enrolled = run("enroll", photo, "-o", tmp_path / "me.glb", "--no-field")
    assert enrolled["faces_found"] == 1 and (tmp_path / "me.glb").stat().st_size == enrolled["bytes"]
    # The same head as from the checkout, in this process.
    avatar = read_glb(tmp_path / "me.glb")
    np.testing.assert_allclose(avatar.vertices, preview.vertices, atol=1e-6)
    assert np.array_equal(avatar.base_color, preview.base_color)
    assert np.array_equal(avatar.hair.color, preview.hair.color)
    drawn = run("render", tmp_path / "me.glb", "-o", tmp_path / "me.png", "--size", 128)
    assert Path(drawn["files"][0]).stat().st_size > 1000
